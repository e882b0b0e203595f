"""A conversation longer than what is remembered, with the whole bot: production composition, real sockets, a model
behind the OpenAI protocol."""

from __future__ import annotations

import re

from bot.queue.keys import Keys
from bot.storage.history import HistoryStore
from tests.harness.office import ZHANG, Office

ASKED = "住宿标准是什么？我想知道出差时各个城市的酒店上限分别是多少，谢谢。"


async def test_a_long_talk_is_put_in_short_beside_it_and_forgotten_with_it(empty: Office) -> None:
    desk = empty
    async with desk.opened(history_tokens=2_000) as bot:
        history = HistoryStore(bot.redis, Keys(), max_tokens=2_000)
        await desk.request_leave(ZHANG, "我肚子疼，从 2026-12-01 起请2天假，审批人李四")
        answers = [await desk.answer(ZHANG, ASKED) for _ in range(8)]
        await desk.quiet()
        assert {one.channel for one in await desk.journal(kinds=["history.folded"])} == {desk.dm(ZHANG)}
        runs = [await desk.runs.load_run(one.run) for one in await desk.journal(kinds=["run.finished"])]
        [conversation] = {run.message.place.conversation for run in runs if run}
        memory = await history.load_history(conversation)
        assert memory.summary is not None and memory.tokens < 2_000 and not memory.has_gap
        shown = await desk.answer(ZHANG, "历史")
        assert re.search(r"更早的 \d+ 轮对话（2026-11-23 \d\d:\d\d 至 2026-11-23 \d\d:\d\d）", shown)
        assert "L-0001" in shown.partition("最近的内容")[0], "what was done is in it, with its number"
        assert await desk.answer(ZHANG, ASKED) == answers[-1], "and the talk goes on as before"
        assert "摘要已清除" in await desk.answer(ZHANG, "清除")
        assert "没有记住" in await desk.answer(ZHANG, "历史")
        await desk.quiet()
        assert "没有记住" in await desk.answer(ZHANG, "历史"), "and nothing brings it back"
