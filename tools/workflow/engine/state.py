"""A request as it is kept: its form, its tasks, who has a say and what was said. All frozen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from tools.spec import FrozenModel
from tools.workflow.bpmn.graph import VotingMode

SYSTEM = "system:"
RULE = "system:rule"
"""The actor of what a rule of the process did."""
TIMER = "system:timer"
"""The actor of what happened because time passed."""
REVOKING = "withdrawal"
"""Stands for a node where people agree that an approved request is withdrawn; no process file has it."""


class TaskKind(StrEnum):
    """What a task asks of its assignee."""

    APPROVE = "approve"
    REVISE = "revise"
    """The author's own: resubmit or withdraw, never approve."""
    REVOKE = "revoke"
    """Agree, or not, that an approved request is withdrawn."""


class Decision(StrEnum):
    APPROVE = "approve"
    REJECT = "reject"
    RETURN = "return"
    """Back to the author, or to an earlier step."""
    RESUBMIT = "resubmit"
    WITHDRAW = "withdraw"


ALLOWED: Mapping[TaskKind, frozenset[Decision]] = {
    TaskKind.APPROVE: frozenset({Decision.APPROVE, Decision.REJECT, Decision.RETURN}),
    TaskKind.REVISE: frozenset({Decision.RESUBMIT, Decision.WITHDRAW}),
    TaskKind.REVOKE: frozenset({Decision.APPROVE, Decision.REJECT}),
}
SPEAKING = ALLOWED[TaskKind.APPROVE]
"""The decisions about somebody else's request."""


class Status(StrEnum):
    WAITING = "waiting"
    REVISE = "revise"
    REVOKING = "revoking"
    """Approved; its withdrawal waits for agreement."""
    APPROVED = "approved"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"


OPEN = frozenset({Status.WAITING, Status.REVISE, Status.REVOKING})


class CompactModel(FrozenModel):
    """Kept without what is as by default: a request is read and written at every step."""

    def model_dump_json(self, **how: Any) -> str:
        return super().model_dump_json(**{"exclude_defaults": True, **how})


class CompactRecord(CompactModel):
    """A record of its own. `v` as in `tools.spec.StoredModel`; the first form is kept without it."""

    v: Literal[1] = 1


LATER = ("exceptions", "exceeded")
"""Fields of `FilledForm` that the first version did not have."""


