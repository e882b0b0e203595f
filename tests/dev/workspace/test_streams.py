"""Messages that grow while they are read: chat.startStream, chat.appendStream, chat.stopStream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from slack_sdk.models.blocks import Block
from slack_sdk.models.messages.chunk import BlocksChunk, MarkdownTextChunk, PlanUpdateChunk, TaskUpdateChunk
from slack_sdk.web.async_client import AsyncWebClient

from bot.dev.workspace.driver import WorkspaceDriver
from bot.dev.workspace.streams import LIFETIME_S
from bot.dev.workspace.validate import check_blocks
from bot.dev.workspace.workspace import Workspace
from tests.dev.workspace.hands import DM_ZHANG, GENERAL, LI, ZHANG, SetClock, error_of, setup, web_client
from tests.harness.workspace_server import serve_workspace

READER = {"recipient_team_id": "T0LOCAL", "recipient_user_id": ZHANG}
SECTION = {"type": "section", "text": {"type": "mrkdwn", "text": "done"}}


@pytest.fixture
async def workspace(clock: SetClock) -> AsyncIterator[Workspace]:
    ws = Workspace(setup(), clock=clock)
    async with serve_workspace(ws):
        yield ws


async def start(client: AsyncWebClient, driver: WorkspaceDriver, **args: Any) -> dict[str, Any]:
    """An empty stream in answer to a message of Zhang's; where it is."""
    asked = await driver.send_message(ZHANG, DM_ZHANG, "hello")
    begun = await client.chat_startStream(channel=DM_ZHANG, thread_ts=asked, **args)
    return {"channel": DM_ZHANG, "ts": begun["ts"]}


def blocks_of(driver: WorkspaceDriver, channel: str = DM_ZHANG) -> list[dict[str, Any]]:
    blocks = driver.list_messages(channel)[-1]["blocks"]
    assert check_blocks(blocks) == []
    assert [block.type for block in Block.parse_all(blocks)] == [block["type"] for block in blocks]
    return [{name: value for name, value in block.items() if name != "block_id"} for block in blocks]


async def test_slack_sdks_own_helper_streams_a_text_or_says_it_all_at_its_end(
    driver: WorkspaceDriver, client: AsyncWebClient
) -> None:
    asked = await driver.send_message(ZHANG, DM_ZHANG, "hello")
    stream = await client.chat_stream(channel=DM_ZHANG, thread_ts=asked, buffer_size=1)
    await stream.append(markdown_text="**hello wo")
    growing = driver.list_messages(DM_ZHANG)[-1]
    assert (growing["streaming_state"], growing["thread_ts"], growing["text"]) == ("in_progress", asked, "**hello wo")
    await stream.append(markdown_text="rld!**")
    done = await stream.stop(blocks=[SECTION], metadata={"event_type": "said", "event_payload": {}})
    assert done["message"]["streaming_state"] == "completed" and done["ts"] == stream.ts
    assert blocks_of(driver) == [{"type": "markdown", "text": "**hello world!**"}, SECTION]
    seen = driver.list_messages(DM_ZHANG)[-1]
    assert seen["metadata"]["event_type"] == "said" and "edited" not in seen
    asked = await driver.send_message(ZHANG, GENERAL, "hello")
    stream = await client.chat_stream(channel=GENERAL, thread_ts=asked, **READER)
    await stream.append(markdown_text="short")
    await stream.stop(markdown_text=" and sweet")
    assert blocks_of(driver, GENERAL) == [{"type": "markdown", "text": "short and sweet"}]


def update_task(id: str, status: str, **more: Any) -> TaskUpdateChunk:
    return TaskUpdateChunk(id=id, title=f"Task {id}", status=status, **more)


@pytest.mark.parametrize(
    ("display", "shown"),
    [
        ("timeline", ["task_card", "task_card", "markdown", "task_card", "section"]),
        ("plan", ["plan", "markdown", "section"]),
        ("dense", ["plan", "markdown", "plan", "section"]),
    ],
)
async def test_tasks_are_shown_as_was_asked_for(
    driver: WorkspaceDriver, client: AsyncWebClient, display: str, shown: list[str]
) -> None:
    here = await start(client, driver, task_display_mode=display)
    source = {"type": "url", "url": "https://example.com", "text": "Example"}
    await client.chat_appendStream(
        **here, chunks=[update_task("a", "in_progress", details="looks "), update_task("b", "pending")]
    )
    await client.chat_appendStream(**here, chunks=[MarkdownTextChunk(text="found it")])
    last = [update_task("c", "error"), update_task("a", "complete", details="it up", sources=[source])]
    await client.chat_appendStream(**here, chunks=[*last, PlanUpdateChunk(title="Looked it up")])
    await client.chat_stopStream(**here, chunks=[BlocksChunk(blocks=[SECTION])])
    blocks = blocks_of(driver)
    assert [block["type"] for block in blocks] == shown
    first = blocks[0]["tasks"][0] if display != "timeline" else blocks[0]
    assert (first["status"], first["sources"]) == ("complete", [source])
    assert first["details"]["elements"][0]["elements"][0]["text"] == "looks it up", "details are appended"
    assert blocks[0].get("title") == ("Task a" if display == "timeline" else "Looked it up")


