"""A task: its list, its card and its decision; and the operations beside the graph, on its card and in chat."""

from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from bot.core.i18n import render_value
from tests.harness.corpus import corpus
from tests.tools.company import CHOICE, LI, LIN, LONG, NOW, SHORT, SICK, TAXI, WANG, ZHANG, ZHAO
from tests.tools.office import Office, facts, known, office, receipt, refused
from tools.spec import Identities, Person
from tools.tasks.task_actions import StoredDecision, check_task_decision
from tools.workflow.engine.state import Status


@pytest.fixture
async def there() -> Office:
    opened = office(policy=CHOICE)
    await opened.start(LONG)
    return opened


async def test_todo_lists_and_the_approvers_card(there: Office) -> None:
    (task,) = (await there.look(LI, "query_todo_tasks"))["tasks"]
    assert task == {
        "task": "L-0001-1", "request": "L-0001", "process": "leave", "kind": "approve", "requester": "张三",
        "summary": "Sick leave, 2026-11-23 to 2026-11-27, 5 working days", "since": "2026-11-20T10:00+08:00",
    }  # fmt: skip
    assert (await there.look(ZHANG, "query_todo_tasks"))["tasks"] == []
    assert len((await there.look(ZHANG, "query_todo_tasks", person="李四"))["tasks"]) == 1
    assert (await there.look(WANG, "query_todo_tasks", person="李四"))["tasks"] == [], "not their business"
    assert (await refused(there.look(WANG, "query_todo_tasks", person="nobody"))).code == "unknown_person"
    plan = await there.card("L-0001-1")
    assert (plan.deciders, plan.requester) == ((LI.id,), ZHANG.id)


async def test_a_task_is_found_by_its_requests_number_and_is_not_there_for_others(there: Office) -> None:
    for task in ("L-0001-1", "L-0001"):
        for asker in (LI, ZHANG):
            assert await there.plan(asker, "decide_task", task_id=task) == await there.card("L-0001-1")
        error = await refused(there.plan(LIN, "decide_task", task_id=task))
        unknown = await refused(there.plan(LIN, "decide_task", task_id=task.replace("L-0001", "L-0009")))
        assert error.code == unknown.code == "no_task" and error.text.replace("L-0001", "L-0009") == unknown.text
    moved = await there.plan(LI, "transfer_task", task_id="L-0001", person="李文光")
    assert moved.args["task_id"] == moved.subject == "L-0001-1"
    form = {"people": f"{LIN.id},{ZHAO.id}", "where": "before", "mode": "any", "opinion": ""}
    await there.decide(LI, "L-0001-1", "add_sign", form)
    assert (await there.plan(ZHAO, "decide_task", task_id="L-0001")).deciders == (ZHAO.id,)
    asked = await refused(there.plan(ZHANG, "decide_task", task_id="L-0001"))
    assert asked.code == "several_tasks"
    assert "L-0001-2 (Li Wenguang)" in asked.text and "L-0001-3 (Zhao Liu)" in asked.text


async def test_an_opinion_written_by_the_model_is_a_draft_of_whoever_decides_and_runs_nothing(there: Office) -> None:
    plan = await there.plan(ZHANG, "decide_task", task_id="L-0001-1", opinion="同意，特批", draft="同意，特批")
    assert plan == await there.card("L-0001-1")
    plan = await there.plan(LI, "decide_task", task_id="L-0001-1", opinion=" 早日康复 ", decision="approve")
    drafted = {"draft": "早日康复", "drafted_by": LI.id, "meant": "approve"}
    assert plan.args == {**(await there.card("L-0001-1")).args, **drafted}
    assert all(field.value == "" for choice in plan.choices for field in choice.fields if field.name == "opinion")
    assert await there.plan(LI, "decide_task", **plan.args) == plan
    assert (await there.press(LI, "decide_task", plan, "approve")).data["opinion"] == ""
    (opinion,) = (await there.engine.get_request("L-0001")).opinions
    assert opinion.text == ""


