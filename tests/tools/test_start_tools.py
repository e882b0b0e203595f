"""The start tools of the processes: made of their forms, planned and kept as `start_process`, and told at once what is
wrong."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from bot.agent.formats.native_format import build_function_schema
from bot.core.run_state import CallStatus, validate_args
from tests.harness.corpus import corpus
from tests.tools.company import CHOICE, LI, LIN, LONG, SHORT, SICK, TAXI, WANG, ZHANG
from tests.tools.office import Office, called, known, office, refused, starts
from tests.tools.workflow.trip import FORM as TRIP
from tools.catalog import TOOLS
from tools.requests import start_tools
from tools.requests.start_tools import MAX_TOOLS, build_form_schema
from tools.spec import InvalidFieldsError, Offer, Person, Proposal
from tools.tool import Tool
from tools.workflow.process.calendar import WorkCalendar
from tools.workflow.process.definition import Process, compile_process, load_shipped_processes, parse_form

LEAVE, EXPENSE = load_shipped_processes()
FOR_DAYS = {name: text for name, text in LONG.items() if name != "end_date"}


async def plan(there: Office, tool: str, given: Mapping[str, Any], person: Person = ZHANG) -> Proposal:
    card = (await starts(there))[tool]
    return await card.prepare(there.use(person), validate_args(card.args, given))


def renamed(process: Process, key: str) -> Process:
    toml = process.toml.decode().replace(f'key = "{process.key}"', f'key = "{key}"', 1)
    return compile_process(process.bpmn, toml.encode())


@corpus(
    ("tool", "key", "form"),
    ("start_leave", "leave", LONG),
    ("start_leave", "leave", SHORT),
    ("start_expense", "expense", TAXI),
)
async def test_it_is_start_process_in_other_words(tool: str, key: str, form: dict[str, str]) -> None:
    there = office()
    general = await there.plan(ZHANG, "start_process", process=key, form=form)
    assert await plan(there, tool, form) == general
    call, result, _ = await called(there, tool, dict(form))
    assert (call.tool, call.status, call.args) == ("start_process", CallStatus.AWAITING, general.args)
    assert result == general, "whoever reads an old card, and whoever reads this one, reads the same"
    assert (await there.press(ZHANG, "start_process", result, "confirm")).data["request"].endswith("-0001")


async def test_its_schema_is_the_form() -> None:
    said = build_form_schema(LEAVE)
    Draft202012Validator.check_schema(said)
    assert list(said["properties"])[:6] == ["leave_type", "start_date", "start_half", "end_date", "days", "end_half"]
    assert said["required"] == ["leave_type", "start_date", "reason"]
    assert said["properties"]["leave_type"]["enum"][:2] == ["annual", "sick"]
    assert "comp 调休" in said["properties"]["leave_type"]["description"]
    assert said["properties"]["start_date"] == {"type": "string", "format": "date"}
    assert "table decides" in said["properties"]["approver"]["description"]
    spent = build_form_schema(EXPENSE)
    assert spent["properties"]["amount"]["type"] == "number" and "days" not in spent["properties"]
    assert spent["required"] == ["amount", "category", "reason"]
    told = build_function_schema((await starts(office()))["start_leave"])["function"]["parameters"]
    assert told["required"][:2] == ["note", "leave_type"] and {"note", "reason"} <= set(told["properties"])
    form = parse_form(TRIP.encode())
    own = form.fields[-1].model_copy(update={"name": "days"})
    assert form.can_take_days and not form.model_copy(update={"fields": (*form.fields, own)}).can_take_days


async def test_what_models_write_for_values_is_understood() -> None:
    there = office()
    loose: dict[str, Any] = {**TAXI, "amount": 86.5, "currency": None, "cc": ["李文光", "王五"]}
    assert (await plan(there, "start_expense", loose)).args["form"]["cc"] == f"{LIN.id},{WANG.id}"
    wrapped = {"process": "expense", "form": loose}
    assert await plan(there, "start_expense", wrapped) == await plan(there, "start_expense", loose)
    assert (await refused(plan(there, "start_expense", {**TAXI, "reason": {"a": "b"}}))).code == "bad_arguments"
    fields = {name: text for name, text in LONG.items() if name != "reason"}
    nested = await there.plan(ZHANG, "start_process", process="leave", form=LONG)
    assert await there.plan(ZHANG, "start_process", process="leave", form={"reason": "胃疼"}, **fields) == nested
    request = await there.start(SICK)
    await there.decide(LI, f"{request}-1", "reject", {"opinion": "太长"})
    changed = await there.plan(ZHANG, "resubmit_request", request_id=request, days=3)
    assert changed.args["form"]["end_date"] == "2026-11-25"
    error = await refused(there.plan(ZHANG, "resubmit_request", request_id=request, seen_by="me"))
    assert error.code == "unknown_field"


async def test_days_are_working_days_and_the_card_shows_the_last_one() -> None:
    """Ten days from a Monday are ten that are worked, two weekends apart."""
    there = office()
    form = (await plan(there, "start_leave", {**FOR_DAYS, "days": 10})).args["form"]
    assert (form["start_date"], form["end_date"], form["end_half"]) == ("2026-11-23", "2026-12-04", "pm")
    assert "days" not in form
    assert await plan(there, "start_leave", {**FOR_DAYS, "days": "5"}) == await plan(there, "start_leave", LONG)
    half = (await plan(there, "start_leave", {**FOR_DAYS, "days": 2.5})).args["form"]
    assert (half["end_date"], half["end_half"]) == ("2026-11-25", "am")
    same = await plan(there, "start_leave", {**FOR_DAYS, "days": 2.5, "start_half": "am", "end_half": "pm"})
    assert same.args["form"] == half, "a default that is written out says nothing"
    assert await plan(there, "start_leave", {**LONG, "days": 5}) == await plan(there, "start_leave", LONG)
    sunday = {**LONG, "end_date": "2026-11-29"}
    assert await plan(there, "start_leave", {**sunday, "days": 5}) == await plan(there, "start_leave", sunday)
    for wrong in ({"days": 10}, {"days": 5, "end_date": "2026-11-20"}, {"days": 2.5, "end_half": "am"}):
        error = await refused(plan(there, "start_leave", {**LONG, **wrong}))
        assert error.code == "days_differ" and "2026-1" in error.text, wrong
    for wrong in ({"days": 0}, {"days": "many"}, {"days": 0.3}, {"days": -2}):
        assert (await refused(plan(there, "start_leave", {**FOR_DAYS, **wrong}))).code == "bad_days", wrong
    assert (await refused(plan(there, "start_leave", {**FOR_DAYS, "days": 999}))).code == "span_too_long"


@given(
    st.dates(date(2025, 1, 1), date(2027, 12, 31)),
    st.sampled_from(["am", "pm"]),
    st.integers(1, 120).map(lambda halves: Decimal(halves) / 2),
)
def test_a_last_day_that_was_found_counts_back_to_the_days(start: date, half: str, days: Decimal) -> None:
    calendar = WorkCalendar()
    found = calendar.find_end((start, half), days)
    assert found is not None
    assert calendar.measure_working_time((start, half), found).working_days == days
    earlier = (found[0], "am") if found[1] == "pm" else (found[0] - timedelta(1), "pm")
    if earlier >= (start, half):
        assert calendar.measure_working_time((start, half), earlier).working_days < days, "and none before it does"


async def test_whom_the_rules_name_is_named_where_nobody_was_and_who_is_named_is_never_replaced() -> None:
    there = office()
    without = {name: text for name, text in LONG.items() if name != "approver"}
    assert (await plan(there, "start_leave", without)).args["form"]["approver"] == LI.id
    general = await there.plan(ZHANG, "start_process", process="leave", form=without)
    assert general == await plan(there, "start_leave", without)
    short = (await plan(there, "start_leave", SHORT)).args["form"]
    assert not short.get("approver"), "control: where nobody decides, nobody is named"
    error = await refused(plan(there, "start_leave", {**LONG, "approver": "王五"}))
    assert error.code == "other_approver"
    free = office(policy=CHOICE)
    assert (await plan(free, "start_leave", {**LONG, "approver": "赵六"})).args["form"]["approver"] == "U4"
    boss = WANG.model_copy(update={"id": "U7", "name": "周八", "names": ()})
    there.people.known = [one.model_copy(update={"manager": None}) for one in there.people.known] + [boss]
    without = {name: text for name, text in TAXI.items() if name != "approver"}
    error = await refused(plan(there, "start_expense", without))
    assert error.code == "missing_field", "of several one is asked for"
    assert "王五" in error.text and "周八" in error.text


async def test_who_is_called_the_manager_is_who_the_directory_says() -> None:
    for said in ("manager", "My manager", "直属上级"):
        assert (await plan(office(), "start_leave", {**LONG, "approver": said})).args["form"]["approver"] == LI.id
    alone = office()
    nobody = ZHANG.model_copy(update={"manager": None})
    alone.people.known[0] = nobody
    assert (await refused(plan(alone, "start_leave", {**LONG, "approver": "manager"}, nobody))).code == "unknown_person"
    handed = await refused(plan(office(), "start_leave", {**LONG, "handover": "manager"}))
    assert handed.code == "unknown_person", "control: only who decides is called so"


async def test_everything_that_is_wrong_is_told_at_once_with_the_form() -> None:
    """The guesses of one model, which took three calls."""
    guess = {"type": "food", "money": "300", "category": "zoo", "approver": "诸葛亮", "note_of_mine": "x"}
    there = office()
    call, error, told = await called(there, "start_expense", guess)
    assert isinstance(error, InvalidFieldsError)
    assert (call.tool, call.status) == ("start_process", CallStatus.FAILED)
    for name in ("'type'", "'money'", "'note_of_mine'", "amount", "reason", "'zoo' is not one of travel", "诸葛亮"):
        assert name in told["message"], name
    assert "expense{amount: 1200.50, [currency: CNY|USD" in told["message"]
    assert "Use only the fields of the form" in told["do"] and "list_people" in told["do"]
    mended = {"amount": 300, "category": "meals", "reason": "请客户吃饭", "approver": "李四"}
    assert isinstance((await called(there, "start_expense", mended))[1], Proposal), "one call later it is right"


async def test_the_general_tool_and_a_resubmission_say_the_same_and_people_read_of_the_first() -> None:
    there = office()
    guess = {"start": "tomorrow", "leave_type": "holidays!", "start_date": "tomorrow", "end_date": "2026-11-25"}
    typed = await refused(plan(there, "start_leave", guess))
    general = await refused(there.plan(ZHANG, "start_process", process="leave", form=guess))
    assert typed.text == general.text
    for said in ("'start'", "holidays!", "'tomorrow' is no date", "missing: reason", "leave{leave_type: annual|sick"):
        assert said in typed.text, said
    assert "end_date: YYYY-MM-DD | days: working days" in typed.text
    request = await there.start(SICK)
    await there.decide(LI, f"{request}-1", "reject", {"opinion": "太长"})
    wrong = {"leave_type": "holidays!", "last": "2026-11-25", "end_date": "Friday"}
    again = await refused(there.plan(ZHANG, "resubmit_request", request_id=request, form=wrong))
    assert all(said in again.text for said in ("holidays!", "'last'", "'Friday' is no date", "The form: leave{"))
    there = office()
    several = await refused(plan(there, "start_leave", {**SICK, "leave_type": "x", "start_date": "y"}))
    alone = await refused(plan(there, "start_leave", {**SICK, "leave_type": "x"}))
    assert (several.code, several.params, several.field) == (alone.code, alone.params, alone.field)
    assert several.note == alone.note and not isinstance(alone, InvalidFieldsError)
    three = {**SICK, "leave_type": "x", "start_date": "y", "approver": "诸葛亮"}
    both = await refused(plan(there, "start_leave", three))
    assert both.field == alone.field == "field_leave_type", "as the dialog behind Edit calls it"
    refusal = await refused(plan(there, "start_leave", {**LONG, "approver": "王五"}))
    assert "The form" not in refusal.text, "control: what the form cannot answer comes without it"


async def test_a_process_that_is_deployed_while_the_bot_runs_has_its_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    there = office()
    made = await starts(there)
    before = dict(made)
    await there.engine.deploy_process(renamed(EXPENSE, "rent"))
    await made.refresh_tools(there.engine)
    assert "start_rent" not in made, "it was looked at a moment ago: messages one after the other ask once"
    monkeypatch.setattr(start_tools, "FRESH_S", 0.0)
    toml = LEAVE.toml.replace(b'en = "Why, in the person', b'en = "Wherefore, in the person')
    await there.engine.deploy_process(compile_process(LEAVE.bpmn, toml))
    await made.refresh_tools(there.engine)
    assert list(made) == ["start_leave", "start_expense", "start_rent"] and made.is_complete
    assert made["start_expense"] is before["start_expense"], "made once for each version"
    assert made["start_leave"] is not before["start_leave"] and "Wherefore" in json.dumps(made["start_leave"].schema)


async def test_of_many_processes_some_are_left_to_the_general_tool() -> None:
    made = await starts(office(processes=[renamed(EXPENSE, f"kind_{n}") for n in range(MAX_TOOLS + 2)]))
    assert len(made) == MAX_TOOLS and not made.is_complete
    odd = await starts(office(processes=[renamed(EXPENSE, "process"), renamed(LEAVE, "请假")]))
    assert len(odd) == 0 and not odd.is_complete, "a name that is taken, or that endpoints do not take"


def test_every_card_of_ours_says_what_a_call_does() -> None:
    marks: dict[str, str] = {tool.name: tool.effect_tag for tool in TOOLS}
    assert marks["start_process"] == marks["decide_task"] == "[card]" and marks["my_requests"] == "[read]"
    assert marks["cancel_card"] == "", "it acts at once, and is no card"
    rare: list[Tool] = [tool for tool in TOOLS if tool.offer is Offer.RARE]
    assert all(replace(tool, offer=Offer.COMMON).description == tool.description for tool in rare)
    assert known("start_process").description.startswith("[card] ")
