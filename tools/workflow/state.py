"""A request as it is kept, what can be done to it, and what the world is told afterwards. All frozen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias

from pydantic import Field

from tools.spec import Frozen

RULE = "system:rule"
"""The actor of what a rule of the process did."""


class Kind(StrEnum):
    """What a task asks of its assignee."""

    APPROVE = "approve"
    REVISE = "revise"
    """The author's own: resubmit or withdraw, never approve."""


class Decision(StrEnum):
    APPROVE = "approve"
    REJECT = "reject"
    RESUBMIT = "resubmit"
    WITHDRAW = "withdraw"


ALLOWED: Mapping[Kind, frozenset[Decision]] = {
    Kind.APPROVE: frozenset({Decision.APPROVE, Decision.REJECT}),
    Kind.REVISE: frozenset({Decision.RESUBMIT, Decision.WITHDRAW}),
}


SPEAKING = ALLOWED[Kind.APPROVE]
"""The decisions about somebody else's request."""


class Status(StrEnum):
    WAITING = "waiting"
    REVISE = "revise"
    APPROVED = "approved"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"


OPEN = frozenset({Status.WAITING, Status.REVISE})


class Filled(Frozen):
    """A form that passed validation, and what code worked out from it."""

    values: dict[str, str]
    """Field → canonical text; a person is an id."""
    people: dict[str, str] = Field(default_factory=dict)
    """Further approvers that the process chose: level → person id."""
    numbers: dict[str, Decimal] = Field(default_factory=dict)
    """What conditions compare: amounts, days, thresholds."""
    estimated: bool = False
    """True: working days of a year whose holidays are not published yet."""

    @property
    def days(self) -> str:
        """Working days as text, or empty for a process that has none."""
        return plain(self.numbers["days"]) if "days" in self.numbers else ""

    @property
    def sha(self) -> str:
        """Names this very content: what a card shows is bound to it."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def plain(number: Decimal) -> str:
    """`8`, `0.5`: without trailing zeros or an exponent."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


class Task(Frozen):
    """One thing one person is asked to do. It is decided at most once."""

    id: str
    """`<request>-<n>`."""
    node: str
    kind: Kind
    assignee: str
    since: datetime
    round: int
    """Grows with every resubmission."""
    outcome: str = ""
    """A `Decision`, `closed` when the request ended otherwise, or empty while open."""
    closed: datetime | None = None

    @property
    def open(self) -> bool:
        return not self.outcome


class Opinion(Frozen):
    """What somebody said when deciding. Never touches the form."""

    task: str
    node: str
    by: str
    at: datetime
    decision: Decision
    text: str
    round: int


class Event(Frozen):
    """One line of the request's own, append-only record."""

    n: int
    at: datetime
    by: str
    """Person id, or `system:rule`."""
    what: str
    """`start`, `decide`, `withdraw`, `flow`, `rule`, `assign`, `end`."""
    node: str = ""
    task: str = ""
    flow: str = ""
    condition: str = ""
    """The flow's condition; empty for an unconditional or a default flow."""
    text: str = ""
    form: dict[str, str] = Field(default_factory=dict)
    """The values that were submitted (start, resubmission)."""


class Request(Frozen):
    """One running or ended process."""

    id: str
    process: str
    definition: str
    """SHA-256 of the BPMN file it was started with, and stays with."""
    form: str
    """SHA-256 of the form file, likewise."""
    initiator: str
    status: Status
    filled: Filled
    started: datetime
    changed: datetime
    round: int = 1
    decision: str = ""
    """The decision being carried along the flows; cleared on entering a task."""
    rule: str = ""
    """Node of the rule that passed it, if one did."""
    tasks: tuple[Task, ...] = ()
    opinions: tuple[Opinion, ...] = ()
    events: tuple[Event, ...] = ()

    @property
    def running(self) -> bool:
        return self.status in OPEN

    @property
    def open_tasks(self) -> tuple[Task, ...]:
        return tuple(t for t in self.tasks if t.open)

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Person ids."""
        return tuple(t.assignee for t in self.open_tasks)

    def task(self, task_id: str) -> Task | None:
        return next((t for t in self.tasks if t.id == task_id), None)


class Start(Frozen):
    request: str
    process: str
    definition: str
    form: str
    initiator: str
    filled: Filled


class Decide(Frozen):
    task: str
    actor: str
    decision: Decision
    opinion: str = ""
    filled: Filled | None = None
    """For a resubmission: the form as it is now; None leaves it as it was."""


class Withdraw(Frozen):
    actor: str
    reason: str = ""


Command: TypeAlias = Start | Decide | Withdraw


class Notice(Frozen):
    """Something to tell people: `assigned`, `task_closed`, `ended`."""

    kind: str
    data: dict[str, str]
