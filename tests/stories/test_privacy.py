"""Readers of content, over the real protocols: channels, guests, Slack Connect, settings, and who stops what."""

import pytest

from bot.dev.workspace.world import WorkspaceMember
from tests.harness.office import ADMIN, ANN, GENERAL, WANG, ZHANG, Office, name_id, office, read_message_text

OWNER = WorkspaceMember(name_id("U07OWNER"), "owner", "老板", email="owner@example.com", locale="en-US", is_admin=True)
SENT = "I have sent it to you in our DM."


def in_thread(desk: Office, thread: str) -> list[str]:
    return [read_message_text(one) for one in desk.posts(GENERAL) if one.get("thread_ts") == thread]


async def test_a_channel_of_which_slack_says_nothing_counts_as_one_with_strangers(desk: Office) -> None:
    desk.driver.fail_next_call("conversations.members", "missing_scope", 20)
    await desk.driver.mention_bot(ANN.id, GENERAL, "what can I ask for?")
    await desk.until(lambda: SENT in desk.said(GENERAL))
    await desk.quiet()
    assert {one["text"] for one in desk.posts(GENERAL)} == {SENT}


async def test_control_among_colleagues_what_is_no_secret_is_answered_in_the_thread(desk: Office) -> None:
    thread = await desk.driver.mention_bot(ANN.id, GENERAL, "what can I ask for?")
    await desk.until(lambda: any("On record" in text for text in in_thread(desk, thread)))
    await desk.quiet()
    assert not desk.posts(desk.dm(ANN.id))
    assert len(desk.driver.list_call_arguments("conversations.members")) == 1, "asked once"


PLAIN = {"openai_model": "gpt-x", "approval_ttl_hours": 12.0}
HIDDEN = {
    "slack_bot_token": "xoxb-SECRET-1",
    "openai_api_key": "sk-SECRET-2",
    "smtp_url": "smtp://u:SECRET3@h",
    "redis_url": "rediss://bot:SECRET4@redis.example.com:6379/0?password=SECRET5&timeout=1",
    "openai_base_url": "https://me:SECRET6@models.example.com/v1?api_key=SECRET7&sig=SECRET8#SECRET9",
    "engine_url": "https://SECRET10@engine.example.com/t/SECRET11abcdefgh123/engine-rest",
    "otel_exporter_otlp_endpoint": "https://collect.example.com/?access-token=SECRET12",
}


async def test_settings_show_an_administrator_all_without_secrets_and_an_owner_reads_nobodys_request(
    valkey: str,
) -> None:
    """Employees see what concerns them. To run the workspace is no role of the company's."""
    async with office(valkey, more=(OWNER,)) as company, company.opened(**PLAIN, **HIDDEN):
        own = await company.answer(WANG, "settings")
        assert "Model in use: gpt-x" in own and "12.0 hours" in own and "English" in own
        assert "redis" not in own.lower() and "engine" not in own and "example.com" not in own
        for who, word in ((ADMIN, "设置"), (OWNER.id, "settings")):
            told = await company.answer(who, word)
            assert "SECRET" not in told and "••••••" in told
            assert "redis.example.com:6379/0" in told and "engine-rest" in told, "what is no secret is shown"
        await company.request_leave(ZHANG, "请年假 2026-11-30 到 2026-12-01，审批人李四")
        told = await company.answer(OWNER.id, "where is L-0001?")
        assert "2026-11-30" not in told and "11月30日" not in told and "张三" not in told and "李四" not in told
        assert "李四" in await company.answer(ADMIN, "L-0001 到哪一步了？"), "control: the role of the file does"


async def thinking(desk: Office) -> str:
    """Start work for Zhang in a thread, and return the thread."""
    desk.answering.clear()
    thread = await desk.driver.mention_bot(ZHANG, GENERAL, "我能申请什么？")
    await desk.until(lambda: len(desk.driver.acks) >= len(desk.driver.events))
    return thread


async def say_stop(desk: Office, person: str, thread: str, word: str) -> None:
    before = len(desk.driver.acks)
    await desk.says(person, word, channel=GENERAL, thread=thread)
    await desk.until(lambda: len(desk.driver.acks) > before)


async def test_stop_in_a_thread_stops_nobody_elses_run_and_says_so(desk: Office) -> None:
    thread = await thinking(desk)
    await say_stop(desk, WANG, thread, "stop")
    desk.answering.set()
    told = await desk.until(lambda: [t for t in in_thread(desk, thread) if "You had nothing running here" in t])
    await desk.quiet()
    assert told and not desk.stops(GENERAL), "Zhang has his answer"
    assert await desk.kinds() and "run.stopped" not in await desk.kinds()


@pytest.mark.parametrize(("person", "word", "answer"), [
    (ZHANG, "停", "您在这里正在进行的事已经停下"), (ADMIN, "停", "没有正在进行的事"),
])  # fmt: skip
async def test_ones_own_run_is_stopped_and_an_administrator_stops_anybodys(
    desk: Office, person: str, word: str, answer: str
) -> None:
    thread = await thinking(desk)
    await say_stop(desk, person, thread, word)
    await desk.until(lambda: desk.stops(GENERAL))
    await desk.until(lambda: any(answer in text for text in in_thread(desk, thread)))
    desk.answering.set()
    await desk.quiet()
    [ended] = await desk.journal(kinds=["run.stopped"])
    assert ended.more["why"] == "user" and ended.person == ZHANG
