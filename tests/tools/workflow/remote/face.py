"""What the REST faces of both stand-ins share: a login, ways to fail, and the loopback server they run on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from xml.etree import ElementTree

from aiohttp import encode_basic_auth, web
from aiohttp.test_utils import TestServer

from tests.tools.workflow.remote.runner import Broken, Gone, Run, Runner
from tools.workflow.process.definition import compile_process

LOGIN, PASSWORD = "rest-admin", "s3cret-pässword"


class Fault(Enum):
    """What becomes of a write."""

    LOST = "it is done, and the connection breaks before the answer"
    SWALLOWED = "the connection breaks before it is done"
    SILENT = "it is done, and no answer ever comes"
    LATE = "it is done after the connection broke"
    GIVEN_UP = "it is done after something in between, which gives up first, answered 504"
    REFUSED = "the engine itself answers 500, and nothing is done"
    TOO_SLOW = "it is done, and something in between answers 504"
    HUNG_UP = "it is done, and something in between answers 502"
    BUSY = "nothing is done, and something in between answers 503"


@dataclass
class Face:
    """A server on loopback. `faults`: for the next writes whose path ends so, in order."""

    runner: Runner = field(default_factory=Runner)
    faults: list[tuple[str, Fault]] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)
    """Method, path and query."""
    late: list[Callable[[], Any]] = field(default_factory=list)
    forms: dict[str, bytes] = field(default_factory=dict)
    """Process → its form, for files that are uploaded: what variables there will be."""
    crowded: bool = False
    """True: writers read, and only then write, as threads of the real engine do."""

    base = ""

    def routes(self) -> list[web.RouteDef]:
        raise NotImplementedError

    def unauthorised(self) -> web.Response:
        raise NotImplementedError

    def broken(self, request: web.Request, what: Broken) -> web.Response:
        raise NotImplementedError

    def gone(self, request: web.Request) -> web.Response:
        raise NotImplementedError

    def find_running(self, request: web.Request) -> Run | None:
        run = self.runner.state.runs.get(request.match_info["id"])
        return run if run and not run.ended else None

    async def take_file(self, request: web.Request) -> None:
        """A file that was uploaded."""
        form = await request.post()
        (upload,) = (part for part in form.values() if isinstance(part, web.FileField))
        assert upload.filename.endswith((".bpmn", ".bpmn20.xml")), "anything else would be kept and never run"
        content = upload.file.read()
        key = ElementTree.fromstring(content)[0].attrib["id"]
        self.runner.deploy(compile_process(content, self.forms[key]), content)

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """The base URL."""
        app = web.Application(middlewares=[self._through])
        app.add_routes(self.routes())
        async with TestServer(app) as server:
            yield f"http://{server.host}:{server.port}{self.base}"

    @web.middleware
    async def _through(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.calls.append((request.method, str(request.rel_url)))
        login = request.headers.get("Authorization", "")
        if login != encode_basic_auth(LOGIN, PASSWORD):
            return self.unauthorised()
        fault = self._fault(request)
        if fault is Fault.REFUSED:
            return self.broken(request, Broken("refused"))
        if fault is Fault.BUSY:
            return in_between(503)
        if fault is Fault.SWALLOWED:
            return self._cut(request)
        if fault in (Fault.LATE, Fault.GIVEN_UP):
            body = await request.read()
            self.late.append(lambda: (body, handler(request)))
            return self._cut(request) if fault is Fault.LATE else in_between(504)
        answer = await self._handled(request, handler)
        if fault is Fault.SILENT:
            await asyncio.Event().wait()
        if fault in (Fault.TOO_SLOW, Fault.HUNG_UP):
            return in_between(504 if fault is Fault.TOO_SLOW else 502)
        return self._cut(request) if fault is Fault.LOST else answer

    async def _handled(self, request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            answer: web.StreamResponse = await handler(request)
        except Broken as broken:
            return self.broken(request, broken)
        except Gone:
            return self.gone(request)
        return answer

    def _fault(self, request: web.Request) -> Fault | None:
        if self.faults and request.method != "GET" and request.path.endswith(self.faults[0][0]):
            return self.faults.pop(0)[1]
        return None

    def _cut(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async def come_true(self) -> None:
        """What came late is done by now."""
        for do in self.late:
            _, work = do()
            await work
        self.late.clear()

    async def others_read(self) -> None:
        if self.crowded:
            await asyncio.sleep(0)


def in_between(status: int) -> web.Response:
    """As nginx answers in an engine's place."""
    return web.Response(status=status, text=f"<html><head><title>{status}</title></head></html>")


def json_text(data: Any, status: int = 200) -> web.Response:
    return web.json_response(data, status=status)


@asynccontextmanager
async def serving(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[TestServer]:
    """A server of which every path is answered by one function."""
    app = web.Application()
    app.router.add_route("*", "/{any:.*}", answer)
    server = TestServer(app, shutdown_timeout=0.01)
    async with server:
        yield server
