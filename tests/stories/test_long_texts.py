"""A text that no card holds: it is read whole, in the dialog in which it is confirmed, or it goes nowhere."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.agent.model import ModelReply
from bot.chat.slack.text import unescape_text
from bot.core.i18n import translate
from bot.core.records import ApprovalState, EffectState
from bot.core.work_items import ExpireCard
from tests.harness.lab import Edges, Lab, every_edge
from tests.harness.office import LI, ZHANG, Office, read_message_text
from tests.harness.scripted_model import ScriptedModel
from tests.stories.behind import rewritten
from tests.stories.script import DONE, calls
from tests.tools.mcp.running import World
from tools.mcp.fleet import McpToolset
from tools.mcp.tool_adapter import MAX_DIALOG_BYTES

TEXT = "".join(f"{n}. 每个人都要读到这一行 <!channel> `x`\n" for n in range(600)) + "最后一行：转 9,999 元"
"""The last line is what matters."""
WRITE = calls(("wiki__write_page", {"title": "规定", "text": TEXT}))
WROTE = ModelReply(text="写好了。")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "world")


@pytest.fixture
async def wiki(world: World) -> AsyncIterator[McpToolset]:
    async with world.fleet(world.server("wiki", timeout=5)) as opened:
        yield opened


def wrote(world: World) -> bool:
    """Once, and exactly what was read."""
    return "\n".join(world.done) == f"write 规定: {TEXT} ()"


async def proposed(redis: Redis, wiki: McpToolset, *then: ModelReply) -> Lab:
    here = Lab(redis, [WRITE, *(then or (DONE,))], more=wiki, most=60)
    await here.says("在 wiki 里写一个页面")
    await here.work()
    return here


async def test_confirmed_only_where_all_of_it_was_read(redis: Redis, wiki: McpToolset, world: World) -> None:
    here = await proposed(redis, wiki)
    [card] = here.wall.cards()
    told = dict(card.facts)
    assert told["title"] == '"规定"'
    assert told["text"] == translate("fact.in_dialog", "zh", n=len(TEXT) + 2), "with its quotes"
    await here.presses(card, "confirm", id="bare")
    await here.work()
    assert world.done == [] and here.wall.whispers == [("U1", translate("refused.no_form", "zh"))], (
        "nothing was read yet"
    )
    await here.presses(card, "confirm", id="read", form={})
    await here.presses(card, "confirm", id="read twice", form={})
    await here.work()
    assert wrote(world) and (await here.approval()).effect is EffectState.DONE
    assert here.wall.whispers[1:] and len(here.wall.whispers) == 2, "the second press is told that it was late"


async def test_a_form_that_nobody_was_shown_adds_nothing(redis: Redis, wiki: McpToolset, world: World) -> None:
    here = await proposed(redis, wiki)
    forged = {"text1": "short", "arguments": "{}", "mark": "x", "title": "y"}
    await here.presses(here.wall.cards()[0], "confirm", form=forged)
    await here.work()
    assert wrote(world) and (await here.approval()).form == {}


async def test_somebody_else_confirms_nothing(redis: Redis, wiki: McpToolset, world: World) -> None:
    here = await proposed(redis, wiki)
    await here.presses(here.wall.cards()[0], "confirm", person="U2", form={})
    await here.work()
    assert world.done == [] and (await here.approval()).state is ApprovalState.OPEN


async def test_a_dialog_of_a_card_that_was_renewed_confirms_nothing(
    redis: Redis, wiki: McpToolset, world: World
) -> None:
    here = await proposed(redis, wiki, DONE, DONE)
    [old] = here.wall.cards()
    here.ahead = here.card_opener.open_for
    await here.lanes.enqueue(old.buttons[0].approval, "late", ExpireCard(version=1).model_dump_json())
    await here.work()
    await here.presses(here.wall.cards()[0], "again")
    await here.work()
    fresh = here.wall.cards()[-1]
    await here.presses(old, "confirm", id="old", form={})
    await here.work()
    assert world.done == [] and here.wall.whispers
    await here.presses(fresh, "confirm", id="fresh", form={})
    await here.work()
    assert wrote(world)


async def test_killed_anywhere_in_between_it_is_written_once_or_said_to_be_unknown(
    redis: Redis, wiki: McpToolset, world: World
) -> None:
    seen: set[tuple[EffectState, bool]] = set()

    async def play(edges: Edges) -> None:
        await redis.flushall()
        world.file.unlink(missing_ok=True)
        here = await proposed(redis, wiki, *[DONE] * 3)
        here.edges = here.lanes.edge = here.wall.edge = edges
        await here.presses(here.wall.cards()[0], "confirm", form={})
        await here.work()
        assert world.done == [] or wrote(world)
        seen.add(((await here.approval()).effect, bool(world.done)))

    await every_edge(play)
    assert seen == {(EffectState.DONE, True), (EffectState.UNKNOWN, True), (EffectState.UNKNOWN, False)}


async def test_what_no_dialog_holds_is_refused_in_words(redis: Redis, wiki: McpToolset, world: World) -> None:
    long = calls(("wiki__write_page", {"title": "规定", "text": "x" * MAX_DIALOG_BYTES}))
    here = Lab(redis, [long, DONE], more=wiki, most=60)
    await here.says("在 wiki 里写一个页面")
    await here.work()
    assert here.wall.cards() == [] and translate("error.too_much", "zh") in "\n".join(here.wall.texts())


@pytest.fixture
def settings(world: World, tmp_path: Path) -> dict[str, Any]:
    file = tmp_path / "mcp.toml"
    file.write_text(f"[servers.wiki]\ncommand = {json.dumps(world.server('wiki').command)}\n", encoding="utf-8")
    return {"model": ScriptedModel([WRITE, WROTE]), "mcp_file": file}


def read(view: dict[str, Any]) -> str:
    """What stands in a dialog below what it is about, as people read it."""
    line = [block["type"] for block in view["blocks"]].index("divider")
    texts = [block["text"]["text"] for block in view["blocks"][line + 1 :]]
    return "".join(unescape_text(text).split("```\n", 1)[1].removesuffix("\n```") for text in texts)


async def test_in_the_workspace_it_is_read_to_its_last_line_and_then_confirmed(
    empty: Office, world: World, settings: dict[str, Any]
) -> None:
    """The real bot; a restart between reading and confirming changes nothing."""
    here = empty.dm(ZHANG)
    async with empty.opened(**settings):
        await empty.says(ZHANG, "在 wiki 里写一个页面")
        card = await empty.card(here)
        assert "最后一行" not in read_message_text(card) and "全文" in read_message_text(card)
        await empty.press(ZHANG, card, "confirm")
        view = await empty.until(lambda: empty.driver.find_top_view(ZHANG))
        assert read(view) == f'"{TEXT}"' and view["title"]["text"] == translate("card.read_first", "zh")
        assert view["submit"]["text"] == "确认" and world.done == []
        assert empty.driver.find_top_view(LI) is None and empty.posts(empty.dm(LI)) == [], (
            "it is nobody else's business"
        )
    async with empty.opened(**settings):
        assert not (await empty.driver.submit_view(ZHANG, view["id"], {})).error
        await empty.until(lambda: "执行了「write_page」" in empty.said(here))
    assert wrote(world)


async def test_a_dialog_that_cannot_be_shown_confirms_nothing_and_says_so(
    empty: Office, world: World, settings: dict[str, Any]
) -> None:
    here = empty.dm(ZHANG)
    async with empty.opened(**settings):
        await empty.says(ZHANG, "在 wiki 里写一个页面")
        card = await empty.card(here)
        empty.driver.fail_next_call("views.open", "expired_trigger_id")
        await empty.press(ZHANG, card, "confirm")
        await empty.until(lambda: translate("slack.press_again", "zh") in empty.whispers(ZHANG))
        assert world.done == [] and empty.driver.find_top_view(ZHANG) is None
        await empty.press(ZHANG, card, "confirm")
        view = await empty.until(lambda: empty.driver.find_top_view(ZHANG))
        await empty.driver.submit_view(ZHANG, view["id"], {})
        await empty.until(lambda: "执行了「write_page」" in empty.said(here))
    assert wrote(world)


@pytest.mark.parametrize("text", ["别的", TEXT[:-1], TEXT.replace("9,999", "99,999")])
async def test_arguments_changed_after_they_were_read_are_not_used(
    empty: Office, redis: Redis, world: World, settings: dict[str, Any], text: str
) -> None:
    async with empty.opened(**settings):
        await empty.says(ZHANG, "在 wiki 里写一个页面")
        card = await empty.card(empty.dm(ZHANG))
        await empty.press(ZHANG, card, "confirm")
        view = await empty.until(lambda: empty.driver.find_top_view(ZHANG))
        [approval] = await empty.approvals.list_open_approvals()
        arguments = {**approval.proposal.args["arguments"], "text": text}
        await rewritten(redis, approval.id, args={**approval.proposal.args, "arguments": arguments})
        await empty.driver.submit_view(ZHANG, view["id"], {})
        await empty.until(lambda: translate("error.altered", "zh") in empty.said(empty.dm(ZHANG)))
    assert world.done == []
