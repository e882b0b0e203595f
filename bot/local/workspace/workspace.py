"""The workspace itself: its memory, its ways to the app, and who is told when something changes."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from aiohttp import WSCloseCode, web

from bot.core.errors import LocalStartError
from bot.local.workspace.delivery import AppDelivery, DeliveryTiming
from bot.local.workspace.faults import PlannedFaults
from bot.local.workspace.limiter import MethodRateLimiter
from bot.local.workspace.once import ResponseUrls, TriggerIds
from bot.local.workspace.payloads import build_event_callback
from bot.local.workspace.refused import WorkspaceError
from bot.local.workspace.signed import SignedHttpTransport
from bot.local.workspace.sockets import SocketModeTransport
from bot.local.workspace.state import StateFile, WorkspaceState
from bot.local.workspace.world import Json, WorkspaceMember, WorkspaceRoom, World, read_world

SCOPES = frozenset(
    {
        *(
            "app_mentions:read",
            "assistant:write",
            "channels:history",
            "channels:read",
            "chat:write",
            "commands",
            "files:read",
            "files:write",
        ),
        *("groups:history", "groups:read", "im:history", "im:read", "im:write"),
        *("mpim:history", "mpim:read", "reactions:read", "reactions:write"),
        *("team:read", "users:read", "users:read.email", "users.profile:read"),
    }
)
EVENTS = frozenset(
    {
        *("agent_session_stopped", "app_home_opened", "app_mention"),
        *("message.channels", "message.groups", "message.im", "message.mpim"),
    }
)


@dataclass(frozen=True, slots=True)
class AppShortcut:
    """An entry that the app has in everybody's menus."""

    callback_id: str
    name: str
    on_messages: bool = False
    """In the menu of each message; otherwise in that of the composer."""


@dataclass(frozen=True, slots=True)
class WorkspaceSetup:
    """How the app is installed: what it may do, and what it is sent."""

    bot_token: str = field(repr=False)
    app_token: str = field(repr=False)
    signing_secret: str = field(default="", repr=False)
    commands: tuple[str, ...] = ("/countersign", "/leave", "/expense")
    shortcuts: tuple[AppShortcut, ...] = (
        AppShortcut("cs:request", "Request…"),
        AppShortcut("cs:request:expense", "Make this an expense", on_messages=True),
    )
    is_agent: bool = True
    """Its manifest has `agent_view`: it may have sessions and suggest prompts."""
    scopes: frozenset[str] = SCOPES
    events: frozenset[str] = EVENTS
    """Event subscriptions, named as in the app's manifest."""
    timing: DeliveryTiming = field(default_factory=DeliveryTiming)


@dataclass(frozen=True, slots=True)
class WorkspaceChange:
    """Something people may see has changed. `what`: messages, private, views, home, mail, people, channels; `calls` and
    `acks` are for tests only. `person` and `channel` narrow it down where they are known."""

    what: str
    channel: str = ""
    person: str = ""


@dataclass(frozen=True, slots=True)
class WebApiCall:
    """A Web API call the app made. `error` is empty when it succeeded."""

    method: str
    args: Json
    error: str = ""


@dataclass(frozen=True, slots=True)
class StandInService:
    """An outside service replaced on this machine, for the page to say so."""

    name: str
    note: str


@dataclass(slots=True)
class SharedFile:
    """`content` is None until it was uploaded; `rooms` are those it was shared in."""

    name: str
    length: int
    alt: str
    id: str = field(default_factory=lambda: "F" + secrets.token_hex(5).upper())
    key: str = field(default_factory=lambda: secrets.token_hex(16))
    """What the upload URL ends in: nobody else knows it."""
    content: bytes | None = None
    rooms: set[str] = field(default_factory=set)
    user: str = ""
    """Who uploaded it; empty: the app."""
    is_external: bool = False
    """It lies with another service: the platform knows its name, and has no bytes."""
    is_in_dialog: bool = False
    """It was handed to the app in a dialog."""


class MailSource(Protocol):
    """The local mail sink. Each mail has id, at, from, to, subject, body, message_id; newest last."""

    on_change: Callable[[Json], None] | None

    @property
    def mails(self) -> Sequence[Json]: ...


