"""The types between the rooms: who wrote or pressed what and where, and what is shown in return.

Untyped platform payloads become these frozen types at the edge (`bot.chat`); nothing untyped goes further inside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from pydantic import Field

from tools.spec import Caller, DialogField, FrozenModel, Person


class Place(FrozenModel):
    """A place in a workspace where messages are posted."""

    platform: str = "slack"
    team: str
    channel: str
    thread: str | None = None
    """Timestamp of the thread's first message; replies go there."""
    direct: bool = False
    """A DM between one person and the bot."""
    shared: bool = False
    """The platform said with the message that another company reads this place too."""

    @property
    def conversation(self) -> str:
        """One lane and one history: the whole channel in a DM, a thread elsewhere."""
        base = f"{self.platform}:{self.team}:{self.channel}"
        return base if self.direct else f"{base}:{self.thread}"


class SentFile(FrozenModel):
    """A file beside a message or in a dialog, as the platform names it: what it is, its bytes say."""

    id: str
    """The platform's id of the file; empty where its payload has none."""
    name: str = ""
    size: int = 0
    """Bytes, as the platform says; 0: it does not."""


class Message(FrozenModel):
    """Something a person wrote to the bot, from a verified payload."""

    id: str
    """The platform's event id, which identifies duplicates."""
    place: Place
    person: str
    """Person id."""
    text: str
    at: str
    """The platform's timestamp of the message."""
    command: bool = False
    """A slash command: `text` is what follows the command's name."""
    unread: int = 0
    """Length of a message that was too long to read, as the platform counts characters; then `text` is empty."""
    files: tuple[SentFile, ...] = ()
    has_unlisted_files: bool = False
    """The payload does not say whether there are files: the message has to be looked up."""

    @property
    def thread_place(self) -> Place:
        """The thread under this message: in a DM what is only said in passing stands there, and answers do not."""
        if self.place.thread or self.command:
            return self.place
        return self.place.model_copy(update={"thread": self.at})


class MessageRef(FrozenModel):
    """A message of ours, for updates."""

    channel: str
    ts: str


class Click(FrozenModel):
    """A button pressed or a dialog submitted, from a verified payload."""

    id: str
    """The platform's id of the interaction, which identifies duplicates."""
    approval: str
    version: int
    """Version of the pressed card; an older one is stale."""
    choice: str
    person: str
    place: Place
    form: dict[str, str] | None = None
    """Values of the dialog, or None for a bare press."""
    card: MessageRef | None = None
    """The message with the button, if the platform says so."""
    in_set: str = ""
    """The set whose button decides several cards, this one among them; empty: the card's own button."""
    files: tuple[SentFile, ...] = ()
    """What was chosen in the dialog; `form` has the ids."""
    seal: str = ""
    """Part of the seal of what the card shows (`Approval.shown_seal`); empty: the platform does not say."""

    def with_form(self, form: dict[str, str]) -> Click:
        """The same press with these values of the dialog."""
        return self.model_copy(update={"form": form})


class FormSubmission(FrozenModel):
    """The form of a process as somebody has filled it in so far, from a verified payload."""

    id: str
    """The platform's id of the dialog: what duplicates are told by."""
    person: str
    process: str
    """Key of the process; empty: whichever comes first."""
    values: dict[str, str] = Field(default_factory=dict)
    """Field → text, as typed."""
    said: str = ""
    """What they wrote, or what somebody else wrote that the form is about: it stands in the first free text."""
    page: int = 0
    """The page in front of them, from 0."""
    earlier: tuple[str, ...] = ()
    """The fields of the pages before."""
    has_choice: bool = False
    """They may change to the form of another process."""
    files: tuple[SentFile, ...] = ()
    """What was chosen on this page; `values` has the ids."""
    kept: tuple[str, ...] = ()
    """Ids of the files of the message that the form is about: they stand in the form, and can be left out."""

    def turn_page(self) -> FormSubmission:
        """The same with the next page in front of them."""
        return self.model_copy(update={"page": self.page + 1, "earlier": tuple(self.values)})


@dataclass(frozen=True, slots=True)
class Button:
    label: str
    choice: str
    approval: str
    version: int
    style: str = ""
    seal: str = ""
    """Part of the seal of what its card shows; it comes back with the press."""


@dataclass(frozen=True, slots=True)
class PersonPicker:
    """Chooses one person; comes back as a `Click` with `person` in its form."""

    label: str
    choice: str
    approval: str
    version: int


