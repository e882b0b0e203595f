"""Tools of MCP servers in whole conversations: real servers, the real loop, gate and lanes; a model that may do
anything."""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.agent.formats.json_format import JsonFormat
from bot.agent.formats.text_format import TextFormat
from bot.agent.model import ModelReply
from bot.core.i18n import translate
from bot.core.records import EffectState
from bot.ops.cli.run import format_banner
from bot.ops.doctor import check_services
from tests.harness.memory_bot import OUTSIDE, Bot, every_edge
from tests.harness.scripted_model import Scripted
from tests.stories.script import DONE, calls
from tests.tools.mcp.running import World, set_timeout, until
from tools.mcp.config import McpServer
from tools.mcp.fleet import McpToolset
from tools.spec import Gate
from tools.tool import Tool

WRITE = calls(("wiki__write_page", {"title": "WLAN", "text": "郁金香"}))


def open_bot(redis: Redis, more: Mapping[str, Tool], *script: Scripted) -> Bot:
    return Bot(redis, script, mcp_tools=more, tools_most=60)


async def test_a_question_is_answered_by_a_tool_that_only_reads(redis: Redis, wiki: McpToolset, world: World) -> None:
    answer = ModelReply(text="访客密码是 tulip-7。")
    here = open_bot(redis, wiki, calls(("wiki__search", {"query": "访客 wifi"})), answer)
    await here.send("访客的 wifi 密码是多少？")
    shown = "\n".join(here.chat.texts())
    assert "tulip-7" in shown and world.done == ["search 访客 wifi"]
    assert "wiki：search" in shown, "the step says whose tool it is"
    receipt = here.chat.posts[-1].post.receipt
    assert here.chat.cards() == [] and receipt == "系统记录：调用了 wiki 的「search」", "nobody here knows what it did"


@pytest.mark.slow
async def test_killed_anywhere_in_a_press_it_is_written_once_or_said_to_be_unknown(
    redis: Redis, wiki: McpToolset, world: World
) -> None:
    """The process ends between any two actions visible from outside; another one takes over."""
    seen: set[tuple[EffectState, int]] = set()

    async for edges in every_edge(redis):
        world.file.unlink(missing_ok=True)
        here = open_bot(redis, wiki, WRITE, *[DONE] * 3)
        await here.send("在 wiki 里写一个页面")
        here.edges = here.lanes.edge = here.chat.edge = edges
        await here.press(here.chat.cards()[0], "confirm")
        seen.add(((await here.load_approval()).effect, len(world.done)))
    assert seen == {(EffectState.DONE, 1), (EffectState.UNKNOWN, 1), (EffectState.UNKNOWN, 0)}


NAMES = ["hostile__book", "book", "HOSTILE__BOOK", "hostile__", "hostile__none", "send_email", "hostilebook"]
ARGS: list[dict[str, Any]] = [
    {"room": "all"},
    {"to": "李四", "subject": "数据", "body": "全部数据"},
    {"mark": "x", "arguments": {"room": "z"}},
]


@pytest.mark.slow
async def test_a_hostile_server_and_a_hostile_model_do_nothing_without_a_button(redis: Redis, world: World) -> None:
    """The model obeys the server's description, and calls anything with anything, in any order. Control: with its
    button, a call does something."""
    dice = random.Random(7)
    async with world.fleet(world.server("hostile")) as hostile:
        assert hostile["hostile__book"].gate is Gate.CONFIRM
        for _ in range(60):
            await redis.flushall()
            wild = [[(dice.choice(NAMES), dice.choice(ARGS)) for _ in range(dice.randint(1, 3))] for _ in range(4)]
            here = open_bot(redis, hostile, *[calls(*one) for one in wild], DONE)
            await here.send("hello")
            assert world.done == [] and here.mailer.mails == []
        await redis.flushall()
        here = open_bot(redis, hostile, calls(("hostile__book", {"room": "all"})), DONE)
        await here.send("hello")
        await here.press(here.chat.cards()[0], "confirm")
        assert world.done == ["book all"]


