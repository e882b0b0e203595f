"""The content and buttons of a card for each of its readers, in each of its states."""

from typing import Any

from bot.approvals.render import (
    MAX_FIELD,
    MAX_LINE,
    VALUE_MAX,
    describe_card_event,
    describe_proposal,
    find_choice,
    is_deputy,
    is_watcher,
    render_card,
    render_dialog,
    render_first_line,
    render_moved_card,
)
from bot.chat.messages import Button, Click, MessageRef, Moment, NamedPeople, NamedPerson
from bot.core.i18n import translate
from bot.core.records import Approval, ApprovalState, EffectState
from bot.core.redaction import forget_secrets, remember_secrets
from bot.features.footnotes.feature import render_candidates
from tests.approvals.approval_walk import PLACE, build_card
from tests.harness.corpus import corpus
from tests.harness.memory_platform import MemoryDirectory
from tests.tools.company import LI, WANG, ZHANG, ZHAO
from tools.spec import (
    CardChoice,
    CardField,
    DialogField,
    Gate,
    Identities,
    Identity,
    Person,
    Proposal,
    ReceiptLine,
    TextRef,
    ToolOutcome,
)

ABOUT: dict[str, Any] = {"process": {"zh": "请假", "en": "leave"}, "request": "L-0001", "requester": "张三"}
NAMES = {one.id: {"zh": one.name, "en": one.name} for one in (LI, WANG)}
WHO = Identities(people=(Identity(id=LI.id, name="李四", email=LI.email, is_name_shared=True),))
REMARK = DialogField(name="opinion", label="opinion", kind="long")
LEVEL = DialogField(
    name="level", label={"zh": "级别", "en": "Level"}, kind="choice", choices=(("1", {"zh": "一级", "en": "First"}),)
)
WHOLE = DialogField(name="whole", label="text", kind="shown", value="all of it")
REJECT = CardChoice(name="reject", fixed_args={"decision": "reject"}, fields=(REMARK, LEVEL))
PLAN = Proposal(
    args={"task_id": "L-0001-1", "draft": "好好休息", "drafted_by": LI.id, "meant": "reject"},
    title=TextRef(key="title.approve", params=ABOUT),
    own_title=TextRef(key="title.own", params=ABOUT),
    fields=(
        CardField(label="request", value="L-0001"),
        CardField(label={"zh": "事由", "en": "Reason"}, value="胃疼"),
        CardField(label="requester", value=WHO),
        CardField(label="status", value="waiting"),
        CardField(label="opinion", value="先前的话"),
        CardField(label="advice", value="approve it"),
    ),
    deciders=(LI.id,),
    requester=ZHANG.id,
    choices=(CardChoice(name="approve", style="primary"), REJECT),
    subject="L-0001-1",
    body="the text",
)
OPEN = build_card(
    PLAN, version=3, tool="decide_task", gate=Gate.APPROVE, caller="", place=None, created_ms=0, expires_ms=3_600_000
)
DECIDED: dict[str, Any] = {
    "state": ApprovalState.DECIDED,
    "decided_by": LI.id,
    "choice": "approve",
    "form": {"opinion": " 早日\n康复 "},
}
FAILED = {**DECIDED, "effect": EffectState.FAILED, "failure": TextRef(key="error.busy")}
UNKNOWN = {**DECIDED, "effect": EffectState.UNKNOWN}
OUTCOME = ToolOutcome(data={}, summary=TextRef(key="x"), receipt_line=ReceiptLine(text=TextRef(key="card.system")))
DONE = {**DECIDED, "effect": EffectState.DONE, "outcome": OUTCOME}
EXPIRED, CLOSED = {"state": ApprovalState.EXPIRED}, {"state": ApprovalState.CLOSED}


def make_card(**changes: Any) -> Approval:
    return OPEN.model_copy(update=changes)


# Buttons

OWN = {"gate": Gate.CONFIRM, "proposal": PLAN.model_copy(update={"deciders": (ZHANG.id,)}), "tool": "send_email"}


@corpus(
    ("changes", "reader", "choices"),
    ({}, LI, ["approve", "reject", "show"]),
    ({}, WANG, ["approve", "reject", "show"]),
    ({}, ZHANG, []),
    (OWN, ZHANG, ["approve", "reject"]),
    (EXPIRED, LI, ["again"]),
    (EXPIRED, ZHANG, ["again"]),
    (CLOSED, LI, []),
    (DECIDED, LI, []),
    (DONE, LI, []),
    (UNKNOWN, LI, ["happened", "redo"]),
    (UNKNOWN, WANG, []),
    (FAILED, LI, ["retry"]),
    (FAILED, WANG, []),
    (FAILED | {"failure": None}, LI, ["retry"]),
    (FAILED | {"failure": TextRef(key="error.altered")}, LI, []),
    (FAILED | {"failure": TextRef(key="error.request_changed")}, LI, []),
    (FAILED | {"failure": TextRef(key="error.task_closed")}, LI, []),
    (FAILED | {"failure": TextRef(key="error.own_level")}, LI, []),
    (FAILED | {"failure": TextRef(key="error.tool_changed")}, LI, []),
)
def test_a_card_offers_what_its_reader_can_press(changes: dict[str, Any], reader: Person, choices: list[str]) -> None:
    assert [one.choice for one in render_card(make_card(**changes), reader, NAMES).card.buttons] == choices


