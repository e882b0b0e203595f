"""A request as stored: its form, its tasks, its deciders and their opinions. All models are frozen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from tools.spec import AttachedFile, FrozenModel
from tools.workflow.bpmn.graph import VotingMode

SYSTEM = "system:"
RULE = "system:rule"
"""The actor of a rule of the process."""
TIMER = "system:timer"
"""The actor of a timer."""
REVOKING = "withdrawal"
"""Stands for a node where people agree to withdraw an approved request; no process file has it."""


class TaskKind(StrEnum):
    """The kind of decision that a task asks for."""

    APPROVE = "approve"
    REVISE = "revise"
    """The author's own task: resubmit or withdraw, never approve."""
    REVOKE = "revoke"
    """Agree or not to the withdrawal of an approved request."""


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
APPROVAL_DECISIONS = ALLOWED[TaskKind.APPROVE]
"""The decisions about somebody else's request."""


class Status(StrEnum):
    WAITING = "waiting"
    REVISE = "revise"
    REVOKING = "revoking"
    """Approved, but the withdrawal waits for agreement."""
    APPROVED = "approved"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"


OPEN = frozenset({Status.WAITING, Status.REVISE, Status.REVOKING})
COUNTED = frozenset({Status.WAITING, Status.REVOKING, Status.APPROVED})
"""Statuses in which a request holds its days and its amount. A request that came back to its author holds nothing until
it is handed in again."""


class CompactModel(FrozenModel):
    """A model stored without default values, because a request is read and written at every step."""

    def model_dump_json(self, **how: Any) -> str:
        return super().model_dump_json(**{"exclude_defaults": True, **how})


class CompactRecord(CompactModel):
    """A record of its own. `v` has the meaning of `tools.spec.StoredModel`; the first version is stored without it."""

    v: Literal[1] = 1


OWN_DAYS, NEIGHBOURS = "days:own", "days:neighbours"
"""Names in `FilledForm.numbers` that no field can have: the working days of this request alone, and how many other
requests of its author count together with it. Both are missing without such others."""
COPY_PREFIX = "copy:"
"""Prefix of a rule's id in `FilledForm.people`, for the people who get a copy of a request that the rule passes.
Authors do not confirm these people, since their manager may be looked up only after the form was shown."""
LATER_FIELDS = ("exceptions", "exceeded", "files")
"""Fields of `FilledForm` that the first version did not have."""


