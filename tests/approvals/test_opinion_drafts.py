"""A drafted opinion is shown to, filled in for, and recorded by its author, for its purpose."""

from typing import Any

from bot.approvals.opinion_drafts import (
    can_take_draft,
    fill_draft,
    get_draft,
    has_new_draft,
    list_draft_fields,
    read_form_answers,
)
from bot.chat.messages import Click
from bot.core.records import Approval, ApprovalState
from tests.approvals.approval_walk import OTHER, OWNER, PLACE, build_card, make_plan
from tests.harness.corpus import corpus
from tools.spec import CardChoice, CardField, DialogField, Gate, Proposal

WORDS = "祝早日康复"
REMARK = DialogField(name="opinion", label="opinion", kind="long")
PERSON = DialogField(name="person", label="person", kind="person", value="U3")
TEXT = DialogField(name="text", label="text", kind="shown", value="all of it")
APPROVE, APPROVE_WITH, REJECT, RETURN, TRANSFER = (
    CardChoice(name=name, fixed_args={"decision": decision}, fields=fields)
    for name, decision, fields in (
        ("approve", "approve", ()),
        ("approve_with", "approve", (REMARK,)),
        ("reject", "reject", (REMARK,)),
        ("return", "return", (REMARK,)),
        ("transfer", "transfer", (PERSON, REMARK)),
    )
)


def draft(meant: str = "", words: str = WORDS, by: str = OTHER) -> Proposal:
    args = {"task_id": "L-0001-1", "draft": words, "drafted_by": by, "meant": meant}
    return make_plan(args=args, choices=(APPROVE, APPROVE_WITH, REJECT, RETURN, TRANSFER))


def make_card(proposal: Proposal, **changes: Any) -> Approval:
    card = build_card(proposal, gate=Gate.APPROVE, place=None, created_ms=0, expires_ms=1)
    return card.model_copy(update=changes)


def press(choice: str, form: dict[str, str] | None = None, person: str = OTHER) -> Click:
    return Click(id="c", approval="A", version=1, choice=choice, person=person, place=PLACE, form=form)


FITTING = {
    "": {"approve", "approve_with", "reject", "return", "transfer"},
    "approve": {"approve", "approve_with"},
    "reject": {"reject", "return"},
    "return": {"reject", "return"},
}


@corpus("meant", *FITTING)
def test_the_dialogs_of_the_buttons_that_it_was_meant_for_have_it_for_who_has_drafted_it(meant: str) -> None:
    proposal = draft(meant)
    assert {one.name for one in proposal.choices if can_take_draft(proposal, one)} == FITTING[meant]
    for choice in proposal.choices:
        filled = {one.name: one.value for one in fill_draft(proposal, choice, OTHER).fields}
        plain = {one.name: one.value for one in choice.fields}
        expected = plain | ({"opinion": WORDS} if "opinion" in plain and choice.name in FITTING[meant] else {})
        assert filled == expected
        assert fill_draft(proposal, choice, OWNER) == choice, "and for nobody else"


@corpus(("meant", "label"), ("", "approve"), ("approve", "approve"), ("reject", "reject"))
def test_an_open_card_shows_it_to_who_has_drafted_it(meant: str, label: str) -> None:
    assert get_draft(draft(), OTHER) == WORDS
    assert get_draft(draft(), OWNER) == get_draft(make_plan(1), OTHER) == ""
    assert get_draft(draft(by=""), "") == "", "nobody has drafted anything"
    card = make_card(draft(meant))
    assert list_draft_fields(card, OTHER) == (CardField(label=f"draft_{label}", value=WORDS),)
    assert list_draft_fields(card, OWNER) == ()
    assert list_draft_fields(make_card(draft(meant), state=ApprovalState.DECIDED), OTHER) == ()


def test_approve_brings_the_draft_that_its_presser_was_shown() -> None:
    assert read_form_answers(draft(), APPROVE, press("approve")) == {"opinion": WORDS}
    assert read_form_answers(draft("approve"), APPROVE, press("approve")) == {"opinion": WORDS}
    assert read_form_answers(draft("reject"), APPROVE, press("approve")) == {}, "drafted for something else"
    assert read_form_answers(draft(), APPROVE, press("approve", person=OWNER)) == {}, "drafted by somebody else"
    assert read_form_answers(make_plan(1), APPROVE, press("approve")) == {}


def test_no_other_button_brings_the_draft_by_itself() -> None:
    """If a dialog exists, its content counts, including a removed draft."""
    for choice in (APPROVE_WITH, REJECT, RETURN, TRANSFER):
        assert read_form_answers(draft(), choice, press(choice.name, {"opinion": ""})) == {"opinion": ""}
        assert read_form_answers(draft(), choice, press(choice.name)) == {}
    assert read_form_answers(draft(), REJECT.model_copy(update={"fields": ()}), press("reject")) == {}


def test_a_form_brings_answers_to_the_inputs_of_its_dialog_and_nothing_else() -> None:
    choice = REJECT.model_copy(update={"fields": (REMARK, TEXT)})
    forged = {"opinion": "no", "text": "something else", "decision": "approve", "task_id": "L-0002-1"}
    assert read_form_answers(draft("approve"), choice, press("reject", forged)) == {"opinion": "no"}


@corpus("shown", make_plan(1), draft("reject"), draft(words="other"), draft(by=OWNER))
def test_a_draft_that_the_card_does_not_show_is_new(shown: Proposal) -> None:
    assert has_new_draft(make_card(shown), draft(), OTHER)
    assert not has_new_draft(make_card(shown), draft(), OWNER), "not theirs"
    assert not has_new_draft(make_card(shown, gate=Gate.CONFIRM), draft(), OTHER), "nothing is decided there"
    assert not has_new_draft(make_card(draft()), draft(), OTHER), "the card shows it"
    assert not has_new_draft(make_card(draft()), make_plan(2), OTHER), "it says nothing"
