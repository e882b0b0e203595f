"""The question for the approver: the manager with one press, somebody else through a picker, never the author."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from bot.chat.messages import Click, Message, Place
from bot.core.records import Run, RunResult
from bot.dev.evaluation.shown_blocks import list_buttons, read_message_text
from bot.features.approver_question import asks_for_approver
from tests.harness.office import ADMIN, GENERAL, LI, WANG, ZHANG, Office, found_request
from tests.stories.script import ASKED, AskingModel


@pytest.fixture
async def desk(empty: Office) -> AsyncIterator[Office]:
    async with empty.opened(model=AskingModel([])):
        yield empty


async def ask(office: Office, person: str = ZHANG) -> dict[str, Any]:
    """Request a leave without an approver, and return the resulting question."""
    await office.says(person, ASKED)
    found = await office.until(lambda: [m for m in office.posts(office.dm(person)) if "cs:approver_person" in str(m)])
    await office.quiet()
    return found[0]


def get_row(message: dict[str, Any]) -> list[dict[str, Any]]:
    return next(block["elements"] for block in message["blocks"] if block["type"] == "actions")


async def test_the_manager_takes_one_press(desk: Office) -> None:
    question = await ask(desk)
    button, picker = get_row(question)
    assert (button["text"]["text"], button["style"]) == ("李四（上级）", "primary")
    assert picker["type"] == "users_select" and "initial_user" not in picker
    assert (await desk.driver.click_button(ZHANG, desk.dm(ZHANG), question["ts"], button["action_id"])).ok
    card = await desk.card(desk.dm(ZHANG), "李四")
    assert "lisi@example.com" in read_message_text(card), "who is meant is on the card, and nothing has started"
    assert not desk.cards(desk.dm(LI))
    await desk.press(ZHANG, card, "confirm")
    assert found_request(read_message_text(await desk.card(desk.dm(LI), "病假")))
    asked = next(m for m in desk.posts(desk.dm(ZHANG)) if m["ts"] == question["ts"])
    assert "→ 李四" in read_message_text(asked) and not list(list_buttons(asked)), "the question keeps no button"


async def test_somebody_else_is_picked_by_id_and_the_author_never_counts(desk: Office) -> None:
    here, question = desk.dm(ZHANG), await ask(desk)
    await desk.driver.click_button(ZHANG, here, question["ts"], "cs:approver_person", value=ZHANG)
    await desk.until(lambda: "不能选您自己" in desk.whispers(ZHANG))
    await desk.quiet()
    assert not desk.cards(here)
    await desk.driver.click_button(ZHANG, here, question["ts"], "cs:approver_person", value=LI)
    await desk.card(here, "李四")


async def test_nobody_answers_in_anothers_place_and_nothing_is_answered_twice(desk: Office) -> None:
    question = await ask(desk)
    run = str(get_row(question)[0]["value"]).partition(".")[0]
    place = Place(team="T0LOCAL", channel=desk.dm(WANG), direct=True)
    press = Click(id="p1", approval=run, version=1, choice="approver_manager", person=WANG, place=place)
    await desk.bot.ingress.accept_click(press)
    await desk.quiet()
    assert [one.text for one in await desk.journal() if one.kind == "run.refused"] == ["not_writer"]
    for n in range(5):
        again = press.model_copy(update={"id": f"p{n + 2}", "person": ZHANG})
        await desk.bot.ingress.accept_click(again)
    await desk.card(desk.dm(ZHANG), "李四")
    await desk.quiet()
    assert (await desk.kinds()).count("run.answered") == 1
    assert len(desk.cards(desk.dm(ZHANG))) == 1


async def test_after_the_conversation_has_gone_on_the_button_does_nothing(desk: Office) -> None:
    question = await ask(desk)
    await desk.answer(ZHANG, "年假可以结转吗")
    await desk.quiet()
    await desk.driver.click_button(ZHANG, desk.dm(ZHANG), question["ts"], "cs:approver_manager")
    await desk.until(lambda: desk.whispers(ZHANG))
    await desk.quiet()
    assert "run.answered" not in await desk.kinds() and not desk.cards(desk.dm(ZHANG))


async def test_in_a_channel_and_without_a_manager_nobody_is_proposed(desk: Office) -> None:
    thread = await desk.driver.mention_bot(ZHANG, GENERAL, ASKED)
    await desk.until(lambda: [m for m in desk.posts(GENERAL) if m.get("thread_ts") == thread])
    await desk.quiet()
    assert "cs:approver" not in str(desk.posts(GENERAL))
    assert "cs:approver_manager" not in str(await ask(desk, ADMIN))


QUESTIONS = ("明白了，只差一项：请谁审批？", "Got it. Who should approve it?", "请告诉我审批人是谁？（比如李四）")
STATEMENTS = ("审批人是李四。", "L-0001 等李四审批。还要别的吗？", "")


@pytest.mark.parametrize("text", [*QUESTIONS, *STATEMENTS])
async def test_only_a_question_gets_buttons(text: str) -> None:
    place = Place(team="T", channel="D1", direct=True)
    run = Run(id="R", message=Message(id="m", place=place, person="U1", text="x", at="1"), language="zh", created_ms=0)
    assert asks_for_approver(run, RunResult(text=text)) is (text in QUESTIONS)
    assert not asks_for_approver(run, RunResult(text=text, stop_reason="steps"))
