"""A writer sees at once that the bot is at work, for as long as it is, and no longer."""

from tests.harness.office import ANN, GENERAL, ZHANG, Office


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
    desk.answering.clear()
    await desk.driver.mention_bot(ANN.id, GENERAL, "can leave be carried over?")
    await desk.until(lambda: statuses(desk) == ["is working on it…"])
    [(channel, thread)] = desk.driver.ws.state.statuses
    assert channel == GENERAL and thread, "in a channel it stands in the thread"
    desk.answering.set()
    await desk.quiet()


async def test_an_answer_beside_the_message_removes_it_too(desk: Office) -> None:
    """Slack removes a status with a message in its thread; an answer beside the thread does not remove it."""
    for text in ("帮助", "你好", "帮助"):
        before = len(desk.posts(desk.dm(ZHANG)))
        await desk.says(ZHANG, text)
        await desk.until(lambda before=before: len(desk.posts(desk.dm(ZHANG))) > before)  # type: ignore[misc]
        await desk.quiet()
        await desk.until(lambda: statuses(desk) == [])
