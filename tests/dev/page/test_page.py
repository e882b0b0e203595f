"""The page in a browser: what people do on it, and what hostile text cannot do to it."""

import asyncio
from typing import Any

import pytest
from slack_bolt.async_app import AsyncApp

from bot.dev.real_models import RealModel
from bot.dev.workspace.acts import WorkspaceActs
from bot.dev.workspace.workspace import Workspace
from tests.dev.page.conftest import HOSTILE, NAMELESS, TOO_WIDE, Opener, assert_hostile_text_is_text
from tests.dev.workspace.blocks import actions, button, field, modal, mrkdwn, plain
from tests.dev.workspace.hands import DM_ZHANG, GENERAL, LI, ZHANG, bolt, online, sinks, web_client
from tests.harness.browser import ABSENT, Browser
from tests.harness.hands import Hands

pytestmark = pytest.mark.skipif(bool(ABSENT), reason=str(ABSENT))

THREAD = "#panel-thread"
WRITE = "#write textarea"


def card(*last: dict[str, Any]) -> list[dict[str, Any]]:
    facts = [mrkdwn("*天数*\n8"), mrkdwn(f"*审批人*\n<@{LI}>")]
    return [{"type": "header", "text": plain("请假申请")}, {"type": "section", "fields": facts}, *last]


HOLD_STATE = """
Object.assign(window, { asked: [], reads: [] })
const send = window.fetch, held = new Promise((done) => { window.release = done })
window.fetch = async (url, options) => {
  if (String(url).includes("/state")) {
    asked.push(url)
    await held
  }
  if (String(url).endsWith("/read")) reads.push(options.body)
  return send(url, options)
}
"""
"""Lets every look at the state of the workspace wait until `release()`; notes what is asked and what counts as read."""
OPEN = card(actions(button("confirm", "确认", style="primary"), button("edit", "修改")))
DIALOG = modal(
    field({"type": "plain_text_input", "action_id": "text", "multiline": True, "max_length": 300}, "reason", "原因"),
    field({"type": "datepicker", "action_id": "date", "initial_date": "2026-11-23"}, "start", "开始"),
    field({"type": "multi_users_select", "action_id": "people", "initial_users": [LI]}, "cc", "抄送"),
    callback_id="edit", title=plain("修改请假"),
)  # fmt: skip


def leave_bot(workspace: Workspace, forms: list[Any]) -> AsyncApp:
    """Shows one step and a card for everything said; a dialog behind *edit*; whispers on *confirm*."""
    app = bolt(workspace)

    @app.event("message")
    async def heard(event: dict[str, Any], say: Any) -> None:
        await say("查找同事：找到 李四", thread_ts=event["ts"])
        await say("请确认", blocks=OPEN, thread_ts=event["ts"])

    @app.action("edit")
    async def edit(ack: Any, body: dict[str, Any], client: Any) -> None:
        await ack()
        await client.views_open(trigger_id=body["trigger_id"], view=DIALOG)

    @app.action("confirm")
    async def confirm(ack: Any, body: dict[str, Any], client: Any) -> None:
        await ack()
        at = {"channel": body["channel"]["id"], "ts": body["message"]["ts"]}
        done = card({"type": "context", "elements": [mrkdwn(f"<@{body['user']['id']}> 已确认")]})
        await client.chat_update(**at, text="已确认", blocks=done)
        await client.chat_postEphemeral(channel=at["channel"], user=body["user"]["id"], text="李四会收到卡片")

    @app.view("edit")
    async def submitted(ack: Any, view: dict[str, Any]) -> None:
        forms.append(view["state"]["values"])
        short = len(view["state"]["values"]["reason"]["text"]["value"]) < 4
        await ack(**({"response_action": "errors", "errors": {"reason": "请多写几个字"}} if short else {}))

    sinks(app)
    return app


