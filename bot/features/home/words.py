"""The sentences of Home about requests, decisions, absences and settings, in the reader's language."""

from __future__ import annotations

from datetime import datetime, timedelta

from bot.core.i18n import translate
from bot.features.request_lines import load_request_summary
from bot.storage.preferences import Preferences
from tools.languages import format_day_words
from tools.people.names import format_stand_in, get_names_by_language
from tools.spec import Person
from tools.tasks.task_actions import find_decision_key
from tools.tool import ToolServices
from tools.workflow.engine.port import AssignedTask
from tools.workflow.engine.state import Delegation, format_decimal
from tools.workflow.process.earlier_requests import YearBalance


async def describe_decision(
    services: ToolServices, assigned: AssignedTask, reader: Person, *, details: bool = False
) -> str:
    """Describe a decision by the reader or for them: its time, request and decider. `details`: adds the opinion, and
    the current state of the request."""
    task, request, language = assigned.task, assigned.request, reader.language
    decision = find_decision_key(task)
    by = await get_names_by_language(services.directory, task.by)
    if task.by != task.assignee:
        by = format_stand_in(by, await get_names_by_language(services.directory, task.assignee))
    line = translate(
        "home.decided",
        language,
        at=f"{(task.closed or task.since).astimezone(reader.zone):%Y-%m-%d %H:%M}",
        decision=translate(decision, language) if decision else "",
        request=request.id,
        requester=await get_names_by_language(services.directory, request.initiator),
        summary=await load_request_summary(services, request, language),
        by=translate("home.by_you", language) if task.by == reader.id == task.assignee else by,
    )
    if not details:
        return line
    said = next((" ".join(one.text.split()) for one in request.opinions if one.task == task.id and one.text), None)
    opinion = [] if said is None else [translate("card.opinion", language, opinion=said)]
    status = translate(f"status.{request.display_status}", language)
    return "\n".join([line, *opinion, translate("home.stands", language, status=status)])


def describe_balance(balance: YearBalance, year: int, language: str) -> str:
    return translate(
        "home.balance",
        language,
        label=balance.label,
        year=year,
        left=format_decimal(balance.remaining),
        allowance=format_decimal(balance.allowance),
        approved=format_decimal(balance.approved),
        pending=format_decimal(balance.pending),
    )


async def describe_absence(services: ToolServices, absence: Delegation, reader: Person, now: datetime) -> str:
    first = absence.start.astimezone(reader.zone).date()
    last = (absence.end - timedelta(microseconds=1)).astimezone(reader.zone).date()
    key = "home.absence_now" if absence.is_active_at(now) else "home.absence_later"
    who = await get_names_by_language(services.directory, absence.deputy)
    return translate(
        key,
        reader.language,
        who=who,
        first=format_day_words(first, reader.language),
        last=format_day_words(last, reader.language),
    )


def describe_preferences(preferences: Preferences, default_steps: str, reader: Person) -> tuple[str, ...]:
    language = reader.language
    own = translate("setting.in_language", language)
    chosen = own if preferences.language else translate("home.as_in_chat", language, value=own)
    steps = translate(f"setting.steps_{preferences.steps or default_steps}", language)
    return (translate("setting.language", language, value=chosen), translate("setting.steps", language, value=steps))
