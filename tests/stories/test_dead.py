"""A poisoned message: tried, given up, said, set aside, and put back when its cause is gone."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
import structlog

from bot.agent.model import Messages, ModelReply
from tests.harness.office import ZHANG, Office, read_message_key, read_message_text
from tests.harness.programs import Ended, ran
from tests.harness.scripted_model import ScriptedModel
from tests.stories.script import expense, requests_of

GIVEN_UP = "这条消息我试了几次都没能处理"
TRIES = 2
GIVES_UP = {"max_tries": TRIES, "backoff_ms": 10}


class Poisoned:
    """A model that breaks on one word, until it is mended."""

    def __init__(self, word: str = "毒") -> None:
        self.word, self.mended, self.asked = word, False, 0

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        self.asked += 1
        text = str(json.loads(messages[-1])["content"])
        if self.word in text and not self.mended:
            raise RuntimeError("cannot digest xoxb-1-secret")
        return ModelReply(text="回答：" + re.findall("..句", text)[-1])


async def admin(office: Office, folder: Path, *arguments: str, **env: str) -> Ended:
    return await ran(*arguments, cwd=folder, env={"REDIS_URL": office.redis_url, **env})


async def listed(office: Office, folder: Path) -> list[dict[str, object]]:
    end = await admin(office, folder, "dead", "--json")
    assert end.code == 0, end
    return [json.loads(line) for line in end.out.splitlines()]


@pytest.fixture(autouse=True)
def brief() -> Iterator[None]:
    """Without the variables of every frame, which take a second each to print."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


@pytest.fixture
def model() -> Poisoned:
    return Poisoned()


@pytest.fixture
async def poisoned(empty: Office, model: Poisoned) -> AsyncIterator[Office]:
    """Zhang San's first message was given up."""
    async with empty.opened(model=model, tuned=GIVES_UP):
        await empty.says(ZHANG, "毒一句")
        await empty.until(lambda: GIVEN_UP in empty.said(empty.dm(ZHANG)))
        await empty.quiet()
        yield empty


async def test_given_up_after_its_tries_said_once_and_the_conversation_goes_on(
    poisoned: Office, model: Poisoned
) -> None:
    assert model.asked == TRIES
    [letter] = await poisoned.dead()
    assert letter.item.error == "RuntimeError: cannot digest xoxb-***"
    told = [text for one in poisoned.posts(poisoned.dm(ZHANG)) if GIVEN_UP in (text := read_message_text(one))]
    assert len(told) == 1 and letter.item.id in told[0]
    assert "回答：第二句" in await poisoned.answer(ZHANG, "第二句")
    [dead] = [one for one in await poisoned.journal() if one.kind == "item.dead"]
    assert (dead.person, dead.channel) == (ZHANG, poisoned.dm(ZHANG))
    assert dead.text == "given up after 2 tries: RuntimeError: cannot digest xoxb-***"


async def test_the_administrator_sees_it_and_puts_it_back_once_the_cause_is_gone(
    poisoned: Office, model: Poisoned, tmp_path: Path
) -> None:
    here = poisoned.dm(ZHANG)
    plain, chinese, (one,), tail = await asyncio.gather(
        admin(poisoned, tmp_path, "dead", LANG="en_US.UTF-8", COLUMNS="200"),
        admin(poisoned, tmp_path, "dead", LANG="zh_CN.UTF-8", COLUMNS="200"),
        listed(poisoned, tmp_path),
        admin(poisoned, tmp_path, "tail", "--kind", "item.dead"),
    )
    id = str(one["id"])
    assert (one["kind"], one["person"], one["tries"]) == ("message_received", ZHANG, TRIES) and here in str(one["lane"])
    assert plain.code == chinese.code == tail.code == 0
    for word in (id, ZHANG, "message", "RuntimeError", "countersign dead retry"):
        assert word in plain.out, word
    assert "消息" in chinese.out and id in chinese.out and "given up after 2 tries" in tail.out
    assert "secret" not in plain.all + chinese.all + tail.all + json.dumps(one)

    model.mended = True
    done = await admin(poisoned, tmp_path, "dead", "retry", id)
    assert done.code == 0 and "Put back" in done.out, done
    [answer] = await poisoned.until(lambda: [text for text in poisoned.finals(here) if "毒一句" in text])
    assert answer.startswith("回答：毒一句")
    [first, *_, last] = poisoned.posts(here)
    assert "thread_ts" not in first and "thread_ts" not in last, "answered where it was asked: in the DM itself"
    await poisoned.quiet()
    assert await poisoned.dead() == []
    kinds = await poisoned.kinds()
    assert kinds.index("item.dead") < kinds.index("item.retried") < kinds.index("run.finished")

    again = await admin(poisoned, tmp_path, "dead", "retry", id)
    assert again.code == 1 and "already" in again.err and len(again.err.splitlines()) == 1
    await poisoned.quiet()
    assert len(poisoned.finals(here)) == 1