class ChangeNotifier:
    """Who wants to know of changes, and a bell for those who wait for the next one."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[WorkspaceChange], None]] = []
        self.next_change = asyncio.Event()

    def notify_listeners(self, change: WorkspaceChange) -> None:
        for listener in list(self.listeners):
            listener(change)
        self.next_change.set()
        self.next_change = asyncio.Event()


class Workspace:
    """One team with one app. Give `folder` to keep it across restarts; `close` it in the end."""

    def __init__(
        self,
        setup: WorkspaceSetup,
        *,
        world: World | None = None,
        folder: Path | None = None,
        mailbox: MailSource | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.setup, self.clock, self.mailbox = setup, clock, mailbox
        self.world = world or read_world()
        self.app = self.world.app
        self.address = ""
        """`http://host:port` this workspace is served at."""
        self.standins: tuple[StandInService, ...] = ()
        self.calls: deque[WebApiCall] = deque(maxlen=10_000)
        self.lines: deque[Json] = deque(maxlen=200)
        """The latest log lines."""
        self.line_listeners: list[Callable[[Json], None]] = []
        self.files: dict[str, SharedFile] = {}
        self.file_redirect = ""
        """Where downloads are sent on to: only tests say so."""
        self.feeds: set[web.WebSocketResponse] = set()
        """Open live feeds of pages."""
        self.changes, self.faults = ChangeNotifier(), PlannedFaults()
        self.limiter = MethodRateLimiter(clock)
        self.triggers = TriggerIds(clock, setup.timing.trigger)
        self.reply_urls = ResponseUrls(clock, setup.timing.reply_url)
        self.state_file = StateFile(folder, setup.timing.save)
        self.state: WorkspaceState = self.state_file.load_state(self.world)
        self.sockets = SocketModeTransport(self.app, setup.timing, self.faults, self._notify_acks)
        self.delivery = AppDelivery(self.sockets, setup.timing, self.state.waiting, self._notify_acks)

    def _notify_acks(self) -> None:
        self.notify_change("acks")

    def notify_change(self, what: str, channel: str = "", person: str = "") -> None:
        if what not in ("calls", "mail"):
            self.state_file.save_soon(lambda: self.state)
        self.changes.notify_listeners(WorkspaceChange(what, channel, person))

    def append_log_line(self, line: Json) -> None:
        """Show a line in the page's log pane."""
        self.lines.append(line)
        for listener in list(self.line_listeners):
            listener(line)

    def create_timestamp(self) -> str:
        return self.state.create_timestamp(self.clock())

    def get_person(self, id: str) -> WorkspaceMember:
        """A person of the workspace. `WorkspaceError` when there is none, or it is the bot."""
        person = self.state.people.get(id)
        if person is None or person.is_bot or person.deleted:
            raise WorkspaceError("user_not_found")
        return person

    def get_room(self, channel: str, person: str) -> WorkspaceRoom:
        """The room, which the person must be in."""
        room = self.state.rooms.get(channel)
        if room is None:
            raise WorkspaceError("channel_not_found")
        if person not in room.members:
            raise WorkspaceError("not_in_channel")
        return room

    def send_event(self, subscription: str, event: Json) -> str:
        """Deliver an event if the app subscribed to it; its event id, empty when it did not."""
        if subscription not in self.setup.events:
            return ""
        payload = build_event_callback(self.app, event, self.clock())
        room = self.state.rooms.get(str(event.get("channel", "")))
        payload["is_ext_shared_channel"] = room is not None and room.is_ext_shared
        self.delivery.deliver_event(payload)
        return str(payload["event_id"])

    async def use_http_delivery(self, url: str) -> None:
        """Deliver to a request URL from now on, after the handshake. `LocalStartError` when the URL does not answer
        it."""
        carrier = SignedHttpTransport(url, self.setup.signing_secret, self.setup.timing, self.faults)
        self.delivery.carrier = carrier
        if not await carrier.verify_url():
            raise LocalStartError(f"{url} did not answer the url_verification challenge")

    def start_delivery(self, address: str) -> None:
        """To be called once the server listens, in its loop."""
        self.address = address
        self.delivery.resume_events()
        if self.mailbox is not None:
            self.mailbox.on_change = lambda mail: self.notify_change("mail")

    async def close(self) -> None:
        await self.delivery.close()
        await self.sockets.close()
        await asyncio.gather(*(feed.close(code=WSCloseCode.GOING_AWAY) for feed in list(self.feeds)))
        await self.state_file.close(self.state)
