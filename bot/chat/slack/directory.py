"""`SlackDirectory`: the people of the workspace, with data that Slack does not have (managers, roles)."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from slack_sdk.web.async_client import AsyncWebClient

from bot.chat.directory_file import EMPTY_ENTRY, DirectoryEntry, DirectoryFile, read_directory_file
from bot.chat.slack.profiles import ProfileCache, UserProfile
from bot.chat.slack.text import replace_surrogates
from bot.chat.slack.web_api import call_slack
from bot.core.errors import ChatError
from tools.characters import remove_invisible
from tools.spec import Caller, Person

__all__ = ["DirectoryEntry", "SlackDirectory", "read_directory_file"]

PAGE = 200
FRESH_S = 30
"""The maximum age (s) of a person's data when their authority decides something."""
MISS_S = 60
"""How long an unknown id is not asked for again (s)."""
CATCH_UP_S = 60
"""When to continue if there are more profiles than Slack returns at once (s)."""
ADMIN_FLAGS = ("is_admin", "is_owner", "is_primary_owner")
"""Slack's fields for people who administer the workspace."""
_SLACKBOT = "USLACKBOT"
_USED = (
    *("id", "team_id", "name", "real_name", "profile", "locale", "tz", "updated", "is_bot", "is_workflow_bot"),
    *("deleted", "is_restricted", "is_ultra_restricted", "is_stranger", "is_invited_user", *ADMIN_FLAGS),
)
_ID = re.compile(r"[UW][A-Z0-9]{2,30}")


