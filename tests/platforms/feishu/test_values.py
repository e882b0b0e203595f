"""What buttons carry: what is built comes back as it was, and nothing else is read."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.chat.messages import MessageRef, Place
from bot.core.work_items import TICKED
from bot.platforms.feishu import values
from tests.harness.corpus import corpus

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
CARRIED = st.dictionaries(TEXT, TEXT, max_size=5)
NUMBER = st.integers(0, 10**9 - 1)
PLACE = st.builds(
    Place,
    platform=st.just("feishu"), team=TEXT, channel=TEXT, thread=st.one_of(st.none(), TEXT),
    direct=st.booleans(), shared=st.booleans(),
)  # fmt: skip
CARD = st.one_of(st.none(), st.builds(MessageRef, channel=TEXT, ts=TEXT))
PAGE = st.integers(0, 99)
VALUES: st.SearchStrategy[values.Value] = st.one_of(
    st.builds(
        values.PressValue,
        approval=TEXT, version=NUMBER, choice=TEXT, seal=TEXT, thread=TEXT, direct=st.booleans(),
        shared=st.booleans(), on_page=st.booleans(),
    ),
    st.builds(values.OpenFormValue, offer=TEXT, is_menu=st.booleans()),
    st.builds(
        values.DialogValue,
        approval=TEXT, version=NUMBER, choice=TEXT, place=PLACE, seal=TEXT, card=CARD, page=PAGE, values=CARRIED,
        kept=CARRIED, is_more=st.booleans(),
    ),
    st.builds(
        values.FormValue,
        process=TEXT, page=PAGE, has_choice=st.booleans(), values=CARRIED, kept=st.lists(TEXT, max_size=4).map(tuple),
        is_more=st.booleans(),
    ),
    st.builds(values.HomeValue, action=TEXT, value=TEXT),
    st.builds(values.HomeDialogValue, action=TEXT, value=TEXT, form=CARRIED, seal=TEXT),
    st.builds(values.CancelValue, title=TEXT),
)  # fmt: skip


@settings(max_examples=300)
@given(VALUES)
def test_what_is_built_comes_back(value: values.Value) -> None:
    built = values.build_value(value)
    assert all(isinstance(one, str) for one in built.values()), "Feishu's SDKs take nothing but texts"
    returned = json.loads(json.dumps(built))
    assert values.parse_value(returned) == value and type(values.parse_value(returned)) is type(value)


GOOD = values.build_value(values.PressValue(approval="A1", version=2, choice="approve"))


@corpus(
    "changed",
    {values.KIND: "other"}, {values.KIND: None}, {values.KIND: ["press"]}, {"version": "x"}, {"version": "-1"},
    {"version": "1.5"}, {"version": '"2"'}, {"version": "2e3"}, {"version": str(10**9)}, {"version": 2},
    {"direct": "1"},
    {"approval": "x" * (values.ID_MAX + 1)}, {"choice": 3}, {"choice": None}, {"more": "x"}, {"seal": ["x"]},
    {"version": "[" * 20_000}, {"thread": "x" * (values.CARRIED_MAX + 1)}, {"version": ""}, {"approval": "\ud800"},
)  # fmt: skip
def test_what_is_not_of_our_form_is_not_read(changed: dict[str, Any]) -> None:
    assert values.parse_value(GOOD) is not None, "the control"
    assert values.parse_value({**GOOD, **changed}) is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_anything_else_is_nothing(payload: Any) -> None:
    assert values.parse_value(payload) is None
    assert (
        values.parse_value(
            {values.KIND: "dialog", "approval": "A1", "version": "1", "choice": "x", "place": json.dumps(payload)}
        )
        is None
    )


def test_what_a_form_carries_is_bounded() -> None:
    about = values.build_value(values.FormValue(process="leave"))
    for carried in ({"x": 1}, {"x" * 300: "y"}, {str(n): "" for n in range(500)}, [], "x"):
        assert values.parse_value({**about, "values": json.dumps(carried)}) is None
    assert values.parse_value({**about, "values": '{"a":"b"}'}) == values.FormValue(process="leave", values={"a": "b"})
    assert values.parse_value({**about, "kept": json.dumps(["x"] * 51)}) is None


def test_the_press_brings_the_picked_person_and_what_is_ticked() -> None:
    form = {"tick~0": True, "tick~2": True, "tick~3": False, "tick~4": "true", "other": True, "tick~11": True}
    many = {f"tick~{n}": True for n in range(500)}
    for action, read in (
        ({"tag": "select_person", "option": "ou_1"}, {"person": "ou_1"}),
        ({}, None),
        ({"tag": "button", "option": "ou_1"}, None),
        ({"tag": "select_person", "option": ["x"]}, None),
        ({"tag": "select_person", "option": "x" * 300}, None),
        ({"tag": "button", "form_value": []}, None),
        ({"tag": "button", "form_value": form}, {TICKED: "0,2,11"}),
        ({"tag": "button", "form_value": {}}, {TICKED: ""}),
        ({"tag": "button", "form_value": {"tick~" + "x" * 300: True}}, {TICKED: ""}),
        ({"tag": "button", "form_value": many}, {TICKED: ",".join(map(str, range(values.MAX_TICKS)))}),
    ):
        assert values.read_press_form(action) == read, action