class FilledForm(CompactModel):
    """A form that passed validation, and what code worked out from it."""

    values: dict[str, str]
    """Field → canonical text; a person is an id, several are ids with commas between."""
    people: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """What the process chose: level, `role:<name>` or a service task's id → person ids."""
    numbers: dict[str, Decimal] = Field(default_factory=dict)
    """What conditions compare: amounts, days, thresholds."""
    estimated: bool = False
    """True: working days of a year whose holidays are not published yet."""
    exceptions: dict[str, tuple[str, ...]] | None = None
    """Person field that decides → whom the rules named for it, where its author chose somebody else by a row that
    permits it. None: filled in by a version that did not ask the rules about person fields."""
    exceeded: tuple[str, ...] = ()
    """Bounds (`forms.RollingLimit`) that this request and the author's earlier ones reach together."""

    def resolve_people(self, name: str) -> tuple[str, ...]:
        """The people that a name of the process stands for."""
        found = self.people.get(name)
        return found if found is not None else tuple(p for p in self.values.get(name, "").split(",") if p)

    @property
    def days(self) -> str:
        """Working days as text, or empty for a process that has none."""
        return format_decimal(self.numbers["days"]) if "days" in self.numbers else ""

    @property
    def content_hash(self) -> str:
        """Names this very content: what a card shows is bound to it. Fields that later versions added count only
        where they say something, so that a form of the version before keeps its name."""
        later = {name for name in LATER if getattr(self, name) == type(self).model_fields[name].default}
        text = json.dumps(self.model_dump(mode="json", exclude=later), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def format_decimal(number: Decimal) -> str:
    """`8`, `0.5`: without trailing zeros or an exponent."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


class Task(CompactModel):
    """One thing one person is asked to do. It is decided at most once."""

    id: str
    """`<request>-<n>`."""
    node: str
    kind: TaskKind
    seat: int
    assignee: str
    since: datetime
    round: int = 1
    """Grows with every resubmission."""
    outcome: str = ""
    """A `Decision`, else why it was closed (`settled`, `transferred`, `added`, `escalated`, `returned`, a status), or
    empty while open."""
    closed: datetime | None = None
    by: str = ""
    """Person id of who decided: the assignee, or who stood in."""
    fired: tuple[str, ...] = ()
    """Timers that have gone off."""
    urged: tuple[datetime, ...] = ()

    @property
    def is_open(self) -> bool:
        return not self.outcome


class Seat(CompactModel):
    """One person's say in a decision, with whoever was asked beside them (add sign)."""

    n: int
    """Unique in the request."""
    person: str
    vote: str = ""
    """`approve`, `reject`, or empty."""
    before: Ballot | None = None
    """Asked first; then it is this person's turn."""
    beside: Ballot | None = None
    """Asked at the same time; both have to agree."""
    after: Ballot | None = None
    """Asked once this person has agreed."""


class Ballot(CompactModel):
    """Several seats and how their votes count together."""

    mode: VotingMode = VotingMode.ALL
    seats: tuple[Seat, ...]


class Visit(CompactModel):
    """One user task that is going on."""

    node: str
    kind: TaskKind
    ballot: Ballot


class Opinion(CompactModel):
    """What somebody said when deciding. Never touches the form."""

    task: str
    node: str
    by: str
    on_behalf: str = ""
    """Person id of the assignee, when somebody stood in."""
    at: datetime
    decision: str
    """A `Decision` about somebody else's request, or `transfer`, `handle_add_sign`, `comment`."""
    text: str = ""
    round: int = 1


class Request(CompactRecord):
    """One running or ended process."""

    id: str
    process: str
    definition: str
    """SHA-256 of the BPMN file it was started with, and stays with."""
    form: str
    """SHA-256 of the form file, likewise."""
    initiator: str
    status: Status
    filled: FilledForm
    started: datetime
    changed: datetime
    round: int = 1
    seats: int = 0
    """How many seats there have been."""
    visits: tuple[Visit, ...] = ()
    """What is going on now."""
    arrived: tuple[str, ...] = ()
    """Flows that wait at a parallel gateway for the others."""
    decisions: dict[str, str] = Field(default_factory=dict)
    """User task → how it was decided, as far as that still counts: not after it was entered anew, not after a return
    to an earlier step or a resubmission."""
    rule: str = ""
    """Node of the rule that passed it, if one did."""
    tasks: tuple[Task, ...] = ()
    opinions: tuple[Opinion, ...] = ()
    cc: tuple[str, ...] = ()
    """Person ids that were told about it and may read it."""
    events: int = 0
    """How many there are."""
    head: str = ""
    """Hash of the last one."""

    @property
    def is_running(self) -> bool:
        return self.status in OPEN

    @property
    def display_status(self) -> str:
        """How it stands, for people: its status, and of one that is back with its author, whether it was rejected or
        returned: `revise_reject`, `revise_return`."""
        if self.status is not Status.REVISE:
            return self.status.value
        back = (o.decision for o in reversed(self.opinions) if o.decision in (Decision.REJECT, Decision.RETURN))
        return "_".join(filter(None, (self.status.value, next(back, ""))))

    @property
    def open_tasks(self) -> tuple[Task, ...]:
        return tuple(t for t in self.tasks if t.is_open)

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Person ids."""
        return tuple(dict.fromkeys(t.assignee for t in self.open_tasks))

    @property
    def participants(self) -> frozenset[str]:
        """Who may read it, besides administrators: the author, whoever had a task or stood in, and cc."""
        return frozenset(self._list_participants())

    def _list_participants(self) -> Iterator[str]:
        yield self.initiator
        yield from self.cc
        for task in self.tasks:
            yield task.assignee
            if task.by:
                yield task.by

    def find_task(self, task_id: str) -> Task | None:
        return next((t for t in self.tasks if t.id == task_id), None)


class Delegation(CompactRecord):
    """Somebody is away, and who stands in meanwhile."""

    id: str
    person: str
    deputy: str
    start: datetime
    end: datetime
    """Exclusive."""

    def is_active_at(self, now: datetime) -> bool:
        return self.start <= now < self.end


Seat.model_rebuild()
