"""The bot as an agent of Slack's: prompts and a welcome in an opened DM, sessions and their *Stop*, and feedback on
answers. Also as a plain bot, where Slack has none of these."""

from typing import Any

import pytest

from tests.harness.office import ADMIN, ANN, GENERAL, LI, WANG, ZHANG, Office, read_message_text

TWO_DAYS = "明天起请2天年假，去看父母，审批人李四"
SESSIONS, PROMPTS = "agents.sessions.setStatus", "assistant.threads.setSuggestedPrompts"


def titles(desk: Office, person: str) -> list[str]:
    return [one["title"] for one in desk.driver.ws.state.prompts.get(desk.dm(person), [])]


def sessions(desk: Office) -> list[str]:
    return [one["status"] for one in desk.driver.ws.state.sessions.values()]


def find_feedback(message: dict[str, Any]) -> dict[str, Any]:
    shown = [element for block in message["blocks"] for element in block.get("elements", ())]
    return next(element for element in shown if element["type"] == "feedback_buttons")


async def test_prompts_are_by_language_and_by_what_somebody_is_and_each_works(desk: Office) -> None:
    english = ["Ask for leave", "Claim an expense", "Status of my requests", "My leave balance"]
    await desk.request_leave(ZHANG, TWO_DAYS)
    await desk.card(desk.dm(LI))
    await desk.quiet()
    for person, wanted in (
        (LI, ["等我处理的事"]),
        (ZHANG, ["请假", "报销", "我的申请到哪一步了", "我还有几天年假"]),
        (ANN.id, english),
        (ADMIN, ["现在的设置"]),
    ):
        here = desk.dm(person)
        await desk.driver.open_messages(person)
        assert (await desk.until(lambda who=person: titles(desk, who)))[: len(wanted)] == wanted
        for one in list(desk.driver.ws.state.prompts[here]):
            before = len(desk.posts(here))
            await desk.says(person, one["message"])
            await desk.until(lambda where=here, n=before: len(desk.posts(where)) > n)
            await desk.quiet()
            said = "\n".join(read_message_text(m) for m in desk.posts(here)[before:])
            assert not any(words in said for words in ("没听懂", "did not understand", "不懂")), said
    for args in desk.driver.list_call_arguments(PROMPTS):
        assert "thread_ts" not in args and len(args["prompts"]) == 4


async def test_a_welcome_comes_once_also_after_a_restart(empty: Office) -> None:
    here = empty.dm(ZHANG)
    for _ in range(2):
        async with empty.opened():
            for _ in range(2):
                calls = len(empty.driver.list_call_arguments(PROMPTS))
                await empty.driver.open_messages(ZHANG)
                await empty.until(lambda calls=calls: len(empty.driver.list_call_arguments(PROMPTS)) > calls)  # type: ignore[misc]
            await empty.quiet()
    assert len(empty.posts(here)) == 1 and "张三，您好" in empty.said(here)
    async with empty.opened():
        await empty.driver.open_messages(ANN.id)
        await empty.until(lambda: "Hello Ann Smith" in empty.said(empty.dm(ANN.id)) and titles(empty, ANN.id))


async def test_who_has_only_got_a_card_so_far_is_welcomed_and_who_has_talked_is_not(desk: Office) -> None:
    await desk.request_leave(ZHANG, TWO_DAYS)
    await desk.card(desk.dm(LI))
    await desk.quiet()
    for person in (ZHANG, LI):
        await desk.driver.open_messages(person)
        await desk.until(lambda who=person: titles(desk, who))
    await desk.until(lambda: "李四，您好" in desk.said(desk.dm(LI)))
    await desk.quiet()
    assert "您好" not in desk.said(desk.dm(ZHANG))


