"""A chat platform in memory. Each call of it is an edge: the process can end before and after the call."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bot.chat.messages import (
    Button,
    Card,
    Channel,
    ChannelReaders,
    FetchedFile,
    HomeView,
    Ingress,
    MessageRef,
    Place,
    Post,
    SentFile,
    SessionStatus,
    SuggestedPrompt,
)
from bot.chat.platform import IsConnected, Platform, is_listening
from bot.core.errors import ChatError, ChatUnavailableError, FileRefusedError
from tests.tools.company import PEOPLE
from tools.spec import Caller, Person

DM = Place(team="T1", channel="DU1", thread="1.0", direct=True)


class Killed(BaseException):
    """SIGKILL, as the code sees it."""


@dataclass
class Edges:
    """A counter of edges that ends the process at one of them."""

    at: int = 0
    passed: int = 0

    def __call__(self) -> None:
        self.passed += 1
        if self.passed == self.at:
            raise Killed


@dataclass
class PostedMessage:
    place: Place
    key: str
    post: Post


@dataclass
class PostedPicture:
    place: Place
    key: str
    picture: bytes
    title: str
    alt: str


@dataclass
class MemoryChannel:
    """A `Channel` in memory. `fails`: the errors that a channel raises instead of accepting a post. Under `update
    CHANNEL` and `upload CHANNEL` they replace a change or a picture, under `ephemeral PERSON` a message for one
    person."""

    edge: Edges = field(default_factory=Edges)
    posts: list[PostedMessage] = field(default_factory=list)
    ephemerals: list[tuple[str, str]] = field(default_factory=list)
    pictures: list[PostedPicture] = field(default_factory=list)
    files: list[tuple[Place, Sequence[tuple[str, bytes]], str]] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    """The words above files."""
    fails: dict[str, list[ChatError]] = field(default_factory=dict)
    statuses: list[tuple[Place, str]] = field(default_factory=list)
    sessions: list[tuple[Place, SessionStatus]] = field(default_factory=list)
    prompts: dict[str, Sequence[SuggestedPrompt]] = field(default_factory=dict)
    updates: list[MessageRef] = field(default_factory=list)
    """The updated messages, once per update."""

    def _fail(self, what: str) -> None:
        if self.fails.get(what):
            raise self.fails[what].pop(0)

    async def post_message(
        self, place: Place, post: Post, *, key: str, again: bool = False, wait_ms: int | None = None
    ) -> MessageRef:
        self.edge()
        self._fail(place.channel)
        known = enumerate(self.posts) if again else ()
        there = [n for n, one in known if (one.place.channel, one.key) == (place.channel, key)]
        if not there:
            self.posts.append(PostedMessage(place, key, post))
        self.edge()
        return MessageRef(channel=place.channel, ts=str((there or [len(self.posts) - 1])[0]))

    async def update_message(self, ref: MessageRef, post: Post) -> None:
        self.edge()
        self._fail(f"update {ref.channel}")
        self.posts[int(ref.ts)].post = post
        self.updates.append(ref)
        self.edge()

    async def has_buttons_of(self, ref: MessageRef, post: Post) -> bool:
        self.edge()
        shown = self.posts[int(ref.ts)].post.card
        return (shown.buttons if shown else ()) == (post.card.buttons if post.card else ())

    async def post_ephemeral(self, place: Place, person: str, text: str) -> None:
        self.edge()
        self._fail(f"ephemeral {person}")
        self.ephemerals.append((person, text))

    async def open_dm(self, person: str) -> Place:
        return Place(team="T1", channel=f"D{person}", direct=True)

    def show_status(self, place: Place, text: str) -> None:
        self.statuses.append((place, text))

    def set_session_status(self, place: Place, status: SessionStatus, *, person: str = "", title: str = "") -> None:
        self.sessions.append((place, status))

    async def wait_for_session(self, place: Place) -> None:
        self.edge()

    async def suggest_prompts(self, place: Place, prompts: Sequence[SuggestedPrompt]) -> None:
        self.prompts[place.channel] = prompts

    async def upload_picture(
        self, place: Place, picture: bytes, *, name: str, title: str, alt: str, key: str, again: bool = False
    ) -> None:
        self.edge()
        self._fail(f"upload {place.channel}")
        if not (again and key in [one.key for one in self.pictures]):
            self.pictures.append(PostedPicture(place, key, picture, title, alt))
        self.edge()

    async def upload_files(
        self, place: Place, files: Sequence[tuple[str, bytes]], *, comment: str, key: str, again: bool = False
    ) -> None:
        self.edge()
        self._fail(f"upload {place.channel}")
        if not (again and key in [one for _, _, one in self.files]):
            self.files.append((place, files, key))
            self.comments.append(comment)
        self.edge()

    def find_rate_slot(self, place: Place) -> None:
        return None

    def list_posts(self, channel: str = DM.channel) -> list[PostedMessage]:
        return [one for one in self.posts if one.place.channel == channel]

    def texts(self, channel: str = DM.channel) -> list[str]:
        return [one.post.text for one in self.list_posts(channel)]

    def keys(self, channel: str = DM.channel) -> list[str]:
        return [one.key for one in self.list_posts(channel)]

    def answers(self) -> list[str]:
        """List final answers, in any place."""
        return [one.post.text for one in self.posts if one.key.endswith(":final")]

    def buttons(self, channel: str = DM.channel) -> list[Button]:
        """List the buttons under messages without a card, oldest first: *Try again* on stops."""
        return [button for one in self.list_posts(channel) for button in one.post.buttons]

    def cards(self, channel: str = DM.channel) -> list[Card]:
        """List the cards that can be pressed now."""
        return [card for one in self.list_posts(channel) if (card := one.post.card) is not None and card.buttons]


@dataclass
class MemoryReaders:
    """A `ReaderClassifier`: only members read a channel, unless the test says otherwise."""

    known: dict[str, ChannelReaders] = field(default_factory=dict)

    async def classify_readers(self, place: Place) -> ChannelReaders:
        if place.direct or place.shared:
            return ChannelReaders.DIRECT if place.direct else ChannelReaders.OUTSIDE
        return self.known.get(place.channel, ChannelReaders.INSIDE)


@dataclass
class MemoryDirectory:
    """A `ChatDirectory` in memory."""

    known: list[Person] = field(default_factory=lambda: list(PEOPLE))
    fresh: dict[str, Person] = field(default_factory=dict)
    """The platform's newer data about people, which only a fresh look-up shows."""
    is_unreachable: bool = False

    async def find_person(self, person: str) -> Person | None:
        return self.find_known_person(person)

    async def list_people(self) -> tuple[Person, ...]:
        return tuple(self.known)

    async def refresh_people(self, people: Iterable[str]) -> None:
        if self.is_unreachable:
            raise ChatUnavailableError("unreachable", "users.info")
        for person in people:
            if (found := self.fresh.pop(person, None)) is not None:
                self.change(person, **dict(found))

    def find_known_person(self, person: str) -> Person | None:
        return next((one for one in self.known if one.id == person), None)

    async def find_caller(self, person: str) -> Caller | None:
        found = await self.find_person(person)
        return Caller(found) if found and found.active else None

    async def is_inside(self, person: str) -> bool:
        return await self.find_caller(person) is not None

    async def keep_up_to_date(self) -> None:
        """Wait for ever: nothing changes."""
        await asyncio.Event().wait()

    def change(self, person: str, **changes: object) -> None:
        self.known = [one.model_copy(update=changes) if one.id == person else one for one in self.known]


