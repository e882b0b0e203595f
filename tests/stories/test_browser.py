"""The workspace's own page in a real browser: the main job, forms, several at once, files, Home, prompts and thumbs.
Each language and each size of screen is tested once; the shortest test is played at every change."""

import base64
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
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
"""If set to a path, the main job in English also takes the README's picture there."""
PICTURES = os.environ.get("PICTURES", "")
"""If set to a folder, all pictures are kept there."""
DESK, PHONE = (1280, 800), (390, 844)
EACH_ONCE = pytest.mark.parametrize(("language", "size"), [("zh", DESK), ("en", PHONE)], ids=["zh-desk", "en-phone"])
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


@dataclass
class Page:
    """The page, open for Zhang San."""

    browser: Browser
    language: str
    is_phone: bool
    folder: Path

    def say(self, zh: str, en: str) -> str:
        return zh if self.language == "zh" else en

    async def keep_picture(self, name: str) -> None:
        await self.browser.screenshot(
            self.folder / f"{name}-{self.language}-{'phone' if self.is_phone else 'desk'}.png"
        )

    async def put(self, css: str, value: str) -> None:
        await self.browser.execute(PUT, css, value)

    async def choose_file(self, css: str, name: str, content: bytes, kind: str = "image/png") -> None:
        await self.browser.execute(CHOOSE, css, name, kind, base64.b64encode(content).decode())

    async def find_said(self, text: str) -> None:
        """Wait until the list contains the text, visible or not."""

        async def is_said() -> bool:
            return bool(await self.browser.execute(SAYS, text))

        await self.browser.wait_for(is_said, what=text)

    async def write(self, text: str, *keys: str) -> None:
        await self.browser.type("#write textarea", text)
        await self.browser.press(*(keys or ("Enter",)))

    async def become(self, number: int) -> None:
        """Switch to another person, and return when the page is theirs."""
        await self.browser.press("Alt", str(number))
        await self.browser.find(f".face[aria-keyshortcuts='Alt+{number}'][aria-pressed=true]")

    async def go_home(self, person: str) -> None:
        await self.browser.click(f"[data-person={person}]")
        if self.is_phone:
            await self.browser.click("#bar [data-pane=nav]")
        await self.browser.click("#nav [data-channel=home]")

    async def check_buttons(self, css: str) -> None:
        """Check that every button shows its label on one line and none is crushed."""
        buttons = await self.browser.execute(NARROW, css)
        assert buttons, css
        for label, width, height, cut in buttons:
            assert height <= 48 and cut <= 0 and width >= 14 * min(len(label), 4), (label, width, height, cut)
        assert await self.browser.execute(OVER) == [], "nothing stands out of the screen"


Opens = Callable[..., AbstractAsyncContextManager[Page]]


@asynccontextmanager
async def open_page(office: Office, folder: Path, language: str, size: tuple[int, int]) -> AsyncIterator[Page]:
    """Open the page in a language and a size; at the end its console has to be empty."""
    locale = "zh-CN" if language == "zh" else "en-US"
    for person in office.driver.ws.state.people.values():
        person.locale = locale
    async with Browser(size=size, dark=False, language=locale) as browser:
        await browser.open(f"{office.address}/")
        yield Page(browser, language, size == PHONE, Path(PICTURES or folder))
        assert not [line for line in await browser.console() if "favicon" not in line]