class FilledForm(CompactModel):
    """A validated form, with the values that code derived from it."""

    values: dict[str, str]
    """Field → canonical text. A person is an id; several are ids separated by commas."""
    people: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """The people chosen by the process: level, `role:<name>` or a service task's id → person ids."""
    numbers: dict[str, Decimal] = Field(default_factory=dict)
    """Numbers that conditions compare: amounts, days, thresholds."""
    estimated: bool = False
    """Whether the working days include a year whose published holidays are not known here."""
    exceptions: dict[str, tuple[str, ...]] | None = None
    """Person field that decides → the people whom the rules name, where the author chose somebody else by a row that
    permits it. None if a version without rules for person fields filled in the form."""
    exceeded: tuple[str, ...] = ()
    """Bounds (`forms.RollingLimit`) that this request reaches together with the author's earlier ones."""
    files: tuple[AttachedFile, ...] = ()
    """The files named in the attachment fields, with their names and the hashes of their bytes."""

    def resolve_people(self, name: str) -> tuple[str, ...]:
        """The people of a name in the process."""
        found = self.people.get(name)
        return found if found is not None else tuple(p for p in self.values.get(name, "").split(",") if p)

    def list_people(self, names: Iterable[str]) -> tuple[str, ...]:
        """The people of these names in the process, each once."""
        return tuple(dict.fromkeys(person for name in names for person in self.resolve_people(name)))

    @property
    def days(self) -> str:
        """Working days of this request alone, as text; empty for a process without days. Rules use `numbers["days"]`,
        which includes adjacent requests."""
        days = self.numbers.get(OWN_DAYS, self.numbers.get("days"))
        return "" if days is None else format_decimal(days)

    @property
    def content_hash(self) -> str:
        """A hash of the form's content, to which the cards of its tasks are bound. Fields of later versions count only
        if they are set, so that a form of an earlier version keeps its hash."""
        return self._hash(self.people)

    @property
    def confirmed_hash(self) -> str:
        """A hash of the content that an author confirms: without the people who get copies by a rule."""
        return self._hash({name: who for name, who in self.people.items() if not name.startswith(COPY_PREFIX)})

    def _hash(self, people: Mapping[str, tuple[str, ...]]) -> str:
        later = {name for name in LATER_FIELDS if getattr(self, name) == type(self).model_fields[name].default}
        content = self.model_dump(mode="json", exclude=later) | {"people": people}
        text = json.dumps(content, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def format_decimal(number: Decimal) -> str:
    """A number without trailing zeros or an exponent, e.g. `8` or `0.5`."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


class Task(CompactModel):
    """One task for one person. A task is decided at most once."""

    id: str
    """Task id: `<request>-<n>`."""
    node: str
    kind: TaskKind
    seat: int
    assignee: str
    since: datetime
    round: int = 1
    """The round of the request; every resubmission increments it."""
    outcome: str = ""
    """A `Decision`, else the reason for closing (`settled`, `transferred`, `added`, `escalated`, `returned`, a status).
    Empty while open."""
    closed: datetime | None = None
    by: str = ""
    """Person id of the decider: the assignee or a deputy."""
    fired: tuple[str, ...] = ()
    """Timers that have fired."""
    urged: tuple[datetime, ...] = ()
    clock: datetime | None = None
    """The time from which timers count after a transfer, or None to count from `since`."""

    @property
    def is_open(self) -> bool:
        return not self.outcome


class Seat(CompactModel):
    """One person's vote in a decision, with the people added to it (add sign)."""

    n: int
    """Number of the seat, unique in the request."""
    person: str
    vote: str = ""
    """`approve`, `reject`, or empty."""
    before: Ballot | None = None
    """People who vote before this person."""
    beside: Ballot | None = None
    """People who vote at the same time; both sides have to agree."""
    after: Ballot | None = None
    """People who vote once this person has agreed."""


class Ballot(CompactModel):
    """Several seats, and how their votes count together."""

    mode: VotingMode = VotingMode.ALL
    seats: tuple[Seat, ...]


class Visit(CompactModel):
    """One open user task."""

    node: str
    kind: TaskKind
    ballot: Ballot


class Opinion(CompactModel):
    """An opinion, given with a decision. An opinion never changes the form."""

    task: str
    node: str
    by: str
    on_behalf: str = ""
    """Person id of the assignee, if a deputy decided."""
    at: datetime
    decision: str
    """A `Decision` about somebody else's request, or `transfer`, `add_sign`, `comment`."""
    text: str = ""
    round: int = 1


class Request(CompactRecord):
    id: str
    process: str
    definition: str
    """SHA-256 of the BPMN file, fixed at the start."""
    form: str
    """SHA-256 of the form file, fixed at the start."""
    initiator: str
    status: Status
    filled: FilledForm
    started: datetime
    changed: datetime
    round: int = 1
    seats: int = 0
    """Number of seats so far."""
    visits: tuple[Visit, ...] = ()
    """The open user tasks."""
    arrived: tuple[str, ...] = ()
    """Flows that wait at a parallel gateway for the others."""
    decisions: dict[str, str] = Field(default_factory=dict)
    """User task → its decision, while it counts. A decision no longer counts after its task was entered again, a return
    to an earlier step, or a resubmission."""
    rule: str = ""
    """Node of the rule that passed the request, if any."""
    tasks: tuple[Task, ...] = ()
    opinions: tuple[Opinion, ...] = ()
    cc: tuple[str, ...] = ()
    """Ids of the people who got a copy and may read the request."""
    events: int = 0
    """Number of events."""
    head: str = ""
    """Hash of the last event."""

    @property
    def is_running(self) -> bool:
        return self.status in OPEN

    @property
    def display_status(self) -> str:
        """The status for people. For a request that came back to its author, also whether it was rejected or returned:
        `revise_reject`, `revise_return`."""
        if self.status is not Status.REVISE:
            return self.status.value
        back = (o.decision for o in reversed(self.opinions) if o.decision in (Decision.REJECT, Decision.RETURN))
        return "_".join(filter(None, (self.status.value, next(back, ""))))

    @property
    def open_tasks(self) -> tuple[Task, ...]:
        return tuple(t for t in self.tasks if t.is_open)

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Ids of the people for whom the request waits."""
        return tuple(dict.fromkeys(t.assignee for t in self.open_tasks))

    @property
    def participants(self) -> frozenset[str]:
        """Ids of the people who may read the request, besides administrators: the author, all assignees and deputies
        who decided, and the people with a copy."""
        deciders = (task.by for task in self.tasks if task.by)
        return frozenset((self.initiator, *self.cc, *(task.assignee for task in self.tasks), *deciders))

    def find_task(self, task_id: str) -> Task | None:
        return next((t for t in self.tasks if t.id == task_id), None)


class Delegation(CompactRecord):
    """An absence, and the deputy for it."""

    id: str
    person: str
    deputy: str
    start: datetime
    end: datetime
    """The end, exclusive."""

    def is_active_at(self, now: datetime) -> bool:
        return self.start <= now < self.end


Seat.model_rebuild()
