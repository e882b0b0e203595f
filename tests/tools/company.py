"""A small company, and forms its people fill in."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tools.spec import Person, ToolError
from tools.workflow.engine.state import FilledForm, Request, Status
from tools.workflow.process.calendar import WorkCalendar
from tools.workflow.process.definition import FormContext, Process, fill_form
from tools.workflow.process.policy import parse_policy

NOW = datetime(2026, 11, 20, 10, 0, tzinfo=ZoneInfo("Asia/Shanghai"))
"""A Friday."""

CHINESE: dict[str, Any] = {"locale": "zh-CN", "timezone": "Asia/Shanghai"}
ZHANG = Person(id="U1", name="张三", names=("Zhang San",), email="zhangsan@example.com", manager="U2", **CHINESE)
LI = Person(
    id="U2", name="李四", names=("Li Si",), email="lisi@example.com", title="Team lead", manager="U3", **CHINESE
)
WANG = Person(id="U3", name="王五", names=("Wang Wu",), email="wangwu@example.com", roles=frozenset({"director"}))
ZHAO = Person(id="U4", name="赵六", names=("Zhao Liu",), email="", roles=frozenset({"finance"}), manager="U3")
LIN = Person(id="U5", name="李文光", names=("Li Wenguang",), email="lin@example.com")
GONE = Person(id="U6", name="钱七", names=("Qian Qi",), active=False)
PEOPLE = (ZHANG, LI, WANG, ZHAO, LIN, GONE)

SICK = {"leave_type": "sick", "start_date": "2026-11-23", "end_date": "2026-11-24", "reason": "胃疼", "approver": "U2"}
"""Two working days."""
LONG = {**SICK, "end_date": "2026-11-27"}
"""Five working days: two levels."""
SHORT = {"leave_type": "personal", "start_date": "2026-12-02", "end_date": "2026-12-02", "reason": "搬家"}
"""One working day: passes by rule."""
TAXI = {"amount": "86.5", "category": "transport", "reason": "去客户现场", "approver": "U2"}

ROW = '[[policy]]\nprocess = "{}"\nlevel = "approver"\nwho = ["manager"]\nothers = "flagged"\n'
CHOICE = parse_policy(ROW.format("leave") + ROW.format("expense"))
"""Rows of a company whose people may choose who approves; whom the rules do not name is flagged."""


def filled(
    process: Process,
    form: dict[str, str],
    initiator: Person = ZHANG,
    people: Sequence[Person] = PEOPLE,
    more: dict[str, Any] | None = None,
    **thresholds: str,
) -> FilledForm:
    """The form as the engine would fill it in today; `more`: of its context."""
    numbers = {name: Decimal(value) for name, value in thresholds.items()}
    given: dict[str, Any] = {"calendar": WorkCalendar(), **(more or {})}
    return fill_form(process, form, FormContext(initiator, people, today=NOW.date(), number_overrides=numbers, **given))


def refused(process: Process, form: dict[str, str], initiator: Person = ZHANG, **more: Any) -> ToolError:
    with pytest.raises(ToolError) as error:
        filled(process, form, initiator, **more)
    return error.value


def request(process: Process, form: dict[str, str], *, id: str = "L-0001", status: Status = Status.WAITING) -> Request:
    """Another request of 张三's."""
    version = {"definition": process.definition.version, "form": process.form_version}
    about = {"initiator": ZHANG.id, "filled": filled(process, form), "started": NOW, "changed": NOW}
    return Request(id=id, process=process.key, status=status, **version, **about)
