"""The ears of the bot on a small Feishu: payloads by others, an ingress in memory, and people whom Feishu knows."""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from redis.asyncio import Redis

from bot.chat.feishu import press_listeners
from bot.chat.feishu.channel import FeishuChannel
from bot.chat.feishu.channel_readers import FeishuReaderClassifier
from bot.chat.feishu.client import FeishuBot, FeishuClient, open_feishu_client
from bot.chat.feishu.directory import FeishuMembers
from bot.chat.feishu.listeners import FeishuListeners
from bot.chat.feishu.sent_cards import SentCards
from bot.chat.messages import HomeView
from bot.chat.platform import IngressGate
from bot.people.directory import PlatformDirectory
from bot.queue.keys import Keys
from tests.chat.feishu.message_server import APP, FeishuServer, check_request
from tests.chat.slack.doubles import Inbox, Slots
from tests.harness.serving import serve_app

PAYLOADS = Path(__file__).parent / "payloads"
TENANT, OTHER = "t1a2b3c4d5e6f708", "t9z8y7x6w5v4u302"
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
class EarsServer(FeishuServer):
    """Also answers about messages, chats and people."""

    pages: dict[str, Any] = field(default_factory=dict)
    """Path → the answer's data, or the number of a refusal."""
    users: dict[str, dict[str, Any]] = field(default_factory=dict)
    departments: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    is_away: bool = False
    page_size: int = 50

    async def take(self, request: web.Request) -> web.StreamResponse:
        path, query = request.match_info["path"], dict(request.query)
        if path.startswith("auth/") or (path not in self.pages and not path.startswith("contact/")):
            return await super().take(request)
        body = await request.json() if request.can_read_body else {}
        check_request(request.method, path, query, body)
        self.asked.append((path, query))
        if self.is_away:
            return web.Response(status=503)
        data = self.pages[path] if path in self.pages else self.answer_about_people(request.method, path, query)
        if isinstance(data, bytes):
            return web.Response(body=data, headers={"Content-Disposition": 'attachment; filename="f"'})
        if isinstance(data, int):
            return web.json_response({"code": data, "msg": "refused"}, status=400)
        return web.json_response({"code": 0, "msg": "success", "data": data})

    def answer_about_people(self, method: str, path: str, query: Mapping[str, str]) -> Any:
        assert method == "GET" and query["user_id_type"] == "open_id"
        assert query["department_id_type"] == "open_department_id"
        parts = path.split("/")
        if path == "contact/v3/departments/0/children":
            return {"items": [{"open_department_id": id, "name": name} for id, name in self.departments.items()]}
        if path == "contact/v3/users/find_by_department":
            assert int(query["page_size"]) <= 50
            there = [one for one in self.users.values() if query["department_id"] in one["department_ids"]]
            start = int(query.get("page_token") or 0)
            shown, end = there[start : start + self.page_size], start + self.page_size
            more = {"has_more": True, "page_token": str(end)} if end < len(there) else {"has_more": False}
            return {"items": shown, **more}
        if parts[:3] == ["contact", "v3", "departments"]:
            return {"department": {"name": self.departments[parts[3]]}} if parts[3] in self.departments else 40008
        return {"user": self.users[parts[3]]} if parts[3] in self.users else 41050

    def count_asked(self, end: str) -> int:
        return sum(path.endswith(end) for path, _ in self.asked)


@dataclass
class Ears:
    feishu: EarsServer
    client: FeishuClient
    inbox: Inbox
    directory: PlatformDirectory
    channel: FeishuChannel
    readers: FeishuReaderClassifier
    listeners: FeishuListeners
    homes: list[tuple[str, HomeView]]

    async def hear(self, name: str, **changes: Any) -> Any:
        return await self.listeners.handle_payload(load_payload(name) | changes)


@pytest.fixture
async def ears(redis: Redis, keys: Keys, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ears]:
    """Answers wait for no clock, unless a test is about that."""
    monkeypatch.setattr(press_listeners, "ANSWER_S", 60.0)
    monkeypatch.setattr(press_listeners, "RESULT_S", 0.0)
    here, site = EarsServer(), web.Application()
    site.router.add_route("*", "/open-apis/{path:.*}", here.take)
    here.users = {
        ZHANG: build_user(ZHANG, "张三", "zhang@example.com", en_name="San Zhang", leader_user_id=LI),
        LI: build_user(LI, "李四", "li@example.com", en_name="Si Li", department_ids=["0"]),
    }
    here.departments, here.dms = {SALES: "销售部"}, {ZHANG: DM, LI: "oc_dm_li"}
    async with serve_app(site) as here.url, open_feishu_client(APP, "secret", here.url) as client:
        inbox, homes = Inbox(), list[tuple[str, HomeView]]()
        directory = PlatformDirectory(FeishuMembers(client), {})
        sent = SentCards(redis, keys, TENANT, here.clock)
        channel = FeishuChannel(client, Slots(), sent, directory, team=TENANT)
        readers = FeishuReaderClassifier(client, tenant=TENANT)

        async def publish_home(person: str, page: HomeView) -> None:
            homes.append((person, page))

        gate = IngressGate()
        gate.begin_event()  # as around each event that comes in
        presses = press_listeners.PressListeners(ME, inbox, channel, sent, directory, publish_home, gate)
        listeners = FeishuListeners(client, ME, inbox, channel, directory, readers, presses)
        yield Ears(here, client, inbox, directory, channel, readers, listeners, homes)
        await listeners.finish()
        await channel.close_signs()
