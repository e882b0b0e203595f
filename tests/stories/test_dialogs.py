"""Dialogs name their decision and its effect, and everything that is wrong."""

from typing import Any

from bot.dev.evaluation.shown_blocks import list_buttons, read_message_text
from tests.harness.office import CHAT, LI, ZHANG, ZHAO, Office

LEAVE = "明天起请2天年假，去看父母，审批人李四"


async def open_dialog(office: Office, person: str, choice: str, having: str = "") -> dict[str, Any]:
    """Open the dialog behind a button of a person's newest card."""
    await office.press(person, await office.card(office.dm(person), having), choice)
    return dict(await office.until(lambda: office.driver.find_top_view(person)))


def list_inputs(view: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for block in view["blocks"] if block["type"] == "input"]


async def test_a_resubmission_shows_the_objection_first_and_what_is_there_already(desk: Office) -> None:
    await desk.request_leave(ZHANG, LEAVE)
    await desk.press(LI, await desk.card(desk.dm(LI)), "reject")
    await desk.fill(LI, opinion="月底人手不够，改到下个月")
    await desk.card(desk.dm(ZHANG), "被驳回")
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
    assert "12月8日 周二" in read_message_text(await desk.card(desk.dm(LI), "2026年12月7日 周一"))


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
    files = ["field_attachment"] if CHAT == "slack" else []  # a card of Feishu has no input for files
    assert names == ["field_approver", "field_handover", "field_cc", *files]
    assert (await desk.fill(ZHANG, field_handover=ZHAO)).ok
    assert desk.driver.find_top_view(ZHANG) is None, "both pages close"
    text = read_message_text(await desk.card(desk.dm(ZHANG), "赵六"))
    assert "搬家" in text and "李四" in text and "2 个工作日" in text, "what was not opened stays as it was"


async def test_everything_wrong_is_said_at_once(desk: Office) -> None:
    await desk.says(ZHANG, LEAVE)
    await open_dialog(desk, ZHANG, "edit", "年假")
    done = await desk.fill(ZHANG, field_start_date="2026-12-08", field_end_date="2026-12-07", field_reason="\u200b")
    assert {"field_end_date", "field_reason"} <= {*done.errors}, done.errors