async def test_what_is_said_is_text_or_chunks_and_stays_so_and_nothing_said_is_no_message(
    driver: WorkspaceDriver, client: AsyncWebClient
) -> None:
    here = await start(client, driver)
    both = client.chat_appendStream(**here, markdown_text="a", chunks=[MarkdownTextChunk(text="b")])
    assert await error_of(both) == "cannot_provide_both_markdown_text_and_chunks"
    assert await error_of(client.chat_appendStream(**here)) == "markdown_text_or_chunks_required"
    await client.chat_appendStream(**here, markdown_text="a")
    chunks = [MarkdownTextChunk(text="b")]
    assert await error_of(client.chat_appendStream(**here, chunks=chunks)) == "streaming_mode_mismatch"
    assert await error_of(client.chat_stopStream(**here, chunks=chunks)) == "streaming_mode_mismatch"
    assert await error_of(client.chat_appendStream(**here, markdown_text="x" * 12_001)) == "msg_too_long"
    assert await error_of(client.chat_stopStream(**await start(client, driver))) == "no_text"


REFUSED: tuple[tuple[Any, str], ...] = (
    ([{"type": "invented"}], "invalid_chunks"),
    ([{"type": "task_update", "id": "a", "title": "A", "status": "busy"}], "invalid_chunks"),
    ([{"type": "plan_update", "title": "x" * 257}], "invalid_chunks"),
    ([{"type": "task_update", "id": "a", "title": "A", "status": "pending", "details": "x" * 257}], "invalid_chunks"),
    ([{"type": "blocks", "blocks": "section"}], "invalid_chunks"),
    ([{"type": "blocks", "blocks": [{"type": "bogus"}]}], "invalid_blocks"),
    ([{"type": "blocks", "blocks": [SECTION] * 26}] * 2, "msg_blocks_too_many"),
    ("nonsense", "invalid_arguments"),
)


async def test_chunks_are_refused_whole(
    driver: WorkspaceDriver, client: AsyncWebClient, subtests: pytest.Subtests
) -> None:
    for chunks, error in REFUSED:
        with subtests.test(f"{error}: {chunks}"[:90]):
            here = await start(client, driver)
            sent = [{"type": "markdown_text", "text": "x"}, *chunks] if isinstance(chunks, list) else chunks
            assert await error_of(client.api_call("chat.appendStream", json={**here, "chunks": sent})) == error
            assert driver.list_messages(DM_ZHANG)[-1]["blocks"] == []


async def test_fifty_blocks_on_the_way_and_fifty_at_the_end(driver: WorkspaceDriver, client: AsyncWebClient) -> None:
    here = await start(client, driver)
    await client.chat_appendStream(**here, chunks=[BlocksChunk(blocks=[SECTION] * 50)])
    more = client.chat_appendStream(**here, chunks=[BlocksChunk(blocks=[SECTION])])
    assert await error_of(more) == "msg_blocks_too_many"
    await client.chat_stopStream(**here, blocks=[SECTION] * 50)
    assert len(driver.list_messages(DM_ZHANG)[-1]["blocks"]) == 100


async def test_where_a_stream_begins(driver: WorkspaceDriver, client: AsyncWebClient) -> None:
    asked = await driver.send_message(ZHANG, GENERAL, "hello")
    begin = {"channel": GENERAL, "thread_ts": asked}
    team = {"recipient_team_id": "T0LOCAL"}
    assert await error_of(client.chat_startStream(**begin)) == "missing_recipient_team_id"
    assert await error_of(client.chat_startStream(**begin, **team)) == "missing_recipient_user_id"
    nobody = client.chat_startStream(**begin, **team, recipient_user_id="U0NOBODY")
    assert await error_of(nobody) == "user_not_found"
    foreign = client.chat_startStream(**begin, recipient_team_id="T0OTHER", recipient_user_id=LI)
    assert await error_of(foreign) == "team_not_found"
    assert await error_of(client.chat_startStream(channel="C0NOWHERE", thread_ts=asked)) == "channel_not_found"
    top = client.api_call("chat.startStream", json={"channel": DM_ZHANG})
    assert await error_of(top) == "invalid_arguments", "in a DM it is a reply"
    odd = client.chat_startStream(**begin, **READER, task_display_mode="loud")
    assert await error_of(odd) == "invalid_arguments"
    assert (await client.api_call("chat.startStream", json={"channel": GENERAL, **READER}))["ok"]


