"""Home as the place to come back to: decided, urged, withdrawn and set up in place, by the same presses as on cards; kept
up to date; each person's own; whole within Slack's limits."""

from __future__ import annotations

from typing import Any

from bot.evaluation.shown_blocks import list_buttons, read_message_text
from tests.harness.office import LI, ZHANG, Office

LEAVE = "明天起请2天年假，去看父母，审批人李四"


async def open_home(office: Office, person: str) -> dict[str, Any]:
    office.driver.ws.state.homes.pop(person, None)
    await office.driver.open_home(person)
    return await office.until(lambda: office.driver.homes.get(person))


def page(office: Office, person: str) -> str:
    return read_message_text(dict(office.driver.homes.get(person) or {}))


def buttons(office: Office, person: str) -> list[dict[str, Any]]:
    return list(list_buttons(dict(office.driver.homes.get(person) or {})))


async def press(office: Office, person: str, action: str, value: str = "") -> Any:
    """A button of the Home page as it stands now."""
    view = office.driver.homes[person]
    found = next(b for b in buttons(office, person) if b["action_id"] == action and value in b.get("value", ""))
    return await office.driver.click_view_button(person, view["id"], action, value=found.get("value"))


async def test_a_task_is_approved_on_home_by_the_press_of_its_card(desk: Office) -> None:
    request = await desk.request_leave(ZHANG, LEAVE)
    card = await desk.card(desk.dm(LI), request)
    await open_home(desk, LI)
    print(page(desk, LI))
    assert (await press(desk, LI, "cs:approve")).ok
    await desk.until(lambda: f"您的申请 {request} 已通过" in desk.said(desk.dm(ZHANG)))
    await desk.until(lambda: "cs:approve" not in str(desk.driver.homes[LI]))
    await desk.quiet()
    print(page(desk, LI))
    assert not desk.cards(desk.dm(LI)), "the card in the DM is rewritten"
