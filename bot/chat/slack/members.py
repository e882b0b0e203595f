"""Names in Slack's user objects (https://docs.slack.dev/reference/objects/user-object)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.characters import remove_invisible, replace_surrogates

if TYPE_CHECKING:
    from bot.chat.people.member_cache import Member


def list_member_names(member: Member) -> list[str]:
    """Return a person's names: the one people use first, then all others."""
    profile = member.get("profile") or {}
    profile_names = (
        profile.get("real_name") or member.get("real_name"),
        profile.get("display_name"),
        member.get("real_name"),
        member.get("name"),
    )
    names = (" ".join(clean_member_text(name).split()) for name in profile_names if name)
    return list(dict.fromkeys(name for name in names if name)) or [str(member["id"])]


def clean_member_text(text: str) -> str:
    """Remove invisible characters from text that people chose, so that names which look alike become equal."""
    return remove_invisible(replace_surrogates(text), keep_joiners=False)
