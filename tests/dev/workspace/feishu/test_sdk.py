"""The unmodified `lark-channel-sdk` against the workspace: a whole conversation over the long connection."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bot.dev.workspace.delivery import DeliveryTiming
from bot.dev.workspace.feishu import acts
from bot.dev.workspace.feishu.workspace import FeishuWorkspace
from bot.dev.workspace.feishu.world import FeishuSetup
from tests.harness.hands import FeishuHands
from tests.harness.workspace_server import serve_workspace

pytest.importorskip("lark_channel")

SECRET = "a-secret-of-a-test"
ZHANG, LI, GENERAL = "ou_01zhang", "ou_02li000", "oc_01general"
PATIENT = DeliveryTiming(ack=10.0, redelivery=(0.05, 0.05, 0.05, 0.05), save=0.01)
PRESS, SUBMIT = {"cs": "press", "choice": "approve"}, {"cs": "form"}


@asynccontextmanager
async def sdk_bot(mode: str = "answering", **changes: Any) -> AsyncIterator[FeishuHands]:
    """A workspace with the SDK's bot connected to it."""
    setup = FeishuSetup(app_secret=SECRET, **{"timing": PATIENT, **changes})
    driver = FeishuHands(FeishuWorkspace(setup))
    async with serve_workspace(driver.ws) as address:
        program = Path(__file__).parent / "sdk_bot.py"
        child = await asyncio.create_subprocess_exec(sys.executable, program, address, setup.app_id, SECRET, mode)
        try:
            await driver.wait_for_sockets(timeout=90.0)
            yield driver
        finally:
            if child.returncode is None:
                child.kill()
            await child.wait()


async def find_answer(driver: FeishuHands, channel: str, words: str) -> dict[str, Any]:
    """Wait for the bot's card with these words."""

    def find() -> dict[str, Any] | None:
        shown = driver.ws.state.rooms[channel].messages.values()
        return next((one for one in shown if one.get("card") and words in one["text"]), None)

    found = await driver.wait_until(find)
    assert found is not None
    return found


async def test_a_whole_conversation() -> None:
    async with sdk_bot() as driver:
        ws = driver.ws
        root = await driver.mention_bot(ZHANG, GENERAL, "hello @李四")
        answer = await find_answer(driver, GENERAL, "hello @_user_2")
        assert answer["thread_ts"] == answer["parent_id"] == root, "the answer is in the topic of the mention"
        assert answer["thread_id"].startswith("omt_")
        assert await driver.wait_until(lambda: ws.sockets.pings), "the SDK pings, whenever its turn comes"

        refused = await acts.click_card(ws, LI, GENERAL, answer["ts"], SUBMIT, name="send")
        assert refused.errors == {"opinion": "required"}, "a client does not send an empty required field"
        done = await acts.click_card(ws, LI, GENERAL, answer["ts"], SUBMIT, form={"opinion": "很好"})
        assert done.answer["toast"]["content"] == "done"
        card = ws.state.rooms[GENERAL].messages[answer["ts"]]["card"]
        assert "{'opinion': '很好'}" in str(card) and LI in str(card), "the answer's card has replaced the old one"

        await driver.send_message(LI, driver.get_dm_id(LI), "x" * 900)
        alone = await find_answer(driver, driver.get_dm_id(LI), "x" * 900)
        assert "thread_ts" not in alone, "nothing has topics in a chat with one person"
        done = await acts.click_card(ws, LI, driver.get_dm_id(LI), alone["ts"], PRESS)
        assert done.ok and done.answer["card"]["data"]["config"]["summary"]["content"] == f"{LI} {PRESS} None"
        assert not [call for call in driver.calls if call.error], "every request was accepted"


async def test_what_is_not_acknowledged_comes_again_and_an_unanswered_click_is_an_error_and_comes_once() -> None:
    async with sdk_bot("raising") as driver:
        await driver.send_message(ZHANG, driver.get_dm_id(ZHANG), "hello")
        await driver.wait_until(lambda: driver.ws.delivery.abandoned_events)
        attempts = [one["retry_attempt"] for one in driver.sent_envelopes]
        events = {one["payload"]["header"]["event_id"] for one in driver.sent_envelopes}
        assert attempts == [0, 1, 2, 3, 4] and len(events) == 1, "four more times, under one event id"
    hasty = DeliveryTiming(ack=1.0, redelivery=(0.05,), save=0.01)
    async with sdk_bot("silent", timing=hasty) as driver:
        here = driver.get_dm_id(ZHANG)
        await driver.send_message(ZHANG, here, "hello")
        card = await find_answer(driver, here, "hello")
        assert (await acts.click_card(driver.ws, ZHANG, here, card["ts"], PRESS)).error == "no_answer"
        assert len([one for one in driver.sent_envelopes if "action" in one["payload"]["event"]]) == 1