class SlackDirectory:
    """Implements `bot.chat.messages.ChatDirectory`. Everybody is read at once and kept for `ttl_s` seconds. For
    decisions, single people are read again (`users.info`, Tier 4: 100 a minute and more), each once in `fresh_s`
    seconds."""

    def __init__(
        self,
        client: AsyncWebClient,
        facts: DirectoryFile | Mapping[str, DirectoryEntry],
        *,
        team: str,
        ttl_s: float = 600,
        fresh_s: float = FRESH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`facts`: a file that is read again when it changes, or fixed data."""
        self._client, self._team, self._clock = client, team, clock
        self._ttl_s, self._fresh_s = ttl_s, fresh_s
        self._file = facts if isinstance(facts, DirectoryFile) else None
        self._facts = facts.entries if isinstance(facts, DirectoryFile) else facts
        self._profiles = ProfileCache(client)
        self._members: dict[str, Mapping[str, Any]] = {}
        """Slack's data about everybody, as far as it is used here."""
        self._people: dict[str, Person] = {}
        self._read_at: dict[str, float] = {}
        """When each person was last read."""
        self._asking: dict[str, asyncio.Lock] = {}
        self._missing: dict[str, float] = {}
        self._bots: set[str] = set()
        self._fresh_until = float("-inf")
        self._reading = asyncio.Lock()

    async def find_person(self, person: str) -> Person | None:
        """Any human, also guests and deactivated people (`active` is false). Raises ChatError."""
        await self._load_everybody()
        return self._people.get(person) or await self._find_new_person(person)

    async def list_people(self) -> tuple[Person, ...]:
        """Members of the workspace who can be given tasks. Raises ChatError."""
        await self._load_everybody()
        return tuple(one for one in self._people.values() if one.active)

    async def find_caller(self, person: str) -> Caller | None:
        """The only place where a `Caller` is made. Raises ChatError."""
        found = await self.find_person(person)
        return Caller(found) if found and found.active else None

    async def refresh_people(self, people: Iterable[str]) -> None:
        """From here on, data about these persons is at most `fresh_s` seconds old, and the file is read as it is now.
        Raises ChatError."""
        await self._reload_file(at_once=True)
        await self._load_everybody()
        wanted = dict.fromkeys(person for person in people if _ID.fullmatch(person))
        await asyncio.gather(*(self._refresh_person(person) for person in wanted if not self._is_fresh(person)))

    def _is_fresh(self, person: str) -> bool:
        return self._clock() < self._read_at.get(person, float("-inf")) + self._fresh_s

    async def _refresh_person(self, person: str) -> None:
        """Asks Slack about one person. Concurrent callers wait for the same answer."""
        async with self._asking.setdefault(person, asyncio.Lock()):
            if self._is_fresh(person):
                return
            at, member = self._clock(), await self._find_member(person)
            if member is not None:
                await self._profiles.refresh_profiles([member] if self._needs_profile(member) else [], strict=True)
            self._store_member(person, member, at)
        self._asking.pop(person, None)

    def _store_member(self, person: str, member: Mapping[str, Any] | None, at: float) -> None:
        """`member`: None for an id that Slack does not know."""
        self._read_at[person] = at
        self._bots.discard(person)
        if member is None or _is_bot(member):
            self._bots |= {person} if member is not None and self._is_own_bot(member) else set()
            self._missing[person] = at + MISS_S
            self._members.pop(person, None)
            self._people.pop(person, None)
            return
        self._members[person] = _select_used_fields(member)
        self._people[person] = self._build_person(member, self._map_emails_to_ids())

    async def _reload_file(self, *, at_once: bool = False) -> None:
        """Applies a changed file at once to all known people."""
        if self._file is None or not await self._file.reload_if_changed(at_once=at_once):
            return
        self._facts = self._file.entries
        self._people = self._build_people(self._members.values())
        lacking = [m for m in self._members.values() if self._needs_profile(m)]
        async with self._reading:
            await self._profiles.refresh_profiles(lacking)
            self._people = self._build_people(self._members.values())

    def _map_emails_to_ids(self) -> dict[str, str]:
        """E-mail → id of every active member, to find managers."""
        return {one.email.lower(): one.id for one in self._people.values() if one.email and one.active}

    async def is_inside(self, person: str) -> bool:
        """True for full members and for bots of the workspace; False for guests and unknown ids. Raises ChatError."""
        found = await self.find_person(person)
        return found.active if found else person in self._bots

    async def _load_everybody(self) -> None:
        await self._reload_file()
        if self._clock() < self._fresh_until:
            return
        async with self._reading:
            if self._clock() >= self._fresh_until:
                at, members = self._clock(), await self._list_workspace_members()
                await self._profiles.refresh_profiles(m for m in members if self._needs_profile(m))
                self._members = {str(m["id"]): _select_used_fields(m) for m in members if not _is_bot(m)}
                self._read_at = dict.fromkeys(self._members, at)
                self._people = self._build_people(self._members.values())
                self._bots = {str(member["id"]) for member in members if self._is_own_bot(member)}
                self._missing.clear()
                ttl_s = min(self._ttl_s, CATCH_UP_S) if self._profiles.is_incomplete else self._ttl_s
                self._fresh_until = self._clock() + ttl_s

    async def _list_workspace_members(self) -> list[Mapping[str, Any]]:
        members: list[Mapping[str, Any]] = []
        cursor = ""
        while True:
            page = {"limit": PAGE, "include_locale": True} | ({"cursor": cursor} if cursor else {})
            answer = await call_slack(self._client.users_list, page)
            members += answer.get("members") or ()
            cursor = (answer.get("response_metadata") or {}).get("next_cursor") or ""
            if not cursor:
                return members

    async def _find_new_person(self, person: str) -> Person | None:
        """A person who joined after everybody was read."""
        if not _ID.fullmatch(person) or self._missing.get(person, float("-inf")) > self._clock():
            return None
        async with self._reading:
            if person in self._people:
                return self._people[person]
            at, member = self._clock(), await self._find_member(person)
            if member is not None and self._needs_profile(member):
                await self._profiles.refresh_profiles([member])
            self._store_member(person, member, at)
            return self._people.get(person)

    async def _find_member(self, person: str) -> Mapping[str, Any] | None:
        try:
            answer = await call_slack(self._client.users_info, {"user": person, "include_locale": True})
        except ChatError as failed:
            if failed.code in ("user_not_found", "user_not_visible", "users_not_found"):
                return None
            raise
        return dict(answer["user"])

    def _build_people(self, members: Iterable[Mapping[str, Any]]) -> dict[str, Person]:
        """People only, no bots."""
        humans = list(members)
        ids = {_get_email(member).lower(): str(member["id"]) for member in humans if self._is_full_member(member)}
        return {str(member["id"]): self._build_person(member, ids) for member in humans}

    def _build_person(self, member: Mapping[str, Any], ids: Mapping[str, str]) -> Person:
        """`ids`: e-mail → id, to find the manager, never by anything that people can choose themselves. This data is
        authority, so only full members have it; the file comes before Slack."""
        active = self._is_full_member(member)
        email = _get_email(member)
        facts = self._facts.get(email.lower(), EMPTY_ENTRY) if active and email else EMPTY_ENTRY
        profile = self._profiles.get_profile(str(member["id"])) if active else UserProfile()
        names = _list_member_names(member)
        return Person(
            id=str(member["id"]),
            name=names[0],
            names=tuple(dict.fromkeys((*names[1:], *facts.names))),
            email=email,
            is_title_official=bool(facts.title),
            title=facts.title or _clean_member_text((member.get("profile") or {}).get("title") or ""),
            locale=member.get("locale") or "en-US",
            timezone=_parse_timezone(member.get("tz")),
            manager=_find_manager_id(facts.manager or profile.manager, ids),
            roles=facts.roles,
            department=facts.department or profile.department,
            allowance=facts.annual_days,
            active=active,
            is_in_directory=bool(facts.email) if self._facts else None,
            runs_workspace=active and any(member.get(right) for right in ADMIN_FLAGS),
        )

    def _is_own_bot(self, member: Mapping[str, Any]) -> bool:
        ours = member.get("team_id", self._team) == self._team and not member.get("is_stranger")
        return _is_bot(member) and ours and not member.get("deleted")

    def _needs_profile(self, member: Mapping[str, Any]) -> bool:
        """True if the file lacks data about this person that a profile may have."""
        facts = self._facts.get(_get_email(member).lower(), EMPTY_ENTRY)
        return self._is_full_member(member) and not _is_bot(member) and not (facts.manager and facts.department)

    def _is_full_member(self, member: Mapping[str, Any]) -> bool:
        """A full, active member of our workspace."""
        barred = ("deleted", "is_restricted", "is_ultra_restricted", "is_stranger", "is_invited_user")
        return member.get("team_id", self._team) == self._team and not any(member.get(why) for why in barred)


def _select_used_fields(member: Mapping[str, Any]) -> Mapping[str, Any]:
    """The used part of Slack's answer, kept so that a changed file can be applied to it."""
    return {name: member[name] for name in _USED if name in member}


def _find_manager_id(said: str, ids: Mapping[str, str]) -> str | None:
    """The person id that an e-mail address or an id stands for."""
    return ids.get(said.lower()) if "@" in said else next((id for id in ids.values() if id == said), None)


def _is_bot(member: Mapping[str, Any]) -> bool:
    return bool(member.get("is_bot") or member.get("is_workflow_bot")) or member.get("id") == _SLACKBOT


@cache
def _parse_timezone(name: str | None) -> str:
    """UTC if Slack's list of time zones is newer than this machine's."""
    try:
        return ZoneInfo(name or "UTC").key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "UTC"


def _get_email(member: Mapping[str, Any]) -> str:
    return str((member.get("profile") or {}).get("email") or "").strip()


def _list_member_names(member: Mapping[str, Any]) -> list[str]:
    """The name people use first, then all others."""
    profile = member.get("profile") or {}
    profile_names = (
        profile.get("real_name") or member.get("real_name"),
        profile.get("display_name"),
        member.get("real_name"),
        member.get("name"),
    )
    names = (" ".join(_clean_member_text(name).split()) for name in profile_names if name)
    return list(dict.fromkeys(name for name in names if name)) or [str(member["id"])]


def _clean_member_text(text: str) -> str:
    """The names that people chose, without invisible characters: names that look alike become equal."""
    return remove_invisible(replace_surrogates(text), keep_joiners=False)
