"""`SlackDirectory`: the people of the workspace, with the facts Slack does not know (managers, roles)."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from slack_sdk.web.async_client import AsyncWebClient

from bot.chat.facts import NOTHING, Facts, read_facts
from bot.chat.slack.calls import call
from bot.chat.slack.profiles import Profile, Profiles
from bot.chat.slack.text import clean
from bot.errors import ChatFailed
from tools.spec import Caller, Person

__all__ = ["Facts", "SlackDirectory", "read_facts"]

PAGE = 200
MISS_S = 60
"""How long an id that Slack does not know is not asked for again."""
CATCH_UP_S = 60
"""When to go on if there are more profiles than Slack gives at one go."""
_SLACKBOT = "USLACKBOT"
_ID = re.compile(r"[UW][A-Z0-9]{2,30}")


class SlackDirectory:
    """Implements `bot.events.Directory`; everybody is read at once and kept for `ttl_s` seconds."""

    def __init__(
        self,
        client: AsyncWebClient,
        facts: Mapping[str, Facts],
        *,
        team: str,
        ttl_s: float = 600,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._facts, self._team, self._ttl_s, self._clock = client, facts, team, ttl_s, clock
        self._profiles = Profiles(client)
        self._people: dict[str, Person] = {}
        self._missing: dict[str, float] = {}
        self._fresh_until = float("-inf")
        self._reading = asyncio.Lock()

    async def get(self, person: str) -> Person | None:
        """Anybody human, also guests and the deactivated (`active` is false). Raises ChatFailed."""
        await self._refresh()
        return self._people.get(person) or await self._look_up(person)

    async def everyone(self) -> tuple[Person, ...]:
        """Members of the workspace who can be asked to do something. Raises ChatFailed."""
        await self._refresh()
        return tuple(one for one in self._people.values() if one.active)

    async def caller(self, person: str) -> Caller | None:
        """The one place where a `Caller` is made. Raises ChatFailed."""
        found = await self.get(person)
        return Caller(found) if found and found.active else None

    async def _refresh(self) -> None:
        if self._clock() < self._fresh_until:
            return
        async with self._reading:
            if self._clock() >= self._fresh_until:
                members = await self._members()
                await self._profiles.read(m for m in members if self._lacks(m))
                self._people = self._known(members)
                self._missing.clear()
                ttl_s = min(self._ttl_s, CATCH_UP_S) if self._profiles.behind else self._ttl_s
                self._fresh_until = self._clock() + ttl_s

    async def _members(self) -> list[Mapping[str, Any]]:
        members: list[Mapping[str, Any]] = []
        cursor = ""
        while True:
            page = {"limit": PAGE, "include_locale": True} | ({"cursor": cursor} if cursor else {})
            answer = await call(self._client.users_list, page)
            members += answer.get("members") or ()
            cursor = (answer.get("response_metadata") or {}).get("next_cursor") or ""
            if not cursor:
                return members

    async def _look_up(self, person: str) -> Person | None:
        """Somebody who joined since everybody was read."""
        if not _ID.fullmatch(person) or self._missing.get(person, float("-inf")) > self._clock():
            return None
        async with self._reading:
            if person in self._people:
                return self._people[person]
            member = await self._info(person)
            if member is None or _is_bot(member):
                self._missing[person] = self._clock() + MISS_S
                return None
            if self._lacks(member):
                await self._profiles.read([member])
            ids = {one.email.lower(): one.id for one in self._people.values() if one.email and one.active}
            self._people[person] = self._person(member, ids)
            return self._people[person]

    async def _info(self, person: str) -> Mapping[str, Any] | None:
        try:
            answer = await call(self._client.users_info, {"user": person, "include_locale": True})
        except ChatFailed as failed:
            if failed.code in ("user_not_found", "user_not_visible", "users_not_found"):
                return None
            raise
        return dict(answer["user"])

    def _known(self, members: list[Mapping[str, Any]]) -> dict[str, Person]:
        humans = [member for member in members if not _is_bot(member)]
        ids = {_email(member).lower(): str(member["id"]) for member in humans if self._is_member(member)}
        return {str(member["id"]): self._person(member, ids) for member in humans}

    def _person(self, member: Mapping[str, Any], ids: Mapping[str, str]) -> Person:
        """`ids`: e-mail → id, to find the manager: by nothing that people can call themselves. Facts are authority:
        full members only; those of the file go before Slack's."""
        active = self._is_member(member)
        email = _email(member)
        facts = self._facts.get(email.lower(), NOTHING) if active and email else NOTHING
        profile = self._profiles.of(str(member["id"])) if active else Profile()
        names = _names(member)
        return Person(
            id=str(member["id"]),
            name=names[0],
            names=tuple(dict.fromkeys((*names[1:], *facts.names))),
            email=email,
            title=facts.title or clean((member.get("profile") or {}).get("title") or ""),
            locale=member.get("locale") or "en-US",
            timezone=_timezone(member.get("tz")),
            manager=_manager(facts.manager or profile.manager, ids),
            roles=facts.roles,
            department=facts.department or profile.department,
            allowance=facts.annual_days,
            active=active,
        )

    def _lacks(self, member: Mapping[str, Any]) -> bool:
        """True for somebody of whom the file does not say everything that a profile may."""
        facts = self._facts.get(_email(member).lower(), NOTHING)
        return self._is_member(member) and not _is_bot(member) and not (facts.manager and facts.department)

    def _is_member(self, member: Mapping[str, Any]) -> bool:
        """A full, active member of our workspace."""
        barred = ("deleted", "is_restricted", "is_ultra_restricted", "is_stranger", "is_invited_user")
        return member.get("team_id", self._team) == self._team and not any(member.get(why) for why in barred)


def _manager(said: str, ids: Mapping[str, str]) -> str | None:
    """The person id that an e-mail address, or an id, stands for."""
    return ids.get(said.lower()) if "@" in said else next((id for id in ids.values() if id == said), None)


def _is_bot(member: Mapping[str, Any]) -> bool:
    return bool(member.get("is_bot") or member.get("is_workflow_bot")) or member.get("id") == _SLACKBOT


@cache
def _timezone(name: str | None) -> str:
    """UTC where Slack's list of time zones is ahead of this machine's."""
    try:
        return ZoneInfo(name or "UTC").key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "UTC"


def _email(member: Mapping[str, Any]) -> str:
    return str((member.get("profile") or {}).get("email") or "").strip()


def _names(member: Mapping[str, Any]) -> list[str]:
    """The name people use first, then every other they answer to."""
    profile = member.get("profile") or {}
    given = (
        profile.get("real_name") or member.get("real_name"),
        profile.get("display_name"),
        member.get("real_name"),
        member.get("name"),
    )
    return list(dict.fromkeys(clean(name.strip()) for name in given if name and name.strip())) or [str(member["id"])]
