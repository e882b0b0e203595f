"""How a request has gone, in words and as a picture; and who may know."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from bot.core.i18n import render_value
from tests.harness.memory_store import MemoryStore
from tests.tools.company import CHOICE
from tests.tools.office import (  # fmt: skip
    LI,
    LIN,
    LONG,
    NOW,
    SHORT,
    SICK,
    TAXI,
    WANG,
    ZHANG,
    ZHAO,
    Office,
    known,
    office,
    refused,
)
from tools.cards.node_labels import get_node_label
from tools.requests.status import UNREADABLE, ShowProcessArgs, run_show_process
from tools.requests.timeline import MAX_STEPS
from tools.spec import Person, ProcessDiagram
from tools.workflow.bpmn.graph import BoundaryTimer, FlowNode, TimerAction
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.process.definition import Process, load_shipped_processes


@pytest.fixture
async def there() -> Office:
    opened = office()
    await opened.start(LONG)
    return opened


async def timeline(there: Office, person: Person = ZHANG, request: str = "L-0001") -> list[str]:
    told = await there.look(person, "request_status", request_id=request)
    return str(told["timeline"]).split(" → ")


async def test_what_a_request_says_is_told_to_who_may_read_it_and_only_if_asked(there: Office) -> None:
    plain = await there.look(LI, "request_status", request_id="L-0001")
    assert "form" not in plain and "胃疼" not in str(plain) and plain["started"] == "2026-11-20T10:00+08:00"
    told = (await there.look(LI, "request_status", request_id="L-0001", details=True))["form"]
    assert (told["reason"], told["approver"], told["leave_type"]) == ("胃疼", "李四", "sick")
    assert (await refused(there.look(LIN, "request_status", request_id="L-0001", details=True))).code == "no_request"


async def picture(there: Office, person: Person, name: str) -> ProcessDiagram:
    outcome = await run_show_process(there.use(person), ShowProcessArgs(name=name))
    assert outcome.diagram is not None
    return outcome.diagram


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
        "✅ Li Si approved and asked Li Wenguang to decide next, all have to agree 11-20 03:12 “好”",
        "⏳ Li Wenguang (Approval)",
        "○ end",
    ]


async def test_people_read_the_same_line_beside_the_step(there: Office) -> None:
    card = known("request_status")
    outcome = await card.run(there.use(ZHANG), card.args.model_validate({"request_id": "L-0001"}))
    assert render_value(outcome.summary, "zh") == "L-0001：✅ 张三提交 11-20 10:00 → ⏳ 李四（审批） → ○ 结束"
    assert (
        render_value(outcome.summary, "en")
        == "L-0001: ✅ submitted by Zhang San 11-20 10:00 → ⏳ Li Si (Approval) → ○ end"
    )


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


async def test_a_rule_is_told(there: Office) -> None:
    request = await there.start(SHORT)
    assert await timeline(there, request=request) == [
        "✅ 张三提交 11-20 10:00",
        "✅ 按规则通过（不超过 1 个工作日的请假按规则自动通过）",
        "🏁 已通过",
    ]


def with_nodes(*nodes: FlowNode) -> Process:
    """Leave, with some of its nodes replaced."""
    leave = load_shipped_processes()[0]
    changed = {**leave.definition.nodes, **{node.id: node for node in nodes}}
    return replace(leave, definition=leave.definition.model_copy(update={"nodes": changed, "version": "other"}))


async def test_what_time_brings_about_is_told() -> None:
    first = load_shipped_processes()[0].definition.nodes["first_level"]
    alarms = [("remind", TimerAction.REMIND), ("escalate", TimerAction.ESCALATE)]
    timers = tuple(BoundaryTimer(id=name, after_s=3600 * n, alarm=alarm) for n, (name, alarm) in enumerate(alarms, 1))
    processes = [with_nodes(first.model_copy(update={"timers": timers}))]
    there = office(processes=processes, policy=CHOICE)
    there.people.known[2] = WANG.model_copy(update={"manager": None})
    await there.start({**SICK, "approver": LIN.id})
    there.people.known[4] = LIN.model_copy(update={"manager": WANG.id})
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


async def test_whom_the_process_tells_is_told(there: Office) -> None:
    request = await there.start({**SHORT, "cc": "李文光"})
    assert (await timeline(there, request=request))[2] == "📨 自动抄送李文光"
    assert (await timeline(there, LIN, request))[2] == "📨 Li Wenguang told by the process"


async def test_another_version_is_told(there: Office) -> None:
    moved = with_nodes()
    await there.engine.migrate_request("L-0001", moved, ZHAO.id, "k", NOW)
    assert (await timeline(there))[1] == "🔧 赵六更换流程版本 11-20 10:00"


async def test_a_long_record_is_cut_at_its_beginning(there: Office) -> None:
    for n in range(MAX_STEPS + 1):
        await there.do(ZHANG, "comment_request", request_id="L-0001", text=f"{n} " + "很长" * 200)
    steps = await timeline(there)
    assert (steps[0], len(steps)) == ("（更早 2 步）", 1 + MAX_STEPS + 2)
    assert all(len(step) < 120 for step in steps)


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


async def test_only_whom_it_concerns_and_administrators_learn_of_it(there: Office) -> None:
    admin = ZHAO.model_copy(update={"roles": frozenset({"admin"})})
    for reader in (ZHANG, LI, admin):
        await there.look(reader, "request_status", request_id="l-0001")
        await picture(there, reader, "L-0001")
    for stranger in (WANG, ZHAO):
        hidden = await refused(there.look(stranger, "request_status", request_id="l-0001"))
        absent = await refused(there.look(stranger, "request_status", request_id="l-0009"))
        assert hidden.text.replace("1", "9") == absent.text, "what is hidden looks like what is not there"
        assert (await refused(picture(there, stranger, "L-0001"))).code == "no_request"


async def test_the_picture_has_the_way_taken_and_where_it_is(there: Office) -> None:
    await there.decide(LI, "L-0001-1", "approve")
    shown = await picture(there, ZHANG, "L-0001")
    assert shown.active == ("second_level",)
    assert {"submitted", "to_length", "longer", "first_level", "first_decided", "first_yes", "long"} <= set(shown.done)
    assert {"short", "short_leave", "leave_approved", "second_level"}.isdisjoint(shown.done)
    assert render_value(shown.alt, "zh") == "请假申请 L-0001 的流程，现在在：二级审批"
    assert render_value(shown.alt, "en") == "The course of leave request L-0001, now at: Second approval"
    await there.decide(WANG, "L-0001-2", "approve")
    ended = await picture(there, ZHANG, "L-0001")
    assert ended.active == () and "leave_approved" in ended.done


async def test_a_process_by_itself_is_shown_to_everybody(there: Office) -> None:
    for name in ("leave", "请假", "Leave"):
        shown = await picture(there, ZHAO, name)
        assert (shown.done, shown.active, render_value(shown.title, "zh")) == ((), (), "请假流程")


def test_names_of_nodes_in_both_languages() -> None:
    leave, _ = load_shipped_processes()
    assert get_node_label(leave.definition, "second_level") == {"zh": "二级审批", "en": "Second approval"}
    assert get_node_label(leave.definition, "length") == {"zh": "多少天？", "en": "How long?"}
    assert get_node_label(leave.definition, "elsewhere") == {"zh": "elsewhere", "en": "elsewhere"}
    assert get_node_label(leave.definition, "withdrawal") == {"zh": "撤回", "en": "withdrawal"}
