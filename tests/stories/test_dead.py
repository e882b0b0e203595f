"""A poisoned message: tried, given up, reported, set aside, and put back when its cause is gone."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from rich.cells import cell_len

from bot.agent.model import ModelReply
from tests.harness.office import ZHANG, Office
from tests.harness.programs import Ended, ran

GIVEN_UP = "这条消息我试了几次都没能处理"
TRIES = 2
GIVES_UP = {"max_tries": TRIES, "backoff_ms": 10}


class Poisoned:
    """A model that fails on one word, until it is fixed."""

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


@pytest.fixture
def model() -> Poisoned:
    return Poisoned()


@pytest.fixture
async def poisoned(empty: Office, model: Poisoned) -> AsyncIterator[Office]:
    """An office in which Zhang San's first message was given up."""
    async with empty.opened(model=model, tuned=GIVES_UP):
        await empty.says(ZHANG, "毒一句")
        await empty.until(lambda: GIVEN_UP in empty.said(empty.dm(ZHANG)))
        await empty.quiet()
        yield empty


@pytest.mark.slow
async def test_the_administrator_sees_it_and_puts_it_back_once_the_cause_is_gone(
    poisoned: Office, model: Poisoned, tmp_path: Path
) -> None:
    here = poisoned.dm(ZHANG)
    narrow, plain, chinese, (one,), tail = await asyncio.gather(
        admin(poisoned, tmp_path, "dead", LANG="en_US.UTF-8", COLUMNS="80"),
        admin(poisoned, tmp_path, "dead", LANG="en_US.UTF-8", COLUMNS="200"),
        admin(poisoned, tmp_path, "dead", LANG="zh_CN.UTF-8", COLUMNS="200"),
        listed(poisoned, tmp_path),
        admin(poisoned, tmp_path, "tail", "--kind", "item.dead"),
    )
    id = str(one["id"])
    assert (one["kind"], one["person"], one["tries"]) == ("message_received", ZHANG, TRIES) and here in str(one["lane"])
    assert narrow.code == plain.code == chinese.code == tail.code == 0
    assert all(one in narrow.out for one in ("Zhang San", ZHANG, id)), narrow
    assert max(map(cell_len, narrow.out.splitlines())) <= 80, narrow
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