async def test_two_administrators_at_once_put_it_back_once(poisoned: Office, model: Poisoned, tmp_path: Path) -> None:
    model.mended = True
    [letter] = await poisoned.dead()
    ends = await asyncio.gather(*(admin(poisoned, tmp_path, "dead", "retry", letter.item.id) for _ in range(2)))
    assert sorted(end.code or 0 for end in ends) == [0, 1]
    await poisoned.until(lambda: poisoned.finals(poisoned.dm(ZHANG)))
    await poisoned.quiet()
    assert len(poisoned.finals(poisoned.dm(ZHANG))) == 1
    assert (await poisoned.kinds()).count("item.retried") == 1


async def test_put_back_while_the_cause_is_there_it_is_given_up_again_and_said_again(
    poisoned: Office, model: Poisoned, tmp_path: Path
) -> None:
    [before] = await poisoned.dead()
    assert (await admin(poisoned, tmp_path, "dead", "retry", before.item.id)).code == 0
    await poisoned.until(lambda: poisoned.said(poisoned.dm(ZHANG)).count(GIVEN_UP) >= 2)
    await poisoned.quiet()
    [after] = await poisoned.dead()
    assert after.item.id != before.item.id and model.asked == 2 * TRIES
    model.mended = True
    assert (await admin(poisoned, tmp_path, "dead", "retry", after.item.id)).code == 0
    await poisoned.until(lambda: poisoned.finals(poisoned.dm(ZHANG)))


async def test_nothing_dead_and_nothing_known_is_said(valkey: str, tmp_path: Path) -> None:
    async def told(*arguments: str, **env: str) -> Ended:
        return await ran("dead", *arguments, cwd=tmp_path, env={"REDIS_URL": valkey, **env})

    plain, chinese, as_json, unknown = await asyncio.gather(
        told(), told(LANG="zh_CN.UTF-8"), told("--json"), told("retry", "Ev0nothing")
    )
    assert (plain.code, plain.out.strip()) == (0, "There are no dead letters.")
    assert (chinese.code, chinese.out.strip()) == (0, "没有被放弃的消息。")
    assert (as_json.code, as_json.out) == (0, "")
    assert unknown.code == 1 and unknown.err.startswith("countersign: There is no dead letter Ev0nothing")


async def test_a_run_that_was_stopped_after_its_button_goes_on_from_there(empty: Office, tmp_path: Path) -> None:
    """The request exists; only the word about it could not be made. Put back, it is made, and nothing done again."""
    broken = True

    async def breaks(_: Messages) -> ModelReply:
        if broken:
            raise RuntimeError("out of order")
        return ModelReply(text="都办好了")

    async with empty.opened(model=ScriptedModel([expense(), *[breaks] * 9]), tuned=GIVES_UP) as bot:
        here = empty.dm(ZHANG)
        await empty.says(ZHANG, "报销 500 元")
        await empty.press(ZHANG, await empty.card(here), "confirm")
        await empty.until(lambda: GIVEN_UP in empty.said(here))
        await empty.quiet()
        [letter] = await empty.dead()
        assert letter.kind == "resume_run" and await requests_of(bot.redis, ZHANG) == ["E-0001"]
        broken = False
        assert (await admin(empty, tmp_path, "dead", "retry", letter.item.id)).code == 0
        [answer] = await empty.until(lambda: empty.finals(here))
        assert answer.startswith("都办好了") and "E-0001" in answer
        await empty.quiet()
        assert await requests_of(bot.redis, ZHANG) == ["E-0001"] and await empty.dead() == []
        keys = [read_message_key(one) for one in empty.posts(here)]
        assert len(keys) == len(set(keys))
        kinds = await empty.kinds()
        assert kinds.count("effect.started") == kinds.count("run.finished") == 1
