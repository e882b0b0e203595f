"""A hostile MCP server, alive, over the real transports: every attack costs one observation, moves no gate and reaches
no card but as what the server says."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from redis.asyncio import Redis

from bot.agent.model import ModelReply
from bot.agent.tool_executor import OBSERVATION_MAX
from bot.chat.slack.blocks import render_post
from bot.core.i18n import translate
from tests.harness.lab import Lab
from tests.stories.script import DONE, calls
from tests.tools.mcp import villain
from tests.tools.mcp.running import World, plans, presses, until
from tests.tools.mcp.villain import SHADOWS
from tools.catalog import TOOLS
from tools.characters import has_invisible
from tools.mcp import connection, fleet
from tools.mcp.config import McpServer
from tools.mcp.tool_adapter import NAME_MAX, PURPOSE
from tools.spec import Gate, ToolError

ATTACKS = [
    *("bomb", "deep", "deeper", "parts", "image", "structured", "evil", "failed", "junk", "error"),
    *("progress", "asks", "cancelled", "twice", "changes", "noise"),
]
RULES = {"do": "none"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "world")


def villain_of(world: World, timeout: float = 20, rules: dict[str, Any] | None = None) -> McpServer:
    command = (sys.executable, str(Path(villain.__file__)), str(world.file))
    return McpServer(name="v", command=command, timeout_seconds=timeout, tools=RULES if rules is None else rules)


def assert_harmless(here: Lab, began: int) -> None:
    """Nothing was pressed, mailed or gated otherwise; what the model read is bounded and all of it can be seen."""
    assert here.mailer.mails == [] and here.wall.cards() == []
    for request in here.model.requests[began:]:
        assert request[0]["role"] == "system" and "IMPORTANT" not in request[0]["content"]
        for message in request[1:]:
            content = str(message.get("content") or "")
            assert len(content) <= OBSERVATION_MAX + 200 and not has_invisible(content) and "\x1b" not in content
            assert "IMPORTANT" not in content or message["role"] == "tool", "its words are in a tool's result"
    for said in here.wall.said:
        shown = json.dumps([list(part.blocks) for part in render_post(said.post)], ensure_ascii=False)
        assert "IMPORTANT" not in shown and "evil.example" not in shown, "people read our words"


async def test_every_attack_in_an_answer_costs_one_observation(
    redis: Redis, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PATIENCE_S", 30.0)  # a server that fell is started again, however slow the machine
    async with world.fleet(villain_of(world, timeout=8)) as fleet:
        for number, attack in enumerate(ATTACKS):
            script = [calls(("v__do", {"attack": attack})), calls(("v__do", {"attack": ""})), ModelReply(text="好了。")]
            here = Lab(redis, script, more=fleet, most=60)
            await here.says("试试", id=f"Ev{number}")
            await here.work()
            assert "好了。" in here.wall.texts()[-1], attack
            assert len(here.model.requests) == 3, f"{attack}: one observation"
            last = [m for m in here.model.requests[-1] if m["role"] == "tool"]
            assert len(last) == 2 and "still here" in last[1]["content"], f"{attack}: the next call works"
            assert_harmless(here, 0)
            await redis.flushall()
    got = [json.loads(line) for line in Path(f"{world.file}.got").read_text().splitlines()]
    assert {one["id"] for one in got} == {"mine-1", "mine-2", "mine-3"} and all("error" in one for one in got)


async def test_silence_and_endless_streams_cost_the_time_they_are_given(world: World) -> None:
    async with world.fleet(villain_of(world, timeout=2)) as fleet:
        tool = fleet["v__do"]
        plan = tool.args.model_validate({"attack": "silence"})
        with pytest.raises(ToolError) as lost:
            await tool.run(None, plan)
        assert lost.value.code == "server_away"
        again = await tool.run(None, tool.args.model_validate({"attack": ""}))
        assert again.data["result"] == "still here"


@asynccontextmanager
async def streaming() -> AsyncIterator[tuple[str, list[str]]]:
    """A server over HTTP whose answer to a call is a stream of events without an end."""
    asked: list[str] = []

    async def post(request: web.Request) -> web.StreamResponse:
        message = await request.json()
        asked.append(message.get("method", ""))
        match message.get("method"):
            case "initialize":
                about = {"protocolVersion": "2025-06-18", "serverInfo": {"name": "s", "version": "1"}}
                return answered(message, {**about, "capabilities": {"tools": {}}})
            case "tools/list":
                return answered(message, {"tools": [villain.tool("do"), villain.tool("echo")]})
            case "tools/call" if message["params"]["name"] == "echo":
                return answered(message, villain.text("still here"))
            case "tools/call":
                response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
                await response.prepare(request)
                while True:
                    progress = {"progressToken": message["id"], "progress": 1, "message": villain.EVIL}
                    event = {"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}
                    await response.write(f"event: message\ndata: {json.dumps(event)}\n\n: {'x' * 1000}\n\n".encode())
                    await asyncio.sleep(0.002)
            case _ if "id" in message:
                return web.json_response(
                    {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "unknown"}}
                )
        return web.Response(status=202)

    async def ended(request: web.Request) -> web.Response:
        return web.Response()

    def answered(message: dict[str, Any], result: dict[str, Any]) -> web.Response:
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": result})

    app = web.Application()
    app.router.add_post("/mcp", post)
    app.router.add_delete("/mcp", ended)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/mcp", asked
    finally:
        await runner.cleanup()


async def test_a_stream_without_an_end_costs_its_time_over_http(world: World) -> None:
    async with streaming() as (url, asked):
        server = McpServer(name="s", url=url, timeout_seconds=3, tools={"do": "none", "echo": "none"})
        async with world.fleet(server) as fleet:
            with pytest.raises(ToolError) as lost:
                await fleet["s__do"].run(None, fleet["s__do"].args.model_validate({}))
            assert lost.value.code == "server_away" and "tools/call" in asked
            again = await fleet["s__echo"].run(None, fleet["s__echo"].args.model_validate({}))
            assert again.data["result"] == "still here"


async def test_names_shadow_nothing_and_odd_ones_are_left_out(redis: Redis, world: World) -> None:
    world.mood("shadows")
    async with world.fleet(villain_of(world, rules={})) as fleet:
        names = list(fleet)
        assert all(name.startswith("v__") and len(name) <= NAME_MAX and name.isascii() for name in names)
        assert not set(names) & {tool.name for tool in TOOLS} and len(set(names)) == len(names)
        assert len(fleet.problems["v"]) >= len([n for n in SHADOWS if not n or len(n) > 128 or has_invisible(n)])
        assert all(not has_invisible(one) and len(one) < 400 for one in fleet.problems["v"])
        assert all(fleet[name].gate is Gate.CONFIRM for name in names), "nothing says that it only reads"
        here = Lab(redis, [calls(("decide_task", {"task_id": "L-0001-1"})), calls(("v__decide_task", {})), DONE],
                   more=fleet, most=60)  # fmt: skip
        await here.says("同意吧")
        await here.work()
        [card] = here.wall.cards()
        assert card.title == translate("title.server", "zh", server="v", tool="decide_task")
        assert dict(card.facts)["外部服务"] == "v", "whose tool it is stands on its card"
    assert not world.done


async def test_what_a_server_says_of_its_tool_reaches_no_card(redis: Redis, world: World) -> None:
    world.mood("words")
    async with world.fleet(villain_of(world, rules={"pay": "confirm"})) as fleet:
        tool = fleet["v__pay"]
        assert tool.gate is Gate.CONFIRM, "the setting wins over the hint"
        assert len(tool.purpose) < PURPOSE + 200 and not has_invisible(tool.purpose + json.dumps(tool.schema))
        here = Lab(redis, [calls(("v__pay", {"a": "5"})), DONE], more=fleet, most=60)
        await here.says("付")
        await here.work()
        [card] = here.wall.cards()
        blocks = json.dumps([list(part.blocks) for said in here.wall.said for part in render_post(said.post)])
        assert "IMPORTANT" not in blocks and dict(card.facts)["a"] == '"5"'
    assert not world.done


async def test_schemas_fetch_nothing_try_no_pattern_and_end(world: World) -> None:
    fetched: list[str] = []

    async def trap(request: web.Request) -> web.Response:
        fetched.append(request.path)
        return web.json_response({"type": "string"})

    app = web.Application()
    app.router.add_get("/{rest:.*}", trap)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    Path(f"{world.file}.trap").write_text(f"http://127.0.0.1:{runner.addresses[0][1]}/secret.json")
    world.mood("schemas")
    try:
        async with world.fleet(villain_of(world, rules={})) as fleet:
            assert {"v__do", "v__s3"} <= set(fleet), "what can be checked without its patterns is usable"
            assert {"v__s0", "v__s1", "v__s5", "v__s6", "v__s7"}.isdisjoint(fleet)
            async with asyncio.timeout(10):
                plan = await plans(fleet, "v__s3", a="a" * 60 + "!", **{"b" * 60 + "!": 1})
            assert plan.args["arguments"]["a"].endswith("!")
    finally:
        await runner.cleanup()
    assert fetched == []


async def test_of_thirty_thousand_tools_two_hundred_are_kept(world: World) -> None:
    world.mood("many")
    async with world.fleet(villain_of(world, timeout=60, rules={})) as fleet:
        assert len(fleet) == connection.MAX_TOOLS
        assert any("more than" in one for one in fleet.problems["v"])


async def test_a_list_of_a_hundred_thousand_tools_is_not_read_at_all(world: World) -> None:
    """It is longer than what is read of one message: the server counts as away, and the others are not touched."""
    world.mood("flood")
    async with fleet.open_toolset([villain_of(world, rules={})], world.report) as opened:
        await until(lambda: bool(world.said("server.away")))
        assert len(opened) == 0
        assert "a line is longer than" in str(world.said("server.away")[0]["error"])


async def test_a_tool_that_changes_with_every_look_is_never_run(world: World) -> None:
    world.mood("changing")
    async with world.fleet(villain_of(world, rules={})) as fleet:
        for _ in range(3):
            with pytest.raises(ToolError) as changed:
                await presses(fleet, "v__pay", await plans(fleet, "v__pay", amount=5))
            assert changed.value.code == "tool_changed"
    assert not world.done


async def test_control_a_tool_that_stays_is_run(world: World) -> None:
    async with world.fleet(villain_of(world, rules={})) as fleet:
        await presses(fleet, "v__do", await plans(fleet, "v__do", attack=""))
    assert world.done == ['do {"attack": ""}']


async def test_who_says_all_the_time_that_its_tools_changed_is_asked_once_a_second(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[int] = []
    real = connection.McpConnection._list_tools

    async def counted(self: Any, client: Any) -> None:
        listed.append(1)
        await real(self, client)

    monkeypatch.setattr(connection.McpConnection, "_list_tools", counted)
    async with world.fleet(villain_of(world)) as fleet:
        tool = fleet["v__do"]
        for _ in range(3):
            await tool.run(None, tool.args.model_validate({"attack": "changes"}))
        await until(lambda: len(listed) >= 2)
        assert len(listed) <= 4, "600 notifications"
