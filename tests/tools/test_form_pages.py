"""The form of a process on the pages of a dialog: what comes first, what depends on what, what is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.core.i18n import render_value
from tests.tools.company import SICK, ZHANG
from tests.tools.office import Office, office
from tools.requests.form_pages import PAGE, PAGES, FormPages, FormTooLongError, build_form_pages, list_form_problems
from tools.spec import ToolError
from tools.workflow.process.definition import Process, compile_process, load_shipped_processes
from tools.workflow.process.form_preview import preview_form

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


async def pages(process: Process, desk: Office | None = None, **values: str) -> FormPages:
    desk = desk or office(processes=(process,))
    return await build_form_pages(desk.use(ZHANG), process, values)


def names(found: FormPages) -> list[list[str]]:
    return [[field.name for field in page] for page in found.pages]


async def test_what_is_needed_comes_first_and_no_page_has_more_than_six_inputs() -> None:
    found = await pages(LEAVE)
    assert names(found) == [
        ["leave_type", "start_date", "end_date", "reason", "approver"],
        ["start_half", "end_half", "handover", "cc", "attachment"],
    ]
    assert found.needed_pages == 1


@pytest.mark.parametrize("count", range(18))
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
    first = {name for page in names(found)[: found.needed_pages] for name in page}
    assert {f"text_{one}" for one in "abcdefghijklmnopqrstuvwxyz"[:count]} <= first
    assert len(found.pages) <= PAGES


async def test_an_amount_and_its_currency_are_never_parted() -> None:
    for count in range(6):
        more = "".join(FIELD.format(name=name, required="true") for name in "abcdef"[:count])
        for page in names(await pages(extend(EXPENSE, more))):
            assert ("amount" in page) == ("currency" in page)


async def test_a_row_that_asks_for_a_field_brings_it_to_the_front() -> None:
    process = extend(LEAVE, HANDOVER)
    days = {"leave_type": "sick", "start_date": "2026-12-07"}
    short = await pages(process, **days, end_date="2026-12-08")
    long = await pages(process, **days, end_date="2026-12-16")
    assert "handover" not in names(short)[0] and "handover" in names(long)[0]
    assert [f.required for page in long.pages for f in page if f.name == "handover"] == [True]
    desk = office(processes=(process,))
    asked = await list_form_problems(desk.use(ZHANG), process, {**days, "end_date": "2026-12-16", "reason": "x"})
    assert [name for name, _ in asked] == ["handover"]


async def test_the_rules_fill_in_who_decides_and_a_choice_of_the_author_is_judged_at_once() -> None:
    form = {"leave_type": "sick", "start_date": "2026-12-07", "end_date": "2026-12-16"}
    found = await pages(LEAVE, **form)
    told = {str(fact.label): render_value(fact.value, "zh") for fact in found.facts}
    assert list(told.values()) == ["8 个工作日", "李四", "王五"] and not found.problems
    assert not any(f.required for page in found.pages for f in page if f.name == "approver")
    wrong = await pages(LEAVE, **form, approver=ZHANG.id)
    assert len(wrong.problems) == 1


async def test_nothing_is_told_before_anything_that_counts_is_there() -> None:
    found = await pages(LEAVE, reason="rest")
    assert not found.facts and not found.problems


async def test_all_that_is_wrong_is_found_at_once_and_what_will_do_is_not_complained_about() -> None:
    desk = office()
    wrong = {"leave_type": "flying", "start_date": "soon", "end_date": "2026-12-16", "approver": "Nobody At All"}
    found = await list_form_problems(desk.use(ZHANG), LEAVE, wrong)
    assert {name for name, _ in found} == {"leave_type", "start_date", "reason", "approver"}
    assert await list_form_problems(desk.use(ZHANG), LEAVE, SICK) == ()


async def test_what_has_no_problem_makes_a_card_and_what_has_one_makes_none() -> None:
    """The check of the dialog and the proposal of the card never disagree."""
    desk = office()
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
    for process in (LEAVE, EXPENSE, extend(LEAVE, HANDOVER)):
        for field in process.form.fields:
            for value in ("", "x", "0", "-1", "2026-13-45", "U404", "\u200b", "9" * 400, "am", "1e9"):
                preview_form(
                    process,
                    {field.name: value},
                    initiator=ZHANG,
                    people=people,
                    today=desk.now.date(),
                    calendar=desk.desk.calendar,
                    number_overrides={},
                )


async def test_somebody_without_a_superior_is_told_so_before_they_submit() -> None:
    desk = office()
    alone = ZHANG.model_copy(update={"manager": None})
    desk.people.known = [alone if p.id == ZHANG.id else replace_roles(p) for p in desk.people.known]
    form = {"leave_type": "sick", "start_date": "2026-12-07", "end_date": "2026-12-16"}
    found = await build_form_pages(replace(desk.use(alone)), LEAVE, form)
    assert "error.no_approver" in [one.key for one in found.problems]


def replace_roles(person: object) -> object:
    return person.model_copy(update={"roles": frozenset()})  # type: ignore[attr-defined]