@dataclass(frozen=True, slots=True)
class NamedPerson:
    """A person on a card, rendered so that the reader can tell who it is, with the platform's own mention."""

    id: str
    name: str
    email: str = ""
    more: tuple[str, ...] = ()
    """Further company data about them, in the reader's language."""
    marks: tuple[str, ...] = ()
    """Reasons why they may be mistaken for somebody else, in the reader's language."""


@dataclass(frozen=True, slots=True)
class NamedPeople:
    people: tuple[NamedPerson, ...]
    text: str = ""
    """The sentence that names them; empty: only their names are shown."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time: the platform shows it in its reader's own way."""

    ms: int
    text: str
    """In the reader's time zone, where the platform has no way of its own."""


RichText: TypeAlias = tuple[str | NamedPerson | Moment, ...]
"""A sentence in pieces: words, people and points in time."""


@dataclass(frozen=True, slots=True)
class TickOption:
    """One of several things, with a box to tick."""

    value: str
    text: str
    details: str = ""
    is_ticked: bool = True


@dataclass(frozen=True, slots=True)
class TickList:
    """Things with a box each. A changed tick comes back as a `Click`, and the ticks come with every press on a button
    of the card."""

    approval: str
    version: int
    options: tuple[TickOption, ...]


@dataclass(frozen=True, slots=True)
class Card:
    """A card in the reader's language. Code has chosen every word."""

    title: str
    facts: tuple[tuple[str, str | NamedPeople], ...] = ()
    body: str = ""
    buttons: tuple[Button, ...] = ()
    footer: str | RichText = ""
    when: Moment | None = None
    """Directly under the title of a card that is over."""
    lead: str = ""
    """Before the fields: the result."""
    ticks: TickList | None = None
    """Between the fields and the buttons."""
    is_void: bool = False
    """Nothing of its facts holds any more: they are struck through."""


class StepState(StrEnum):
    """How a step stands."""

    DONE = "done"
    WAITING = "waiting"
    """Its card waits for a button."""
    FAILED = "failed"
    """Nothing came of it, or nobody knows."""


@dataclass(frozen=True, slots=True)
class StepLine:
    """One step of a run, as people read it."""

    title: str
    """What was done, with its result; no formatting."""
    details: str = ""
    """Why, in the model's words."""
    state: StepState = StepState.DONE


@dataclass(frozen=True, slots=True)
class StepList:
    """All steps of a run, in one message that is rewritten."""

    title: str
    """How it stands: *Working on it*, *Worked for 4 s*."""
    steps: tuple[StepLine, ...]
    """Oldest first."""


@dataclass(frozen=True, slots=True)
class FeedbackButtons:
    """Under an answer: what its readers think of it. A press comes back as a `Click` about the run."""

    run: str
    good: str
    """What the buttons say to people who cannot see them."""
    bad: str


@dataclass(frozen=True, slots=True)
class Post:
    """One message of the bot. `text`: Markdown-like prose or, with a card, the text of a notification."""

    text: str
    card: Card | None = None
    receipt: str = ""
    """Under an answer, written by code: what this run changed."""
    plain: bool = False
    """Nothing in the text is formatting: it contains somebody's own words."""
    buttons: tuple[Button, ...] = ()
    """Under an answer without a card."""
    picker: PersonPicker | None = None
    """Beside these buttons."""
    people: NamedPeople | None = None
    """Under an answer: those whom its question is about, with a heading."""
    rich: RichText = ()
    """The same as a plain text, with people and points in time as the platform shows them."""
    feedback: FeedbackButtons | None = None
    """Under an answer, last."""
    steps: StepList | None = None
    """In place of the text, where the platform can show steps; `text` says the same in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialog:
    """A form that opens for a person. Its submission comes back as a `Click` with a form."""

    title: str
    submit: str
    cancel: str
    approval: str
    version: int
    choice: str
    place: Place
    fields: tuple[DialogField, ...]
    labels: tuple[str, ...]
    """The fields' labels in the reader's language."""
    options: tuple[tuple[tuple[str, str], ...], ...] = ()
    """Per field: (value, label) pairs of a choice in the reader's language."""
    card: MessageRef | None = None
    """The message whose button opened it; the submission returns it."""
    lead: str = ""
    """Above everything else: what was objected to."""
    matter: str = ""
    """What it decides on, as a statement."""
    about: tuple[tuple[str, str | NamedPeople], ...] = ()
    """Who, what, how long."""
    hints: tuple[str, ...] = ()
    """Per field: what holds of its value; may be empty."""
    more: str = ""
    """The button that leads to further fields, where not all fit on one page."""
    kept: tuple[tuple[str, str], ...] = ()
    """(name, value) pairs that the submission returns among its values."""
    seal: str = ""
    """As of the button that opened it."""


