"""Every kind of a form's fields as an input, and back."""

from dataclasses import replace
from typing import Any

from bot.chat.messages import Dialog, FormInput, Place
from bot.dev.workspace.validate import check_view
from bot.platforms.slack.dialogs import PAGE, PAGES, parse_view_state, render_modal
from tests.tools.company import SICK, filled
from tools.cards.fields import FIELD_PREFIX, build_dialog_fields
from tools.spec import DialogField
from tools.workflow.process.definition import load_shipped_processes

PLACE = Place(team="T0", channel="D01ZHANG", thread="10.1", direct=True)


def dialog(*fields: DialogField) -> Dialog:
    return Dialog(
        title="Edit", submit="Save", cancel="Back", approval="A1", version=1, choice="edit", place=PLACE,
        inputs=tuple(FormInput(f, f.name, tuple((one, words["en"]) for one, words in f.choices)) for f in fields),
    )  # fmt: skip


def element(field: DialogField) -> dict[str, Any]:
    shown = render_modal(dialog(field))
    assert check_view(shown) == []
    return dict(shown["blocks"][0]["element"])


def test_several_persons_and_numbers_have_their_inputs_and_come_back() -> None:
    types = {"people": {"type": "multi_users_select"}, "number": {"type": "number_input", "is_decimal_allowed": True}}
    initials: dict[tuple[str, str], dict[str, Any]] = {
        ("people", "U01,U02LI"): {"initial_users": ["U01", "U02LI"]},
        ("people", ""): {},
        ("people", "李四,U01"): {"initial_users": ["U01"]},
        ("number", "2.5"): {"initial_value": "2.5"},
        ("number", "many"): {},
    }
    for (kind, value), initial in initials.items():
        shown = element(DialogField(name="x", label="x", kind=kind, value=value))
        assert shown == {**types[kind], "action_id": "cs:input", **initial}
    for state, value in (
        ({"type": "multi_users_select", "selected_users": ["U01", "U02LI"]}, "U01,U02LI"),
        ({"type": "multi_users_select", "selected_users": []}, ""),
        ({"type": "number_input", "value": "2.5"}, "2.5"),
        ({"type": "number_input", "value": None}, ""),
    ):
        assert parse_view_state({"x": {"cs:input": state}}) == {"x": value}


def test_the_shipped_forms_open_as_dialogs_that_slack_takes() -> None:
    for process in load_shipped_processes():
        given = filled(process, SICK).values if process.key == "leave" else {}
        asked = replace(dialog(*build_dialog_fields(process, given)), more="More Options…")
        pages = [render_modal(asked, page, {"field_reason": "x"}) for page in range(PAGES)]
        assert all(check_view(one) == [] for one in pages if one["blocks"])
        inputs = [[b for b in one["blocks"] if b["type"] == "input"] for one in pages]
        assert max(map(len, inputs)) <= PAGE and sum(map(len, inputs)) == len(process.form.fields), "six a page"
        leads_on = [any(b["type"] == "actions" for b in one["blocks"]) for one in pages]
        assert leads_on == [bool(inputs[1]), bool(inputs[2]), False]
        optional = {b["block_id"].removeprefix(FIELD_PREFIX) for one in inputs for b in one if b["optional"]}
        assert {"cc", "approver"} <= optional
        assert not {"reason", "leave_type", "amount"} & optional