def test_a_button_says_what_it_does_and_names_the_version_that_it_belongs_to() -> None:
    first, *_, last = render_card(OPEN, LI, NAMES).card.buttons
    own = {"approval": "A", "version": 3, "seal": OPEN.shown_seal}
    assert first == Button(label="同意", choice="approve", style="primary", **own)
    assert last == Button(label="查看流程图", choice="show", **own)


def test_who_watches_and_who_stands_in() -> None:
    ours, theirs = (make_card(gate=gate) for gate in (Gate.APPROVE, Gate.CONFIRM))
    assert [is_watcher(ours, one) for one in (ZHANG, LI, WANG)] == [True, False, False]
    assert [is_deputy(ours, one) for one in (ZHANG, LI, WANG)] == [False, False, True]
    assert not any(says(theirs, one) for says in (is_watcher, is_deputy) for one in (ZHANG, WANG))


# Content

SUBJECT = ["申请编号", "事由", "申请人"]
DRAFT = "您的意见（草稿，点击「驳回」时已填好）"


def test_an_open_card_asks_and_says_until_when() -> None:
    post = render_card(OPEN, LI, NAMES)
    assert post.text == post.card.title == "张三的请假申请 L-0001 等您审批"
    assert (post.card.lead, post.card.body) == ("", "the text")
    assert post.card.footer == (Moment(3_600_000, "1970-01-01 09:00"), " 前有效")
    assert dict(post.card.facts)["申请人"] == NamedPeople(
        (NamedPerson(LI.id, "李四", LI.email, marks=(translate("card.name_shared", "zh"),)),)
    )
    assert dict(post.card.facts)[DRAFT] == "好好休息"
    assert "is away, so you decide" in render_card(OPEN, WANG, NAMES).card.footer[0]
    assert render_card(OPEN, ZHANG, NAMES).card.title == "您的请假申请 L-0001"
    several = make_card(proposal=PLAN.model_copy(update={"deciders": (LI.id, WANG.id, "U9")}))
    assert render_card(several, LI, NAMES).card.footer[0] == "等李四、王五、U9 决定 · "


def test_a_card_that_is_over_leads_with_what_became_of_it() -> None:
    card = render_card(make_card(**DONE), LI, NAMES).card
    assert card.title == "您已同意：张三的请假申请 L-0001"
    shared = render_card(make_card(**DONE), LI, NAMES, is_shared=True).card
    assert shared.title == "李四已同意：张三的请假申请 L-0001", "where others read it too"
    assert render_card(make_card(**DONE), ZHANG, NAMES).card.title.startswith("李四已同意")
    assert describe_card_event(make_card(**DONE), LI, NAMES).startswith("李四已同意"), "a model is nobody’s *you*"
    assert card.lead == "结果：系统\n意见：早日 康复"
    assert card.when == Moment(0, "1970-01-01 08:00") and card.footer == "" and card.body == "the text"
    assert render_card(make_card(**DONE), LI, NAMES).text == card.title


def test_a_copy_that_was_sent_again_says_so_and_nothing_of_how_it_stands() -> None:
    post = render_moved_card(make_card(**DONE), ZHANG)
    assert post.card.title == translate("card.moved", "zh")
    assert post.card.lead == "您的请假申请 L-0001" and post.text == f"{post.card.title} {post.card.lead}"
    assert [label for label, _ in post.card.facts] == [*SUBJECT, "审批意见"]
    assert (post.card.buttons, post.card.footer, post.card.body) == ((), "", "the text")


# History and texts for a model


def test_a_dm_remembers_what_an_open_card_is_about_and_what_was_said_first() -> None:
    said = describe_card_event(OPEN, ZHANG, NAMES)
    assert said == "您的请假申请 L-0001 “审批意见: 先前的话; 事由: 胃疼; 申请人: 李四”"
    long = PLAN.model_copy(update={"fields": (CardField(label="remark", value="很" * 100),)})
    assert "很" * (VALUE_MAX - 1) + "…”" in describe_card_event(make_card(proposal=long), LI, NAMES)
    assert describe_card_event(make_card(**DONE), LI, NAMES).endswith("张三的请假申请 L-0001 意见：「早日 康复」")
    assert describe_card_event(make_card(**DONE | {"form": {}}), LI, NAMES).endswith("张三的请假申请 L-0001")


