"""A text too long for any card: it is read whole, in the dialog in which it is confirmed, or it goes nowhere."""

import json
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.agent.model import ModelReply
from bot.core.i18n import translate
from bot.core.records import EffectState
from bot.platforms.slack.text import unescape_text
from tests.harness.memory_bot import Bot
from tests.harness.office import CHAT, LI, ZHANG, Office, read_message_key, read_message_text
from tests.harness.presses import rewrite
from tests.harness.scripted_model import ScriptedModel
from tests.stories.script import DONE, calls
from tests.tools.mcp.running import World, alive
from tools.mcp.fleet import McpToolset
from tools.spec import TextRef

TEXT = "".join(f"{n}. 每个人都要读到这一行 <!channel> `x`\n" for n in range(600)) + "最后一行：转 9,999 元"
"""A long text whose last line matters."""
ALTERED = TextRef(key="error.altered")
WRITE = calls(("wiki__write_page", {"title": "规定", "text": TEXT}))


def wrote(world: World) -> bool:
    """Whether the text was written once, and exactly as it was read."""
    return "\n".join(world.done) == f"write 规定: {TEXT} ()"


@pytest.mark.parametrize("is_altered", [False, True])
async def test_confirmed_only_where_all_of_it_was_read_and_unless_it_was_altered_since(
    redis: Redis, wiki: McpToolset, world: World, is_altered: bool
) -> None:
    here = Bot(redis, [WRITE, DONE], mcp_tools=wiki, tools_most=60)
    await here.send("在 wiki 里写一个页面")
    [card] = here.chat.cards()
    told = dict(card.facts)
    assert told["title"] == '"规定"'
    assert told["text"] == translate("fact.in_dialog", "zh", n=len(TEXT) + 2), "with its quotes"
    await here.press(card, "confirm", id="bare")
    assert world.done == [], "nothing was read yet"
    assert here.chat.ephemerals == [("U1", translate("refused.no_form", "zh"))]
    if is_altered:
        proposal = (await here.load_approval()).proposal
        arguments = {**proposal.args["arguments"], "text": TEXT.replace("9,999", "99,999")}
        await rewrite(here, proposal=proposal.model_copy(update={"args": {**proposal.args, "arguments": arguments}}))
    await here.put_press(card, "confirm", id="read", form={})
    await here.press(card, "confirm", id="read twice", form={})
    if is_altered:
        approval = await here.load_approval()
        assert world.done == [] and (approval.effect, approval.failure) == (EffectState.FAILED, ALTERED)
        return
    assert wrote(world) and (await here.load_approval()).effect is EffectState.DONE
    assert len(here.chat.ephemerals) == 1, "the card answers the second press"


def read(desk: Office, view: dict[str, Any]) -> str:
    """Return the text of a dialog below its subject, as people read it. On Feishu it stands in messages above."""
    if CHAT == "feishu":
        told = [one["card"]["body"] for one in desk.posts(desk.dm(ZHANG)) if read_message_key(one).endswith(":read")]
        return "".join(one["text"]["content"] for body in told for one in body["elements"]).partition("\n")[2]
    line = [block["type"] for block in view["blocks"]].index("divider")
    texts = [block["text"]["text"] for block in view["blocks"][line + 1 :]]
    return "".join(unescape_text(text).split("```\n", 1)[1].removesuffix("\n```") for text in texts)


async def test_in_the_workspace_it_is_read_to_its_last_line_and_then_confirmed(
    empty: Office, world: World, tmp_path: Path
) -> None:
    """The real bot with a server by its setting. A dialog that cannot be shown confirms nothing and says so. A restart
    between reading and confirming changes nothing."""
    here, file = empty.dm(ZHANG), tmp_path / "mcp.toml"
    file.write_text(f"[servers.wiki]\ncommand = {json.dumps(world.server('wiki').command)}\n", encoding="utf-8")
    settings = {"model": ScriptedModel([WRITE, ModelReply(text="写好了。")]), "mcp_file": file}
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
        pid = world.pid
    assert wrote(world) and not alive(pid), "the server has ended with the bot"
