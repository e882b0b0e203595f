"""The types between tools, gates and the model: people, proposals, choices, outcomes, errors.

All of them are data that cross a border (to Redis, to a card, to the model), so they are frozen. None of them depends
on a chat platform, Redis or a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict

from tools.languages import LANGUAGES, choose_words


class Gate(StrEnum):
    """The person who must press a button before the tool runs."""

    NONE = "none"
    """Nobody; the tool only reads."""
    CONFIRM = "confirm"
    """The caller, who sees every field."""
    APPROVE = "approve"
    """The assignee of the task, never the requester, whoever asked in chat."""


class Privacy(StrEnum):
    """How private something is for the person whose run has it, from least to most private. Code decides it from the
    data; `bot.core.disclosure` derives from it where something may be shown."""

    PUBLIC = "public"
    """Known to everybody in the company: processes, the handbook, calculations, days, who is who."""
    OWN = "own"
    """The person's own request, without free text and of no private kind."""
    OWN_TEXT = "own_text"
    """The person's own request, with the free text of its form."""
    PRIVATE = "private"
    """For nobody else: somebody else's request, a private kind, a to-do list, texts that people wrote."""


def choose_most_private(*found: Privacy) -> Privacy:
    """The most private of these; `PUBLIC` without any."""
    order = list(Privacy)
    return max(found, key=order.index, default=Privacy.PUBLIC)


class EffectPlace(StrEnum):
    """The place of a tool's effect, which tells what becomes of the effect when the store is restored from a copy."""

    ENGINE = "engine"
    """In the workflow engine. With the embedded engine, effects later than the copy are lost with the store."""
    OUTSIDE = "outside"
    """In another system, which keeps it."""


class Offer(StrEnum):
    """How readily the model is offered a tool of ours. It may call any of them by name."""

    ALWAYS = "always"
    """With every message, even if there is no room for other tools of ours."""
    COMMON = "common"
    """With every message, if there is room."""
    RARE = "rare"
    """Only after `find_tools` has found it."""


class FrozenModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StoredModel(FrozenModel):
    """A record kept by a store. `v` is the version number of its form: a class whose form changes gets the next number
    and can still read the earlier ones (`tests/golden/recorded/stored` has a record of each). A process refuses a
    number that it does not know, so the record waits for a newer process."""

    v: Literal[1] = 1


class Person(FrozenModel):
    """A person in the directory. `id` is the chat platform's id of the person."""

    id: str
    name: str
    """The name people use, e.g. 李四."""
    names: tuple[str, ...] = ()
    """All other names of the person (display name, handle), which a search may match."""
    email: str = ""
    title: str = ""
    is_title_official: bool = False
    """Whether the title is from the company's directory file; otherwise the person typed it."""
    locale: str = "en-US"
    timezone: str = "UTC"
    manager: str | None = None
    """Person id of the manager."""
    roles: frozenset[str] = frozenset()
    """Roles that rules refer to: `finance`, `director`, `admin`."""
    runs_workspace: bool = False
    """Whether the platform says that the person is an administrator or owner of the workspace. Such people may not read
    requests for that reason."""
    department: str = ""
    allowance: Decimal | None = None
    """Days of annual leave per year, or None for the general number."""
    active: bool = True
    is_in_directory: bool | None = None
    """Whether the company's directory file has the person, or None without such a file."""

    @property
    def language(self) -> str:
        """The language of everything this person reads, one of `LANGUAGES`."""
        language = self.locale[:2].lower()
        return language if language in LANGUAGES else "en"

    @property
    def is_administrator(self) -> bool:
        """Whether the person may see all settings and stop anybody's run, by the directory file or by the platform.
        Reading requests depends on the file alone (`tools.requests.status.can_read_request`)."""
        return self.runs_workspace or "admin" in self.roles

    @property
    def zone(self) -> ZoneInfo:
        """The time zone for *today* and working hours."""
        return ZoneInfo(self.timezone)


