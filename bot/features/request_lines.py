"""Requests in a line, for several features."""

from __future__ import annotations

from bot.core.i18n import translate
from tools.languages import choose_words
from tools.people.names import format_people_names
from tools.spec import Person
from tools.tool import ToolServices
from tools.workflow.bpmn.graph import InvalidDefinitionError
from tools.workflow.engine.state import Request
from tools.workflow.process.definition import format_request_line


async def load_request_summary(services: ToolServices, request: Request, language: str) -> str:
    """A request in one line, e.g. *Sick leave, 8 days, 2026-11-21 – 2026-11-30*."""
    try:
        process = await services.engine.get_process(request)
    except InvalidDefinitionError:
        return translate("home.unreadable", language)
    return format_request_line(process, request.filled, language)


async def describe_holder(services: ToolServices, request: Request, reader: Person) -> str:
    """Describe the people who have the request, and since when; empty if nobody has it."""
    if not request.open_tasks:
        return ""
    who = choose_words(await format_people_names(services.directory, request.waits_for), reader.language)
    since = min(task.since for task in request.open_tasks).astimezone(reader.zone)
    return translate("command.held", reader.language, who=who, since=f"{since:%Y-%m-%d %H:%M}")
