"""A small company for the tests of tools: people, a desk, and the ways tools are used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any

import pytest

from bot.texts import label, literal, tell_effect
from tests.tools.company import GONE, LI, LIN, LONG, NOW, PEOPLE, SHORT, SICK, TAXI, WANG, ZHANG, ZHAO, filled
from tools.catalog import TOOLS
from tools.deciding import DecideStored, check_decide
from tools.smtp import MemoryMailer
from tools.spec import Caller, Outcome, Person, Plan, ToolError
from tools.tasks import plan_of
from tools.tool import Desk, Tool, Use
from tools.workflow.commands import Decide, Withdraw
from tools.workflow.embedded import EmbeddedEngine
from tools.workflow.engine import Engine, Moved
from tools.workflow.memory_store import MemoryStore
from tools.workflow.policy import Row
from tools.workflow.process import Process, shipped
from tools.workflow.state import Decision

__all__ = [
    "GONE",
    "LI",
    "LIN",
    "LONG",
    "NOW",
    "PEOPLE",
    "SHORT",
    "SICK",
    "TAXI",
    "WANG",
    "ZHANG",
    "ZHAO",
    "Office",
    "People",
    "decide",
    "facts",
    "filled",
    "known",
    "office",
    "receipt",
    "refused",
    "seen",
    "title",
    "withdraw",
]


@dataclass
class People:
    """The directory, in memory."""

    known: list[Person] = field(default_factory=lambda: list(PEOPLE))

    async def get(self, person: str) -> Person | None:
        return next((p for p in self.known if p.id == person), None)

    async def everyone(self) -> tuple[Person, ...]:
        return tuple(self.known)

    async def refresh(self, people: Iterable[str]) -> None:
        """Nothing is remembered here: it is as fresh as can be."""


def office(store: Any = None, processes: Sequence[Process] = (), policy: Sequence[Row] = ()) -> Office:
    people = People()
    engine = EmbeddedEngine(store or MemoryStore(), processes or shipped(), people, policy=policy)
    return Office(people, engine, MemoryMailer())


@dataclass
class Office:
    people: People
    engine: EmbeddedEngine
    mailer: MemoryMailer
    keys: Any = field(default_factory=lambda: count(1))
    now: datetime = NOW

    @property
    def desk(self) -> Desk:
        return Desk(directory=self.people, engine=self.engine, mailer=self.mailer, words=literal)

    def use(self, person: Person, key: str = "") -> Use:
        return Use(self.desk, Caller(person), self.now.astimezone(person.zone), key or f"k{next(self.keys)}")

    async def look(self, person: Person, tool: str, /, **args: Any) -> dict[str, Any]:
        """What a tool that only reads gives the model."""
        card = known(tool)
        return (await seen(card, card.run(self.use(person), card.args.model_validate(args)))).data

    async def plan(self, person: Person, tool: str, /, **args: Any) -> Plan:
        card = known(tool)
        assert card.prepare is not None
        plan: Plan = await seen(card, card.prepare(self.use(person), card.args.model_validate(args)))
        return plan

    async def press(
        self, person: Person, tool: str, plan: Plan, choice: str, form: Mapping[str, str] | None = None, key: str = ""
    ) -> Outcome:
        """A button pressed by somebody: what runs is exactly what the plan and the button say."""
        card = known(tool)
        assert card.stored is not None
        button = next(c for c in plan.choices if c.name == choice)
        stored = card.stored.model_validate({**plan.args, **button.fixed, **(form or {})})
        outcome: Outcome = await seen(card, card.run(self.use(person, key), stored))
        return outcome

    async def do(self, person: Person, tool: str, choice: str = "confirm", /, **args: Any) -> Outcome:
        return await self.press(person, tool, await self.plan(person, tool, **args), choice)

    async def start(self, form: Mapping[str, str], process: str = "leave", person: Person = ZHANG) -> str:
        outcome = await self.do(person, "start_process", process=process, form=dict(form))
        return str(outcome.data["request"])

    async def card(self, task: str) -> Plan:
        """The card that the engine's own announcement brings."""
        return await plan_of(self.use(LI), task)

    async def check(self, person: Person, plan: Plan, choice: str, form: Mapping[str, str]) -> None:
        """The dialog of a task's card, before it closes."""
        button = next(c for c in plan.choices if c.name == choice)
        assert set(form) <= {f.name for f in button.fields}
        stored = DecideStored.model_validate({**plan.args, **button.fixed, **form})
        await check_decide(self.use(person), stored)

    async def edit(self, person: Person, tool: str, plan: Plan, form: Mapping[str, str]) -> Plan:
        """What was filled in behind *Edit*: the card anew."""
        (button,) = [c for c in plan.choices if c.replans]
        assert set(form) <= {f.name for f in button.fields}
        return await self.plan(person, tool, **{**plan.args, **form})

    async def decide(
        self, person: Person, task: str, choice: str, form: Mapping[str, str] | None = None, key: str = ""
    ) -> Outcome:
        return await self.press(person, "decide_task", await self.card(task), choice, form, key)


def known(tool: str) -> Tool:
    return next(card for card in TOOLS if card.name == tool)


async def seen(card: Tool, work: Any) -> Any:
    """Every error a tool raises is on its card."""
    try:
        return await work
    except ToolError as error:
        assert error.code in {*card.errors, *card.also}, (
            f"{card.name} raises {error.code}, which its card does not name"
        )
        raise


async def decide(
    engine: Engine,
    task: str,
    actor: str,
    decision: Decision,
    opinion: str = "",
    form: Mapping[str, str] | None = None,
    key: str = "",
    **more: Any,
) -> Moved:
    """A decision straight at the engine."""
    command = Decide(task=task, actor=actor, decision=decision, opinion=opinion, **more)
    return await engine.act(command, key or f"{task} {actor} {decision} {opinion}", NOW, form=form)


async def withdraw(engine: Engine, request: str, actor: str, reason: str = "", key: str = "") -> Moved:
    command = Withdraw(request=request, actor=actor, reason=reason)
    return await engine.act(command, key or f"{request} {actor} withdraws", NOW)


async def refused(work: Any) -> ToolError:
    with pytest.raises(ToolError) as error:
        await work
    return error.value


def facts(plan: Plan, language: str = "zh") -> list[tuple[str, str]]:
    """The facts of a card as they are read."""
    return [(label(f.label, language), literal(f.value, language)) for f in plan.facts]


def title(plan: Plan, language: str = "zh") -> str:
    return literal(plan.title, language)


def receipt(outcome: Outcome, language: str = "zh") -> str:
    """What changed, as the line under an answer says it."""
    assert outcome.effect is not None
    return tell_effect(outcome.effect, language)
