"""What passes between tools, gates and the model: people, plans, choices, outcomes, errors.

Everything here is data that crosses a border (to Redis, to a card, to the model), so it is frozen.
Nothing here knows a chat platform, Redis or a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict


class Gate(StrEnum):
    """Who must press a button before the tool runs."""

    NONE = "none"
    """Nobody: the tool only reads."""
    CONFIRM = "confirm"
    """The caller, seeing every field."""
    APPROVE = "approve"
    """The person the task is assigned to, never the requester, whoever asked in chat."""


class Privacy(StrEnum):
    """How private something is for the person whose run it is in, least private first. Code decides it from the data;
    `bot.core.disclosure` decides from it where something may be shown."""

    PUBLIC = "public"
    """Everybody in the company may know it: processes, the handbook, sums, days, who is who."""
    OWN = "own"
    """The person's own request, without free text and of no private kind."""
    OWN_TEXT = "own_text"
    """The same with the free text of its form."""
    PRIVATE = "private"
    """Somebody else's request, a private kind, a to-do list, what people wrote: nobody else's business."""


def choose_most_private(*found: Privacy) -> Privacy:
    """The most private of these; `PUBLIC` if there are none."""
    order = list(Privacy)
    return max(found, key=order.index, default=Privacy.PUBLIC)


class FrozenModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StoredModel(FrozenModel):
    """A record that a store keeps. `v` is the number of its form: a class whose form changes gets the next number and
    goes on reading the ones before (`tests/golden/forms` holds a record of each). A process refuses a number that it
    does not know, so the record waits for a newer process."""

    v: Literal[1] = 1


class Person(FrozenModel):
    """Somebody of the directory. `id` is the chat platform's id for the person."""

    id: str
    name: str
    """The name people use, e.g. 李四."""
    names: tuple[str, ...] = ()
    """Every other name they answer to (display name, handle): what a look-up may match."""
    email: str = ""
    title: str = ""
    is_title_official: bool = False
    """True: the company's directory file says the title; False: the person has typed it."""
    locale: str = "en-US"
    timezone: str = "UTC"
    manager: str | None = None
    """Person id of the manager."""
    roles: frozenset[str] = frozenset()
    """Roles that rules refer to: `finance`, `director`, `admin`."""
    runs_workspace: bool = False
    """The platform says that they are an administrator or owner of the workspace. That opens no request to them."""
    department: str = ""
    allowance: Decimal | None = None
    """Days of annual leave a year; None: as for everybody."""
    active: bool = True
    is_in_directory: bool | None = None
    """Whether the company's directory file has them; None: there is no file."""

    @property
    def language(self) -> str:
        """`zh` or `en`: the language everything this person reads is written in."""
        return "zh" if self.locale.lower().startswith("zh") else "en"

    @property
    def is_administrator(self) -> bool:
        """May see all settings and stop anybody's run: by the directory file, or by the platform. What they may read
        of requests goes by the file alone (`tools.requests.status.can_read_request`)."""
        return self.runs_workspace or "admin" in self.roles

    @property
    def zone(self) -> ZoneInfo:
        """What *today* and working hours are counted in."""
        return ZoneInfo(self.timezone)


@dataclass(frozen=True, slots=True)
class Caller:
    """The person a verified platform payload came from. Built in one place only, the directory's `caller`;
    no tool argument and nothing anybody writes can make or change one."""

    person: Person

    @property
    def id(self) -> str:
        return self.person.id


class TextRef(FrozenModel):
    """A sentence a person will read: its key in the texts, and what to fill in."""

    key: str
    params: dict[str, str | int | dict[str, str]] = {}


class Identity(FrozenModel):
    """One person as a card names them, so that whoever presses can check who is meant: what was so when the card was
    made."""

    id: str
    """What a platform's mention is made of."""
    name: str
    email: str = ""
    is_name_shared: bool = False
    """Somebody else active has a name that looks the same."""
    is_name_misleading: bool = False
    """A name of theirs poses as an address or an id, or has something in it that cannot be seen."""
    is_in_directory: bool | None = None
    """As in `Person`."""


class Identities(FrozenModel):
    """The persons that a line of a card names."""

    people: tuple[Identity, ...]
    text: TextRef | None = None
    """The sentence that names them; None: their names are all that is said."""


class CardField(FrozenModel):
    """One line of a card, e.g. *Approver: 李四*. `label` is a text key or words of a process file;
    `value` is literal text, words, a note, or persons."""

    label: str | dict[str, str]
    value: str | dict[str, str] | TextRef | Identities


class DialogField(FrozenModel):
    """One input of a dialog."""

    name: str
    label: str | dict[str, str]
    kind: str = "text"
    """`text`, `long` (several lines), `date`, `choice`, `number`, `person`, `people` (ids with commas between), or
    `shown`: no input, but a value to be read in full before the dialog is submitted."""
    value: str = ""
    required: bool = True
    choices: tuple[tuple[str, dict[str, str]], ...] = ()
    """For `choice`: (value, words) pairs."""
    max_length: int = 3000


