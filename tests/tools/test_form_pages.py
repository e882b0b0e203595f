"""The form of a process on the pages of a dialog: what comes first, what depends on what, what is wrong."""

from collections.abc import Sequence

import pytest

from bot.core.i18n import render_value
from tests.harness.corpus import corpus
from tests.tools.company import SICK, ZHANG
from tests.tools.office import office
from tools.requests.form_pages import PAGE, PAGES, FormPage, FormTooLongError, build_form_page, list_form_problems
from tools.spec import ToolError
from tools.workflow.process.definition import (
    FormContext,
    Process,
    compile_process,
    load_shipped_processes,
    preview_form,
)

LEAVE, EXPENSE = load_shipped_processes()
HANDOVER = '\n[[require]]\nfield = "handover"\nwhen = "${days > 3}"\n'
FIELD = """
[[field]]
name = "text_{name}"
kind = "text"
label = {{ zh = "{name}", en = "{name}" }}
help = {{ zh = "x", en = "x" }}
required = {required}
max_length = 100
"""


def extend(process: Process, more: str) -> Process:
    return compile_process(process.bpmn, process.toml + more.encode())


def with_fields(count: int, *, required: bool = True) -> Process:
    names = "abcdefghijklmnopqrstuvwxyz"[:count]
    return extend(LEAVE, "".join(FIELD.format(name=name, required=str(required).lower()) for name in names))


async def pages(process: Process, **values: str) -> list[FormPage]:
    """One page after the other, to the last."""
    desk, found, earlier = office(processes=(process,)), list[FormPage](), list[str]()
    while not found or found[-1].is_followed or found[-1].has_more:
        found.append(await build_form_page(desk.use(ZHANG), process, values, earlier))
        earlier += names(found)[-1]
    return found


def names(found: Sequence[FormPage]) -> list[list[str]]:
    return [[field.name for field in page.fields] for page in found]


async def test_what_is_needed_comes_first_and_an_amount_and_its_currency_are_never_parted() -> None:
    found = await pages(LEAVE)
    assert names(found) == [
        ["leave_type", "start_date", "end_date", "reason", "approver"],
        ["start_half", "end_half", "handover", "cc", "attachment"],
    ]
    assert [(page.is_followed, page.has_more) for page in found] == [(False, True), (False, False)]
    for count in range(6):
        more = "".join(FIELD.format(name=name, required="true") for name in "abcdef"[:count])
        for page in names(await pages(extend(EXPENSE, more))):
            assert ("amount" in page) == ("currency" in page)


@corpus("count", *range(18))
async def test_however_many_fields_each_stands_on_one_page(count: int) -> None:
    process = with_fields(count)
    needed = 5 + count
    if needed > PAGE * PAGES:
        with pytest.raises(FormTooLongError):
            await pages(process)
        return
    found = await pages(process)
    flat = [name for page in names(found) for name in page]
    assert len(flat) == len(set(flat)) and all(len(page) <= PAGE for page in names(found))
    asked = next(number for number, page in enumerate(found, 1) if not page.is_followed)
    first = {name for page in names(found)[:asked] for name in page}
    assert {f"text_{one}" for one in "abcdefghijklmnopqrstuvwxyz"[:count]} <= first and asked <= PAGES


async def test_a_row_that_asks_for_a_field_brings_it_to_the_front() -> None:
    process = extend(LEAVE, HANDOVER)
    days = {"leave_type": "sick", "start_date": "2026-12-07"}
    short = await pages(process, **days, end_date="2026-12-08")
    long = await pages(process, **days, end_date="2026-12-16")
    assert "handover" not in names(short)[0] and "handover" in names(long)[0]
    assert [f.required for page in long for f in page.fields if f.name == "handover"] == [True]
    desk = office(processes=(process,))
    asked = await list_form_problems(desk.use(ZHANG), process, {**days, "end_date": "2026-12-16", "reason": "x"})
    assert [name for name, _ in asked] == ["handover"]
    first = ["leave_type", "start_date", "end_date", "reason", "approver"]
    form = {"leave_type": "sick", "start_date": "2026-12-07", "end_date": "2026-12-10", "end_half": "am"}
    for half, is_needed in (("pm", False), ("am", True)):
        page = await build_form_page(desk.use(ZHANG), process, {**form, "start_half": half}, first)
        needed = [f.required for f in page.fields if f.name == "handover"]
        assert needed == [is_needed], "what has come to be needed stands on the page that is in front"


