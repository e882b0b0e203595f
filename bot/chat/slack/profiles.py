"""Manager and department from a workspace's own profile fields.

Slack's rules (docs.slack.dev, `team.profile.get`, `users.profile.get`): labels of the fields are read once, each
person's values one by one, about 100 per minute; reading labels with the values is heavily limited. Only fields that
people cannot change themselves are used: a manager decides, and a department determines who does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from bot.chat.slack.text import replace_surrogates
from bot.chat.slack.web_api import call_slack
from bot.core import logs
from bot.core.errors import ChatError, ChatUnavailableError
from tools.people.names import fold_text
from tools.spec import FrozenModel

log = logs.get_logger(__name__)

BATCH_SIZE = 100
"""People read in one go; the others follow in the next."""
MAX_CONCURRENT_READS = 5
LABELS = {
    "manager": "manager",
    "主管": "manager",
    "上级": "manager",
    "直属上级": "manager",
    "department": "department",
    "部门": "department",
}
"""Label of a field → its meaning."""


class UserProfile(FrozenModel):
    """What a person's own fields say."""

    manager: str = ""
    """Person id or e-mail address. Never a name: people choose those themselves."""
    department: str = ""


EMPTY_PROFILE = UserProfile()


class ProfileCache:
    """Data from people's profile fields, read again when Slack reports a changed record."""

    def __init__(self, client: AsyncWebClient) -> None:
        self._client = client
        self._read: dict[str, tuple[object, UserProfile]] = {}
        self.is_incomplete = False
        """True if not everybody has been read."""

    def get_profile(self, person: str) -> UserProfile:
        return self._read.get(person, (None, EMPTY_PROFILE))[1]

    async def refresh_profiles(self, members: Iterable[Mapping[str, Any]], *, strict: bool = False) -> None:
        """Reads unknown or changed people. What Slack does not return stays unknown, without waiting. `strict`: raises
        `ChatUnavailableError` when Slack cannot be reached."""
        stale = [m for m in members if self._read.get(m["id"], (None,))[0] != _get_update_mark(m)]
        if not stale:
            return
        try:
            if fields := await self._load_field_meanings():
                await self._load_profiles(stale[:BATCH_SIZE], fields)
            self.is_incomplete = bool(fields) and len(stale) > BATCH_SIZE
        except ChatError as failed:
            self.is_incomplete = failed.code != "missing_scope"
            if strict and isinstance(failed, ChatUnavailableError):
                raise
            log.info("profile fields are not read", code=failed.code)

    async def _load_field_meanings(self) -> dict[str, str]:
        """Field id → meaning, for fields that only administrators fill in."""
        answer = await call_slack(self._client.team_profile_get, {}, tries=1)
        found = (answer.get("profile") or {}).get("fields") or ()
        return {
            f["id"]: LABELS[fold_text(f["label"])]
            for f in found
            if _is_protected(f) and fold_text(f["label"]) in LABELS
        }

    async def _load_profiles(self, members: Iterable[Mapping[str, Any]], fields: Mapping[str, str]) -> None:
        slots = asyncio.Semaphore(MAX_CONCURRENT_READS)

        async def load_one_profile(member: Mapping[str, Any]) -> None:
            async with slots:
                answer = await call_slack(self._client.users_profile_get, {"user": member["id"]}, tries=1)
            self._read[member["id"]] = (_get_update_mark(member), _parse_profile(answer.get("profile") or {}, fields))

        results = await asyncio.gather(*(load_one_profile(member) for member in members), return_exceptions=True)
        for failed in results:
            if isinstance(failed, BaseException):
                raise failed


def _is_protected(field: Mapping[str, Any]) -> bool:
    options = field.get("options")
    return isinstance(options, Mapping) and bool(options.get("is_protected") or options.get("is_scim"))


def _parse_profile(profile: Mapping[str, Any], fields: Mapping[str, str]) -> UserProfile:
    """Slack sends a list instead of an object when there are no values."""
    values = profile.get("fields")
    given = values if isinstance(values, Mapping) else {}
    said = {
        fields[id]: replace_surrogates(str(one.get("value") or "")).strip() for id, one in given.items() if id in fields
    }
    return UserProfile(**said)


def _get_update_mark(member: Mapping[str, Any]) -> object:
    return member.get("updated", 0)
