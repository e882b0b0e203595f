"""All tools. A tool that is not in this tuple does not exist."""

from __future__ import annotations

from tools.cards import CANCEL_CARD
from tools.mail import SEND_EMAIL
from tools.people import LIST_PEOPLE
from tools.processes import LIST_PROCESSES, MY_REQUESTS, RESUBMIT_REQUEST, START_PROCESS, WITHDRAW_REQUEST
from tools.tasks import DECIDE_TASK, QUERY_TODO_TASKS
from tools.tool import Tool

TOOLS: tuple[Tool, ...] = (
    LIST_PROCESSES,
    LIST_PEOPLE,
    START_PROCESS,
    MY_REQUESTS,
    QUERY_TODO_TASKS,
    DECIDE_TASK,
    RESUBMIT_REQUEST,
    WITHDRAW_REQUEST,
    SEND_EMAIL,
    CANCEL_CARD,
)
