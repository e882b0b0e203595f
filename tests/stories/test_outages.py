"""Outages: the bot names the unreachable system, keeps all messages, and does each thing once afterwards."""

import asyncio
import os
import re
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.agent.model import Messages, ModelReply
from bot.core.cancellation import cancel_and_wait
from bot.dev.mailbox import Fault
from bot.platforms.slack import listeners
from bot.redis.connect import connect_redis
from bot.redis.embedded import EmbeddedRedis
from tests.harness.app_calls import Outcome
from tests.harness.office import LI, ZHANG, Office, office, read_message_text
from tests.harness.programs import Ended, ctrl_c, ended, free_ports, mentioning, printed, ran, started
from tests.harness.scripted_model import ScriptedModel
from tests.stories.behind import choices_of
from tests.stories.endpoint import Endpoint, Raw, said
from tests.stories.script import DONE, MAIL, expense, mail, requests_of

MODEL_DOWN = "现在连不上语言模型"
MODEL_UNFIT = "语言模型现在用不了"


def told_down(office: Office, words: str) -> int:
    """Count the messages that tell Zhang San in these words that the model is unreachable."""
    return len([one for one in office.posts(office.dm(ZHANG)) if words in read_message_text(one)])


def refused(end: Ended, *words: str) -> None:
    """Check for one clear line, no traceback and exit code 1."""
    assert end.code == 1, end
    assert "Traceback" not in end.all and end.err.startswith("countersign: "), end
    assert len(end.err.strip().splitlines()) == 1, end.err
    for word in words:
        assert word in end.err, end.err


@pytest.fixture
async def own_redis(tmp_path: Path) -> AsyncIterator[EmbeddedRedis]:
    redis = EmbeddedRedis(tmp_path)
    yield redis
    await redis.close()


async def find_server(redis: EmbeddedRedis) -> int:
    """Return the process id of the running server."""
    async with await connect_redis(redis.url) as client:
        return int((await client.info("server"))["process_id"])


async def test_redis_gone_for_a_while_loses_and_doubles_nothing(own_redis: EmbeddedRedis) -> None:
    """One message is being handled when Redis dies; one is written, and delivered twice, while it is down."""
    at_work, go_on, url = asyncio.Event(), asyncio.Event(), await own_redis.ensure_running()

    async def slow(messages: Messages) -> ModelReply:
        at_work.set()
        await go_on.wait()
        return ModelReply(text=re.findall("第.句", str(messages[-1]["content"]))[-1] + "的回答")

    model = ScriptedModel([slow] * 9)
    async with office(url, redelivery=(0.5, 1, *[2.0] * 10), ack_s=3) as desk, desk.opened(model=model):
        here = desk.dm(ZHANG)
        await desk.says(ZHANG, "第一句")
        await at_work.wait()
        os.kill(await find_server(own_redis), signal.SIGKILL)
        go_on.set()
        await desk.says(ZHANG, "第二句")
        await desk.until(lambda: [one for one in desk.driver.sent_envelopes if one["retry_attempt"] == 2])
        await own_redis.ensure_running()
        await desk.until(lambda: len(desk.finals(here)) >= 2)
        await desk.answer(ZHANG, "第三句")
        await desk.quiet()
        assert [text[:3] for text in desk.finals(here)] == ["第一句", "第二句", "第三句"]


