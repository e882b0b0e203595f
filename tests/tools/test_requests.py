"""Requests: started, handed in again and withdrawn, how they have gone, in words and as a picture, and who may know."""

import hashlib
import re
from dataclasses import replace
from datetime import timedelta

import pytest

from bot.core.i18n import render_value
from tests.harness.corpus import corpus
from tests.harness.memory_store import MemoryStore
from tests.tools.company import CHINESE, CHOICE, LI, LIN, LONG, NOW, SHORT, SICK, TAXI, WANG, ZHANG, ZHAO
from tests.tools.office import Office, People, facts, known, office, receipt, refused
from tests.tools.workflow.remote.company import PresentPeople
from tools.requests.status import UNREADABLE
from tools.requests.timeline import MAX_STEPS, get_node_label
from tools.spec import Person, ProcessDiagram, Proposal
from tools.workflow.bpmn.graph import BoundaryTimer, FlowNode, TimerAction
from tools.workflow.engine.commands import CcCommand
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.state import Status
from tools.workflow.process.definition import Process, load_shipped_processes


async def test_what_can_be_asked_for() -> None:
    processes = (await office().look(ZHANG, "list_processes"))["processes"]
    assert [(p["key"], p["name"]) for p in processes] == [("leave", "Leave / 请假"), ("expense", "Expense / 报销")]
    fields = {f["name"]: f for f in processes[0]["fields"]}
    assert fields["leave_type"]["choices"][:2] == ["annual", "sick"]
    assert fields["approver"]["required"] and not fields["start_half"]["required"]
    assert "days" not in fields
    assert (await refused(office().plan(ZHANG, "start_process", process="coup", form={}))).code == "unknown_process"


async def test_confirming_starts_exactly_that_unless_who_is_asked_has_changed() -> None:
    there = office()
    plan = await there.plan(ZHANG, "start_process", process="leave", form=LONG)
    there.people.known[1] = LI.model_copy(update={"manager": "U5"})
    assert (await refused(there.press(ZHANG, "start_process", plan, "confirm"))).code == "request_changed"
    assert await there.engine.list_own_requests(ZHANG.id) == ()
    there.people.known[1] = LI
    outcome = await there.press(ZHANG, "start_process", plan, "confirm")
    then = {"then": {"Second approver": ["王五"]}}
    assert outcome.data == {"request": "L-0001", "status": "waiting", "waits_for": ["李四"], "days": 5, **then}
    assert receipt(outcome) == "发起了请假申请 L-0001"


