"""The types exchanged between a platform's adapter and the rest of the bot: who wrote or pressed what and where, and
what is shown in return.

Untyped payloads of a platform become these frozen types at the edge (`bot.platforms`). Nothing untyped goes further."""

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
    """Timestamp of the thread's first message. Replies go there."""
    direct: bool = False
    """Whether the place is a DM between one person and the bot."""
    shared: bool = False
    """Whether the platform said with the message that another company reads this place too."""

    @property
    def conversation(self) -> str:
        """Key of one lane and one history: the whole channel in a DM, a thread elsewhere."""
        base = f"{self.platform}:{self.team}:{self.channel}"
        return base if self.direct else f"{base}:{self.thread}"


class SentFile(FrozenModel):
    """A file with a message or in a dialog, as the platform names it. Only its bytes show what it is."""

    id: str
    """The platform's id of the file. Empty if the payload has none."""
    name: str = ""
    size: int = 0
    """Size in bytes, as the platform says. 0 if it does not say."""


class Message(FrozenModel):
    """A message that a person wrote to the bot, from a verified payload."""

    id: str
    """The platform's event id, which identifies duplicates."""
    place: Place
    person: str
    """Person id."""
    text: str
    at: str
    """The platform's timestamp of the message."""
    command: bool = False
    """Whether this is a slash command. `text` is then the text after the command's name."""
    unread: int = 0
    """Length of a message that was too long to read, as the platform counts characters. `text` is then empty."""
    files: tuple[SentFile, ...] = ()
    has_unlisted_files: bool = False
    """Whether the payload leaves open if there are files, so that the message has to be looked up."""
    sent_ms: int = Field(default=0, exclude_if=lambda ms: not ms)
    """The platform's time of the message (epoch ms), where `at` is none."""

    @property
    def thread_place(self) -> Place:
        """The thread under this message. In a DM, remarks in passing are posted there, but answers are not."""
        if self.place.thread or self.command:
            return self.place
        return self.place.model_copy(update={"thread": self.at})


class MessageRef(FrozenModel):
    """A message of ours, for updates."""

    channel: str
    ts: str


class Click(FrozenModel):
    """A pressed button or a submitted dialog, from a verified payload."""

    id: str
    """The platform's id of the interaction, which identifies duplicates."""
    approval: str
    version: int
    """Version of the pressed card. An older version is stale."""
    choice: str
    person: str
    place: Place
    form: dict[str, str] | None = None
    """Values of the dialog, or None for a bare press."""
    card: MessageRef | None = None
    """The message with the button, if the platform names it."""
    in_set: str = ""
    """The set whose button decides several cards, this one among them. Empty for the card's own button."""
    files: tuple[SentFile, ...] = ()
    """Files chosen in the dialog. `form` has their ids."""
    seal: str = ""
    """Part of the seal of what the card shows (`Approval.shown_seal`). Empty if the platform does not send it."""

    def with_form(self, form: dict[str, str]) -> Click:
        """Return this press with these values of the dialog."""
        return self.model_copy(update={"form": form})


class FormSubmission(FrozenModel):
    """The form of a process with a person's input so far, from a verified payload."""

    id: str
    """The platform's id of the dialog, which identifies duplicates."""
    person: str
    process: str
    """Key of the process. Empty for the first process."""
    values: dict[str, str] = Field(default_factory=dict)
    """Field → text, as typed."""
    said: str = ""
    """The person's own words, or the message that the form is about. The first free text is filled with them."""
    page: int = 0
    """The page that is shown, from 0."""
    earlier: tuple[str, ...] = ()
    """The fields of the pages before."""
    has_choice: bool = False
    """Whether the person may change to the form of another process."""
    files: tuple[SentFile, ...] = ()
    """Files chosen on this page. `values` has their ids."""
    kept: tuple[str, ...] = ()
    """Ids of the files of the message that the form is about. The form lists these files, and each can be left out."""
    offer: str = ""
    """The answer whose button opens the form, and the number of the offered step: `<run>.<number>`. Empty otherwise."""

    def turn_page(self) -> FormSubmission:
        """Return this form with the next page shown."""
        return self.model_copy(update={"page": self.page + 1, "earlier": tuple(self.values)})


OPEN_FORM = "form:open:"
"""Beginning of the choices of buttons that open a form (see `FormSubmission.offer`). The step's number follows."""