@dataclass(frozen=True, slots=True)
class FormInput:
    """One input of a form, in the reader's language."""

    field: DialogField
    label: str
    options: tuple[tuple[str, str], ...] = ()
    """(value, label) pairs of a choice."""
    hint: str = ""
    is_watched: bool = False
    """Something depends on it: a change is told at once."""


@dataclass(frozen=True, slots=True)
class FormDialog:
    """One page of the form of a process, in front of a person; what they do with it comes back as a
    `FormSubmission`."""

    title: str
    submit: str
    cancel: str
    process: str
    page: int
    inputs: tuple[FormInput, ...]
    values: tuple[tuple[str, str], ...] = ()
    """What was filled in on the pages before: (field, text)."""
    notes: tuple[str, ...] = ()
    """What it comes to so far."""
    warnings: tuple[str, ...] = ()
    """What is wrong with what is there."""
    more: str = ""
    """The button that leads to the fields that may be left out; empty: there are none."""
    choices: tuple[tuple[str, str], ...] = ()
    """(key, name) of the processes to choose from; empty: there is no choice."""
    kept: tuple[str, ...] = ()
    """As in `FormSubmission`."""


@dataclass(frozen=True, slots=True)
class FormProblem:
    """What is wrong with a field, in the reader's language."""

    field: str
    label: str
    """For where the field itself is not in front of them."""
    text: str


@dataclass(frozen=True, slots=True)
class FormAnswer:
    """What came of a submitted page: refused, or the next page, or neither: then it is durable."""

    problems: tuple[FormProblem, ...] = ()
    next_page: FormDialog | None = None


@dataclass(frozen=True, slots=True)
class RateSlot:
    """A rate limit of the platform: one post every `spacing_ms`, `burst` at once after a pause."""

    key: str
    spacing_ms: int
    burst: int


class SessionStatus(StrEnum):
    """How a session with the bot stands, where the platform shows that."""

    PROCESSING = "processing"
    """It is at work; its person can stop it."""
    SUSPENDED = "suspended"
    """A card waits for its button."""
    ACTIVE = "active"
    """It has answered."""


@dataclass(frozen=True, slots=True)
class SuggestedPrompt:
    """Something to write, offered where a person is about to."""

    title: str
    message: str


class FilePoster(Protocol):
    """The part of a platform's channel that shows files to people."""

    async def open_dm(self, person: str) -> Place:
        """The DM with a person."""

    async def upload_files(
        self, place: Place, files: Sequence[tuple[str, bytes]], *, comment: str, key: str, again: bool = False
    ) -> None:
        """Posts files, (name, bytes) each, in one message. `key`, `again`: as for `Channel.post_message`."""


class Channel(FilePoster, Protocol):
    """A chat platform as the rest of the bot sees it. Every call may raise `ChatError`."""

    async def post_message(
        self, place: Place, post: Post, *, key: str, again: bool = False, wait_ms: int | None = None
    ) -> MessageRef:
        """Posts a message. `key` names this very post. With `again` (the work is repeated after a crash), the place is
        searched for that key first, so nothing is posted twice. `wait_ms`: a slot of the place's rate is already
        reserved and comes in that many ms; None: reserve one."""

    async def update_message(self, ref: MessageRef, post: Post) -> None:
        """Updates a message of ours. Waits for no rate: raises ChatBusyError when the platform takes no more updates
        now."""

    async def has_buttons_of(self, ref: MessageRef, post: Post) -> bool:
        """False if a message of ours shows other buttons than those of the post's card; True also if it is gone."""

    async def post_ephemeral(self, place: Place, person: str, text: str) -> None:
        """Posts a message that one person sees: in the place if the platform can, otherwise in a DM. Somebody whom the
        platform does not reach at all is not told. Raises ChatUnavailableError."""

    def show_status(self, place: Place, text: str) -> None:
        """Show in the place's thread that the bot is at work, until it says something there; an empty text removes it.
        Returns at once and raises nothing: it is a sign of life, and nobody relies on it."""

    def set_session_status(self, place: Place, status: SessionStatus, *, person: str = "", title: str = "") -> None:
        """Shows how the session in the place's thread stands. `person` and `title` count when it begins. Returns at
        once and raises nothing."""

    async def wait_for_session(self, place: Place) -> None:
        """Waits, for some seconds at most, until the platform knows that. Raises nothing."""

    async def suggest_prompts(self, place: Place, prompts: Sequence[SuggestedPrompt]) -> None:
        """Offers what could be written in a DM. Raises nothing."""

    async def upload_picture(
        self, place: Place, picture: bytes, *, name: str, title: str, alt: str, key: str, again: bool = False
    ) -> None:
        """Posts a PNG. `name`: file name, e.g. `process.png`; `title`: shown with it; `alt`: the same in words, for
        people who cannot see it. `key`, `again`: as for `post_message`."""

    def find_rate_slot(self, place: Place) -> RateSlot | None:
        """The rate limit for posts to this place, if any."""


