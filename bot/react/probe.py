"""What a model can do, asked once: endpoints and their models differ, and none of them says so."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from bot import logs
from bot.errors import ModelDown, ModelRefused
from bot.react.model import Model, Reply, TextStore
from bot.react.replaying import attach
from bot.react.style import Style
from bot.react.styles.native import Native
from bot.react.styles.objects import Json
from bot.react.styles.text import Text

log = logs.get(__name__)

Wish = Literal["auto", "native", "text", "json"]
WEEK_MS = 7 * 24 * 3_600_000
"""How long an answer is remembered."""
ASKED_S = 30.0
NONE = "refused"
"""How a reply ended that there was none of."""
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
class Able:
    """What works. Endpoints refuse what they do not know, or pass over it."""

    tools: bool
    json: bool


async def styles_of(wish: Wish, model: Model, memory: TextStore, name: str) -> tuple[Style, ...]:
    """Every style, that for fresh runs first. `name`: endpoint and model, under which the answer is remembered."""
    able = await _remembered(model, memory, name) if wish in ("auto", "json") else Able(tools=True, json=False)
    first = chosen(wish, able)
    log.info("model.style", style=first, wish=wish)
    known: tuple[Style, ...] = (Native(), Json(mode=able.json), Text())
    return tuple(sorted(known, key=lambda style: style.name != first))


def chosen(wish: Wish, able: Able) -> str:
    if wish != "auto":
        return wish
    return "native" if able.tools else "json" if able.json else "text"


async def _remembered(model: Model, memory: TextStore, name: str) -> Able:
    """A model that is away is taken for one that calls tools, until the next start."""
    if (text := await memory.recall(name)) is not None:
        return Able(**json.loads(text))
    try:
        able = await ask(model)
    except ModelDown as down:
        log.warning("the model cannot be asked what it can do", error=str(down))
        return Able(tools=True, json=False)
    await memory.remember(name, json.dumps(asdict(able)), WEEK_MS)
    return able


async def ask(model: Model) -> Able:
    """Raises `ModelDown`."""
    return Able(tools=await calls_tools(model), json=await _writes_objects(model))


async def calls_tools(model: Model) -> bool:
    """Whether it calls a tool and takes the result: what has to come back with a call shows at the second step only,
    and so does what its chat template says of a later note of the system. Raises `ModelDown`."""
    tools, question = f'"tools":{json.dumps([ECHO])}', json.dumps({"role": "user", "content": WORD})
    reply = await _asked(model, [question], tools)
    if not any(call.name == "echo" for call in reply.calls):
        return False
    calls = [
        {"id": one.id or f"call_{n}", "type": "function", "function": {"name": one.name, "arguments": one.arguments}}
        for n, one in enumerate(reply.calls)
    ]
    asked = json.dumps({"role": "assistant", "content": "", "tool_calls": calls})
    results = [json.dumps({"role": "tool", "tool_call_id": one["id"], "content": "hello"}) for one in calls]
    note = json.dumps({"role": "system", "content": NOTE})
    return (await _asked(model, [question, attach(asked, reply.kept), *results, note], tools)).finish != NONE


async def _writes_objects(model: Model) -> bool:
    question = json.dumps({"role": "user", "content": OBJECT})
    reply = await _asked(model, [question], Json(mode=True).body(()))
    try:
        return isinstance(json.loads(reply.text), dict)
    except (ValueError, RecursionError):
        return False


async def _asked(model: Model, messages: Sequence[str], extra: str) -> Reply:
    """What it replies; nothing if it refuses to."""
    try:
        return await model.reply(messages, extra, timeout_s=ASKED_S)
    except ModelRefused:
        return Reply(finish=NONE)