async def test_a_dialog_is_checked_before_it_closes(there: Office) -> None:
    card = await there.card("L-0001-1")
    reject = StoredDecision.model_validate({**card.args, "decision": "reject", "opinion": " "})
    error = await refused(check_task_decision(there.use(LI), reject))
    assert (error.code, error.field) == ("missing_opinion", "opinion")
    await there.decide(LI, "L-0001-1", "reject", {"opinion": "请缩短"})
    assert (await refused(there.plan(ZHANG, "decide_task", task_id="L-0001-2"))).code == "use_resubmit"
    card = await there.card("L-0001-2")
    dialog = {f.name: f.value for f in card.choices[0].fields}
    wrong = {**card.args, "decision": "resubmit", **dialog, "field_start_date": "soon"}
    error = await refused(check_task_decision(there.use(ZHANG), StoredDecision.model_validate(wrong)))
    assert (error.code, error.field) == ("bad_date", "field_start_date")
    right = {**wrong, "field_start_date": "2026-11-24"}
    await check_task_decision(there.use(ZHANG), StoredDecision.model_validate(right))
    assert (await there.engine.get_request("L-0001")).status == "revise", "checking changes nothing"


async def test_pressing_needs_authority_even_past_the_gate_and_the_request_that_was_facts(there: Office) -> None:
    card = await there.card("L-0001-1")
    other = card.model_copy(update={"args": {**card.args, "form_sha": "0" * 16}})
    assert (await refused(there.press(LI, "decide_task", other, "approve"))).code == "request_changed"
    reject = StoredDecision.model_validate({**other.args, "decision": "reject", "opinion": "请缩短"})
    assert (await refused(check_task_decision(there.use(LI), reject))).code == "request_changed", "nor does its dialog"
    assert (await refused(there.press(ZHANG, "decide_task", card, "approve"))).code == "own_request"
    assert (await refused(there.press(WANG, "decide_task", card, "approve"))).code == "not_assignee"
    assert (await refused(there.press(LI, "decide_task", card, "reject", {"opinion": " "}))).code == "missing_opinion"
    await there.press(LI, "decide_task", card, "approve")
    assert (await refused(there.press(LI, "decide_task", card, "reject", {"opinion": "x"}))).code == "task_closed"
    assert (await refused(there.card("L-0001-1"))).code == "task_closed"
    assert (await refused(there.plan(LI, "decide_task", task_id="L-0001-1"))).code == "task_closed"
    assert (await refused(there.plan(LI, "decide_task", task_id="L-0001-7"))).code == "no_task"


def test_a_button_needs_a_decision_and_says_nothing_of_who_presses() -> None:
    for odd in ({}, {"decision": "approve", "actor": "U2"}):
        with pytest.raises(ValidationError):
            StoredDecision.model_validate({"task_id": "x", "form_sha": "y", **odd})
    assert known("decide_task").stored_args is StoredDecision


OPINION = {"opinion": "缺发票"}


async def test_return_to_an_earlier_step_or_to_the_author_who_resubmits(there: Office) -> None:
    await there.decide(LI, "L-0001-1", "approve")
    plan = await there.card("L-0001-2")
    (button,) = [c for c in plan.choices if c.name == "return"]
    assert [words["zh"] for _, words in button.fields[0].choices] == ["修改（张三）", "审批（李四）"]
    assert button.fields[0].choices[1] == ("first_level", {"zh": "审批（李四）", "en": "Approval (Li Si)"})
    await there.press(WANG, "decide_task", plan, "return", {"to": "first_level", **OPINION})
    outcome = await there.decide(LI, "L-0001-3", "return", {"to": "revise", **OPINION})
    assert (outcome.data["decision"], outcome.data["status"]) == ("returned", "revise")
    assert (receipt(outcome), receipt(outcome, "en")) == ("李四退回了申请 L-0001", "Li Si returned request L-0001")
    card = await there.card("L-0001-4")
    assert ("Opinion", "Li Si returned it: 缺发票") in facts(card, "en")
    await there.press(ZHANG, "decide_task", card, "resubmit", {})
    assert (await there.engine.get_request("L-0001")).waits_for == (LI.id,)


