"""The types between tools, gates and the model: people, proposals, choices, outcomes, errors.

Everything here is data that crosses a border (to Redis, to a card, to the model), so it is frozen. Nothing here knows a
chat platform, Redis or a model."""

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
    """The assignee of the task, never the requester, whoever asked in chat."""


class Privacy(StrEnum):
    """How private something is for the person whose run it is in, from least to most private. Code decides it from the
    data; `bot.core.disclosure` derives from it where something may be shown."""

    PUBLIC = "public"
    """Everybody in the company may know it: processes, the handbook, calculations, days, who is who."""
    OWN = "own"
    """The person's own request, without free text and of no private kind."""
    OWN_TEXT = "own_text"
    """The same with the free text of its form."""
    PRIVATE = "private"
    """Somebody else's request, a private kind, a to-do list, what people wrote: for nobody else."""


def choose_most_private(*found: Privacy) -> Privacy:
    """The most private of these; `PUBLIC` without any."""
    order = list(Privacy)
    return max(found, key=order.index, default=Privacy.PUBLIC)


class EffectPlace(StrEnum):
    """Where the effect of a tool lies, and so what becomes of it when the store is restored from a copy."""

    ENGINE = "engine"
    """In the workflow engine. What the embedded engine did since the copy is lost with the store."""
    OUTSIDE = "outside"
    """In another system, which keeps it."""


class FrozenModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StoredModel(FrozenModel):
    """A record that a store keeps. `v` is the number of its form: a class whose form changes gets the next number and
    goes on reading the ones before (`tests/golden/recorded/stored` holds a record of each). A process refuses a number
    that it does not know, so the record waits for a newer process."""

    v: Literal[1] = 1


class Person(FrozenModel):
    """A person in the directory. `id`: the chat platform's id of the person."""

    id: str
    name: str
    """The name people use, e.g. 李四."""
    names: tuple[str, ...] = ()
    """All their other names (display name, handle), which a look-up may match."""
    email: str = ""
    title: str = ""
    is_title_official: bool = False
    """True: the title is from the company's directory file. False: the person typed it."""
    locale: str = "en-US"
    timezone: str = "UTC"
    manager: str | None = None
    """Person id of the manager."""
    roles: frozenset[str] = frozenset()
    """Roles that rules refer to: `finance`, `director`, `admin`."""
    runs_workspace: bool = False
    """The platform says that they are an administrator or owner of the workspace. That lets them read no requests."""
    department: str = ""
    allowance: Decimal | None = None
    """Days of annual leave per year; None: the general number."""
    active: bool = True
    is_in_directory: bool | None = None
    """True if the company's directory file has them; None: there is no file."""

    @property
    def language(self) -> str:
        """`zh` or `en`: the language of everything this person reads."""
        return "zh" if self.locale.lower().startswith("zh") else "en"

    @property
    def is_administrator(self) -> bool:
        """True if they may see all settings and stop anybody's run: by the directory file, or by the platform. Reading
        requests depends on the file alone (`tools.requests.status.can_read_request`)."""
        return self.runs_workspace or "admin" in self.roles

    @property
    def zone(self) -> ZoneInfo:
        """The time zone for *today* and working hours."""
        return ZoneInfo(self.timezone)


@dataclass(frozen=True, slots=True)
class Caller:
    """The person behind a verified platform payload. Made in one place only, the directory's `find_caller`; no tool
    argument and no text can make or change one."""

    person: Person

    @property
    def id(self) -> str:
        return self.person.id


class TextRef(FrozenModel):
    """A sentence for people: its key, and its parameters."""

    key: str
    params: dict[str, str | int | dict[str, str]] = {}


class AttachedFile(FrozenModel):
    """A file that somebody has sent: its bytes lie in a store of their own, under their hash."""

    id: str
    """The platform's id of the file."""
    name: str
    """What its sender has called it, cleaned and cut: it proves nothing."""
    media: str = ""
    """What it is by its content, e.g. `image/png`."""
    size: int = 0
    """Bytes."""
    sha256: str = ""
    """Of its bytes; empty while they are still to be fetched."""
    reading: dict[str, str] = {}
    """What a model has read from the picture: `amount`, `currency`, `date`, `merchant`. A proposal, and data."""


class Identity(FrozenModel):
    """A person as a card names them, so that the presser can check who is meant. It keeps the data from when the card
    was made."""

    id: str
    """The id for the platform's mention."""
    name: str
    names: dict[str, str] = {}
    """By language, where readers call them by another name."""
    email: str = ""
    is_name_shared: bool = False
    """Another active person has a name that looks the same."""
    is_name_misleading: bool = False
    """One of their names imitates an address or an id, or has invisible characters."""
    is_in_directory: bool | None = None
    """As in `Person`."""

    def get_name(self, language: str) -> str:
        """What readers of a language call them."""
        return self.names.get(language, self.name)


class Identities(FrozenModel):
    """The persons in a line of a card."""

    people: tuple[Identity, ...]
    text: TextRef | None = None
    """The sentence that names them; None: only their names are shown."""