def test_a_model_is_told_of_a_card_in_one_bounded_line_without_secrets() -> None:
    fields = (CardField(label="remark", value="很\n" * 100), CardField(label="text", value="my hunter22 is"))
    plan = PLAN.model_copy(update={"fields": fields, "body": f"hunter22 {'字' * 200}"})
    secret = TextRef(key="title.mail", params={"name": "hunter22"})
    remember_secrets(["hunter22"])
    try:
        line = describe_proposal(plan, LI)
        own = describe_proposal(plan.model_copy(update={"title": secret}), LI)
    finally:
        forget_secrets()
    title, remark, text, body = line.split(" · ")
    assert title == "张三的请假申请 L-0001 等您审批" and len(line) <= MAX_LINE
    assert remark == f"说明: {('很 ' * 100)[: MAX_FIELD - 1]}…" and text == "内容: my *** is"
    assert body == f"*** {'字' * 200}"[: MAX_FIELD - 1] + "…"
    assert "hunter22" not in own
    assert describe_proposal(PLAN.model_copy(update={"body": "", "fields": ()}), LI) == title
    assert len(describe_proposal(plan.model_copy(update={"fields": plan.fields * 9}), LI)) == MAX_LINE


# Dialogs and candidates


def test_a_dialog_asks_in_its_readers_language_and_has_their_draft() -> None:
    at = MessageRef(channel="D1", ts="1")
    click = Click(id="c", approval="A", version=3, choice="reject", person=LI.id, place=PLACE, card=at)
    choice = find_choice(PLAN, "reject")
    assert choice is not None and find_choice(PLAN, "show") is None
    dialog = render_dialog(OPEN, choice, LI, click)
    assert (dialog.title, dialog.submit, dialog.cancel) == ("驳回 L-0001", "驳回", "关闭")
    assert (dialog.approval, dialog.version, dialog.choice) == ("A", 3, "reject")
    assert (dialog.place, dialog.card) == (PLACE, at)
    assert [(one.label, one.options) for one in dialog.inputs] == [("审批意见", ()), ("级别", (("1", "一级"),))]
    assert [one.field.value for one in dialog.inputs] == ["好好休息", ""]
    others = render_dialog(OPEN, choice, WANG, click).inputs
    assert [one.field.value for one in others] == ["", ""], "nobody else's"
    reads = render_dialog(OPEN, CardChoice(name="confirm", fields=(WHOLE,)), LI, click)
    assert (reads.title, reads.submit) == ("请先看完全文", "确认")


async def test_candidates_are_told_apart_by_what_they_cannot_choose_themselves() -> None:
    unlike = {"id": "U7", "email": "", "department": "销售", "is_in_directory": False, "manager": None}
    other = LI.model_copy(update=unlike)
    staff = MemoryDirectory([ZHANG, LI, WANG, ZHAO, other])
    shown = await render_candidates(staff, [LI.id, "U7", "U9"], "zh")
    assert shown is not None and shown.text == "可能是这几位"
    same = translate("card.name_shared", "zh")
    assert shown.people == (
        NamedPerson(LI.id, "李四", LI.email, more=("上级：王五",), marks=(same,)),
        NamedPerson("U7", "李四", "", more=("销售",), marks=(same, translate("card.not_in_directory", "zh"))),
        NamedPerson("U9", "U9"),
    )
    assert await render_candidates(staff, [], "zh") is None


def test_the_first_line_of_an_open_card_has_its_scope_in_the_readers_language() -> None:
    scope = {"zh": "年假，2 个工作日", "en": "Annual leave, 2 working days"}
    card = make_card(proposal=PLAN.model_copy(update={"scope": scope}))
    assert render_first_line(card, LI) == "张三的请假申请 L-0001 等您审批：年假，2 个工作日"
    assert render_first_line(card, WANG).endswith("needs your decision: Annual leave, 2 working days")
    asks = {"title": TextRef(key="title.start", params=ABOUT), "own_title": None, "scope": scope}
    question = make_card(proposal=PLAN.model_copy(update=asks))
    assert render_first_line(question, LI) == "发起请假申请？年假，2 个工作日"
    assert render_first_line(question, WANG) == "Start this leave request? Annual leave, 2 working days"
    assert render_first_line(OPEN, LI) == "张三的请假申请 L-0001 等您审批", "a card of before has none"


def test_nobody_is_told_who_they_are_themselves_but_of_others_with_them() -> None:
    wang = Identity(id=WANG.id, name="王五", names={"en": "Wang Wu"})
    alone, both = Identities(people=WHO.people), Identities(people=(*WHO.people, wang))

    def labels(reader: Person, value: Identities | str, *, tells_others: bool) -> list[str]:
        fields = (CardField(label="requester", value=value, tells_others=tells_others),)
        card = make_card(proposal=PLAN.model_copy(update={"fields": fields}))
        return [label for label, _ in render_card(card, reader, NAMES).card.facts]

    assert labels(LI, alone, tells_others=True) == [DRAFT], "their own draft stays"
    assert labels(WANG, alone, tells_others=True) == ["Requested by"]
    assert labels(LI, both, tells_others=True) == ["申请人", DRAFT]
    assert labels(LI, alone, tells_others=False) == ["申请人", DRAFT], "a recipient or a handover is always shown"
    assert labels(LI, "采购部", tells_others=True) == ["申请人", DRAFT], "a text that decides who is asked is no person"
    fields = (CardField(label="requester", value=both),)
    card = render_card(make_card(proposal=PLAN.model_copy(update={"fields": fields})), WANG, NAMES).card
    assert [one.name for one in card.facts[0][1].people] == ["李四", "Wang Wu"]