@dataclass
class MemoryFileSource:
    """A `FileSource`. `contents`: id of a sent file → its bytes; `uploaders`: id of a file that somebody else uploaded
    → that person."""

    edge: Edges = field(default_factory=Edges)
    contents: dict[str, bytes] = field(default_factory=dict)
    uploaders: dict[str, str] = field(default_factory=dict)

    async def list_message_files(self, place: Place, at: str) -> tuple[SentFile, ...]:
        return ()

    async def fetch_file(self, file: SentFile, max_bytes: int, only_from: str = "") -> FetchedFile:
        self.edge()
        if file.id not in self.contents:
            raise FileRefusedError("gone")
        uploader = self.uploaders.get(file.id, only_from)
        if only_from != uploader and only_from:
            raise FileRefusedError("not_yours")
        return FetchedFile(self.contents[file.id], uploader)


@dataclass
class MemoryFileBytes:
    """A `FileBytes` in memory."""

    edge: Edges = field(default_factory=Edges)
    contents: dict[str, bytes] = field(default_factory=dict)

    async def save_bytes(self, sha256: str, content: bytes) -> None:
        self.edge()
        self.contents.setdefault(sha256, content)
        self.edge()

    async def load_bytes(self, sha256: str) -> bytes | None:
        content = self.contents.get(sha256)
        return content if content is not None and hashlib.sha256(content).hexdigest() == sha256 else None

    async def delete_bytes(self, sha256: str) -> None:
        self.contents.pop(sha256, None)

    async def list_hashes(self, older_than_s: float) -> list[str]:
        return []

    def close(self) -> None: ...


def build_platform(
    channel: Channel, directory: MemoryDirectory, *, readers: MemoryReaders | None = None,
    file_source: MemoryFileSource | None = None, homes: dict[str, HomeView] | None = None,
) -> Platform:  # fmt: skip
    """Build a platform in memory. `homes`: receives the pages of Home. Tests deliver events by calling the ingress."""

    @asynccontextmanager
    async def connect(ingress: Ingress) -> AsyncIterator[IsConnected]:
        yield is_listening

    async def publish_home(person: str, page: HomeView) -> None:
        if homes is not None:
            homes[person] = page

    return Platform(
        team=DM.team, chat=channel, directory=directory, reader_classifier=readers or MemoryReaders(),
        file_source=file_source or MemoryFileSource(), publish_home=publish_home, connect=connect,
    )  # fmt: skip
