"""Reads Slack's user objects (https://docs.slack.dev/reference/objects/user-object)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.characters import remove_invisible, replace_surrogates

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
_SLACKBOT = "USLACKBOT"

Member = Mapping[str, Any]


def cut_down_member(user: Member) -> dict[str, Any]:
    """Return the parts of a user object that are kept."""
    kept = {name: user[name] for name in _USED if user.get(name) not in (None, "", False)}
    profile, enterprise = user.get("profile"), user.get("enterprise_user")
    given = profile if isinstance(profile, Mapping) else {}
    kept["profile"] = {name: given[name] for name in _USED_OF_PROFILE if given.get(name)}
    teams = enterprise.get("teams") if isinstance(enterprise, Mapping) else None
    return kept | ({"teams": [str(one) for one in teams]} if isinstance(teams, list) else {})


def is_bot(member: Member) -> bool:
    return bool(member.get("is_bot") or member.get("is_workflow_bot")) or member.get("id") == _SLACKBOT


def is_of_team(member: Member, team: str) -> bool:
    """Return whether somebody is a member of this workspace. On Enterprise Grid `team_id` is only their first
    workspace. `enterprise_user.teams` lists all of them."""
    return team in (member.get("teams") or ()) or member.get("team_id", team) == team


def is_full_member(member: Member, team: str) -> bool:
    """Return whether somebody is a full, active member of this workspace."""
    return is_of_team(member, team) and not any(member.get(why) for why in BARRED)


def is_own_bot(member: Member, team: str) -> bool:
    barred = member.get("is_stranger") or member.get("deleted")
    return is_bot(member) and is_of_team(member, team) and not barred


def get_email(member: Member) -> str:
    return str((member.get("profile") or {}).get("email") or "").strip()


def get_update_mark(member: Member) -> float:
    """Return when Slack last changed the record (epoch s)."""
    return float(member.get("updated") or 0)


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
