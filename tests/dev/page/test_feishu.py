"""The page in a browser when the workspace speaks Feishu, with a little app behind its callbacks."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from bot.dev.workspace.feishu.acts import FeishuActs
from bot.dev.workspace.feishu.workspace import FeishuWorkspace
from bot.dev.workspace.feishu.world import FeishuSetup, convert_id
from tests.dev.page.conftest import HOSTILE, NAMELESS, TOO_WIDE, Opener, assert_hostile_text_is_text
from tests.dev.workspace.hands import PATIENT
from tests.harness.browser import ABSENT, Browser
from tests.harness.http_delivery import use_http_delivery
from tests.harness.serving import serve_app
from tests.harness.workspace_server import serve_workspace

pytestmark = pytest.mark.skipif(bool(ABSENT), reason=str(ABSENT))

SECRET = "a-secret-of-a-test"
ZHANG, LI, WANG, GENERAL = map(convert_id, ("U01ZHANG", "U02LI", "U03WANG", "C01GENERAL"))
Element = dict[str, Any]


def plain(text: str) -> Element:
    return {"tag": "plain_text", "content": text}


def button(label: str, choice: str, **more: Any) -> Element:
    behaviors = [{"type": "callback", "value": {"cs": "press", "choice": choice}}]
    return {"tag": "button", "text": plain(label), "behaviors": behaviors, **more}


def card(title: str, *elements: Element, template: str = "blue") -> Element:
    header = {"title": plain(title), "template": template}
    config = {"update_multi": True, "summary": {"content": title}}
    return {"schema": "2.0", "config": config, "header": header, "body": {"elements": list(elements)}}


def approval() -> Element:
    shown = f"**申请人** <at id={LI}></at>\n<font color='grey'>8&#42;天&#42;</font>"
    row = [button("同意", "approve", type="primary_filled"), button("拒绝", "reject")]
    columns = [{"tag": "column", "elements": [one]} for one in row]
    return card("请假申请", {"tag": "markdown", "content": shown}, {"tag": "column_set", "columns": columns})


def form(**typed: Any) -> Element:
    people = [{"value": LI}, {"value": WANG}]
    send = {"type": "primary_filled", "name": "send", "form_action_type": "submit"}
    problem = [{"tag": "markdown", "content": "<font color='red'>请多写几个字</font>"}] if typed else []
    elements = [
        {"tag": "input", "name": "reason", "required": True, "label": plain("原因"), "default_value": "", **typed},
        *problem,
        {"tag": "markdown", "content": "**开始**"},
        {"tag": "date_picker", "name": "start", "initial_date": "2026-11-30"},
        {"tag": "markdown", "content": "**抄送**"},
        {"tag": "multi_select_person", "name": "cc", "options": people, "selected_values": [LI]},
        {"tag": "checker", "name": "read", "text": plain("看过制度")},
        button("提交", "submit", **send),
    ]
    return card("报销", {"tag": "form", "name": "form", "elements": elements})


class CardApp:
    """Answers every press as the app that sent the card."""

    def __init__(self, ws: FeishuWorkspace) -> None:
        self.ws, self.chat = ws, ws.get_person(ZHANG).dm_id
        self.actions: list[Element] = []

    async def post_card(self, shown: Element) -> None:
        """Post a card in the chat with Zhang."""
        key = {"app_id": self.ws.setup.app_id, "app_secret": SECRET}
        message = {"receive_id": self.chat, "msg_type": "interactive", "content": json.dumps(shown)}
        async with aiohttp.ClientSession(f"{self.ws.address}/open-apis/") as session:
            async with session.post("auth/v3/tenant_access_token/internal", json=key) as reply:
                bearer = {"Authorization": f"Bearer {(await reply.json())['tenant_access_token']}"}
            where = {"receive_id_type": "chat_id"}
            async with session.post("im/v1/messages", params=where, json=message, headers=bearer) as reply:
                assert (await reply.json())["code"] == 0

    async def answer_callback(self, request: web.Request) -> web.Response:
        told = await request.json()
        if "challenge" in told:
            return web.json_response({"challenge": told["challenge"]})
        action = told["event"].get("action")
        if action is None:
            return web.json_response({})
        self.actions.append(action)
        short = action["value"]["choice"] == "submit" and len(action["form_value"]["reason"]) < 4
        words = plain(f"{action['value']['choice']} 已收到")
        shown, toast = card("完成", {"tag": "div", "text": words}), {"type": "success", "content": "收到了"}
        if short:
            shown = form(default_value=action["form_value"]["reason"])
            toast = {"type": "error", "content": "请看红字"}
        if action["value"]["choice"] == "break":
            shown = {"schema": "1.0"}
        return web.json_response({"toast": toast, "card": {"type": "raw", "data": shown}})


@pytest.fixture
async def app() -> AsyncIterator[CardApp]:
    ws = FeishuWorkspace(FeishuSetup(app_secret=SECRET, timing=PATIENT))
    one = CardApp(ws)
    receiver = web.Application()
    receiver.router.add_post("/", one.answer_callback)
    async with serve_app(receiver) as address, serve_workspace(ws):
        await use_http_delivery(ws, f"{address}/")
        yield one


@pytest.fixture
def page(app: CardApp) -> Opener:
    @asynccontextmanager
    async def opened(size: tuple[int, int] = (1280, 800)) -> AsyncIterator[Browser]:
        async with Browser(size=size, wait_s=20) as browser:
            await browser.open(f"{app.ws.address}/")
            await browser.find("[data-platform=feishu] .face[aria-pressed=true]")
            yield browser
            assert await browser.console() == []

    return opened


async def test_a_person_works_through_cards_of_feishu(app: CardApp, page: Opener) -> None:
    async with page() as browser:
        await app.post_card(approval())
        await browser.find("#list .card .mention", "@李四")
        await browser.find("#list .card .font", "8*天*")
        await browser.click("#list .card button", "同意")
        await browser.find(".toast.success", "收到了")
        await browser.find("#list .card", "approve 已收到")
        await browser.gone("#list .card button")

        await app.post_card(form())
        await browser.click("#list .card button", "提交")
        await browser.find("#list .card .error", "请填写这一项")
        assert len(app.actions) == 1
        await browser.type("#list .card input[type=text]", "胃")
        await browser.click("#languages button", "EN")
        await browser.find("#list .badge", "Bot")
        typed = "return document.querySelector('#list .card input[type=text]').value"
        assert await browser.execute(typed) == "胃", "what is half filled in survives what else comes"
        await browser.click("#languages button", "中文")
        await browser.find("#list .card .choice", "王五")
        await browser.click("#list .card .choice", "王五")
        await browser.click("#list .card .choice", "看过制度")
        await browser.click("#list .card button", "提交")
        await browser.find(".toast.error", "请看红字")
        await browser.find("#list .card .font", "请多写几个字")
        await browser.type("#list .card input[type=text]", "疼，在家")
        await browser.click("#list .card button", "提交")
        await browser.find("#list .card", "submit 已收到")
        first, last = (one["form_value"] for one in app.actions[1:])
        assert first == {"reason": "胃", "start": "2026-11-30", "cc": [LI, WANG], "read": True}
        assert last["reason"] == "胃疼，在家"


@pytest.mark.slow
async def test_a_card_that_feishu_refuses_after_a_press_is_told(app: CardApp, page: Opener) -> None:
    async with page() as browser:
        await app.post_card(card("请假申请", button("换成坏的", "break")))
        await browser.click("#list .card button", "换成坏的")
        await browser.find(".toast.error", "app_errors")
        await browser.find("#list .card button", "换成坏的")


async def test_people_and_topics_of_a_group_and_hostile_text_stays_text_in_cards(app: CardApp, page: Opener) -> None:
    hostile = f"{HOSTILE} <font color='x\"y'>z</font>" + "<font color=red>" * 500
    async with page() as browser:
        await FeishuActs(app.ws).send_message(ZHANG, app.chat, HOSTILE)
        await app.post_card(card("<img src=x onerror=window.hit=1>", {"tag": "div", "text": plain(hostile)}))
        await app.post_card(card("x", {"tag": "markdown", "content": hostile}, button("打开", "x")))
        await browser.find("#list .card .button", "打开")
        await assert_hostile_text_is_text(browser)
        assert await browser.count("#list strong, #list em") > 0, "the formatting itself is drawn"

        await browser.click("#nav .entry", "general")
        await browser.find("#title", "general")
        await browser.type("#write textarea", "@李四 你好 <b> *x*")
        await browser.press("Enter")
        await browser.find("#list .mine", "@李四 你好 <b> *x*")
        await browser.find("#list .mine .mention", "@李四")
        root = next(reversed(app.ws.state.rooms[GENERAL].messages))
        assert app.ws.state.rooms[GENERAL].messages[root]["mentions"][0]["id"] == LI
        await FeishuActs(app.ws).send_message(LI, GENERAL, "在话题里回复", root)
        await browser.click("#list .thread-link", "1 条回复")
        await browser.find("#panel-thread .message", "在话题里回复")
        await browser.click("#panel-thread .quiet")
        await browser.gone("#side")


@pytest.mark.slow
async def test_feishu_fits_a_phone_and_everything_has_a_name(app: CardApp, page: Opener) -> None:
    async with page(size=(390, 844)) as browser:
        await app.post_card(approval())
        await app.post_card(form())
        await browser.find("#list .card button", "提交")
        inputs = "[...document.querySelectorAll('.card :is(input, textarea)')]"
        named = await browser.execute(f"return {inputs}.map((e) => e.labels[0].textContent)")
        assert {"原因", "开始", "李四", "看过制度"} <= set(named)
        for pane in ("nav", "chat", "thread", "mail", "log"):
            await browser.click(f"#bar [data-pane={pane}]")
            assert await browser.execute(TOO_WIDE, 391) == [], pane
            assert await browser.execute(NAMELESS) == [], pane
