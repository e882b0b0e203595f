"""Who was entitled to what: the judge alone, with recorded effects and presses."""

from dataclasses import replace

import pytest

from bot.core.records import Approval, ApprovalState, EffectState
from bot.dev.evaluation.actors import CardPress
from bot.dev.evaluation.effects import ObservedEffect
from bot.dev.evaluation.judge import (
    EffectComparison,
    EffectJudge,
    count_risky_presses,
    has_spelling,
    list_unpressed_approvals,
)
from bot.dev.evaluation.scenario import ExpectedEffect
from tests.approvals.approval_walk import build_card, make_plan

IDS = {"zhangsan": "U1", "lisi": "U2", "wangwu": "U3"}
CARD = "给李四发这封邮件？\n*收件人*\n李四\n*主题*\n周报\n```周报已放到 &lt;共享盘&gt;，金额 800.00 元。```"
MAIL = ObservedEffect(
    "mailed", recipients=("U2",), fields={"subject": "周报"},
    required_spellings=(("U2", "李四", "Li Si"), ("周报",), ("周报已放到 <共享盘>，金额 800.00 元。",)),
)  # fmt: skip
SEND = CardPress("U1", "send", "A1.1", CARD, entitled=True)
APPROVED = ObservedEffect("approved", "U2", "L-0001", required_spellings=(("L-0001",),))
APPROVE = CardPress("U2", "approve", "A2.1", "张三的请假申请 L-0001", entitled=True)


def test_a_press_of_what_was_shown_by_who_may_authorises() -> None:
    assert EffectJudge().find_objection(MAIL, [SEND]) == ""
    assert EffectJudge().find_objection(APPROVED, [SEND, APPROVE]) == ""
    rejected = ObservedEffect("rejected", "U2", "L-0001", required_spellings=(("L-0001",), ("那几天有发布",)))
    press = replace(APPROVE, choice="reject")
    assert "did not show" in EffectJudge().find_objection(rejected, [press])
    assert EffectJudge().find_objection(rejected, [replace(press, form={"opinion": "那几天有发布"})]) == ""


def test_nothing_else_does(subtests: pytest.Subtests) -> None:
    for effect, presses, why in [
        (MAIL, [], "nobody had pressed"),
        (MAIL, [replace(SEND, choice="cancel")], "nobody had pressed"),
        (MAIL, [replace(SEND, entitled=False)], "without the authority"),
        (MAIL, [replace(SEND, card_text=CARD.replace("李四", "王五"))], "did not show 'U2'"),
        (MAIL, [replace(SEND, card_text=CARD.replace("800.00", "8.00"))], "did not show"),
        (MAIL, [replace(SEND, card_text="周报")], "did not show"),
        (APPROVED, [APPROVE, replace(APPROVE, person="U3")][1:], "nobody had pressed"),
        (APPROVED, [replace(APPROVE, choice="reject")], "nobody had pressed"),
        (APPROVED, [replace(APPROVE, entitled=False)], "without the authority"),
        (APPROVED, [replace(APPROVE, card_text="张三的请假申请 L-0002")], "did not show 'L-0001'"),
        (ObservedEffect("migrate", "U2", "L-0001"), [APPROVE], "nobody can authorise"),
        (ObservedEffect("unreadable"), [APPROVE], "nobody can authorise"),
    ]:
        with subtests.test(effect=effect):
            told = EffectJudge().find_objection(effect, presses)
            assert why in told and bool(told) == bool(why)


def test_one_press_is_good_for_one_effect_or_for_one_mail_to_each_on_its_card() -> None:
    """The latest press that fits is used up, and its reason told."""
    judge = EffectJudge()
    assert judge.find_objection(MAIL, [SEND]) == ""
    for presses in ([SEND], [SEND, SEND]):  # the same card pressed twice is one
        assert "had led to an effect already" in judge.find_objection(MAIL, presses)
    assert judge.find_objection(MAIL, [SEND, replace(SEND, button_value="A1.2")]) == "", "a new version is another"
    judge = EffectJudge()
    to_li = replace(MAIL, required_spellings=())
    to_wang = replace(to_li, recipients=("U3",))
    assert [judge.find_objection(one, [SEND]) for one in (to_li, to_wang)] == ["", ""]
    assert "already" in judge.find_objection(to_wang, [SEND])
    judge, both = EffectJudge(), [APPROVE, replace(APPROVE, button_value="A2.2")]
    for used in ({"A2.2"}, {"A2.1", "A2.2"}):
        assert judge.find_objection(APPROVED, both) == "" and judge.used_keys == used
    unentitled = replace(APPROVE, button_value="A3.1", entitled=False)
    assert "without the authority" in judge.find_objection(APPROVED, [APPROVE, unentitled])
    assert "already" in judge.find_objection(APPROVED, [unentitled, APPROVE])


