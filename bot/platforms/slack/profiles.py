"""Reads manager and department from a workspace's own profile fields.

Slack's rules (docs.slack.dev, `team.profile.get`, `users.profile.get`): labels of the fields are read once, each
person's values one by one, about 100 per minute. Reading labels with the values is heavily limited. Only fields that
people cannot change themselves are used, because a manager decides, and a department determines who does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from slack_sdk.web.async_client import AsyncWebClient

from bot.people.member_store import UserProfile
from bot.platforms.slack.web_api import call_slack
from tools.characters import replace_surrogates
from tools.people.names import fold_text

AT_ONCE = 5
LABELS = {
    "manager": "manager",
    "主管": "manager",
    "上级": "manager",
    "直属上级": "manager",
    "department": "department",
    "部门": "department",
}
"""Label of a field → its meaning."""


async def load_profiles(client: AsyncWebClient, people: Iterable[str]) -> dict[str, UserProfile]:
    """Load the profiles of these people, by id. A profile is empty where the workspace has no such field. Raises
    `ChatError`."""
    wanted = list(people)
    listed = await call_slack(client.team_profile_get, {}, tries=1)
    fields = dict[str, str]()  # id → meaning
    for field in (listed.get("profile") or {}).get("fields") or ():
        options = field.get("options")
        is_protected = isinstance(options, Mapping) and (options.get("is_protected") or options.get("is_scim"))
        if is_protected and (label := fold_text(field["label"])) in LABELS:
            fields[field["id"]] = LABELS[label]
    if not fields:
        return dict.fromkeys(wanted, UserProfile())
    slots = asyncio.Semaphore(AT_ONCE)

    async def load_one_profile(person: str) -> UserProfile:
        async with slots:
            answer = await call_slack(client.users_profile_get, {"user": person}, tries=1)
        values = (answer.get("profile") or {}).get("fields")
        given = values if isinstance(values, Mapping) else {}  # Slack sends a list when there are no values
        said = {id: replace_surrogates(str(given[id].get("value") or "")).strip() for id in given if id in fields}
        return UserProfile(**{fields[id]: value for id, value in said.items()})

    results = await asyncio.gather(*map(load_one_profile, wanted), return_exceptions=True)
    for failed in results:
        if isinstance(failed, BaseException):
            raise failed
    return {person: found for person, found in zip(wanted, results, strict=True) if isinstance(found, UserProfile)}
