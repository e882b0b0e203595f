"""What stands between us and a real engine: a proxy with a login, which lets writes fail in every way."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum

from aiohttp import ClientSession, encode_basic_auth, web
from aiohttp.test_utils import TestServer
from yarl import URL

LOGIN, PASSWORD = "rest-admin", "s3cret-pässword"
PASSED_ON = ("Content-Type", "Accept")


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
class Proxy:
    """`faults`: for the next writes whose path ends so, in order."""

    engine: URL
    session: ClientSession
    faults: list[tuple[str, Fault]] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)
    """Method, path and query."""
    late: list[Callable[[], Awaitable[web.Response]]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.calls.append((request.method, str(request.rel_url)))
        if request.headers.get("Authorization", "") != encode_basic_auth(LOGIN, PASSWORD):
            return web.Response(status=401)
        body = await request.read()

        async def pass_on() -> web.Response:
            url = self.engine.origin().join(request.rel_url)
            headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
            async with self.session.request(request.method, url, data=body, headers=headers) as answer:
                content = await answer.read()
                return web.Response(body=content, status=answer.status, content_type=answer.content_type)

        match self._take_fault(request):
            case None:
                return await pass_on()
            case Fault.REFUSED:
                return web.json_response({"message": "refused"}, status=500)
            case Fault.BUSY:
                return build_proxy_page(503)
            case Fault.LATE | Fault.GIVEN_UP as fault:
                self.late.append(pass_on)
                return self._cut(request) if fault is Fault.LATE else build_proxy_page(504)
            case Fault.SWALLOWED:
                return self._cut(request)
            case fault:
                await pass_on()
                if fault is Fault.SILENT:
                    await asyncio.Event().wait()
                if fault is Fault.LOST:
                    return self._cut(request)
                return build_proxy_page(504 if fault is Fault.TOO_SLOW else 502)

    def _take_fault(self, request: web.Request) -> Fault | None:
        if self.faults and request.method != "GET" and request.path.endswith(self.faults[0][0]):
            return self.faults.pop(0)[1]
        return None

    def _cut(self, request: web.Request) -> web.Response:
        request.transport.close()
        return web.Response()

    async def come_true(self) -> list[int]:
        """What came late reaches the engine; the statuses of its answers."""
        late, self.late = self.late, []
        return [(await pass_on()).status for pass_on in late]


def build_proxy_page(status: int) -> web.Response:
    """As nginx answers in an engine's place."""
    return web.Response(status=status, text=f"<html><head><title>{status}</title></head></html>")


@asynccontextmanager
async def serving(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[TestServer]:
    """A server of which every path is answered by one function."""
    app = web.Application(client_max_size=4 << 20)
    app.router.add_route("*", "/{any:.*}", answer)
    server = TestServer(app, shutdown_timeout=0.01)
    async with server:
        yield server