@dataclass(frozen=True, slots=True)
class FetchedFile:
    content: bytes
    uploader: str
    """Person id, as the platform says; empty: it does not."""


class FileSource(Protocol):
    """Where the files of messages lie."""

    async def list_message_files(self, place: Place, at: str) -> tuple[SentFile, ...]:
        """The files of the message with this timestamp. Raises `ChatError`."""

    async def fetch_file(self, file: SentFile, max_bytes: int, only_from: str = "") -> FetchedFile:
        """`only_from`: id of the person who must have uploaded it; empty: anybody. Raises `FileRefusedError`, or
        `ChatUnavailableError` if the platform cannot be reached now."""


class ChannelReaders(StrEnum):
    """Who reads a place besides the bot."""

    DIRECT = "direct"
    """One person: a DM."""
    INSIDE = "inside"
    """Full members of the company's workspace, and nobody else."""
    OUTSIDE = "outside"
    """Guests or another company, or unknown."""


class ReaderClassifier(Protocol):
    """Finds out who reads a place."""

    async def classify_readers(self, place: Place) -> ChannelReaders:
        """An unknown answer is `OUTSIDE`. Raises nothing; caches the answer for some minutes."""


class ChatDirectory(Protocol):
    """The platform's people as the rest of the bot sees them."""

    def find_known_person(self, person: str) -> Person | None:
        """What is known of somebody without asking anybody: for what the platform waits for."""

    async def find_person(self, person: str) -> Person | None: ...

    async def list_people(self) -> tuple[Person, ...]: ...

    async def refresh_people(self, people: Iterable[str]) -> None:
        """From here on, `find_person`, `list_people` and `find_caller` use data at most 30 s old for these persons.
        Raises `ChatUnavailableError` if the platform cannot be asked: then a decision waits."""

    async def find_caller(self, person: str) -> Caller | None:
        """The caller behind a verified payload; None for bots, guests and the deactivated."""

    async def is_inside(self, person: str) -> bool:
        """True for full members and for bots of the workspace; False for guests and unknown ids."""

    async def keep_up_to_date(self) -> None:
        """A job of the worker: ends only with it."""


@dataclass(frozen=True, slots=True)
class HomeButton:
    """A button of Home itself; one that presses a card is a `Button`."""

    label: str
    action: str
    """What it does, e.g. `open`; it comes back as `HomePress.action`."""
    value: str = ""
    """What it is about: ids of ours."""
    style: str = ""


@dataclass(frozen=True, slots=True)
class HomeEntry:
    """One thing in a section of Home: shown whole with its buttons, or not at all."""

    card: Card
    buttons: tuple[HomeButton, ...] = ()
    """Behind those of the card."""


@dataclass(frozen=True, slots=True)
class HomeSection:
    title: str
    entries: tuple[HomeEntry, ...] = ()
    empty: str = ""
    """What is said, with an example, where there is nothing."""
    note: str = ""
    """Below the entries: how many more there are."""
    buttons: tuple[HomeButton, ...] = ()


@dataclass(frozen=True, slots=True)
class HomeView:
    """A person's Home page on the platform, in their language."""

    title: str
    sections: tuple[HomeSection, ...]
    """The first ones matter most: where not all fit, the last entries are left out."""
    request: str = ""
    """The button that opens the form of a request; empty: there is nothing to ask for."""
    freshness: str = ""
    """As of when it is."""
    start: str = ""
    """For newcomers: how to begin."""


class HomePress(FrozenModel):
    """A button of Home, or of a dialog of Home, from a verified payload."""

    id: str
    """The platform's id of the interaction."""
    person: str
    action: str
    value: str = ""


