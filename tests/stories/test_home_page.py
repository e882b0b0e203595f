"""Home and the dialogs on the workspace's own page: worked through in a browser, on a desk and on a phone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.harness.browser import ABSENT, Browser
from tests.harness.office import LI, ZHANG, Office

pytestmark = [pytest.mark.browser, pytest.mark.skipif(bool(ABSENT), reason=str(ABSENT))]

ZH: dict[str, Any] = {
    "leave": "明天起请10天年假，去看父母，审批人李四",
    "more": "报销打车费 84.5 元，客户拜访，审批人李四",
    "dm_card": "确认",
    "tasks": "等我处理",
    "approve": "同意",
    "open": "查看全部",
    "reject": "驳回",
    "held": "在李四处",
    "urge": "催办",
    "set": "请人代审…",
    "review": "核对",
    "confirm": "确认代审",
    "away": "正在替您审批",
    "settings": "我的设置",
    "change": "更改…",
}
EN: dict[str, Any] = {
    "leave": "I need 10 days of annual leave from tomorrow, visiting my parents, approver Li Si",
    "more": "expense 84.5 CNY for transport, client visit, approver Li Si",
    "dm_card": "Confirm",
    "tasks": "Waiting for Me",
    "approve": "Approve",
    "open": "Open",
    "reject": "Reject",
    "held": "With Li Si since",
    "urge": "Urge",
    "set": "Set a Stand-In…",
    "review": "Review",
    "confirm": "Set Stand-In",
    "away": "is deciding for you",
    "settings": "My Settings",
    "change": "Change…",
}
PUT = "const [css, value] = arguments; const one = document.querySelector(css); one.value = value;\
 one.dispatchEvent(new Event('change', {bubbles: true}));"
NARROW = """return [...document.querySelectorAll(arguments[0] + ' .button')].filter((one) => one.checkVisibility())
  .map((one) => [one.textContent, one.getBoundingClientRect().width, one.getBoundingClientRect().height,
                 one.querySelector('span').scrollWidth - one.querySelector('span').clientWidth])"""
OVER = """return [...document.querySelectorAll('.home, .home *, #modal, #modal *')].filter((one) =>
  one.checkVisibility() && one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.className)"""


CRUSHED = """const style = { sheet: [...document.styleSheets].at(-1) };
  style.sheet.insertRule('.actions { flex-wrap: nowrap !important }');
  style.sheet.insertRule('.actions .button { flex: 1 !important; min-width: 0 }');
  style.sheet.insertRule('.button > span { white-space: normal !important; overflow-wrap: anywhere }')"""
"""As it was: all buttons of a card on one line."""


async def check_buttons(page: Browser, css: str) -> None:
    """Every button shows its label on one line, none is crushed."""
    buttons = await page.execute(NARROW, css)
    assert buttons, css
    for label, width, height, cut in buttons:
        assert height <= 48 and cut <= 0 and width >= 14 * min(len(label), 4), (label, width, height, cut)


@pytest.mark.parametrize("words", [ZH, EN], ids=["zh", "en"])
@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["desk", "phone"])
async def test_home_is_worked_through(
    desk: Office, tmp_path: Path, words: dict[str, Any], size: tuple[int, int]
) -> None:
    is_zh, phone = words is ZH, size[0] < 900
    for person in desk.driver.ws.state.people.values():
        person.locale = "zh-CN" if is_zh else "en-US"
    folder = Path(os.environ.get("HOME_PICTURES", tmp_path))
    name = f"{'zh' if is_zh else 'en'}-{size[0]}"
    for text in (words["leave"], words["more"]):
        await desk.says(ZHANG, text)
        await desk.press(ZHANG, await desk.card(desk.dm(ZHANG)), "confirm")
        await desk.quiet()
    async with Browser(size=size, dark=False, language="zh-CN" if is_zh else "en-US") as page:

        async def go_home(person: str) -> None:
            await page.click(f"[data-person={person}]")
            if phone:
                await page.click("#bar [data-pane=nav]")
            await page.click("#nav [data-channel=home]")

        async def picture(what: str) -> None:
            assert await page.execute(OVER) == [], "nothing stands out of the screen"
            await page.screenshot(folder / f"{what}-{name}.png")

        await page.open(f"{desk.address}/")
        await go_home(LI)
        await page.find(".home .header", words["tasks"])
        await check_buttons(page, ".home")
        await picture("home-approver")
        await page.click(".home .button", words["open"])
        await page.find("#modal[open] .button", words["reject"])
        await check_buttons(page, "#modal")
        await picture("open")
        await page.click("#modal .actions .button", words["reject"])
        await page.find("#modal textarea")
        await picture("reject")
        await page.press("Escape")
        await page.gone("#modal textarea")
        await page.press("Escape")
        await page.gone("#modal[open]")
        await page.click('.home [data-action="cs:approve"]', words["approve"])
        await page.wait_for(lambda: has_decided(page), what="the page to be renewed")
        await page.click(".home .button", words["set"])
        await page.find("#modal [data-block=deputy]")
        await page.execute(PUT, "#modal [data-block=deputy] select", "U04ZHAO")
        await page.execute(PUT, "#modal [data-block=first_day] input", "2026-11-23")
        await page.execute(PUT, "#modal [data-block=last_day] input", "2026-11-27")
        await picture("absence")
        await page.click("#modal [type=submit]", words["review"])
        await page.find("#modal [type=submit]", words["confirm"])
        await picture("absence-review")
        await page.click("#modal [type=submit]", words["confirm"])
        await page.find(".home .prose", words["away"])
        await picture("home-away")
        await page.click(".home .button", words["change"])
        await page.find("#modal [data-block=steps]")
        await picture("settings")
        await page.press("Escape")
        await page.gone("#modal[open]")

        await go_home(ZHANG)
        await page.find(".home .prose", words["held"])
        await check_buttons(page, ".home")
        await picture("home-author")
        await page.click(".home .button", words["urge"])
        await page.find("#modal [type=submit]", words["urge"])
        await picture("urge")
        assert not [line for line in await page.console() if "favicon" not in line]


async def has_decided(page: Browser) -> bool:
    return await page.execute("return document.querySelectorAll('.home [data-action=\"cs:approve\"]').length") == 1


@pytest.mark.parametrize("words", [ZH, EN], ids=["zh", "en"])
async def test_the_buttons_of_a_card_wrap_on_a_phone(desk: Office, tmp_path: Path, words: dict[str, Any]) -> None:
    for person in desk.driver.ws.state.people.values():
        person.locale = "zh-CN" if words is ZH else "en-US"
    await desk.says(ZHANG, words["leave"])
    await desk.press(ZHANG, await desk.card(desk.dm(ZHANG)), "confirm")
    await desk.card(desk.dm(LI))
    await desk.quiet()
    async with Browser(size=(390, 844), dark=False, language="zh-CN" if words is ZH else "en-US") as page:
        await page.open(f"{desk.address}/")
        await page.click(f"[data-person={LI}]")
        await page.find("#list .actions .button", words["approve"])
        await check_buttons(page, "#list")
        await page.screenshot(
            Path(os.environ.get("HOME_PICTURES", tmp_path)) / f"card-{'zh' if words is ZH else 'en'}.png"
        )
        await page.execute(CRUSHED)
        with pytest.raises(AssertionError):
            await check_buttons(page, "#list")


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["desk", "phone"])
@pytest.mark.parametrize("language", ["zh", "en"])
async def test_the_question_for_the_approver_is_answered_by_one_press(
    desk: Office, tmp_path: Path, language: str, size: tuple[int, int]
) -> None:
    for person in desk.driver.ws.state.people.values():
        person.locale = "zh-CN" if language == "zh" else "en-US"
    text = "我肚子疼，从明天起请10天假" if language == "zh" else "I need 10 days off from tomorrow, stomach ache"
    async with Browser(size=size, dark=False, language="zh-CN" if language == "zh" else "en-US") as page:
        await page.open(f"{desk.address}/")
        await page.type("#write textarea", text)
        await page.press("Enter")
        await page.find("#list .actions .button", "李四")
        await page.find("#list .actions select")
        await check_buttons(page, "#list")
        folder = Path(os.environ.get("HOME_PICTURES", tmp_path))
        await page.screenshot(folder / f"approver-{language}-{size[0]}.png")
        await page.click("#list .actions .button", "李四")
        await page.find("#list .message", "lisi@example.com")
        await page.gone("#list .actions select")