async def test_a_person_works_through_a_card(workspace: Workspace, driver: Hands, page: Opener) -> None:
    forms: list[Any] = []
    async with page() as browser, online(driver, leave_bot(workspace, forms)):
        await browser.type(WRITE, "我肚子疼 <b> & 请假")
        await browser.press("Enter")
        await browser.find(f"{THREAD} .message", "我肚子疼 <b> & 请假")
        await browser.find(f"{THREAD} .message", "找到 李四")
        await browser.find("#list .thread-link", "2 条回复")

        await browser.click(f"{THREAD} button", "修改")
        await browser.find("#modal[open] h2", "修改请假")
        await browser.click("#modal [type=submit]")
        await browser.find("#modal .error", "请填写这一项")
        assert forms == []
        await browser.type("#modal textarea", "胃")
        await browser.click("#modal [type=submit]")
        await browser.find("#modal .error", "请多写几个字")
        await browser.type("#modal textarea", "疼，在家")
        await browser.click("#modal .choice", "王五")
        await browser.click("#modal [type=submit]")
        await browser.gone("#modal")
        assert forms[-1]["reason"]["text"]["value"] == "胃疼，在家"
        assert forms[-1]["start"]["date"]["selected_date"] == "2026-11-23"
        assert forms[-1]["cc"]["people"]["selected_users"] == [LI, "U03WANG"]

        await browser.click(f"{THREAD} button", "确认")
        await browser.find(f"{THREAD} .context", "@张三 已确认")
        await browser.gone(f"{THREAD} .actions")
        await browser.find(".message.private", "李四会收到卡片")
        await browser.find(".message.private", "只有您能看到")


@pytest.mark.slow
async def test_a_press_without_a_bot_says_so(workspace: Workspace, driver: Hands, page: Opener) -> None:
    async with page() as browser:
        await web_client(workspace).chat_postMessage(channel=DM_ZHANG, text="card", blocks=OPEN)
        await browser.click("#list button", "确认")
        await browser.find(".toast.error", "机器人")
        await browser.gone("[aria-busy]")


async def test_who_becomes_somebody_else_is_nowhere_until_the_page_knows_their_channels(
    workspace: Workspace, driver: Hands, page: Opener
) -> None:
    """Meanwhile nothing is read there, and what comes then is no news."""
    async with page() as browser:
        await driver.send_message(LI, "D02LI", "有人吗")
        await browser.execute(HOLD_STATE)
        await browser.press("Alt", "2")
        await web_client(workspace).chat_postEphemeral(channel=DM_ZHANG, user=ZHANG, text="psst")
        await browser.wait_for(lambda: browser.execute("return asked.length > 1"), what="the look at all others")
        await browser.execute("release()")
        await browser.find("#list .message", "有人吗")
        await browser.wait_for(lambda: browser.execute("return reads.length > 0"), what="a mark that it was read")
        assert await browser.execute("return reads") == ['{"person":"U02LI","channel":"D02LI"}']
        assert await browser.count(".toast") == 0
        assert "有人吗" not in await browser.execute("return document.querySelector('#live').textContent")