async def test_transfer_in_chat_shows_what_will_happen_and_then_does_it(there: Office) -> None:
    plan = await there.plan(LI, "transfer_task", task_id="L-0001-1", person="李文光", opinion="我在出差")
    assert ("说明", "我在出差") in facts(plan) and ("请假事由", "胃疼") in facts(plan)
    assert plan.deciders == (LI.id,)
    assert (await there.engine.get_request("L-0001")).waits_for == (LI.id,), "nothing has happened"
    for person, code in ((ZHANG.id, "own_request"), (WANG.id, "own_level"), ("nobody", "unknown_person")):
        error = await refused(there.plan(LI, "transfer_task", task_id="L-0001-1", person=person))
        assert (error.code, error.field) == (code, "person")
        error = await refused(there.check(LI, await there.card("L-0001-1"), "transfer", {"person": person}))
        assert (error.code, error.field) == (code, "person"), "nor by the dialog of the card"
    first = await there.press(LI, "transfer_task", plan, "confirm", key="same")
    assert first == await there.press(LI, "transfer_task", plan, "confirm", key="same")
    assert (await there.engine.get_request("L-0001")).waits_for == (LIN.id,)
    assert ("说明", "李四转交：我在出差") in facts(await there.card("L-0001-2"))


async def test_add_sign_before_by_the_card(there: Office) -> None:
    plan = await there.card("L-0001-1")
    form = {"people": f"{LIN.id},{ZHAO.id}", "where": "before", "mode": "any", "opinion": ""}
    await there.check(LI, plan, "add_sign", form)
    error = await refused(there.check(LI, plan, "add_sign", {**form, "people": f"{LIN.id},{ZHANG.id}"}))
    assert (error.code, error.field) == ("own_request", "people"), "the author is never asked"
    outcome = await there.press(LI, "decide_task", plan, "add_sign", form)
    assert outcome.data["waits_for"] == ["李文光", "赵六"]
    assert receipt(outcome) == "李四请了李文光、赵六一起审批申请 L-0001"
    await there.decide(ZHAO, "L-0001-3", "approve")
    assert (await there.engine.get_request("L-0001")).waits_for == (LI.id,), "any one was enough; then it is their turn"


async def test_add_sign_after_in_chat(there: Office) -> None:
    plan = await there.plan(LI, "add_sign", task_id="L-0001-1", people=["李文光", "赵六"], where="after", mode="order")
    assert ("审批方式", "依次审批") in facts(plan)
    await there.press(LI, "add_sign", plan, "confirm")
    request = await there.engine.get_request("L-0001")
    assert (request.waits_for, request.tasks[0].outcome) == ((LIN.id,), "approve")


async def test_withdrawing_what_is_approved_needs_agreement(there: Office) -> None:
    await there.decide(LI, "L-0001-1", "approve")
    await there.decide(WANG, "L-0001-2", "approve")
    plan = await there.plan(ZHANG, "withdraw_request", request_id="L-0001", because="不去了")
    assert ("需要同意", "申请已经通过，要王五同意才能撤回") in facts(plan)
    outcome = await there.press(ZHANG, "withdraw_request", plan, "confirm")
    assert outcome.data == {"request": "L-0001", "status": "revoking", "waits_for": ["王五"]}
    assert receipt(outcome) == "申请了撤回 L-0001，等王五同意"
    card = await there.card("L-0001-3")
    assert ("撤回原因", "不去了") in facts(card)
    assert (card.deciders, card.requester) == ((WANG.id,), ZHANG.id)
    outcome = await there.press(WANG, "decide_task", card, "reject", {"opinion": "已经付款"})
    assert (outcome.data["status"], receipt(outcome)) == ("approved", "王五没有同意撤回申请 L-0001")


async def test_when_who_has_to_agree_has_left_somebody_else_is_asked() -> None:
    there = office()
    request = await there.start(SICK)
    await there.decide(LI, f"{request}-1", "approve")
    await there.do(ZHANG, "withdraw_request", request_id=request)
    assert (await refused(there.plan(ZHANG, "withdraw_request", request_id=request))).code == "withdrawing"
    there.people.known[1] = LI.model_copy(update={"active": False})
    outcome = await there.do(ZHANG, "withdraw_request", request_id=request)
    assert (outcome.data["status"], outcome.data["waits_for"]) == ("revoking", ["王五"]), "who is above"
    assert (await refused(there.card(f"{request}-2"))).code == "task_closed"
    outcome = await there.decide(WANG, f"{request}-3", "approve")
    assert (outcome.data["status"], receipt(outcome)) == ("withdrawn", "王五同意撤回申请 L-0001")
    outcome = await there.do(ZHANG, "withdraw_request", request_id=await there.start(SHORT))
    assert outcome.data["waits_for"] == ["王五"], "what a rule approved is the manager's: who is above, as before"