@dataclass(frozen=True, slots=True)
class Button:
    label: str
    choice: str
    approval: str
    version: int
    style: str = ""
    seal: str = ""
    """Part of the seal of what the button's card shows. The press returns it."""
    hint: str = ""
    """The label in words, for a button that shows only a sign."""


@dataclass(frozen=True, slots=True)
class PersonPicker:
    """A picker for one person. The choice comes back as a `Click` with `person` in its form."""

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
    """Further company data about the person, in the reader's language."""
    marks: tuple[str, ...] = ()
    """Reasons why the person may be mistaken for somebody else, in the reader's language."""


@dataclass(frozen=True, slots=True)
class NamedPeople:
    people: tuple[NamedPerson, ...]
    text: str = ""
    """The sentence that names the people. If empty, only their names are shown."""


LabelledValue: TypeAlias = tuple[str, str | NamedPeople]


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time, which the platform shows in its reader's own way."""

    ms: int
    text: str
    """The time in the reader's time zone, for platforms without a way of their own."""


RichText: TypeAlias = tuple[str | NamedPerson | Moment, ...]
"""A sentence in pieces: words, people and points in time."""


@dataclass(frozen=True, slots=True)
class TickOption:
    """An option with a box to tick."""

    value: str
    text: str
    details: str = ""
    is_ticked: bool = True


@dataclass(frozen=True, slots=True)
class TickList:
    """Options with a box each. A changed tick is a `Click`. Every press brings the ticks (`work_items.TICKED`)."""

    approval: str
    version: int
    options: tuple[TickOption, ...]


@dataclass(frozen=True, slots=True)
class Card:
    """A card in the reader's language. Code has chosen every word."""

    title: str
    facts: tuple[LabelledValue, ...] = ()
    body: str = ""
    buttons: tuple[Button, ...] = ()
    footer: str | RichText = ""
    when: Moment | None = None
    """Time shown directly under the title of a card that is over."""
    lead: str = ""
    """The result, shown before the fields."""
    ticks: TickList | None = None
    """Boxes between the fields and the buttons."""
    is_void: bool = False
    """Whether nothing of the card's facts holds any more, so that they are struck through."""


class StepState(StrEnum):
    """The state of a step."""

    DONE = "done"
    WAITING = "waiting"
    """The step's card waits for a button."""
    FAILED = "failed"
    """The step had no result, or its result is unknown."""


@dataclass(frozen=True, slots=True)
class StepLine:
    """One step of a run, as people read it."""

    title: str
    """The action and its result, without formatting."""
    details: str = ""
    """The reason, in the model's words."""
    state: StepState = StepState.DONE


@dataclass(frozen=True, slots=True)
class StepList:
    """All steps of a run, in one message that is rewritten."""

    title: str
    """The state of the run: *Working on it*, *Worked for 4 s*."""
    steps: tuple[StepLine, ...]
    """The steps, oldest first."""


@dataclass(frozen=True, slots=True)
class Post:
    """One message of the bot. `text` is Markdown-like prose or, with a card, the text of a notification."""

    text: str
    card: Card | None = None
    receipt: str = ""
    """Text under an answer, written by code: what this run changed."""
    plain: bool = False
    """Whether the text contains no formatting, because it holds somebody's own words."""
    buttons: tuple[Button, ...] = ()
    """Buttons under an answer without a card."""
    picker: PersonPicker | None = None
    """A picker beside these buttons."""
    people: NamedPeople | None = None
    """The people that the answer's question is about, shown under the answer with a heading."""
    rich: RichText = ()
    """The text of a plain post, with people and points in time as the platform shows them."""
    pairs: tuple[tuple[Button, Button], ...] = ()
    """Two small buttons each, for and against, last under an answer. Each shows a sign. Their choices are alike up to
    the last `_`."""
    steps: StepList | None = None
    """Steps in place of the text, if the platform can show steps. `text` says the same in words."""


