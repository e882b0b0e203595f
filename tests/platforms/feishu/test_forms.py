"""Dialogs and forms as cards: every kind of field as an input and back, nothing cut, nothing refused by Feishu."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bot.chat.messages import Dialog, FormDialog, FormInput, FormProblem, HomeDialog
from bot.platforms.feishu import forms
from bot.platforms.feishu.forms import PageState, parse_form_value, render_dialog, render_form
from bot.platforms.feishu.home import render_home_dialog
from bot.platforms.feishu.values import CancelValue, FormValue, HomeDialogValue, PressValue, parse_value
from tests.golden.shown import FORM, HOME_DIALOG
from tests.platforms.feishu.card_schema import check_card, hold_limits, walk
from tests.platforms.feishu.reader import list_markdown, list_tags, list_values, read_cards, squeeze
from tests.platforms.feishu.strategies import GROUP, INPUTS, SLOW, WRITTEN, dialogs
from tests.tools.company import SICK, filled
from tools.cards.fields import build_dialog_fields
from tools.characters import show_invisible
from tools.spec import DialogField
from tools.workflow.process.definition import load_shipped_processes

LI, ZHANG = "ou_7d8a6e6df7621556ce0d21922b676706", "ou_00000000000000000000000000000001"
LABEL = {"tag": "plain_text", "content": "x"}
PEOPLE = {LI: "li@example.com", ZHANG: "zhang@example.com"}
FOUND = st.builds(FormProblem, field=st.sampled_from(["field_1", "x"]), label=st.just("L"), text=WRITTEN)
PROBLEMS = st.lists(FOUND, max_size=3)


def dialog(*fields: DialogField, **more: Any) -> Dialog:
    return Dialog(
        title="Edit", submit="Save", cancel="Back", approval="A1", version=1, choice="edit", place=GROUP,
        inputs=tuple(FormInput(f, f.name, tuple((one, words["en"]) for one, words in f.choices)) for f in fields),
        **more,
    )  # fmt: skip


def inputs(card: Any) -> list[dict[str, Any]]:
    return [one for one in walk(card) if "name" in one and one["tag"] not in ("form", "button")]


def element(field: DialogField, people: dict[str, str] | None = None) -> dict[str, Any]:
    shown = render_dialog(dialog(field), PageState("en", people=people))
    assert shown is not None and check_card(shown) == []
    return inputs(shown)[0]


def test_every_kind_has_its_input() -> None:
    choices = (("a", {"en": "A"}), ("b", {"en": "B"}))
    base = {"name": "x", "width": "fill"}
    picked = {**base, "options": [{"value": LI}, {"value": ZHANG}]}
    day, text = {**base, "tag": "date_picker", "name": "x~day"}, {**base, "tag": "input"}
    several = {"input_type": "multiline_text", "rows": 4, "auto_resize": True}
    number = {**text, "required": True, "label": LABEL | {"content": "x *"}, "default_value": "1.5"}
    for kind, value, required, shown in (
        ("date", "2026-11-20", False, {**day, "initial_date": "2026-11-20"}),
        ("date", "soon", True, {**day, "required": True}),
        ("person", LI, False, {"tag": "select_person", **picked, "initial_option": LI}),
        ("people", f"{LI},{ZHANG}", False, {"tag": "multi_select_person", **picked, "selected_values": [LI, ZHANG]}),
        ("number", "1.5", True, number),
        ("long", "", False, {**text, "label": LABEL, **several}),
    ):
        field = DialogField(name="x", label="x", kind=kind, value=value, required=required, max_length=20)
        longest = {"max_length": 20} if shown["tag"] == "input" else {}
        assert element(field, PEOPLE) == {**shown, **longest}
    chosen = element(DialogField(name="x", label="x", kind="choice", value="b", required=False, choices=choices))
    assert chosen["initial_index"] == 2 and [one["value"] for one in chosen["options"]] == ["a", "b"]
    many = {f"ou_{number:032}": f"p{number}@example.com" for number in range(400)}
    shown = element(DialogField(name="x", label="x", kind="person", value=f"ou_{7:032}"), many)
    found = (shown["tag"], shown["default_value"])
    assert found == ("input", "p7@example.com"), "people of a large company are found by their words"


def test_files_are_listed_to_be_left_out_and_otherwise_asked_for_in_a_message() -> None:
    files = (("om_1/file/k1", {"en": "a.pdf"}), ("om_1/file/k2", {"en": "b.pdf"}))
    shown = element(DialogField(name="x", label="x", kind="file", choices=files))
    assert shown["tag"] == "multi_select_static" and shown["selected_values"] == [id for id, _ in files]
    assert shown["required"] is False, "each can be left out"
    bare = render_dialog(dialog(DialogField(name="x", label="x", kind="file")), PageState("zh"))
    assert bare is not None and inputs(bare) == [] and "先在这个会话里把文件发给我" in read_cards((bare,))


def test_what_was_put_in_comes_back() -> None:
    """The shapes are those of the page *表单容器*."""
    given = {
        "day~day": "2024-04-01 +0800", "text": "1234", "who": LI, "several": [LI, ZHANG], "kind": "1", "no": None,
        "yes": True, "note": "2024-04-01 +0800", "mail": "a", "mail~2": "b", "mail~10": "j", 7: "x",
    }  # fmt: skip
    assert parse_form_value(given) == {
        "day": "2024-04-01", "text": "1234", "who": LI, "several": f"{LI},{ZHANG}", "kind": "1", "no": "", "yes": "",
        "note": "2024-04-01 +0800", "mail": "abj",
    }  # fmt: skip
    for odd in (None, [], "x", {"x" * 300: "y"}, {"x": {"y": "z"}}):
        assert set("".join(parse_form_value(odd).values())) == set()
    assert len(parse_form_value({f"n{n}": "x" for n in range(900)})) == forms.FIELDS_MAX
    assert len(parse_form_value({"x": "y" * 99_999, "x~2": "z" * 99_999})["x"]) == forms.VALUE_MAX
    assert parse_form_value({"x": "\ud800"}) == {"x": "\ufffd"}


@given(st.lists(st.sampled_from(["word ", "字", "\n", "  ", "😀", "x"]), max_size=2_000).map("".join))
def test_a_long_text_is_whole_in_its_inputs(value: str) -> None:
    shown = render_dialog(dialog(DialogField(name="text", label="x", kind="long", value=value)), PageState("en"))
    assert shown is not None and check_card(shown) == []
    parts = {one["name"]: one.get("default_value", "") for one in inputs(shown)}
    assert all(len(one) <= forms.LONGEST for one in parts.values())
    assert parse_form_value(dict(reversed(parts.items()))) == {"text": value}


@SLOW
@given(dialogs(), st.integers(0, 2), PROBLEMS)
def test_dialogs_are_such_as_feishu_takes(asked: Dialog, page: int, problems: list[FormProblem]) -> None:
    state = PageState("en", page=page, values={"field_0": "x"}, problems=problems, people=PEOPLE)
    shown = render_dialog(asked, state)
    if shown is None:  # too much for a card: its person is told
        return
    hold_limits((shown,))
    read = squeeze(read_cards((shown,)))
    assert all(squeeze(show_invisible(one.text)) in read for one in problems)
    if not page:
        words = [asked.title, asked.lead, asked.matter,
                 *(one.field.value for one in asked.inputs if one.field.kind == "shown")]  # fmt: skip
        assert all(squeeze(show_invisible(one)) in read for one in words)
    for content in list_markdown((shown,)):
        for tag in list_tags(content):
            assert tag == "</at>" or tag.startswith("<at id=ou_")


def test_problems_stand_under_their_fields_and_the_input_stays() -> None:
    fields = (DialogField(name="a", label="a", value="old"), DialogField(name="b", label="b"))
    problems = [FormProblem("b", "B", "Too <b>long</b>"), FormProblem("gone", "", "Other")]
    shown = render_dialog(dialog(*fields), PageState("en", typed={"a": "new"}, problems=problems))
    assert shown is not None and check_card(shown) == []
    form = next(one for one in walk(shown) if one.get("tag") == "form")
    told = [one.get("default_value") or one.get("text", {}).get("content") for one in form["elements"][:-1]]
    assert told == ["Other", "new", None, "Too <b>long</b>"]
    bare = render_dialog(dialog(*fields), PageState("en"))
    assert bare is not None and "'red'" not in str(bare) and "'default_value': 'old'" in str(bare)


def test_a_form_has_no_buttons_that_lead_nowhere_and_is_none_if_a_card_cannot_carry_it() -> None:
    state = PageState("zh", problems=(FormProblem("start_date", "开始", "已经过去"),))
    shown = render_form(FORM, state)
    assert shown is not None and "开始: 已经过去" in read_cards((shown,))
    alone = render_form(replace(FORM, choices=(), more=""), state)
    assert alone is not None and [type(parse_value(one)) for one in list_values(alone)] == [FormValue, CancelValue]
    assert render_form(replace(FORM, values=(("text", "字" * 3_000),)), state) is None, "carried by two buttons"
    assert render_form(replace(FORM, values=(("text", "字" * 300),)), state) is not None, "the control"
    assert render_dialog(dialog(DialogField(name="x", label="x", kind="shown", value="字" * 9_000)), state) is None


@SLOW
@given(INPUTS, WRITTEN, PROBLEMS)
def test_forms_are_such_as_feishu_takes(rows: tuple[FormInput, ...], note: str, problems: list[FormProblem]) -> None:
    form = FormDialog("Leave", "Check", "Close", "leave", 0, rows, (("a", note),), (note,), (note,), "More")
    if shown := render_form(form, PageState("en", problems=problems, people=PEOPLE)):
        hold_limits((shown,))
        read = squeeze(read_cards((shown,)))
        assert all(squeeze(show_invisible(one)) in read for one in (note, *(problem.text for problem in problems)))
    home = HomeDialog(title="Urge", cancel="Close", submit="Urge", action="urge", inputs=rows, notice=note)
    if opened := render_home_dialog(home, PageState("en", problems=problems, people=PEOPLE)):
        hold_limits((opened,))


def test_a_dialog_of_home_presses_a_card_only_if_it_shows_it_whole() -> None:
    shown = render_home_dialog(HOME_DIALOG, PageState("zh"))
    assert shown is not None and check_card(shown) == []
    values = [parse_value(one) for one in list_values(shown)]
    submit = HomeDialogValue(action="urge", value="L-0001", form={"text": "y"}, seal="5ea1")
    assert submit in values and [one.on_page for one in values if isinstance(one, PressValue)] == [True, True]
    assert HOME_DIALOG.card is not None
    long = render_home_dialog(replace(HOME_DIALOG, card=replace(HOME_DIALOG.card, body="字" * 9_000)), PageState("zh"))
    assert long is not None and not any(isinstance(parse_value(one), PressValue) for one in list_values(long))
    assert submit in [parse_value(one) for one in list_values(long)]


def test_the_shipped_forms_open_as_dialogs_that_feishu_takes() -> None:
    for process in load_shipped_processes():
        values = filled(process, SICK).values if process.key == "leave" else {}
        asked = replace(dialog(*build_dialog_fields(process, values)), more="More Options…")
        pages = [render_dialog(asked, PageState("zh", page=page, people=PEOPLE)) for page in range(forms.PAGES)]
        assert all(one is not None and check_card(one) == [] for one in pages)
        found = [len({str(i["name"]).partition("~")[0] for i in inputs(one)}) for one in pages]
        files = sum(one.field.kind == "file" for one in asked.inputs)
        assert max(found) <= forms.PAGE and sum(found) >= len(process.form.fields) - files
