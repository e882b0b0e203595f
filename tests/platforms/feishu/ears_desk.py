"""The ears of the bot on a small Feishu: payloads by others, an ingress in memory, and people whom Feishu knows."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.chat.messages import HomeView
from bot.chat.platform import IngressGate
from bot.platforms.feishu import press_listeners
from bot.platforms.feishu.channel_readers import has_only_insiders
from bot.platforms.feishu.client import FeishuBot
from bot.platforms.feishu.listeners import FeishuListeners
from bot.platforms.feishu.sent_cards import SentCards
from bot.platforms.shared import CachingReaderClassifier
from bot.queue.keys import Keys
from tests.harness.spoilt import replace_part
from tests.platforms.feishu.message_server import TENANT, open_feishu_server
from tests.platforms.feishu.sending_desk import Desk
from tests.platforms.slack.doubles import Inbox, Slots

PAYLOADS = Path(__file__).parent / "payloads"
OTHER = "t9z8y7x6w5v4u302"
BOT = "ou_b07b07b07b07b07b07b07b07b07b07b0"
ZHANG = "ou_2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a01"
LI = "ou_2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b02"
ME = FeishuBot(open_id=BOT, name="Countersign", tenant=TENANT)
DM = f"oc_d{4:031x}"
"""Zhang's chat with the bot."""
SALES = "od-5a1e5"


def load_payload(name: str) -> Any:
    return json.loads((PAYLOADS / f"{name}.json").read_text(encoding="utf-8"))["payload"]


def build_user(id: str, name: str, email: str = "", **more: Any) -> dict[str, Any]:
    status = {"is_frozen": False, "is_resigned": False, "is_activated": True, "is_exited": False, "is_unjoin": False}
    about = {"open_id": id, "union_id": "on_x", "user_id": "7", "name": name, "en_name": "", "email": email}
    return {**about, "status": status, "department_ids": [SALES], "leader_user_id": "", **more}


def build_message(id: str, type: str, content: str, **changes: Any) -> dict[str, Any]:
    """A message of Zhang's, as Feishu tells of it."""
    sender = {"id": ZHANG, "id_type": "open_id", "sender_type": "user", "tenant_key": TENANT}
    about = {"message_id": id, "chat_id": DM, "msg_type": type, "deleted": False, "sender": sender}
    return {**about, "body": {"content": content}, **changes}


@dataclass
class Ears(Desk):
    inbox: Inbox
    homes: list[tuple[str, HomeView]]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.readers = CachingReaderClassifier(partial(has_only_insiders, self.client, TENANT))
        gate = IngressGate()
        gate.begin_event()  # as around each event that comes in
        inbox, channel, directory = self.inbox, self.channel, self.directory
        presses = press_listeners.PressListeners(ME, inbox, channel, self.sent, directory, self.publish_home, gate)
        changed = self.readers.note_changed_place
        self.listeners = FeishuListeners(self.client, ME, inbox, channel, directory, changed, presses)

    async def publish_home(self, person: str, page: HomeView) -> None:
        self.homes.append((person, page))

    async def hear(self, name: str, path: str = "", new: Any = None) -> Any:
        """Hear a recorded payload, or the same with another part at `path` (a.b.c)."""
        payload = load_payload(name)
        return await self.listeners.handle_payload(replace_part(payload, path.split("."), new) if path else payload)


@pytest.fixture
async def ears(redis: Redis, keys: Keys, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ears]:
    """Answers wait for no clock, unless a test is about that."""
    monkeypatch.setattr(press_listeners, "ANSWER_S", 60.0)
    monkeypatch.setattr(press_listeners, "RESULT_S", 0.0)
    async with open_feishu_server() as (here, client):
        here.users = {
            ZHANG: build_user(ZHANG, "张三", "zhang@example.com", en_name="San Zhang", leader_user_id=LI),
            LI: build_user(LI, "李四", "li@example.com", en_name="Si Li", department_ids=["0"]),
        }
        here.departments, here.dms = {SALES: "销售部"}, {ZHANG: DM, LI: "oc_dm_li"}
        ears = Ears(here, client, Slots(), SentCards(redis, keys, TENANT, here.clock), Inbox(), [])
        yield ears
        await ears.listeners.finish()
        await ears.channel.close_signs()
