"""Private channels and group DMs."""

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.workspace import EVENTS, SCOPES, Workspace
from tests.dev.workspace.hands import (
    BOT,
    DM_ZHANG,
    GENERAL,
    LEADS,
    LI,
    TRIO,
    WANG,
    ZHANG,
    error_of,
    setup,
    web_client,
)
from tests.harness.hands import Hands
from tests.harness.workspace_server import serve_workspace


async def test_each_kind_is_listed_and_described_as_what_it_is(client: AsyncWebClient) -> None:
    for kind, room, marks in (
        ("private_channel", LEADS, {"is_group", "is_private"}),
        ("mpim", TRIO, {"is_mpim", "is_private"}),
        ("public_channel", GENERAL, {"is_channel"}),
    ):
        [listed] = (await client.users_conversations(types=kind))["channels"]
        told = (await client.conversations_info(channel=room))["channel"]
        assert listed == told and told["id"] == room
        assert {mark for mark in ("is_channel", "is_group", "is_mpim", "is_im", "is_private") if told[mark]} == marks
    assert (await client.conversations_members(channel=TRIO))["members"] == [ZHANG, LI, BOT]
    mine = await client.users_conversations(types="public_channel,private_channel,mpim,im", user=ZHANG)
    assert {one["id"] for one in mine["channels"]} == {GENERAL, TRIO, DM_ZHANG}


async def test_messages_there_come_under_their_own_events_and_nobody_else_is_in_them(
    driver: Hands, client: AsyncWebClient
) -> None:
    for room, kind in ((LEADS, "group"), (TRIO, "mpim")):
        ts = await driver.mention_bot(LI, room, "hello")
        told = [one["event"] for one in driver.events if one["event"].get("ts") == ts]
        assert [(one["type"], one.get("channel_type")) for one in told] == [("message", kind), ("app_mention", None)]
        await client.chat_postMessage(channel=room, text="hello", thread_ts=ts)
        assert len((await client.conversations_replies(channel=room, ts=ts))["messages"]) == 2
    with pytest.raises(WorkspaceError, match="not_in_channel"):
        await driver.send_message(ZHANG, LEADS, "hello")
    with pytest.raises(WorkspaceError, match="not_in_channel"):
        await driver.send_message(WANG, TRIO, "hello")


async def test_an_app_that_did_not_subscribe_hears_nothing_and_that_is_not_in_it_knows_nothing() -> None:
    ws = Workspace(setup(events=EVENTS - {"message.mpim", "app_mention"}, scopes=SCOPES))
    async with serve_workspace(ws):
        driver, client = Hands(ws), web_client(ws)
        await driver.send_message(LI, TRIO, "hello")
        assert not driver.events
        ws.state.rooms[LEADS].members.remove(BOT)
        assert await error_of(client.conversations_info(channel=LEADS)) == "channel_not_found"
        assert not (await client.users_conversations(types="private_channel"))["channels"]
