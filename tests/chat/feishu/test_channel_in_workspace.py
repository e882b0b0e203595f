"""The channel in the local workspace: what the bot sends there is what people see, within the limits of Feishu."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.chat.feishu.channel import FeishuChannel
from bot.chat.feishu.client import identify_bot, open_feishu_client
from bot.chat.feishu.directory import FeishuMembers
from bot.chat.feishu.renewals import renew_cards
from bot.chat.feishu.sent_cards import SentCards
from bot.chat.messages import Place
from bot.core.clock import Clock
from bot.dev.workspace.feishu.acts import FeishuActs
from bot.dev.workspace.feishu.workspace import FeishuWorkspace
from bot.dev.workspace.feishu.world import FeishuSetup, convert_id
from bot.people.directory import PlatformDirectory
from bot.queue.keys import Keys
from bot.queue.lanes import Lanes
from tests.chat.feishu.sending_desk import CARD, OVER
from tests.harness.app_calls import get_app_calls
from tests.harness.workspace_server import serve_workspace

ZHANG, LI, GENERAL = map(convert_id, ("U01ZHANG", "U02LI", "C01GENERAL"))
SECRET = "a-secret-of-a-test"


@dataclass
class Local:
    ws: FeishuWorkspace
    channel: FeishuChannel
    sent: SentCards
    team: str
    passed: timedelta = timedelta()

    async def ask(self, person: str = ZHANG, room: str = GENERAL) -> Place:
        """Let a person write, and return the place of the answer."""
        at = await FeishuActs(self.ws).send_message(person, room, "hi")
        return Place(platform="feishu", team=self.team, channel=room, thread=at)

    def shown(self, room: str) -> list[dict[str, Any]]:
        return [one for one in self.ws.state.rooms[room].messages.values() if one["user"] == self.ws.app.user]


@pytest.fixture
async def local(redis: Redis, keys: Keys) -> AsyncIterator[Local]:
    ws = FeishuWorkspace(FeishuSetup(app_secret=SECRET))
    clock = ws.clock
    async with serve_workspace(ws) as address, open_feishu_client(ws.setup.app_id, SECRET, address) as client:
        me = await identify_bot(client)
        sent = SentCards(redis, keys, me.tenant, Clock(read_now=lambda: datetime.fromtimestamp(ws.clock(), UTC)))
        directory = PlatformDirectory(FeishuMembers(client), {})
        channel = FeishuChannel(client, Lanes(redis, keys), sent, directory, team=me.tenant)
        here = Local(ws, channel, sent, me.tenant)
        ws.clock = lambda: clock() + here.passed.total_seconds()
        yield here
        await channel.close_signs()


async def test_a_card_is_posted_decided_and_seen(local: Local) -> None:
    place = await local.ask()
    local.channel.show_status(place, "working")
    await local.channel.wait_for_session(place)
    get_app_calls(local.ws).fail_next_call("POST im/v1/messages", "drop_after")
    ref = await local.channel.post_message(place, CARD, key="k")
    await local.channel.wait_for_session(place)
    [said] = local.shown(GENERAL)
    assert (said["ts"], said["root_id"], bool(said.get("thread_id"))) == (ref.ts, place.thread, True)
    assert await local.channel.has_buttons_of(ref, CARD) and not await local.channel.has_buttons_of(ref, OVER)
    await local.channel.update_message(ref, OVER)
    assert await local.channel.has_buttons_of(ref, OVER)
    await local.channel.post_ephemeral(place, LI, "Only Wang Wu can approve this.")
    await local.channel.upload_picture(place, b"\x89PNG", name="p.png", title="t", alt="words", key="p")
    await local.channel.upload_files(place, [("a.csv", b"1,2")], comment="a file", key="f")
    assert [one["msg_type"] for one in local.shown(GENERAL)] == ["interactive", "post", "interactive", "file"]


async def test_a_person_who_never_wrote_gets_a_card_and_it_lasts(local: Local) -> None:
    dm = await local.channel.open_dm(LI)
    ref = await local.channel.post_message(dm, CARD, key="k")
    assert (await local.channel.open_dm(LI)).channel == ref.channel
    for _ in range(3):
        local.passed += timedelta(days=13.5)
        await local.sent.redis.delete(f"cs:{{sent}}:{local.team}:renewing:{ref.ts}")
        assert await renew_cards(local.channel, local.sent) == 1
    await local.channel.update_message(ref, OVER)
    shown = local.shown(ref.channel)
    assert len(shown) == 4 and not any('"callback"' in json.dumps(one["card"]) for one in shown)
