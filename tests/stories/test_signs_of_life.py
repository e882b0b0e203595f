"""Whoever writes sees at once that the bot is at work, for as long as it is, and no longer."""

from __future__ import annotations

from tests.harness.office import ANN, GENERAL, ZHANG, Office

SET = "assistant.threads.setStatus"


def statuses(desk: Office) -> list[str]:
    return list(desk.driver.ws.state.statuses.values())


async def test_a_status_is_there_while_the_model_thinks_and_goes_with_the_answer(desk: Office) -> None:
    desk.answering.clear()
    await desk.says(ZHANG, "年假可以结转吗")
    await desk.until(lambda: statuses(desk) == ["正在处理…"])
    desk.answering.set()
    await desk.until(lambda: desk.said(desk.dm(ZHANG)))
    await desk.quiet()
    assert statuses(desk) == []


async def test_in_a_channel_it_stands_in_the_thread_and_in_the_writers_language(desk: Office) -> None:
    desk.answering.clear()
    await desk.driver.mention_bot(ANN.id, GENERAL, "can leave be carried over?")
    await desk.until(lambda: statuses(desk) == ["is working on it…"])
    [(channel, thread)] = desk.driver.ws.state.statuses
    assert channel == GENERAL and thread
    desk.answering.set()
    await desk.quiet()


async def test_a_message_behind_another_one_has_its_own(desk: Office) -> None:
    await desk.says(ZHANG, "帮助")  # from now on they are known
    await desk.until(lambda: desk.said(desk.dm(ZHANG)))
    desk.answering.clear()
    for text in ("年假可以结转吗", "住宿标准是多少"):
        await desk.says(ZHANG, text)
    await desk.until(lambda: len(statuses(desk)) == 2)
    desk.answering.set()
    await desk.until(lambda: len(desk.posts(desk.dm(ZHANG))) >= 2)
    await desk.quiet()
    assert statuses(desk) == []


async def test_slow_statuses_hold_up_no_acknowledgement_and_outlive_no_answer(desk: Office) -> None:
    desk.driver.delay_answers(0.5, SET)
    await desk.says(ZHANG, "帮助")
    await desk.until(lambda: desk.said(desk.dm(ZHANG)))
    await desk.quiet()
    assert statuses(desk) == []


async def test_an_answer_beside_the_message_removes_it_too(desk: Office) -> None:
    """Slack removes a status with a message in its thread; what is said beside it does not."""
    for text in ("帮助", "你好", "帮助"):
        before = len(desk.posts(desk.dm(ZHANG)))
        await desk.says(ZHANG, text)
        await desk.until(lambda before=before: len(desk.posts(desk.dm(ZHANG))) > before)  # type: ignore[misc]
        await desk.quiet()
        await desk.until(lambda: statuses(desk) == [], 3)


async def test_where_slack_shows_none_everything_else_is_as_ever(desk: Office) -> None:
    desk.driver.fail_next_call(SET, "missing_scope", 100)
    asked = list[int]()
    for text in ("年假可以结转吗", "年假可以结转吗", "帮助"):
        await desk.answer(ZHANG, text)
        await desk.quiet()
        asked.append([one.method for one in desk.driver.calls].count(SET))
    assert asked == [1, 1, 1], "it is not asked for again and again"
    assert not await desk.dead()
