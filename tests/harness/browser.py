"""A headless Chromium driven over the W3C WebDriver protocol: just enough for tests of the workspace page."""

from __future__ import annotations

import asyncio
import base64
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

from tests.harness.tied import build_tied_command, open_tie

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
MISSING = "no browser: install the packages `chromium` and `chromium-driver` to run the browser tests"
ABSENT = None if CHROMIUM and DRIVER else MISSING
"""Reason why browser tests are skipped here, or None. Use: `@pytest.mark.skipif(bool(ABSENT), reason=str(ABSENT))`."""

KEYS = {
    "Enter": "\ue007", "Tab": "\ue004", "Escape": "\ue00c", "Backspace": "\ue003", "Home": "\ue011", "End": "\ue010",
    "ArrowLeft": "\ue012", "ArrowUp": "\ue013", "ArrowRight": "\ue014", "ArrowDown": "\ue015", "Shift": "\ue008",
    "Control": "\ue009", "Alt": "\ue00a",
}  # fmt: skip
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--no-proxy-server",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--disable-default-apps", "--hide-scrollbars", "--force-device-scale-factor=1",
)  # fmt: skip
CHANGE = """const done = arguments[arguments.length - 1];
const watching = new MutationObserver(() => { watching.disconnect(); done(true); });
watching.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
setTimeout(() => { watching.disconnect(); done(false); }, arguments[0]);"""
AT_MOST_MS = 250
"""Time between two checks at the latest (ms): the awaited state need not change the page, only its layout, its console
or the server."""
DRIVER_STARTS = 3


