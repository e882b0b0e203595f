"""What buttons carry: what is built comes back as it was, and nothing else is read."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.chat.feishu.values import (
    CARRIED_MAX,
    ID_MAX,
    KIND,
    KINDS,
    MAX_TICKS,
    CancelValue,
    DialogValue,
    FormValue,
    HomeDialogValue,
    HomeValue,
    OpenFormValue,
    PressValue,
    Value,
    build_value,
    parse_value,
    read_press_form,
)
from bot.chat.messages import MessageRef, Place
from bot.core.work_items import TICKED

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
DIALOG: dict[str, st.SearchStrategy[Any]] = {
    "approval": TEXT, "version": NUMBER, "choice": TEXT, "place": PLACE, "seal": TEXT, "card": CARD, "page": PAGE,
    "values": CARRIED, "kept": CARRIED, "is_more": st.booleans(),
}  # fmt: skip
FORM: dict[str, st.SearchStrategy[Any]] = {
    "process": TEXT, "page": PAGE, "has_choice": st.booleans(), "values": CARRIED,
    "kept": st.lists(TEXT, max_size=4).map(tuple), "is_more": st.booleans(),
}  # fmt: skip
VALUES: st.SearchStrategy[Value] = st.one_of(
    st.builds(
        PressValue,
        approval=TEXT, version=NUMBER, choice=TEXT, seal=TEXT, thread=TEXT, direct=st.booleans(),
        shared=st.booleans(), on_page=st.booleans(),
    ),
    st.builds(OpenFormValue, offer=TEXT, is_menu=st.booleans()),
    st.builds(DialogValue, **DIALOG),
    st.builds(FormValue, **FORM),
    st.builds(HomeValue, action=TEXT, value=TEXT),
    st.builds(HomeDialogValue, action=TEXT, value=TEXT, form=CARRIED, seal=TEXT),
    st.builds(CancelValue, title=TEXT),
)  # fmt: skip


@settings(max_examples=300)
@given(VALUES)
def test_what_is_built_comes_back(value: Value) -> None:
    built = build_value(value)
    assert all(isinstance(one, str) for one in built.values()), "Feishu's SDKs take nothing but texts"
    returned = json.loads(json.dumps(built))
    assert parse_value(returned) == value and type(parse_value(returned)) is type(value)


def test_every_kind_has_its_own_name() -> None:
    assert set(KINDS) == {"press", "open_form", "dialog", "form", "home", "home_dialog", "cancel"}
    assert len(set(KINDS.values())) == len(KINDS)


GOOD = build_value(PressValue(approval="A1", version=2, choice="approve"))


@pytest.mark.parametrize(
    "changed",
    [
        {KIND: "other"}, {KIND: None}, {KIND: ["press"]}, {"version": "x"}, {"version": "-1"}, {"version": "1.5"},
        {"version": '"2"'}, {"version": "2e3"}, {"version": str(10**9)}, {"version": 2}, {"direct": "1"},
        {"approval": "x" * (ID_MAX + 1)}, {"choice": 3}, {"choice": None}, {"more": "x"}, {"seal": ["x"]},
        {"version": "[" * 20_000}, {"thread": "x" * (CARRIED_MAX + 1)}, {"version": ""}, {"approval": "\ud800"},
    ],
)  # fmt: skip
def test_what_is_not_of_our_form_is_not_read(changed: dict[str, Any]) -> None:
    assert parse_value(GOOD) is not None, "the control"
    assert parse_value({**GOOD, **changed}) is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_anything_else_is_nothing(payload: Any) -> None:
    assert parse_value(payload) is None
    assert (
        parse_value({KIND: "dialog", "approval": "A1", "version": "1", "choice": "x", "place": json.dumps(payload)})
        is None
    )


def test_what_a_form_carries_is_bounded() -> None:
    about = build_value(FormValue(process="leave"))
    for values in ({"x": 1}, {"x" * 300: "y"}, {str(n): "" for n in range(500)}, [], "x"):
        assert parse_value({**about, "values": json.dumps(values)}) is None
    assert parse_value({**about, "values": '{"a":"b"}'}) == FormValue(process="leave", values={"a": "b"})
    assert parse_value({**about, "kept": json.dumps(["x"] * 51)}) is None


def test_the_press_brings_the_picked_person() -> None:
    assert read_press_form({"tag": "select_person", "option": "ou_1"}) == {"person": "ou_1"}
    for odd in ({}, {"tag": "button", "option": "ou_1"}, {"tag": "select_person", "option": ["x"]},
                {"tag": "select_person", "option": "x" * 300}, {"tag": "button", "form_value": []}):  # fmt: skip
        assert read_press_form(odd) is None


def test_the_press_brings_what_is_ticked() -> None:
    form = {"tick~0": True, "tick~2": True, "tick~3": False, "tick~4": "true", "other": True, "tick~11": True}
    assert read_press_form({"tag": "button", "form_value": form}) == {TICKED: "0,2,11"}
    assert read_press_form({"tag": "button", "form_value": {}}) == {TICKED: ""}
    many = {f"tick~{n}": True for n in range(500)}
    assert read_press_form({"tag": "button", "form_value": many})[TICKED].count(",") == MAX_TICKS - 1  # type: ignore[index]
    assert read_press_form({"tag": "button", "form_value": {"tick~" + "x" * 300: True}}) == {TICKED: ""}