async def test_edit_shows_the_changed_form_anew_before_anything_happens_also_of_a_resubmission() -> None:
    there = office()
    plan = await there.plan(ZHANG, "start_process", process="leave", form=SICK)
    (button,) = [c for c in plan.choices if c.edits]
    dialog = {f.name: f.value for f in button.fields}
    assert (dialog["field_reason"], dialog["field_end_date"], button.executes) == ("胃疼", "2026-11-24", False)
    edited = await there.edit(ZHANG, "start_process", plan, {**dialog, "field_end_date": "2026-11-27"})
    assert ("时长", "5 个工作日") in facts(edited)
    assert edited.args["seen"] != plan.args["seen"]
    assert await there.engine.list_own_requests(ZHANG.id) == ()
    await there.press(ZHANG, "start_process", edited, "confirm")
    assert (await there.engine.get_request("L-0001")).filled.days == "5"
    plan = await there.plan(ZHANG, "start_process", process="expense", form=TAXI)
    error = await refused(there.edit(ZHANG, "start_process", plan, {"field_amount": "viel"}))
    assert (error.code, error.field) == ("bad_amount", "field_amount"), "named as the dialog does"
    await there.decide(LI, "L-0001-1", "return", OPINION)
    plan = await there.plan(ZHANG, "resubmit_request", request_id="L-0001")
    edited = await there.edit(ZHANG, "resubmit_request", plan, {"field_reason": "好多了", "field_end_half": "am"})
    await there.press(ZHANG, "resubmit_request", edited, "confirm")
    request = await there.engine.get_request("L-0001")
    assert (request.filled.values["reason"], request.filled.days) == ("好多了", "4.5")


# Words beside a request: urging, commenting, telling others


async def test_urging_by_request_or_task_at_most_once_in_a_while_and_in_working_hours(there: Office) -> None:
    there.now = NOW - timedelta(days=6)  # a Saturday
    error = await refused(there.plan(ZHANG, "urge_task", task_id="L-0001"))
    assert render_value(error.note, "zh") == "现在不是对方的工作时间，2026-11-16 09:00 以后可以催"
    there.now = NOW
    plan = await there.plan(ZHANG, "urge_task", task_id="l-0001")
    assert plan.args == {"request_id": "L-0001", "tasks": ["L-0001-1"]}
    assert plan.args == (await there.plan(ZHANG, "urge_task", task_id="L-0001-1")).args
    outcome = await there.press(ZHANG, "urge_task", plan, "confirm", key="same")
    assert receipt(outcome, "en") == "urged Li Si to decide request L-0001"
    assert outcome == await there.press(ZHANG, "urge_task", plan, "confirm", key="same")
    assert len((await there.engine.get_request("L-0001")).tasks[0].urged) == 1
    error = await refused(there.plan(ZHANG, "urge_task", task_id="L-0001"))
    assert (error.code, render_value(error.note, "zh")) == ("urged_lately", "刚催过，2026-11-20 14:00 以后可以再催")


async def test_only_the_author_urges_and_a_stranger_tells_nobody(there: Office) -> None:
    rows = ((LI, "L-0001-1", "not_yours"), (LI, "L-0001", "not_yours"), (ZHAO, "L-0001", "no_request"))
    for person, task, code in (*rows, (ZHANG, "L-9", "no_request")):
        assert (await refused(there.plan(person, "urge_task", task_id=task))).code == code
    assert (await refused(there.plan(WANG, "cc_request", request_id="L-0001", people="王五"))).code == "no_request"
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
    assert plan.body == "病历已补"
    await there.press(ZHANG, "comment_request", plan, "confirm")
    assert ("说明", "张三评论：病历已补") in facts(await there.card("L-0001-1"))
    assert (await there.engine.get_request("L-0001")).waits_for == (LI.id,), "nothing is decided by it"
    empty = {"request_id": "L-0001", "text": "  "}
    assert (await refused(there.plan(ZHANG, "comment_request", **empty))).code == "missing_field"
    assert (await refused(there.plan(ZHAO, "comment_request", request_id="L-0001", text="?"))).code == "no_request"


