"""Plain commands: answered by code alone, as a slash command or as the words themselves in a DM, in zh and en."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import cache

from bot.entries import Entry
from bot.events import Message
from bot.home import summary
from bot.logs import redact
from bot.react.guards import Reason
from bot.store.history import History, Remembered
from bot.store.runs import Runs
from bot.store.writes import Write
from bot.texts import LANGUAGES, say, sentences, shorten
from tools.deciding import AGREED
from tools.names import name_of
from tools.spec import Caller
from tools.tool import Desk
from tools.workflow.engine import Assigned
from tools.workflow.state import Kind

COMMANDS = ("help", "tasks", "done", "requests", "history", "settings", "forget", "stop")
CONCERNING = ("steps", "approval_ttl_hours", "history_days", "openai_model", "company_timezone")
"""Settings that everybody may know, because they are about what people see; all others are for administrators."""
LATELY = 20
"""Entries of a conversation that are looked through for what a *stop* has ended."""
SKEW_MS = 5_000
"""How far the platform's clock and ours may be apart."""
HISTORY_SHOWN = 10
TASKS_SHOWN = 20
SAID_MAX = 120
"""Characters that are shown of what was said."""
_FORMATS = re.compile(r"([\\*_~`])")
"""What would be formatting: what people wrote is shown as they wrote it (`2*3*4`)."""


@dataclass(frozen=True, slots=True)
class Said:
    """A command's answer, and what it changes."""

    command: str
    text: str
    writes: tuple[Write, ...] = ()


@cache
def spellings() -> Mapping[str, str]:
    """What people type → command."""
    return {
        word.strip(): command
        for command in COMMANDS
        for language in LANGUAGES
        for word in sentences()[f"command.{command}_words"][language].split(",")
    }


def recognised(text: str) -> str | None:
    """The command a text is, if it is nothing but a command."""
    return spellings().get(text.strip().strip("/!！。.?？").strip().lower())


def is_stop(text: str) -> bool:
    return recognised(text) == "stop"


