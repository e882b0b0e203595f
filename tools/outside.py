"""The way out for effects. The gate hands it to the tool that a person has let run; nobody else has it.

Right before anything goes out it asks whether the effect is still ours: a process whose lease was taken over meanwhile
sends nothing."""

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
    """Asks by itself."""
    assert_may_send: Callable[[], Awaitable[None]]
    """Returns if the effect is still ours; otherwise raises what ends it. To be asked before what goes out in any other
    way."""

    @asynccontextmanager
    async def open_http(self) -> AsyncIterator[ClientSession]:
        """An HTTP client that asks before each request, those to which it is redirected too."""

        async def ask_first(request: ClientRequest, send: ClientHandlerType) -> ClientResponse:
            await self.assert_may_send()
            return await send(request)

        timeout = ClientTimeout(total=TIMEOUT_S)
        async with ClientSession(middlewares=(ask_first,), timeout=timeout, trust_env=True) as http:
            yield http
