"""A reverse proxy as companies have in front of an engine: it gives up before the engine does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from multidict import CIMultiDict
from yarl import URL

from tests.tools.workflow.remote.face import in_between


@dataclass
class Proxy:
    """`is_slow`: the engine gets to what is posted only when the proxy has given up and answered 504."""

    engine: str
    session: ClientSession
    is_slow: bool = False
    statuses: list[int] = field(default_factory=list)
    _under_way: list[asyncio.Task[web.Response]] = field(default_factory=list)
    _engine_gets_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def pass_on(self, request: web.Request) -> web.Response:
        is_given_up = self.is_slow and request.method == "POST" and _is_effect(request.path)
        forwarding = self._forward(request.method, request.raw_path, request.headers.copy(), await request.read())
        if is_given_up:
            self._under_way.append(asyncio.create_task(self._forward_late(forwarding)))
        answer = in_between(504) if is_given_up else await forwarding
        self.statuses.append(answer.status)
        return answer

    async def _forward_late(self, forwarding: Coroutine[None, None, web.Response]) -> web.Response:
        await self._engine_gets_on.wait()
        return await forwarding

    async def _forward(self, method: str, path: str, headers: CIMultiDict[str], body: bytes) -> web.Response:
        headers.pop("Host", None)
        url = URL(f"{URL(self.engine).origin()}{path}", encoded=True)
        async with self.session.request(method, url, headers=headers, data=body) as answer:
            return web.Response(status=answer.status, body=await answer.read(), content_type=answer.content_type)

    async def finish(self) -> None:
        """The engine is done with everything that was passed on."""
        self._engine_gets_on.set()
        await asyncio.gather(*self._under_way)
        self._under_way.clear()
        self._engine_gets_on.clear()


def _is_effect(path: str) -> bool:
    """A start or a decision; service tasks are not slow."""
    return "/runtime/" in path or ("/query/" not in path and path.endswith("/start")) or "/task/" in path


@asynccontextmanager
async def open_proxy(engine: str, session: ClientSession) -> AsyncIterator[tuple[Proxy, str]]:
    """The proxy, and the engine's address through it."""
    proxy = Proxy(engine, session)
    app = web.Application()
    app.router.add_route("*", "/{any:.*}", proxy.pass_on)
    async with TestServer(app) as server:
        yield proxy, f"http://{server.host}:{server.port}{URL(engine).path}"