async def test_a_press_while_redis_stands_still_is_said_to_be_taken_late(
    own_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slack shows an error by then. The press is carried out when Redis continues, and the presser is told."""
    monkeypatch.setattr(listeners, "ACK_S", 0.3)
    async with office(await own_redis.ensure_running()) as desk, desk.opened(model=ScriptedModel([mail(), DONE])):
        await desk.says(ZHANG, "给李四发邮件")
        card = await desk.card(desk.dm(ZHANG), MAIL["subject"])
        server = await find_server(own_redis)
        os.kill(server, signal.SIGSTOP)
        try:
            pressing = asyncio.create_task(desk.press(ZHANG, card, "send"))
            await desk.until(lambda: "还不能确定" in desk.whispers(ZHANG))
            assert not desk.mails
        finally:
            os.kill(server, signal.SIGCONT)
        await desk.until(lambda: "不过已经收下" in desk.whispers(ZHANG))
        await desk.until(lambda: desk.mails)
        await cancel_and_wait([pressing])


@pytest.mark.parametrize(
    ("fault", "before", "choice", "more"), [("drop_before_data", 0, "redo", 1), ("drop_after_data", 1, "happened", 0)]
)
async def test_a_connection_broken_while_the_mail_went_out_is_unknown_and_a_person_says_what_is_true(
    empty: Office, fault: Fault, before: int, choice: str, more: int
) -> None:
    empty.mailbox.fail_next_mail(fault)
    async with empty.opened(model=ScriptedModel([mail(), DONE])):
        here = empty.dm(ZHANG)
        await empty.says(ZHANG, "给李四发邮件")
        await empty.press(ZHANG, await empty.card(here, MAIL["subject"]), "send")
        card = await empty.card(here, "不知道有没有完成")
        assert choices_of(card) == {"happened", "redo"}
        assert "不知道是否完成" in (await empty.until(lambda: empty.finals(here)))[0], "the receipt is honest"
        await empty.quiet()
        assert len(empty.mails) == before, "nothing is repeated by itself"
        await empty.press(ZHANG, card, choice)
        await empty.until(lambda: not empty.cards(here))
        await empty.quiet()
        assert len(empty.mails) == before + more


BROKEN = {"Content-Type": "application/json"}
TROUBLES = (
    Raw(b"oops", 500),
    Raw({"error": {"message": "slow down"}}, 429, {"Retry-After": "0"}),
    Raw(b"<html>502 Bad Gateway</html>"),
    Raw(b"<html>502 Bad Gateway</html>", headers=BROKEN),
    Raw(b'{"choices": [{"mess', headers=BROKEN),
    Raw("just text"),
    Raw(status=0),
)
UNFIT = (
    Raw({"error": {"message": "bad key"}}, 401),
    Raw({"error": {"message": "no such model"}}, 404),
    Raw({"error": {"message": "no credit"}}, 402),
    Raw({"error": {"message": "no credit", "code": "insufficient_quota"}}, 429),
    Raw({"error": {"message": "The requested model 'm' does not exist.", "code": "model_not_found"}}, 400),
)
"""Errors that only administrators can fix."""


@pytest.mark.parametrize(
    ("troubles", "words", "others"), [(TROUBLES, MODEL_DOWN, MODEL_UNFIT), (UNFIT, MODEL_UNFIT, MODEL_DOWN)]
)
async def test_messages_are_kept_while_the_model_is_away_and_answered_in_order(
    empty: Office, model: Endpoint, troubles: tuple[Raw, ...], words: str, others: str, subtests: pytest.Subtests
) -> None:
    """One outage after another: people are told once per outage, not at every try."""
    here = empty.dm(ZHANG)
    async with empty.opened():
        for times, trouble in enumerate(troubles, 1):
            with subtests.test(str(trouble)):
                model.past_end, asked = trouble, len(model.asked)
                await empty.says(ZHANG, "第一句是什么？")
                await empty.until(lambda n=asked: len(model.asked) > n)  # the second is written after the first
                await empty.says(ZHANG, "第二句是什么？")
                await empty.until(lambda n=times: told_down(empty, words) == n)
                await empty.until(lambda n=asked: len(model.asked) >= n + 4)
                assert len(empty.finals(here)) == 2 * (times - 1)
                model.then(said("第一句的回答"), said("第二句的回答"))
                await empty.until(lambda n=times: len(empty.finals(here)) == 2 * n)
                await empty.quiet()
                assert [text[:5] for text in empty.finals(here)[-2:]] == ["第一句的回", "第二句的回"]
                assert told_down(empty, words) == times and told_down(empty, others) == 0


async def test_a_card_arrives_once_and_is_brought_up_to_date_whatever_slack_does(
    empty: Office, subtests: pytest.Subtests
) -> None:
    outcomes: tuple[Outcome, ...] = (429, 500, "drop", "drop_after")
    script = [reply for amount in (501, 502, 503, 504) for reply in (expense(amount=str(amount)), DONE)]
    async with empty.opened(model=ScriptedModel([*script]), steps="quiet") as bot:
        here = empty.dm(ZHANG)
        for number, fault in enumerate(outcomes, 1):
            with subtests.test(str(fault)):
                empty.driver.fail_next_call("chat.postMessage", fault)
                await empty.says(ZHANG, "报销")
                card = await empty.card(here)
                empty.driver.fail_next_call("chat.update", fault)
                await empty.press(ZHANG, card, "confirm")
                await empty.card(empty.dm(LI), f"E-000{number}")
                await empty.until(lambda: not empty.cards(here))
                await empty.quiet()
                cards = [one for one in empty.posts(here) if one["blocks"][0]["type"] == "header"]
                assert len(cards) == number and f"E-000{number}" in read_message_text(cards[-1])
                assert len(await requests_of(bot.stores.redis, ZHANG)) == number


@pytest.mark.slow
@pytest.mark.parametrize("pause_s", [None, 0.02], ids=["once", "twice"])
async def test_ctrl_c_ends_everything_and_leaves_nothing_behind(tmp_path: Path, pause_s: float | None) -> None:
    env = {"DATA_DIR": str(tmp_path), "LOCAL_PORT": str(free_ports())}
    async with started("run", cwd=tmp_path, env=env, fresh=True) as child:
        await printed(child, "Stop it: Ctrl-C")
        assert len(mentioning(str(tmp_path))) >= 2, "control: a server and the stand-ins run"
        ctrl_c(child)
        if pause_s is not None:
            await asyncio.sleep(pause_s)
            ctrl_c(child)
        end = await ended(child)
    assert end.code in (0, 130), end
    assert "Traceback" not in end.all and "stopped" in end.out, end
    assert not mentioning(str(tmp_path))


@pytest.mark.slow
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
