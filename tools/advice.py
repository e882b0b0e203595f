"""What the model should do about each error: one sentence a code, shared by every tool that may raise it."""

from __future__ import annotations

from collections.abc import Mapping

ADVICE: Mapping[str, str] = {
    "missing_field": "Ask the person for the named fields in one question; never invent them.",
    "unknown_field": "Use only the fields that list_processes names; leave computed ones out.",
    "unknown_process": "Use a key that list_processes returns.",
    "unknown_person": "Search with list_people; if nobody fits, ask who is meant.",
    "ambiguous_person": "Ask which of the candidates is meant, then use that id.",
    "bad_choice": "Use one of the listed values.",
    "bad_date": "Write YYYY-MM-DD; work relative dates out from today's date.",
    "in_the_past": "Ask whether the year is right.",
    "too_far_ahead": "Ask whether the year is right.",
    "end_before_start": "Ask which days are meant.",
    "span_too_long": "Ask for at most a year at a time.",
    "zero_days": "Tell the person that these days are not working days and ask which are meant.",
    "bad_amount": "Ask for the exact amount.",
    "too_precise": "Ask for the amount with the decimals that the currency has.",
    "two_currencies": "Ask which currency is meant.",
    "bad_number": "Ask for the number.",
    "bad_attachment": "Ask for the link of the file in Slack, or an https address; never make one up.",
    "overlap": "Say which request covers these days already; ask for other days, or whether to withdraw that one.",
    "no_balance": "Say how many days are left; ask for fewer days or another kind of leave.",
    "own_person": "Ask for somebody else, or leave the field out.",
    "too_long": "Ask for a shorter text, or shorten it and show it.",
    "own_approver": "Ask for somebody else: nobody approves their own request.",
    "own_level": "Say that one person cannot decide two levels and ask for another approver.",
    "no_level": "Say that nobody can take this level and that an administrator has to add somebody.",
    "no_task": "Check the id with query_todo_tasks.",
    "no_request": "Check the number with my_requests.",
    "task_closed": "Say that it has been decided already; do not try again.",
    "own_request": "Say that nobody decides on their own request.",
    "not_assignee": "Say whose decision it is.",
    "bad_decision": "Use only what the task offers.",
    "missing_opinion": "Ask why it is rejected or returned.",
    "bad_target": "Return it to its author, or to a step that has decided in this round.",
    "asked_already": "Say that this person is asked already.",
    "use_resubmit": "Use resubmit_request or withdraw_request for a request that came back to its author.",
    "not_revise": "Say that the request cannot be changed while it waits for somebody; it can be withdrawn.",
    "request_changed": "Look again: what was shown is not what is there now.",
    "not_running": "Say that the request has ended, and how.",
    "not_yours": "Say that only the person who made the request can do that.",
    "withdrawing": "Say that the withdrawal waits for agreement already.",
    "own_task": "Say that the request waits for its author: resubmit_request or withdraw_request.",
    "urged_lately": "Say when it works again.",
    "urged_late": "Say when their working hours begin.",
    "urged_enough": "Say so; offer send_email instead.",
    "told_already": "Say that they know already.",
    "bad_deputy": "Ask for somebody else.",
    "bad_period": "Ask which days are meant.",
    "overlapping": "Say so; list_absences shows which, end_absence ends it.",
    "no_delegation": "Look with list_absences.",
    "no_diagram": "Say that this process has no picture; request_status tells it in words.",
    "no_font": "Say that there can be no picture here; request_status tells it in words.",
    "no_picture": "Say that the picture failed; request_status tells it in words.",
    "not_movable": "Say that the request stays with its version.",
    "not_ready": "Say that the request stays with its version.",
    "busy": "Try once more.",
    "no_section": "Search again and use the `section` of a result as it is.",
    "bad_handbook": "Say that the handbook cannot be read and that an administrator has to look at that file.",
    "bad_sum": "Mend the expression as the message says and try again.",
    "mixed_currencies": "Ask for the exchange rate, or compute each currency for itself; never assume a rate.",
    "zero_divisor": "Check which number should be divided by.",
    "sum_too_long": "Split it into several calls.",
    "no_such_day": "Write YYYY-MM-DD; work relative dates out from today's date.",
    "no_calendar": "Say that days can only be counted within these years.",
    "no_card": "say that there is no such open card; the person may press Cancel on the card itself",
    "no_recipient": "Ask who the mail is for.",
    "no_address": "Say that the directory has no address for this person.",
    "empty_mail": "Ask what the mail should say.",
    "template_mail": "Ask for what is missing and write the finished text, without placeholders.",
    "bad_subject": "Use one line of at most 200 characters.",
    "mail_refused": "Say that the mail server refused it and that nothing was sent.",
    "mail_down": "Say that the mail server cannot be reached, that nothing was sent, and offer to try again.",
    "engine_down": "Say that the workflow engine cannot be reached, that nothing was done, and offer to try again.",
    "engine_refused": "Say that an administrator has to look at the bot's login to the workflow engine.",
    "engine_failed": "Try once more; if it stays, say that an administrator has to look at the workflow engine.",
    "not_remote": "Say what the workflow engine cannot do, and offer what is possible instead.",
    "not_deployed": "Say that an administrator has to deploy this process to the workflow engine.",
    "no_engine_user": "Say that an administrator has to name this person's user in the workflow engine.",
}

FORM = (
    "missing_field", "unknown_field", "unknown_person", "ambiguous_person", "bad_choice", "bad_date",
    "in_the_past", "too_far_ahead", "end_before_start", "span_too_long", "zero_days", "bad_amount",
    "too_precise", "two_currencies", "too_long", "own_approver", "own_level", "no_level",
    "bad_number", "bad_attachment", "overlap", "no_balance", "own_person",
)  # fmt: skip
"""What filling a form in may raise."""
ENGINE = ("engine_down", "engine_refused", "engine_failed", "not_remote", "not_deployed", "no_engine_user")
"""What any tool may raise where the engine is a remote one; on no card, since it is on all of them."""


def advice(*codes: str) -> dict[str, str]:
    """The part of `ADVICE` that a tool card lists."""
    return {code: ADVICE[code] for code in codes}
