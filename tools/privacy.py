"""Classifies the privacy of requests and results. Code decides it from the data and the process file, never a model."""

from __future__ import annotations

from string import Formatter

from tools.spec import Privacy, Proposal, ToolError, ToolOutcome, choose_most_private
from tools.tool import Tool, ToolContext
from tools.workflow.bpmn.graph import InvalidDefinitionError
from tools.workflow.engine.state import FilledForm, Request
from tools.workflow.process.definition import Process
from tools.workflow.process.forms import FREE_TEXT, Form

SAYS_NOTHING = frozenset(
    {
        *("bad_arguments", "unknown_tool", "not_offered", "one_at_a_time", "tool_failed", "missing_field", "bad_date"),
        *("bad_choice", "bad_number", "bad_amount", "too_long", "unknown_process", "unknown_person"),
        *("ambiguous_person", "end_before_start", "span_too_long", "no_request", "no_task", "no_card"),
        *("card_waits", "card_edited", "done_just_now", "other_approver", "no_approver", "own_approver", "own_person"),
        *("denied_just_now", "too_many", "zero_days", "zero_days_estimated", "unknown_field", "big_amount"),
        *("empty_mail", "template_mail"),
    }
)
"""Errors that repeat the call itself, or name fields, choices and people of the company. The author of the call knew
these before. Any other error may reveal something about a request."""


def classify_form(process: Process, filled: FilledForm) -> Privacy:
    """The privacy of a form that its author fills in, with all of its values."""
    if is_private_form(process.form, filled):
        return Privacy.PRIVATE
    written = [field for field in process.form.fields if field.kind in FREE_TEXT]
    return Privacy.OWN_TEXT if any(filled.values.get(field.name) for field in written) else Privacy.OWN


def classify_request(process: Process, request: Request, reader: str) -> Privacy:
    """The privacy of a request for one reader (a person id), without its free text."""
    if request.initiator != reader or is_private_form(process.form, request.filled):
        return Privacy.PRIVATE
    return Privacy.OWN


def is_private_form(form: Form, filled: FilledForm) -> bool:
    """Whether the process file marks the form or a chosen option as private."""
    chosen = [field.find_option(filled.values.get(field.name, "")) for field in form.fields]
    return form.private or any(option is not None and option.private for option in chosen)


async def classify_summary(context: ToolContext, request: Request) -> Privacy:
    """The privacy of a request in one line (`Form.summary`), for the caller. An unreadable request counts as
    private."""
    try:
        process = await context.services.engine.get_process(request)
    except InvalidDefinitionError:
        return Privacy.PRIVATE
    found = classify_request(process, request, context.caller.id)
    repeated = {
        name for words in process.form.summary.by_language.values() for _, name, _, _ in Formatter().parse(words)
    }
    has_free_text = any(field.name in repeated for field in process.form.fields if field.kind in FREE_TEXT)
    return choose_most_private(found, Privacy.OWN_TEXT) if has_free_text else found


async def classify_card(context: ToolContext, request: Request) -> Privacy:
    """The privacy of a card that shows a whole request, for the caller. A request with written opinions is private,
    because other people wrote them."""
    process = await context.services.engine.get_process(request)
    found = choose_most_private(
        classify_request(process, request, context.caller.id), classify_form(process, request.filled)
    )
    return Privacy.PRIVATE if any(opinion.text for opinion in request.opinions) else found


def classify_result(tool: Tool | None, result: ToolOutcome | Proposal | ToolError) -> Privacy:
    """The privacy of a call's result; the highest privacy of its tool if the result states none."""
    most = tool.privacy if tool is not None else Privacy.PRIVATE
    if isinstance(result, ToolError):
        return Privacy.PUBLIC if result.code in SAYS_NOTHING else most
    return result.privacy or most
