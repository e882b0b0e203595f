"""All tools. A tool outside this tuple does not exist; `select_offered_tools` leaves out the tools that an installation
does not use."""

from __future__ import annotations

from collections.abc import Iterable

from tools.absence.tool import END_ABSENCE, LIST_ABSENCES, SET_ABSENCE
from tools.calculator.calculate import CALCULATE
from tools.cancel_card.tool import CANCEL_CARD
from tools.handbook.search import READ_HANDBOOK, SEARCH_HANDBOOK
from tools.leave_balance.tool import LEAVE_BALANCE
from tools.list_people.tool import LIST_PEOPLE
from tools.mail.send_email import SEND_EMAIL
from tools.offer_steps.tool import OFFER_STEPS
from tools.requests.comments import CC_REQUEST, COMMENT_REQUEST, URGE_TASK
from tools.requests.processes import LIST_PROCESSES, RESUBMIT_REQUEST, START_PROCESS, WITHDRAW_REQUEST
from tools.requests.status import MY_REQUESTS, REQUEST_STATUS, SHOW_PROCESS
from tools.tasks.reassign import ADD_SIGN, TRANSFER_TASK
from tools.tasks.several import DECIDE_SEVERAL
from tools.tasks.todo import DECIDE_TASK, QUERY_TODO_TASKS
from tools.think.tool import THINK
from tools.tool import Tool
from tools.working_days.tool import ADD_WORKING_DAYS, NEXT_HOLIDAYS, WORKING_DAYS

TOOLS: tuple[Tool, ...] = (
    LIST_PROCESSES,
    LIST_PEOPLE,
    START_PROCESS,
    MY_REQUESTS,
    REQUEST_STATUS,
    SHOW_PROCESS,
    QUERY_TODO_TASKS,
    DECIDE_TASK,
    TRANSFER_TASK,
    ADD_SIGN,
    URGE_TASK,
    COMMENT_REQUEST,
    CC_REQUEST,
    RESUBMIT_REQUEST,
    WITHDRAW_REQUEST,
    SET_ABSENCE,
    END_ABSENCE,
    LIST_ABSENCES,
    SEND_EMAIL,
    CANCEL_CARD,
    SEARCH_HANDBOOK,
    READ_HANDBOOK,
    CALCULATE,
    WORKING_DAYS,
    ADD_WORKING_DAYS,
    NEXT_HOLIDAYS,
    LEAVE_BALANCE,
    THINK,
    DECIDE_SEVERAL,
    OFFER_STEPS,
)


def select_offered_tools(tools: Iterable[Tool], **is_present: bool) -> tuple[Tool, ...]:
    """The tools offered to a model: without those that need a part of the installation that is not present."""
    return tuple(tool for tool in tools if not tool.needs or is_present[tool.needs])
