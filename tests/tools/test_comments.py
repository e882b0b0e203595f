"""Urging, commenting, telling others: words beside a request."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bot.core.i18n import render_value
from tests.tools.office import (  # fmt: skip
    LI,
    LIN,
    LONG,
    NOW,
    WANG,
    ZHANG,
    ZHAO,
    Office,
    facts,
    office,
    receipt,
    refused,
    title,
)


@pytest.fixture
async def there() -> Office:
    opened = office()
    await opened.start(LONG)
    return opened


async def test_urging_by_request_or_task(there: Office) -> None:
    plan = await there.plan(ZHANG, "urge_task", task_id="l-0001")
    assert title(plan) == "催李四处理请假申请 L-0001？"
    assert plan.args == {"request_id": "L-0001", "tasks": ["L-0001-1"]}
    assert plan.args == (await there.plan(ZHANG, "urge_task", task_id="L-0001-1")).args
    outcome = await there.press(ZHANG, "urge_task", plan, "confirm", key="same")
    assert receipt(outcome, "en") == "urged Li Si to decide request L-0001"
    assert outcome == await there.press(ZHANG, "urge_task", plan, "confirm", key="same")
    assert len((await there.engine.get_request("L-0001")).tasks[0].urged) == 1


async def test_urging_twice_is_refused_with_the_time_when_it_works_again(there: Office) -> None:
    await there.do(ZHANG, "urge_task", task_id="L-0001")
    error = await refused(there.plan(ZHANG, "urge_task", task_id="L-0001"))
    assert error.code == "urged_lately"
    assert render_value(error.note, "zh") == "刚催过，2026-11-20 14:00 以后可以再催"
    assert render_value(error.note, "en").endswith("you can urge again at 2026-11-20 14:00")
    for days, hours in ((0, 4), (3, 0), (3, 4), (4, 0)):
        there.now = NOW + timedelta(days=days, hours=hours)
        await there.do(ZHANG, "urge_task", task_id="L-0001")
    there.now = NOW + timedelta(days=5)
    assert (await refused(there.plan(ZHANG, "urge_task", task_id="L-0001"))).code == "urged_enough"


async def test_nobody_is_urged_on_their_day_off(there: Office) -> None:
    there.now = NOW + timedelta(days=1)
    error = await refused(there.plan(ZHANG, "urge_task", task_id="L-0001"))
    assert render_value(error.note, "zh") == "现在不是对方的工作时间，2026-11-23 09:00 以后可以催"
    assert render_value(error.note, "en") == "It is outside their working hours; you can urge at 2026-11-23 09:00"


async def test_only_the_author_urges(there: Office) -> None:
    assert (await refused(there.plan(LI, "urge_task", task_id="L-0001-1"))).code == "not_yours"
    assert (await refused(there.plan(LI, "urge_task", task_id="L-0001"))).code == "not_yours"
    assert (await refused(there.plan(ZHAO, "urge_task", task_id="L-0001"))).code == "no_request"
    assert (await refused(there.plan(ZHANG, "urge_task", task_id="L-9"))).code == "no_request"
    await there.decide(LI, "L-0001-1", "reject", {"opinion": "太长"})
    assert (await refused(there.plan(ZHANG, "urge_task", task_id="L-0001"))).code == "own_task"
    await there.decide(ZHANG, "L-0001-2", "withdraw")
    assert (await refused(there.plan(ZHANG, "urge_task", task_id="L-0001"))).code == "not_running"


async def test_everybody_it_waits_for_is_urged(there: Office) -> None:
    there.now = NOW + timedelta(hours=7)  # both are at work then, in Shanghai and in London
    await there.do(LI, "add_sign", task_id="L-0001-1", people=["李文光"], where="beside")
    await there.do(ZHANG, "urge_task", task_id="L-0001-1")
    plan = await there.plan(ZHANG, "urge_task", task_id="L-0001")
    assert plan.args["tasks"] == ["L-0001-2"], "who has been urged is left alone"
    assert (await there.press(ZHANG, "urge_task", plan, "confirm")).data["urged"] == "李文光"


async def test_commenting(there: Office) -> None:
    plan = await there.plan(ZHANG, "comment_request", request_id="L-0001", text=" 病历已补 ")
    assert (title(plan), plan.body) == ("在请假申请 L-0001 上留下这条评论？", "病历已补")
    await there.press(ZHANG, "comment_request", plan, "confirm")
    assert ("说明", "张三评论：病历已补") in facts(await there.card("L-0001-1"))
    assert ("Comment", "Zhang San commented: 病历已补") in facts(await there.card("L-0001-1"), "en")
    assert (await there.engine.get_request("L-0001")).waits_for == (LI.id,), "nothing is decided by it"
    empty = {"request_id": "L-0001", "text": "  "}
    assert (await refused(there.plan(ZHANG, "comment_request", **empty))).code == "missing_field"
    assert (await refused(there.plan(ZHAO, "comment_request", request_id="L-0001", text="?"))).code == "no_request"


async def test_who_is_told_may_read_and_decides_nothing(there: Office) -> None:
    assert (await refused(there.look(ZHAO, "request_status", request_id="L-0001"))).code == "no_request"
    plan = await there.plan(ZHANG, "cc_request", request_id="L-0001", people=["赵六", "李文光", "赵六"])
    assert title(plan) == "把请假申请 L-0001 抄送给赵六、李文光？"
    outcome = await there.press(ZHANG, "cc_request", plan, "confirm")
    assert receipt(outcome) == "把申请 L-0001 抄送给了赵六、李文光"
    assert (await there.look(ZHAO, "request_status", request_id="L-0001"))["by"] == "Zhang San"
    (told,) = (await there.look(LIN, "my_requests", told=True))["requests"]
    assert (told["request"], told["by"]) == ("L-0001", "Zhang San")
    assert (await there.look(LIN, "my_requests"))["requests"] == []
    assert ("已抄送", "赵六、李文光") in facts(await there.card("L-0001-1"))
    assert (await refused(there.decide(ZHAO, "L-0001-1", "approve"))).code == "not_assignee"
    again = {"request_id": "L-0001", "people": "赵六"}
    assert (await refused(there.plan(ZHANG, "cc_request", **again))).code == "told_already"


async def test_who_only_may_read_is_told_that_they_do_not_speak(there: Office) -> None:
    admin = ZHAO.model_copy(update={"roles": frozenset({"admin"})})
    await there.do(LI, "set_absence", first_day="2026-11-20", last_day="2026-11-22", deputy="李文光")
    for reader in (admin, LIN):
        await there.look(reader, "request_status", request_id="L-0001")
        for tool, what in (("comment_request", {"text": "快一点"}), ("cc_request", {"people": "王五"})):
            error = await refused(there.plan(reader, tool, request_id="L-0001", **what))
            assert error.code == "not_concerned"
            assert render_value(error.note, "zh") == "您可以查看申请 L-0001，但只有和它有关的人才能评论或抄送"


async def test_a_stranger_tells_nobody(there: Office) -> None:
    assert (await refused(there.plan(WANG, "cc_request", request_id="L-0001", people="王五"))).code == "no_request"
