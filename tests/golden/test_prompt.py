"""What the model is sent, line by line: the rules, the context, the tools, and how it goes on; in each style."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.agent.formats.json_format import JsonFormat
from bot.agent.formats.native_format import NativeFormat
from bot.agent.formats.text_format import TextFormat
from bot.agent.loop import AgentLoop, ModelInUse
from bot.agent.model import ReplyFormat
from bot.agent.models.openai_model import open_model
from tests.golden.golden_files import compare_sections, format_json, hide_changing
from tests.golden.scenes import open_stage
from tests.stories.endpoint import Raw, called, endpoint, said
from tools.catalog import TOOLS

from tests.tools.office import ZHANG  # isort: skip

FORM = {"leave_type": "sick", "start_date": "2026-11-23", "days": 2, "reason": "胃疼"}
NATIVE = called(("start_leave", json.dumps({"note": "照您说的做", **FORM}, ensure_ascii=False)))
TEXT = said(f"Thought: 照您说的做\nAction: start_leave\nAction Input: {json.dumps(FORM, ensure_ascii=False)}")
CALL = {"type": "tool_call", "tool": "start_leave", "args": FORM, "reason_summary": "照您说的做"}
JSON = said(json.dumps(CALL, ensure_ascii=False))


def describe_message(message: dict[str, Any]) -> list[str]:
    """Its text as lines, then its calls."""
    made = [(one["id"], one["function"]) for one in message.get("tool_calls", [])]
    calls = [f"call {id} {function['name']} {function['arguments']}" for id, function in made]
    about = [f"answers {message['tool_call_id']}"] if "tool_call_id" in message else []
    known = {"role", "content", "tool_calls", "tool_call_id"}
    more = [f"{name}: {value}" for name, value in message.items() if name not in known]
    return [hide_changing(one) for one in (*about, *str(message["content"] or "").split("\n"), *calls, *more)]


def describe_tool(tool: dict[str, Any]) -> list[str]:
    function = dict(tool["function"])
    description, parameters = function.pop("description"), function.pop("parameters")
    more = {**{name: value for name, value in tool.items() if name != "function"}, **function}
    sentences = re.split(r"\n| (?=(?:Use|Not|Of ours|Of servers|Example): )", description)
    return [*sentences, *format_json(parameters).split("\n"), format_json(more)]


def list_sections(body: dict[str, Any], title: str, since: int = 0) -> Iterator[tuple[str, list[str]]]:
    """Each message from that one on; before the first, what else is sent."""
    rest = {name: value for name, value in body.items() if name not in ("messages", "tools")}
    if not since:
        yield f"{title}: settings of the request", [format_json(rest)]
    for number, message in enumerate(body["messages"][since:], since + 1):
        yield f"{title}: message {number}, {message['role']}", describe_message(message)
    for tool in body.get("tools", []) if not since else []:
        yield f"{title}: tool {tool['function']['name']}", describe_tool(tool)


@pytest.mark.parametrize(
    ("name", "style", "first"),
    [("native", NativeFormat(), NATIVE), ("text", TextFormat(), TEXT), ("json", JsonFormat(), JSON)],
    ids=["native", "text", "json"],
)
async def test_what_the_model_is_told(redis: Redis, name: str, style: ReplyFormat, first: Raw) -> None:
    found: dict[str, list[str]] = {}
    for language in ("zh", "en"):
        await redis.flushall()
        stage = open_stage(redis, language)
        async with endpoint([first, said("好的，完成。")]) as model, open_model(model.url, "none", "a-model") as client:
            stage.bot.use_loop(AgentLoop(ModelInUse(client, formats=(style,)), TOOLS, clock=stage.bot.clock))
            await stage.say(ZHANG, "下周一起请2天病假")
            begin, asked = 0, model.asked
            if language == "en":  # the rules are the same
                begin = next(n for n, one in enumerate(asked[0]["messages"]) if one["role"] != "system")
            found |= dict(list_sections(asked[0], f"first request, {language}", begin))
            await stage.press(ZHANG, "confirm")
            found |= dict(list_sections(asked[-1], f"last request, {language}", len(asked[0]["messages"])))
    compare_sections(f"model/{name}.txt", found)
