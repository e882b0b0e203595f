"""`SlackDirectory`: the people of a Slack workspace."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from slack_sdk.web.async_client import AsyncWebClient

from bot.chat.directory_file import DirectoryEntry, DirectoryFile
from bot.chat.member_store import MemberRecord, UserProfile
from bot.chat.people.directory import PlatformDirectory
from bot.chat.people.member_cache import Member, MemberFacts
from bot.chat.slack import members
from bot.chat.slack.profiles import load_profiles
from bot.chat.slack.web_api import call_slack, get_next_cursor
from bot.core.errors import ChatError

PAGE = 1_000
"""Members per page, the most that `users.list` gives. The method may be called 20 times a minute (Tier 2)."""
_ID = re.compile(r"[UW][A-Z0-9]{2,30}")


class SlackMembers:
    """Implements `bot.chat.people.member_cache.MemberSource`. Single people come by `users.info` (Tier 4: 100 a minute
    and more)."""

    has_profiles = True

    def __init__(self, client: AsyncWebClient, team: str) -> None:
        self._client, self._team = client, team

    async def list_page(self, cursor: str) -> tuple[Mapping[str, Member], str]:
        where = {"limit": PAGE, "include_locale": True} | ({"cursor": cursor} if cursor else {})
        answer = await call_slack(self._client.users_list, where)
        return {str(one["id"]): one for one in answer.get("members") or ()}, get_next_cursor(answer)

    async def find_member(self, person: str) -> Member | None:
        return await self._find_member({"user": person, "include_locale": True})

    async def find_member_by_email(self, email: str) -> Member | None:
        return await self._find_member({"email": email})

    async def _find_member(self, wanted: Mapping[str, Any]) -> Member | None:
        method = self._client.users_info if "user" in wanted else self._client.users_lookupByEmail
        try:
            answer = await call_slack(method, wanted)
        except ChatError as failed:
            if failed.code in ("user_not_found", "user_not_visible", "users_not_found"):
                return None
            raise
        return dict(answer["user"])

    async def load_profiles(self, people: Iterable[str]) -> Mapping[str, UserProfile]:
        return await load_profiles(self._client, people)

    def is_person_id(self, id: str) -> bool:
        return bool(_ID.fullmatch(id))

    def cut_down_member(self, member: Member) -> dict[str, Any]:
        return members.cut_down_member(member)

    def get_update_mark(self, member: Member) -> float:
        return members.get_update_mark(member)

    def is_bot(self, member: Member) -> bool:
        return members.is_bot(member)

    def is_full_member(self, member: Member) -> bool:
        return members.is_full_member(member, self._team)

    def is_own_bot(self, member: Member) -> bool:
        return members.is_own_bot(member, self._team)

    def get_email(self, member: Member) -> str:
        return members.get_email(member)

    def read_facts(self, record: MemberRecord) -> MemberFacts:
        member, profile = record.member, record.profile or UserProfile()
        return MemberFacts(
            names=tuple(members.list_member_names(member)),
            email=members.get_email(member),
            title=members.clean_member_text((member.get("profile") or {}).get("title") or ""),
            locale=member.get("locale") or "en-US",
            timezone=_parse_timezone(member.get("tz")),
            runs_workspace=any(member.get(right) for right in members.ADMIN_FLAGS),
            manager=profile.manager,
            department=profile.department,
        )


class SlackDirectory(PlatformDirectory):
    def __init__(
        self, client: AsyncWebClient, facts: DirectoryFile | Mapping[str, DirectoryEntry], *, team: str, **more: Any
    ) -> None:
        """`more`: see `PlatformDirectory`."""
        super().__init__(SlackMembers(client, team), facts, **more)


@cache
def _parse_timezone(name: str | None) -> str:
    """Return a time zone's name, or UTC if Slack's list of time zones is newer than this machine's."""
    try:
        return ZoneInfo(name or "UTC").key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "UTC"