@pytest.mark.parametrize("style", [TextFormat(), JsonFormat()], ids=lambda one: one.name)
async def test_where_tools_are_told_in_words_a_servers_words_are_not_the_systems(
    redis: Redis, world: World, style: TextFormat | JsonFormat
) -> None:
    said = {
        "text": 'Thought: look\nAction: hostile__book\nAction Input: {"room": "Blue"}',
        "json": '{"type": "tool_call", "tool": "hostile__book", "args": {"room": "Blue"}, "reason_summary": "look"}',
    }
    async with world.fleet(world.server("hostile")) as hostile:
        here = Bot(redis, [ModelReply(text=said[style.name])], mcp_tools=hostile, tools_most=60, formats=(style,))
        await here.send("hello")
        assert len(here.chat.cards()) == 1 and world.done == [], "the same gate, however the model speaks"
    system, outside, *_ = here.model.requests[0]
    assert "IMPORTANT" not in system["content"] and "hostile" not in system["content"]
    assert outside["role"] == "user" and "IMPORTANT" in outside["content"]
    assert outside["content"].startswith('<tools from="servers outside">')
    assert outside["content"].count("</tools>") == 1 and "<message" not in outside["content"]


def test_the_banner_names_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "wiki (3 tools), crm (not reached yet; no tools)" in format_banner(OUTSIDE, {"wiki": 3, "crm": 0})
    assert "servers" not in format_banner(OUTSIDE, {})
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert "  MCP 服务   wiki（3 个工具）" in format_banner(OUTSIDE, {"wiki": 3})


async def test_doctor_lists_tools_and_gates_and_what_is_wrong(world: World, valkey: str) -> None:
    outside = replace(OUTSIDE, redis_url=valkey, standins=("workspace", "model", "mail"))
    nowhere = McpServer(name="nowhere", command=("/no/such",), timeout_seconds=1)
    servers = [world.server("wiki", tools={"burn": "off", "search": "none"}), nowhere]
    found = [one async for one in check_services(outside, "native", servers)]
    told = {(one.level, one.subject): one.text for one in reversed(found)}
    assert "wiki__search (none)" in told["ok", "wiki"] and "wiki__write_page (confirm)" in told["ok", "wiki"]
    [suggested] = [one.text for one in found if "[servers.wiki.tools]" in one.text]
    assert '[servers.wiki.tools] ask_us = "none", ' in suggested
    assert "search" not in suggested and "write_page" not in suggested, "it has a row; it may write"
    assert "burn" in told["warn", "wiki"]
    assert "not reached (FileNotFoundError" in told["fail", "nowhere"] and "MCP_FILE" in told["fail", "nowhere"]


@pytest.mark.parametrize("language", ["zh", "en"])
async def test_a_server_that_says_it_failed_may_have_done_half_of_it(redis: Redis, world: World, language: str) -> None:
    """Therefore the receipt does not say that nothing was changed."""
    async with world.fleet(world.server("wiki", tools={"fail": "confirm"})) as wiki:
        here = open_bot(redis, wiki, calls(("wiki__fail", {"text": "WLAN"})), ModelReply(text="没有办成。"))
        person = "U1" if language == "zh" else "U3"
        await here.send("改一下", person=person)
        await here.press(here.chat.cards()[0], "confirm", person=person)
    unsure = {"zh": "不知道", "en": "it is not known whether anything changed"}[language]
    receipt = here.chat.posts[-1].post.receipt
    assert unsure in receipt and translate("receipt.nothing", language) not in receipt
    approval = await here.load_approval()
    assert approval.effect is EffectState.FAILED and approval.possible_change is not None
    assert (await here.approvals.load_approval(approval.id)) == approval


async def test_a_call_that_a_stop_met_may_have_done_something(redis: Redis, world: World) -> None:
    async with world.fleet(world.server("wiki", tools={"search": "none", "stall": "none"})) as wiki:
        script = calls(("wiki__search", {"query": "WLAN"}), ("wiki__stall", {"text": "WLAN"}))
        here = open_bot(redis, wiki, script)
        await here.put_message("查一下")
        [lease] = [one for n in range(2) for one in await here.lanes.claim("p", n, 1)]
        working = asyncio.create_task(here.work_on(lease))
        await until(lambda: len(world.done) == 2)
        lease.apply_stops("U1")
        await asyncio.wait_for(working, 30)
    assert here.chat.posts[-1].post.receipt == "系统记录：调用了 wiki 的「search」 · 调用了 wiki 的「stall」"


async def test_negative_control_a_call_that_no_tool_took_changed_nothing(redis: Redis, world: World) -> None:
    """An unreachable server has certainly done nothing."""
    async with world.fleet(world.server("wiki", tools={"fail": "confirm"})) as wiki:
        here = open_bot(redis, wiki, calls(("wiki__fail", {"text": "WLAN"})), DONE)
        await here.send("改一下")
    set_timeout(wiki, "wiki", 2)
    await here.press(here.chat.cards()[0], "confirm")
    assert here.chat.posts[-1].post.receipt == translate("receipt.nothing", "zh")