@pytest.mark.slow
async def test_people_languages_places_mentions_and_unread_counts(
    workspace: Workspace, driver: Hands, page: Opener
) -> None:
    async with page() as browser:
        await browser.find("h3", "张三，您好")
        await driver.send_message(LI, "D02LI", "有人吗")
        await browser.press("Alt", "2")
        await browser.find(".face[aria-keyshortcuts='Alt+2'][aria-pressed=true]")
        await browser.find("#list .message", "有人吗")
        await browser.click("[data-language=en]")
        await browser.find("#tab-mail", "Mailbox")
        await driver.wait_until(lambda: workspace.get_person(LI).locale == "en-US")
        assert workspace.get_person(ZHANG).locale == "zh-CN"
        await browser.click("#nav button", "general")
        await browser.open(f"{workspace.address}/")
        await browser.find(".face[aria-pressed=true]", "Li Si")
        await browser.find("#title", "#general")
        await browser.press("Alt", "1")
        await browser.find(".face[aria-keyshortcuts='Alt+1'][aria-pressed=true]")
        await browser.find("#tab-mail", "邮箱")

        await browser.click("#nav button", "general")
        await browser.find("#title", "#general")
        await browser.type(WRITE, "@cou")
        await browser.find(".offers [role=option]", "Countersign")
        await browser.press("Enter")
        await browser.type(WRITE, "早上好")
        await browser.press("Enter")
        await browser.find("#list .mention", "@Countersign")
        await driver.wait_until(lambda: driver.list_messages(GENERAL)[-1]["text"] == "<@U0BOT> 早上好")
        for channel in (DM_ZHANG, "D02LI"):
            await web_client(workspace).chat_postMessage(channel=channel, text="新卡片")
        await browser.find("#nav .count", "1")
        await browser.find(f"[data-person={LI}] .count", "1")


@pytest.mark.slow
async def test_lost_connection_comes_back_with_what_was_missed_and_log_lines_are_filtered(
    workspace: Workspace, page: Opener
) -> None:
    line = {"at_ms": 1_790_000_000_000, "kind": "step", "run": "R03abc", "person": ZHANG, "channel": DM_ZHANG}
    workspace.append_log_line({**line, "text": "查找同事"})
    async with page() as browser:
        await browser.type(WRITE, "写了一半")
        stop = "const Real = WebSocket; window.WebSocket = function () { return new Real('ws://127.0.0.1:9/') };"
        await browser.execute(stop + "window.back = () => { window.WebSocket = Real };")
        for socket in list(workspace.feeds):
            await socket.close()
        await browser.find("#banner", "连接断开")
        await web_client(workspace).chat_postMessage(channel=DM_ZHANG, text="断线时说的话")
        await browser.execute("window.back()")
        await browser.find("#list .message", "断线时说的话")
        await browser.gone("#banner", "连接")
        assert await browser.execute("return document.querySelector(arguments[0]).value", WRITE) == "写了一半"

        await browser.click("#tab-log")
        await browser.find(".lines li", "查找同事")
        workspace.append_log_line({**line, "kind": "refused", "run": "R04xyz", "text": "不是你的卡片"})
        await browser.find(".lines [data-tone=warn]", "不是你的卡片")
        await browser.type(".filter input", "r04")
        await browser.gone(".lines li", "查找同事")
        assert await browser.count(".lines li") == 1

        await browser.console()  # the lost connection
        await browser.execute("document.body.setAttribute('style', 'color: red')")
        assert "Content Security Policy" in (await browser.console())[0], "control: a complaint is noticed"


@pytest.mark.slow
async def test_everything_is_reached_by_keyboard_and_has_a_name_and_hostile_text_stays_text(
    workspace: Workspace, driver: Hands, page: Opener
) -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": plain(HOSTILE[:140])},
        {"type": "section", "text": mrkdwn(HOSTILE), "fields": [mrkdwn(HOSTILE), plain(HOSTILE)]},
        {"type": "context", "elements": [mrkdwn(HOSTILE)]},
        {"type": "markdown", "text": HOSTILE + "\n\n" + ">" * 3000 + "\n" + "*" * 500},
        actions(button("x", "<img src=x onerror=window.hit=1>")),
    ]
    client, root = web_client(workspace), await driver.send_message(ZHANG, DM_ZHANG, "请假")
    await client.chat_postMessage(channel=DM_ZHANG, text="card", blocks=OPEN, thread_ts=root)
    async with page() as browser:
        await browser.find(f"{THREAD} button", "确认")
        assert await browser.execute(NAMELESS) == []
        reached = set()
        for _ in range(40):
            await browser.press("Tab")
            reached.add(await browser.execute("return document.activeElement.textContent"))
        assert {"确认", "修改", "general", "EN"} <= {text.strip() for text in reached}
        await browser.click("#tab-thread")
        await browser.press("ArrowRight")
        await browser.find("#panel-mail h3", "还没有邮件")

        await client.chat_postMessage(channel=DM_ZHANG, text=HOSTILE)
        await client.chat_postMessage(channel=DM_ZHANG, text=HOSTILE, blocks=blocks)
        await browser.find("#list button", "<img src=x")
        await assert_hostile_text_is_text(browser)
        assert await browser.count("#list strong") > 0, "the formatting itself is drawn"


