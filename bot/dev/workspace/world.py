"""The contents of a workspace: people, rooms and the app itself, read from a TOML file or built in a test."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Literal, TypeAlias

from tools.spec import Person

Json: TypeAlias = dict[str, Any]
"""A JSON object in the platform's own shape."""
RoomKind: TypeAlias = Literal["im", "mpim", "channel", "group"]
"""Type of a room as in events (`channel_type`)."""


@dataclass(slots=True)
class WorkspaceMember:
    """A member of the workspace, with the platform's data."""

    id: str
    name: str
    """Handle, e.g. `lisi`."""
    real_name: str
    display_name: str = ""
    title: str = ""
    email: str = ""
    locale: str = "en-US"
    tz: str = "UTC"
    is_bot: bool = False
    is_restricted: bool = False
    """Whether the member is a guest."""
    is_admin: bool = False
    """Whether the member runs the workspace."""
    deleted: bool = False
    fields: Json = field(default_factory=dict)
    """Id of a profile field → its value."""

    @property
    def dm_id(self) -> str:
        """Id of the DM between this person and the bot."""
        return f"oc_p2p{self.id[3:]}" if self.id.startswith("ou_") else "D" + self.id[1:]

    @property
    def person(self) -> Person:
        """The member as the directory has them."""
        names = tuple(filter(None, (self.display_name, self.name)))
        active, locale = not self.deleted, self.locale
        return Person(id=self.id, name=self.real_name, names=names, email=self.email, locale=locale, active=active)


@dataclass(slots=True)
class WorkspaceRoom:
    """A channel, a private channel (`group`), a DM or a group DM, with its messages by timestamp, oldest first."""

    id: str
    name: str
    kind: RoomKind
    members: list[str] = field(default_factory=list)
    messages: dict[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkspaceApp:
    """The team and its one installed app."""

    team: str = "T0LOCAL"
    team_name: str = "Countersign Demo"
    user: str = "U0BOT"
    bot: str = "B0BOT"
    app: str = "A0APP"
    name: str = "countersign"
    real_name: str = "Countersign"


@dataclass(frozen=True, slots=True)
class World:
    """The contents of a workspace before any message."""

    app: WorkspaceApp
    people: tuple[WorkspaceMember, ...]
    rooms: tuple[WorkspaceRoom, ...]
    """The rooms besides the DMs. The bot is in each of them, and everybody in one that names no members."""
    profile: tuple[Json, ...] = ()
    """The workspace's own profile fields: id, label, type."""


def read_world() -> World:
    """Read the world of the demo people."""
    data = tomllib.loads(resources.files("bot.dev").joinpath("demo", "people.toml").read_text("utf-8"))
    team, bot = data["team"], data["bot"]
    app = WorkspaceApp(team["id"], team["name"], bot["user"], bot["id"], bot["app"], bot["name"], bot["real_name"])
    people = tuple(WorkspaceMember(**person) for person in data["person"])
    rooms = tuple(WorkspaceRoom(**room) for room in data["room"])
    return World(app, people, rooms, tuple(data["profile"]))