class HomeSubmission(HomePress):
    """A submitted dialog of Home, from a verified payload."""

    place: Place
    """The person's DM."""
    form: dict[str, str] = Field(default_factory=dict)
    """Field → text, as typed; with what the dialog carried."""
    seal: str = ""
    """Names what the dialog has shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeDialog:
    """A dialog that Home opens. What is submitted comes back as a `HomeSubmission`."""

    title: str
    cancel: str
    submit: str = ""
    """Empty: it is only to be read."""
    action: str = ""
    value: str = ""
    card: Card | None = None
    """What it is about, in full, with the buttons that press that card."""
    notice: str = ""
    """Above everything else: what has changed, or why nothing was done."""
    inputs: tuple[FormInput, ...] = ()
    form: tuple[tuple[str, str], ...] = ()
    """What was filled in before: (field, text)."""
    seal: str = ""
    buttons: tuple[HomeButton, ...] = ()


@dataclass(frozen=True, slots=True)
class HomeAnswer:
    """The answer to a submitted dialog of Home; neither: it is done."""

    problems: tuple[FormProblem, ...] = ()
    dialog: HomeDialog | None = None
    """What stands in front of them next."""


class Acceptance(StrEnum):
    """What became of an event whose acceptance failed."""

    TAKEN = "taken"
    """It was stored after all; only the answer was lost."""
    NOT_TAKEN = "not_taken"
    """It was not, and will not be any more."""
    UNKNOWN = "unknown"
    """The store cannot be asked."""


class Ingress(Protocol):
    """What a platform delivers. Each call makes it durable or answers it before it returns. After
    `StoreUnavailableError` it has done neither, and the platform must not acknowledge the event."""

    async def accept_message(self, message: Message, *, aliases: tuple[str, ...] = ()) -> None:
        """Puts a message into its lane. `aliases`: further names that identify duplicates."""

    async def accept_change(self, message: Message, *, is_deleted: bool) -> None:
        """A person has changed or deleted a message of theirs. `message`: as it is now, or as it was; its id is the
        event's."""

    async def accept_click(self, click: Click) -> None:
        """Puts a press into its lane."""

    async def withdraw_click(self, click: Click, failed: Exception) -> Acceptance:
        """After `accept_click` has failed in this way: what became of it. What was not stored never will be."""

    async def withdraw_message(self, message: Message, failed: Exception) -> Acceptance:
        """The same, after `accept_message`."""

    async def stop_conversation(self, place: Place, person: str, at: str) -> None:
        """Stops what runs in this place, at once and ahead of the queue. `at`: when *stop* was written."""

    def is_stop_word(self, text: str) -> bool:
        """True if this text alone means *stop*."""

    async def stop_session(self, place: Place, person: str, id: str, at: str) -> None:
        """The platform's own *Stop* was pressed: the same as the word, without a message to answer. `id`: the event's,
        which identifies duplicates."""

    async def is_engaged(self, place: Place) -> bool:
        """True when the bot has taken part in this thread."""

    async def opens_dialog(self, click: Click) -> bool:
        """True for a press that may open a dialog; asks nobody but the store, because the platform waits."""

    async def build_dialog(self, click: Click) -> Dialog | None:
        """The dialog that this press opens. None: pass the press on as a click."""

    async def check_dialog(self, click: Click) -> dict[str, str]:
        """What is wrong with a submitted dialog (field → sentence), before it is accepted."""

    async def build_home(self, person: str, *, is_opened: bool = False) -> HomeView | None:
        """The person's Home page. None for people without one. `is_opened`: they see it now, from its first page; from
        here on it is renewed for a while when something on it changes."""

    async def handle_home_press(self, press: HomePress) -> HomeDialog | None:
        """What a button of Home opens. None: the page itself has changed."""

    async def submit_home_dialog(self, submission: HomeSubmission) -> HomeAnswer:
        """A submitted dialog of Home: checked, and what follows is put in a lane."""

    async def list_prompts(self, person: str) -> Sequence[SuggestedPrompt]:
        """What this person could write to the bot now. None for people who are not served."""

    async def welcome_person(self, person: str, place: Place) -> None:
        """The person has opened their DM with the bot: the first time, they are welcomed."""

    async def build_form(self, form: FormSubmission) -> FormDialog | str:
        """The page of a form as it is filled in so far; or, in the person's language, why they get none."""

    async def submit_form(self, form: FormSubmission) -> FormAnswer:
        """A submitted page: checked, and put in a lane if nothing is wrong and no page that is needed follows."""
