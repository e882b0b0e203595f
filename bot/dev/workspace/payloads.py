"""Objects and payloads in the platform's shape, with the fields that the bot reads, built by pure functions."""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from bot.dev.workspace.world import Json, WorkspaceApp, WorkspaceMember, WorkspaceRoom

VERIFICATION_TOKEN = "local-verification"  # noqa: S105  the platform's deprecated field, not a secret
RESPONSE_URL = "http://127.0.0.1:9/response"
"""Address for later answers to an interaction. Nothing listens there, because the bot answers by the Web API."""
SLACKBOT = WorkspaceMember("USLACKBOT", "slackbot", "Slackbot", "Slackbot")
"""Slackbot, listed by `users.list` as on the platform, where it is not marked as a bot either."""


def build_user_object(app: WorkspaceApp, person: WorkspaceMember, *, locale: bool, email: bool) -> Json:
    """Build a user in the form of `users.info` and `users.list`."""
    offset = datetime.now(ZoneInfo(person.tz)).utcoffset()
    bot = {"bot_id": app.bot, "api_app_id": app.app} if person.is_bot else {}
    profile = {
        "title": person.title,
        "real_name": person.real_name,
        "display_name": person.display_name,
        "team": app.team,
        **({"email": person.email} if email and person.email else {}),
        **bot,
    }
    return {
        "id": person.id,
        "team_id": app.team,
        "name": person.name,
        "deleted": person.deleted,
        "real_name": person.real_name,
        "tz": person.tz,
        "tz_offset": int(offset.total_seconds()) if offset else 0,
        "profile": profile,
        "is_admin": person.is_admin,
        "is_owner": False,
        "is_primary_owner": False,
        "is_restricted": person.is_restricted,
        "is_ultra_restricted": False,
        "is_bot": person.is_bot,
        "updated": 1,
        **({"locale": person.locale} if locale else {}),
    }


def build_channel_object(app: WorkspaceApp, room: WorkspaceRoom) -> Json:
    """Build a conversation in the form of `conversations.info`."""
    common = {"id": room.id, "created": 1, "is_archived": False, "is_org_shared": False, "context_team_id": app.team}
    if room.kind == "im":
        other = next((member for member in room.members if member != app.user), app.user)
        return {**common, "is_im": True, "user": other, "is_user_deleted": False}
    return {
        **common,
        "name": room.name,
        "is_channel": room.kind == "channel",
        "is_group": room.kind == "group",
        "is_im": False,
        "is_mpim": room.kind == "mpim",
        "is_private": room.kind != "channel",
        "is_shared": False,
        "is_ext_shared": False,
        "is_pending_ext_shared": False,
        "is_member": app.user in room.members,
    }


def build_event_callback(app: WorkspaceApp, event: Json) -> Json:
    """Build the outer payload of an Events API delivery."""
    authorization = {
        "enterprise_id": None,
        "team_id": app.team,
        "user_id": app.user,
        "is_bot": True,
        "is_enterprise_install": False,
    }
    return {
        "token": VERIFICATION_TOKEN,
        "team_id": app.team,
        "context_team_id": app.team,
        "api_app_id": app.app,
        "event": event,
        "type": "event_callback",
        "event_id": "Ev" + secrets.token_hex(6).upper(),
        "authorizations": [authorization],
        "is_ext_shared_channel": False,
    }


def build_message_event(message: Json, room: WorkspaceRoom) -> Json:
    return {**drop_metadata(message), "channel": room.id, "event_ts": message["ts"], "channel_type": room.kind}


def build_mention_event(message: Json, room: WorkspaceRoom) -> Json:
    """Build the second event of a mention: with an equal ts, no channel_type, and no files, whatever the message
    has."""
    shown = {name: value for name, value in drop_metadata(message).items() if name not in ("files", "subtype")}
    return {**shown, "type": "app_mention", "channel": room.id, "event_ts": message["ts"]}


def build_hidden_event(subtype: str, previous: Json, room: WorkspaceRoom, stamp: str, **more: Any) -> Json:
    """Build the event of a message that was changed (`message_changed`) or deleted (`message_deleted`)."""
    return {
        "type": "message",
        "subtype": subtype,
        "previous_message": drop_metadata(previous),
        "channel": room.id,
        "hidden": True,
        "ts": stamp,
        "event_ts": stamp,
        "channel_type": room.kind,
        **more,
    }


def build_home_opened_event(person: WorkspaceMember, view: Json | None, stamp: str, tab: str = "home") -> Json:
    opened = {"type": "app_home_opened", "user": person.id, "channel": person.dm_id, "tab": tab, "event_ts": stamp}
    return {**opened, "view": view} if view else opened


def build_session_stopped_event(person: WorkspaceMember, room: WorkspaceRoom, thread_ts: str, stamp: str) -> Json:
    return {
        "type": "agent_session_stopped",
        "user": person.id,
        "channel": room.id,
        "thread_ts": thread_ts,
        "streaming_message_ts": [],
        "event_ts": stamp,
    }


def drop_metadata(message: Json) -> Json:
    """Drop a message's metadata, as events and plain histories do."""
    return {key: value for key, value in message.items() if key != "metadata"}


def build_interaction(app: WorkspaceApp, kind: str, person: WorkspaceMember, trigger: str) -> Json:
    """Build the fields that all interactive payloads have."""
    return {
        "type": kind,
        "user": {"id": person.id, "username": person.name, "name": person.name, "team_id": app.team},
        "api_app_id": app.app,
        "token": VERIFICATION_TOKEN,
        "team": {"id": app.team},
        "enterprise": None,
        "is_enterprise_install": False,
        "trigger_id": trigger,
    }


def build_slash_command(
    app: WorkspaceApp, person: WorkspaceMember, room: WorkspaceRoom, command: str, text: str, trigger: str
) -> Json:
    return {
        "token": VERIFICATION_TOKEN,
        "team_id": app.team,
        "channel_id": room.id,
        "user_id": person.id,
        "user_name": person.name,
        "command": command,
        "text": text,
        "api_app_id": app.app,
        "is_enterprise_install": "false",
        "response_url": RESPONSE_URL,
        "trigger_id": trigger,
    }
