"""All tools. A tool that is not in this tuple does not exist."""

from __future__ import annotations

from tools.absence import END_ABSENCE, LIST_ABSENCES, SET_ABSENCE
from tools.cards import CANCEL_CARD
from tools.handing import ADD_SIGN, TRANSFER_TASK
from tools.mail import SEND_EMAIL
from tools.people import LIST_PEOPLE
from tools.processes import LIST_PROCESSES, RESUBMIT_REQUEST, START_PROCESS, WITHDRAW_REQUEST
from tools.requests import MY_REQUESTS, REQUEST_STATUS, SHOW_PROCESS
from tools.speaking import CC_REQUEST, COMMENT_REQUEST, URGE_TASK
from tools.tasks import DECIDE_TASK, QUERY_TODO_TASKS
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
)