async def test_who_is_told_may_read_and_decides_nothing(there: Office) -> None:
    assert (await refused(there.look(ZHAO, "request_status", request_id="L-0001"))).code == "no_request"
    plan = await there.plan(ZHANG, "cc_request", request_id="L-0001", people=["赵六", "李文光", "赵六"])
    assert receipt(await there.press(ZHANG, "cc_request", plan, "confirm")) == "把申请 L-0001 抄送给了赵六、李文光"
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
    await there.do(LI, "set_absence", start_date="2026-11-20", end_date="2026-11-22", deputy="李文光")
    for reader in (admin, LIN):
        await there.look(reader, "request_status", request_id="L-0001")
        for tool, what in (("comment_request", {"text": "快一点"}), ("cc_request", {"people": "王五"})):
            error = await refused(there.plan(reader, tool, request_id="L-0001", **what))
            said = "您可以查看申请 L-0001，但只有和它有关的人才能评论或抄送；请让申请人抄送给您"
            assert (error.code, render_value(error.note, "zh")) == ("not_concerned", said)


# Being away: who stands in, what they may do, and what never


AWAY = {"start_date": "2026-11-20", "end_date": "2026-11-22", "deputy": "李文光"}


async def away(there: Office, person: Person = LI, **more: str) -> str:
    return str((await there.do(person, "set_absence", **{**AWAY, **more})).data["absence"])


async def test_an_absence_says_that_who_stands_in_is_away_too_and_for_whom_oneself_stands_in(there: Office) -> None:
    """Li Si is away until the end of the year and Li Wenguang stands in, who is away next week with Zhao Liu."""
    year = {**AWAY, "end_date": "2026-12-31"}
    week = {"start_date": "2026-11-23", "end_date": "2026-11-27", "deputy": "赵六"}
    await away(there, **year)
    theirs = await there.plan(LIN, "set_absence", **week)
    said = "您在 2026年11月19日 周四至 2026年12月31日 周四是李四的代理人；您外出期间，李四的审批赵六也可以处理"
    assert ("请注意", said) in facts(theirs)
    await there.press(LIN, "set_absence", theirs, "confirm")
    before = await there.plan(LI, "set_absence", **{**AWAY, "start_date": "2027-01-04", "end_date": "2027-01-05"})
    assert not [f for f in before.fields if f.label == "notice"], "the control: another time"
    (absence,) = await there.engine.list_delegations(LI.id, NOW)
    await there.engine.end_delegation(LI.id, absence.id, NOW)
    again = await there.plan(LI, "set_absence", **year)
    (notice,) = [render_value(f.value, "zh") for f in again.fields if f.label == "notice"]
    assert notice.startswith("李文光在 2026年11月23日 周一至 2026年11月2")


async def test_the_author_sees_on_the_card_that_the_approver_is_away_and_who_else_can_decide(there: Office) -> None:
    form = {**SICK, "start_date": "2026-12-07", "end_date": "2026-12-08"}
    control = await there.plan(ZHANG, "start_process", process="leave", form=form)
    assert not [f for f in control.fields if f.label == "stand_in"]
    await away(there)
    plan = await there.plan(ZHANG, "start_process", process="leave", form=form)
    (stand_in,) = [f.value for f in plan.fields if f.label == "stand_in"]
    assert isinstance(stand_in, Identities) and [p.id for p in stand_in.people] == [LIN.id]


