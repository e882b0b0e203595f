"""Doubles of the ports the Slack adapter works with, and a very small Slack behind the real HTTP client."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web
from slack_bolt.async_app import AsyncApp, AsyncBoltRequest
from slack_bolt.response import BoltResponse

from bot.chat.messages import (
    Acceptance,
    Button,
    Card,
    Click,
    Dialog,
    FormAnswer,
    FormDialog,
    FormSubmission,
    HomeAnswer,
    HomeDialog,
    HomePress,
    HomeSubmission,
    HomeView,
    Message,
    Place,
    Post,
    SuggestedPrompt,
)
from bot.core.errors import LeaseLost, StoreUnavailableError
from bot.dev.workspace.validate import BLOCK_TEXT, UPDATE_BYTES, check_blocks, check_view, count_text_characters
from bot.platforms.slack.web_client import BotIdentity
from bot.queue.lanes import Lease
from tests.harness.serving import serve_app

ME = BotIdentity(team="T0", user="U0BOT", bot="B0BOT")
TOKEN, APP_TOKEN = "xoxb-test", "xapp-test"
CARD = Post(text="Please confirm", card=Card("Leave", buttons=(Button("Confirm", "confirm", "A03abc", 1),)))
LATER = Post(text="Please confirm", card=Card("Leave", buttons=(Button("Confirm", "confirm", "A03abc", 2),)))
OVER = Post(text="Approved", card=Card("Approved"))
SHARED: dict[str, Any] = {"name": "process.png", "title": "请假 QJ-1", "alt": "审批 <李四> & 王五"}
"""A picture."""


class Inbox:
    """An `Ingress` in memory; `down` makes it as good as no Redis."""

    def __init__(self) -> None:
        self.messages: list[tuple[Message, tuple[str, ...]]] = []
        self.changes: list[tuple[Message, bool]] = []
        self.clicks: list[Click] = []
        self.log: list[str] = []
        self.threads: set[str] = set()
        self.dialogs: dict[str, Dialog] = {}
        self.wrong: dict[str, str] = {}
        self.homes: dict[str, HomeView] = {}
        self.home_dialogs: dict[str, HomeDialog] = {}
        self.forms: list[FormSubmission] = []
        self.form_page: FormDialog | str = "no form"
        self.form_answer, self.home_answer = FormAnswer(), HomeAnswer()
        self.home_submissions: list[HomeSubmission] = []
        self.welcomed: list[tuple[str, Place]] = []
        self.down = False
        self.moving = asyncio.Event()
        """While this is not set, the store stands still."""
        self.moving.set()
        self.coming = 0
        """Messages that have come in, taken or not."""
        self.withdrawn = Acceptance.NOT_TAKEN

    def _up(self, *what: str) -> None:
        if self.down:
            raise StoreUnavailableError("no Redis")
        self.log += what

    async def accept_message(self, message: Message, *, aliases: tuple[str, ...] = ()) -> None:
        self.coming += 1
        await self.moving.wait()
        self._up("message")
        names = {message.id, *aliases}
        if not any(names & {one.id, *others} for one, others in self.messages):
            self.messages.append((message, aliases))

    async def accept_change(self, message: Message, *, is_deleted: bool) -> None:
        self._up("change")
        self.changes.append((message, is_deleted))

    async def accept_click(self, click: Click) -> None:
        await self.moving.wait()
        self._up("click")
        if click.id not in [one.id for one in self.clicks]:
            self.clicks.append(click)

    async def withdraw(self, event: Click | Message, failed: Exception) -> Acceptance:
        return self.withdrawn

    async def stop_session(self, place: Place, person: str, id: str, at: str) -> None:
        self._up("session")

    async def welcome_person(self, person: str, place: Place) -> Sequence[SuggestedPrompt]:
        self.welcomed.append((person, place))
        return ()

    async def is_engaged(self, place: Place) -> bool:
        self._up("engaged")
        return place.thread in self.threads

    async def opens_dialog(self, click: Click) -> bool:
        self._up("opens")
        return click.choice in self.dialogs

    async def build_dialog(self, click: Click) -> Dialog | None:
        self._up("dialog")
        return self.dialogs.get(click.choice)

    async def check_dialog(self, click: Click) -> dict[str, str]:
        self._up("problems")
        return self.wrong

    async def build_form(self, form: FormSubmission) -> FormDialog | str:
        self._up()
        self.forms.append(form)
        return self.form_page

    async def submit_form(self, form: FormSubmission) -> FormAnswer:
        await self.moving.wait()
        self._up("submitted form")
        self.forms.append(form)
        return self.form_answer

    async def build_home(self, person: str, *, is_opened: bool = False) -> HomeView | None:
        return self.homes.get(person)

    async def handle_home_press(self, press: HomePress) -> HomeDialog | None:
        self._up("home")
        return self.home_dialogs.get(press.action)

    async def submit_home_dialog(self, submission: HomeSubmission) -> HomeAnswer:
        await self.moving.wait()
        self._up("submitted dialog of home")
        self.home_submissions.append(submission)
        return self.home_answer

    @property
    def texts(self) -> list[str]:
        return [message.text for message, _ in self.messages]


class Slots:
    """Slots that are always free, unless told otherwise; remembers what it was asked."""

    def __init__(self) -> None:
        self.wait_ms = 0
        self.reserved: list[tuple[str, int, int]] = []
        self.penalties: list[tuple[str, int]] = []

    async def reserve_slot(self, key: str, spacing_ms: int, burst: int) -> int:
        self.reserved.append((key, spacing_ms, burst))
        return self.wait_ms

    async def apply_penalty(self, key: str, ms: int) -> None:
        self.penalties.append((key, ms))


class Lane(Lease):
    """A lane that others take over after so many looks."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    async def assert_held(self) -> None:
        self.looks -= 1
        if self.looks < 0:
            raise LeaseLost("somebody else has it")