SUGGESTED = "assistant.threads.setSuggestedPrompts"
GREETINGS = {
    "zh-CN": ("我的审批", "请假", "我的申请到哪一步了"),
    "en-US": ("My approvals", "Leave", "Where is my request"),
}


def welcoming_bot(workspace: Workspace) -> AsyncApp:
    """Fills Home and suggests what to write, in the language of whoever has opened the app."""
    app = bolt(workspace)

    @app.event("app_home_opened")
    async def opened(event: dict[str, Any], client: Any) -> None:
        person = (await client.users_info(user=event["user"], include_locale=True))["user"]
        title, *prompts = GREETINGS[person["locale"]]
        if event["tab"] == "home":
            blocks = [{"type": "header", "text": plain(f"{title}: {person['real_name']}")}]
            await client.views_publish(user_id=person["id"], view={"type": "home", "blocks": blocks})
            return
        rows = [{"title": one, "message": one} for one in (*prompts, *(f"{one}?" for one in prompts))]
        await client.assistant_threads_setSuggestedPrompts(channel_id=event["channel"], prompts=rows)

    sinks(app)
    return app


async def test_home_is_of_the_person_in_front_of_it(workspace: Workspace, driver: Hands, page: Opener) -> None:
    async with page() as browser, online(driver, welcoming_bot(workspace)):
        await browser.click("#nav [data-channel=home]")
        await browser.find("#home .header", "我的审批: 张三")
        await browser.press("Alt", "2")
        await browser.find("#home .header", "我的审批: 李四")
        await browser.click("[data-language=en]")
        await browser.find("#home .header", "My approvals: 李四")


APART = """const [one, other] = [...arguments].map((css) => document.querySelector(css).getBoundingClientRect());
return one.bottom <= other.top || one.right <= other.left"""
CHIPS = """return [...document.querySelectorAll('.prompts .chip')].map((one) => one.getBoundingClientRect())
  .map(({left, right, top}) => [left >= 0 && right <= innerWidth, Math.round(top)])"""


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["light", "dark"])
async def test_on_a_phone_everything_fits_cards_leave_faces_free_and_suggestions_wrap(
    workspace: Workspace, driver: Hands, page: Opener, dark: bool
) -> None:
    client = web_client(workspace)
    async with page(size=(390, 844), dark=dark) as browser, online(driver, welcoming_bot(workspace)):
        await find_mailbox_and_log(browser, phone=True)
        await client.chat_postMessage(channel=DM_ZHANG, text="card", blocks=OPEN)
        await browser.find("#list .actions button", "确认")
        assert await browser.execute(APART, "#list .avatar", "#list .content")
        await browser.click("[data-language=en]")
        await browser.find(".prompts .chip", "Where is my request?")
        chips = await browser.execute(CHIPS)
        assert len(chips) == 4 and all(inside for inside, _ in chips) and len({top for _, top in chips}) > 1
        control = "document.querySelector('#list .content').style.marginBlockStart = '5px';" + APART
        assert not await browser.execute(control, "#list .avatar", "#list .content")

        root = await driver.send_message(ZHANG, DM_ZHANG, "一句很长的话，" * 30 + "x" * 300)
        await client.chat_postMessage(channel=DM_ZHANG, text="card", blocks=OPEN, thread_ts=root)
        await browser.find(".thread-link")
        for pane in ("nav", "chat", "thread", "mail", "log"):
            await browser.click(f"#bar [data-pane={pane}]")
            assert await browser.execute(TOO_WIDE, 391) == [], pane
        await browser.click("#bar [data-pane=chat]")
        await browser.click(".thread-link")
        await browser.find(f"{THREAD} button", "确认")
        ground = await browser.execute("return getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(18, 20, 22)") is dark


