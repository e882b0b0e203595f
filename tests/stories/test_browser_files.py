"""Files by hand, in a real browser: attached to a message, chosen in a form, seen by who decides."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from tests.harness.browser import ABSENT, Browser
from tests.harness.files import pdf, png
from tests.harness.office import LI, Office

pytestmark = [pytest.mark.browser, pytest.mark.skipif(ABSENT is not None, reason=str(ABSENT))]

CHOOSE = """
const [css, name, type, data] = arguments;
const bytes = Uint8Array.from(atob(data), (one) => one.charCodeAt(0));
const picked = new DataTransfer();
picked.items.add(new File([bytes], name, { type }));
const input = document.querySelector(css);
input.files = picked.files;
input.dispatchEvent(new Event("change", { bubbles: true }));
"""
SHOWS = "return document.querySelector('#list').textContent.includes(arguments[0])"
PUT = "const [css, value] = arguments; const one = document.querySelector(css); one.value = value;\
 one.dispatchEvent(new Event('change', {bubbles: true}));"
ZH = {
    "claim": "报销 320 元打车费，去客户那里，审批人李四",
    "confirm": "确认",
    "outcome": "您已确认",
    "waits": "等您审批",
    "title": "报销",
    "remove": "去掉 wrong.png",
}
EN = {
    "claim": "claim 320 yuan for a taxi to the client, Li Si approves",
    "confirm": "Confirm",
    "outcome": "Confirmed by you",
    "waits": "needs your decision",
    "title": "Expense",
    "remove": "Remove wrong.png",
}


async def choose(page: Browser, css: str, name: str, content: bytes, kind: str = "image/png") -> None:
    await page.execute(CHOOSE, css, name, kind, base64.b64encode(content).decode())


async def shows(page: Browser, text: str) -> None:
    """The list says so, in front or behind."""

    async def said() -> bool:
        return bool(await page.execute(SHOWS, text))

    await page.wait_for(said, what=text)


@pytest.mark.parametrize("words", [ZH, EN], ids=["zh", "en"])
@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["desk", "phone"])
async def test_a_receipt_by_hand(desk: Office, tmp_path: Path, words: dict[str, str], size: tuple[int, int]) -> None:
    for person in desk.driver.ws.state.people.values():
        person.locale = "zh-CN" if words is ZH else "en-US"
    pictures = Path(os.environ.get("FILE_PICTURES", tmp_path))
    async with Browser(size=size, dark=False, language="zh-CN" if words is ZH else "en-US") as page:
        await page.open(f"{desk.address}/")
        await page.find("#write textarea")
        await choose(page, "#write .composer input[type=file]", "wrong.png", png("w"))
        await page.find("#write .chosen-files", "wrong.png")
        await choose(page, "#write .composer input[type=file]", "taxi.png", png("t"))
        await page.find("#write .chosen-files", "taxi.png")
        await page.screenshot(pictures / f"chosen-{size[0]}-{words['title']}.png")
        await page.click(f"#write .chosen-files button[aria-label='{words['remove']}']")
        await page.type("#write textarea", words["claim"])
        await page.press("Enter")
        await page.find("#list .message .files .picture img")
        await page.find("#list .message", "taxi.png")
        await page.click("#list .message button", words["confirm"])
        await shows(page, words["outcome"])  # on a phone its steps have come to the front
        await page.screenshot(pictures / f"card-{size[0]}-{words['title']}.png")
        assert await page.count("#write .chosen-files li") == 0
        assert not [line for line in await page.console() if "favicon" not in line]
    task = await desk.card(desk.dm(LI), "taxi.png")
    assert "wrong.png" not in str(task)
    await desk.until(lambda: [m for m in desk.posts(desk.dm(LI)) if m.get("files")])
    async with Browser(size=size, dark=False, language="zh-CN" if words is ZH else "en-US") as page:
        await page.open(f"{desk.address}/?person={LI}")
        if size[0] > 1000:
            await page.press("Alt", "2")
            await page.find("#list .message", words["waits"])
            await page.click("#list .message .thread-link")
            await page.find("#panel-thread .files .picture img")
            await page.screenshot(pictures / f"approver-{size[0]}-{words['title']}.png")


@pytest.mark.parametrize("words", [ZH, EN], ids=["zh", "en"])
async def test_a_file_is_chosen_in_a_form(desk: Office, tmp_path: Path, words: dict[str, str]) -> None:
    for person in desk.driver.ws.state.people.values():
        person.locale = "zh-CN" if words is ZH else "en-US"
    async with Browser(size=(1280, 800), dark=False, language="zh-CN" if words is ZH else "en-US") as page:
        await page.open(f"{desk.address}/")
        await page.type("#write textarea", "/expense")
        await page.press("Escape", "Enter")
        await page.find("#modal[open] h2", words["title"])
        await page.execute(PUT, "#modal [data-block=amount] input", "6000")
        await page.execute(PUT, "#modal [data-block=category] select", "travel")
        await page.type("#modal [data-block=reason] textarea", "flight")
        await choose(page, "#modal [data-block=receipt] input", "flight.pdf", pdf("f"), "application/pdf")
        await page.find("#modal [data-block=receipt] .chosen-files", "flight.pdf")
        await page.screenshot(Path(os.environ.get("FILE_PICTURES", tmp_path)) / f"form-{words['title']}.png")
        await page.click("#modal [type=submit]")
        await page.gone("#modal[open]")
        await page.find("#list .message", "flight.pdf")
        await page.click("#list .message button", words["confirm"])
        await shows(page, words["outcome"])  # on a phone its steps have come to the front
        assert not [line for line in await page.console() if "favicon" not in line]
    await desk.card(desk.dm(LI), "flight.pdf")
