"""A small company for the tests of tools: people, a desk, and the ways tools are used."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from typing import Any

import pytest

from bot.agent.model import ToolCallRequest
from bot.agent.tool_executor import ReadCache, ToolExecutor, format_observation
from bot.agent.tool_search import ToolSelector
from bot.core.i18n import render_receipt_line, render_value, translate_label
from tests.harness.memory_mailer import MemoryMailer
from tests.harness.memory_platform import MemoryDirectory
from tests.harness.memory_store import MemoryStore
from tests.tools.company import GONE, LI, LIN, LONG, NOW, PEOPLE, SHORT, SICK, TAXI, WANG, ZHANG, ZHAO, filled
from tools.catalog import TOOLS
from tools.outside import Outside
from tools.requests.start_tools import StartTools
from tools.spec import Caller, EffectPlace, Person, Proposal, ToolError, ToolOutcome
from tools.tasks.task_actions import StoredDecision, check_task_decision
from tools.tasks.todo import propose_decision
from tools.tool import Tool, ToolContext, ToolServices
from tools.workflow.engine.commands import DecideCommand, WithdrawCommand
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.port import CommandResult, Engine
from tools.workflow.engine.state import Decision
from tools.workflow.process.definition import Process, load_shipped_processes
from tools.workflow.process.policy import PolicyRow

__all__ = ["GONE", "LI", "LIN", "LONG", "NOW", "PEOPLE", "SHORT", "SICK", "TAXI", "WANG", "ZHANG", "ZHAO", "filled"]


async def allow_sending() -> None:
    """The lease is always ours here."""


class People(MemoryDirectory):
    """The directory, in memory: it is as fresh as can be."""

    def change(self, person: Person | str, **changes: object) -> None:
        super().change(person if isinstance(person, str) else person.id, **changes)


@dataclass
class Office:
    people: People
    engine: EmbeddedEngine
    mailer: MemoryMailer
    keys: Any = field(default_factory=lambda: count(1))
    now: datetime = NOW
    services: dict[str, Any] = field(default_factory=dict)
    """What tools are given besides, such as a handbook."""

    @property
    def desk(self) -> ToolServices:
        return ToolServices(directory=self.people, engine=self.engine, render_text=render_value, **self.services)

    @property
    def outside(self) -> Outside:
        return Outside(mailer=self.mailer, assert_may_send=allow_sending)

    def use(self, person: Person, key: str = "") -> ToolContext:
        key = key or f"k{next(self.keys)}"
        return ToolContext(self.desk, Caller(person), self.now.astimezone(person.zone), idempotency_key=key)

    async def read(self, person: Person, tool: str, /, **args: Any) -> ToolOutcome:
        """Use a tool that only reads."""
        card = known(tool)
        outcome: ToolOutcome = await seen(card, card.run(self.use(person), card.args.model_validate(args)))
        return outcome

    async def look(self, person: Person, tool: str, /, **args: Any) -> dict[str, Any]:
        """What a tool that only reads gives the model."""
        return (await self.read(person, tool, **args)).data

    async def plan(self, person: Person, tool: str, /, **args: Any) -> Proposal:
        card = known(tool)
        plan: Proposal = await seen(card, card.prepare(self.use(person), card.args.model_validate(args)))
        return plan

    async def press(
        self, person: Person, tool: str, plan: Proposal, choice: str, form: Mapping[str, str] | None = None,
        key: str = "",
    ) -> ToolOutcome:  # fmt: skip
        """A button pressed by somebody: what runs is exactly what the plan and the button say."""
        card = known(tool)
        assert card.stored_args is not None
        button = next(c for c in plan.choices if c.name == choice)
        stored = card.stored_args.model_validate({**plan.args, **button.fixed_args, **(form or {})})
        is_outside = card.effect_place is EffectPlace.OUTSIDE
        use = replace(self.use(person, key), outside=self.outside if is_outside else None)
        outcome: ToolOutcome = await seen(card, card.run(use, stored))
        return outcome

    async def do(self, person: Person, tool: str, choice: str = "confirm", /, **args: Any) -> ToolOutcome:
        return await self.press(person, tool, await self.plan(person, tool, **args), choice)

    async def start(self, form: Mapping[str, str], process: str = "leave", person: Person = ZHANG) -> str:
        outcome = await self.do(person, "start_process", process=process, form=dict(form))
        return str(outcome.data["request"])

    async def card(self, task: str) -> Proposal:
        """The card that the engine's own announcement brings."""
        return await propose_decision(self.use(LI), task)

    async def check(self, person: Person, plan: Proposal, choice: str, form: Mapping[str, str]) -> None:
        """The dialog of a task's card, before it closes."""
        button = next(c for c in plan.choices if c.name == choice)
        assert set(form) <= {f.name for f in button.fields}
        stored = StoredDecision.model_validate({**plan.args, **button.fixed_args, **form})
        await check_task_decision(self.use(person), stored)

    async def edit(self, person: Person, tool: str, plan: Proposal, form: Mapping[str, str]) -> Proposal:
        """What was filled in behind *Edit*: the card anew."""
        (button,) = [c for c in plan.choices if c.edits]
        assert set(form) <= {f.name for f in button.fields}
        return await self.plan(person, tool, **{**plan.args, **form})

    async def decide(
        self, person: Person, task: str, choice: str, form: Mapping[str, str] | None = None, key: str = ""
    ) -> ToolOutcome:
        return await self.press(person, "decide_task", await self.card(task), choice, form, key)