@dataclass(frozen=True, slots=True)
class FormInput:
    """One input of a dialog or a form, in the reader's language."""

    field: DialogField
    label: str
    options: tuple[tuple[str, str], ...] = ()
    """(value, label) pairs of a choice."""
    hint: str = ""
    is_watched: bool = False
    """Whether something depends on the input, so that a change is sent at once."""


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
    inputs: tuple[FormInput, ...]
    """The inputs, and among them the texts that are only read (`shown`)."""
    card: MessageRef | None = None
    """The message whose button opened the dialog. The submission returns it."""
    lead: str = ""
    """The objection, shown above everything else."""
    matter: str = ""
    """The subject of the decision, as a statement."""
    about: tuple[LabelledValue, ...] = ()
    """The facts of the decision: who, what, how long."""
    more: str = ""
    """Label of the button that leads to further fields, if not all fit on one page."""
    kept: tuple[tuple[str, str], ...] = ()
    """(name, value) pairs that the submission returns among its values."""
    seal: str = ""
    """The seal of the button that opened the dialog."""


@dataclass(frozen=True, slots=True)
class FormDialog:
    """One page of the form of a process, as shown to a person. Their input comes back as a `FormSubmission`."""

    title: str
    submit: str
    cancel: str
    process: str
    page: int
    inputs: tuple[FormInput, ...]
    values: tuple[tuple[str, str], ...] = ()
    """Input of the pages before: (field, text)."""
    notes: tuple[str, ...] = ()
    """Results computed from the input so far."""
    warnings: tuple[str, ...] = ()
    """Problems of the input so far."""
    more: str = ""
    """Label of the button that leads to the optional fields. Empty if there are none."""
    choices: tuple[tuple[str, str], ...] = ()
    """(key, name) of the processes to choose from. Empty if there is no choice."""
    kept: tuple[str, ...] = ()
    """See `FormSubmission.kept`."""


@dataclass(frozen=True, slots=True)
class FormProblem:
    """A problem of a field, in the reader's language."""

    field: str
    label: str
    """The field's label, for a view that does not show the field."""
    text: str


@dataclass(frozen=True, slots=True)
class FormAnswer:
    """The answer to a submitted page: problems, or the next page. With neither, the submission is durable."""

    problems: tuple[FormProblem, ...] = ()
    next_page: FormDialog | None = None


@dataclass(frozen=True, slots=True)
class RateSlot:
    """A rate limit of the platform: one post every `spacing_ms`, and `burst` posts at once after a pause."""

    key: str
    spacing_ms: int
    burst: int


class SessionStatus(StrEnum):
    """The status of a session with the bot, where the platform shows one."""

    PROCESSING = "processing"
    """The bot is at work, and its person can stop it."""
    SUSPENDED = "suspended"
    """A card waits for its button."""
    ACTIVE = "active"
    """The bot has answered."""


@dataclass(frozen=True, slots=True)
class SuggestedPrompt:
    """A prompt offered to a person who is about to write."""

    title: str
    message: str


class Channel(Protocol):
    """A chat platform as the rest of the bot sees it. Every call may raise `ChatError`."""

    async def post_message(
        self, place: Place, post: Post, *, key: str, again: bool = False, wait_ms: int | None = None
    ) -> MessageRef:
        """Post a message. `key` names this very post. With `again` (the work is repeated after a crash), the place is
        searched for that key first, so that nothing is posted twice. With `wait_ms`, a slot of the place's rate is
        already reserved and comes in that many ms. With None, the call reserves one."""

    async def update_message(self, ref: MessageRef, post: Post) -> None:
        """Update a message of ours, without waiting for a rate. Raises `ChatBusyError` when the platform takes no more
        updates now."""

    async def has_buttons_of(self, ref: MessageRef, post: Post) -> bool:
        """Return whether a message of ours shows the buttons of the post's card. Return True also if the message is
        gone."""

    async def post_ephemeral(self, place: Place, person: str, text: str) -> None:
        """Post a message that one person sees: in the place if the platform can, otherwise in a DM. A person that the
        platform does not reach at all is not told. Raises `ChatUnavailableError`."""

    def show_status(self, place: Place, text: str) -> None:
        """Show in the place's thread that the bot is at work, until it posts something there. An empty text removes the
        status. Returns at once and raises nothing, because the status is only a sign of life."""

    def set_session_status(self, place: Place, status: SessionStatus, *, person: str = "", title: str = "") -> None:
        """Show the status of the session in the place's thread. `person` and `title` count when the session begins.
        Returns at once and raises nothing."""

    async def wait_for_session(self, place: Place) -> None:
        """Wait, for some seconds at most, until the platform has the session's status. Raises nothing."""

    async def suggest_prompts(self, place: Place, prompts: Sequence[SuggestedPrompt]) -> None:
        """Offer prompts in a DM. Raises nothing."""

    async def upload_picture(
        self, place: Place, picture: bytes, *, name: str, title: str, alt: str, key: str, again: bool = False
    ) -> None:
        """Post a PNG. `name` is its file name, such as `process.png`. `title` is shown with it. `alt` describes the
        picture for people who cannot see it. `key` and `again` are those of `post_message`."""

    async def open_dm(self, person: str) -> Place:
        """Open the DM with a person."""

    async def upload_files(
        self, place: Place, files: Sequence[tuple[str, bytes]], *, comment: str, key: str, again: bool = False
    ) -> None:
        """Post files, (name, bytes) each, in one message. `key` and `again` are those of `post_message`."""

    def find_rate_slot(self, place: Place) -> RateSlot | None:
        """Return the rate limit for posts to this place, if any."""