async def test_an_absence_is_shown_then_set_then_listed_then_ended(there: Office) -> None:
    plan = await there.plan(LI, "set_absence", **AWAY)
    assert facts(plan) == [("第一天", "2026年11月20日 周五"), ("最后一天", "2026年11月22日 周日"), ("代理人", "李文光")]
    outcome = await there.press(LI, "set_absence", plan, "confirm", key="same")
    assert outcome == await there.press(LI, "set_absence", plan, "confirm", key="same")
    assert receipt(outcome) == "请了李文光在 2026年11月20日 周五至 2026年11月22日 周日代理"
    (absence,) = await there.engine.list_delegations(LI.id, NOW)
    assert (absence.start, absence.end) == (NOW.replace(hour=0), NOW.replace(hour=0) + timedelta(days=3))
    (listed,) = (await there.look(LI, "list_absences"))["absences"]
    assert listed == {"absence": absence.id, **AWAY}
    ending = await there.plan(LI, "end_absence")
    assert receipt(await there.press(LI, "end_absence", ending, "confirm")) == "结束了代理"
    assert receipt(await there.press(LI, "end_absence", ending, "confirm")) == "结束了代理", "ended stays ended"
    assert (await there.look(LI, "list_absences"))["absences"] == []
    edited = await there.edit(LI, "set_absence", plan, {"last_day": "2026-11-25", "deputy": WANG.id})
    assert dict(facts(edited))["代理人"] == "王五"
    error = await refused(there.edit(LI, "set_absence", plan, {"last_day": "2026-11-01"}))
    assert (error.code, error.field) == ("end_before_start", "last_day")


@corpus(
    ("more", "code", "field"),
    ({"deputy": "李四"}, "bad_deputy", "deputy"),
    ({"deputy": "钱七"}, "unknown_person", "deputy"),
    ({"start_date": "2026-11-01", "end_date": "2026-11-19"}, "bad_period", "last_day"),
    ({"end_date": "next week"}, "bad_date", "last_day"),
    ({"end_date": "2028-11-22"}, "span_too_long", "last_day"),
)
async def test_what_is_refused_before_a_card(there: Office, more: dict[str, str], code: str, field: str) -> None:
    error = await refused(there.plan(LI, "set_absence", **{**AWAY, **more}))
    assert (error.code, error.field) == (code, field)
    assert all(render_value(error.note, language) for language in ("zh", "en"))


async def test_two_absences_do_not_overlap(there: Office) -> None:
    await away(there)
    later = {**AWAY, "start_date": "2026-11-22", "end_date": "2026-11-29"}
    assert (await refused(there.plan(LI, "set_absence", **later))).code == "overlapping"
    second = await away(there, start_date="2026-11-23", end_date="2026-11-24")
    assert (await refused(there.plan(LI, "end_absence"))).code == "no_delegation", "which of them?"
    await there.do(LI, "end_absence", absence=second)
    (kept,) = (await there.look(LI, "list_absences"))["absences"]
    assert kept["start_date"] == AWAY["start_date"]
    assert (await refused(there.plan(WANG, "end_absence"))).code == "no_delegation"


async def test_the_deputy_decides_and_both_names_are_told(there: Office) -> None:
    await away(there)
    (task,) = (await there.look(LIN, "query_todo_tasks"))["tasks"]
    assert (task["task"], task["for"]) == ("L-0001-1", "Li Si")
    card = await there.card("L-0001-1")
    assert ("代理人", "李四外出，李文光也可以处理") in facts(card)
    assert card.deciders == (LI.id,)
    outcome = await there.press(LIN, "decide_task", card, "approve")
    assert (outcome.data["by"], outcome.data["for"]) == ("Li Wenguang", "Li Si")
    assert ("审批意见", "李文光（代李四）同意") in facts(await there.card("L-0001-2"))
    told = (await there.look(ZHANG, "request_status", request_id="L-0001"))["timeline"]
    assert "✅ 李文光（代李四）同意 11-20 10:00" in told


