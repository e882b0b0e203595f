"""The page of a real workspace in a real browser, with a little Bolt app as the bot."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from bot.dev.workspace.workspace import Workspace
from tests.dev.workspace.hands import setup
from tests.harness.browser import Browser
from tests.harness.workspace_server import serve_workspace

HOSTILE = """<img src=x onerror="window.hit=1"><script>window.hit=1</script> &lt;b&gt; \u202egnp.exe
[x](javascript:window.hit=1) <javascript:window.hit=1|click> <!channel> <@U02LI> *bold* `code`"""
TOO_WIDE = """return [...document.querySelectorAll('body, body *')].filter((e) => e.checkVisibility() &&
    !e.closest('.heard, .popover, pre') && e.getBoundingClientRect().right > arguments[0]).map((e) => e.className)"""
"""Lists the elements that reach over the right edge, which is the argument."""
NAMELESS = """return [...document.querySelectorAll('button, a, input, select, textarea')].filter((e) =>
    e.checkVisibility() && !(e.ariaLabel || e.textContent.trim() || e.labels?.length)).map((e) => e.outerHTML)"""
"""Controls without a name for a screen reader."""


async def assert_hostile_text_is_text(browser: Browser) -> None:
    assert await browser.execute("return window.hit ?? null") is None
    assert await browser.count("#list :is(img, script, iframe, b > b)") == 0
    assert await browser.count("#list a:not([href^='https:'], [href^='http:'], [href^='mailto:'])") == 0


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    ws = Workspace(setup())
    ws.standins = {"workspace": "a local stand-in for Slack"}
    async with serve_workspace(ws):
        yield ws


Opener = Callable[..., AbstractAsyncContextManager[Browser]]


@pytest.fixture
def page(workspace: Workspace) -> Opener:
    """`async with page(size=…, dark=…) as browser`: the page, open and loaded; it must not complain meanwhile."""

    @asynccontextmanager
    async def opened(size: tuple[int, int] = (1280, 800), dark: bool = False) -> AsyncIterator[Browser]:
        async with Browser(size=size, dark=dark, wait_s=20) as browser:
            await browser.open(f"{workspace.address}/")
            await browser.find(".face[aria-pressed=true]")
            yield browser
            assert await browser.console() == []

    return opened