async def eventually(check: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not check():
            await asyncio.sleep(0.01)


def member(id: str, name: str, email: str = "", locale: str = "en-US", **more: Any) -> dict[str, Any]:
    profile = {"real_name": name, "display_name": name.split()[0].lower(), "email": email}
    return {"id": id, "team_id": "T0", "name": name, "tz": "Asia/Shanghai", "locale": locale, "profile": profile} | more


@dataclass
class Slack:
    """A Web API and a socket on loopback. `faults[method]`: what happens to the next calls instead:
    an error name, a number of seconds for a 429, `500` and `403` (a page of text), `drop` (nothing done, no answer),
    `lose` (done, no answer)."""

    url: str = ""
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    messages: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    members: list[dict[str, Any]] = field(default_factory=list)
    fields: list[dict[str, Any]] = field(default_factory=list)
    """The workspace's own profile fields."""
    profiles: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Person → field id → value."""
    channel: dict[str, Any] = field(default_factory=dict)
    """What there is to be said of any channel."""
    readers: list[list[str]] = field(default_factory=list)
    """Pages of the members of any channel."""
    pages: int = 1
    delays: dict[str, float] = field(default_factory=dict)
    """Method → how long its answers take (s)."""
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    faults: dict[str, list[str | float]] = field(default_factory=lambda: defaultdict(list))
    socket: web.WebSocketResponse | None = None
    acks: dict[str, Any] = field(default_factory=dict)
    authorization: list[str] = field(default_factory=list)

    def called(self, method: str) -> list[dict[str, Any]]:
        return [arguments for name, arguments in self.calls if name == method]

    async def api(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        arguments: dict[str, Any] = dict(request.query)
        if request.content_type == "application/json":
            arguments |= await request.json()
        elif request.can_read_body:
            arguments |= dict(await request.post())
        self.calls.append((method, arguments))
        await asyncio.sleep(self.delays.get(method, 0))
        self.authorization.append(request.headers.get("Authorization", ""))
        fault = self.fault(method)
        if isinstance(fault, float | int):
            refused = {"ok": False, "error": "ratelimited"}
            return web.json_response(refused, status=429, headers={"Retry-After": str(fault)})
        if fault in ("500", "403"):
            return web.Response(status=int(fault), text="<html>oops</html>")
        if fault not in ("", "drop", "lose"):
            return web.json_response({"ok": False, "error": fault})
        answer = {} if fault == "drop" else self.answer(method, arguments)
        if fault in ("drop", "lose"):
            request.transport.abort()
        return web.json_response({"ok": "error" not in answer, **answer})

    def fault(self, method: str) -> str | float:
        return self.faults[method].pop(0) if self.faults[method] else ""

    async def upload(self, request: web.Request) -> web.Response:
        """Takes what is announced; its faults are those of `upload`."""
        fault, id = self.fault("upload"), request.match_info["id"]
        self.authorization.append(request.headers.get("Authorization", ""))
        if fault == "drop" and request.transport is not None:
            request.transport.abort()
        elif not fault:
            self.files[id] |= {"content": await request.read()}
        return web.Response(status=int(fault) if str(fault).isdigit() else 200)

    def answer(self, method: str, a: dict[str, Any]) -> dict[str, Any]:
        validate(a)
        match method:
            case "auth.test":
                return {"team_id": "T0", "user_id": "U0BOT", "bot_id": "B0BOT"}
            case "apps.connections.open":
                return {"url": self.url.replace("http", "ws").replace("/api/", "/link/")}
            case "chat.postMessage":
                ts = f"{100 + len(self.calls)}.000100"
                self.messages[a["channel"]].append({"user": ME.user, "ts": ts, **a})
                return {"channel": a["channel"], "ts": ts}
            case "files.getUploadURLExternal":
                id = f"F{len(self.files) + 1}"
                self.files[id] = {"id": id, "name": a["filename"], "length": int(a["length"])}
                return {"file_id": id, "upload_url": self.url.replace("/api/", f"/upload/{id}")}
            case "files.completeUploadExternal":
                [wanted] = json.loads(a["files"])
                file = self.files[wanted["id"]]
                if len(file.get("content", b"")) != file["length"]:
                    return {"error": "file_not_found"}
                said = {"user": ME.user, "text": a["initial_comment"], "ts": f"{100 + len(self.calls)}.000200"}
                shown = {"id": file["id"], "name": file["name"], "title": wanted["title"]}
                where = {"thread_ts": a["thread_ts"]} if "thread_ts" in a else {}
                self.messages[a["channel_id"]].append(said | where | {"files": [shown]})
                return {"files": [shown]}
            case "conversations.open":
                return {"channel": {"id": "D" + a["users"][1:]}}
            case "conversations.replies":
                said = self.messages[a["channel"]]
                return {"messages": [m for m in said if a["ts"] in (m["ts"], m.get("thread_ts"))]}
            case "conversations.history":
                return {"messages": [m for m in self.messages[a["channel"]] if not m.get("thread_ts")]}
            case "users.list":
                page = int(a.get("cursor") or 0)
                size = -(-len(self.members) // self.pages)
                more = str(page + 1) if page + 1 < self.pages else ""
                rows = self.members[page * size : (page + 1) * size]
                return {"members": rows, "response_metadata": {"next_cursor": more}}
            case "team.profile.get":
                return {"profile": {"fields": self.fields}}
            case "users.profile.get":
                given = self.profiles.get(a["user"], {})
                return {"profile": {"fields": {id: {"value": v, "alt": ""} for id, v in given.items()} or []}}
            case "conversations.info":
                return {"channel": self.channel}
            case "conversations.members":
                page = int(a.get("cursor") or 0)
                more = str(page + 1) if page + 1 < len(self.readers) else ""
                return {"members": self.readers[page], "response_metadata": {"next_cursor": more}}
            case "users.info":
                found = [one for one in self.members if one["id"] == a["user"]]
                return {"user": found[0]} if found else {"error": "user_not_found"}
            case "users.lookupByEmail":
                found = [one for one in self.members if one["profile"]["email"].lower() == a["email"].lower()]
                found = [{name: value for name, value in one.items() if name != "locale"} for one in found]
                return {"user": found[0]} if found else {"error": "users_not_found"}
        return {}

    async def link(self, request: web.Request) -> web.WebSocketResponse:
        self.socket = socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"type": "hello", "num_connections": 1})
        async for frame in socket:
            if frame.type == WSMsgType.TEXT:
                ack = json.loads(frame.data)
                self.acks[ack["envelope_id"]] = ack.get("payload")
        return socket

    async def deliver(self, id: str, payload: dict[str, Any], attempt: int = 0) -> None:
        await self.socket.send_json(
            {"type": "events_api", "envelope_id": id, "payload": payload, "retry_attempt": attempt}
            | {"retry_reason": "timeout" if attempt else "", "accepts_response_payload": False}
        )

    async def acknowledged(self, id: str, timeout_s: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while id not in self.acks:
                    await asyncio.sleep(0.01)
        return id in self.acks


@asynccontextmanager
async def slack() -> AsyncIterator[Slack]:
    here, site = Slack(), web.Application()
    site.router.add_route("*", "/api/{method}", here.api)
    site.router.add_get("/link/", here.link)
    site.router.add_post("/upload/{id}", here.upload)
    async with serve_app(site) as address:
        here.url = f"{address}/api/"
        yield here


def validate(arguments: dict[str, Any]) -> None:
    """What Slack would refuse: its limits as the local workspace and slack_sdk's models know them."""
    if blocks := arguments.get("blocks"):
        assert check_blocks(blocks) == []
        assert count_text_characters(blocks) <= BLOCK_TEXT
        assert 0 < len(arguments["text"].encode()) <= UPDATE_BYTES
    if view := arguments.get("view"):
        assert check_view(view) == []


async def dispatch(app: AsyncApp, payload: dict[str, Any]) -> BoltResponse:
    """Through the whole of Bolt, as Socket Mode does it."""
    return await app.async_dispatch(AsyncBoltRequest(mode="socket_mode", body=payload))


def event(body: dict[str, Any], id: str = "Ev1") -> dict[str, Any]:
    return {
        "type": "event_callback", "team_id": "T0", "api_app_id": "A0", "event_id": id, "event": body,
        "authorizations": [{"team_id": "T0", "user_id": ME.user, "is_bot": True}],
    }  # fmt: skip


def written(text: str, channel: str = "D01ZHANG", ts: str = "10.1", **more: Any) -> dict[str, Any]:
    kind = "im" if channel.startswith("D") else "channel"
    base = {"type": "message", "channel": channel, "user": "U01ZHANG", "text": text, "ts": ts, "team": "T0"}
    return base | {"channel_type": kind} | more


def mention(text: str, channel: str = "C01GENERAL", ts: str = "10.1", **more: Any) -> dict[str, Any]:
    said = written(text, channel, ts, **more) | {"type": "app_mention"}
    del said["channel_type"]
    return said


def pressed(choice: str = "confirm", value: str = "A03abc.2", trigger: str = "1.2.x", **more: Any) -> dict[str, Any]:
    container = {"type": "message", "channel_id": "D01ZHANG", "message_ts": "20.1", "thread_ts": "10.1"}
    button = {"type": "button", "action_id": f"cs:{choice}", "value": value}
    blocks = [{"type": "actions", "block_id": "b", "elements": [button]}]
    return {
        "type": "block_actions", "team": {"id": "T0"}, "user": {"id": "U01ZHANG", "team_id": "T0"},
        "trigger_id": trigger, "container": container, "channel": {"id": "D01ZHANG"},
        "message": {"ts": "20.1", "thread_ts": "10.1", "blocks": blocks}, "api_app_id": "A0",
        "actions": [{**button, "block_id": "b"}],
    } | more  # fmt: skip


def submission(view: dict[str, Any], filled: dict[str, dict[str, Any]], person: str = "U01ZHANG") -> dict[str, Any]:
    """The payload Slack makes of a view opened before: `filled` is block id → the element's state."""
    state = {
        block["block_id"]: {block["element"]["action_id"]: filled.get(block["block_id"], {"value": None})}
        for block in view["blocks"]
    }
    seen = {**view, "id": "V1", "hash": "h1", "state": {"values": state}}
    return {
        "type": "view_submission", "team": {"id": "T0"}, "user": {"id": person, "team_id": "T0"},
        "view": seen, "trigger_id": "9.9.z", "api_app_id": "A0",
    }  # fmt: skip


def slash(
    text: str, channel: str = "C01GENERAL", command: str = "/countersign", person: str = "U01ZHANG"
) -> dict[str, Any]:
    return {
        "command": command, "text": text, "user_id": person, "channel_id": channel, "team_id": "T0",
        "trigger_id": "5.5.s", "api_app_id": "A0", "response_url": "http://127.0.0.1:9/never",
    }  # fmt: skip
