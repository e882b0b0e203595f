"""A small company for the tests of tools: people, a desk, and the ways tools are used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import count
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tools.catalog import TOOLS
from tools.mail import MemoryMailer
from tools.spec import Caller, Outcome, Person, Plan, ToolError
from tools.tasks import plan_of
from tools.tool import Desk, Tool, Use
from tools.workflow.calendar import Calendar
from tools.workflow.engine import EmbeddedEngine
from tools.workflow.process import Process, fill, shipped
from tools.workflow.state import Filled
from tools.workflow.store import MemoryStore

NOW = datetime(2026, 11, 20, 10, 0, tzinfo=ZoneInfo("Asia/Shanghai"))
"""A Friday."""

ZHANG = Person(id="U1", name="张三", names=("Zhang San",), email="zhangsan@example.com", locale="zh-CN", manager="U2")
LI = Person(
    id="U2", name="李四", names=("Li Si",), email="lisi@example.com", title="Team lead", locale="zh-CN", manager="U3"
)
WANG = Person(id="U3", name="王五", names=("Wang Wu",), email="wangwu@example.com", roles=frozenset({"director"}))
ZHAO = Person(id="U4", name="赵六", names=("Zhao Liu",), email="", roles=frozenset({"finance"}), manager="U3")
LIN = Person(id="U5", name="李四光", names=("Li Siguang",), email="lin@example.com")
GONE = Person(id="U6", name="钱七", names=("Qian Qi",), active=False)
PEOPLE = (ZHANG, LI, WANG, ZHAO, LIN, GONE)

SICK = {
    "leave_type": "sick",
    "start_date": "2026-11-23",
    "end_date": "2026-11-24",
    "reason": "胃疼",
    "approver": "U2",
}
"""Two working days."""
LONG = {**SICK, "end_date": "2026-11-27"}
"""Five working days: two levels."""
SHORT = {"leave_type": "personal", "start_date": "2026-11-23", "end_date": "2026-11-23", "reason": "搬家"}
"""One working day: passes by rule."""
TAXI = {"amount": "86.5", "category": "transport", "reason": "去客户现场", "approver": "U2"}


@dataclass
class People:
    """The directory, in memory."""

    known: list[Person] = field(default_factory=lambda: list(PEOPLE))

    async def get(self, person: str) -> Person | None:
        return next((p for p in self.known if p.id == person), None)

    async def everyone(self) -> tuple[Person, ...]:
        return tuple(self.known)


def office(store: Any = None) -> Office:
    people = People()
    engine = EmbeddedEngine(store or MemoryStore(), shipped(), people)
    return Office(people, engine, MemoryMailer())


@dataclass
class Office:
    people: People
    engine: EmbeddedEngine
    mailer: MemoryMailer
    keys: Any = field(default_factory=lambda: count(1))

    @property
    def desk(self) -> Desk:
        return Desk(directory=self.people, engine=self.engine, mailer=self.mailer)

    def use(self, person: Person, key: str = "") -> Use:
        return Use(self.desk, Caller(person), NOW, key or f"k{next(self.keys)}")

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
        assert error.code in card.errors, f"{card.name} raises {error.code}, which its card does not name"
        raise


async def refused(work: Any) -> ToolError:
    with pytest.raises(ToolError) as error:
        await work
    return error.value


def filled(process: Process, form: Mapping[str, str], initiator: Person = ZHANG, **thresholds: str) -> Filled:
    """The form as the engine would fill it in today."""
    return fill(
        process,
        form,
        initiator=initiator,
        people=PEOPLE,
        today=NOW.date(),
        calendar=Calendar(),
        numbers={name: Decimal(value) for name, value in thresholds.items()},
    )
