"""A running hostile MCP server, over the real transports: every attack costs one observation, moves no gate, and
reaches a card only as the server's words."""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from redis.asyncio import Redis

from bot.agent.model import ModelReply
from bot.agent.tool_executor import OBSERVATION_MAX
from bot.core.i18n import translate
from bot.platforms.slack.blocks import render_post
from tests.harness.memory_bot import Bot
from tests.harness.workspace_server import serve_routes
from tests.stories.script import DONE, calls
from tests.tools.mcp import villain
from tests.tools.mcp.running import World, plans, until
from tests.tools.mcp.villain import SHADOWS
from tools.catalog import TOOLS
from tools.characters import has_invisible
from tools.mcp import connection
from tools.mcp.config import McpServer
from tools.mcp.tool_adapter import NAME_MAX, PURPOSE
from tools.spec import Gate

ATTACKS = [
    *("bomb", "deep", "deeper", "parts", "image", "structured", "evil", "failed", "junk", "error"),
    *("progress", "asks", "cancelled", "twice", "changes", "noise"),
]
RULES = {"do": "none"}


def villain_of(world: World, timeout: float = 20, rules: dict[str, Any] | None = None) -> McpServer:
    command = (sys.executable, str(Path(villain.__file__)), str(world.file))
    return McpServer(name="v", command=command, timeout_seconds=timeout, tools=RULES if rules is None else rules)


def assert_harmless(here: Bot, began: int) -> None:
    """Check that nothing was pressed, mailed or gated otherwise, and that the model's input is bounded and fully
    visible."""
    assert here.mailer.mails == [] and here.chat.cards() == []
    for request in here.model.requests[began:]:
        assert request[0]["role"] == "system" and "IMPORTANT" not in request[0]["content"]
        for message in request[1:]:
            content = str(message.get("content") or "")
            assert len(content) <= OBSERVATION_MAX + 200 and not has_invisible(content) and "\x1b" not in content
            assert "IMPORTANT" not in content or message["role"] == "tool", "its words are in a tool's result"
    for said in here.chat.posts:
        shown = json.dumps([list(part.blocks) for part in render_post(said.post)], ensure_ascii=False)
        assert "IMPORTANT" not in shown and "evil.example" not in shown, "people read our words"


@pytest.mark.slow
async def test_every_attack_in_an_answer_costs_one_observation(
    redis: Redis, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PATIENCE_S", 30.0)  # a failed server is restarted, however slow the machine
    async with world.fleet(villain_of(world, timeout=8)) as fleet:
        for number, attack in enumerate(ATTACKS):
            script = [calls(("v__do", {"attack": attack})), calls(("v__do", {"attack": ""})), ModelReply(text="好了。")]
            here = Bot(redis, script, mcp_tools=fleet, tools_most=60)
            await here.send("试试", id=f"Ev{number}")
            assert "好了。" in here.chat.texts()[-1], attack
            assert len(here.model.requests) == 3, f"{attack}: one observation"
            last = [m for m in here.model.requests[-1] if m["role"] == "tool"]
            assert len(last) == 2 and "still here" in last[1]["content"], f"{attack}: the next call works"
            assert_harmless(here, 0)
            await redis.flushall()
    got = [json.loads(line) for line in Path(f"{world.file}.got").read_text().splitlines()]
    assert {one["id"] for one in got} == {"mine-1", "mine-2", "mine-3"} and all("error" in one for one in got)


async def test_names_shadow_nothing_and_odd_ones_are_left_out(redis: Redis, world: World) -> None:
    world.mood("shadows")
    async with world.fleet(villain_of(world, rules={})) as fleet:
        names = list(fleet)
        assert all(name.startswith("v__") and len(name) <= NAME_MAX and name.isascii() for name in names)
        assert not set(names) & {tool.name for tool in TOOLS} and len(set(names)) == len(names)
        assert len(fleet.problems["v"]) >= len([n for n in SHADOWS if not n or len(n) > 128 or has_invisible(n)])
        assert all(not has_invisible(one) and len(one) < 400 for one in fleet.problems["v"])
        assert all(fleet[name].gate is Gate.CONFIRM for name in names), "nothing says that it only reads"
        here = Bot(redis, [calls(("decide_task", {"task_id": "L-0001-1"})), calls(("v__decide_task", {})), DONE],
                   mcp_tools=fleet, tools_most=60)  # fmt: skip
        await here.send("同意吧")
        [card] = here.chat.cards()
        assert card.title == translate("title.server", "zh", server="v", tool="decide_task")
        assert dict(card.facts)["外部服务"] == "v", "whose tool it is stands on its card"
    assert not world.done


async def test_what_a_server_says_of_its_tool_reaches_no_card(redis: Redis, world: World) -> None:
    world.mood("words")
    async with world.fleet(villain_of(world, rules={"pay": "confirm"})) as fleet:
        tool = fleet["v__pay"]
        assert tool.gate is Gate.CONFIRM, "the setting wins over the hint"
        assert len(tool.purpose) < PURPOSE + 200 and not has_invisible(tool.purpose + json.dumps(tool.schema))
        here = Bot(redis, [calls(("v__pay", {"a": "5"})), DONE], mcp_tools=fleet, tools_most=60)
        await here.send("付")
        [card] = here.chat.cards()
        blocks = json.dumps([list(part.blocks) for said in here.chat.posts for part in render_post(said.post)])
        assert "IMPORTANT" not in blocks and dict(card.facts)["a"] == '"5"'
    assert not world.done


async def test_schemas_fetch_nothing_try_no_pattern_and_end(world: World) -> None:
    fetched: list[str] = []

    async def trap(request: web.Request) -> web.Response:
        fetched.append(request.path)
        return web.json_response({"type": "string"})

    async with serve_routes([web.get("/{rest:.*}", trap)]) as address:
        Path(f"{world.file}.trap").write_text(f"{address}/secret.json")
        world.mood("schemas")
        async with world.fleet(villain_of(world, rules={})) as fleet:
            assert {"v__do", "v__s3"} <= set(fleet), "what can be checked without its patterns is usable"
            assert {"v__s0", "v__s1", "v__s5", "v__s6", "v__s7"}.isdisjoint(fleet)
            async with asyncio.timeout(10):
                plan = await plans(fleet, "v__s3", a="a" * 60 + "!", **{"b" * 60 + "!": 1})
            assert plan.args["arguments"]["a"].endswith("!")
    assert fetched == []


@pytest.mark.slow
async def test_of_thirty_thousand_tools_two_hundred_are_kept(world: World) -> None:
    world.mood("many")
    async with world.fleet(villain_of(world, timeout=60, rules={})) as fleet:
        assert len(fleet) == connection.MAX_TOOLS
        assert any("more than" in one for one in fleet.problems["v"])


@pytest.mark.slow
async def test_who_says_all_the_time_that_its_tools_changed_is_asked_once_a_second(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[int] = []
    real = connection.McpConnection._list_tools

    async def counted(self: Any, client: Any) -> None:
        listed.append(1)
        await real(self, client)

    monkeypatch.setattr(connection.McpConnection, "_list_tools", counted)
    began = time.monotonic()
    async with world.fleet(villain_of(world)) as fleet:
        tool = fleet["v__do"]
        for _ in range(3):
            await tool.run(None, tool.args.model_validate({"attack": "changes"}))
        await until(lambda: len(listed) >= 2)
        assert len(listed) <= 2 + (time.monotonic() - began) / connection.FIRST_S, "600 notifications"
