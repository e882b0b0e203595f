"""Outages: what is away is named, what was said is kept, and each thing happens once when it is back."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from bot.agent.model import Messages, ModelReply
from bot.local.embedded import EmbeddedRedis
from bot.redis.connect import connect_redis
from tests.harness.office import APP_TOKEN, BOT_TOKEN, LI, ZHANG, Office, office, read_message_text
from tests.harness.programs import Ended, ctrl_c, ended, free_ports, mentioning, printed, ran, started
from tests.harness.scripted_model import ScriptedModel
from tests.stories.behind import choices_of
from tests.stories.endpoint import Endpoint, Raw, called, endpoint, said
from tests.stories.script import DONE, MAIL, expense, mail, requests_of

MODEL_DOWN = "现在连不上语言模型"
MODEL_UNFIT = "语言模型现在用不了"


def told_down(office: Office, channel: str, words: str = MODEL_DOWN) -> int:
    """How often people were told that the model is away, in such words."""
    return len([one for one in office.posts(channel) if words in read_message_text(one)])


def refused(end: Ended, *words: str) -> None:
    """One clear line, no traceback, exit code 1."""
    assert end.code == 1, end
    assert "Traceback" not in end.all and end.err.startswith("countersign: "), end
    assert len(end.err.strip().splitlines()) == 1, end.err
    for word in words:
        assert word in end.err, end.err


# Redis


async def test_redis_down_at_the_start_says_how_to_mend_it(tmp_path: Path) -> None:
    def ports(n: int) -> dict[str, str]:
        """And a folder of its own: two starts on one are refused before they look for Redis."""
        return {"LOCAL_PORT": str(free + 2 * n), "DATA_DIR": str(tmp_path / str(n))}

    free = free_ports(4)
    dead = ("redis://:PASSW0RD@127.0.0.1:1/0", "unix:///nowhere/redis.sock")
    runs = (ran("run", cwd=tmp_path, env={"REDIS_URL": url, **ports(n)}) for n, url in enumerate(dead))
    ends = await asyncio.gather(*runs)
    for end in ends:
        refused(end, "REDIS_URL", "Redis")
        assert "PASSW0RD" not in end.all
    assert not mentioning(str(tmp_path)), "nothing was left behind"


async def killed(url: str) -> None:
    """SIGKILL to the server."""
    client = await connect_redis(url)
    server = int((await client.info("server"))["process_id"])
    await client.aclose()
    os.kill(server, signal.SIGKILL)


async def test_redis_gone_for_three_seconds_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """One message is being worked on when Redis dies, one is written while it is away."""
    redis = EmbeddedRedis(tmp_path)
    at_work, go_on = asyncio.Event(), asyncio.Event()

    async def slow(messages: Messages) -> ModelReply:
        at_work.set()
        await go_on.wait()
        return ModelReply(text=re.findall("第.句", str(messages[-1]["content"]))[-1] + "的回答")

    model = ScriptedModel([slow] * 9)
    try:
        async with office(await redis.ensure_running(), redelivery=(0.5, 1, 2)) as desk, desk.opened(model=model):
            here = desk.dm(ZHANG)
            await desk.says(ZHANG, "第一句")
            await at_work.wait()
            await killed(redis.url)
            go_on.set()
            await desk.says(ZHANG, "第二句")
            await asyncio.sleep(3)
            await redis.ensure_running()
            await desk.until(lambda: len(desk.finals(here)) >= 2)
            await desk.answer(ZHANG, "第三句")
            await desk.quiet()
            finals = [text for text in desk.finals(here)]
            assert [text[:3] for text in finals] == ["第一句", "第二句", "第三句"]
    finally:
        await redis.close()


async def test_a_press_while_redis_is_away_says_so_and_works_afterwards(tmp_path: Path) -> None:
    redis = EmbeddedRedis(tmp_path)
    try:
        async with office(await redis.ensure_running()) as desk, desk.opened(model=ScriptedModel([mail(), DONE])):
            await desk.says(ZHANG, "给李四发邮件")
            card = await desk.card(desk.dm(ZHANG))
            await desk.quiet()
            await killed(redis.url)
            press = asyncio.create_task(desk.press(ZHANG, card, "send"))
            await desk.until(lambda: "还不能确定" in desk.whispers(ZHANG), timeout=30)
            assert not (await press).ok, "the platform shows its own warning too"
            await redis.ensure_running()
            assert not desk.mails
            await desk.press(ZHANG, card, "send")
            await desk.until(lambda: desk.finals(desk.dm(ZHANG)))
            await desk.quiet()
            assert len(desk.mails) == 1
    finally:
        await redis.close()


# Mail


async def asked(office: Office) -> str:
    """Zhang San has pressed Send; the channel it happened in."""
    await office.says(ZHANG, "给李四发邮件")
    here = office.dm(ZHANG)
    await office.press(ZHANG, await office.card(here, MAIL["subject"]), "send")
    return here


def list_updates(office: Office, card: dict[str, Any]) -> list[dict[str, Any]]:
    """How a message was rewritten, oldest first."""
    return [call for call in office.driver.list_call_arguments("chat.update") if call["ts"] == card["ts"]]


@pytest.mark.parametrize("fault", ["refuse_rcpt", "refuse_data", "down"])
async def test_mail_surely_not_sent_is_said_and_can_be_tried_again(empty: Office, fault: str) -> None:
    empty.mailbox.fail_next_mail(fault)  # type: ignore[arg-type]
    async with empty.opened(model=ScriptedModel([mail(), DONE])):
        here = await asked(empty)
        card = await empty.card(here, "没有成功")
        assert "没有发出" in read_message_text(card) and choices_of(card) == {"retry"}
        assert "没有做任何改动" in (await empty.until(lambda: empty.finals(here)))[0]
        assert not empty.mails
        await empty.press(ZHANG, card, "retry")
        await empty.until(lambda: "给李四发了邮件" in empty.said(here))
        await empty.quiet()
        assert [sent["subject"] for sent in empty.mails] == [MAIL["subject"]]
        assert not empty.cards(here)


async def test_a_mail_server_that_is_not_there_at_all(empty: Office) -> None:
    await empty.mailbox.close()
    async with empty.opened(model=ScriptedModel([mail(), DONE])):
        here = await asked(empty)
        card = await empty.card(here, "没有成功")
        assert "连不上邮件服务器" in read_message_text(card)
        await empty.quiet()
        shown = list_updates(empty, card)
        await empty.press(ZHANG, card, "retry")
        await empty.until(lambda: len(list_updates(empty, card)) > len(shown))
        await empty.quiet()
        assert choices_of(await empty.card(here, "没有成功")) == {"retry"}, "still down: still offered"
        assert (await empty.kinds()).count("effect.failed") == 2
        await empty.mailbox.start(int(empty.smtp_url.rpartition(":")[2]))
        await empty.press(ZHANG, await empty.card(here), "retry")
        await empty.until(lambda: empty.mails)
        await empty.quiet()
        assert len(empty.mails) == 1


@pytest.mark.parametrize("fault, before", [("drop_before_data", 0), ("drop_after_data", 1)])
@pytest.mark.parametrize("choice, more", [("happened", 0), ("redo", 1)])
async def test_a_connection_broken_while_the_mail_went_out_is_unknown_and_a_person_says_what_is_true(
    empty: Office, fault: str, before: int, choice: str, more: int
) -> None:
    empty.mailbox.fail_next_mail(fault)  # type: ignore[arg-type]
    async with empty.opened(model=ScriptedModel([mail(), DONE])):
        here = await asked(empty)
        card = await empty.card(here, "不知道有没有完成")
        assert choices_of(card) == {"happened", "redo"}
        assert "不知道是否完成" in (await empty.until(lambda: empty.finals(here)))[0], "the receipt is honest"
        await empty.quiet()
        assert len(empty.mails) == before, "nothing is repeated by itself"
        await empty.press(ZHANG, card, choice)
        await empty.until(lambda: not empty.cards(here))
        await empty.quiet()
        assert len(empty.mails) == before + more


# The model


@pytest.mark.parametrize(
    "trouble",
    [
        Raw(b"oops", 500),
        Raw({"error": {"message": "slow down"}}, 429, {"Retry-After": "0"}),
        Raw({"error": {"message": "bad key"}}, 401),
        Raw({"error": {"message": "no such model"}}, 404),
        Raw({"error": {"message": "no credit"}}, 402),
        Raw({"error": {"message": "no credit", "type": "insufficient_quota", "code": "insufficient_quota"}}, 429),
        Raw({"error": {"message": "The requested model 'm' does not exist.", "code": "model_not_found"}}, 400),
        Raw(b"<html>502 Bad Gateway</html>"),
        Raw(b"<html>502 Bad Gateway</html>", headers={"Content-Type": "application/json"}),
        Raw(b'{"choices": [{"mess', headers={"Content-Type": "application/json"}),
        Raw("just text"),
        Raw(status=0),
    ],
    ids=[
        "500",
        "429",
        "401",
        "404",
        "402",
        "quota",
        "unknown model",
        "HTML",
        "HTML as JSON",
        "half a body",
        "a string",
        "dropped",
    ],
)
async def test_messages_are_kept_while_the_model_is_away_and_answered_in_order(
    empty: Office, model: Endpoint, trouble: Raw
) -> None:
    model.past_end = trouble
    administrators = trouble.status in (400, 401, 402, 404) or b"insufficient_quota" in repr(trouble.body).encode()
    words = MODEL_UNFIT if administrators else MODEL_DOWN
    async with empty.opened():
        here = empty.dm(ZHANG)
        await empty.says(ZHANG, "第一句")
        await empty.until(lambda: model.asked)  # events travel side by side: the second is written after the first
        await empty.says(ZHANG, "第二句")
        await empty.until(lambda: words in empty.said(here))
        await empty.until(lambda: len(model.asked) >= 4)
        assert not empty.finals(here) and told_down(empty, here, words) == 1, "told once, not at every try"
        model.past_end = said("以后的回答")
        model.then(said("第一句的回答"), said("第二句的回答"))
        await empty.until(lambda: len(empty.finals(here)) == 2)
        await empty.quiet()
        assert [text[:5] for text in empty.finals(here)] == ["第一句的回", "第二句的回"]
        assert told_down(empty, here, words) == 1
        assert told_down(empty, here, MODEL_DOWN if administrators else MODEL_UNFIT) == 0


async def test_a_model_that_says_when_to_come_back_is_obeyed(empty: Office, model: Endpoint) -> None:
    model.then(Raw({"error": {"message": "slow down"}}, 429, {"Retry-After": "1"}), said("久等了"))
    async with empty.opened():
        assert "久等了" in await empty.answer(ZHANG, "在吗")
        assert model.times[1] - model.times[0] >= 1
        assert MODEL_DOWN not in empty.said(empty.dm(ZHANG)), "a short wait is nobody's business"


async def test_while_the_model_is_away_the_second_answers_and_says_so_in_the_record(
    empty: Office, model: Endpoint
) -> None:
    model.past_end = Raw(b"oops", 500)
    async with endpoint(past_end=said("第二个模型在")) as second:
        empty.fallback_url = second.url
        async with empty.opened(openai_retries=0):
            for _ in range(3):
                assert "第二个模型在" in await empty.answer(ZHANG, "在吗")
            assert told_down(empty, empty.dm(ZHANG)) == 0 and len(model.asked) == 1 and len(second.asked) == 3
            await empty.quiet()  # what was said is on the screen before it is written
            runs = await empty.journal(kinds=("run.finished",))
            assert [run.more["model"] for run in runs] == ["second"] * 3


async def test_a_model_that_asks_for_a_long_pause_is_left_alone_so_long(empty: Office, model: Endpoint) -> None:
    empty.reply_s = 1.0
    model.then(Raw({"error": {"message": "slow down"}}, 429, {"Retry-After": "2"}), said("久等了"))
    async with empty.opened():
        assert "久等了" in await empty.answer(ZHANG, "在吗")
        assert model.times[1] - model.times[0] >= 2 and len(model.asked) == 2, "though it would be asked every 0.2 s"
        assert told_down(empty, empty.dm(ZHANG)) == 1


async def test_a_model_that_never_answers_is_an_outage_like_any_other(empty: Office, model: Endpoint) -> None:
    empty.reply_s = 1.0
    model.then(Raw(hold_s=9), Raw(hold_s=9), said("醒了"))
    async with empty.opened():
        assert "醒了" in await empty.answer(ZHANG, "在吗")
        assert told_down(empty, empty.dm(ZHANG)) == 1
        await empty.quiet()
        run = (await empty.journal(kinds=("run.finished",)))[0]
        assert int(run.more["ms"]) < 1000, "waiting for it does not count as running time"


async def test_an_outage_longer_than_a_run_may_take_loses_no_message(empty: Office, model: Endpoint) -> None:
    model.past_end = Raw(b"oops", 503)
    async with empty.opened(run_seconds=1.0):
        await empty.says(ZHANG, "在吗")
        await empty.until(lambda: len(model.asked) >= 6)
        model.past_end = said("在")
        told = await empty.until(lambda: empty.finals(empty.dm(ZHANG)))
        assert told[0].startswith("在")


async def test_a_model_that_refuses_a_conversation_is_an_answer(empty: Office, model: Endpoint) -> None:
    model.then(Raw({"error": {"message": "content policy"}}, 400))
    async with empty.opened():
        assert "模型拒绝处理" in await empty.answer(ZHANG, "在吗")
        assert "好的，完成" in await empty.answer(ZHANG, "还在吗")


async def test_an_outage_after_a_press_still_ends_in_an_answer_and_one_effect(empty: Office, model: Endpoint) -> None:
    start = '{"reason": "报销", "process": "expense", "form": {"amount": "5", "category": "travel", ' \
            '"reason": "打车", "approver": "李四"}}'  # fmt: skip
    model.then(called(("start_process", start)))
    async with empty.opened() as bot:
        here = empty.dm(ZHANG)
        await empty.says(ZHANG, "报销 5 元")
        card = await empty.card(here)
        model.past_end = Raw(b"oops", 500)
        await empty.press(ZHANG, card, "confirm")
        await empty.card(empty.dm(LI), "E-0001")
        await empty.until(lambda: MODEL_DOWN in empty.said(here))
        model.past_end = said("发起了")
        final = (await empty.until(lambda: empty.finals(here)))[0]
        assert "发起了" in final and "E-0001" in final
        await empty.quiet()
        assert await requests_of(bot.redis, ZHANG) == ["E-0001"]


# Slack


@pytest.mark.parametrize(
    "faults",
    [[429], [500], ["drop"], ["drop_after"], [500, "drop"], ["drop_after", 429], ["internal_error"]],
    ids=lambda faults: "+".join(map(str, faults)),
)
async def test_an_answer_arrives_exactly_once_whatever_slack_does(empty: Office, faults: list[int | str]) -> None:
    async with empty.opened(model=ScriptedModel([ModelReply(text="只说一次")])):
        for fault in faults:
            empty.driver.fail_next_call("chat.postMessage", fault)
        assert "只说一次" in await empty.answer(ZHANG, "在吗")
        await empty.quiet()
        assert len([one for one in empty.posts(empty.dm(ZHANG)) if "只说一次" in read_message_text(one)]) == 1


@pytest.mark.parametrize("fault", [429, 500, "drop", "drop_after"])
async def test_a_card_arrives_once_and_is_brought_up_to_date_whatever_slack_does(
    empty: Office, fault: int | str
) -> None:
    async with empty.opened(model=ScriptedModel([expense(), DONE]), steps="quiet") as bot:
        here = empty.dm(ZHANG)
        empty.driver.fail_next_call("chat.postMessage", fault)
        await empty.says(ZHANG, "报销")
        card = await empty.card(here)
        empty.driver.fail_next_call("chat.update", fault)
        await empty.press(ZHANG, card, "confirm")
        await empty.card(empty.dm(LI), "E-0001")
        await empty.until(lambda: not empty.cards(here))
        await empty.quiet()
        cards = [one for one in empty.posts(here) if one["blocks"][0]["type"] == "header"]
        assert len(cards) == 1 and "E-0001" in read_message_text(cards[0])
        assert await requests_of(bot.redis, ZHANG) == ["E-0001"]


async def test_a_message_deleted_before_its_answer_is_answered_beside_it(empty: Office) -> None:
    async def deletes(_: object) -> ModelReply:
        await empty.driver.delete_message(ZHANG, empty.dm(ZHANG), ts[0])
        return ModelReply(text="答案在这里")

    ts: list[str] = []
    async with empty.opened(model=ScriptedModel([deletes])):
        ts.append(await empty.says(ZHANG, "问完就删"))
        await empty.until(lambda: "答案在这里" in empty.said(empty.dm(ZHANG)))


async def test_slack_refusing_or_away_at_the_start_is_said_and_no_token_repeated(empty: Office, tmp_path: Path) -> None:
    wrong = {
        "SLACK_BOT_TOKEN": "xoxb-wrong-12345",
        "SLACK_APP_TOKEN": "xapp-wrong-12345",
        "SLACK_API_URL": "http://127.0.0.1:1/api/",
    }
    fine = {
        "SLACK_BOT_TOKEN": BOT_TOKEN, "SLACK_APP_TOKEN": APP_TOKEN, "SLACK_API_URL": f"{empty.address}/api/",
        "OPENAI_BASE_URL": f"{empty.address}/v1", "REDIS_URL": empty.redis_url, "SMTP_URL": empty.smtp_url,
    }  # fmt: skip
    runs = (ran("run", cwd=tmp_path, env={**fine, name: value}) for name, value in wrong.items())
    for name, end in zip(wrong, await asyncio.gather(*runs), strict=True):
        refused(end, "Slack", name)
        assert "12345" not in end.all and BOT_TOKEN not in end.all and APP_TOKEN not in end.all


# The program


async def test_ctrl_c_ends_everything_and_leaves_nothing_behind(tmp_path: Path) -> None:
    env = {"DATA_DIR": str(tmp_path), "LOCAL_PORT": str(free_ports())}
    async with started("run", cwd=tmp_path, env=env, fresh=True) as child:
        await printed(child, "Stop it: Ctrl-C")
        assert len(mentioning(str(tmp_path))) >= 2, "control: a server and the stand-ins run"
        ctrl_c(child)
        end = await ended(child)
    assert end.code in (0, 130), end
    assert "Traceback" not in end.all and "stopped" in end.out, end
    assert not mentioning(str(tmp_path))


async def test_ctrl_c_while_it_starts_leaves_nothing_behind(tmp_path: Path) -> None:
    env = {"DATA_DIR": str(tmp_path), "LOCAL_PORT": str(free_ports())}
    async with started("run", cwd=tmp_path, env=env) as child:
        while not any("standins" in line for line in mentioning(str(tmp_path))):
            await asyncio.sleep(0.02)
        ctrl_c(child)
        end = await ended(child)
    assert end.code in (0, 130) and "Traceback" not in end.all, end
    assert not mentioning(str(tmp_path))


ODD = [
    {"POST_SPACING_MS": "soon"},
    {"LEASE_SECONDS": "0"},
    {"SLACK_MODE": "pigeon"},
    {"STEPS": "dance"},
    {"LOCAL_PORT": "99999"},
    {"APPROVAL_TTL_HOURS": "-1"},
    {"LOG_LEVEL": "LOUD"},
    {"FINANCE_THRESHOLD": "a lot"},
    {"FINANCE_THRESHOLD": "NaN"},
    {"MAIL_FROM": "nobody"},
    {"REDIS_URL": "localhost:6379"},
    {"SMTP_URL": "mailto:me:PASSW0RD@host"},
    {"OPENAI_BASE_URL": "models.example.com"},
    {"SLACK_API_URL": "slack.com"},
    {"SLACK_APP_TOKEN": "xapp-1-alone"},
    {"SLACK_BOT_TOKEN": "xoxb-1-alone"},
    {"SLACK_SIGNING_SECRET": "", "SLACK_MODE": "http", "SLACK_BOT_TOKEN": "xoxb-1"},
]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: " ".join(f"{name}={value}" for name, value in odd.items()))
def test_an_odd_setting_is_named(odd: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from bot.app.settings import load_settings
    from bot.core.errors import SettingsError

    monkeypatch.chdir(tmp_path)
    for name, value in odd.items():
        monkeypatch.setenv(name, value)
    name = {"xoxb-1-alone": "SLACK_APP_TOKEN"}.get(next(iter(odd.values())), next(iter(odd)))
    with pytest.raises(SettingsError, match=name) as wrong:
        load_settings()
    assert "PASSW0RD" not in str(wrong.value)


async def test_odd_settings_end_the_program_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "people.toml").write_text("[[person]]\nname = 3")
    port = free_ports()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        ends = await asyncio.gather(
            ran("run", cwd=tmp_path, env={"LEASE_SECONDS": "never"}),
            ran("run", cwd=tmp_path, env={"DATA_DIR": "/dev/null/x"}),
            ran("run", cwd=tmp_path, env={"DATA_DIR": str(tmp_path / "a"), "LOCAL_PORT": str(port)}),
            ran("run", cwd=tmp_path, env={"DATA_DIR": str(tmp_path / "b"), "LOCAL_PORT": str(free_ports()),
                                          "DIRECTORY_FILE": "people.toml"}),
        )  # fmt: skip
    refused(ends[0], "LEASE_SECONDS")
    refused(ends[1], "DATA_DIR")
    assert ends[2].code == 1 and "LOCAL_PORT" in ends[2].err and "Traceback" not in ends[2].all
    refused(ends[3], "people.toml")
    assert not mentioning(str(tmp_path))


async def test_slack_away_for_longer_than_any_try_loses_no_message(desk: Office) -> None:
    """Eighteen failing posts are more than a message has tries; none of them counts."""
    desk.driver.fail_next_call("chat.postMessage", 500, times=18)
    answer = await desk.answer(ZHANG, "帮助")
    assert "Countersign" in answer
    assert await desk.dead() == []
    assert len(desk.finals(desk.dm(ZHANG))) == 1


async def test_a_post_that_slack_refuses_for_good_does_count(desk: Office) -> None:
    """The control: what is refused, not away, comes nearer to being given up each time."""
    desk.driver.fail_next_call("chat.postMessage", "msg_too_long", times=6)
    await desk.says(ZHANG, "帮助")
    await desk.until(lambda: len([c for c in desk.driver.calls if c.error == "msg_too_long"]) >= 3)
    assert desk.finals(desk.dm(ZHANG)) == []
    redis = desk.bot.redis  # type: ignore[union-attr]
    [lane] = [lane async for lane in redis.scan_iter("cs:*:st:*")]
    assert int(await redis.hget(lane, "tries")) >= 3
