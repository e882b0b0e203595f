"""What the tools cost with every request: counted in the tokens of OpenAI's models (o200k)."""

import json
from functools import lru_cache
from typing import Any

import pytest

from bot.agent.formats.json_format import JsonFormat
from bot.agent.formats.native_format import NativeFormat
from bot.agent.formats.text_format import TextFormat
from bot.agent.model import ReplyFormat
from bot.agent.tool_search import ToolSelector
from tests.tools.office import office
from tools.catalog import TOOLS, select_offered_tools
from tools.requests.start_tools import StartTools
from tools.spec import Offer
from tools.tool import Tool

OURS = select_offered_tools(TOOLS, handbook=True, think=False)
MOST = {"native": 3_700, "text": 2_400, "json": 2_400}
"""Tokens of all that a style says of our tools, and how to reply: the first request has at most 5,000."""
RARE = 20
"""Tokens of a tool that only the finder names."""


@lru_cache
def encoding() -> Any:
    return pytest.importorskip("bpe_openai").get_encoding("o200k_base")


def count(text: str) -> int:
    return len(encoding().encode(text))


async def offers(tools: tuple[Tool, ...] = OURS) -> ToolSelector:
    starts = StartTools()
    await starts.refresh_tools(office().engine)
    return ToolSelector(tools, {}, 30, starts)


@pytest.mark.parametrize("style", [NativeFormat(), TextFormat(), JsonFormat()], ids=lambda style: style.name)
async def test_all_of_our_tools_cost_little(style: ReplyFormat) -> None:
    sheet = (await offers()).get_tool_prompt(style, None)
    found = count(sheet.extra_body) + count(sheet.instructions)
    print(f"{style.name}: {found} tokens for {len(sheet.tools)} tools")
    assert found <= MOST[style.name]
    assert {"start_leave", "start_expense", "decide_task", "find_tools"} <= {tool.name for tool in sheet.tools}


async def test_a_tool_that_the_finder_names_costs_a_line() -> None:
    rare = [tool for tool in OURS if tool.offer is Offer.RARE]
    named, without = [
        count((await offers(tools)).get_tool_prompt(NativeFormat(), None).tools[-1].purpose)
        for tools in (OURS, tuple(tool for tool in OURS if tool not in rare))
    ]
    assert len(rare) >= 8 and named - without <= len(rare) * RARE
    whole = sum(count(tool.description) + count(json.dumps(tool.schema)) for tool in rare)
    assert whole > 2 * (named - without), "control: offered, they would cost much more"