async def find_mailbox_and_log(browser: Browser, *, phone: bool = False) -> None:
    """As a newcomer: each says what it is for."""
    for panel, name, says in (("mail", "邮箱", "不会寄到任何真实的邮箱"), ("log", "日志", "每一步")):
        if phone:
            await browser.click("#bar [data-pane=nav]")
        await browser.click("#nav .entry", name)
        await browser.find(f"#panel-{panel} .empty", says)
        await browser.click("#tab-thread, #bar [data-pane=chat]")


async def test_what_a_newcomer_reads_stays_until_it_is_used(workspace: Workspace, driver: Hands, page: Opener) -> None:
    async with page() as browser, online(driver, welcoming_bot(workspace)):
        hasty = "const real = window.setTimeout; window.setTimeout = (run, ms) => real(run, Math.min(ms, 100))"
        await browser.execute(hasty)
        await browser.click("[data-language=en]")
        await browser.find(".prompts .chip", "Leave")
        await browser.press("Alt", "2")
        await browser.find(".prompts .chip", "请假")
        await browser.press("Alt", "1")
        back = ["D02LI", DM_ZHANG]
        await driver.wait_until(
            lambda: [one["channel_id"] for one in driver.list_call_arguments(SUGGESTED)][-2:] == back
        )
        await browser.click(".prompts .chip", "Leave")
        await browser.find("#list .message", "Leave")
        await browser.gone(".prompts .chip")
        await asyncio.sleep(0.3)
        await browser.find(".toast", "Zhang San now reads English.")
        await browser.click(".toast button", "English for everybody")
        await browser.gone(".toast")
        await driver.wait_until(lambda: all(workspace.get_person(id).locale == "en-US" for id in (ZHANG, LI)))


async def test_a_newcomer_finds_mailbox_and_log_and_the_command_that_uses_a_real_model(
    workspace: Workspace, page: Opener
) -> None:
    command = "OPENAI_BASE_URL=http://127.0.0.1:11434/v1 OPENAI_MODEL=qwen3:8b deploy/run"
    workspace.standins = workspace.standins | {"model": "rules"}
    workspace.models = (RealModel("qwen3:8b", "Ollama", "http://127.0.0.1:11434/v1"),)
    async with page() as browser:
        await find_mailbox_and_log(browser)
        await browser.click("#nav button", "qwen3:8b (Ollama)")
        assert await browser.text("#standins pre") == command
        await browser.find("#standins", "按 Ctrl-C 停止后这样启动")
        await browser.press("Escape")
        await browser.gone("#standins")
        await browser.click("[data-language=en]")
        await browser.click("#nav button", "qwen3:8b (Ollama)")
        await browser.find("#standins", "stop with Ctrl-C and start with")


async def test_an_english_browser_makes_the_first_sentence_english(workspace: Workspace, driver: Hands) -> None:
    async with online(driver, welcoming_bot(workspace)), Browser(language="en-US") as browser:
        await browser.open(f"{workspace.address}/")
        await browser.find(".prompts .chip", "Where is my request")
        assert {one.locale for one in workspace.state.people.values()} == {"en-US"}
        await driver.send_message(ZHANG, DM_ZHANG, "hello")
        await WorkspaceActs(workspace).set_locale(ZHANG, "zh-CN")
        await browser.open(f"{workspace.address}/")
        await browser.find("#tab-mail", "邮箱")
        assert workspace.get_person(ZHANG).locale == "zh-CN", "what somebody has chosen stays"