@pytest.fixture
def opens(desk: Office, tmp_path: Path) -> Opens:
    """Open the page of an office where the rehearsal model answers."""
    return partial(open_page, desk, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("language", ["zh", "en"])
async def test_the_whole_story_by_hand(desk: Office, opens: Opens, language: str) -> None:
    async with opens(language, DESK) as shown:
        page, say = shown.browser, shown.say
        await shown.write(say("我肚子疼，从明天起请10天假", "I need 10 days off from tomorrow, stomach ache"))
        await page.find("#list .actions button", say("确认", "Confirm"))
        if README_PICTURE and language == "en":
            await page.screenshot(Path(README_PICTURE))
        await page.click("#list .actions button", say("确认", "Confirm"))
        await page.find("#list .message", say("L-0001 已提交", "L-0001"))
        await page.find("#panel-thread .message", say("用时", "Worked for"))

        await shown.become(2)
        await page.find(
            "#list .message", say("张三的请假申请 L-0001 等您审批", "leave request L-0001 needs your decision")
        )
        await page.click("#list .actions button", say("驳回", "Reject"))
        await page.find("#modal[open]")
        await page.press("Escape")
        await page.gone("#modal[open]")
        await page.click("#list .actions button", say("同意", "Approve"))
        await page.find("#list .message", say("您已同意", "Approved by you"))
        await page.gone("#list .actions button")

        await shown.become(1)
        subject, body = (
            say("请假", "Leave"),
            say("谢谢批准，明天起我不在。", "Thanks for approving, I am away from tomorrow."),
        )
        await shown.write(
            say(f"给李四发邮件，主题 {subject}，内容 {body}", f"mail Li Si, subject {subject}, body {body}")
        )
        await page.click("#list .actions button", say("发送", "Send"))
        await page.find("#panel-thread .message", body)  # its steps come to the front, once
        await page.find("#panel-thread .message", say("用时", "Worked for"))
        await page.click("#tab-mail")
        await page.click(".mail", subject)
        await page.find(".letter", body)
    await desk.quiet()  # a card is updated once its mail is sent
    assert [mail["subject"] for mail in desk.mails] == [subject]
    assert desk.cards(desk.dm(ZHANG)) == desk.cards(desk.dm(LI)) == []


@pytest.mark.slow
@EACH_ONCE
async def test_a_leave_by_a_form(desk: Office, opens: Opens, language: str, size: tuple[int, int]) -> None:
    desk.answering.clear()
    async with opens(language, size) as shown:
        page, say = shown.browser, shown.say

        async def put(field: str, value: str) -> None:
            await shown.put(f"#modal [data-block={field}] :is(select, input)", value)

        await page.type("#write textarea", "/leave")
        await page.press("Escape", "Enter")
        await page.find("#modal[open] h2", say("请假", "Leave"))
        await page.type("#modal [data-block=reason] textarea", "family")
        await put("leave_type", "sick")
        await put("start_date", "2026-12-07")
        await put("end_date", "2026-12-07")
        await page.find("#modal .context", say("按规则自动通过", "leave of up to 1 working day passes by rule"))
        await page.gone("#modal [data-block=approver]")
        await put("end_date", "2026-12-16")
        await page.find("#modal .context", say("8 个工作日", "8 working days"))
        await page.find("#modal .context", say("二级审批人：王五", "Second approver: Wang Wu"))
        await page.find("#modal [data-block=approver]")
        await page.click("#modal .actions button", say("更多选项…", "More Options…"))
        await page.find("#modal [data-block=start_half]")
        await put("start_half", "pm")
        await page.find("#modal .context", say("7.5 个工作日", "7.5 working days"))
        await page.click("#modal footer button:not([type=submit])")
        await page.find("#modal [data-block=reason]")
        kept = await page.execute("return document.querySelector('#modal [data-block=reason] textarea').value")
        assert kept == "family", "what was typed is still there"
        await shown.keep_picture("form")
        await page.click("#modal [type=submit]")
        await page.gone("#modal[open]")
        await page.click("#list .message button", say("确认", "Confirm"))
        await page.find("#list .message", say("您已确认", "Confirmed by you"))


async def test_a_message_is_made_an_expense_and_a_request_is_opened_by_its_name(desk: Office, opens: Opens) -> None:
    await desk.driver.send_message(LI, "C01GENERAL", "taxi to the client")
    async with opens("zh", DESK) as shown:
        page = shown.browser
        await page.click("#nav button", "general")
        await page.find("#list .message", "taxi to the client")
        await page.execute("document.querySelector('#list .message .entries button').click()")
        await page.find("#modal[open] h2", "报销")
        reason = await page.execute("return document.querySelector('#modal [data-block=reason] textarea').value")
        assert reason == "taxi to the client"
        await page.click("#modal footer button:not([type=submit])")
        await page.gone("#modal[open]")
        await shown.write("/Req")
        await page.find("#modal[open] h2", "请假")
        await shown.put("#modal .actions select", "expense")
        await page.find("#modal[open] h2", "报销")
        await page.find("#modal [data-block=amount]")


async def test_the_offers_stay_when_a_message_comes_elsewhere(desk: Office, opens: Opens) -> None:
    async with opens("en", DESK) as shown:
        page = shown.browser
        await page.type("#write textarea", "/Req")
        await page.find("#write .offers li")
        await desk.driver.send_message(LI, "C01GENERAL", "good morning")
        await page.find("#nav button .count", "1")
        await page.press("Enter")
        await page.find("#modal[open] h2", "Leave")


@pytest.mark.slow
@EACH_ONCE
async def test_several_at_once_by_hand(desk: Office, opens: Opens, language: str, size: tuple[int, int]) -> None:
    async with opens(language, size) as shown:
        page, say = shown.browser, shown.say
        await start_claims(desk, 31, 32, 33)
        await page.type("#write textarea", "x")  # waits for the page
        await shown.become(2)
        message = await approve_several(desk)
        await page.find("#list .actions button", say("同意全部 3 项", "Approve All 3"))
        await page.execute(TICK, "0")
        two = say("同意 2 项（共 3 项）", "Approve 2 of 3")
        await page.find("#list .actions button", two)
        await shown.keep_picture("set")
        await page.click("#list .actions button", two)
        await page.find("#list .message", say("1 项申请等您决定", "1 request waits for your decision"))
        await page.find("#list .message", say("您已同意", "Approved by you"))
        await page.execute(TICK, "0")
        await desk.until(lambda: labels(now(desk, message))[0] in ("同意", "Approve"))
        await page.click("#list .actions button", say("驳回所选…", "Reject Ticked…"))
        await page.find("#modal[open]")
        await page.type("#modal textarea", "no receipt")
        await page.click("#modal [type=submit]")
        await page.find("#list .message", say("已同意 2 项、已驳回 1 项", "2 approved, 1 rejected"))
        await shown.keep_picture("set-done")
    await desk.quiet()


@pytest.mark.slow
@EACH_ONCE
async def test_a_receipt_by_hand(desk: Office, opens: Opens, language: str, size: tuple[int, int]) -> None:
    composer = "#write .composer input[type=file]"
    async with opens(language, size) as shown:
        page, say = shown.browser, shown.say
        await page.find("#write textarea")
        for name in ("wrong.png", "taxi.png"):
            await shown.choose_file(composer, name, png(name))
            await page.find("#write .chosen-files", name)
        await shown.keep_picture("chosen")
        await page.click(f"#write .chosen-files button[aria-label='{say('去掉', 'Remove')} wrong.png']")
        await shown.write(
            say("报销 320 元打车费，去客户那里，审批人李四", "claim 320 yuan for a taxi to the client, Li Si approves")
        )
        await page.find("#list .message .files .picture img")
        await page.find("#list .message", "taxi.png")
        await page.click("#list .message button", say("确认", "Confirm"))
        await shown.find_said(say("您已确认", "Confirmed by you"))  # on a phone its steps have come to the front
        await shown.keep_picture("receipt")
        assert await page.count("#write .chosen-files li") == 0
    task = await desk.card(desk.dm(LI), "taxi.png")
    assert "wrong.png" not in str(task)
    await desk.until(lambda: [m for m in desk.posts(desk.dm(LI)) if m.get("files")])
    if size == DESK:
        async with opens(language, size) as shown:
            page = shown.browser
            await page.type("#write textarea", "x")  # waits for the page
            await shown.become(2)
            await page.find("#list .message", shown.say("等您审批", "needs your decision"))
            await page.click("#list .message .thread-link")
            await page.find("#panel-thread .files .picture img")


@pytest.mark.slow
async def test_a_dialog_stays_until_the_bot_knows_that_it_is_closed(desk: Office, opens: Opens) -> None:
    async with opens("en", DESK) as shown:
        page = shown.browser
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
async def test_a_file_is_chosen_in_a_form(desk: Office, opens: Opens) -> None:
    async with opens("en", DESK) as shown:
        page = shown.browser
        await page.type("#write textarea", "/expense")
        await page.press("Escape", "Enter")
        await page.find("#modal[open] h2", "Expense")
        await shown.put("#modal [data-block=amount] input", "6000")
        await shown.put("#modal [data-block=category] select", "travel")
        await page.type("#modal [data-block=reason] textarea", "flight")
        await shown.choose_file("#modal [data-block=receipt] input", "flight.pdf", pdf("f"), "application/pdf")
        await page.find("#modal [data-block=receipt] .chosen-files", "flight.pdf")
        await page.click("#modal [type=submit]")
        await page.gone("#modal[open]")
        await page.find("#list .message", "flight.pdf")
        await page.click("#list .message button", "Confirm")
        await shown.find_said("Confirmed by you")
    await desk.card(desk.dm(LI), "flight.pdf")


@pytest.mark.slow
@EACH_ONCE
async def test_home_is_worked_through(desk: Office, opens: Opens, language: str, size: tuple[int, int]) -> None:
    async with opens(language, size) as shown:
        page, say = shown.browser, shown.say
        leave = say(
            "明天起请10天年假，去看父母，审批人李四", "10 days of annual leave from tomorrow, trip, approver Li Si"
        )
        claim = say(
            "报销打车费 84.5 元，客户拜访，审批人李四", "expense 84.5 CNY for transport, client, approver Li Si"
        )
        for text in (leave, claim):
            await desk.says(ZHANG, text)
            await desk.press(ZHANG, await desk.card(desk.dm(ZHANG)), "confirm")
            await desk.quiet()

        async def look_at(name: str, css: str) -> None:
            await shown.check_buttons(css)
            await shown.keep_picture(name)

        await shown.go_home(LI)
        await page.find(".home .header", say("等我处理", "Waiting for Me"))
        await look_at("home-approver", ".home")
        await page.click(".home .button", say("查看全部", "Open"))
        await page.find("#modal[open] .button", say("驳回", "Reject"))
        await look_at("open", "#modal")
        await page.click("#modal .actions .button", say("驳回", "Reject"))
        await page.find("#modal textarea")
        await page.press("Escape")
        await page.gone("#modal textarea")
        await page.press("Escape")
        await page.gone("#modal[open]")
        await page.click('.home [data-action="cs:approve"]', say("同意", "Approve"))
        await page.wait_for(lambda: has_decided(page), what="the page to be renewed")
        await page.click(".home .button", say("设置代理…", "Set a Stand-In…"))
        await page.find("#modal [data-block=deputy]")
        await shown.put("#modal [data-block=deputy] select", "U04ZHAO")
        await shown.put("#modal [data-block=first_day] input", "2026-11-23")
        await shown.put("#modal [data-block=last_day] input", "2026-11-27")
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

        await shown.go_home(ZHANG)
        await page.find(".home .prose", say("在李四处", "With Li Si since"))
        await look_at("home-author", ".home")
        await page.click(".home .button", say("催办", "Urge"))
        await page.find("#modal [type=submit]", say("催办", "Urge"))
        await look_at("urge", "#modal")


async def has_decided(page: Browser) -> bool:
    return await page.execute("return document.querySelectorAll('.home [data-action=\"cs:approve\"]').length") == 1


@pytest.mark.slow
@EACH_ONCE
async def test_the_question_for_the_approver_is_answered_by_one_press_and_the_buttons_of_a_card_wrap(
    empty: Office, tmp_path: Path, language: str, size: tuple[int, int]
) -> None:
    async with empty.opened(model=AskingModel([])), open_page(empty, tmp_path, language, size) as shown:
        page, say = shown.browser, shown.say
        await shown.write(ASKED)
        await page.find("#list .actions .button", say("李四", "Li Si"))
        await page.find("#list .actions select")
        await shown.check_buttons("#list")
        await shown.keep_picture("approver")
        await page.click("#list .actions .button", say("李四", "Li Si"))
        await page.find("#list .message", "lisi@example.com")
        await page.gone("#list .actions select")
        await empty.press(ZHANG, await empty.card(empty.dm(ZHANG)), "confirm")
        await empty.card(empty.dm(LI))
        await empty.quiet()
        await page.click(f"[data-person={LI}]")
        await page.find("#list .actions .button", say("同意", "Approve"))
        await shown.check_buttons("#list")
        if shown.is_phone:
            await page.execute(CRUSHED)
            with pytest.raises(AssertionError):  # the control
                await shown.check_buttons("#list")


@pytest.mark.slow
@EACH_ONCE
async def test_prompts_stop_and_thumbs(desk: Office, opens: Opens, language: str, size: tuple[int, int]) -> None:
    async with opens(language, size) as shown:
        page, say = shown.browser, shown.say
        question, working = say("年假可以结转吗", "Can annual leave be carried over?"), "#list .status .stop"
        prompt = say("我的申请到哪一步了", "Where my requests are")
        await page.find(".prompts .chip", prompt)
        await page.find("#list .message", "Countersign")
        assert await page.count(".prompts .chip") == 4
        await page.click(".prompts .chip", prompt)
        await page.find("#list .message", say("您还没有申请", "no requests"))
        await page.gone(".prompts .chip")

        desk.answering.clear()
        await shown.write(question)
        await page.find(working, say("停止", "Stop"))
        await shown.keep_picture("working")
        await page.click(working, say("停止", "Stop"))
        await page.find("#list .message", say("已停下", "All right, I stopped"))
        desk.answering.set()
        await page.gone("#list .status")

        await shown.write(question)
        await page.click("#list .small[aria-pressed]")
        await page.find("#list .message", say("谢谢，记下了", "Thank you, noted"))
        assert await page.count('#list .small[aria-pressed="true"]') == 1
        await shown.keep_picture("thumbs")
        assert await page.execute("return document.documentElement.scrollWidth <= innerWidth")
        await desk.quiet()
    assert [one.counts for one in await desk.usage_rows() if one.counts] == [{"good": 1}]
    assert ZHANG in {one.person for one in await desk.usage_rows()}
