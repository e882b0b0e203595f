"""A small Feishu on loopback that takes messages and refuses what Feishu refuses. Every request is held against the
request models of Feishu's own SDK."""

import json
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

from aiohttp import web

from bot.core.clock import Clock
from bot.platforms.feishu.client import FeishuClient, open_feishu_client
from tests.harness.serving import serve_app

APP, TENANT = "cli_a0", "t1a2b3c4d5e6f708"
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MODELS = {
    "send": "im.v1/create_message",
    "reply": "im.v1/reply_message",
    "patch": "im.v1/patch_message",
    "get": "im.v1/get_message",
    "react": "im.v1/create_message_reaction",
    "unreact": "im.v1/delete_message_reaction",
    "image": "im.v1/create_image",
    "file": "im.v1/create_file",
    "resource": "im.v1/get_message_resource",
    "chat": "im.v1/get_chat",
    "people of a department": "contact.v3/find_by_department_user",
    "person by email": "contact.v3/batch_get_id_user",
    "person": "contact.v3/get_user",
}
"""Call → the SDK's name of it. Where a path is that of two, the first one is meant."""
NOT_IN_SDK = {
    "im/v1/chats/[^/]+/members": "members",
    "contact/v3/departments/0/children": "departments",
    "contact/v3/departments/[^/]+": "department",
    "ephemeral/v1/send": "ephemeral",
    "im/v1/chat_p2p/batch_query": "dm",
}
BEYOND_SDK = {"get": {"card_msg_content_type"}}
"""Parameters that the SDK's own layer adds by name."""


