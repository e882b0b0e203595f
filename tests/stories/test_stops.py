"""A run that stops, over the real protocols: what people read, and *Try Again* after a restart."""

from __future__ import annotations

from tests.harness.office import GENERAL, LI, ZHANG, Office, read_message_text
from tests.stories.endpoint import Endpoint, Raw, called, message, said

EMPTY = [message(content="")] * 3


async def test_a_stop_outlives_a_restart_and_is_tried_again_once(empty: Office, model: Endpoint) -> None:
    here = empty.dm(ZHANG)
    model.then(*EMPTY)
    async with empty.opened():
        told = await empty.answer(ZHANG, "有什么事吗")
        assert "没有办完" in told and "没有做任何改动" in told and "再试一次" in told
        await empty.quiet()
    async with empty.opened():
        [stop] = empty.stops(here)
        await empty.press(ZHANG, stop, "anew")
        await empty.until(lambda: any("好的，完成" in text for text in empty.finals(here)))
        await empty.press(ZHANG, stop, "anew", force=True)
        await empty.until(lambda: "没有做任何事" in empty.whispers(ZHANG))
        await empty.quiet()
        assert len(empty.finals(here)) == 2 and empty.stops(here) == []
        assert "已重新开始处理" in empty.finals(here)[0], "the stop says so"


async def test_in_a_channel_others_see_the_button_and_cannot_press_it(empty: Office, model: Endpoint) -> None:
    model.then(*EMPTY)
    async with empty.opened():
        thread = await empty.says(ZHANG, f"@{empty.driver.ws.app.real_name} 有什么事吗", channel=GENERAL)
        [stop] = await empty.until(lambda: empty.stops(GENERAL))
        await empty.quiet()
        await empty.press(LI, stop, "anew", channel=GENERAL)
        await empty.until(lambda: "只有写这条消息的人" in empty.whispers(LI))
        await empty.quiet()
        assert len(empty.finals(GENERAL)) == 1
        await empty.press(ZHANG, stop, "anew", channel=GENERAL)
        await empty.until(lambda: "好的，完成" in empty.said(GENERAL))
        assert all(one.get("thread_ts", one["ts"]) == thread for one in empty.posts(GENERAL))


async def test_an_invented_number_reaches_people_marked_and_the_receipt_says_that_nothing_was_done(
    empty: Office, model: Endpoint
) -> None:
    invented = said("已为您提交申请 L-0042，金额 800 元，由王五审批。")
    model.then(called(("list_processes", '{"reason": "看看流程"}')), invented, invented)
    async with empty.opened():
        told = await empty.answer(ZHANG, "帮我报销打车费")
    assert "未经核实：L-0042 · 800 元 · 王五" in told and "以这一行为准" in told
    assert "Not supported: L-0042; 800 元; 王五" in str(model.asked[-1]["messages"][-1]["content"])


async def test_tokens_are_counted_and_end_a_run(empty: Office, model: Endpoint) -> None:
    look = called(("list_people", '{"reason": "看看谁在"}'))
    dear = Raw({**look.body, "usage": {"prompt_tokens": 990, "completion_tokens": 10}})
    model.then(dear)
    async with empty.opened(run_tokens=1_000):
        assert "token" in await empty.answer(ZHANG, "谁在？")
        await empty.quiet()
        [stop] = empty.stops(empty.dm(ZHANG))
        assert "没有办完" in read_message_text(stop) and len(model.asked) == 1
        [ended] = await empty.journal(kinds=["run.stopped"])
        assert ended.more["why"] == "tokens" and ended.more["tokens_in"] == 990
