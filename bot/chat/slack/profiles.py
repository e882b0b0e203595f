"""Manager and department from a workspace's own profile fields.

Slack's rules (docs.slack.dev, `team.profile.get`, `users.profile.get`): the fields' labels are asked for once, each
person's values one by one, about 100 a minute; asking for labels with the values is heavily limited. Only fields that
people cannot change themselves are taken: a manager decides, and a department chooses who does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from bot import logs
from bot.chat.slack.calls import call
from bot.chat.slack.text import clean
from bot.errors import ChatDown, ChatFailed
from tools.names import folded
from tools.spec import Frozen

log = logs.get(__name__)

A_TIME = 100
"""People read at one go; the others' turn comes with the next."""
AT_ONCE = 5
LABELS = {
    "manager": "manager",
    "主管": "manager",
    "上级": "manager",
    "直属上级": "manager",
    "department": "department",
    "部门": "department",
}
"""Label of a field → what it says."""


class Profile(Frozen):
    """What somebody's own fields say."""

    manager: str = ""
    """Person id or e-mail address. Never a name: people choose those themselves."""
    department: str = ""


NOTHING = Profile()


class Profiles:
    """What is known of people's profile fields; read again when Slack says that somebody's record has changed."""

    def __init__(self, client: AsyncWebClient) -> None:
        self._client = client
        self._read: dict[str, tuple[object, Profile]] = {}
        self.behind = False
        """True: not everybody has been read."""

    def of(self, person: str) -> Profile:
        return self._read.get(person, (None, NOTHING))[1]

    async def read(self, members: Iterable[Mapping[str, Any]], *, strict: bool = False) -> None:
        """Those who are unknown or changed. What Slack does not tell stays unknown; it is never waited for. `strict`:
        raises `ChatDown` when Slack is away."""
        stale = [m for m in members if self._read.get(m["id"], (None,))[0] != _updated(m)]
        if not stale:
            return
        try:
            if fields := await self._fields():
                await self._take(stale[:A_TIME], fields)
            self.behind = bool(fields) and len(stale) > A_TIME
        except ChatFailed as failed:
            self.behind = failed.code != "missing_scope"
            if strict and isinstance(failed, ChatDown):
                raise
            log.info("profile fields are not read", code=failed.code)

    async def _fields(self) -> dict[str, str]:
        """Field id → what it says, of those that only administrators fill in."""
        answer = await call(self._client.team_profile_get, {}, tries=1)
        found = (answer.get("profile") or {}).get("fields") or ()
        return {f["id"]: LABELS[folded(f["label"])] for f in found if _protected(f) and folded(f["label"]) in LABELS}

    async def _take(self, members: Iterable[Mapping[str, Any]], fields: Mapping[str, str]) -> None:
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(member: Mapping[str, Any]) -> None:
            async with slots:
                answer = await call(self._client.users_profile_get, {"user": member["id"]}, tries=1)
            self._read[member["id"]] = (_updated(member), _profile(answer.get("profile") or {}, fields))

        results = await asyncio.gather(*(one(member) for member in members), return_exceptions=True)
        for failed in results:
            if isinstance(failed, BaseException):
                raise failed


def _protected(field: Mapping[str, Any]) -> bool:
    options = field.get("options")
    return isinstance(options, Mapping) and bool(options.get("is_protected") or options.get("is_scim"))


def _profile(profile: Mapping[str, Any], fields: Mapping[str, str]) -> Profile:
    """Slack sends a list instead of a table when there are no values."""
    values = profile.get("fields")
    given = values if isinstance(values, Mapping) else {}
    said = {fields[id]: clean(str(one.get("value") or "")).strip() for id, one in given.items() if id in fields}
    return Profile(**said)


def _updated(member: Mapping[str, Any]) -> object:
    return member.get("updated", 0)