async def test_a_session_is_at_work_then_waits_then_has_answered(desk: Office) -> None:
    here = desk.dm(ZHANG)
    desk.answering.clear()
    await desk.says(ZHANG, TWO_DAYS)
    await desk.until(lambda: sessions(desk) == ["processing"])
    [args] = desk.driver.list_call_arguments(SESSIONS)
    assert args["initiator_user_id"] == ZHANG and args["title"] == TWO_DAYS and args["channel_id"] == here
    desk.answering.set()
    card = await desk.card(here)
    await desk.until(lambda: sessions(desk) == ["suspended"])
    await desk.press(ZHANG, card, "confirm")
    await desk.until(lambda: "L-0001" in "".join(desk.finals(here)))
    await desk.quiet()
    assert sessions(desk) == ["active"]
    asked = [args["status"] for args in desk.driver.list_call_arguments(SESSIONS)]
    assert asked == ["processing", "suspended", "processing", "active"]


@pytest.mark.parametrize(("person", "is_stopped"), [(WANG, False), (ADMIN, True)])
async def test_only_who_may_stop_today_stops_somebody_elses(desk: Office, person: str, is_stopped: bool) -> None:
    await desk.answer(person, "帮助")  # makes them known
    desk.answering.clear()
    thread = await desk.says(ZHANG, "@Countersign 年假可以结转吗", channel=GENERAL)
    await desk.until(lambda: sessions(desk) == ["processing"])
    event = await desk.driver.stop_session(person, GENERAL, thread)
    if is_stopped:
        await desk.until(lambda: "已停下" in desk.said(GENERAL))
    desk.answering.set()
    await desk.quiet()
    await desk.until(lambda: sessions(desk) == ["active"])
    assert ("已停下" in desk.said(GENERAL)) is is_stopped
    assert bool(desk.whispers(person)) is not is_stopped, "who could stop nothing is told, and only they"
    before, sent = await desk.kinds(), len(desk.driver.sent_envelopes)
    desk.driver.redeliver_event(event)
    await desk.until(lambda: len(desk.driver.sent_envelopes) > sent)
    await desk.quiet()
    assert await desk.kinds() == before, "a stop that came twice stops once"


async def test_a_press_under_an_answer_is_kept_counted_and_taken_back(empty: Office) -> None:
    here = empty.dm(ZHANG)

    async def press(rating: str) -> None:
        before = len(empty.driver.list_ephemerals(ZHANG))
        [answer] = [m for m in empty.posts(here) if ":final" in str(m.get("metadata"))]
        buttons = find_feedback(answer)
        value = buttons[f"{rating}_button"]["value"]
        assert (await empty.driver.click_button(ZHANG, here, answer["ts"], "cs:feedback", value=value)).ok
        await empty.until(lambda: len(empty.driver.list_ephemerals(ZHANG)) > before)
        await empty.quiet()

    async def counted() -> tuple[int, int]:
        rows = await empty.usage_rows()
        return sum(row.counts.get("good", 0) for row in rows), sum(row.counts.get("bad", 0) for row in rows)

    async with empty.opened():
        await empty.answer(ZHANG, "年假可以结转吗")
        await press("positive")
        await press("positive")
        assert await counted() == (1, 0), "the same again is the same"
        await press("negative")
        assert await counted() == (0, 1), "another one takes its place"
        assert "哪里不对" in empty.whispers(ZHANG)
        assert [one.text for one in await empty.journal(kinds=["feedback"])] == ["good", "bad"]
    async with empty.opened():
        assert await counted() == (0, 1), "it is kept"


async def test_somebody_elses_answer_in_a_dm_is_not_theirs_to_rate(desk: Office) -> None:
    here = desk.dm(ZHANG)
    await desk.answer(ZHANG, "年假可以结转吗")
    await desk.answer(LI, "年假可以结转吗")
    [mine] = [m for m in desk.posts(here) if ":final" in str(m.get("metadata"))]
    [theirs] = [m for m in desk.posts(desk.dm(LI)) if ":final" in str(m.get("metadata"))]
    value = find_feedback(mine)["positive_button"]["value"]
    find_feedback(theirs)["positive_button"]["value"] = value  # forged: as if their answer were mine
    await desk.driver.click_button(LI, desk.dm(LI), theirs["ts"], "cs:feedback", value=value)
    await desk.until(lambda: desk.whispers(LI))
    await desk.quiet()
    assert not await desk.journal(kinds=["feedback"])