async def test_who_has_left_is_still_named_in_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a platform, whose list has present people only."""
    monkeypatch.setattr(People, "list_people", PresentPeople.list_people)
    there = office()
    request = await there.start(LONG)
    named = f"{LIN.id},{ZHAO.id}"  # one after the other: nobody has asked the second one yet
    await there.do(LI, "add_sign", task_id=f"{request}-1", people=named, where="after", mode="order", opinion="好")
    for person in (LI, ZHAO):
        there.people.change(person, active=False)
    story = (await there.look(ZHANG, "request_status", request=request))["timeline"]
    assert "李四同意" in story and "赵六" in story and not any(one.id in story for one in (LI, ZHAO))


async def test_of_many_identical_requests_the_newest_five_are_named_and_the_others_counted() -> None:
    there = office()
    for _ in range(7):
        await there.start(TAXI, "expense")
        there.now += timedelta(minutes=11)
    plan = await there.plan(ZHANG, "start_process", process="expense", form=TAXI)
    zh, en = ("".join(value for _, value in facts(plan, language) if "E-0007" in value) for language in ("zh", "en"))
    assert zh.startswith("⚠ E-0007（等待审批）、E-0006（") and zh.endswith("E-0003（等待审批） 等 7 个")
    assert en.startswith("⚠ E-0007 (waiting for a decision), E-0006 (") and en.endswith(") and 2 more")


@corpus(
    ("process", "form", "label", "words"),
    ("请假", LONG, "时长", "5 个工作日"),
    ("leave", SHORT, "规则", "不超过 1 个工作日的请假按规则自动通过"),
    ("leave", {**SICK, "start_date": "2026-12-30", "end_date": "2027-01-05"}, "时长", "预估"),
    ("expense", {**TAXI, "amount": "$1,200.5", "approver": "李四"}, "金额", "1200.50 USD"),
    ("expense", {**TAXI, "amount": "$1,200.5", "approver": "李四"}, "财务会签", "赵六"),
)
async def test_a_card_shows_what_follows_from_the_form_and_a_plan_accepts_its_own_arguments(
    process: str, form: dict[str, str], label: str, words: str
) -> None:
    there = office()
    plan = await there.plan(ZHANG, "start_process", process=process, form=form)
    assert words in dict(facts(plan))[label]
    assert await there.plan(ZHANG, "start_process", **plan.args) == plan


async def test_my_requests_are_ones_own_newest_first_and_bounded() -> None:
    there = office()
    await there.start(LONG)
    await there.start(SHORT)
    await there.start({**TAXI, "approver": WANG.id}, "expense", LIN)
    found = (await there.look(ZHANG, "my_requests"))["requests"]
    first, second = ("L-0001", "waiting", ["李四"]), ("L-0002", "approved", [])
    assert [(r["request"], r["status"], r["waits_for"]) for r in found] == [second, first]
    assert found[1]["summary"] == "Sick leave, 2026-11-23 to 2026-11-27, 5 working days"
    assert found[1]["since"] == "2026-11-20T10:00+08:00"
    assert [r["request"] for r in (await there.look(ZHANG, "my_requests", status="waiting"))["requests"]] == ["L-0001"]
    assert (await refused(there.look(ZHANG, "my_requests", status="lost"))).code == "bad_choice"
    for n in range(19):
        await there.start({**TAXI, "reason": f"去客户现场 {n}"}, "expense")
    first = await there.look(ZHANG, "my_requests")
    assert (len(first["requests"]), first["more"]) == (20, 2)
    assert (await there.look(ZHANG, "my_requests", page=99))["requests"] == []


async def test_a_leave_over_days_of_one_that_came_back_says_so_and_leads_to_that_one() -> None:
    there = office()
    request = await there.start(SICK)
    again = {"process": "leave", "form": {**SICK, "end_date": SICK["start_date"]}}
    assert (await refused(there.plan(ZHANG, "start_process", **again))).code == "overlap", "while it waits"
    await there.decide(LI, f"{request}-1", "reject", {"opinion": "太长"})
    told = "申请 L-0001 已退回给您，也包含这几天里的时间：想改那个申请，请说「重新提交 L-0001」"
    assert ("请注意", told) in facts(await there.plan(ZHANG, "start_process", **again))
    other = {**again, "form": {**SICK, "start_date": "2026-12-01", "end_date": "2026-12-02"}}
    for control in (other, {"process": "expense", "form": TAXI}):
        assert "L-0001" not in str(facts(await there.plan(ZHANG, "start_process", **control)))
    assert "请注意" not in dict(facts(await there.plan(ZHANG, "resubmit_request", request=request))), "its own days"


async def test_withdrawing_and_its_card_excludes_what_is_refused_and_nothing_else() -> None:
    there = office()
    request = await there.start(SICK)
    await there.start(SHORT)
    back = await there.start({**SICK, "start_date": "2026-12-07", "end_date": "2026-12-08"})
    await there.decide(LI, f"{back}-1", "reject", {"opinion": "太长"})
    own = await there.engine.list_own_requests(ZHANG.id)
    for one in own:
        assert await there.plan(ZHANG, "withdraw_request", request=one.id)
    assert {one.status for one in own} == {Status.WAITING, Status.APPROVED, Status.REVISE}
    excluded = {one for one in Status if re.search(rf"\b{one}\b", known("withdraw_request").avoid_when)}
    assert excluded == {Status.REJECTED, Status.WITHDRAWN}
    for tool in ("withdraw_request", "resubmit_request"):
        error = await refused(there.plan(LIN, tool, request_id=request))
        assert error.code == "no_request", "a stranger's request is as if it were not there"
    outcome = await there.do(ZHANG, "withdraw_request", request_id=request.lower(), because="不去了")
    assert outcome.data == {"request": request, "status": "withdrawn"}
    for person, name, code in ((ZHANG, request, "not_running"), (LI, request, "not_yours"), (LI, "L-9", "no_request")):
        assert (await refused(there.plan(person, "withdraw_request", request_id=name))).code == code
    assert (await refused(there.plan(ZHANG, "withdraw_request", request_id=back, because="x" * 501))).code


async def test_what_passes_by_rule_when_it_is_handed_in_again_says_so_also_from_its_card() -> None:
    there = office()
    for is_from_card, later in ((False, "2026-12-01"), (True, "2026-12-08")):
        request = await there.start(SICK if is_from_card else {**SICK, "start_date": later, "end_date": "2026-12-03"})
        await there.decide(LI, f"{request}-1", "reject", {"opinion": "太长"})
        form = {**SHORT, "start_date": later, "end_date": later}
        if is_from_card:
            fields = {f"field_{name}": text for name, text in {**SICK, **form}.items()}
            outcome = await there.decide(ZHANG, f"{request}-2", "resubmit", fields)
        else:
            outcome = await there.do(ZHANG, "resubmit_request", request_id=request, form=form)
        assert (outcome.data["status"], outcome.summary.key) == ("approved", "result.passed")
        assert "passes by rule" in outcome.data["rule"] and "按规则" in receipt(outcome)


def list_changes(plan: Proposal, language: str = "zh") -> list[str]:
    return [text for label, text in facts(plan, language) if label in ("改动", "Changed")]


async def test_resubmitting_what_came_back_says_what_changes_or_that_nothing_does() -> None:
    there = office()
    request = await there.start({**SICK, "reason": "去医院"})
    assert (await refused(there.plan(ZHANG, "resubmit_request", request_id=request))).code == "not_revise"
    await there.decide(LI, f"{request}-1", "reject", {"opinion": "太长"})
    assert (await refused(there.plan(LI, "resubmit_request", request_id=request))).code == "not_yours"
    same = await there.plan(ZHANG, "resubmit_request", request_id=request)
    assert list_changes(same) == ["没有改动，和上一次完全一样"]
    plan = await there.plan(ZHANG, "resubmit_request", request_id=request, form={"end_half": "上午", "reason": "回家"})
    assert await there.plan(ZHANG, "resubmit_request", **plan.args) == plan
    assert dict(facts(plan))["时长"] == "1.5 个工作日"
    assert "请假事由：去医院 → 回家" in list_changes(plan) and "时长：2 个工作日 → 1.5 个工作日" in list_changes(plan)
    assert len(list_changes(plan)) == 3 and any("→" in one for one in list_changes(plan, "en"))
    outcome = await there.press(ZHANG, "resubmit_request", plan, "confirm", key="same")
    assert outcome == await there.press(ZHANG, "resubmit_request", plan, "confirm", key="same")
    assert outcome.data == {"request": request, "status": "waiting", "waits_for": ["李四"], "days": 1.5}
    card = await there.card(f"{request}-3")
    assert list_changes(card) == list_changes(plan), "and so does the card of who decides anew"
    assert (await refused(there.press(ZHANG, "resubmit_request", plan, "confirm"))).code == "task_closed"


@pytest.fixture
async def there() -> Office:
    opened = office()
    await opened.start(LONG)
    return opened


async def timeline(there: Office, person: Person = ZHANG, request: str = "L-0001") -> list[str]:
    told = await there.look(person, "request_status", request_id=request)
    return str(told["timeline"]).split(" → ")


async def test_what_a_request_says_is_told_to_whom_it_concerns_and_administrators_if_asked(there: Office) -> None:
    plain = await there.look(LI, "request_status", request_id="L-0001")
    assert "form" not in plain and "胃疼" not in str(plain) and plain["started"] == "2026-11-20T10:00+08:00"
    told = (await there.look(LI, "request_status", request_id="L-0001", details=True))["form"]
    assert (told["reason"], told["approver"], told["leave_type"]) == ("胃疼", "李四", "sick")
    assert (await refused(there.look(LIN, "request_status", request_id="L-0001", details=True))).code == "no_request"
    for reader in (ZHANG, LI, ZHAO.model_copy(update={"roles": frozenset({"admin"})})):
        await there.look(reader, "request_status", request_id="l-0001")
        await picture(there, reader, "L-0001")
    for stranger in (WANG, ZHAO):
        hidden = await refused(there.look(stranger, "request_status", request_id="l-0001"))
        absent = await refused(there.look(stranger, "request_status", request_id="l-0009"))
        assert hidden.text.replace("1", "9") == absent.text, "what is hidden looks like what is not there"
        assert (await refused(picture(there, stranger, "L-0001"))).code == "no_request"


async def picture(there: Office, person: Person, name: str) -> ProcessDiagram:
    shown = (await there.read(person, "show_process", name=name)).diagram
    assert shown is not None
    return shown


async def test_a_timeline_in_the_readers_language_and_zone(there: Office) -> None:
    there.now = NOW + timedelta(minutes=72)
    await there.do(LI, "add_sign", task_id="L-0001-1", people="李文光", where="after", opinion="好")
    assert await timeline(there) == [
        "✅ 张三提交 11-20 10:00",
        "✅ 李四同意，后加签李文光，会签（都要同意） 11-20 11:12「好」",
        "⏳ 李文光（审批）",
        "○ 结束",
    ]
    assert await timeline(there, LIN) == [
        "✅ submitted by Zhang San 11-20 02:00",
        "✅ Li Si approved, then asked Li Wenguang to decide, all have to agree 11-20 03:12 “好”",
        "⏳ Li Wenguang (Approval)",
        "○ end",
    ]


async def test_everything_that_can_happen_is_told(there: Office) -> None:
    await there.do(ZHANG, "urge_task", task_id="L-0001")
    await there.do(ZHANG, "comment_request", request_id="L-0001", text="病历已补")
    await there.do(ZHANG, "cc_request", request_id="L-0001", people="赵六")
    await there.do(LI, "transfer_task", task_id="L-0001-1", person="李文光", opinion="我在出差")
    await there.decide(LIN, "L-0001-2", "return", {"to": "revise", "opinion": "太长"})
    await there.decide(ZHANG, "L-0001-3", "resubmit")
    await there.decide(LI, "L-0001-4", "approve")
    await there.decide(WANG, "L-0001-5", "approve")
    await there.do(ZHANG, "withdraw_request", request_id="L-0001", because="不去了")
    await there.decide(WANG, "L-0001-6", "approve")
    assert [step.replace(" 11-20 10:00", "") for step in await timeline(there)] == [
        "✅ 张三提交",
        "🔔 张三催李四",
        "💬 张三评论「病历已补」",
        "📨 张三抄送赵六",
        "🔁 李四转交给李文光「我在出差」",
        "↩️ 李文光退回到修改「太长」",
        "✅ 张三重新提交",
        "✅ 李四同意",
        "✅ 王五同意",
        "↩️ 张三申请撤回「不去了」",
        "✅ 王五同意撤回",
        "🏁 已撤回",
    ]


async def test_a_rule_and_whom_the_process_tells_and_another_version_are_told(there: Office) -> None:
    request = await there.start({**SHORT, "cc": "李文光"})
    assert await timeline(there, request=request) == [
        "✅ 张三提交 11-20 10:00",
        "✅ 按规则通过（不超过 1 个工作日的请假按规则自动通过）",
        "📨 自动抄送李四",
        "📨 自动抄送李文光",
        "🏁 已通过",
    ]
    assert (await timeline(there, LIN, request))[3] == "📨 the process copied Li Wenguang"
    await there.engine.migrate_request("L-0001", with_nodes(), ZHAO.id, "k", NOW)
    assert (await timeline(there))[1] == "🔧 赵六更换流程版本 11-20 10:00"


def with_nodes(*nodes: FlowNode) -> Process:
    """Leave, with some of its nodes replaced."""
    leave = load_shipped_processes()[0]
    changed = {**leave.definition.nodes, **{node.id: node for node in nodes}}
    bpmn = leave.bpmn + b"<!-- another version -->"
    other = {"nodes": changed, "version": hashlib.sha256(bpmn).hexdigest()}
    return replace(leave, bpmn=bpmn, definition=leave.definition.model_copy(update=other))


async def test_what_time_brings_about_is_told() -> None:
    first = load_shipped_processes()[0].definition.nodes["first_level"]
    alarms = [("remind", TimerAction.REMIND), ("escalate", TimerAction.ESCALATE)]
    timers = tuple(BoundaryTimer(id=name, after_s=3600 * n, alarm=alarm) for n, (name, alarm) in enumerate(alarms, 1))
    processes = [with_nodes(first.model_copy(update={"timers": timers}))]
    there = office(processes=processes, policy=CHOICE)
    there.people.known[2] = WANG.model_copy(update={"manager": None, **CHINESE})
    await there.start({**SICK, "approver": LIN.id})
    there.people.known[4] = LIN.model_copy(update={"manager": WANG.id, **CHINESE})
    for hours in range(1, 5):
        await there.engine.run_due_jobs(NOW + timedelta(hours=hours))
    assert await timeline(there) == [
        "✅ 张三提交 11-20 10:00",
        "⏰ 超时提醒李文光 11-20 11:00",
        "⏫ 李文光超时，转给上级王五 11-20 12:00",
        "⏰ 超时提醒王五 11-20 13:00",
        "⏰ 王五超时，没有可以转交的人 11-20 14:00",
        "⏳ 王五（审批）",
        "○ 结束",
    ]


async def test_a_long_record_is_cut_at_its_beginning(there: Office) -> None:
    for n in range(MAX_STEPS + 1):
        await there.do(ZHANG, "comment_request", request_id="L-0001", text=f"{n} " + "很长" * 200)
    earlier, *steps = await timeline(there)
    assert earlier == "（更早 2 步）" and len(steps) == MAX_STEPS + 2 and all(len(step) < 120 for step in steps)


async def test_one_that_cannot_be_read_hides_no_other() -> None:
    leave, expense = load_shipped_processes()
    gone = leave.definition.model_copy(update={"version": "0" * 64})
    store = MemoryStore()
    before = office(store, [replace(leave, definition=gone, bpmn=b"<bpmn/>"), expense])
    await before.start(SICK)
    await before.start(TAXI, "expense")
    there = replace(before, engine=EmbeddedEngine(store, [expense], before.people))
    for person, tool, many in ((ZHANG, "my_requests", "requests"), (LI, "query_todo_tasks", "tasks")):
        listed = {one["request"]: one["summary"] for one in (await there.look(person, tool))[many]}
        assert listed.keys() == {"L-0001", "E-0001"}
        assert listed["L-0001"] == UNREADABLE and "86.5" in listed["E-0001"]


async def test_the_picture_has_the_way_taken_and_where_it_is_and_of_a_process_by_itself_neither(there: Office) -> None:
    await there.decide(LI, "L-0001-1", "approve")
    shown = await picture(there, ZHANG, "L-0001")
    assert shown.active == ("second_level",)
    assert {"submitted", "to_length", "longer", "first_level", "first_decided", "first_yes", "long"} <= set(shown.done)
    assert {"short", "short_leave", "leave_approved", "second_level"}.isdisjoint(shown.done)
    assert render_value(shown.alt, "zh") == "请假申请 L-0001 的流程，现在在：二级审批"
    await there.decide(WANG, "L-0001-2", "approve")
    ended = await picture(there, ZHANG, "L-0001")
    assert ended.active == () and "leave_approved" in ended.done
    for name in ("leave", "请假", "Leave"):
        shown = await picture(there, ZHAO, name)
        assert (shown.done, shown.active, render_value(shown.title, "zh")) == ((), (), "请假流程")


def test_names_of_nodes_in_both_languages() -> None:
    leave, _ = load_shipped_processes()
    named = {"second_level": ("二级审批", "Second approval"), "length": ("多少天？", "How long?")}
    named |= {"elsewhere": ("elsewhere", "elsewhere"), "withdrawal": ("撤回", "withdrawal")}
    for node, (zh, en) in named.items():
        assert get_node_label(leave.definition, node) == {"zh": zh, "en": en}


async def test_of_other_claims_on_the_card_only_who_decides_and_the_author_are_told() -> None:
    """Not somebody with a copy, who asks that it is decided."""
    there = office()
    for _ in range(2):
        await there.start(TAXI, "expense")
        there.now += timedelta(minutes=11)
    await there.engine.execute_command(CcCommand(request="E-0002", actor=ZHANG.id, people=(LIN.id,)), "cc", NOW)
    told = {one.id: str(facts(await there.plan(one, "decide_task", task="E-0002-1"))) for one in (LI, ZHANG, LIN)}
    assert {person for person, text in told.items() if "E-0001" in text} == {LI.id, ZHANG.id}