async def test_the_deputy_reads_what_waits_for_who_is_away_and_hands_it_on_but_not_what_is_the_authors_own(
    there: Office,
) -> None:
    await away(there, ZHANG)
    assert (await refused(there.look(LIN, "request_status", request_id="L-0001"))).code == "no_request"
    await there.decide(LI, "L-0001-1", "reject", {"opinion": "请先补病历"})
    for tool, asked in (("request_status", {"request_id": "L-0001"}), ("show_process", {"name": "L-0001"})):
        assert (await refused(there.look(LIN, tool, **asked))).code == "no_request"
    await there.decide(ZHANG, "L-0001-2", "resubmit")
    await away(there)
    await there.look(LIN, "request_status", request_id="L-0001")
    await there.do(LIN, "transfer_task", task_id="L-0001-3", person="赵六")
    assert (await there.engine.get_request("L-0001")).waits_for == (ZHAO.id,)


async def test_tasks_of_both_are_paged_together(there: Office) -> None:
    await away(there)
    for n in range(20):
        approver = LIN.id if n % 2 else LI.id
        await there.engine.start_request("expense", {**TAXI, "approver": approver}, ZHANG.id, f"k-{n}", NOW)
    first = await there.look(LIN, "query_todo_tasks")
    second = await there.look(LIN, "query_todo_tasks", page=2)
    assert (len(first["tasks"]), first["more"], len(second["tasks"]), second["more"]) == (20, 2, 1, None)


# Several at once: asking brings them together and decides nothing


async def waiting() -> tuple[Office, list[tuple[str, tuple[str, ...]]]]:
    """Four claims and a leave of five days wait for Li Si. Returns also what was put before whom."""
    desk, sets = office(), list[tuple[str, tuple[str, ...]]]()

    async def open_set(person: str, tasks: Sequence[str]) -> None:
        sets.append((person, tuple(tasks)))

    desk.services["cards"] = SimpleNamespace(open_set=open_set)
    for amount, currency in (("199", "CNY"), ("200", "CNY"), ("200.01", "CNY"), ("150", "USD")):
        form = {"amount": amount, "currency": currency, "category": "meals", "reason": "x", "approver": LI.id}
        await desk.engine.start_request("expense", form, ZHANG.id, amount, desk.now)
    leave = {**SICK, "start_date": "2026-12-07", "end_date": "2026-12-09"}
    await desk.engine.start_request("leave", leave, ZHANG.id, "leave", desk.now)
    return desk, sets


@corpus(
    ("args", "meant"),
    ({}, "E-0001 E-0002 E-0003 E-0004 L-0001"),
    ({"process": "leave"}, "L-0001"),
    ({"days_at_most": "3"}, "L-0001"),
    ({"days_at_most": "2"}, ""),
    ({"amount_below": "200", "currency": "CNY"}, "E-0001"),
    ({"amount_at_most": "200", "currency": "CNY"}, "E-0001 E-0002"),
    ({"amount_at_most": "1,000", "currency": "usd"}, "E-0004"),
    ({"currency": "EUR"}, ""),
    ({"person": "张三", "process": "expense", "tasks": ["E-0003", "E-0002-1"]}, "E-0002 E-0003"),
    ({"person": "王五"}, ""),
)
async def test_what_fits_is_put_before_the_caller_and_nothing_is_decided(args: dict[str, Any], meant: str) -> None:
    desk, sets = await waiting()
    outcome = await desk.look(LI, "decide_several", **args)
    numbers = meant.split()
    assert sets == ([(LI.id, tuple(f"{one}-1" for one in numbers))] if numbers else [])
    assert outcome["shown"] == len(numbers) and outcome.get("decided", 0) == 0
    assert {(await desk.engine.get_request(one)).status for one in ("E-0001", "L-0001")} == {Status.WAITING}


@corpus(
    ("args", "code"),
    ({"amount_below": "200"}, "two_currencies"),
    ({"amount_below": "cheap"}, "bad_number"),
    ({"amount_below": "NaN"}, "bad_number"),
    ({"tasks": ["E-0009"]}, "no_task"),
    ({"person": "nobody"}, "unknown_person"),
)
async def test_what_is_not_clear_is_asked_and_what_waits_for_somebody_else_is_not_the_callers(
    args: dict[str, Any], code: str
) -> None:
    desk, sets = await waiting()
    for somebody_else in (WANG, ZHANG):
        assert (await desk.look(somebody_else, "decide_several"))["shown"] == 0
    assert (await refused(desk.look(LI, "decide_several", **args))).code == code and not sets
