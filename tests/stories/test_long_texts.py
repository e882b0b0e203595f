"""A text too long for any card: it is read whole, in the dialog in which it is confirmed, or it goes nowhere."""

import json
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.agent.model import ModelReply
from bot.chat.slack.text import unescape_text
from bot.core.i18n import translate
from bot.core.records import EffectState
from tests.harness.memory_bot import Bot
from tests.harness.office import CHAT, LI, ZHANG, Office, read_message_key, read_message_text
from tests.harness.scripted_model import ScriptedModel
from tests.stories.behind import rewritten
from tests.stories.script import DONE, calls
from tests.tools.mcp.running import World
from tools.mcp.fleet import McpToolset

TEXT = "".join(f"{n}. 每个人都要读到这一行 <!channel> `x`\n" for n in range(600)) + "最后一行：转 9,999 元"
"""A long text whose last line matters."""
WRITE = calls(("wiki__write_page", {"title": "规定", "text": TEXT}))
WROTE = ModelReply(text="写好了。")


def wrote(world: World) -> bool:
    """Whether the text was written once, and exactly as it was read."""
    return "\n".join(world.done) == f"write 规定: {TEXT} ()"


async def proposed(redis: Redis, wiki: McpToolset, *then: ModelReply) -> Bot:
    here = Bot(redis, [WRITE, *(then or (DONE,))], mcp_tools=wiki, tools_most=60)
    await here.put_message("在 wiki 里写一个页面")
    await here.work()
    return here


async def test_confirmed_only_where_all_of_it_was_read(redis: Redis, wiki: McpToolset, world: World) -> None:
    here = await proposed(redis, wiki)
    [card] = here.chat.cards()
    told = dict(card.facts)
    assert told["title"] == '"规定"'
    assert told["text"] == translate("fact.in_dialog", "zh", n=len(TEXT) + 2), "with its quotes"
    await here.put_press(card, "confirm", id="bare")
    await here.work()
    assert world.done == [] and here.chat.ephemerals == [("U1", translate("refused.no_form", "zh"))], (
        "nothing was read yet"
    )
    await here.put_press(card, "confirm", id="read", form={})
    await here.put_press(card, "confirm", id="read twice", form={})
    await here.work()
    assert wrote(world) and (await here.load_approval()).effect is EffectState.DONE
    assert len(here.chat.ephemerals) == 1, "the card answers the second press"


@pytest.fixture
def settings(world: World, tmp_path: Path) -> dict[str, Any]:
    file = tmp_path / "mcp.toml"
    file.write_text(f"[servers.wiki]\ncommand = {json.dumps(world.server('wiki').command)}\n", encoding="utf-8")
    return {"model": ScriptedModel([WRITE, WROTE]), "mcp_file": file}


def read(desk: Office, view: dict[str, Any]) -> str:
    """Return the text of a dialog below its subject, as people read it. On Feishu it stands in messages above."""
    if CHAT == "feishu":
        told = [
            one["card"]["body"]["elements"]
            for one in desk.posts(desk.dm(ZHANG))
            if read_message_key(one).endswith(":read")
        ]
        return "".join(one["text"]["content"] for elements in told for one in elements).partition("\n")[2]
    line = [block["type"] for block in view["blocks"]].index("divider")
    texts = [block["text"]["text"] for block in view["blocks"][line + 1 :]]
    return "".join(unescape_text(text).split("```\n", 1)[1].removesuffix("\n```") for text in texts)


async def test_in_the_workspace_it_is_read_to_its_last_line_and_then_confirmed(
    empty: Office, world: World, settings: dict[str, Any]
) -> None:
    """The test uses the real bot. A dialog that cannot be shown confirms nothing and says so. A restart between reading
    and confirming changes nothing."""
    here = empty.dm(ZHANG)
    async with empty.opened(**settings):
        await empty.says(ZHANG, "在 wiki 里写一个页面")
        card = await empty.card(here)
        assert "最后一行" not in read_message_text(card) and "全文" in read_message_text(card)
        empty.driver.fail_next_call("views.open", "expired_trigger_id")
        await empty.press(ZHANG, card, "confirm")
        await empty.until(lambda: translate("slack.press_again", "zh") in empty.whispers(ZHANG))
        assert world.done == [] and empty.driver.find_top_view(ZHANG) is None
        await empty.press(ZHANG, card, "confirm")
        view = await empty.until(lambda: empty.driver.find_top_view(ZHANG))
        assert read(empty, view) == f'"{TEXT}"' and view["title"]["text"] == translate("card.read_first", "zh")
        assert view["submit"]["text"] == "确认" and world.done == []
        assert empty.driver.find_top_view(LI) is None and empty.posts(empty.dm(LI)) == [], "nobody else's business"
    async with empty.opened(**settings):
        assert not (await empty.driver.submit_view(ZHANG, view["id"], {})).error
        await empty.until(lambda: "执行了「write_page」" in empty.said(here))
    assert wrote(world)


async def test_arguments_changed_after_they_were_read_are_not_used(
    empty: Office, redis: Redis, world: World, settings: dict[str, Any]
) -> None:
    async with empty.opened(**settings):
        await empty.says(ZHANG, "在 wiki 里写一个页面")
        card = await empty.card(empty.dm(ZHANG))
        await empty.press(ZHANG, card, "confirm")
        view = await empty.until(lambda: empty.driver.find_top_view(ZHANG))
        [approval] = await empty.approvals.list_open_approvals()
        arguments = {**approval.proposal.args["arguments"], "text": TEXT.replace("9,999", "99,999")}
        await rewritten(redis, approval.id, args={**approval.proposal.args, "arguments": arguments})
        await empty.driver.submit_view(ZHANG, view["id"], {})
        await empty.until(lambda: translate("error.altered", "zh") in empty.said(empty.dm(ZHANG)))
    assert world.done == []
