"""A poisoned message: tried, given up, reported, set aside, and put back when its cause is gone."""

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.cells import cell_len

from bot.agent.model import ModelReply
from tests.harness.office import ZHANG, Office
from tests.harness.programs import Ended, ran

TRIES = 2


class Poisoned:
    """A model that fails on one word, until it is mended."""

    mended = False

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        text = str(json.loads(messages[-1])["content"])
        if "毒" in text and not self.mended:
            raise RuntimeError("cannot digest xoxb-1-secret")
        return ModelReply(text="回答：" + re.findall("..句", text)[-1])


@pytest.mark.slow
async def test_the_administrator_sees_it_and_puts_it_back_once_the_cause_is_gone(empty: Office, tmp_path: Path) -> None:
    async def admin(*arguments: str, **env: str) -> Ended:
        return await ran(*arguments, cwd=tmp_path, env={"REDIS_URL": empty.redis_url, **env})

    here, model = empty.dm(ZHANG), Poisoned()
    async with empty.opened(model=model, tuned={"max_tries": TRIES, "backoff_ms": 10}):
        await empty.says(ZHANG, "毒一句")
        await empty.until(lambda: "这条消息我试了几次都没能处理" in empty.said(here))
        await empty.quiet()
        narrow, plain, chinese, for_programs, tail = await asyncio.gather(
            admin("dead", LANG="en_US.UTF-8", COLUMNS="80"),
            admin("dead", LANG="en_US.UTF-8", COLUMNS="200"),
            admin("dead", LANG="zh_CN.UTF-8", COLUMNS="200"),
            admin("dead", "--json"),
            admin("tail", "--kind", "item.dead"),
        )
        one = json.loads(for_programs.out)
        id = one["id"]
        assert (one["kind"], one["person"], one["tries"]) == ("message_received", ZHANG, TRIES) and here in one["lane"]
        assert narrow.code == plain.code == chinese.code == for_programs.code == tail.code == 0
        assert all(word in narrow.out for word in ("Zhang San", ZHANG, id)), narrow
        assert max(map(cell_len, narrow.out.splitlines())) <= 80, narrow
        for word in (id, ZHANG, "message", "RuntimeError", "countersign dead retry"):
            assert word in plain.out, word
        assert "消息" in chinese.out and id in chinese.out and "given up after 2 tries" in tail.out
        assert "secret" not in plain.all + chinese.all + tail.all + for_programs.all

        model.mended = True
        done = await admin("dead", "retry", id)
        assert done.code == 0 and "Put back" in done.out, done
        [answer] = await empty.until(lambda: [text for text in empty.finals(here) if "毒一句" in text])
        assert answer.startswith("回答：毒一句")
        [first, *_, last] = empty.posts(here)
        assert "thread_ts" not in first and "thread_ts" not in last, "answered where it was asked: in the DM itself"
        await empty.quiet()
        assert await empty.dead() == []
        kinds = await empty.kinds()
        assert kinds.index("item.dead") < kinds.index("item.retried") < kinds.index("run.finished")

        again = await admin("dead", "retry", id)
        assert again.code == 1 and "already" in again.err and len(again.err.splitlines()) == 1
        await empty.quiet()
        assert len(empty.finals(here)) == 1