class CardField(FrozenModel):
    """One line of a card, e.g. *Approver: 李四*. `label`: a text key, or words of a process file; `value`: literal
    text, words, a note, or persons."""

    label: str | dict[str, str]
    value: str | dict[str, str] | TextRef | Identities
    tells_others: bool = False
    """Whom it names is left out for the person whom it names alone: they know who they are."""


class DialogField(FrozenModel):
    """One input of a dialog."""

    name: str
    label: str | dict[str, str]
    kind: str = "text"
    """`text`, `long` (several lines), `date`, `choice`, `number`, `person`, `people` (ids separated by commas), `file`
    (ids separated by commas; `choices` has those that are there), or `shown`: no input, but a value to read in full
    before the dialog is submitted."""
    value: str = ""
    required: bool = True
    choices: tuple[tuple[str, dict[str, str]], ...] = ()
    """For `choice`: (value, words) pairs."""
    max_length: int = 3000


class CardChoice(FrozenModel):
    """One button of a card: what a press does. Code writes it, never the model."""

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
    """A dialog to fill in or to read first; its values are added to the arguments."""

    @property
    def inputs(self) -> tuple[DialogField, ...]:
        """The fields with an input."""
        return tuple(field for field in self.fields if field.kind != "shown")


class Proposal(FrozenModel):
    """What a gated tool will do: validated and resolved arguments, and the card that shows all of them."""

    args: dict[str, Any]
    """Canonical, JSON-compatible; exactly these are stored, hashed and executed."""
    title: TextRef
    fields: tuple[CardField, ...]
    deciders: tuple[str, ...]
    """Ids of the persons who may press."""
    requester: str | None = None
    """The person whose request it is; for `approve` never one of those who may press."""
    own_title: TextRef | None = None
    """The card's title for the requester; None: the same as for everybody."""
    scope: dict[str, str] = {}
    """What it is about in one line, by language: it stands in the card's first line, after the title."""
    choices: tuple[CardChoice, ...]
    subject: str = ""
    """Id of the request, task or person concerned."""
    body: str = ""
    """Longer literal text under the fields (an email's text)."""
    files: tuple[AttachedFile, ...] = ()
    """What those who decide are shown beside the card."""
    privacy: Privacy | None = None
    """The privacy of title and arguments. None: the highest privacy of its tool."""

    def get_title_for(self, person: str) -> TextRef:
        """The card's title for the person with this id."""
        return self.own_title if self.own_title and person == self.requester else self.title

    def with_card_fields(self, fields: tuple[CardField, ...]) -> Proposal:
        """The same proposal with these card fields."""
        return self.model_copy(update={"fields": fields})


class ReceiptLine(FrozenModel):
    """A change in the world: one line of the receipt under an answer."""

    text: TextRef
    subject: str = ""
    privacy: Privacy = Privacy.PRIVATE
    """How private the line is."""


class ProcessDiagram(FrozenModel):
    """A process to draw: where a request has been, and where it is."""

    bpmn: bytes
    done: tuple[str, ...] = ()
    """Ids of the visited nodes and flows."""
    active: tuple[str, ...] = ()
    """Ids of the current nodes."""
    title: TextRef
    alt: TextRef
    """The same in words, for people who do not see it."""


class ToolOutcome(FrozenModel):
    """The result of a tool."""

    data: dict[str, Any]
    """The observation for the model: JSON-compatible, and bounded by the tool (paging: `more`)."""
    summary: TextRef
    """One line for the people who follow the steps."""
    receipt_line: ReceiptLine | None = None
    diagram: ProcessDiagram | None = None
    """Shown beside the answer."""
    privacy: Privacy | None = None
    """The privacy of all of it. None: the highest privacy of its tool."""


class ToolError(Exception):
    """A tool could not do it, and says what to do instead.

    `code` is stable and names the sentence `error.<code>` for people, filled in with `params`; `text` is English, for
    the model. `ask`: only the person can supply what is missing. `possible_effect`: what may have changed nevertheless,
    for the receipt. `people`: ids of those who may be meant, to show to the person who is asked. `is_temporary`: what
    was not done may well succeed in some minutes, and an effect is tried again by itself."""

    def __init__(
        self,
        code: str,
        text: str,
        *,
        needs_person: bool = False,
        field: str = "",
        possible_effect: ReceiptLine | None = None,
        people: tuple[str, ...] = (),
        is_temporary: bool = False,
        **params: str | int | dict[str, str],
    ) -> None:
        super().__init__(text)
        self.code, self.text, self.ask, self.field, self.params = code, text, needs_person, field, params
        self.maybe, self.people, self.is_temporary = possible_effect, people, is_temporary

    @property
    def note(self) -> TextRef:
        return TextRef(key=f"error.{self.code}", params=dict(self.params))


class InvalidFieldsError(ToolError):
    """Several things are wrong at once: the model reads all of them, and people read the first."""

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
    """Nothing was done: the person has to confirm `proposal` instead, which says what they did not know. `text` and
    `code` come from the original error."""

    def __init__(self, error: ToolError, proposal: Proposal) -> None:
        super().__init__(error.code, error.text)
        self.params, self.plan = error.params, proposal


class EffectUnknownError(Exception):
    """The effect began, and nobody can say whether it happened (e.g. the connection broke after DATA)."""
