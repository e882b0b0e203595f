"""The parts of an effect: whether the rest can be done, and how each is told of."""

import pytest

from bot.approvals.render import describe_effect_parts, list_parts
from bot.approvals.state import is_resumable
from bot.core.records import Approval, compute_seal
from tests.approvals.approval_walk import PLACE, make_plan
from tools.effect_parts import PartState
from tools.spec import CardField, Gate, Identities, Identity

BEGUN, DONE, OPEN, REFUSED = PartState.BEGUN, PartState.DONE, PartState.OPEN, PartState.REFUSED
PEOPLE = Identities(people=(Identity(id="U2", name="李四"), Identity(id="U3", name="王五")))
PLAN = make_plan(1).model_copy(
    update={"fields": (CardField(label="subject", value="x"), CardField(label="to", value=PEOPLE))}
)


def make_card(parts: dict[str, PartState]) -> Approval:
    return Approval(
        id="A",
        version=1,
        tool="t",
        gate=Gate.CONFIRM,
        proposal=PLAN,
        seal=compute_seal("t", PLAN),
        caller="U1",
        place=PLACE,
        created_ms=0,
        expires_ms=1,
        parts=parts,
    )


def test_the_rest_can_be_done_when_of_each_part_it_is_known_whether_it_was() -> None:
    rows: list[tuple[dict[str, PartState], bool]] = [
        ({}, False),
        ({"U2": DONE}, True),
        ({"U2": OPEN, "U3": REFUSED}, True),
        ({"U2": DONE, "U3": BEGUN}, False),
        ({"U2": BEGUN}, False),
    ]
    assert [(parts, is_resumable(make_card(parts))) for parts, _ in rows] == rows


def test_who_has_it_and_who_has_not_is_told_by_the_names_on_the_card(subtests: pytest.Subtests) -> None:
    for parts, told in [
        ({}, {}),
        ({"U2": DONE, "U3": DONE}, {}),
        ({"U2": REFUSED, "U3": DONE, "U9": OPEN}, {DONE: ["王五"], REFUSED: ["李四"], OPEN: ["U9"]}),
        ({"U3": BEGUN, "U2": BEGUN}, {BEGUN: ["王五", "李四"]}),
    ]:
        with subtests.test(parts=parts):
            card = make_card(parts)
            assert list_parts(card, "zh") == told and list(list_parts(card, "zh")) == list(told), "in this order"
            said = describe_effect_parts(card, "zh")
            assert bool(said) is bool(told) and all(name in said for names in told.values() for name in names)


def test_on_one_line_each_state_has_its_words() -> None:
    said = describe_effect_parts(make_card({"U2": DONE, "U3": BEGUN}), "en")
    both = [
        describe_effect_parts(make_card({one: state, "U9": OPEN}), "en") for one, state in (("U2", DONE), ("U3", BEGUN))
    ]
    assert "李四" in said and "王五" in said and len({said, *both}) == 3
