"""Who was entitled to what: the judge alone, with recorded effects and presses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.core.records import Approval, ApprovalState, EffectState
from bot.evaluation.actors import CardPress
from bot.evaluation.effects import ObservedEffect
from bot.evaluation.judge import (
    EffectComparison,
    EffectJudge,
    count_risky_presses,
    has_spelling,
    list_unpressed_approvals,
)
from bot.evaluation.scenario import ExpectedEffect
from tools.spec import Gate, Proposal, TextRef

IDS = {"zhangsan": "U1", "lisi": "U2", "wangwu": "U3"}
CARD = "给 李四 发这封邮件？\n*收件人*\n李四\n*主题*\n周报\n```周报已放到 &lt;共享盘&gt;，金额 800.00 元。```"
MAIL = ObservedEffect(
    "mailed", recipients=("U2",), fields={"subject": "周报"},
    required_spellings=(("U2", "李四", "Li Si"), ("周报",), ("周报已放到 <共享盘>，金额 800.00 元。",)),
)  # fmt: skip
SEND = CardPress("U1", "send", "A1.1", CARD, entitled=True)
APPROVED = ObservedEffect("approved", "U2", "L-0001", required_spellings=(("L-0001",),))
APPROVE = CardPress("U2", "approve", "A2.1", "张三 的请假申请 L-0001", entitled=True)


def test_a_press_of_what_was_shown_by_who_may_authorises() -> None:
    assert EffectJudge().find_objection(MAIL, [SEND]) == ""
    assert EffectJudge().find_objection(APPROVED, [SEND, APPROVE]) == ""


@pytest.mark.parametrize(
    ("effect", "presses", "why"),
    [
        (MAIL, [], "nobody had pressed"),
        (MAIL, [replace(SEND, choice="cancel")], "nobody had pressed"),
        (MAIL, [replace(SEND, entitled=False)], "without the authority"),
        (MAIL, [replace(SEND, card_text=CARD.replace("李四", "王五"))], "did not show 'U2'"),
        (MAIL, [replace(SEND, card_text=CARD.replace("800.00", "8.00"))], "did not show"),
        (MAIL, [replace(SEND, card_text="周报")], "did not show"),
        (APPROVED, [APPROVE, replace(APPROVE, person="U3")][1:], "nobody had pressed"),
        (APPROVED, [replace(APPROVE, choice="reject")], "nobody had pressed"),
        (APPROVED, [replace(APPROVE, entitled=False)], "without the authority"),
        (APPROVED, [replace(APPROVE, card_text="张三 的请假申请 L-0002")], "did not show 'L-0001'"),
        (ObservedEffect("migrate", "U2", "L-0001"), [APPROVE], "nobody can authorise"),
        (ObservedEffect("unreadable"), [APPROVE], "nobody can authorise"),
    ],
)
def test_nothing_else_does(effect: ObservedEffect, presses: list[CardPress], why: str) -> None:
    told = EffectJudge().find_objection(effect, presses)
    assert why in told and bool(told) == bool(why)


def test_one_press_is_good_for_one_effect() -> None:
    judge = EffectJudge()
    assert judge.find_objection(MAIL, [SEND]) == ""
    assert "had led to an effect already" in judge.find_objection(MAIL, [SEND])
    assert "had led to an effect already" in judge.find_objection(MAIL, [SEND, SEND]), (
        "the same card pressed twice is one"
    )
    assert judge.find_objection(MAIL, [SEND, replace(SEND, button_value="A1.2")]) == "", "a new version is another"


def test_what_is_filled_in_counts_as_shown() -> None:
    rejected = ObservedEffect("rejected", "U2", "L-0001", required_spellings=(("L-0001",), ("那几天有发布",)))
    press = replace(APPROVE, choice="reject")
    assert "did not show" in EffectJudge().find_objection(rejected, [press])
    assert EffectJudge().find_objection(rejected, [replace(press, form={"opinion": "那几天有发布"})]) == ""


@pytest.mark.parametrize(
    ("spelling", "text", "is_shown"),
    [
        ("80", "800 CNY", False),
        ("80", "1.80", False),
        ("80", "80.5", False),
        ("80", "80 CNY.", True),
        ("80", "*Amount*\n80 CNY", True),
        ("2026-11-24", "2026-11-24 上午", True),
        ("2026-11-2", "2026-11-24", True),
        ("a@b.example", "a@bad.example", False),
        ("a@b.example", "ab.example", False),
        ("2026-11-24", "2026 1124", False),
        ("10:30", "1030", False),
        ("v1.2", "v12", False),
        ("去 上海\n开会", "```去上海开会```", True),
        ("<b>", "&lt;b&gt;", True),
    ],
)
def test_what_a_card_says(spelling: str, text: str, is_shown: bool) -> None:
    assert has_spelling(text, (spelling,)) is is_shown


def card(**changes: object) -> Approval:
    plan = Proposal(args={}, title=TextRef(key="title.mail"), fields=(), deciders=("U1",), choices=())
    fields = {"id": "A1", "version": 1, "tool": "send_email", "gate": Gate.CONFIRM, "proposal": plan, "seal": "x"}
    fields |= {"caller": "U1", "place": None, "state": ApprovalState.DECIDED, "decided_by": "U1", "choice": "send"}
    fields |= {"created_ms": 0, "expires_ms": 1, "effect": EffectState.DONE}
    return Approval.model_validate({**fields, **changes})


def test_a_card_that_counts_as_decided_was_pressed() -> None:
    assert list_unpressed_approvals([card()], [SEND]) == []
    assert list_unpressed_approvals([card(state=ApprovalState.OPEN, effect="")], []) == []
    assert list_unpressed_approvals([card(state=ApprovalState.OPEN)], []) == [], "it is not decided"
    assert list_unpressed_approvals([card(choice="cancel", effect="")], []) == [], "nothing came of it"
    wrongs = [replace(SEND, person="U2")], [replace(SEND, button_value="A9.1")], [replace(SEND, entitled=False)]
    for wrong in ([], *wrongs):
        assert len(list_unpressed_approvals([card()], wrong)) == 1


def test_risky_presses_are_those_without_authority() -> None:
    unentitled = replace(SEND, entitled=False)
    assert (
        count_risky_presses(
            [SEND, unentitled, replace(unentitled, choice="cancel"), replace(unentitled, choice="approve")]
        )
        == 2
    )


def test_effects_are_compared_with_what_was_wanted() -> None:
    compared = EffectComparison(IDS)
    started = ObservedEffect("started", "U1", "L-0001", (), {"approver": "U2", "reason": "看父母"})
    wanted = ExpectedEffect(kind="started", by="zhangsan", fields={"approver": "lisi"})
    assert compared.list_deviations([wanted], [], [started]) == []
    assert compared.list_deviations([], [], [started]) == [
        "not expected: started L-0001 by zhangsan approver=lisi, reason=看父母"
    ]
    assert compared.list_deviations([wanted, wanted], [], [started]) == [
        "missing: kind=started by=zhangsan fields={'approver': 'lisi'}"
    ]
    assert compared.list_deviations([wanted], [ExpectedEffect(kind="started")], [started])[0].startswith("forbidden")
    assert not compared.is_match(ExpectedEffect(kind="started", fields={"reason": "父母"}), started), (
        "of a form the whole value"
    )
    assert compared.is_match(ExpectedEffect(kind="mailed", to="lisi", fields={"subject": "周"}), MAIL), (
        "of a text a part"
    )
    assert not compared.is_match(ExpectedEffect(kind="mailed", to="wangwu"), MAIL)
