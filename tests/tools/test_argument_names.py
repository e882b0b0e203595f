"""Each thing has one name in all tools; other names of it are read, and what could mean two things is asked back."""

from typing import Any

import pytest

from tests.harness.corpus import corpus
from tests.tools.office import ABOUT_THE_CALLER, SICK, Office, called, known, office, starts
from tools.catalog import TOOLS
from tools.spec import Gate, ToolError
from tools.tool import OTHER_NAMES

MONDAY, MAIL = "2026-12-07", {"subject": "周报"}
DAYS = {"leave_type": "annual", "days": 2, "reason": "搬家"}


@pytest.fixture
async def there() -> Office:
    desk = office()
    await desk.start(SICK)
    return desk


async def test_no_tool_offers_what_is_only_another_name() -> None:
    offered = {
        name for tool in (*TOOLS, *(await starts(office())).values()) for name in tool.schema.get("properties", {})
    }
    others = {one for names in OTHER_NAMES.values() for one in names}
    assert {"request", "task", "person", "start_date", "end_date"} <= offered & OTHER_NAMES.keys() <= offered
    assert offered & others <= OTHER_NAMES.keys(), "an argument with two names"
    assert not [name for name in offered if name.endswith("_id")], "results say request, task, absence"
    assert not [name for name in others if ABOUT_THE_CALLER.match(name)]


@corpus(
    ("tool", "written", "offered"),
    ("request_status", {"request_id": "L-0001"}, {"request": "L-0001"}),
    ("request_status", {"Request-ID": "L-0001", "details": True}, {"request": "L-0001", "details": True}),
    ("list_people", {"name": "李四"}, {"person": "李四"}),
    ("show_process", {"process": "leave"}, {"name": "leave"}),
    ("working_days", {"start": "2026-12-01", "lastDay": MONDAY}, {"start_date": "2026-12-01", "end_date": MONDAY}),
    ("add_working_days", {"day": "2026-11-23", "count": -5}, {"start_date": "2026-11-23", "days": -5}),
    ("urge_task", {"request": "L-0001"}, {"task": "L-0001"}),
    ("withdraw_request", {"requestId": "L-0001"}, {"request": "L-0001"}),
    ("cc_request", {"request_id": "L-0001", "person": "赵六"}, {"request": "L-0001", "people": "赵六"}),
    ("comment_request", {"id": "L-0001", "comment": "快点"}, {"request": "L-0001", "text": "快点"}),
    (
        "set_absence",
        {"first_day": MONDAY, "last_day": MONDAY, "person": "赵六"},
        {"start_date": MONDAY, "end_date": MONDAY, "deputy": "赵六"},
    ),
    ("send_email", {"recipient": "李四", "text": "都好", **MAIL}, {"to": "李四", "body": "都好", **MAIL}),
    ("start_leave", {"first_day": "2026-12-07", **DAYS}, {"start_date": "2026-12-07", **DAYS}),
    ("start_leave", {"startDate": "2026-12-07", **DAYS}, {"start_date": "2026-12-07", **DAYS}),
)  # fmt: skip
async def test_another_name_is_read_as_the_offered_one(
    there: Office, tool: str, written: dict[str, Any], offered: dict[str, Any]
) -> None:
    made, result, _ = await called(there, tool, written)
    assert not isinstance(result, ToolError), result.text
    assert made == (await called(there, tool, offered))[0]
    if tool in {one.name for one in TOOLS if one.gate is Gate.NONE}:
        assert made.args == offered, "what was read is recorded as it is offered"


@corpus(
    ("tool", "written", "odd"),
    ("request_status", {"request": "L-0001", "request_id": "L-0002"}, "request_id"),
    ("request_status", {"request_id": "L-0001", "id": "L-0002"}, "request_id"),
    ("decide_task", {"task": "L-0001-1", "request": "L-0002"}, "request"),
    ("working_days", {"start": "2026-11-23", "day": "2026-11-24"}, "start"),
    ("send_email", {"to": "李四", "person": "王五", "subject": "周报", "body": "都好"}, "person"),
    ("request_status", {"request": "L-0001", "form_sha": "0"}, "form_sha"),
)
async def test_what_is_ambiguous_is_asked_back(there: Office, tool: str, written: dict[str, Any], odd: str) -> None:
    told = (await called(there, tool, written))[2]
    assert told["error"] == "bad_arguments" and f" {odd}: Extra inputs" in told["message"]


@corpus(
    ("tool", "stored"),
    ("set_absence", {"first_day": "2026-11-23", "last_day": "2026-11-27", "deputy": "U4"}),
    ("end_absence", {"absence_id": "d1"}),
    ("cc_request", {"request_id": "L-0001", "people": ["U4"]}),
    ("comment_request", {"request_id": "L-0001", "text": "快点"}),
    ("withdraw_request", {"request_id": "L-0001", "because": ""}),
    ("resubmit_request", {"request_id": "L-0001", "form": {"days": "2"}, "seen": "x"}),
)
async def test_what_a_card_stores_keeps_the_names_it_had(there: Office, tool: str, stored: dict[str, Any]) -> None:
    read = known(tool).stored_args
    assert read is not None and read.model_validate(stored)
    if tool in ("cc_request", "comment_request", "withdraw_request"):
        assert (await called(there, tool, stored))[0].args == stored, "the version before reads it"