@dataclass(frozen=True, slots=True)
class Commands:
    desk: Desk
    history: History
    settings: Callable[[], Mapping[str, str]]
    """All settings as an administrator may see them: secrets masked."""
    runs: Runs
    today: Callable[[], datetime]
    """Aware UTC."""

    async def answer(self, message: Message, caller: Caller) -> Said | None:
        """The answer if this is a command. In shared channels only *stop* is taken as a plain word."""
        name = recognised(message.text)
        if message.command and not message.text.strip():
            name = "help"
        if name is None or not (message.place.direct or message.command or name == "stop"):
            return None
        answers: dict[str, Callable[[Message, Caller], Awaitable[Said]]] = {
            "help": self._help,
            "tasks": self._tasks,
            "done": self._done,
            "requests": self._requests,
            "history": self._history,
            "settings": self._settings,
            "forget": self._forget,
            "stop": self._stop,
        }
        return await answers[name](message, caller)

    async def _help(self, message: Message, caller: Caller) -> Said:
        return Said("help", say("command.help", caller.person.language))

    async def _tasks(self, message: Message, caller: Caller) -> Said:
        language = caller.person.language
        todo = await self.desk.engine.todo(caller.id, self.today(), TASKS_SHOWN)
        lines = [await self._told(_for(one, caller), one, language) for one in todo.tasks]
        more = todo.total - len(todo.tasks)
        told = _listing("tasks", lines, language)
        return Said("tasks", told + ("\n" + say("command.more_tasks", language, n=more) if more else ""))

    async def _done(self, message: Message, caller: Caller) -> Said:
        language = caller.person.language
        tasks = await self.desk.engine.done(caller.id)
        lines = [await self._told("command.decided", one, language) for one in tasks]
        return Said("done", _listing("done", lines, language))

    async def _requests(self, message: Message, caller: Caller) -> Said:
        language = caller.person.language
        requests = await self.desk.engine.mine(caller.id)
        lines = [
            say(
                "command.request",
                language,
                request=one.id,
                summary=await summary(self.desk, one, language),
                status=say(f"status.{one.standing}", language),
            )
            for one in requests
        ]
        return Said("requests", _listing("requests", lines, language))

    async def _history(self, message: Message, caller: Caller) -> Said:
        language = caller.person.language
        known = await self.history.load(message.place.conversation)
        shown = [entry for entry in known.entries if entry.is_shown][-HISTORY_SHOWN:]
        lines = [_said(entry, language) for entry in shown]
        told = _listing("history", lines, language)
        zone = caller.person.zone
        return Said("history", "\n".join([*_noted(known, zone, language), told]))

    async def _settings(self, message: Message, caller: Caller) -> Said:
        """For an administrator all of them; for everybody else what concerns them."""
        language, values = caller.person.language, self.settings()
        if caller.person.is_administrator:
            lines = [f"`{name}` = {redact(value) or '—'}" for name, value in values.items()]
            return Said("settings", _listing("settings", lines, language))
        own = {"language": say("setting.in_language", language), "timezone": caller.person.timezone}
        known = own | {name: values[name] for name in CONCERNING if values.get(name)}
        lines = [say(f"setting.{name}", language, value=_value(name, value, language)) for name, value in known.items()]
        return Said("settings", _listing("own_settings", lines, language))

    async def _forget(self, message: Message, caller: Caller) -> Said:
        writes = self.history.forget(message.place.conversation)
        return Said("forget", say("command.forgotten", caller.person.language), tuple(writes))

    async def _stop(self, message: Message, caller: Caller) -> Said:
        """Stopping itself happened before the queue; by the time this is read, nothing of theirs runs here."""
        key = "stopped"
        if not message.place.direct and not caller.person.is_administrator:
            key = "stopped_own" if await self._has_stopped(message) else "stopped_nothing"
        return Said("stop", say(f"command.{key}", caller.person.language))

    async def _has_stopped(self, message: Message) -> bool:
        """True when something of who says *stop* was ended by it."""
        entries = (await self.history.load(message.place.conversation)).entries[-LATELY:]
        runs = [await self.runs.get(one) for one in dict.fromkeys(entry.run for entry in entries if entry.run)]
        theirs = [run for run in runs if run is not None and run.message.person == message.person]
        said_ms = float(message.at) * 1000 if _is_stamp(message.at) else 0.0
        return any(
            run.last is not None and run.last.stopped == Reason.USER and run.ended_ms >= said_ms - SKEW_MS
            for run in theirs
        )

    async def _told(self, key: str, one: Assigned, language: str) -> str:
        requester = await name_of(self.desk.directory, one.request.initiator)
        about = await summary(self.desk, one.request, language)
        outcome = AGREED.get(one.task.outcome, "") if one.task.kind is Kind.REVOKE else one.task.outcome
        decision = say(f"decision.{outcome}", language) if outcome else ""
        return say(
            key,
            language,
            request=one.request.id,
            requester=requester,
            summary=about,
            task=one.task.id,
            decision=decision,
            who=await name_of(self.desk.directory, one.task.assignee),
        )


def _value(name: str, value: str, language: str) -> str:
    """A value in words, where it has some."""
    key = f"setting.{name}_{value}"
    return say(key, language) if key in sentences() else value


def _is_stamp(at: str) -> bool:
    return at.replace(".", "", 1).isdigit()


def _for(one: Assigned, caller: Caller) -> str:
    """One's own task, or that of somebody who is away."""
    return "command.task" if one.task.assignee == caller.id else "command.task_for"


def _listing(name: str, lines: Sequence[str], language: str) -> str:
    if not lines:
        return say(f"command.no_{name}", language)
    return "\n".join([say(f"command.{name}", language), *(f"- {line}" for line in lines)])


def _said(entry: Entry, language: str) -> str:
    """An entry as people know it: their own words, what they were told, and a card instead of a note to the model."""
    is_ours = entry.answers or bool(entry.kind)
    by = "bot" if is_ours else "person"
    short = shorten(entry.text, SAID_MAX)
    text = short if is_ours else _FORMATS.sub(r"\\\1", short)
    return say(f"command.said_by_{by}", language, text=text or say("command.waits", language))


def _noted(known: Remembered, zone: tzinfo, language: str) -> list[str]:
    """The summary of what was before, with what it stands for; and what it does not."""
    summary = known.summary
    if summary is None:
        return []
    since, until = (datetime.fromtimestamp(ms / 1000, zone) for ms in (summary.since_ms, summary.until_ms))
    range_ = {"since": f"{since:%Y-%m-%d %H:%M}", "until": f"{until:%Y-%m-%d %H:%M}", "turns": summary.turns}
    missed = [say("command.summary_missed", language)] if summary.missed or known.gap else []
    return [say("command.summary", language, **range_), *(f"- {line}" for line in summary.lines), *missed, ""]
