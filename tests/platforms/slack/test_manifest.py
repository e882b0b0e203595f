"""The app's manifest: well formed, least scopes, and in step with the code."""

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from bot.dev.workspace.workspace import WorkspaceSetup
from bot.platforms.slack.listeners import COMMAND

FILE = Path(__file__).parents[3] / "deploy" / "slack-manifest.yaml"

NEEDED = """app_mentions:read assistant:write channels:history channels:read chat:write commands files:read files:write
    groups:history groups:read im:history im:read im:write mpim:history mpim:read users.profile:read users:read
    users:read.email"""
SCHEMA = yaml.safe_load(Path(__file__).with_name("manifest_schema.yaml").read_text(encoding="utf-8"))


@pytest.fixture
def manifest() -> dict[str, Any]:
    return dict(yaml.safe_load(FILE.read_text(encoding="utf-8")))


def test_the_manifest_is_well_formed(manifest: dict[str, Any]) -> None:
    """Control: too long a name, and a quick action. An action of `agent_view` has a name and a description, no callback
    id, and no published event tells of it: nobody would hear of it."""
    jsonschema.validate(manifest, SCHEMA)
    view, actions = manifest["features"]["agent_view"], [{"name": "Request leave", "description": "Fills it in."}]
    for where, name, odd in ((manifest["display_information"], "name", "x" * 36), (view, "actions", actions)):
        before = dict(where)
        where[name] = odd
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(manifest, SCHEMA)
        where.clear()
        where |= before
    jsonschema.validate(manifest, SCHEMA)


def test_the_scopes_are_those_that_something_needs_and_each_says_why(manifest: dict[str, Any]) -> None:
    scopes = manifest["oauth_config"]["scopes"]["bot"]
    assert scopes == NEEDED.split()
    written = FILE.read_text(encoding="utf-8")
    assert all(re.search(rf"^ +- {re.escape(scope)} # \S", written, re.MULTILINE) for scope in scopes)


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
