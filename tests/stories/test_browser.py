"""The workspace's own page in a real browser: the main job, forms, several at once, files, Home, prompts and thumbs.
Home is worked through in both languages and sizes of screen, anything else in one of each; the shortest test is played
at every change."""

import base64
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.harness.browser import ABSENT, Browser
from tests.harness.files import pdf, png
from tests.harness.office import LI, ZHANG, Office
from tests.stories.script import ASKED, AskingModel
from tests.stories.sets import approve_several, labels, now, start_claims

pytestmark = pytest.mark.skipif(ABSENT is not None, reason=str(ABSENT))

README_PICTURE = os.environ.get("README_PICTURE", "")
"""If set to a path, the main job takes the README's picture there."""
PICTURES = os.environ.get("PICTURES", "")
"""If set to a folder, the pictures of Home are kept there."""
DESK, PHONE = (1280, 800), (390, 844)
PUT = "const [css, value] = arguments; const one = document.querySelector(css); one.value = value;\
 one.dispatchEvent(new Event('change', {bubbles: true}));"
TICK = "document.querySelector(`#list .choices input[value='${arguments[0]}']`).click();"
CHOOSE = """
const [css, name, type, data] = arguments;
const bytes = Uint8Array.from(atob(data), (one) => one.charCodeAt(0));
const picked = new DataTransfer();
picked.items.add(new File([bytes], name, { type }));
const input = document.querySelector(css);
input.files = picked.files;
input.dispatchEvent(new Event("change", { bubbles: true }));
"""
SAYS = "return document.querySelector('#list').textContent.includes(arguments[0])"
NARROW = """return [...document.querySelectorAll(arguments[0] + ' .button')].filter((one) => one.checkVisibility())
  .map((one) => [one.textContent, one.getBoundingClientRect().width, one.getBoundingClientRect().height,
                 one.querySelector('span').scrollWidth - one.querySelector('span').clientWidth])"""
OVER = """return [...document.querySelectorAll('.home, .home *, #modal, #modal *')].filter((one) =>
  one.checkVisibility() && one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.className)"""
CRUSHED = """const style = { sheet: [...document.styleSheets].at(-1) };
  style.sheet.insertRule('.actions { flex-wrap: nowrap !important }');
  style.sheet.insertRule('.actions .button { flex: 1 !important; min-width: 0 }');
  style.sheet.insertRule('.button > span { white-space: normal !important; overflow-wrap: anywhere }')"""
"""The earlier style: all buttons of a card on one line."""


class Page(Browser):
    """The page, open for Zhang San."""

    async def put(self, css: str, value: str) -> None:
        await self.execute(PUT, css, value)

    async def choose_file(self, css: str, name: str, content: bytes, kind: str = "image/png") -> None:
        await self.execute(CHOOSE, css, name, kind, base64.b64encode(content).decode())

    async def find_said(self, text: str) -> None:
        """Wait until the list contains the text, visible or not."""

        async def is_said() -> bool:
            return bool(await self.execute(SAYS, text))

        await self.wait_for(is_said, what=text)

    async def write(self, text: str) -> None:
        await self.type("#write textarea", text)
        await self.press("Enter")

    async def become(self, number: int) -> None:
        """Switch to another person, and return when the page is theirs."""
        await self.press("Alt", str(number))
        await self.find(f".face[aria-keyshortcuts='Alt+{number}'][aria-pressed=true]")

    async def check_buttons(self, css: str) -> None:
        """Check that every button shows its label on one line and none is crushed."""
        buttons = await self.execute(NARROW, css)
        assert buttons, css
        for label, width, height, cut in buttons:
            assert height <= 48 and cut <= 0 and width >= 14 * min(len(label), 4), (label, width, height, cut)
        assert await self.execute(OVER) == [], "nothing stands out of the screen"


Opens = Callable[..., AbstractAsyncContextManager[Page]]


@asynccontextmanager
async def open_page(office: Office, language: str, size: tuple[int, int]) -> AsyncIterator[Page]:
    """Open the page in a language and a size; at the end its console has to be empty."""
    locale = "zh-CN" if language == "zh" else "en-US"
    for person in office.driver.ws.state.people.values():
        person.locale = locale
    async with Page(size=size, dark=False, language=locale) as page:
        await page.open(f"{office.address}/")
        yield page
        assert not [line for line in await page.console() if "favicon" not in line]


@pytest.fixture
def opens(desk: Office) -> Opens:
    """Open the page of an office where the rehearsal model answers."""
    return partial(open_page, desk)