class BrowserFailed(Exception):
    """The driver refused a command. `kind` is WebDriver's error name, e.g. "stale element reference"."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class Browser:
    """One browser window: `async with Browser(size=(1280, 800)) as browser: await browser.open(url)`.

    Every look-up takes a CSS selector and waits up to `wait_s` for it, so tests need no sleeps.
    """

    def __init__(
        self, *, size: tuple[int, int] = (1280, 800), dark: bool = False, language: str = "zh-CN", wait_s: float = 20
    ) -> None:
        self.size, self.dark, self.language, self.wait_s = size, dark, language, wait_s
        self._profile = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        self._driver: asyncio.subprocess.Process | None = None
        self._http: aiohttp.ClientSession | None = None
        self._base = ""

    async def __aenter__(self) -> Self:
        try:
            self._base = f"http://127.0.0.1:{await self._start_driver()}"
            self._http = aiohttp.ClientSession(trust_env=False, timeout=aiohttp.ClientTimeout(total=60))
            flags = [*FLAGS, f"--accept-lang={self.language}", f"--user-data-dir={self._profile.name}"]
            options = {"goog:chromeOptions": {"binary": CHROMIUM, "args": flags}}
            wishes = {"browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL"}, **options}
            made = await self._send("POST", "/session", {"capabilities": {"alwaysMatch": wishes}})
        except BaseException:
            await self.close()
            raise
        self._base += f"/session/{made['sessionId']}"
        await self.resize(*self.size)
        if self.dark:
            features = [{"name": "prefers-color-scheme", "value": "dark"}]
            await self.devtools("Emulation.setEmulatedMedia", features=features)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the browser and its driver; safe to call twice."""
        if self._http is not None:
            if "/session/" in self._base:
                with suppress(BrowserFailed, aiohttp.ClientError):
                    await self._send("DELETE", "")
            await self._http.close()
        if self._driver is not None and self._driver.returncode is None:
            self._driver.terminate()
            await self._driver.wait()
        self._profile.cleanup()

    async def open(self, url: str) -> None:
        await self._send("POST", "/url", {"url": url})

    async def resize(self, width: int, height: int) -> None:
        """Set the size of the page itself, in CSS pixels (a window is never as narrow as a phone)."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await self.devtools("Emulation.setDeviceMetricsOverride", **metrics)

    async def devtools(self, command: str, **params: Any) -> Any:
        """Send a command of the DevTools protocol, e.g. `devtools("Emulation.setCPUThrottlingRate", rate=4)`."""
        return await self._send("POST", "/goog/cdp/execute", {"cmd": command, "params": params})

    async def execute(self, js: str, *args: Any) -> Any:
        """Run the body of a function in the page; `arguments[0]` … are `args`. Returns the function's result."""
        return await self._send("POST", "/execute/sync", {"script": js, "args": list(args)})

    async def find(self, css: str, text: str = "") -> str:
        """Wait for the first visible element that matches and contains `text`, and return its id."""
        found: list[str] = []

        async def there() -> bool:
            element = await self.execute(FIND, css, text)
            if element:
                found.append(element[ELEMENT])
            return bool(element)

        await self.wait_for(there, what=f"{css} {text!r}")
        return found[0]

    async def count(self, css: str) -> int:
        """Count the elements that match now, without waiting."""
        return int(await self.execute("return document.querySelectorAll(arguments[0]).length", css))

    async def text(self, css: str, text: str = "") -> str:
        """Return the visible text of the first element that matches and contains `text`."""
        return str(await self._on(css, text, "GET", "/text"))

    async def click(self, css: str, text: str = "") -> None:
        """Click the middle of the element, as a person would, after waiting until nothing covers it. The element is
        looked up and clicked in one step, so that nothing can move in between."""

        async def done() -> bool:
            return bool(await self.execute(PRESS, css, text))

        await self.wait_for(done, what=f"a click on {css} {text!r}")

    async def type(self, css: str, text: str) -> None:
        await self._on(css, "", "POST", "/value", {"text": text})

    async def press(self, *keys: str) -> None:
        """Press keys together on the focused element: `press("Alt", "2")`, `press("Enter")`."""
        codes = [KEYS.get(key, key) for key in keys]
        down = [{"type": "keyDown", "value": code} for code in codes]
        up = [{"type": "keyUp", "value": code} for code in reversed(codes)]
        await self._send("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": down + up}]})

    async def wait_for(self, wanted: str | Callable[[], Awaitable[bool]], *, what: str = "") -> None:
        """Wait until a selector is visible or a predicate is true. Raises TimeoutError, which names the awaited state
        and the actual one."""
        if isinstance(wanted, str):
            await self.find(wanted)
            return
        try:
            async with asyncio.timeout(self.wait_s):
                while not await wanted():
                    with suppress(BrowserFailed):  # another page may replace this one meanwhile
                        await self._send("POST", "/execute/async", {"script": CHANGE, "args": [AT_MOST_MS]})
        except TimeoutError:
            there = await self.execute(THERE)
            raise TimeoutError(f"waited {self.wait_s} s for {what or wanted}; there is {there}") from None

    async def gone(self, css: str, text: str = "") -> None:
        """Wait until nothing visible matches."""

        async def absent() -> bool:
            return not await self.execute(FIND, css, text)

        await self.wait_for(absent, what=f"the end of {css} {text!r}")

    async def screenshot(self, path: str | Path) -> Path:
        """Save the content of the window as a PNG file."""
        image = base64.b64decode(await self._send("GET", "/screenshot"))
        await asyncio.to_thread(Path(path).write_bytes, image)
        return Path(path)

    async def console(self) -> list[str]:
        """List the page's complaints since the last call: script errors, refused resources."""
        lines = await self._send("POST", "/se/log", {"type": "browser"})
        return [line["message"] for line in lines if line["level"] in {"SEVERE", "WARNING"}]

    async def _on(self, css: str, text: str, verb: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Send an element command; the element is looked up again if the page replaced it in between."""
        result: list[Any] = []

        async def done() -> bool:
            element = await self.find(css, text)
            try:
                result.append(await self._send(verb, f"/element/{element}{path}", body))
            except BrowserFailed as error:
                if error.kind in {"stale element reference", "element click intercepted"}:
                    return False
                raise
            return True

        await self.wait_for(done, what=f"{verb} {path} of {css} {text!r}")
        return result[0]

    async def _send(self, verb: str, path: str, body: dict[str, Any] | None = None) -> Any:
        assert self._http is not None
        sent = None if verb == "GET" else body or {}
        async with self._http.request(verb, self._base + path, json=sent) as reply:
            value = (await reply.json())["value"]
        if reply.status != 200:
            raise BrowserFailed(value["error"], value["message"].partition("\n")[0])
        return value

    async def _start_driver(self) -> str:
        """Start the driver and return its port. The driver takes any free port of IPv4 and then the same one of IPv6.
        If another program has that, the driver ends and is started again."""
        said = b""
        for _ in range(DRIVER_STARTS):
            self._driver = await asyncio.create_subprocess_exec(
                *build_tied_command(str(DRIVER), "--port=0"),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,  # so that the browser always ends with the driver
                pass_fds=[open_tie()],
            )
            assert self._driver.stdout is not None
            async with asyncio.timeout(self.wait_s * 3):
                async for line in self._driver.stdout:
                    if b"successfully on port" in line:
                        return line.decode().rstrip().rstrip(".").rpartition(" ")[2]
                    said = line
                await self._driver.wait()
        raise BrowserFailed("no driver", f"chromedriver ended before it was ready: {said.decode().strip()}")


PRESS = """
const found = [...document.querySelectorAll(arguments[0])].find((one) =>
  one.checkVisibility({visibilityProperty: true}) && (one.innerText ?? one.textContent).includes(arguments[1]))
if (!found) return false
found.scrollIntoView({block: "center", inline: "nearest", behavior: "instant"})
const {left, top, width, height} = found.getBoundingClientRect()
const hit = document.elementFromPoint(left + width / 2, top + height / 2)
if (!hit || !found.contains(hit)) return false
const at = {bubbles: true, cancelable: true, view: window, clientX: left + width / 2, clientY: top + height / 2}
for (const kind of ["pointerdown", "mousedown"]) hit.dispatchEvent(new MouseEvent(kind, at))
found.closest("a, button, input, label, select, textarea, [tabindex]")?.focus({preventScroll: true})
for (const kind of ["pointerup", "mouseup"]) hit.dispatchEvent(new MouseEvent(kind, at))
hit.dispatchEvent(new MouseEvent("click", at))
return true
"""
THERE = """
return JSON.stringify({
  focus: document.activeElement?.outerHTML.slice(0, 100),
  typed: [...document.querySelectorAll("textarea")].map((one) => one.value),
  offered: document.querySelectorAll(".offers:not([hidden]) li").length,
  noticed: document.querySelector("#toasts")?.textContent,
  said: document.querySelector("#list")?.innerText.slice(-300),
  dialog: document.querySelector("dialog[open]")?.innerText.slice(0, 200),
})
"""
FIND = """
for (const element of document.querySelectorAll(arguments[0])) {
  const visible = element.checkVisibility({visibilityProperty: true})
  if (visible && (element.innerText ?? element.textContent).includes(arguments[1])) return element
}
return null
"""
