"""Tests once what a model can do: endpoints and their models differ, and none of them says so."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from bot.agent.formats.json_format import JsonFormat
from bot.agent.formats.native_format import NativeFormat
from bot.agent.formats.text_format import TextFormat
from bot.agent.model import Model, ModelReply, TextStore
from bot.agent.provider_details import attach_details
from bot.agent.reply_format import ReplyFormat
from bot.core import logs
from bot.core.errors import ModelRejectedError, ModelUnavailableError

log = logs.get_logger(__name__)

FormatSetting = Literal["auto", "native", "text", "json"]
WEEK_MS = 7 * 24 * 3_600_000
"""How long a result is remembered."""
PROBE_TIMEOUT_S = 30.0
NO_REPLY = "refused"
"""The `finish` of a reply that does not exist."""
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
OBJECT = 'Answer with this JSON object and nothing else: {"word": "hello"}'


@dataclass(frozen=True, slots=True)
class ModelCapabilities:
    """What works. Endpoints reject what they do not know, or ignore it."""

    tools: bool
    json: bool


async def choose_formats(wish: FormatSetting, model: Model, memory: TextStore, name: str) -> tuple[ReplyFormat, ...]:
    """Every reply format, the one for new runs first. `name`: endpoint and model, under which the result is stored."""
    able = (
        await _load_or_probe(model, memory, name)
        if wish in ("auto", "json")
        else ModelCapabilities(tools=True, json=False)
    )
    first = choose_format_name(wish, able)
    log.info("model.style", style=first, wish=wish)
    known: tuple[ReplyFormat, ...] = (NativeFormat(), JsonFormat(mode=able.json), TextFormat())
    return tuple(sorted(known, key=lambda style: style.name != first))


def choose_format_name(wish: FormatSetting, able: ModelCapabilities) -> str:
    if wish != "auto":
        return wish
    return "native" if able.tools else "json" if able.json else "text"


async def _load_or_probe(model: Model, memory: TextStore, name: str) -> ModelCapabilities:
    """A model that cannot be reached is assumed to call tools, until the next start."""
    if (text := await memory.load_text(name)) is not None:
        return ModelCapabilities(**json.loads(text))
    try:
        able = await probe_model(model)
    except ModelUnavailableError as down:
        log.warning("the model cannot be asked what it can do", error=str(down))
        return ModelCapabilities(tools=True, json=False)
    await memory.save_text(name, json.dumps(asdict(able)), WEEK_MS)
    return able


async def probe_model(model: Model) -> ModelCapabilities:
    """Raises `ModelUnavailableError`."""
    return ModelCapabilities(tools=await can_call_tools(model), json=await _can_write_json(model))


async def can_call_tools(model: Model) -> bool:
    """True if it calls a tool and takes the result. The second step is needed to see which details must come back with
    a call, and what its chat template does with a later system note. Raises `ModelUnavailableError`."""
    tools, question = f'"tools":{json.dumps([ECHO])}', json.dumps({"role": "user", "content": WORD})
    reply = await _request_probe_reply(model, [question], tools)
    if not any(call.name == "echo" for call in reply.calls):
        return False
    calls = [
        {"id": one.id or f"call_{n}", "type": "function", "function": {"name": one.name, "arguments": one.arguments}}
        for n, one in enumerate(reply.calls)
    ]
    message = json.dumps({"role": "assistant", "content": "", "tool_calls": calls})
    results = [json.dumps({"role": "tool", "tool_call_id": one["id"], "content": "hello"}) for one in calls]
    note = json.dumps({"role": "system", "content": NOTE})
    return (
        await _request_probe_reply(
            model, [question, attach_details(message, reply.provider_details), *results, note], tools
        )
    ).finish != NO_REPLY


async def _can_write_json(model: Model) -> bool:
    question = json.dumps({"role": "user", "content": OBJECT})
    reply = await _request_probe_reply(model, [question], JsonFormat(mode=True).build_extra_body(()))
    try:
        return isinstance(json.loads(reply.text), dict)
    except (ValueError, RecursionError):
        return False


async def _request_probe_reply(model: Model, messages: Sequence[str], extra: str) -> ModelReply:
    """The reply; empty if the endpoint refuses."""
    try:
        return await model.request_reply(messages, extra, timeout_s=PROBE_TIMEOUT_S)
    except ModelRejectedError:
        return ModelReply(finish=NO_REPLY)
