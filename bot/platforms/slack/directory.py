"""`SlackMembers`: the people of a Slack workspace, read from Slack's user objects
(https://docs.slack.dev/reference/objects/user-object)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from slack_sdk.web.async_client import AsyncWebClient

from bot.core.errors import ChatError
from bot.people.member_cache import Member, MemberFacts
from bot.people.member_store import MemberRecord, UserProfile
from bot.platforms.slack.members import list_member_names
from bot.platforms.slack.text import USER_ID
from bot.platforms.slack.web_api import Method, call_slack, get_next_cursor
from tools.characters import clean_name, replace_surrogates
from tools.people.names import fold_text

PAGE = 1_000
"""Members per page, the most that `users.list` gives. The method may be called 20 times a minute (Tier 2)."""
ADMIN_FLAGS = ("is_admin", "is_owner", "is_primary_owner")
"""Flags of people who run the workspace."""
BARRED = ("deleted", "is_restricted", "is_ultra_restricted", "is_stranger", "is_invited_user")
"""Flags of people who are not full members."""
_USED = (
    *("id", "team_id", "name", "real_name", "locale", "tz", "updated", "is_bot", "is_workflow_bot"),
    *BARRED,
    *ADMIN_FLAGS,
)
_USED_OF_PROFILE = ("real_name", "display_name", "email", "title")
_LABELS = {
    **dict.fromkeys(("manager", "主管", "上级", "直属上级"), "manager"),
    **dict.fromkeys(("department", "部门"), "department"),
}
"""Label of a field of the workspace's own → its meaning."""
_PROFILES_AT_ONCE = 5
_SLACKBOT = "USLACKBOT"


class SlackMembers:
    """Implements `bot.people.member_cache.MemberSource`. Single people come by `users.info` (Tier 4: 100 a minute
    and more)."""

    has_profiles = True

    def __init__(self, client: AsyncWebClient, team: str) -> None:
        self._client, self._team = client, team

    async def list_page(self, cursor: str) -> tuple[Mapping[str, Member], str]:
        where = {"limit": PAGE, "include_locale": True} | ({"cursor": cursor} if cursor else {})
        answer = await call_slack(self._client.users_list, where)
        return {str(one["id"]): one for one in answer.get("members") or ()}, get_next_cursor(answer)

    async def find_member(self, person: str) -> Member | None:
        return await _find_member(self._client.users_info, {"user": person, "include_locale": True})

    async def find_member_by_email(self, email: str) -> Member | None:
        return await _find_member(self._client.users_lookupByEmail, {"email": email})

    async def load_profiles(self, people: Iterable[str]) -> Mapping[str, UserProfile]:
        """Load manager and department from the workspace's own profile fields, by id. A profile is empty where there
        are none. Only fields that people cannot change themselves are used, because a manager decides, and a department
        determines who does. Slack's rules (docs.slack.dev, `team.profile.get`, `users.profile.get`): labels of the
        fields are read once, each person's values one by one, about 100 per minute. Reading labels with the values is
        heavily limited. Raises `ChatError`."""
        wanted, fields = list(people), dict[str, str]()  # id of a field → meaning
        listed = await call_slack(self._client.team_profile_get, {}, tries=1)
        for field in (listed.get("profile") or {}).get("fields") or ():
            options = field.get("options")
            is_protected = isinstance(options, Mapping) and (options.get("is_protected") or options.get("is_scim"))
            if is_protected and (label := fold_text(field["label"])) in _LABELS:
                fields[field["id"]] = _LABELS[label]
        if not fields:
            return dict.fromkeys(wanted, UserProfile())
        slots = asyncio.Semaphore(_PROFILES_AT_ONCE)

        async def load_one_profile(person: str) -> UserProfile:
            async with slots:
                answer = await call_slack(self._client.users_profile_get, {"user": person}, tries=1)
            values = (answer.get("profile") or {}).get("fields")
            given = values if isinstance(values, Mapping) else {}  # Slack sends a list when there are no values
            said = {id: replace_surrogates(str(given[id].get("value") or "")).strip() for id in given if id in fields}
            return UserProfile(**{fields[id]: value for id, value in said.items()})

        results = await asyncio.gather(*map(load_one_profile, wanted), return_exceptions=True)
        for failed in results:
            if isinstance(failed, BaseException):
                raise failed
        return {id: found for id, found in zip(wanted, results, strict=True) if isinstance(found, UserProfile)}

    def is_person_id(self, id: str) -> bool:
        return bool(USER_ID.fullmatch(id))

    def cut_down_member(self, member: Member) -> dict[str, Any]:
        kept = {name: member[name] for name in _USED if member.get(name) not in (None, "", False)}
        profile, enterprise = member.get("profile"), member.get("enterprise_user")
        given = profile if isinstance(profile, Mapping) else {}
        kept["profile"] = {name: given[name] for name in _USED_OF_PROFILE if given.get(name)}
        teams = enterprise.get("teams") if isinstance(enterprise, Mapping) else None
        return kept | ({"teams": [str(one) for one in teams]} if isinstance(teams, list) else {})

    def get_update_mark(self, member: Member) -> float:
        return float(member.get("updated") or 0)

    def is_bot(self, member: Member) -> bool:
        return bool(member.get("is_bot") or member.get("is_workflow_bot")) or member.get("id") == _SLACKBOT

    def is_full_member(self, member: Member) -> bool:
        return self._is_of_team(member) and not any(member.get(why) for why in BARRED)

    def is_own_bot(self, member: Member) -> bool:
        barred = member.get("is_stranger") or member.get("deleted")
        return self.is_bot(member) and self._is_of_team(member) and not barred

    def _is_of_team(self, member: Member) -> bool:
        """Return whether somebody is a member of this workspace. On Enterprise Grid `team_id` is only their first
        workspace. `enterprise_user.teams` lists all of them."""
        return self._team in (member.get("teams") or ()) or member.get("team_id", self._team) == self._team

    def get_email(self, member: Member) -> str:
        return str((member.get("profile") or {}).get("email") or "").strip()

    def read_facts(self, record: MemberRecord) -> MemberFacts:
        member, profile = record.member, record.profile or UserProfile()
        return MemberFacts(
            names=tuple(list_member_names(member)),
            email=self.get_email(member),
            title=clean_name((member.get("profile") or {}).get("title")),
            locale=member.get("locale") or "en-US",
            timezone=_parse_timezone(member.get("tz")),
            runs_workspace=any(member.get(right) for right in ADMIN_FLAGS),
            manager=profile.manager,
            department=profile.department,
        )


async def _find_member(method: Method, wanted: Mapping[str, Any]) -> Member | None:
    try:
        answer = await call_slack(method, wanted)
    except ChatError as failed:
        if failed.code in ("user_not_found", "user_not_visible", "users_not_found"):
            return None
        raise
    return dict(answer["user"])


@cache
def _parse_timezone(name: str | None) -> str:
    """Return a time zone's name, or UTC if Slack's list of time zones is newer than this machine's."""
    try:
        return ZoneInfo(name or "UTC").key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "UTC"
