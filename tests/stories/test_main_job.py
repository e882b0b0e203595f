"""The main job, told as people live it."""

from __future__ import annotations

from tests.stories.office import LI, ZHANG, Office, buttons_of


async def test_a_greeting_gets_help(desk: Office) -> None:
    assert "请 10 天假" in await desk.answer(ZHANG, "你好")
    assert "Countersign" in await desk.answer(ZHANG, "help")


async def test_b_ten_days_off_with_a_stomach_ache(desk: Office) -> None:
    here = desk.dm(ZHANG)
    asked = await desk.answer(ZHANG, "我肚子疼，从明天起请10天假")
    assert "审批" in asked and "没有做任何改动" in asked
    steps = "\n".join(desk.steps(here))
    assert "流程" in steps and "人员" in steps, "it looked processes and people up by itself"
    assert not desk.cards(here)
    await desk.says(ZHANG, "李四")
    preview = await desk.card(here)
    await desk.press(ZHANG, preview, "confirm")
    told = await desk.until(lambda: [t for t in desk.finals(here) if "L-0001" in t])
    assert "发起" in told[0]
    card = await desk.card(desk.dm(LI), "L-0001")
    assert not desk.cards(here), "the decided card has no buttons"
    assert {button["action_id"] for button in buttons_of(card)} == {"cs:approve", "cs:reject"}
