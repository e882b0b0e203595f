"""How often a story calls Slack: `chat.update` allows 50 calls a minute in a whole workspace."""

from __future__ import annotations

from tests.harness.office import LI, WANG, ZHANG, Office

WRITES = ("chat.postMessage", "chat.update", "chat.postEphemeral")


async def test_a_ten_day_leave_with_two_approvers(desk: Office) -> None:
    here = desk.dm(ZHANG)
    request = await desk.request_leave(ZHANG, "我肚子疼，从明天起请10天假，审批人李四")
    for approver in (LI, WANG):
        await desk.press(approver, await desk.card(desk.dm(approver), request), "approve")
    await desk.until(lambda: f"申请 {request} 已通过" in desk.said(here))
    await desk.quiet()
    assert len([one for one in desk.driver.calls if one.method in WRITES]) <= 9
    assert len([one for one in desk.driver.calls if one.method == "chat.update"]) == 3, (
        "a decision rewrites a card once"
    )
