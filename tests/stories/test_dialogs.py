"""Dialogs against the gate: only the fields that were asked for count, and a wrong one is named."""

from __future__ import annotations

from tests.harness.office import ZHANG, Office

MAIL = "给李四发邮件，主题 请假，内容 谢谢批准，明天起我不在。"


async def test_a_field_that_does_not_fit_is_named_in_the_dialog_and_nothing_changes(desk: Office) -> None:
    here = desk.dm(ZHANG)
    await desk.says(ZHANG, MAIL)
    card = await desk.card(here)
    await desk.press(ZHANG, card, "edit")
    done = await desk.fill(ZHANG, subject="x" * 4_000, body="y")
    assert done.errors, "the dialog stays open and says what is wrong"
    assert desk.driver.find_top_view(ZHANG) is not None
    await desk.press(ZHANG, card, "send")
    await desk.until(lambda: desk.mails)
    assert [mail["subject"] for mail in desk.mails] == ["请假"], "the old card is still the one that counts"


async def test_a_form_cannot_bring_arguments_that_it_did_not_ask_for(desk: Office) -> None:
    here = desk.dm(ZHANG)
    await desk.says(ZHANG, MAIL)
    card = await desk.card(here)
    await desk.press(ZHANG, card, "edit")
    view = await desk.until(lambda: desk.driver.find_top_view(ZHANG))
    forged = {"type": "input", "block_id": "to", "label": {"type": "plain_text", "text": "to"}}
    view["blocks"].append({**forged, "element": {"type": "plain_text_input", "action_id": "to"}})
    await desk.fill(ZHANG, subject="新主题", body="新内容", to="U03WANG")
    renewed = await desk.until(lambda: [c for c in desk.cards(here) if "新主题" in str(c)])
    await desk.press(ZHANG, renewed[-1], "send")
    await desk.until(lambda: desk.mails)
    assert desk.mails[0]["to"] == ["lisi@example.com"] and desk.mails[0]["subject"] == "新主题"