async def test_a_length_without_a_first_day_comes_to_nothing_yet() -> None:
    page = (await pages(LEAVE, leave_type="sick", days="3"))[0]
    assert not page.facts and not page.problems
    asked = await list_form_problems(office().use(ZHANG), LEAVE, {"leave_type": "sick", "days": "3", "reason": "x"})
    assert [name for name, _ in asked] == ["start_date", "end_date"]


async def test_a_length_gives_the_last_day_whatever_else_is_wrong() -> None:
    """Unless the length itself is."""
    desk, now = office(), office().now
    start = {"start_date": "2026-11-23", "leave_type": "sunny"}
    for given, end, days, codes in (
        ({"days": "3"}, "2026-11-25", "3", {"bad_choice"}),
        ({"days": "3", "end_date": "2026-11-24"}, "2026-11-24", "2", {"bad_choice"}),
        ({"days": "many"}, None, "", {"bad_choice", "bad_days"}),
        ({"days": "3", "months": "1"}, "2026-11-25", "3", {"bad_choice", "unknown_field"}),
    ):
        preview = await desk.engine.preview_form(LEAVE, start | given, ZHANG.id, now)
        assert (preview.filled.values.get("end_date"), preview.filled.days) == (end, days)
        assert {error.code for error in preview.errors} == codes


async def test_the_rules_fill_in_who_decides_and_a_choice_of_the_author_is_judged_at_once() -> None:
    form = {"leave_type": "sick", "start_date": "2026-12-07", "end_date": "2026-12-16"}
    found = (await pages(LEAVE, **form))[0]
    told = [render_value(fact.value, "zh") for fact in found.facts]
    assert told == ["8 个工作日", "李四", "王五"] and not found.problems
    assert not any(f.required for f in found.fields if f.name == "approver")
    assert len((await pages(LEAVE, **form, approver=ZHANG.id))[0].problems) == 1
    nothing = (await pages(LEAVE, reason="rest"))[0]
    assert not nothing.facts and not nothing.problems, "before anything that counts is there"
    desk = office()
    alone = ZHANG.model_copy(update={"manager": None})
    others = [p.model_copy(update={"roles": frozenset()}) for p in desk.people.known if p.id != ZHANG.id]
    desk.people.known = [alone, *others]
    found = await build_form_page(desk.use(alone), LEAVE, form)
    assert "error.no_approver" in [one.key for one in found.problems]


async def test_all_that_is_wrong_is_found_at_once_and_what_has_no_problem_makes_a_card() -> None:
    """The check of the dialog and the proposal of the card never disagree."""
    desk = office()
    wrong = {"leave_type": "flying", "start_date": "soon", "end_date": "2026-12-16", "approver": "Nobody At All"}
    found = await list_form_problems(desk.use(ZHANG), LEAVE, wrong)
    assert {name for name, _ in found} == {"leave_type", "start_date", "reason", "approver"}
    assert await list_form_problems(desk.use(ZHANG), LEAVE, SICK) == ()
    await desk.start({**SICK, "start_date": "2026-12-01", "end_date": "2026-12-02"})
    for change in (
        {},
        {"leave_type": ""},
        {"leave_type": "annual", "end_date": "2027-03-31"},
        {"start_date": "2026-12-01", "end_date": "2026-12-03"},
        {"start_date": "2026-12-05", "end_date": "2026-12-06"},
        {"start_date": "2026-12-09", "end_date": "2026-12-07"},
        {"approver": ""},
        {"approver": ZHANG.id},
        {"cc": "U404"},
        {"reason": "x" * 501},
        {"unknown": "x"},
        {"attachment": "javascript:alert(1)"},
    ):
        form = {**SICK, "start_date": "2026-12-14", "end_date": "2026-12-16", **change}
        problems = await list_form_problems(desk.use(ZHANG), LEAVE, form)
        try:
            await desk.plan(ZHANG, "start_process", process="leave", form=form)
        except ToolError:
            assert problems, change
        else:
            assert not problems, change


async def test_a_preview_never_raises_whatever_is_half_filled_in() -> None:
    desk = office()
    people = await desk.people.list_people()
    context = FormContext(ZHANG, people, today=desk.now.date(), calendar=desk.desk.calendar, number_overrides={})
    for process in (LEAVE, EXPENSE, extend(LEAVE, HANDOVER)):
        for field in process.form.fields:
            for value in ("", "x", "0", "-1", "2026-13-45", "U404", "\u200b", "9" * 400, "am", "1e9"):
                preview_form(process, {field.name: value}, context)