async def test_who_may_go_on(workspace: Workspace, driver: WorkspaceDriver, client: AsyncWebClient) -> None:
    here = await start(client, driver, markdown_text="a")
    theirs = driver.list_messages(DM_ZHANG)[0]["ts"]
    assert (
        await error_of(client.chat_appendStream(channel=DM_ZHANG, ts=theirs, markdown_text="b"))
        == "message_not_owned_by_app"
    )
    assert (
        await error_of(client.chat_appendStream(channel=DM_ZHANG, ts="1.0", markdown_text="b")) == "message_not_found"
    )
    assert await error_of(client.chat_update(**here, text="b")) == "streaming_state_conflict"
    plain = (await client.chat_postMessage(channel=DM_ZHANG, text="x"))["ts"]
    not_streamed = client.chat_stopStream(channel=DM_ZHANG, ts=plain)
    assert await error_of(not_streamed) == "message_not_in_streaming_state"
    await client.chat_stopStream(**here)
    for call in (client.chat_appendStream(**here, markdown_text="b"), client.chat_stopStream(**here)):
        assert await error_of(call) == "message_not_in_streaming_state"
    await client.chat_update(**here, text="b")
    await client.chat_delete(**await start(client, driver, markdown_text="gone"))
    assert not workspace.state.streams


async def test_a_stream_lives_five_minutes(driver: WorkspaceDriver, client: AsyncWebClient, clock: SetClock) -> None:
    here = await start(client, driver, markdown_text="a")
    clock.now += LIFETIME_S
    await client.chat_appendStream(**here, markdown_text="b")
    clock.now += 1
    for call in (client.chat_appendStream(**here, markdown_text="c"), client.chat_stopStream(**here)):
        assert await error_of(call) == "message_not_in_streaming_state"
    assert driver.list_messages(DM_ZHANG)[-1]["text"] == "ab"


async def test_stop_ends_the_streams_of_its_thread(
    workspace: Workspace, driver: WorkspaceDriver, client: AsyncWebClient
) -> None:
    here, other = await start(client, driver, markdown_text="a"), await start(client, driver, markdown_text="b")
    thread = driver.list_messages(DM_ZHANG)[0]["ts"]
    await client.agents_sessions_setStatus(channel_id=DM_ZHANG, thread_ts=thread, status="processing")
    await driver.stop_session(ZHANG, DM_ZHANG, thread)
    [stopped] = [one["event"] for one in driver.events if one["event"]["type"] == "agent_session_stopped"]
    assert stopped["streaming_message_ts"] == [here["ts"]]
    assert await error_of(client.chat_appendStream(**here, markdown_text="c")) == "stopped_by_user"
    assert await error_of(client.chat_stopStream(**here)) == "message_not_in_streaming_state"
    await client.chat_stopStream(**other, markdown_text="c")


async def test_the_end_of_a_stream_is_the_end_of_work(
    workspace: Workspace, driver: WorkspaceDriver, client: AsyncWebClient
) -> None:
    here = await start(client, driver, markdown_text="a")
    thread = driver.list_messages(DM_ZHANG)[0]["ts"]
    await client.agents_sessions_setStatus(channel_id=DM_ZHANG, thread_ts=thread, status="processing")
    assert await error_of(client.chat_stopStream(**here, session_status="busy")) == "invalid_arguments"
    await client.chat_stopStream(**here)
    assert workspace.state.sessions[DM_ZHANG, thread]["status"] == "active"


async def test_starts_and_stops_are_few(workspace: Workspace, driver: WorkspaceDriver, client: AsyncWebClient) -> None:
    workspace.limiter.is_enabled = True
    begun = [await start(client, driver, markdown_text="a") for _ in range(20)]
    asked = await driver.send_message(ZHANG, DM_ZHANG, "hello")
    assert await error_of(client.chat_startStream(channel=DM_ZHANG, thread_ts=asked)) == "ratelimited"
    for _ in range(100):
        await client.chat_appendStream(**begun[0], markdown_text="b")
    assert await error_of(client.chat_appendStream(**begun[0], markdown_text="b")) == "ratelimited"


async def test_a_restart_keeps_what_was_said(workspace: Workspace, driver: WorkspaceDriver, tmp_path: Any) -> None:
    first = Workspace(setup(), folder=tmp_path)
    async with serve_workspace(first):
        here = await start(web_client(first), WorkspaceDriver(first), markdown_text="half a")
    second = Workspace(setup(), folder=tmp_path)
    async with serve_workspace(second):
        assert WorkspaceDriver(second).list_messages(DM_ZHANG)[-1]["text"] == "half a"
        over = web_client(second).chat_appendStream(**here, markdown_text="b")
        assert await error_of(over) == "message_not_in_streaming_state"
