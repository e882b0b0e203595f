"""Dialogs against the gate: only the fields that were asked for count, and everything wrong is named. They say what
they decide on, and what they are about to do."""

from __future__ import annotations

from typing import Any

import pytest

from bot.evaluation.shown_blocks import list_buttons, read_message_text
from bot.storage.preferences import Language, Preferences
from tests.harness.office import LI, ZHANG, Office

MAIL = "给李四发邮件，主题 请假，内容 谢谢批准，明天起我不在。"
LEAVE = "明天起请2天年假，去看父母，审批人李四"


async def open_dialog(office: Office, person: str, choice: str, having: str = "") -> dict[str, Any]:
    """The dialog behind a button of somebody's newest card."""
    await office.press(person, await office.card(office.dm(person), having), choice)
    return dict(await office.until(lambda: office.driver.find_top_view(person)))


async def choose_language(office: Office, person: str, language: Language) -> None:
    assert office.bot is not None
    await office.bot.ingress.home_builder.preferences.save_preferences(person, Preferences(language=language))


def list_inputs(view: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for block in view["blocks"] if block["type"] == "input"]


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


@pytest.mark.parametrize(
    ("language", "titles", "facts"),
    [
        (
            "zh",
            {
                "reject": ("驳回 {}", "驳回"),
                "approve_with": ("同意 {}", "同意"),
                "transfer": ("转交 {}", "转交"),
                "add_sign": ("加签 {}", "加签"),
            },
            ("张三", "年假", "2 个工作日", "去看父母"),
        ),
        (
            "en",
            {
                "reject": ("Reject {}", "Reject"),
                "approve_with": ("Approve {}", "Approve"),
                "transfer": ("Transfer {}", "Transfer"),
                "add_sign": ("Add Approver to {}", "Add Approver"),
            },
            ("Zhang San", "Annual leave", "2 working days", "去看父母"),
        ),
    ],
)
async def test_a_dialog_says_what_it_decides_on_and_its_button_what_comes_of_it(
    desk: Office, language: Language, titles: dict[str, tuple[str, str]], facts: tuple[str, ...]
) -> None:
    await choose_language(desk, LI, language)
    request = await desk.request_leave(ZHANG, LEAVE)
    for choice, (title, submit) in titles.items():
        desk.driver.ws.state.stacks.pop(LI, None)
        view = await open_dialog(desk, LI, choice, request)
        assert (view["title"]["text"], view["submit"]["text"]) == (title.format(request), submit)
        body = read_message_text({"blocks": [b for b in view["blocks"] if b["type"] != "input"]})
        assert all(one in body for one in facts), "who, what, how long"
        assert len(list_inputs(view)) <= 6 and all(len(b["label"]["text"]) > 1 for b in list_inputs(view))
        opinion = list_inputs(view)[-1]
        assert opinion["hint"]["text"] and opinion["optional"] is (choice != "reject"), "what may be left out is marked"


async def test_a_resubmission_shows_the_objection_first_and_what_is_there_already(desk: Office) -> None:
    card = await desk.sent_back(ZHANG, LEAVE, LI, "月底人手不够，改到下个月")
    view = await open_dialog(desk, ZHANG, "resubmit")
    assert view["title"]["text"].startswith("重新提交 L-") and view["submit"]["text"] == "重新提交"
    first = read_message_text({"blocks": view["blocks"][:1]})
    assert "李四" in first and "月底人手不够，改到下个月" in first
    values = {b["block_id"]: b["element"] for b in list_inputs(view)}
    assert values["field_reason"]["initial_value"] == "去看父母" and len(values) == 6
    assert values["field_start_date"]["type"] == "datepicker"
    done = await desk.fill(ZHANG, field_start_date="2026-12-08", field_end_date="2026-12-07", field_reason="")
    assert done.errors and desk.driver.find_top_view(ZHANG) is not None
    await desk.fill(ZHANG, field_start_date="2026-12-07", field_end_date="2026-12-08", field_reason="去看父母")
    again = await desk.card(desk.dm(LI), "2026年12月7日 周一")
    assert "12月8日 周二" in read_message_text(again) and card


async def test_what_does_not_fit_on_one_page_stands_behind_it_and_both_count(desk: Office) -> None:
    await desk.says(ZHANG, LEAVE)
    view = await open_dialog(desk, ZHANG, "edit", "年假")
    assert view["title"]["text"] == "修改请假申请" and view["submit"]["text"] == "更新卡片"
    await desk.driver.change_input(ZHANG, view["id"], "field_reason", "搬家")
    [more] = [one for one in list_buttons(view) if one["action_id"] == "cs:dialog:more"]
    assert more["text"]["text"] == "更多选项…"
    await desk.driver.click_view_button(ZHANG, view["id"], "cs:dialog:more")
    page = await desk.until(
        lambda: next((v for v in [desk.driver.find_top_view(ZHANG)] if v and v["id"] != view["id"]), None)
    )
    names = [block["block_id"] for block in list_inputs(page)]
    assert names == ["field_approver", "field_handover", "field_cc", "field_attachment"]
    assert (await desk.fill(ZHANG, field_handover="U04ZHAO")).ok
    assert desk.driver.find_top_view(ZHANG) is None, "both pages close"
    text = read_message_text(await desk.card(desk.dm(ZHANG), "赵六"))
    assert "搬家" in text and "李四" in text and "2 个工作日" in text, "what was not opened stays as it was"


async def test_everything_wrong_is_said_at_once(desk: Office) -> None:
    await desk.says(ZHANG, LEAVE)
    await open_dialog(desk, ZHANG, "edit", "年假")
    done = await desk.fill(ZHANG, field_start_date="2026-12-08", field_end_date="2026-12-07", field_reason="\u200b")
    assert {"field_end_date", "field_reason"} <= {*done.errors}, done.errors


async def test_a_form_is_not_lost_while_the_store_is_away(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    from bot.app.ingress import LaneIngress
    from bot.core.errors import StoreUnavailableError

    request = await desk.request_leave(ZHANG, LEAVE)
    view = await open_dialog(desk, LI, "reject", request)

    async def refuse(self: LaneIngress, click: Any) -> None:
        raise StoreUnavailableError("no Redis")

    with monkeypatch.context() as away:
        away.setattr(LaneIngress, "accept_click", refuse)
        failed = await desk.fill(LI, opinion="人手不够")
        assert not failed.ok and desk.driver.find_top_view(LI)["id"] == view["id"]  # type: ignore[index]
    assert (await desk.fill(LI, opinion="人手不够")).ok
    await desk.card(desk.dm(ZHANG), "人手不够")
