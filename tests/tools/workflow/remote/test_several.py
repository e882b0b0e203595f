"""Steps that several people decide: on every engine as in the embedded one, word for word."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.harness.memory_store import MemoryStore
from tests.tools.workflow.remote.company import (
    LI,
    NOW,
    PROCESSES,
    ZHANG,
    ZHAO,
    World,
)
from tools.spec import Person
from tools.workflow.engine.commands import DecideCommand
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.state import Decision, Request

QIAN = Person(id="U7", name="钱七", email="qianqi@example.com", roles=frozenset({"finance"}))
SUN = Person(id="U8", name="孙八", email="sunba@example.com", roles=frozenset({"finance"}))
CAR = {"amount": "1200", "category": "transport", "reason": "去客户现场", "approver": "U2"}
OK, NO, BACK, AGAIN, END = "approve", "reject", "return", "resubmit", "withdraw"
Steps = Sequence[tuple[Person, str] | tuple[Person, str, str]]
STORIES: dict[str, tuple[str, Steps]] = {
    "all agree": ("expense", [(LI, OK), (ZHAO, OK), (SUN, OK), (QIAN, OK)]),
    "one of all refuses": ("expense", [(LI, OK), (QIAN, OK), (ZHAO, NO), (ZHANG, AGAIN), (LI, OK), (QIAN, OK)]),
    "the first of all refuses and it is given up": ("expense", [(LI, OK), (SUN, NO), (ZHANG, END)]),
    "back to the author and through": (
        "expense",
        [(LI, OK), (SUN, OK), (QIAN, BACK), (ZHANG, AGAIN), (LI, OK), (QIAN, OK), (ZHAO, OK), (SUN, OK)],
    ),
    "back to the step before": (
        "expense",
        [(LI, OK), (ZHAO, BACK, "approval"), (LI, OK), (ZHAO, OK), (SUN, OK), (QIAN, OK)],
    ),
    "back from the last who is asked": ("expense", [(LI, OK), (ZHAO, OK), (SUN, OK), (QIAN, BACK), (ZHANG, END)]),
    "in turn": ("turns", [(LI, OK), (QIAN, OK), (SUN, OK), (ZHAO, OK)]),
    "in turn, the second refuses": (
        "turns",
        [(LI, OK), (QIAN, OK), (SUN, NO), (ZHANG, AGAIN), (LI, OK), (QIAN, OK), (SUN, OK), (ZHAO, OK)],
    ),
    "in turn, the second returns it": (
        "turns",
        [(LI, OK), (QIAN, OK), (SUN, BACK, "approval"), (LI, OK), (QIAN, OK), (SUN, OK), (ZHAO, OK)],
    ),
    "any of them agrees": ("any", [(LI, OK), (QIAN, OK)]),
    "any of them refuses": ("any", [(LI, OK), (SUN, NO), (ZHANG, AGAIN), (LI, OK), (ZHAO, OK)]),
    "any of them returns it": ("any", [(LI, OK), (SUN, BACK), (ZHANG, AGAIN), (LI, OK), (QIAN, OK)]),
    "a candidate agrees": ("group", [(LI, OK), (SUN, OK)]),
}


def describe(request: Request) -> dict[str, Any]:
    """All that people see of it, but ids and times."""
    tasks = [(t.node, t.kind, t.assignee, t.outcome, t.by, t.round) for t in request.tasks]
    return {
        "status": request.display_status,
        "waits for": request.waits_for,
        "decisions": request.decisions,
        "tasks": tasks,
        "opinions": [(o.node, o.by, o.decision, o.text, o.round) for o in request.opinions],
        "copies": request.cc,
        "ballots": [
            (v.node, v.kind, v.ballot.mode, [(s.person, s.vote) for s in v.ballot.seats]) for v in request.visits
        ],
    }


@pytest.fixture
async def finance(world: World) -> World:
    """Three of finance."""
    world.people.known += [QIAN, SUN]
    return world


def find_task(request: Request, person: Person) -> str:
    return next(t.id for t in request.open_tasks if t.assignee == person.id)


async def start(world: World, process: str = "expense", approver: Person = LI) -> str:
    return (await world.start({**CAR, "approver": approver.id}, process)).request


async def play(world: World, process: str, steps: Steps) -> None:
    """On the embedded engine and on this one, which answers alike after each step."""
    embedded = EmbeddedEngine(MemoryStore(), PROCESSES, world.people)
    form = {**CAR, "approver": steps[0][0].id}
    answers = [await world.start(form, process), await embedded.start_request(process, form, ZHANG.id, "s", NOW)]
    number = answers[0].request
    for n, (actor, decision, *to) in enumerate(steps):
        here, there = await world.engine.get_request(number), await embedded.get_request(number)
        assert describe(here) == describe(there), n
        assert answers[0].model_copy(update={"task": answers[1].task}).model_dump() == answers[1].model_dump(), n
        more = {"decision": Decision(decision), "actor": actor.id, "opinion": "看过了", "to": "".join(to)}
        answers = [
            await engine.execute_command(
                DecideCommand(task=find_task(request, actor), **more), f"e{n}", NOW + timedelta(minutes=n)
            )
            for engine, request in ((world.engine, here), (embedded, there))
        ]
    here, there = await world.engine.get_request(number), await embedded.get_request(number)
    assert describe(here) == describe(there)


async def test_of_several_of_whom_one_decides_nobody_is_asked_who_has_decided_before(finance: World) -> None:
    finance.people.known[1] = LI.model_copy(update={"roles": frozenset({"finance"})})
    await play(finance, "group", [(LI, OK), (SUN, BACK, "approval"), (LI, OK), (ZHAO, OK)])


@pytest.mark.parametrize("story", STORIES)
async def test_several_people_decide_as_in_the_embedded_engine(finance: World, story: str) -> None:
    process, steps = STORIES[story]
    await play(finance, process, steps)
