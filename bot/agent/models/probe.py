"""Tests once what a model can do. Endpoints and their models differ, and none of them says so."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from bot.agent.formats.json_format import JsonFormat
from bot.agent.formats.native_format import NativeFormat
from bot.agent.formats.text_format import TextFormat
from bot.agent.formats.written_calls import has_marks
from bot.agent.model import Model, ReplyFormat, TextStore, attach_details
from bot.core import logs
from bot.core.errors import CountersignError, ModelRejectedError, ModelUnavailableError
from bot.core.i18n import shorten_text
from tools.characters import show_invisible

log = logs.get_logger(__name__)

FormatSetting = Literal["auto", "native", "text", "json"]
WEEK_MS = 7 * 24 * 3_600_000
"""How long a result is remembered (ms)."""
PROBE_TIMEOUT_S = 30.0
MAX_QUOTE = 100
"""Characters of a reply that are quoted."""
LEAKS = (
    "it writes calls of tools as text; new runs use the text format for a week; check the tool parser and the chat "
    "template of its server, or set REACT_STYLE"
)
ECHO = {
    "type": "function",
    "function": {
        "name": "echo",
        "description": "Repeats a word.",
        "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    },
}
NOTE = "Now answer with that word."
WORD = "Call the tool echo with the word hello."


@dataclass(frozen=True, slots=True)
class LeakRecorder:
    """Remembers for a week that a model writes its calls as text. New runs of this process, and of every process that
    starts in that week, use the text format."""

    formats: list[ReplyFormat]
    """Every reply format, the one for new runs first."""
    memory: TextStore
    name: str
    """Endpoint and model, under which the leak is stored."""
    model: str
    """The first model, by its name in the settings. A fallback model does not choose the format."""

    async def record_leaks(self, model: str) -> None:
        if model != self.model or self.formats[0].name != "native":
            return
        self.formats.sort(key=lambda style: style.name != "text")
        log.error("model.needs_administrator", model=model, cause="leaks", error=LEAKS)
        with suppress(CountersignError):
            await self.memory.save_text(f"leaks {self.name}", LEAKS, WEEK_MS)


async def choose_formats(wish: FormatSetting, model: Model, memory: TextStore, name: str) -> list[ReplyFormat]:
    """Return every reply format, the one for new runs first. `name` is the endpoint and model under which the result is
    stored."""
    first: str | None = wish
    if wish == "auto" and (first := await memory.load_text(f"style {name}")) is None:
        try:
            first = choose_format_name(wish, await find_call_problem(model))
            await memory.save_text(f"style {name}", first, WEEK_MS)
        except ModelUnavailableError as down:  # until the next start, it is assumed to call tools
            first = "native"
            log.warning("the model cannot be asked what it can do", error=str(down))
    with suppress(CountersignError):
        if first == "native" and await memory.load_text(f"leaks {name}") is not None:
            first = "text"
    return sorted((NativeFormat(), JsonFormat(), TextFormat()), key=lambda style: style.name != first)


def choose_format_name(wish: FormatSetting, call_problem: str) -> str:
    """Choose the format for new runs. A model that does not call tools can always write text."""
    return wish if wish != "auto" else "text" if call_problem else "native"


async def find_call_problem(model: Model) -> str:
    """Describe what came back if the model does not call a tool or does not take the result. Return an empty text if it
    does both. The second step shows which details must come back with a call, and how the chat template treats a later
    system note. Raises `ModelUnavailableError`."""
    tools, question = f'"tools":{json.dumps([ECHO])}', json.dumps({"role": "user", "content": WORD})
    try:
        reply = await model.request_reply([question], tools, timeout_s=PROBE_TIMEOUT_S)
    except ModelRejectedError:
        return "it refused the request"
    if not any(call.name == "echo" for call in reply.calls):
        text = shorten_text(show_invisible(" ".join(reply.text.split())), MAX_QUOTE)
        is_written = "echo" in reply.text and (has_marks(reply.text) or "hello" in reply.text)
        return (
            f"it {'wrote the call as text' if is_written else 'answered'}: {text}" if text else "its answer was empty"
        )
    calls = [
        {"id": one.id or f"call_{n}", "type": "function", "function": {"name": one.name, "arguments": one.arguments}}
        for n, one in enumerate(reply.calls)
    ]
    message = json.dumps({"role": "assistant", "content": "", "tool_calls": calls})
    results = [json.dumps({"role": "tool", "tool_call_id": one["id"], "content": "hello"}) for one in calls]
    note = json.dumps({"role": "system", "content": NOTE})
    messages = [question, attach_details(message, reply.provider_details), *results, note]
    try:
        await model.request_reply(messages, tools, timeout_s=PROBE_TIMEOUT_S)
    except ModelRejectedError:
        return "it refused the result of the call"
    return ""
