"""The Web API: encodings, tokens, scopes, errors, semantics of every method."""

from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.workspace import EVENTS, SCOPES, Workspace
from bot.dev.workspace.world import WorkspaceRoom
from tests.dev.workspace.hands import (
    APP_TOKEN,
    BOT,
    BOT_TOKEN,
    DM_LI,
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
from tests.harness.app_calls import get_app_calls
from tests.harness.hands import Hands
from tests.harness.workspace_server import serve_workspace

SECTION = [{"type": "section", "block_id": "s", "text": {"type": "mrkdwn", "text": "hello"}}]


async def test_tokens(workspace: Workspace, client: AsyncWebClient) -> None:
    assert (await client.auth_test())["user_id"] == "U0BOT"
    assert await error_of(web_client(workspace, "xoxb-invented").auth_test()) == "invalid_auth"
    assert await error_of(web_client(workspace, APP_TOKEN).auth_test()) == "not_allowed_token_type"
    assert await error_of(client.apps_connections_open(app_token=BOT_TOKEN)) == "not_allowed_token_type"
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{workspace.address}/api/auth.test") as response:
            assert (await response.json())["error"] == "not_authed"
        async with session.post(f"{workspace.address}/api/auth.test", data={"token": BOT_TOKEN}) as response:
            assert (await response.json())["ok"]
    assert await error_of(client.api_call("chat.invented")) == "unknown_method"
    assert all(BOT_TOKEN not in str(call) for call in get_app_calls(workspace).made)


async def test_scopes_are_needed() -> None:
    ws = Workspace(setup(scopes=frozenset({"chat:write", "users:read"})))
    async with serve_workspace(ws):
        client = web_client(ws)
        with pytest.raises(SlackApiError) as refused:
            await client.conversations_open(users=LI)
        told = refused.value.response
        assert (told["error"], told["needed"]) == ("missing_scope", "im:write")
        assert "email" not in (await client.users_info(user=ZHANG))["user"]["profile"]
        assert (await client.chat_postMessage(channel=GENERAL, text="x"))["ok"]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"channel": "C0NOWHERE"}, "channel_not_found"),
    ({"channel": "C02SECRET"}, "not_in_channel"),
    ({"text": "x" * 40_001}, "msg_too_long"),
    ({"thread_ts": "1.0"}, "cannot_reply_to_message"),
    ({"blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3000}}] * 5}, "msg_blocks_too_long"),
    ({"blocks": "nonsense"}, "invalid_blocks_format"),
    ({"metadata": {"event_type": "x"}}, "invalid_metadata_format"),
    ({"metadata": {"event_type": "a b", "event_payload": {}}}, "invalid_metadata_format"),
    ({"metadata": {"event_type": "x", "event_payload": []}}, "invalid_metadata_format"),
]


async def test_posting(workspace: Workspace, driver: Hands, client: AsyncWebClient) -> None:
    said = await client.chat_postMessage(channel=ZHANG, text="hello", blocks=SECTION)
    message = driver.list_messages(DM_ZHANG)[0]
    assert said["channel"] == DM_ZHANG
    assert (message["user"], message["bot_id"], message["app_id"]) == ("U0BOT", "B0BOT", "A0APP")
    workspace.state.rooms["C02SECRET"] = WorkspaceRoom("C02SECRET", "secret", "channel", [ZHANG])
    for more, error in REFUSED:
        assert await error_of(client.chat_postMessage(**{"channel": GENERAL, "text": "x", **more})) == error, more
    assert await error_of(client.api_call("chat.postMessage", json={"channel": GENERAL})) == "no_text"
    with pytest.raises(SlackApiError) as refused:
        await client.chat_postMessage(channel=GENERAL, text="x", blocks=[{"type": "bogus"}])
    told = refused.value.response
    assert told["error"] == "invalid_blocks"
    [problem] = told["response_metadata"]["messages"]
    assert problem == "[ERROR] unsupported type: bogus [json-pointer:/blocks/0/type]"


async def test_what_is_shown_to_the_app_alone_to_one_person_or_until_something_is_posted(
    workspace: Workspace, driver: Hands, client: AsyncWebClient
) -> None:
    metadata = {"event_type": "posted", "event_payload": {"key": "k1"}}
    await client.chat_postMessage(channel=GENERAL, text="x", metadata=metadata)
    shown = [
        (await client.conversations_history(channel=GENERAL, include_all_metadata=wanted))["messages"][0]
        for wanted in (False, True)
    ]
    assert "metadata" not in shown[0] and shown[1]["metadata"] == metadata
    assert all("metadata" not in payload["event"] for payload in driver.events)
    root = await driver.send_message(ZHANG, GENERAL, "root")
    await client.chat_postEphemeral(channel=GENERAL, user=LI, text="only you", thread_ts=root)
    [notice] = driver.list_ephemerals(LI)
    assert (notice["text"], notice["thread_ts"]) == ("only you", root) and not driver.list_ephemerals(ZHANG)
    assert await error_of(client.chat_postEphemeral(channel=DM_LI, user=ZHANG, text="x")) == "user_not_in_channel"
    await client.assistant_threads_setStatus(channel_id=GENERAL, thread_ts=root, status="is thinking…")
    assert workspace.state.statuses == {(GENERAL, root): "is thinking…"}
    await client.chat_postMessage(channel=GENERAL, text="x", thread_ts=root)
    assert not workspace.state.statuses
    suggest, prompts = client.assistant_threads_setSuggestedPrompts, [{"title": "Leave", "message": "I need leave"}]
    ts = await driver.send_message(ZHANG, DM_ZHANG, "hello")
    await suggest(channel_id=DM_ZHANG, thread_ts=ts, prompts=prompts)
    assert not workspace.state.prompts, "with a thread it does nothing for an agent"
    await suggest(channel_id=DM_ZHANG, prompts=prompts)
    assert workspace.state.prompts == {DM_ZHANG: prompts}
    await driver.send_message(ZHANG, DM_ZHANG, "I need leave")
    assert not workspace.state.prompts
    for bad in (prompts * 5, [{"title": "Leave"}], [{"title": "x" * 76, "message": "m"}]):
        assert await error_of(suggest(channel_id=DM_ZHANG, prompts=bad)) == "invalid_arguments"


async def test_update_keeps_blocks_that_are_left_out(driver: Hands, client: AsyncWebClient) -> None:
    ts = (await client.chat_postMessage(channel=GENERAL, text="one", blocks=SECTION))["ts"]
    await client.chat_update(channel=GENERAL, ts=ts, text="two")
    assert (driver.list_messages(GENERAL)[0]["text"], driver.list_messages(GENERAL)[0]["blocks"]) == ("two", SECTION)
    await client.chat_update(channel=GENERAL, ts=ts, text="three", blocks=[])
    assert "blocks" not in driver.list_messages(GENERAL)[0]
    assert await error_of(client.chat_update(channel=GENERAL, ts="1.0", text="x")) == "message_not_found"
    theirs = await driver.send_message(ZHANG, GENERAL, "mine")
    assert await error_of(client.chat_update(channel=GENERAL, ts=theirs, text="x")) == "cant_update_message"
    assert await error_of(client.chat_update(channel=GENERAL, ts=ts, text="语" * 1334)) == "msg_too_long"


async def test_threads_are_kept_book_of(driver: Hands, client: AsyncWebClient) -> None:
    root = await driver.send_message(ZHANG, GENERAL, "root")
    first = (await client.chat_postMessage(channel=GENERAL, text="1", thread_ts=root))["ts"]
    last = await driver.send_message(LI, GENERAL, "2", root)
    book = driver.list_messages(GENERAL)[0]
    assert (book["reply_count"], book["latest_reply"], book["thread_ts"]) == (2, last, root)
    assert book["reply_users"] == ["U0BOT", LI]
    replies = await client.conversations_replies(channel=GENERAL, ts=root)
    assert [m["ts"] for m in replies["messages"]] == [root, first, last]
    assert (await client.conversations_replies(channel=GENERAL, ts=first))["messages"][0]["ts"] == root
    assert [m["ts"] for m in (await client.conversations_history(channel=GENERAL))["messages"]] == [root]
    assert await error_of(client.conversations_replies(channel=GENERAL, ts="1.0")) == "thread_not_found"
    await driver.delete_message(LI, GENERAL, last)
    assert driver.list_messages(GENERAL)[0]["reply_count"] == 1
    nested = client.chat_postMessage(channel=GENERAL, text="x", thread_ts=first)
    assert await error_of(nested) == "cannot_reply_to_message"
    await driver.delete_message(ZHANG, GENERAL, root)
    assert driver.list_messages(GENERAL)[0]["subtype"] == "tombstone"


async def test_history_pages(driver: Hands, client: AsyncWebClient) -> None:
    stamps = [await driver.send_message(ZHANG, GENERAL, str(number)) for number in range(5)]
    page = await client.conversations_history(channel=GENERAL, limit=2)
    seen = [m["ts"] for m in page["messages"]]
    while page["has_more"]:
        cursor = page["response_metadata"]["next_cursor"]
        page = await client.conversations_history(channel=GENERAL, limit=2, cursor=cursor)
        seen += [m["ts"] for m in page["messages"]]
    assert seen == stamps[::-1]
    since = await client.conversations_history(channel=GENERAL, oldest=stamps[3], inclusive=True)
    assert [m["ts"] for m in since["messages"]] == [stamps[4], stamps[3]]
    assert await error_of(client.conversations_history(channel=GENERAL, cursor="bogus")) == "invalid_cursor"
    assert await error_of(client.conversations_history(channel=GENERAL, limit=0)) == "invalid_limit"


async def test_people_and_rooms(client: AsyncWebClient) -> None:
    user = (await client.users_info(user=LI, include_locale=True))["user"]
    assert (user["locale"], user["tz"], user["tz_offset"]) == ("zh-CN", "Asia/Shanghai", 28800)
    assert user["profile"]["email"] == "lisi@example.com"
    assert "locale" not in (await client.users_info(user=LI))["user"]
    assert await error_of(client.users_info(user="U0NOBODY")) == "user_not_found"
    assert (await client.users_lookupByEmail(email="LISI@example.com"))["user"]["id"] == LI
    assert await error_of(client.users_lookupByEmail(email="no@example.com")) == "users_not_found"
    ids = []
    async for page in await client.users_list(limit=3):
        ids += [member["id"] for member in page["members"]]
    assert ids[0] == "USLACKBOT" and len(ids) == len(set(ids)) == 7
    assert (await client.conversations_open(users=LI))["channel"] == {"id": DM_LI}
    assert await error_of(client.conversations_open(users="U0NOBODY")) == "user_not_found"
    assert await error_of(client.conversations_open(users="U0BOT")) == "cannot_dm_bot"
    assert (await client.conversations_info(channel=DM_LI))["channel"]["user"] == LI
    assert (await client.conversations_info(channel=GENERAL))["channel"]["is_member"] is True
    listed = [(await client.users_conversations(**types))["channels"] for types in ({}, {"types": "im"})]
    assert [one["id"] for one in listed[0]] == [GENERAL] and DM_LI in [one["id"] for one in listed[1]]
    labels = {f["id"]: f["label"] for f in (await client.team_profile_get())["profile"]["fields"]}
    profile = (await client.users_profile_get(user="U04ZHAO"))["profile"]
    assert {labels[id]: one["value"] for id, one in profile["fields"].items()} == {"上级": "U03WANG", "部门": "Finance"}
    assert await error_of(client.users_profile_get(user="U0NOBODY")) == "user_not_found"


async def test_sessions_begin_once_and_are_stopped_by_an_event(
    workspace: Workspace, driver: Hands, client: AsyncWebClient
) -> None:
    ts = await driver.send_message(ZHANG, DM_ZHANG, "hello")
    here = {"channel_id": DM_ZHANG, "thread_ts": ts}
    begun = await client.agents_sessions_setStatus(**here, status="processing", title="a", initiator_user_id=ZHANG)
    assert (begun["status"], begun["title"]) == ("processing", "a") and "warning" not in begun.data
    await driver.stop_session(ZHANG, DM_ZHANG, ts)
    assert workspace.state.sessions[DM_ZHANG, ts]["status"] == "processing", "the app itself says when it has stopped"
    [stopped] = [one["event"] for one in driver.events if one["event"]["type"] == "agent_session_stopped"]
    assert (stopped["user"], stopped["thread_ts"], stopped["streaming_message_ts"]) == (ZHANG, ts, [])
    after = await client.agents_sessions_setStatus(**here, status="active", title="b", initiator_user_id=LI)
    assert after["title"] == "a" and workspace.state.sessions[DM_ZHANG, ts]["user"] == ZHANG
    with pytest.raises(WorkspaceError, match="action_not_found"):
        await driver.stop_session(ZHANG, DM_ZHANG, ts)
    assert await error_of(client.agents_sessions_setStatus(**here, status="busy")) == "invalid_arguments"
    assert await error_of(client.agents_sessions_setStatus(**here, status="active", title="x" * 201))
    elsewhere = client.agents_sessions_setStatus(channel_id=DM_ZHANG, thread_ts="1.0", status="active")
    assert await error_of(elsewhere) == "invalid_thread_ts"


async def test_only_what_was_announced_is_taken_and_only_once(client: AsyncWebClient) -> None:
    given = await client.files_getUploadURLExternal(filename="a.png", length=3, alt_txt="three")
    url, file = given["upload_url"], [{"id": given["file_id"]}]
    assert await error_of(client.files_completeUploadExternal(files=file)) == "file_not_found"
    async with aiohttp.ClientSession() as http:
        for end, content, status in (("0", b"abc", 404), ("", b"abcd", 400), ("", b"abc", 200), ("", b"xyz", 404)):
            async with http.post(url + end, data=content) as response:
                assert response.status == status, content
    [shown] = (await client.files_completeUploadExternal(files=file, channel_id=GENERAL))["files"]
    assert (shown["title"], shown["alt_txt"], shown["size"]) == ("a.png", "three", 3)
    for length, alt, error in ((30_000_001, "", "invalid_arguments"), (0, "", "invalid_arguments"),
                               (1, "x" * 1_001, "alt_txt_too_large")):  # fmt: skip
        assert await error_of(client.files_getUploadURLExternal(filename="a", length=length, alt_txt=alt)) == error


# Private channels and group DMs


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
    for person, room in ((ZHANG, LEADS), (WANG, TRIO)):
        with pytest.raises(WorkspaceError, match="not_in_channel"):
            await driver.send_message(person, room, "hello")


async def test_an_app_that_did_not_subscribe_hears_nothing_and_that_is_not_in_it_knows_nothing() -> None:
    ws = Workspace(setup(events=EVENTS - {"message.mpim", "app_mention"}, scopes=SCOPES))
    async with serve_workspace(ws):
        driver, client = Hands(ws), web_client(ws)
        await driver.send_message(LI, TRIO, "hello")
        assert not driver.events
        ws.state.rooms[LEADS].members.remove(BOT)
        assert await error_of(client.conversations_info(channel=LEADS)) == "channel_not_found"
        assert not (await client.users_conversations(types="private_channel"))["channels"]