class CardChoice(FrozenModel):
    """One button of a card: what pressing it does, written by code and never by the model."""

    name: str
    """`confirm`, `start_another`, `cancel`, `send`, `edit`, `approve`, `reject`, `return`, `transfer`,
    `handle_add_sign`, `resubmit`, `withdraw`; its label is the text `choice.<name>`."""
    style: str = ""
    """`primary` for the one affirmative button, otherwise empty."""
    executes: bool = True
    """False: nothing is executed (cancel, edit)."""
    edits: bool = False
    """True (edit): the dialog's values replace arguments, which are validated and shown again before anything runs."""
    fixed_args: dict[str, Any] = {}
    """Arguments that this button adds to the shown ones, e.g. `{"decision": "approve"}`."""
    fields: tuple[DialogField, ...] = ()
    """A dialog to fill in, or to read, first; what is filled in is added to the arguments."""

    @property
    def inputs(self) -> tuple[DialogField, ...]:
        """The fields that ask for something."""
        return tuple(field for field in self.fields if field.kind != "shown")


class Proposal(FrozenModel):
    """What a gated tool will do: arguments validated and resolved, and the card that shows all of them."""

    args: dict[str, Any]
    """Canonical, JSON-able; exactly these are stored, hashed and executed."""
    title: TextRef
    fields: tuple[CardField, ...]
    deciders: tuple[str, ...]
    """Person ids that may press."""
    requester: str | None = None
    """The person whose request it is: for `approve` never among those who may press."""
    own_title: TextRef | None = None
    """What the card is called when the requester reads it; None: as for everybody."""
    choices: tuple[CardChoice, ...]
    subject: str = ""
    """Id of the request, task or person concerned."""
    body: str = ""
    """Longer literal text shown under the facts (a mail's text)."""
    privacy: Privacy | None = None
    """How private its title and arguments are. None: as private as its tool can be."""

    def get_title_for(self, person: str) -> TextRef:
        """What the card is called for the person with this id."""
        return self.own_title if self.own_title and person == self.requester else self.title

    def with_card_fields(self, fields: tuple[CardField, ...]) -> Proposal:
        """The same with these facts on its card."""
        return self.model_copy(update={"fields": fields})


class ReceiptLine(FrozenModel):
    """Something that changed in the world: one line of the receipt under an answer."""

    text: TextRef
    subject: str = ""
    privacy: Privacy = Privacy.PRIVATE
    """How private the line is."""


class ProcessDiagram(FrozenModel):
    """A process to be drawn: where a request has been, and where it is."""

    bpmn: bytes
    done: tuple[str, ...] = ()
    """Ids of the nodes and flows taken."""
    active: tuple[str, ...] = ()
    """Ids of the nodes where it is."""
    title: TextRef
    alt: TextRef
    """The same in words, for those who do not see it."""


class ToolOutcome(FrozenModel):
    """What a tool gives back."""

    data: dict[str, Any]
    """The observation the model reads, JSON-able and bounded by the tool (paging: `more`)."""
    summary: TextRef
    """One line for the people who follow the steps."""
    receipt_line: ReceiptLine | None = None
    diagram: ProcessDiagram | None = None
    """Shown beside the answer."""
    privacy: Privacy | None = None
    """How private all of it is. None: as private as its tool can be."""


class ToolError(Exception):
    """A tool could not do it, and says what to do instead.

    `code` is stable and is the key of a text (`error.<code>`) that people read, filled with `params`;
    `text` is English for the model. `ask` is true when only the person can supply what is missing. `possible_effect`:
    what may have changed all the same, for the receipt. `people`: ids of those who may be meant, to be shown to who is
    asked.
    """

    def __init__(
        self,
        code: str,
        text: str,
        *,
        needs_person: bool = False,
        field: str = "",
        possible_effect: ReceiptLine | None = None,
        people: tuple[str, ...] = (),
        **params: str | int | dict[str, str],
    ) -> None:
        super().__init__(text)
        self.code, self.text, self.ask, self.field, self.params = code, text, needs_person, field, params
        self.maybe, self.people = possible_effect, people

    @property
    def note(self) -> TextRef:
        return TextRef(key=f"error.{self.code}", params=dict(self.params))


class InvalidFieldsError(ToolError):
    """Several things are wrong at once: the model is told all of them, and people read the first."""

    def __init__(self, errors: Sequence[ToolError]) -> None:
        first = errors[0]
        told, ask = "; ".join(error.text for error in errors), any(error.ask for error in errors)
        super().__init__(first.code, told, needs_person=ask, field=first.field, people=first.people)
        self.params, self.errors = first.params, tuple(errors)


def raise_errors(errors: Sequence[ToolError]) -> None:
    """Raises these errors as one, if there are any."""
    if errors:
        raise errors[0] if len(errors) == 1 else InvalidFieldsError(errors)


class ConfirmAgainError(ToolError):
    """Nothing was done: the person is to confirm `proposal` instead, which says what they did not know. `text` and
    `code` are those of the error that it comes from."""

    def __init__(self, error: ToolError, proposal: Proposal) -> None:
        super().__init__(error.code, error.text)
        self.params, self.plan = error.params, proposal


class EffectUnknownError(Exception):
    """The effect was begun and nobody can say whether it happened (e.g. the connection broke after DATA)."""
