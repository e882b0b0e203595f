"""An acknowledged message is answered once: told again, or killed right after the acknowledgement."""

from tests.harness.office import ZHANG, Office, read_message_key
from tests.stories.behind import final

LEAVE = "我想请假"


def said_once(office: Office) -> bool:
    keys = [read_message_key(message) for message in office.posts(office.dm(ZHANG))]
    return len(keys) == len(set(keys))


def deliveries(office: Office, event: str) -> int:
    """Count the platform's deliveries of an event."""
    return len([one for one in office.driver.sent_envelopes if one["payload"].get("event_id") == event])


async def test_l_the_same_event_delivered_three_times_is_answered_once(desk: Office) -> None:
    desk.driver.hold_next_acks()
    assert "表单" in await desk.answer(ZHANG, LEAVE)
    [event] = [one["event_id"] for one in desk.driver.events if one["event"].get("user") == ZHANG]
    await desk.until(lambda: deliveries(desk, event) == 2)
    desk.driver.redeliver_event(event)
    await desk.until(lambda: deliveries(desk, event) == 3)
    assert "Countersign" in await desk.answer(ZHANG, "help"), "what comes later in the lane is served"
    await desk.quiet()
    answers = [text for text in desk.finals(desk.dm(ZHANG)) if "表单" in text and "Countersign" not in text]
    assert len(answers) == 1 and said_once(desk)
    assert (await desk.kinds()).count("run.finished") == 1


async def test_m_killed_as_soon_as_the_event_was_acknowledged_answered_once(empty: Office) -> None:
    """The model is still thinking, so nothing was said yet: an acknowledged message must be in Redis, or it is lost."""
    empty.answering.clear()
    async with empty.spawned() as bot:
        await empty.says(ZHANG, LEAVE)
        await empty.until(lambda: empty.driver.acks)
        await bot.kill()
    assert empty.posts(empty.dm(ZHANG)) == []
    empty.answering.set()
    async with empty.opened():
        assert "表单" in await final(empty)
        await empty.quiet()
        assert (await empty.kinds()).count("run.finished") == 1
    assert len(empty.finals(empty.dm(ZHANG))) == 1 and said_once(empty)
