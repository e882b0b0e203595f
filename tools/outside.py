"""The way out for effects. The gate hands it to a tool after a person's press; no other code has it.

Right before anything is sent it checks that the effect still belongs to this process. A process whose lease was taken
over sends nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import ClientHandlerType, ClientRequest, ClientResponse, ClientSession, ClientTimeout

from tools.ports import Mailer

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    mailer: Mailer
    """Calls `assert_may_send` by itself."""
    assert_may_send: Callable[[], Awaitable[None]]
    """Returns if the effect still belongs to this process, otherwise raises the error that ends it. To be called before
    anything is sent in another way."""

    @asynccontextmanager
    async def open_http(self) -> AsyncIterator[ClientSession]:
        """Open an HTTP client that calls `assert_may_send` before each request, redirected ones included."""

        async def ask_first(request: ClientRequest, send: ClientHandlerType) -> ClientResponse:
            await self.assert_may_send()
            return await send(request)

        timeout = ClientTimeout(total=TIMEOUT_S)
        async with ClientSession(middlewares=(ask_first,), timeout=timeout, trust_env=True) as http:
            yield http