class Refused(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def load_model(name: str, end: str) -> Any:
    """Load a model of the SDK, if it has it. Loading the whole package would take a second."""
    package, module = name.split("/")
    try:
        found = import_module(f"lark_channel.api.{package}.model.{module}_{end}")
    except ModuleNotFoundError:
        return None
    return getattr(found, f"{module}_{end}".title().replace("_", ""))


def check_request(method: str, path: str, query: Mapping[str, str], body: Mapping[str, Any]) -> str:
    """Hold a request against the SDK's model of it, and return the name of the call."""
    for name, model in MODELS.items():
        request = load_model(model, "request")
        built = request.builder().build()
        pattern = re.sub(r":\w+", "[^/]+", built.uri)
        if built.http_method.name == method and re.fullmatch(pattern, f"/open-apis/{path}"):
            taken = set(vars(request())) - set(re.findall(r":(\w+)", built.uri))
            unknown = set(query) - taken - BEYOND_SDK.get(name, set())
            assert not unknown, f"{name}: {unknown}"
            types = getattr(load_model(model, "request_body"), "_types", {})
            assert set(body) <= set(types), f"{name}: {set(body) - set(types)}"
            wrong = {key for key, one in body.items() if types[key] in (str, bool, int) and type(one) is not types[key]}
            assert not wrong, f"{name}: {wrong}"
            return name
    known = next((name for pattern, name in NOT_IN_SDK.items() if re.fullmatch(pattern, path)), "")
    assert known, f"Feishu's SDK knows no {method} {path}"
    return known


@dataclass
class Said:
    """A message in a chat."""

    id: str
    chat: str
    type: str
    content: Any
    at: datetime
    root: str = ""
    in_thread: bool = False
    recalled: bool = False
    reactions: dict[str, str] = field(default_factory=dict)


@dataclass
class FeishuServer:
    """`faults[call]` is what happens to the next calls instead: a code, `429`, `500`, `drop` (nothing done, no answer),
    `lose` (done, no answer)."""

    url: str = ""
    forgets_uuids: bool = False
    """A Feishu without its rule about repeated messages, for negative controls."""
    names_dms: bool = True
    passed: timedelta = timedelta()
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    said: dict[str, Said] = field(default_factory=dict)
    uuids: dict[str, Said] = field(default_factory=dict)
    dms: dict[str, str] = field(default_factory=dict)
    plain_groups: set[str] = field(default_factory=set)
    """Groups without topics."""
    unreachable: set[str] = field(default_factory=set)
    whispers: list[dict[str, Any]] = field(default_factory=list)
    uploads: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    faults: dict[str, list[int | str]] = field(default_factory=lambda: defaultdict(list))
    meanwhile: dict[str, Callable[[], Awaitable[object]]] = field(default_factory=dict)
    """Call → what happens once, after the next such call and before its answer."""
    pages: dict[str, Any] = field(default_factory=dict)
    """Path → the answer's data, or the number of a refusal. They and the people are no `calls`, but `asked`."""
    users: dict[str, dict[str, Any]] = field(default_factory=dict)
    departments: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    is_away: bool = False
    """Whether nothing is told of pages and people."""
    page_size: int = 50

    @property
    def clock(self) -> Clock:
        return Clock(read_now=self.now)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.passed

    def called(self, name: str) -> list[dict[str, Any]]:
        return [about for call, about in self.calls if call == name]

    def count_asked(self, end: str) -> int:
        return sum(path.endswith(end) for path, _ in self.asked)

    def in_chat(self, chat: str) -> list[Said]:
        return [one for one in self.said.values() if one.chat == chat]

    def hear(self, chat: str, id: str = "") -> Said:
        """Take a message of a person."""
        id = id or f"om_person{len(self.said):06}"
        self.said[id] = Said(id, chat, "text", {"text": "hi"}, self.now())
        return self.said[id]

    async def take(self, request: web.Request) -> web.StreamResponse:
        path, query = request.match_info["path"], dict(request.query)
        if path == "auth/v3/tenant_access_token/internal":
            return web.json_response({"code": 0, "tenant_access_token": "t-1", "expire": 7200})
        assert request.headers["Authorization"] == "Bearer t-1"
        body: dict[str, Any] = {}
        if request.content_type == "multipart/form-data":
            form = await request.post()
            body = {key: one if isinstance(one, str) else one.file.read() for key, one in form.items()}
        elif request.can_read_body:
            body = await request.json()
        name = check_request(request.method, path, query, body)
        if path in self.pages or path.startswith("contact/"):
            assert path in self.pages or request.method == "GET"
            return self.tell(path, query)
        self.calls.append((name, {"path": path, **query, **body}))
        fault = self.faults[name].pop(0) if self.faults[name] else 0
        if fault == 429:
            refused = {"code": 99991400, "msg": "request trigger frequency limit"}
            return web.json_response(refused, status=429, headers={"x-ogw-ratelimit-reset": "0"})
        if fault == "500":
            return web.Response(status=500, text="<html>oops</html>")
        if isinstance(fault, int) and fault:
            return web.json_response({"code": fault, "msg": "refused"}, status=400)
        try:
            data = {} if fault == "drop" else self.answer(name, path.split("/"), query, body)
        except Refused as refused_call:
            return web.json_response({"code": refused_call.code, "msg": "refused"}, status=400)
        if happens := self.meanwhile.pop(name, None):
            await happens()
        if fault in ("drop", "lose"):
            request.transport.abort()
        return web.json_response({"code": 0, "msg": "success", "data": data})

    def tell(self, path: str, query: dict[str, str]) -> web.Response:
        self.asked.append((path, query))
        if self.is_away:
            return web.Response(status=503)
        data = self.pages[path] if path in self.pages else self.tell_of_people(path, query)
        if isinstance(data, bytes):
            return web.Response(body=data, headers={"Content-Disposition": 'attachment; filename="f"'})
        if isinstance(data, int):
            return web.json_response({"code": data, "msg": "refused"}, status=400)
        return web.json_response({"code": 0, "msg": "success", "data": data})

    def tell_of_people(self, path: str, query: dict[str, str]) -> Any:
        assert query["user_id_type"] == "open_id" and query["department_id_type"] == "open_department_id"
        *_, kind, id = path.split("/")
        if path == "contact/v3/departments/0/children":
            return {"items": [{"open_department_id": id, "name": name} for id, name in self.departments.items()]}
        if path == "contact/v3/users/find_by_department":
            assert int(query["page_size"]) <= 50
            there = [one for one in self.users.values() if query["department_id"] in one["department_ids"]]
            start = int(query.get("page_token") or 0)
            shown, end = there[start : start + self.page_size], start + self.page_size
            more = {"has_more": True, "page_token": str(end)} if end < len(there) else {"has_more": False}
            return {"items": shown, **more}
        if kind == "departments":
            return {"department": {"name": self.departments[id]}} if id in self.departments else 40008
        return {"user": self.users[id]} if id in self.users else 41050

    def answer(self, name: str, path: list[str], query: dict[str, str], body: dict[str, Any]) -> dict[str, Any]:
        match name:
            case "send":
                chat = body["receive_id"]
                if query["receive_id_type"] == "open_id":
                    if chat in self.unreachable:
                        raise Refused(230013)
                    chat = self.dms.setdefault(chat, f"oc_dm_{chat}")
                assert chat.startswith("oc_")
                return self.say(chat, body)
            case "reply":
                root = self.find(path[3])
                is_topic = bool(body.get("reply_in_thread"))
                if is_topic and root.chat in self.plain_groups:
                    raise Refused(230071)
                return self.say(root.chat, body, root=root.root or root.id, in_thread=is_topic)
            case "patch":
                one = self.find(path[3])
                if self.now() - one.at > 14 * DAY:
                    raise Refused(230031)
                one.content = read_card(body["content"])
                return {}
            case "get":
                one = self.said[path[3]]
                wrapped = {"user_dsl": json.dumps(one.content)}
                body = {"content": json.dumps(wrapped if query.get("card_msg_content_type") else {"elements": []})}
                return {"items": [{"message_id": one.id, "deleted": one.recalled, "body": body}]}
            case "react":
                id = f"r{len(self.calls)}"
                self.find(path[3]).reactions[id] = body["reaction_type"]["emoji_type"]
                return {"reaction_id": id}
            case "unreact":
                del self.find(path[3]).reactions[path[5]]
                return {}
            case "image" | "file":
                key = f"{'img' if name == 'image' else 'file'}_v3_{len(self.uploads)}"
                self.uploads[key] = (body.get("file_name", ""), body[name])
                return {f"{name}_key": key}
            case "ephemeral":
                assert body["msg_type"] == "interactive" and body["card"]["schema"] == "2.0"
                self.whispers.append(body)
                return {"message_id": "om_whisper"}
        if not self.names_dms:
            raise Refused(99991672)
        [person] = body["chatter_ids"]
        return {"p2p_chats": [{"chat_id": self.dms[person]}] if person in self.dms else []}

    def find(self, id: str) -> Said:
        if id not in self.said:
            raise Refused(99992354)
        if self.said[id].recalled:
            raise Refused(230011)
        return self.said[id]

    def say(self, chat: str, body: dict[str, Any], root: str = "", in_thread: bool = False) -> dict[str, Any]:
        known = self.uuids.get(body["uuid"])
        assert len(body["uuid"]) <= 50
        if known is None or self.forgets_uuids or self.now() - known.at > HOUR:
            content = read_card(body["content"]) if body["msg_type"] == "interactive" else json.loads(body["content"])
            known = Said(f"om_{len(self.said):08}", chat, body["msg_type"], content, self.now(), root, in_thread)
            self.said[known.id] = self.uuids[body["uuid"]] = known
        return {"message_id": known.id, "chat_id": known.chat, "root_id": known.root, "msg_type": known.type}


def read_card(content: str) -> dict[str, Any]:
    if len(content.encode()) > 30_720:
        raise Refused(230025)
    card = json.loads(content)
    assert card["schema"] == "2.0" and "elements" not in card
    assert card["config"]["update_multi"] is True and card["config"].get("enable_forward") is False
    return dict(card)


@asynccontextmanager
async def open_feishu_server() -> AsyncIterator[tuple[FeishuServer, FeishuClient]]:
    here, site = FeishuServer(), web.Application()
    site.router.add_route("*", "/open-apis/{path:.*}", here.take)
    async with serve_app(site) as here.url, open_feishu_client(APP, "secret", here.url) as client:
        yield here, client