def office(store: Any = None, processes: Sequence[Process] = (), policy: Sequence[PolicyRow] = ()) -> Office:
    people = People()
    engine = EmbeddedEngine(store or MemoryStore(), processes or load_shipped_processes(), people, policy=policy)
    return Office(people, engine, MemoryMailer())


def known(tool: str) -> Tool:
    return next(card for card in TOOLS if card.name == tool)


async def seen(card: Tool, work: Any) -> Any:
    """Every error a tool raises is on its card, and can be said to people."""
    try:
        return await work
    except ToolError as error:
        assert error.code in {*card.errors, *card.also}, f"{card.name} raises {error.code}: not on its card"
        assert render_value(error.note, "en"), "and has everything that its sentence says"
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
) -> CommandResult:
    """A decision straight at the engine."""
    command = DecideCommand(task=task, actor=actor, decision=decision, opinion=opinion, **more)
    return await engine.execute_command(command, key or f"{task} {actor} {decision} {opinion}", NOW, form=form)


async def withdraw(engine: Engine, request: str, actor: str, reason: str = "", key: str = "") -> CommandResult:
    command = WithdrawCommand(request=request, actor=actor, reason=reason)
    return await engine.execute_command(command, key or f"{request} {actor} withdraws", NOW)


async def refused(work: Any) -> ToolError:
    with pytest.raises(ToolError) as error:
        await work
    return error.value


def facts(plan: Proposal, language: str = "zh") -> list[tuple[str, str]]:
    """The facts of a card as they are read."""
    return [(translate_label(f.label, language), render_value(f.value, language)) for f in plan.fields]


def title(plan: Proposal, language: str = "zh") -> str:
    return render_value(plan.title, language)


def receipt(outcome: ToolOutcome, language: str = "zh") -> str:
    """What changed, as the line under an answer says it."""
    assert outcome.receipt_line is not None
    return render_receipt_line(outcome.receipt_line, language)


async def starts(there: Office) -> StartTools:
    made = StartTools()
    await made.refresh_tools(there.engine)
    return made


async def called(there: Office, tool: str, given: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """A call by a model: what is kept, what it came to, and what the model reads of an error."""
    hands = ToolExecutor(ToolSelector(TOOLS, {}, 30, await starts(there)))
    proposed = ToolCallRequest(model_id="call_0", tool=tool, args=given, reason="why")
    more = {"refuse_gated": False, "offered": [tool]}
    call, result = await hands.execute_call(there.use(ZHANG), ReadCache(), "R1:1:0", proposed, **more)
    card = hands.selector.find_tool(tool)
    told = {} if isinstance(result, Proposal) else json.loads(format_observation(result, card))
    return call, result, told


ABOUT_THE_CALLER = re.compile(
    r"^(user|caller|actor|sender|initiator|requester|employee|my|from|who)(_?(id|name|user))?$"
)
"""Names of arguments that would let a model say who asks."""