@pytest.mark.slow
async def test_the_whole_story_by_hand(desk: Office, opens: Opens) -> None:
    async with opens("en", DESK) as page:
        await page.write("I need 10 days off from tomorrow, stomach ache")
        await page.find("#list .actions button", "Confirm")
        if README_PICTURE:
            await page.screenshot(Path(README_PICTURE))
        await page.click("#list .actions button", "Confirm")
        await page.find("#list .message", "L-0001")
        await page.find("#panel-thread .message", "Worked for")

        await page.become(2)
        await page.find("#list .message", "leave request L-0001 needs your decision")
        await page.click("#list .actions button", "Reject")
        await page.find("#modal[open]")
        await page.press("Escape")
        await page.gone("#modal[open]")
        await page.click("#list .actions button", "Approve")
        await page.find("#list .message", "Approved by you")
        await page.gone("#list .actions button")

        await page.become(1)
        body = "Thanks for approving, I am away from tomorrow."
        await page.write(f"mail Li Si, subject Leave, body {body}")
        await page.click("#list .actions button", "Send")
        await page.find("#panel-thread .message", body)  # its steps come to the front, once
        await page.find("#panel-thread .message", "Worked for")
        await page.click("#tab-mail")
        await page.click(".mail", "Leave")
        await page.find(".letter", body)
    await desk.quiet()  # a card is updated once its mail is sent
    assert [mail["subject"] for mail in desk.mails] == ["Leave"]
    assert desk.cards(desk.dm(ZHANG)) == desk.cards(desk.dm(LI)) == []


@pytest.mark.slow
async def test_a_leave_by_a_form(desk: Office, opens: Opens) -> None:
    desk.answering.clear()
    async with opens("en", PHONE) as page:

        async def put(field: str, value: str) -> None:
            await page.put(f"#modal [data-block={field}] :is(select, input)", value)

        await page.type("#write textarea", "/leave")
        await page.press("Escape", "Enter")
        await page.find("#modal[open] h2", "Leave")
        await page.type("#modal [data-block=reason] textarea", "family")
        await put("leave_type", "sick")
        await put("start_date", "2026-12-07")
        await put("end_date", "2026-12-07")
        await page.find("#modal .context", "leave of up to 1 working day passes by rule")
        await page.gone("#modal [data-block=approver]")
        await put("end_date", "2026-12-16")
        await page.find("#modal .context", "8 working days")
        await page.find("#modal .context", "Second approver: Wang Wu")
        await page.find("#modal [data-block=approver]")
        await page.click("#modal .actions button", "More Options…")
        await page.find("#modal [data-block=start_half]")
        await put("start_half", "pm")
        await page.find("#modal .context", "7.5 working days")
        await page.click("#modal footer button:not([type=submit])")
        await page.find("#modal [data-block=reason]")
        kept = await page.execute("return document.querySelector('#modal [data-block=reason] textarea').value")
        assert kept == "family", "what was typed is still there"
        await page.click("#modal [type=submit]")
        await page.gone("#modal[open]")
        await page.click("#list .message button", "Confirm")
        await page.find("#list .message", "Confirmed by you")


async def test_a_request_is_opened_by_its_name_and_a_message_is_made_an_expense(desk: Office, opens: Opens) -> None:
    async with opens("zh", DESK) as page:
        await page.type("#write textarea", "/Req")
        await page.find("#write .offers li")
        await desk.driver.send_message(LI, "C01GENERAL", "taxi to the client")
        await page.find("#nav button .count", "1")
        await page.press("Enter")  # the offers have stayed
        await page.find("#modal[open] h2", "请假")
        await page.put("#modal .actions select", "expense")
        await page.find("#modal[open] h2", "报销")
        await page.find("#modal [data-block=amount]")
        await page.click("#modal footer button:not([type=submit])")
        await page.gone("#modal[open]")
        await page.click("#nav button", "general")
        await page.find("#list .message", "taxi to the client")
        await page.execute("document.querySelector('#list .message .entries button').click()")
        await page.find("#modal[open] h2", "报销")
        reason = await page.execute("return document.querySelector('#modal [data-block=reason] textarea').value")
        assert reason == "taxi to the client"


