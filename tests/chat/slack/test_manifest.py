"""The app's manifest: well formed, least scopes, and in step with the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from bot.chat.slack.app import COMMAND
from bot.local.workspace.workspace import WorkspaceSetup

FILE = Path(__file__).parents[3] / "deploy" / "slack-manifest.yaml"

NEEDED_BY = {
    "app_mentions:read": "event app_mention",
    "assistant:write": "assistant.threads.setSuggestedPrompts",
    "channels:history": "event message.channels, conversations.replies",
    "channels:read": "conversations.info, conversations.members",
    "chat:write": "chat.postMessage, chat.update, chat.postEphemeral",
    "commands": "slash command",
    "files:read": "files.info, downloads",
    "files:write": "files.getUploadURLExternal, files.completeUploadExternal",
    "groups:history": "event message.groups, conversations.replies",
    "groups:read": "conversations.info, conversations.members",
    "im:history": "event message.im, conversations.history",
    "im:write": "conversations.open",
    "mpim:history": "event message.mpim, conversations.replies",
    "mpim:read": "conversations.info, conversations.members",
    "users.profile:read": "team.profile.get, users.profile.get",
    "users:read": "users.list, users.info",
    "users:read.email": "profile.email",
}


def shut(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": required | optional,
        "required": list(required),
        "additionalProperties": False,
    }


def text(longest: int, pattern: str = ".") -> dict[str, Any]:
    return {"type": "string", "maxLength": longest, "pattern": pattern}


FLAG = {"type": "boolean"}
SCHEMA = shut(
    {
        "_metadata": shut({"major_version": {"const": 1}, "minor_version": {"type": "integer"}}),
        "display_information": shut(
            {"name": text(35)},
            description=text(140),
            long_description={"type": "string", "minLength": 174, "maxLength": 4000},
            background_color=text(7, "^#([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
        ),
        "features": shut(
            {
                "app_home": shut(
                    {
                        "home_tab_enabled": FLAG,
                        "messages_tab_enabled": FLAG,
                        "messages_tab_read_only_enabled": FLAG,
                    }
                ),
                "agent_view": shut(
                    {"agent_description": text(300)},
                    suggested_prompts={
                        "type": "array",
                        "maxItems": 4,
                        "items": shut({"title": text(75), "message": text(2000)}),
                    },
                ),
                "bot_user": shut({"display_name": text(80, r"^[\w .-]+$")}, always_online=FLAG),
                "slash_commands": {
                    "type": "array",
                    "maxItems": 50,
                    "items": shut(
                        {"command": text(32, r"^/[a-z0-9_-]+$"), "description": text(2000)},
                        usage_hint=text(1000),
                        should_escape=FLAG,
                        url=text(3000),
                    ),
                },
                "shortcuts": {
                    "type": "array",
                    "maxItems": 10,
                    "items": shut(
                        {
                            "name": text(24),
                            "type": {"enum": ["global", "message"]},
                            "callback_id": text(255),
                            "description": text(150),
                        }
                    ),
                },
            }
        ),
        "oauth_config": shut(
            {
                "scopes": shut(
                    {
                        "bot": {
                            "type": "array",
                            "items": {"type": "string", "pattern": r"^[a-z_.]+(:[a-z.]+)*$"},
                            "uniqueItems": True,
                        }
                    }
                )
            }
        ),
        "settings": shut(
            {
                "event_subscriptions": shut(
                    {
                        "bot_events": {
                            "type": "array",
                            "maxItems": 100,
                            "items": {"type": "string"},
                            "uniqueItems": True,
                        }
                    }
                ),
                "interactivity": shut({"is_enabled": FLAG}),
                "org_deploy_enabled": FLAG,
                "socket_mode_enabled": FLAG,
                "token_rotation_enabled": FLAG,
            }
        ),
    }
)
"""Slack's limits for the parts this manifest uses; the events are checked by name below."""


@pytest.fixture
def manifest() -> dict[str, Any]:
    return dict(yaml.safe_load(FILE.read_text(encoding="utf-8")))


def test_the_manifest_is_well_formed(manifest: dict[str, Any]) -> None:
    jsonschema.validate(manifest, SCHEMA)


def test_the_check_refuses_what_slack_refuses(manifest: dict[str, Any]) -> None:
    manifest["display_information"]["name"] = "x" * 36
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(manifest, SCHEMA)


def test_the_scopes_are_those_that_something_needs_and_each_says_why(manifest: dict[str, Any]) -> None:
    scopes = manifest["oauth_config"]["scopes"]["bot"]
    assert scopes == sorted(NEEDED_BY)
    written = FILE.read_text(encoding="utf-8")
    assert all(re.search(rf"^ +- {re.escape(scope)} # \S", written, re.MULTILINE) for scope in scopes)


def test_no_quick_action_is_offered_that_nobody_would_hear_of(manifest: dict[str, Any]) -> None:
    """An action of `agent_view` has a name and a description, no callback id, and no published event tells of it."""
    manifest["features"]["agent_view"]["actions"] = [{"name": "Request leave", "description": "Fills in a request."}]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(manifest, SCHEMA)


def test_it_asks_for_what_the_code_listens_to(manifest: dict[str, Any]) -> None:
    local = WorkspaceSetup("", "")
    assert [one["command"] for one in manifest["features"]["slash_commands"]] == [*local.commands]
    assert local.commands[0] == COMMAND
    shortcuts = manifest["features"]["shortcuts"]
    assert [(one["callback_id"], one["name"], one["type"] == "message") for one in shortcuts] == [
        (one.callback_id, one.name, one.on_messages) for one in local.shortcuts
    ]
    assert all(one["callback_id"].partition(":")[0] == "cs" for one in shortcuts)
    events = {"app_home_opened", "app_mention", "message.channels", "message.groups", "message.im"}
    events |= {"agent_session_stopped", "message.mpim", "user_change", "team_join", "app_uninstalled", "tokens_revoked"}
    assert set(manifest["settings"]["event_subscriptions"]["bot_events"]) == events
    assert manifest["settings"]["interactivity"]["is_enabled"]
    assert manifest["settings"]["socket_mode_enabled"]