@dataclass(frozen=True, slots=True)
class FetchedFile:
    content: bytes
    uploader: str
    """Person id, as the platform says. Empty if it does not say."""


class FileSource(Protocol):
    """The source of the files of messages."""

    async def list_message_files(self, place: Place, at: str) -> tuple[SentFile, ...]:
        """Return the files of the message with this timestamp. Raises `ChatError`."""

    async def fetch_file(self, file: SentFile, max_bytes: int, only_from: str = "") -> FetchedFile:
        """Fetch a file. `only_from` is the id of the person who must have uploaded it, or empty for anybody. Raises
        `FileRefusedError`, or `ChatUnavailableError` if the platform cannot be reached now."""


class ChannelReaders(StrEnum):
    """The readers of a place besides the bot."""

    DIRECT = "direct"
    """One person: a DM."""
    INSIDE = "inside"
    """Full members of the company's workspace, and nobody else."""
    OUTSIDE = "outside"
    """Guests or another company, or unknown."""


class ReaderClassifier(Protocol):
    """Classifies the readers of a place."""

    async def classify_readers(self, place: Place) -> ChannelReaders:
        """Classify the readers of a place. An unknown answer is `OUTSIDE`. Raises nothing, and caches the answer for
        some minutes."""


class ChatDirectory(Protocol):
    """The platform's people as the rest of the bot sees them."""

    def find_known_person(self, person: str) -> Person | None:
        """Return what is known of a person without asking the platform, for requests whose answer the platform waits
        for."""

    async def find_person(self, person: str) -> Person | None: ...

    async def list_people(self) -> tuple[Person, ...]: ...

    async def refresh_people(self, people: Iterable[str]) -> None:
        """Refresh these persons, so that `find_person`, `list_people` and `find_caller` use data at most 30 s old for
        them. Raises `ChatUnavailableError` if the platform cannot be asked. A decision then waits."""

    async def find_caller(self, person: str) -> Caller | None:
        """Return the caller behind a verified payload, or None for bots, guests and deactivated people."""

    async def is_inside(self, person: str) -> bool:
        """Return True for full members and for bots of the workspace, False for guests and unknown ids."""

    async def keep_up_to_date(self) -> None:
        """Keep the people up to date. A job of the worker, which ends only with it."""


@dataclass(frozen=True, slots=True)
class HomeButton:
    """A button of Home itself. A button of Home that presses a card is a `Button`."""

    label: str
    action: str
    """The action, such as `open`. A press returns it as `HomePress.action`."""
    value: str = ""
    """The objects of the action: ids of ours."""
    style: str = ""


@dataclass(frozen=True, slots=True)
class HomeEntry:
    """An entry in a section of Home, shown whole with its buttons, or not at all."""

    card: Card
    buttons: tuple[HomeButton, ...] = ()
    """Buttons after those of the card."""


@dataclass(frozen=True, slots=True)
class HomeSection:
    title: str
    entries: tuple[HomeEntry, ...] = ()
    empty: str = ""
    """Text with an example, shown if the section has no entries."""
    note: str = ""
    """Text below the entries: how many more there are."""
    buttons: tuple[HomeButton, ...] = ()


@dataclass(frozen=True, slots=True)
class HomeView:
    """A person's Home page on the platform, in their language."""

    title: str
    sections: tuple[HomeSection, ...]
    """The sections, the most important first. If not all entries fit, the last ones are left out."""
    request: str = ""
    """Label of the button that opens the form of a request. Empty if there is nothing to ask for."""
    freshness: str = ""
    """The time of the page's data."""
    start: str = ""
    """Text for newcomers: how to begin."""


