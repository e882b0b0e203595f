"""All tools. A tool that is not in this tuple does not exist; `offered` leaves out what an installation has not."""

from __future__ import annotations

from collections.abc import Iterable

from tools.absence import END_ABSENCE, LIST_ABSENCES, SET_ABSENCE
from tools.arithmetic import CALCULATE
from tools.balances import LEAVE_BALANCE
from tools.cards import CANCEL_CARD
from tools.days import ADD_WORKING_DAYS, NEXT_HOLIDAYS, WORKING_DAYS
from tools.handbook import READ_HANDBOOK, SEARCH_HANDBOOK
from tools.handing import ADD_SIGN, TRANSFER_TASK
from tools.mail import SEND_EMAIL
from tools.people import LIST_PEOPLE
from tools.processes import LIST_PROCESSES, RESUBMIT_REQUEST, START_PROCESS, WITHDRAW_REQUEST
from tools.requests import MY_REQUESTS, REQUEST_STATUS, SHOW_PROCESS
from tools.speaking import CC_REQUEST, COMMENT_REQUEST, URGE_TASK
from tools.tasks import DECIDE_TASK, QUERY_TODO_TASKS
from tools.thinking import THINK
from tools.tool import Tool

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
)


def offered(tools: Iterable[Tool], *, handbook: bool, think: bool) -> tuple[Tool, ...]:
    """Those that a model is offered: the handbook's where there is one, `think` where it is wanted."""
    missing = [*([] if handbook else [SEARCH_HANDBOOK, READ_HANDBOOK]), *([] if think else [THINK])]
    return tuple(tool for tool in tools if tool not in missing)
