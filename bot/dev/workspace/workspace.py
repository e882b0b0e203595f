"""The workspace itself: its state, its transports to the app, and the listeners to its changes."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import WSCloseCode, web

from bot.dev.mailbox import Mailbox
from bot.dev.real_models import RealModel
from bot.dev.workspace.delivery import AppDelivery, DeliveryTiming
from bot.dev.workspace.once import TriggerIds
from bot.dev.workspace.payloads import build_event_callback
from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.sockets import SocketModeTransport
from bot.dev.workspace.state import StateFile, WorkspaceState
from bot.dev.workspace.world import Json, WorkspaceMember, WorkspaceRoom, World, read_world

SCOPES = frozenset(
    {
        *("app_mentions:read", "assistant:write", "channels:history", "channels:read", "chat:write", "commands"),
        *("files:read", "files:write", "groups:history", "groups:read", "im:history", "im:read", "im:write"),
        *("mpim:history", "mpim:read", "reactions:read", "reactions:write"),
        *("team:read", "users:read", "users:read.email", "users.profile:read"),
    }
)
EVENTS = frozenset(
    {
        *("agent_session_stopped", "app_home_opened", "app_mention"),
        *("message.channels", "message.groups", "message.im", "message.mpim", "user_change"),
    }
)


@dataclass(frozen=True, slots=True)
class AppShortcut:
    """An entry of the app in everybody's menus."""

    callback_id: str
    name: str
    on_messages: bool = False
    """Whether the entry is in each message's menu; otherwise it is in the composer's."""


@dataclass(frozen=True, slots=True)
class WorkspaceSetup:
    """Installation of the app: tokens, scopes, and the events it gets."""

    bot_token: str = field(repr=False)
    app_token: str = field(repr=False)
    signing_secret: str = field(default="", repr=False)
    commands: tuple[str, ...] = ("/countersign", "/leave", "/expense")
    shortcuts: tuple[AppShortcut, ...] = (
        AppShortcut("cs:request", "Request…"),
        AppShortcut("cs:request:expense", "Make this an expense", on_messages=True),
    )
    scopes: frozenset[str] = SCOPES
    events: frozenset[str] = EVENTS
    """Event subscriptions, named as in the app's manifest."""
    timing: DeliveryTiming = field(default_factory=DeliveryTiming)
    platform: str = "slack"
    menu: tuple[tuple[str, str], ...] = ()
    """(event key, name) of the entries of the bot's menu, which only Feishu has."""


@dataclass(frozen=True, slots=True)
class WorkspaceChange:
    """A change of something that people may see. `what` is messages, private, views, home, mail, people or channels,
    `log` with the new line, or `acks` for the sockets to the app. `person` and `channel` narrow it down if they are
    known."""

    what: str
    channel: str = ""
    person: str = ""
    line: Json | None = None


@dataclass(slots=True)
class SharedFile:
    """A file. `content` is None until the upload; `rooms` are those it was shared in."""

    name: str
    length: int
    alt: str
    id: str = field(default_factory=lambda: "F" + secrets.token_hex(5).upper())
    key: str = field(default_factory=lambda: secrets.token_hex(16))
    """Secret end of the upload URL."""
    content: bytes | None = None
    rooms: set[str] = field(default_factory=set)
    user: str = ""
    """Person id of the uploader; empty for the app."""
    is_external: bool = False
    """Whether the file is stored with another service. The platform knows its name, and has no bytes."""
    is_in_dialog: bool = False
    """Whether the file was handed to the app in a dialog."""


class ChangeNotifier:
    """Listeners to changes, and an event for those who wait for the next change."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[WorkspaceChange], None]] = []
        self.next_change = asyncio.Event()

    def notify_listeners(self, change: WorkspaceChange) -> None:
        for listener in list(self.listeners):
            listener(change)
        self.next_change.set()
        self.next_change = asyncio.Event()


class Workspace:
    """One team with one app. With `folder` its state survives restarts. Call `close` at the end."""

    sockets_class: Any = SocketModeTransport

    def __init__(
        self,
        setup: WorkspaceSetup,
        *,
        world: World | None = None,
        folder: Path | None = None,
        mailbox: Mailbox | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.setup, self.clock, self.mailbox = setup, clock, mailbox
        self.world = world or read_world()
        self.app = self.world.app
        self.address = ""
        """Address that serves this workspace, as `http://host:port`."""
        self.standins: dict[str, str] = {}
        """Outside service that is replaced on this machine → a note, where the page has no words of its own for it."""
        self.models: tuple[RealModel, ...] = ()
        self.lines: deque[Json] = deque(maxlen=200)
        """Latest 200 log lines."""
        self.files: dict[str, SharedFile] = {}
        self.feeds: set[web.WebSocketResponse] = set()
        """Open live feeds of pages."""
        self.changes = ChangeNotifier()
        self.triggers = TriggerIds(clock, setup.timing.trigger)
        self.state_file = StateFile(folder, setup.timing.save)
        self.state: WorkspaceState = self.state_file.load_state(self.world)
        notify_acks = partial(self.notify_change, "acks")
        self.sockets: SocketModeTransport = self.sockets_class(notify_acks, setup.timing)
        self.delivery = AppDelivery(self.sockets, setup.timing, self.state.waiting, notify_acks)

    def notify_change(self, what: str, channel: str = "", person: str = "") -> None:
        if what != "mail":
            self.state_file.save_soon(lambda: self.state)
        self.changes.notify_listeners(WorkspaceChange(what, channel, person))

    def append_log_line(self, line: Json) -> None:
        """Show a line in the page's log pane."""
        self.lines.append(line)
        self.changes.notify_listeners(WorkspaceChange("log", line=line))

    def create_timestamp(self) -> str:
        return self.state.create_timestamp(self.clock())

    def get_person(self, id: str) -> WorkspaceMember:
        """Return a person of the workspace. Raises `WorkspaceError` if there is none, or it is the bot."""
        person = self.state.people.get(id)
        if person is None or person.is_bot or person.deleted:
            raise WorkspaceError("user_not_found")
        return person

    def get_room(self, channel: str, person: str) -> WorkspaceRoom:
        """Return a room that the person is in. Raises `WorkspaceError`."""
        room = self.state.rooms.get(channel)
        if room is None:
            raise WorkspaceError("channel_not_found")
        if person not in room.members:
            raise WorkspaceError("not_in_channel")
        return room

    def send_event(self, subscription: str, event: Json) -> str:
        """Deliver an event if the app subscribed to it; return its event id, or an empty text."""
        if subscription not in self.setup.events:
            return ""
        payload = build_event_callback(self.app, event)
        self.delivery.deliver_event(payload)
        return str(payload["event_id"])

    def start_delivery(self, address: str) -> None:
        """Start delivery. Call this once the server listens, in its event loop."""
        self.address = address
        self.delivery.resume_events()
        if self.mailbox is not None:
            self.mailbox.on_change = lambda mail: self.notify_change("mail")

    async def close(self) -> None:
        await self.delivery.close()
        await self.sockets.close()
        await asyncio.gather(*(feed.close(code=WSCloseCode.GOING_AWAY) for feed in list(self.feeds)))
        await self.state_file.close(self.state)
