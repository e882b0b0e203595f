"""Feishu's API for one test: each call gets the next of the answers that the test has laid out."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.harness.serving import serve_app
from tests.platforms.feishu.frame_server import APP_ID, APP_SECRET


class Api:
    """Answers each call with the next of `replies`, the last again and again."""

    def __init__(self) -> None:
        self.url, self.replies, self.token_replies = "", list[Any](), list[Any]()
        self.calls: list[tuple[str, str, Any]] = []
        self.queries: list[dict[str, str]] = []
        self.tokens, self.life_s = 0, 7200

    async def give_token(self, request: web.Request) -> web.StreamResponse:
        assert await request.json() == {"app_id": APP_ID, "app_secret": APP_SECRET}
        self.tokens += 1
        if self.token_replies:
            return await self._reply(request, self.token_replies)
        await asyncio.sleep(0.01)
        return web.json_response(
            {"code": 0, "msg": "ok", "tenant_access_token": f"t-{self.tokens}", "expire": self.life_s}
        )

    async def serve(self, request: web.Request) -> web.StreamResponse:
        told = await request.text() if request.content_type.startswith("multipart") else None
        body = told if told else (await request.json() if request.can_read_body else dict(request.query))
        self.queries.append(dict(request.query))
        self.calls.append((request.headers.get("Authorization", ""), f"{request.method} {request.path}", body))
        return await self._reply(request, self.replies)

    async def _reply(self, request: web.Request, replies: list[Any]) -> web.StreamResponse:
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        if isinstance(reply, dict):
            return web.json_response(reply, headers={"X-Tt-Logid": "log1"})
        if callable(reply):
            return reply(request)
        return reply if isinstance(reply, web.StreamResponse) else web.Response(text=str(reply))


@asynccontextmanager
async def run_api() -> AsyncIterator[Api]:
    api, app = Api(), web.Application(client_max_size=50_000_000)
    app.router.add_post("/open-apis/auth/v3/tenant_access_token/internal", api.give_token)
    app.router.add_route("*", "/{path:.*}", api.serve)
    async with serve_app(app) as api.url:
        yield api
