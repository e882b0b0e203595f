"""Plain commands, answered by code alone: as a slash command, or as the bare words in a DM, in zh and en. (*Stop* is
the kernel's own.)"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from bot.chat.messages import Message
from bot.conversation.stops import is_word_of
from bot.conversation.turn_context import CommandReply, LoadConversation
from bot.core.i18n import load_sentences, shorten_text, translate
from bot.core.redaction import redact_text
from bot.features.contract import Core, Feature
from bot.features.request_lines import describe_holder, load_request_summary
from bot.queue.writes import Delete
from bot.storage.history import ConversationHistory
from bot.storage.runs import build_waiting_files_key
from tools.people.names import get_person_name
from tools.spec import Caller
from tools.tasks.task_actions import find_decision_key
from tools.workflow.engine.port import AssignedTask

COMMANDS = ("help", "tasks", "done", "requests", "history", "settings", "forget", "morning_on", "morning_off")
PUBLIC_SETTINGS = ("steps", "morning_list", "approval_ttl_hours", "history_days", "openai_model", "company_timezone")
"""Settings that everybody may see, because they explain the bot's behavior. All others are for administrators."""
HISTORY_SHOWN = 10
LISTED = 20
QUOTE_MAX = 120
"""Most characters shown of a message."""
_FORMATTING = re.compile(r"([\\*_~`])")
"""Formatting characters, which are escaped: people's text is shown as they wrote it (`2*3*4`)."""


def build(core: Core) -> Feature:
    return Feature(answer_command=partial(answer_command, core))


async def answer_command(core: Core, message: Message, caller: Caller, load: LoadConversation) -> CommandReply | None:
    """Answer a command; None for any other message, and for plain words in a shared channel."""
    name = next((one for one in COMMANDS if is_word_of(message.text, f"command.{one}_words")), None)
    if message.command and not message.text.strip():
        name = "help"
    if name is None or not (message.place.direct or message.command):
        return None
    engine, language = core.tool_services.engine, caller.person.language
    match name:
        case "tasks":
            todo = await engine.list_todo_tasks(caller.id, core.stores.clock.today(), LISTED)
            lines = list[str]()
            for one in todo.tasks:  # their own, or those that they decide as a deputy
                key = "command.task" if one.task.assignee == caller.id else "command.task_for"
                lines.append(await _describe_task(core, key, one, language))
            return CommandReply("tasks", _format_listing("tasks", lines, language, todo.total_count))
        case "done":
            tasks = (await engine.list_decided_tasks(caller.id))[::-1]
            lines = [await _describe_task(core, "command.decided", one, language) for one in tasks[:LISTED]]
            return CommandReply("done", _format_listing("done", lines, language, len(tasks)))
        case "requests":
            own = await engine.list_recent_requests(caller.id, LISTED)
            lines = []
            for request in own.requests:
                status = translate(f"status.{request.display_status}", language)
                summary = await load_request_summary(core.tool_services, request, language)
                holder = await describe_holder(core.tool_services, request, caller.person)
                lines.append(" · ".join(filter(None, (request.id, status, summary, holder))))
            return CommandReply("requests", _format_listing("requests", lines, language, own.total_count))
        case "history":
            return _answer_history((await load()).history, caller)
        case "settings":
            return await _answer_settings(core, caller)
        case "forget":
            place = message.place
            files = Delete(build_waiting_files_key(core.stores.history.keys, place.conversation))
            writes = (*core.stores.history.build_forget_writes(place.conversation), *([files] if place.direct else ()))
            return CommandReply("forget", translate("command.forgotten", language), writes)
        case "morning_on" | "morning_off":  # from the next list on
            await core.stores.preferences.save_morning_wish(caller.id, wants_list=name == "morning_on")
            at = core.settings.morning_list
            key = ("morning.on" if name == "morning_on" else "morning.off") if at else "morning.nowhere"
            return CommandReply(name, translate(key, language, at=at))
        case _:
            return CommandReply("help", translate("command.help", language))


def _answer_history(history: ConversationHistory, caller: Caller) -> CommandReply:
    """Answer with the summary of older turns (its range, its lines and its gaps) and the latest entries, as people
    know them: their own words, the answers, and a card instead of a note to the model."""
    language, zone = caller.person.language, caller.person.zone
    lines, summary_lines, summary = list[str](), list[str](), history.summary
    for entry in [entry for entry in history.entries if entry.is_visible][-HISTORY_SHOWN:]:
        is_ours, text = entry.is_answer or bool(entry.kind), shorten_text(entry.visible_text, QUOTE_MAX)
        text = (text if is_ours else _FORMATTING.sub(r"\\\1", text)) or translate("command.waits", language)
        lines.append(translate(f"command.said_by_{'bot' if is_ours else 'person'}", language, text=text))
    if summary is not None:
        since, until = (datetime.fromtimestamp(ms / 1000, zone) for ms in (summary.since_ms, summary.until_ms))
        span = {"since": f"{since:%Y-%m-%d %H:%M}", "until": f"{until:%Y-%m-%d %H:%M}"}
        missed = [translate("command.summary_missed", language)] if summary.has_gap or history.has_gap else []
        summary_lines = [translate("command.summary", language, **span, turns=summary.turns)]
        summary_lines += [*(f"- {line}" for line in summary.lines), *missed, ""]
    return CommandReply("history", "\n".join([*summary_lines, _format_listing("history", lines, language)]))


async def _answer_settings(core: Core, caller: Caller) -> CommandReply:
    """Answer an administrator with all settings, everybody else with those that concern them."""
    language, values = caller.person.language, core.settings.list_masked_values()
    if caller.person.is_administrator:
        lines = [f"`{name}` = {redact_text(value) or '—'}" for name, value in values.items()]
        return CommandReply("settings", _format_listing("settings", lines, language))
    own = {"language": translate("setting.in_language", language), "timezone": caller.person.timezone}
    settings = own | {name: values[name] for name in PUBLIC_SETTINGS if values.get(name)}
    if at := settings.get("morning_list"):
        key = "at" if await core.stores.preferences.wants_morning_list(caller.id) else "off"
        settings["morning_list"] = translate(f"setting.morning_list_{key}", language, at=at)
    lines = list[str]()
    for name, value in settings.items():
        key = f"setting.{name}_{value}"
        words = translate(key, language) if key in load_sentences() else value
        lines.append(translate(f"setting.{name}", language, value=words))
    return CommandReply("settings", _format_listing("own_settings", lines, language))


async def _describe_task(core: Core, key: str, assigned: AssignedTask, language: str) -> str:
    requester = await get_person_name(core.tool_services.directory, assigned.request.initiator, language)
    about = await load_request_summary(core.tool_services, assigned.request, language)
    decision = find_decision_key(assigned.task)
    return translate(
        key,
        language,
        request=assigned.request.id,
        requester=requester,
        summary=about,
        task=assigned.task.id,
        decision=translate(decision, language) if decision else "",
        who=await get_person_name(core.tool_services.directory, assigned.task.assignee, language),
    )


def _format_listing(name: str, lines: Sequence[str], language: str, total_count: int = 0) -> str:
    """`total_count`: the number of all, if there may be more than the lines."""
    if not lines:
        return translate(f"command.no_{name}", language)
    more = [translate(f"command.more_{name}", language, n=n)] if (n := total_count - len(lines)) > 0 else []
    return "\n".join([translate(f"command.{name}", language), *(f"- {line}" for line in lines), *more])
