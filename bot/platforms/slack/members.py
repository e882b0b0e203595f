"""Names in Slack's user objects (https://docs.slack.dev/reference/objects/user-object)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.characters import clean_name

if TYPE_CHECKING:
    from bot.people.member_cache import Member


def list_member_names(member: Member) -> list[str]:
    """Return a person's names: the one people use first, then all others."""
    profile = member.get("profile") or {}
    first, login = profile.get("real_name") or member.get("real_name"), member.get("name")
    names = map(clean_name, (first, profile.get("display_name"), member.get("real_name"), login))
    return list(dict.fromkeys(name for name in names if name)) or [str(member["id"])]