@dataclass(frozen=True, slots=True)
class Caller:
    """The person behind a verified platform payload. Only the directory's `find_caller` makes one; no tool argument and
    no text can make or change one."""

    person: Person

    @property
    def id(self) -> str:
        return self.person.id


class TextRef(FrozenModel):
    """A sentence for people: its text key and its parameters."""

    key: str
    params: dict[str, str | int | dict[str, str]] = {}


class AttachedFile(FrozenModel):
    """A file that somebody has sent. Its bytes are in a store of their own, under their hash."""

    id: str
    """The platform's id of the file."""
    name: str
    """The sender's name for the file, cleaned and cut; it proves nothing."""
    media: str = ""
    """The media type by content, e.g. `image/png`."""
    size: int = 0
    """Size in bytes."""
    sha256: str = ""
    """Hash of the bytes, or empty while they are still to be fetched."""
    reading: dict[str, str] = {}
    """The values that a model has read from the picture: `amount`, `currency`, `date`, `merchant`. A proposal, and
    data."""


class Identity(FrozenModel):
    """A person as named on a card, so that the presser can check who is meant. The data are from when the card was
    made."""

    id: str
    """The id for the platform's mention."""
    name: str
    names: dict[str, str] = {}
    """Names by language, for languages whose readers use another name than `name`."""
    email: str = ""
    is_name_shared: bool = False
    """Whether another active person has a name that looks the same."""
    is_name_misleading: bool = False
    """Whether one of the names imitates an address or an id, or has invisible characters."""
    is_in_directory: bool | None = None
    """The value of `Person.is_in_directory`."""

    def get_name(self, language: str) -> str:
        """The name for readers of a language; for a model (no language), each name of the person on the card."""
        names = {"zh": self.name, "en": self.name, **self.names}
        return choose_words(names, language) if language else " / ".join(dict.fromkeys(names.values()))


class Identities(FrozenModel):
    """The persons in a line of a card."""

    people: tuple[Identity, ...]
    text: TextRef | None = None
    """The sentence that names them, or None to show only their names."""


class CardField(FrozenModel):
    """One line of a card, e.g. *Approver: 李四*. `label` is a text key, or words of a process file; `value` is literal
    text, words, a note, or persons."""

    label: str | dict[str, str]
    value: str | dict[str, str] | TextRef | Identities
    tells_others: bool = False
    """Whether the field is left out for a reader who is the only person it names, because that reader knows it."""


class DialogField(FrozenModel):
    """One input of a dialog."""

    name: str
    label: str | dict[str, str]
    kind: str = "text"
    """The kind of input: `text`, `long` (several lines), `date`, `choice`, `number`, `person`, `people` or `file`
    (both: ids separated by commas; for `file`, `choices` has the present ones). `shown` is no input, but a value to
    read in full before the dialog is submitted."""
    value: str = ""
    required: bool = True
    choices: tuple[tuple[str, dict[str, str]], ...] = ()
    """Pairs of value and words, for `choice`."""
    max_length: int = 3000


class CardChoice(FrozenModel):
    """One button of a card and the effect of a press. Code writes it, never the model."""

    name: str
    """The button's name: `confirm`, `start_another`, `cancel`, `send`, `edit`, `approve`, `approve_with`, `reject`,
    `return`, `transfer`, `add_sign`, `resubmit`, `withdraw`. Its label is the text `choice.<name>`."""
    style: str = ""
    """The style `primary` for the one affirmative button, otherwise empty."""
    executes: bool = True
    """Whether a press executes something; false for cancel and edit."""
    edits: bool = False
    """Whether the button edits: the dialog's values replace arguments, which are validated and shown again before
    anything runs."""
    fixed_args: dict[str, Any] = {}
    """Arguments that this button adds to the shown ones, e.g. `{"decision": "approve"}`."""
    fields: tuple[DialogField, ...] = ()
    """Fields of a dialog to fill in or to read first; its values are added to the arguments."""

    @property
    def inputs(self) -> tuple[DialogField, ...]:
        """The fields with an input."""
        return tuple(field for field in self.fields if field.kind != "shown")