@pytest.mark.slow
async def test_several_at_once_by_hand(desk: Office, opens: Opens) -> None:
    async with opens("zh", DESK) as page:
        await start_claims(desk, 31, 32, 33)
        await page.type("#write textarea", "x")  # waits for the page
        await page.become(2)
        message = await approve_several(desk)
        await page.find("#list .actions button", "同意全部 3 项")
        await page.execute(TICK, "0")
        await page.click("#list .actions button", "同意 2 项（共 3 项）")
        await page.find("#list .message", "1 个申请等您决定")
        await page.find("#list .message", "您已同意")
        await page.execute(TICK, "0")
        await desk.until(lambda: labels(now(desk, message))[0] == "同意")
        await page.click("#list .actions button", "驳回所选…")
        await page.find("#modal[open]")
        await page.type("#modal textarea", "no receipt")
        await page.click("#modal [type=submit]")
        await page.find("#list .message", "已同意 2 项、已驳回 1 项")
    await desk.quiet()


@pytest.mark.slow
async def test_a_receipt_by_hand(desk: Office, opens: Opens) -> None:
    composer = "#write .composer input[type=file]"
    async with opens("zh", DESK) as page:
        await page.find("#write textarea")
        for name in ("wrong.png", "taxi.png"):
            await page.choose_file(composer, name, png(name))
            await page.find("#write .chosen-files", name)
        await page.click("#write .chosen-files button[aria-label='去掉 wrong.png']")
        await page.write("报销 320 元打车费，去客户那里，审批人李四")
        await page.find("#list .message .files .picture img")
        await page.find("#list .message", "taxi.png")
        await page.click("#list .message button", "确认")
        await page.find_said("您已确认")
        assert await page.count("#write .chosen-files li") == 0
    assert "wrong.png" not in str(await desk.card(desk.dm(LI), "taxi.png"))
    await desk.until(lambda: [m for m in desk.posts(desk.dm(LI)) if m.get("files")])
    async with opens("zh", DESK) as page:
        await page.type("#write textarea", "x")  # waits for the page
        await page.become(2)
        await page.find("#list .message", "等您审批")
        await page.click("#list .message .thread-link")
        await page.find("#panel-thread .files .picture img")


@pytest.mark.slow
async def test_a_file_is_chosen_in_a_form_which_stays_until_the_bot_knows_that_it_is_closed(
    desk: Office, opens: Opens
) -> None:
    async with opens("en", DESK) as page:
        await page.type("#write textarea", "/expense")
        await page.press("Escape", "Enter")
        await page.find("#modal[open] h2", "Expense")
        await page.put("#modal [data-block=amount] input", "6000")
        await page.put("#modal [data-block=category] select", "travel")
        await page.type("#modal [data-block=reason] textarea", "flight")
        await page.choose_file("#modal [data-block=receipt] input", "flight.pdf", pdf("f"), "application/pdf")
        await page.find("#modal [data-block=receipt] .chosen-files", "flight.pdf")
        await page.click("#modal [type=submit]")
        await page.gone("#modal[open]")
        await page.find("#list .message", "flight.pdf")
        await page.click("#list .message button", "Confirm")
        await page.find_said("Confirmed by you")
        await desk.card(desk.dm(LI), "flight.pdf")
        await page.type("#write textarea", "/expense")
        await page.press("Escape", "Enter")
        await page.find("#modal[open] h2", "Expense")
        await page.execute(
            "window.held = []; window.sent = window.fetch;"
            "window.fetch = (path, ...rest) => path !== '/local/close' ? sent(path, ...rest)"
            " : new Promise((resume) => held.push(() => resume(sent(path, ...rest))))"
        )
        for _ in range(3):
            await page.press("Escape")
        assert await page.count("#modal[open]") == 1 and await page.execute("return held.length") == 1
        await page.execute("window.fetch = sent; held[0]()")
        await page.gone("#modal[open]")
        assert not await page.count("#toasts > *")