class HomePress(FrozenModel):
    """A press of a button of Home, or of a dialog of Home, from a verified payload."""

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
    """Field → text, as typed, together with the values that the dialog carried."""
    seal: str = ""
    """Seal of what the dialog has shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeDialog:
    """A dialog that Home opens. Its submission comes back as a `HomeSubmission`."""

    title: str
    cancel: str
    submit: str = ""
    """Label of the submit button. Empty for a dialog that is only to be read."""
    action: str = ""
    value: str = ""
    card: Card | None = None
    """The card that the dialog is about, in full, with the buttons that press that card."""
    notice: str = ""
    """Text above everything else: what has changed, or why nothing was done."""
    inputs: tuple[FormInput, ...] = ()
    form: tuple[tuple[str, str], ...] = ()
    """Earlier input: (field, text)."""
    seal: str = ""
    buttons: tuple[HomeButton, ...] = ()


@dataclass(frozen=True, slots=True)
class HomeAnswer:
    """The answer to a submitted dialog of Home: problems, or the next dialog. With neither, the submission is done."""

    problems: tuple[FormProblem, ...] = ()
    dialog: HomeDialog | None = None
    """The dialog that is shown next."""


class Acceptance(StrEnum):
    """The outcome of an event whose acceptance failed."""

    TAKEN = "taken"
    """The event was stored after all. Only the answer was lost."""
    NOT_TAKEN = "not_taken"
    """The event was not stored, and will not be any more."""
    UNKNOWN = "unknown"
    """The store cannot be asked."""


class Ingress(Protocol):
    """Accepts what a platform delivers. Each call makes the event durable or answers it before it returns. A call that
    raises `StoreUnavailableError` has done neither, and the platform must not acknowledge the event."""

    async def accept_message(self, message: Message, *, aliases: tuple[str, ...] = ()) -> None:
        """Put a message into its lane. The word *stop* also acts at once, ahead of the queue. `aliases` are further
        names that identify duplicates."""

    async def accept_change(self, message: Message, *, is_deleted: bool) -> None:
        """Accept that a person has changed or deleted one of their messages. `message` is the changed one, or the
        deleted one as it was. Its id is the event's."""

    async def accept_click(self, click: Click) -> None:
        """Put a press into its lane."""

    async def withdraw(self, event: Click | Message, failed: Exception) -> Acceptance:
        """Return the outcome of an event whose acceptance has raised `failed`. An event that was not stored never will
        be."""

    async def stop_session(self, place: Place, person: str, id: str, at: str) -> None:
        """Accept a press of the platform's own *Stop*, which acts like the word, without a message to answer. `id` is
        the event's, which identifies duplicates. `at` is when it was pressed."""

    async def is_engaged(self, place: Place) -> bool:
        """Return whether the bot has taken part in this thread."""

    async def opens_dialog(self, click: Click) -> bool:
        """Return whether a press may open a dialog. Asks nobody but the store, because the platform waits."""

    async def build_dialog(self, click: Click) -> Dialog | None:
        """Build the dialog that this press opens. With None, the press has to be passed on as a click."""

    async def check_dialog(self, click: Click) -> dict[str, str]:
        """Check a submitted dialog before it is accepted. Return its problems: field → sentence."""

    async def build_home(self, person: str, *, is_opened: bool = False) -> HomeView | None:
        """Build the person's Home page. Return None for people without one. `is_opened` says that the person sees its
        first page now. The page is then renewed for a while when something on it changes."""

    async def handle_home_press(self, press: HomePress) -> HomeDialog | None:
        """Handle a button of Home. Return the dialog that it opens, or None if the page itself has changed."""

    async def submit_home_dialog(self, submission: HomeSubmission) -> HomeAnswer:
        """Check a submitted dialog of Home, and put its consequences into a lane."""

    async def welcome_person(self, person: str, place: Place) -> Sequence[SuggestedPrompt]:
        """Welcome a person who has opened their DM with the bot for the first time. Return prompts that they could send
        now, and none for people who are not served."""

    async def build_form(self, form: FormSubmission) -> FormDialog | str:
        """Build the page of a form with its input so far. Return a text in the person's language if they get no
        page."""

    async def submit_form(self, form: FormSubmission) -> FormAnswer:
        """Check a submitted page. Put the form into a lane if it has no problems and no further page is needed."""