class Proposal(FrozenModel):
    """The intended effect of a gated tool: validated and resolved arguments, and the card that shows all of them."""

    args: dict[str, Any]
    """Canonical, JSON-compatible arguments; exactly these are stored, hashed and executed."""
    title: TextRef
    fields: tuple[CardField, ...]
    deciders: tuple[str, ...]
    """Ids of the persons who may press."""
    requester: str | None = None
    """The person whose request it is; with the gate `approve`, never one of those who may press."""
    own_title: TextRef | None = None
    """The card's title for the requester, or None for the title that everybody sees."""
    scope: dict[str, str] = {}
    """The subject in one line by language, for the card's first line after the title."""
    choices: tuple[CardChoice, ...]
    subject: str = ""
    """Id of the request, task or person concerned."""
    body: str = ""
    """Longer literal text under the fields, e.g. an email's text."""
    files: tuple[AttachedFile, ...] = ()
    """Files shown beside the card to those who decide."""
    privacy: Privacy | None = None
    """The privacy of title and arguments, or None for the highest privacy of the tool."""

    def get_title_for(self, person: str) -> TextRef:
        return self.own_title if self.own_title and person == self.requester else self.title

    def with_card_fields(self, fields: tuple[CardField, ...]) -> Proposal:
        return self.model_copy(update={"fields": fields})


class ReceiptLine(FrozenModel):
    """A change in the world: one line of the receipt under an answer."""

    text: TextRef
    subject: str = ""
    privacy: Privacy = Privacy.PRIVATE


class ProcessDiagram(FrozenModel):
    """A diagram of a process with the path that a request has taken and its current nodes."""

    bpmn: bytes
    done: tuple[str, ...] = ()
    """Ids of the visited nodes and flows."""
    active: tuple[str, ...] = ()
    """Ids of the current nodes."""
    title: TextRef
    alt: TextRef
    """The diagram in words, for people who cannot see it."""


class ToolOutcome(FrozenModel):
    data: dict[str, Any]
    """The observation for the model: JSON-compatible, and bounded by the tool (paging: `more`)."""
    summary: TextRef
    """One line for the people who follow the steps."""
    receipt_line: ReceiptLine | None = None
    diagram: ProcessDiagram | None = None
    privacy: Privacy | None = None
    """The privacy of the whole outcome, or None for the highest privacy of the tool."""


class ToolError(Exception):
    """A failure of a tool, with advice on what to do instead.

    `code` is stable and names the sentence `error.<code>` for people, filled in with `params`. `text` is English, for
    the model. `ask` tells whether only the person can supply what is missing. `possible_effect` is a change that may
    have happened nevertheless, for the receipt. `people` has ids of those who may be meant, to show to the person who
    is asked. `is_temporary` tells whether the action may well succeed in some minutes; such an effect is retried
    automatically."""

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

    @property
    def errors(self) -> Sequence[ToolError]:
        """Every single error in this one."""
        return (self,)


class InvalidFieldsError(ToolError):
    """Several errors at once: the model reads all of them, and people read the first."""

    def __init__(self, errors: Sequence[ToolError]) -> None:
        first = errors[0]
        told, ask = "; ".join(error.text for error in errors), any(error.ask for error in errors)
        super().__init__(first.code, told, needs_person=ask, field=first.field, people=first.people)
        self.params, self._errors = first.params, tuple(errors)

    @property
    def errors(self) -> Sequence[ToolError]:
        return self._errors


def raise_errors(errors: Sequence[ToolError]) -> None:
    """Raise these errors as one, if there are any."""
    if errors:
        raise errors[0] if len(errors) == 1 else InvalidFieldsError(errors)


class ConfirmAgainError(ToolError):
    """Nothing was done: the person has to confirm `proposal` instead, which says what they did not know. `text` and
    `code` come from the original error."""

    def __init__(self, error: ToolError, proposal: Proposal) -> None:
        super().__init__(error.code, error.text)
        self.params, self.plan = error.params, proposal


class EffectUnknownError(Exception):
    """The effect began, and its result is unknown (e.g. the connection broke after DATA)."""
