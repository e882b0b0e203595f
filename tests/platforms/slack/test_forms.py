"""Forms as Slack views: within its limits, and what comes back is bounded before it is believed."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bot.chat.messages import FormDialog, FormInput, FormProblem
from bot.dev.workspace.validate import check_view
from bot.platforms.slack.dialogs import assign_problems
from bot.platforms.slack.forms import METADATA, parse_form, render_form
from tools.spec import DialogField

TEXTS = st.text(max_size=400)


def build_dialog(**changes: Any) -> FormDialog:
    inputs = (FormInput(DialogField(name="reason", label="x", kind="long"), "Reason"),)
    given = {"title": "Leave", "submit": "Review", "cancel": "Close", "process": "leave", "page": 0, "inputs": inputs}
    return FormDialog(**{**given, **changes})


def build_body(view: dict[str, Any], values: dict[str, Any] | None = None) -> dict[str, Any]:
    state = {"values": values or {}}
    return {"user": {"id": "U1"}, "view": {**view, "id": "V2", "root_view_id": "V1", "state": state}}


@given(TEXTS, TEXTS, st.lists(TEXTS, max_size=30), st.lists(st.tuples(TEXTS, TEXTS), max_size=120))
def test_whatever_stands_in_it_slack_takes_the_view(
    title: str, label: str, notes: list[str], choices: list[tuple[str, str]]
) -> None:
    field = DialogField(name="reason", label="x", kind="long", value=title)
    told = {"notes": tuple(notes), "warnings": tuple(notes), "choices": (("leave", title), *choices)}
    one = FormInput(field, label, hint=label, is_watched=True)
    shown = render_form(build_dialog(title=title, inputs=(one,), more=label, **told))
    assert shown is not None and check_view(json.loads(json.dumps(shown))) == []


def test_what_a_view_cannot_carry_makes_none() -> None:
    assert render_form(build_dialog(page=1, values=(("reason", "字" * METADATA),))) is None
    assert render_form(build_dialog(page=1, values=(("reason", "😀" * (METADATA // 2)),))) is None
    assert render_form(build_dialog(page=1, values=(("reason", "字" * (METADATA - 100)),))) is not None


def test_what_was_filled_in_comes_back_with_what_the_page_before_had() -> None:
    shown = render_form(build_dialog(page=1, values=(("start_date", "2026-12-07"),)))
    assert shown is not None
    typed = {"reason": {"cs:form:input:leave": {"type": "plain_text_input", "value": "rest"}}}
    form = parse_form(build_body(shown, typed))
    assert (form.id, form.person, form.process, form.page) == ("V1", "U1", "leave", 1)
    assert form.values == {"start_date": "2026-12-07", "reason": "rest"}


GOOD = {"form": "leave", "page": 0, "choice": False, "values": {}}
ODD_METADATA: tuple[Any, ...] = (
    None, [], "x", {"form": "leave"}, GOOD | {"form": 1}, GOOD | {"page": -1}, GOOD | {"page": True},
    GOOD | {"page": 3}, GOOD | {"values": {"reason": 1}}, GOOD | {"values": ["reason"]},
    {"page": 0, "choice": False, "values": {}},
)  # fmt: skip


def test_what_has_another_shape_or_is_a_view_of_another_kind_is_no_form() -> None:
    for about in (*ODD_METADATA, GOOD):
        view = {"callback_id": "cs:form", "private_metadata": json.dumps(about)}
        assert (parse_form(build_body(view)) is None) == (about is not GOOD), about
    for body in ({}, {"view": None}, {"view": {}}, {"view": {"callback_id": "cs:form"}}, {"view": 7}):
        assert parse_form(body) is None, body
    shown = render_form(build_dialog())
    assert shown is not None
    assert parse_form(build_body({**shown, "callback_id": "cs:dialog"})) is None
    assert parse_form(build_body(shown)) is not None, "the control"


def test_every_problem_has_a_place() -> None:
    view = {"blocks": [{"type": "context"}, {"type": "input", "block_id": "a"}, {"type": "input", "block_id": "b"}]}
    problems = (FormProblem("b", "B", "wrong"), FormProblem("c", "C", "late"), FormProblem("", "", "odd"))
    assert assign_problems(problems, view) == {"b": "wrong", "a": "C: late odd"}
    for odd in ({}, {"blocks": None}, {"blocks": [7, {"type": "input"}]}):
        assert assign_problems(problems, odd)