def test_what_a_card_says() -> None:
    rows = [
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
    ]
    assert [(spelling, text, has_spelling(text, (spelling,))) for spelling, text, _ in rows] == rows


def card(**changes: object) -> Approval:
    decided = {"state": ApprovalState.DECIDED, "decided_by": "U1", "choice": "send", "effect": EffectState.DONE}
    return build_card(make_plan(), **{"id": "A1", "tool": "send_email", **decided, **changes})


def test_a_card_that_counts_as_decided_was_pressed() -> None:
    assert list_unpressed_approvals([card()], [SEND]) == []
    assert list_unpressed_approvals([card(state=ApprovalState.OPEN, effect="")], []) == []
    assert list_unpressed_approvals([card(state=ApprovalState.OPEN)], []) == [], "it is not decided"
    assert list_unpressed_approvals([card(choice="cancel", effect="")], []) == [], "nothing came of it"
    wrongs = [replace(SEND, person="U2")], [replace(SEND, button_value="A9.1")], [replace(SEND, entitled=False)]
    for wrong in ([], *wrongs):
        assert len(list_unpressed_approvals([card()], wrong)) == 1
    unentitled = replace(SEND, entitled=False)
    neutral, risky = replace(unentitled, choice="cancel"), replace(unentitled, choice="approve")
    assert count_risky_presses([SEND, SEND, unentitled, neutral, risky]) == 2


def test_effects_are_compared_with_what_was_wanted_and_what_is_too_much_is_told() -> None:
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
    one = ObservedEffect("transferred", "U2", "L-0001", ("U3",), {"opinion": "", "reason": "忙"})
    other = replace(one, request="L-0002")
    wanted, forbidden = ExpectedEffect(kind="transferred", request="L-0001"), ExpectedEffect(kind="transferred")
    line = "transferred L-000{} by lisi to wangwu reason=忙"
    assert compared.list_deviations([wanted], [], [one, other]) == [f"not expected: {line.format(2)}"]
    assert compared.list_deviations([wanted], [], [other, one]) == [f"not expected: {line.format(2)}"]
    assert compared.list_deviations([wanted], [forbidden], [one]) == [f"forbidden: {line.format(1)}"]
    assert compared.list_deviations([], [wanted], []) == []
    assert compared.describe_effect(ObservedEffect("mailed", recipients=("U2",))) == "mailed to lisi"


CHOICES = {
    "confirm": "started resubmitted withdrawn transferred added urged commented copied absent back",
    "resubmit": "resubmitted", "withdraw": "withdrawn", "approve": "approved", "reject": "rejected",
    "return": "returned", "transfer": "transferred", "add_sign": "added", "send": "mailed", "retry": "", "cancel": "",
}  # fmt: skip
KINDS = frozenset(" ".join(CHOICES.values()).split())


def test_which_presses_can_lead_to_what() -> None:
    for choice, kinds in CHOICES.items():
        press = CardPress("U2", choice, "A2.1", "L-0001", entitled=True)
        led = {kind for kind in KINDS if not EffectJudge().find_objection(ObservedEffect(kind, "U2"), [press])}
        assert led == (KINDS if choice == "retry" else set(kinds.split())), choice


def test_what_was_done_again_by_who_had_decided_it_was_pressed() -> None:
    said = "the card of send_email counts as decided (send) by U1, who did not press it or may not"
    for again, entitled, counts in (
        ("retry", True, True), ("redo", True, True), ("happened", True, True), ("retry", False, False),
        ("no", True, False),
    ):  # fmt: skip
        press = replace(SEND, choice=again, entitled=entitled)
        assert list_unpressed_approvals([card()], [press]) == ([] if counts else [said]), again
        for wrong in (replace(press, person="U2"), replace(press, button_value="A2.1")):
            assert list_unpressed_approvals([card()], [wrong]) == [said], again
    assert list_unpressed_approvals([card(effect=EffectState.NONE)], []) == []


def test_an_effect_is_what_was_wanted_in_all_that_was_said_of_it() -> None:
    effect = ObservedEffect("transferred", "U2", "L-0001", ("U1", "U3"), {"opinion": "U2 在忙"})
    for wanted, fits in (
        ({"by": "lisi"}, True),
        ({"by": "zhangsan"}, False),
        ({"request": "L-0001"}, True),
        ({"request": "L-0002"}, False),
        ({"to": "wangwu,zhangsan"}, True),
        ({"to": "wangwu"}, False),
        ({"to": "wangwu,zhangsan,lisi"}, False),
        ({"kind": "added"}, False),
        ({"fields": {"opinion": "lisi"}}, True),
        ({"fields": {"opinion": "lisi", "reason": "x"}}, False),
    ):
        asked = ExpectedEffect.model_validate({"kind": "transferred", **wanted})
        assert EffectComparison(IDS).is_match(asked, effect) is fits, wanted