@pytest.mark.slow
@pytest.mark.parametrize(("language", "size"), [("zh", DESK), ("en", PHONE)], ids=["zh-desk", "en-phone"])
async def test_home_is_worked_through(
    desk: Office, opens: Opens, tmp_path: Path, language: str, size: tuple[int, int]
) -> None:
    def say(zh: str, en: str) -> str:
        return zh if language == "zh" else en

    async with opens(language, size) as page:
        for zh, en in (
            ("明天起请10天年假，去看父母，审批人李四", "10 days of annual leave from tomorrow, trip, approver Li Si"),
            ("报销打车费 84.5 元，客户拜访，审批人李四", "expense 84.5 CNY for transport, client, approver Li Si"),
        ):
            await desk.says(ZHANG, say(zh, en))
            await desk.press(ZHANG, await desk.card(desk.dm(ZHANG)), "confirm")
            await desk.quiet()

        async def look_at(name: str, css: str) -> None:
            await page.check_buttons(css)
            file = f"{name}-{language}-{'phone' if size == PHONE else 'desk'}.png"
            await page.screenshot(Path(PICTURES or tmp_path) / file)

        async def go_home(person: str) -> None:
            await page.click(f"[data-person={person}]")
            if size == PHONE:
                await page.click("#bar [data-pane=nav]")
            await page.click("#nav [data-channel=home]")

        await go_home(LI)
        await page.find(".home .header", say("等我处理", "Waiting for Me"))
        await look_at("home-approver", ".home")
        await page.click(".home .button", say("查看全文", "Show All of It"))
        await page.find("#modal[open] .button", say("驳回", "Reject"))
        await look_at("open", "#modal")
        await page.click("#modal .actions .button", say("驳回", "Reject"))
        await page.find("#modal textarea")
        await page.press("Escape")
        await page.gone("#modal textarea")
        await page.press("Escape")
        await page.gone("#modal[open]")
        await page.click('.home [data-action="cs:approve"]', say("同意", "Approve"))

        async def has_decided() -> bool:
            return await page.count('.home [data-action="cs:approve"]') == 1

        await page.wait_for(has_decided, what="the page to be renewed")
        await page.click(".home .button", say("设置代理…", "Set a Stand-In…"))
        await page.find("#modal [data-block=deputy]")
        await page.put("#modal [data-block=deputy] select", "U04ZHAO")
        await page.put("#modal [data-block=first_day] input", "2026-11-23")
        await page.put("#modal [data-block=last_day] input", "2026-11-27")
        await page.click("#modal [type=submit]", say("核对", "Review"))
        await page.find("#modal [type=submit]", say("设置代理", "Set Stand-In"))
        await look_at("absence-review", "#modal")
        await page.click("#modal [type=submit]", say("设置代理", "Set Stand-In"))
        await page.find(".home .prose", say("正在代理审批", "decides for you"))
        await page.click(".home .button", say("更改…", "Change…"))
        await page.find("#modal [data-block=steps]")
        await look_at("settings", "#modal")
        await page.press("Escape")
        await page.gone("#modal[open]")

        await go_home(ZHANG)
        await page.find(".home .prose", say("在李四处", "With Li Si since"))
        await look_at("home-author", ".home")
        await page.click(".home .button", say("催办", "Urge"))
        await page.find("#modal [type=submit]", say("催办", "Urge"))
        await look_at("urge", "#modal")


@pytest.mark.slow
async def test_the_question_for_the_approver_is_answered_by_one_press_and_the_buttons_of_a_card_wrap(
    empty: Office,
) -> None:
    async with empty.opened(model=AskingModel([])), open_page(empty, "en", PHONE) as page:
        await page.write(ASKED)
        await page.find("#list .actions .button", "Li Si")
        await page.find("#list .actions select")
        await page.check_buttons("#list")
        await page.click("#list .actions .button", "Li Si")
        await page.find("#list .message", "lisi@example.com")
        await page.gone("#list .actions select")
        await empty.press(ZHANG, await empty.card(empty.dm(ZHANG)), "confirm")
        await empty.card(empty.dm(LI))
        await empty.quiet()
        await page.click(f"[data-person={LI}]")
        await page.find("#list .actions .button", "Approve")
        await page.check_buttons("#list")
        await page.execute(CRUSHED)
        with pytest.raises(AssertionError):  # the control
            await page.check_buttons("#list")


@pytest.mark.slow
async def test_prompts_stop_and_thumbs(desk: Office, opens: Opens) -> None:
    async with opens("zh", PHONE) as page:
        question, working, prompt = "年假可以结转吗", "#list .status .stop", "我的申请到哪一步了"
        await page.find(".prompts .chip", prompt)
        await page.find("#list .message", "Countersign")
        assert await page.count(".prompts .chip") == 4
        await page.click(".prompts .chip", prompt)
        await page.find("#list .message", "您还没有申请")
        await page.gone(".prompts .chip")

        desk.answering.clear()
        await page.write(question)
        await page.find(working, "停止")
        await page.click(working, "停止")
        await page.find("#list .message", "已停下")
        desk.answering.set()
        await page.gone("#list .status")

        await page.write(question)
        await page.click("#list .small[aria-pressed]")
        await page.find("#list .message", "谢谢，记下了")
        assert await page.count('#list .small[aria-pressed="true"]') == 1
        assert await page.execute("return document.documentElement.scrollWidth <= innerWidth")
        await desk.quiet()
    assert [one.counts for one in await desk.usage_rows() if one.counts] == [{"good": 1}]
    assert ZHANG in {one.person for one in await desk.usage_rows()}
