"""Tools of real MCP servers, by stdio and by streamable HTTP: what works, and everything that a server can do wrong."""

import asyncio
import codecs
import gzip
import json
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import ValidationError

from tests.harness.corpus import corpus
from tests.tools.mcp import villain
from tests.tools.mcp.running import WIKI_READS, World, alive, calls, plans, presses, set_timeout, until
from tests.tools.office import refused
from tools.mcp import bounds, connection, fleet
from tools.mcp.bounds import LEFT_OUT, MESSAGE_MAX, register_encoding
from tools.mcp.config import McpServer
from tools.mcp.results import PAGE_LENGTH
from tools.mcp.server_log import StderrLog
from tools.mcp.tool_adapter import NAME_MAX, format_tool_name
from tools.spec import EffectUnknownError, Gate, ToolError


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "world")


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a start nor a call waits long for a server."""
    monkeypatch.setattr(fleet, "START_S", 0.2)
    monkeypatch.setattr(connection, "PATIENCE_S", 0.2)


async def test_tools_of_a_server_appear_with_their_gates_and_work(world: World) -> None:
    async with world.fleet(world.server("wiki")) as opened:
        pid = world.pid
        assert opened["wiki__search"].gate is Gate.NONE and opened["wiki__search"].is_cacheable
        assert opened["wiki__write_page"].gate is Gate.CONFIRM, "nothing says that it only reads"
        assert opened["wiki__book"].gate is Gate.CONFIRM and not opened["wiki__book"].is_idempotent
        found = await calls(opened, "wiki__search", query="wlan")
        assert found.data["server"] == "wiki" and "tulip-7" in str(found.data["result"])
        assert found.receipt_line is not None and world.done == ["search wlan"], "nobody here knows what it did"
        began = time.monotonic()
        await calls(opened, "wiki__slow", seconds=0.5)
        one_s, began = time.monotonic() - began, time.monotonic()
        await asyncio.gather(*(calls(opened, "wiki__slow", seconds=0.5) for _ in range(8)))
        assert time.monotonic() - began < 6 * one_s, "several calls at once"
        for _ in range(3):
            noise = (await calls(opened, "wiki__noise")).data["result"]
            assert noise == {"result": "said"}, "what is no message on standard output disturbs nothing"
        assert "GOT" not in str((await calls(opened, "wiki__ask_us")).data), "it cannot ask our model or our people"
        huge = (await calls(opened, "wiki__huge")).data
        assert len(huge["result"]) <= PAGE_LENGTH and "of 1500000 characters" in huge["cut"]
        picture = (await calls(opened, "wiki__picture")).data["result"]
        assert "a cat" in picture and "image/png" in picture and "aGk=" not in picture
        assert (await calls(opened, "wiki__echo", text="hi", times=2)).data["result"] == {"result": "hi hi"}
        assert (await refused(calls(opened, "wiki__fail", text="x"))).code == "server_failed" and alive(pid)
    assert not alive(pid), "children end with us"


async def test_the_same_over_streamable_http_with_headers(world: World) -> None:
    async with world.served("wiki") as port:
        about = {"url": f"http://127.0.0.1:{port}/mcp", "headers": {"Authorization": "Bearer tulip-7"}}
        server = McpServer(name="wiki", tools=WIKI_READS, **about)
        async with world.fleet(server) as opened:
            found = await calls(opened, "wiki__search", query="wlan")
            assert "tulip-7" not in str(found.data), "what is sent to the server is not repeated: " + str(found.data)
            plan = await plans(opened, "wiki__write_page", title="A", text="b")
            assert world.done == ["search wlan"], "planned is not done"
            done = await presses(opened, "wiki__write_page", plan)
            assert done.receipt_line is not None and world.done[1:] == ["write A: b ()"]


async def test_settings_win_over_what_a_server_says_of_its_tools(world: World) -> None:
    rules = {"search": "confirm", "write_page": "none", "book": "off", "burn": "none"}
    async with world.fleet(world.server("wiki", tools=rules)) as opened:
        assert opened["wiki__search"].gate is Gate.CONFIRM
        assert opened["wiki__write_page"].gate is Gate.NONE and not opened["wiki__write_page"].is_cacheable
        assert "wiki__book" not in opened
        assert opened.problems["wiki"] == ("there is no tool 'burn' for its setting",)


async def test_approved_is_what_is_executed_argument_for_argument(world: World) -> None:
    guests = [{"name": "李四", "vegetarian": True}, {"name": "Wang"}]
    async with world.fleet(world.server("wiki")) as opened:
        for wrong in ({}, {"room": 5, "guests": []}, {"room": "Blue", "guests": [{"vegetarian": True}]}):
            with pytest.raises(ValidationError):
                await plans(opened, "wiki__book", **wrong)
        with pytest.raises(ToolError, match="at most"):
            await plans(opened, "wiki__write_page", title="A", text="x" * 70_000)
        with pytest.raises(ToolError, match="cannot show"):
            await plans(opened, "wiki__write_page", title="A", text="b", **{"x\u202e": "hidden"})
        plan = await plans(opened, "wiki__book", room="Blue", guests=guests)
        shown = {str(one.label if isinstance(one.label, str) else one.label["en"]): one.value for one in plan.fields}
        assert shown["room"] == '"Blue"' and shown["server"] == "wiki" and shown["server_tool"] == "book"
        assert shown["guests › 1 › name"] == '"李四"' and shown["guests › 1 › vegetarian"] == "true"
        assert "outside" in shown and plan.deciders == ("U1",)
        assert plan.args["arguments"] == {"room": "Blue", "guests": guests} and world.done == []
        await presses(opened, "wiki__book", plan)
        assert world.done == ["book Blue for 李四, Wang"]
        assert "note" not in opened["wiki__write_page"].schema["properties"], "the step's; theirs has another name"
        plan = await plans(opened, "wiki__write_page", title="A", text="b", their_note="asked to")
        assert plan.args["arguments"]["note"] == "asked to"
        await presses(opened, "wiki__write_page", plan)
        assert world.done[1:] == ["write A: b (asked to)"]


async def test_a_child_gets_nothing_of_ours_and_its_secrets_stay(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-ours")
    async with world.fleet(world.server("wiki", env={"WIKI_TOKEN": "tulip-secret"})) as opened:
        around = (await calls(opened, "wiki__surroundings")).data["result"]["result"]
        assert "WIKI_TOKEN" in around and "SLACK_BOT_TOKEN" not in around
        assert "tulip-secret" not in str((await calls(opened, "wiki__tell_secret")).data)
        await calls(opened, "wiki__noise")
        await until(lambda: any("my token" in str(one["text"]) for one in world.said("server.said")))
    assert "tulip-secret" not in str(world.reports) and "\x1b" not in str(world.reports)


async def test_a_server_that_dies_or_hangs_in_a_call_costs_this_call_and_comes_back(world: World) -> None:
    async with world.fleet(world.server("wiki")) as opened:
        for tool, args in (("wiki__die", {}), ("wiki__slow", {"seconds": 600})):
            set_timeout(opened, "wiki", 2)
            lost = await refused(calls(opened, tool, **args))
            assert lost.code == "server_silent" and lost.maybe is not None
            set_timeout(opened, "wiki", 10)
            await asyncio.wait_for(opened.wait_until_listed(), 30)  # a program starts as fast as the machine is
            assert (await calls(opened, "wiki__echo", text="again")).data["result"] == {"result": "again"}


@pytest.mark.parametrize("tool", ["drop", "stall"])
async def test_an_effect_without_an_answer_is_unknown_and_never_called_failed(world: World, tool: str) -> None:
    async with world.fleet(world.server("wiki")) as opened:
        plan = await plans(opened, f"wiki__{tool}", text="x")
        set_timeout(opened, "wiki", 2)
        with pytest.raises(EffectUnknownError):
            await presses(opened, f"wiki__{tool}", plan)
    assert world.done == [f"{tool} x"], "it did happen, once"


async def test_killed_between_card_and_press_it_is_reached_again_and_runs_once(world: World) -> None:
    async with world.fleet(world.server("wiki")) as opened:
        plan = await plans(opened, "wiki__write_page", title="A", text="b")
        await world.kill()
        try:
            await presses(opened, "wiki__write_page", plan)
        except ToolError as away:  # pressed before anybody knew: nothing was done, and it can be pressed again
            assert away.code == "server_away" and world.done == []
            await asyncio.wait_for(opened.wait_until_listed(), 30)
            await presses(opened, "wiki__write_page", plan)
    assert world.done == ["write A: b ()"]


async def test_gone_for_good_between_card_and_press_nothing_is_done(world: World) -> None:
    async with (
        world.served("wiki") as port,
        world.fleet(McpServer(name="wiki", url=f"http://127.0.0.1:{port}/mcp")) as opened,
    ):
        plan = await plans(opened, "wiki__write_page", title="A", text="b")
        await world.kill()
        for _ in range(2):
            assert (await refused(presses(opened, "wiki__write_page", plan))).code == "server_away"
    assert world.done == []


@pytest.mark.parametrize("mood", ["schema", "words", "reads", "gone", ""])
async def test_a_tool_that_changed_between_card_and_press_is_not_run(world: World, mood: str) -> None:
    async with world.fleet(world.server("moody")) as opened:
        plan = await plans(opened, "moody__pay", amount=5)
        if not mood:
            await presses(opened, "moody__pay", plan)
            assert world.done == ["pay 5"], "the control"
            return
        world.mood(mood)
        await world.kill()  # it comes back as another one, under the same name
        before = {"moody__pay": opened["moody__pay"]}
        for _ in range(2):  # the first press may only find out that it is away
            error = await refused(presses(before, "moody__pay", plan))
            await asyncio.wait_for(opened.wait_until_listed(), 30)
        assert error.code == "tool_changed"
    assert world.done == []


async def test_only_the_file_opens_a_gate_whatever_a_server_says_of_its_tool_then_or_later(world: World) -> None:
    async with world.fleet(world.server("moody")) as opened:
        assert opened["moody__pay"].gate is Gate.CONFIRM and opened.suggest_rows("moody") == ""
        world.mood("reads")
        await world.kill()  # it comes back, and marks the tool read-only
        with suppress(ToolError):  # it may only be found out now that it is away
            await opened.connections["moody"].refresh_tools()
        await asyncio.wait_for(opened.wait_until_listed(), 30)
        await opened.connections["moody"].refresh_tools()
        assert opened.list_tools("moody")[0].is_read_only
        assert opened["moody__pay"].gate is Gate.CONFIRM and opened.suggest_rows("moody") == 'pay = "none"'
    async with world.fleet(world.server("moody", tools={"pay": "none"})) as opened:
        assert opened["moody__pay"].gate is Gate.NONE and opened.suggest_rows("moody") == ""


async def test_the_start_does_not_wait_long_and_who_comes_later_is_there_later(world: World, hasty: None) -> None:
    began = time.monotonic()
    async with fleet.open_toolset([world.server("late", timeout=60, tools=WIKI_READS)], world.report) as opened:
        assert time.monotonic() - began < 5 and list(opened) == []
        early = opened["late__search"]
        assert early.gate is Gate.CONFIRM and early.prepare is not None, "who knows what it is: nothing runs ungated"
        assert (await refused(early.prepare(None, None))).code == "server_away"  # type: ignore[arg-type]
        world.opens()
        await until(lambda: "late__search" in list(opened))
        assert (await calls(opened, "late__echo", text="a")).data["result"] == {"result": "a"}


@pytest.mark.parametrize("kind", ["mute", "garbage", "dead"])
async def test_a_server_that_never_speaks_is_only_away(world: World, hasty: None, kind: str) -> None:
    both = [world.server(kind, timeout=2), World(world.file.with_name("other")).server("wiki")]
    async with fleet.open_toolset(both, world.report) as opened:
        await until(lambda: bool(opened.connections[kind].error))
        await until(lambda: "wiki__echo" in list(opened))
        assert (await calls(opened, "wiki__echo", text="a")).data["result"] == {"result": "a"}, "the others work"
        assert world.said("server.away")[0]["server"] == kind


async def test_a_start_that_is_cancelled_leaves_no_file_open(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*pipe: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "connect_read_pipe", hang)
    log = StderrLog(McpServer(name="wiki", command=("wiki",)), lambda event, **about: None)
    entering = asyncio.create_task(log.__aenter__())
    await asyncio.sleep(0)
    entering.cancel()
    await asyncio.wait({entering})
    assert entering.cancelled() and log.file.closed


async def test_it_is_tried_again_after_longer_and_longer_pauses(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "START_S", 0.1)
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(0)

    server = McpServer(name="nowhere", command=("/no/such/program",))
    async with fleet.open_toolset([server], world.report, sleep):
        await until(lambda: len(slept) > 16)
    pauses = [first + rest for first, rest in zip(slept[::2], slept[1::2], strict=False)]
    assert pauses[:7] == [1, 2, 4, 8, 16, 32, 60]
    assert len(world.said("server.away")) == 1, "the same trouble is told once"


async def test_children_end_with_us_also_when_we_are_cancelled(world: World) -> None:
    async def bot() -> None:
        async with world.fleet(world.server("wiki")):
            await asyncio.Event().wait()

    task = asyncio.create_task(bot())
    await until(lambda: bool(world.said("server.tools")))
    pid = world.pid
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive(pid)


def test_names_fit_and_never_meet() -> None:
    long = format_tool_name("crm", "a" * 200)
    assert len(long) == NAME_MAX and long != format_tool_name("crm", "a" * 199)
    assert format_tool_name("crm", "发票.开具") != format_tool_name("crm", "发票.查验"), "of neither a letter is left"
    assert format_tool_name("x", "a.b") == format_tool_name("x", "a/b") == "x__a_b", "the second is left out"


async def test_a_changed_list_is_heard_of(world: World) -> None:
    """By the notification of a server that speaks the protocol as it was."""
    world.mood("changing")
    command = (sys.executable, str(villain.__file__), str(world.file))
    async with world.fleet(McpServer(name="v", command=command, timeout_seconds=10, tools={"do": "none"})) as opened:
        before = opened["v__pay"].purpose
        await calls(opened, "v__do", attack="changes")
        await until(lambda: opened["v__pay"].purpose != before)


async def test_an_idle_server_that_dies_is_noticed_and_reached(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "RELIST_S", 0.2)
    async with world.fleet(world.server("moody")) as opened:
        world.mood("gone")
        await world.kill()
        await until(lambda: list(opened) == [])
        with pytest.raises(KeyError):
            opened["moody__pay"]


# Answers without end: what is read of them is bounded, and their servers are only away


ENDLESS = textwrap.dedent(
    """
    import sys
    piece = b'{"jsonrpc": "2.0", "result": "' + b"x" * 65536
    with open(sys.argv[1], "w") as told:
        sent = 0
        try:
            while sent < 200_000_000:
                sent += sys.stdout.buffer.write(piece)
                told.seek(0); told.write(str(sent)); told.flush()
        except BrokenPipeError:
            pass
    """
)


async def test_a_line_without_end_is_not_collected(world: World, tmp_path: Path) -> None:
    program, told = tmp_path / "endless.py", tmp_path / "told"
    program.write_text(ENDLESS)
    server = McpServer(name="endless", command=(sys.executable, str(program), str(told)), timeout_seconds=20)
    async with fleet.open_toolset([server], world.report):
        await until(lambda: bool(world.said("server.away")))
        assert "line is longer" in str(world.said("server.away")[0]["error"])


@asynccontextmanager
async def answering(answer: Callable[[web.Request], web.StreamResponse]) -> AsyncIterator[McpServer]:
    async def serve(request: web.Request) -> web.StreamResponse:
        return answer(request)

    app = web.Application()
    app.router.add_route("*", "/mcp", serve)
    async with TestServer(app) as served:
        yield McpServer(name="large", url=f"http://127.0.0.1:{served.port}/mcp", timeout_seconds=10)


LARGE = json.dumps({"jsonrpc": "2.0", "id": 0, "result": {"x": "y" * (MESSAGE_MAX + 1)}}).encode()
PACKED = gzip.compress(json.dumps({"jsonrpc": "2.0", "id": 0, "result": {"x": "y" * 50_000_000}}).encode())


@pytest.mark.parametrize(
    ("body", "headers"),
    [(LARGE, {}), (PACKED, {"Content-Encoding": "gzip"})],
    ids=["a body without end", "a packed body"],
)
async def test_a_body_without_end_is_not_read(world: World, body: bytes, headers: dict[str, str]) -> None:
    def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, content_type="application/json", headers=headers)

    async with answering(answer) as server, fleet.open_toolset([server], world.report):
        await until(lambda: bool(world.said("server.away")))


async def test_the_bound_is_what_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: without it the whole body is read."""
    transport = bounds.BoundedTransport()

    async def read(server: McpServer) -> int:
        async with bounds.httpx2.AsyncClient(transport=transport) as client:
            return len((await client.get(server.url)).content)

    async with answering(lambda request: web.Response(body=LARGE)) as server:
        with pytest.raises(bounds.MessageTooLongError):
            await read(server)
        monkeypatch.setattr(bounds, "MESSAGE_MAX", 1 << 40)
        transport = bounds.BoundedTransport()
        assert await read(server) == len(LARGE)


@corpus("size", 1 << 16, 1 << 20, MESSAGE_MAX * 3)
def test_lines_are_read_as_utf_8_however_they_are_cut_and_one_that_is_too_long_is_left_out(size: int) -> None:
    decoder = codecs.getincrementaldecoder(register_encoding())()
    text = "请假 😀\n" * 3
    assert "".join(decoder.decode(bytes([one])) for one in text.encode()) == text
    for _ in range(10):
        assert decoder.decode(b"x" * (MESSAGE_MAX // 2) + b"\n"), "many lines may be longer together"
    raw = b"before\n" + "请".encode() * MESSAGE_MAX + b"\n" + "after 请\n".encode()
    lines = "".join(decoder.decode(raw[at : at + size]) for at in range(0, len(raw), size)).split("\n")
    assert lines[0] == "before" and lines[-2:] == ["after 请", ""] and lines.count(LEFT_OUT) == 1
    assert sum(map(len, lines)) < MESSAGE_MAX + 1000
