"""The state of a workspace, and its snapshot on disk: one JSON file, replaced atomically. After a restart, people see
their messages and cards again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from bot.core.private import make_private_folder, open_private
from bot.dev.workspace.world import Json, WorkspaceMember, WorkspaceRoom, World

ROOM_CAP = 2000
"""Maximum messages kept in a room."""
PRIVATE_CAP = 100
"""Maximum private notices kept for a person."""
VERSION = 1
FIELDS = ("views", "stacks", "homes", "private", "read", "waiting", "last_stamp")
ROOM_FIELDS = ("id", "name", "kind", "members")
"""Fields of the state, and of a room besides its messages, that are saved as they are."""


@dataclass(slots=True)
class WorkspaceState:
    """The state of a workspace. People see all of it, except `waiting`, `old_blocks`, `typed`, `ticked` and
    `statuses`."""

    people: dict[str, WorkspaceMember]
    rooms: dict[str, WorkspaceRoom]
    views: dict[str, Json] = field(default_factory=dict)
    stacks: dict[str, list[str]] = field(default_factory=dict)
    """person → ids of the open dialogs, the top one last."""
    homes: dict[str, Json] = field(default_factory=dict)
    private: dict[str, list[Json]] = field(default_factory=dict)
    """person → notices that only they see."""
    read: dict[str, dict[str, str]] = field(default_factory=dict)
    """person → room → timestamp of the last message read."""
    waiting: dict[str, Json] = field(default_factory=dict)
    """event id → event payload that no app has acknowledged yet."""
    last_stamp: int = 0
    old_blocks: dict[tuple[str, str], list[list[Json]]] = field(default_factory=dict)
    """(room, ts) → earlier blocks of the message, which a screen that was not repainted still shows."""
    typed: dict[str, dict[str, Json]] = field(default_factory=dict)
    """view → block → {action: entry}: values that the person has put into the open dialog."""
    ticked: dict[tuple[str, str, str], dict[str, Json]] = field(default_factory=dict)
    """(person, room, ts) → block → {action: entry}: options that the person has chosen in a message."""
    statuses: dict[tuple[str, str], str] = field(default_factory=dict)
    """(room, thread) → status that the app shows there."""
    sessions: dict[tuple[str, str], Json] = field(default_factory=dict)
    """(room, thread) → its session: `status`, `title`, `user`."""
    prompts: dict[str, list[Json]] = field(default_factory=dict)
    """room → prompts that the app suggests there, until somebody writes."""

    def create_timestamp(self, now: float) -> str:
        """Create a message timestamp, unique and rising whatever the clock does. `now` is in seconds."""
        self.last_stamp = max(self.last_stamp + 1, int(now * 1_000_000))
        return f"{self.last_stamp // 1_000_000}.{self.last_stamp % 1_000_000:06d}"

    def count_unread(self, person: str, room: WorkspaceRoom) -> int:
        since = self.read.get(person, {}).get(room.id, "")
        return sum(1 for ts, message in room.messages.items() if ts > since and message.get("user") != person)

    def add_message(self, room: WorkspaceRoom, message: Json) -> None:
        """Add a message. In a full room, the oldest one is dropped."""
        room.messages[message["ts"]] = message
        if len(room.messages) > ROOM_CAP:
            del room.messages[next(iter(room.messages))]

    def add_ephemeral(self, person: str, notice: Json) -> None:
        notices = self.private.setdefault(person, [])
        notices.append(notice)
        del notices[:-PRIVATE_CAP]

    def remember_blocks(self, room: str, ts: str, blocks: list[Json]) -> None:
        if blocks:
            past = self.old_blocks.setdefault((room, ts), [])
            past.append(blocks)
            del past[:-10]


def build_initial_state(world: World) -> WorkspaceState:
    """Build the state before any message: everybody in every public channel, and each person with a DM to the bot."""
    app = world.app
    bot = WorkspaceMember(app.user, app.name, app.real_name, is_bot=True)
    people = {person.id: person for person in (*world.people, bot)}
    humans = [person for person in people.values() if not person.is_bot]
    rooms = {
        one.id: replace(one, members=[*one.members, app.user] if one.members else list(people), messages={})
        for one in world.rooms
    }
    rooms |= {p.dm_id: WorkspaceRoom(p.dm_id, "directmessage", "im", [p.id, app.user]) for p in humans}
    return WorkspaceState(people, rooms)


def dump_state(state: WorkspaceState) -> Json:
    rooms = [
        {**{name: getattr(room, name) for name in ROOM_FIELDS}, "messages": list(room.messages.values())}
        for room in state.rooms.values()
    ]
    locales = {person.id: person.locale for person in state.people.values()}
    return {"version": VERSION, "rooms": rooms, "locales": locales, **{name: getattr(state, name) for name in FIELDS}}


def parse_state(world: World, saved: Json) -> WorkspaceState:
    """Parse a saved state for the people of `world`. Raises `KeyError`, `TypeError` or `ValueError` if it is not
    ours."""
    if saved["version"] != VERSION:
        raise ValueError("snapshot of another version")
    state = build_initial_state(world)
    for room in saved["rooms"]:
        messages = {message["ts"]: message for message in room["messages"]}
        state.rooms[room["id"]] = WorkspaceRoom(**{name: room[name] for name in ROOM_FIELDS}, messages=messages)
    for id, locale in saved["locales"].items():
        if id in state.people:
            state.people[id].locale = locale
    for name in FIELDS:
        setattr(state, name, saved[name])
    return state


class StateFile:
    """The state's file, `<folder>/workspace.json`. Without a folder, nothing is saved."""

    def __init__(self, folder: Path | None, delay_seconds: float) -> None:
        self.file = folder / "workspace.json" if folder else None
        self.delay_seconds = delay_seconds
        self.task: asyncio.Task[None] | None = None

    def load_state(self, world: World) -> WorkspaceState:
        """Load the saved state, or a fresh one. An unreadable snapshot is moved aside, never overwritten."""
        if self.file is None or not self.file.exists():
            return build_initial_state(world)
        try:
            return parse_state(world, json.loads(self.file.read_text("utf-8")))
        except (KeyError, TypeError, ValueError, AttributeError):
            self.file.replace(self.file.with_suffix(".unreadable"))
            return build_initial_state(world)

    def save_soon(self, take: Callable[[], WorkspaceState]) -> None:
        """Save after the delay, together with changes made until then."""

        async def save_later() -> None:
            await asyncio.sleep(self.delay_seconds)
            self.save_state(take())

        if self.file is not None and (self.task is None or self.task.done()):
            self.task = asyncio.get_running_loop().create_task(save_later())

    def save_state(self, state: WorkspaceState) -> None:
        if self.file is None:
            return
        make_private_folder(self.file.parent)
        draft = self.file.with_suffix(".new")
        with open_private(draft, "w", encoding="utf-8") as opened:
            opened.write(json.dumps(dump_state(state), ensure_ascii=False))
        draft.replace(self.file)

    async def close(self, state: WorkspaceState) -> None:
        if self.task is not None and not self.task.done():
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        self.save_state(state)
