"""A slow endpoint."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from bot.agent.models.openai_model import OpenAIModel, open_model
from tests.harness.workspace_server import serve_routes

HELLO = ['{"role":"user","content":"hi"}']


@dataclass
class Slow:
    """A server whose handler is the test's."""

    handle: Callable[[dict[str, Any], web.Request], Any]
    asked: list[dict[str, Any]] = field(default_factory=list)
    listed: list[Any] = field(default_factory=list)
    """The models that it claims to have."""
    url: str = ""

    async def serve(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(json.loads(await request.read()))
        answer: web.StreamResponse = await self.handle(self.asked[-1], request)
        return answer

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": self.listed})


@asynccontextmanager
async def slow(
    handle: Callable[[dict[str, Any], web.Request], Any], listed: list[Any] | None = None, **how: Any
) -> AsyncIterator[tuple[Slow, OpenAIModel]]:
    serving = Slow(handle, listed=listed or [])
    asked = [web.post(f"/v1/{path}", serving.serve) for path in ("chat/completions", "responses")]
    async with serve_routes([*asked, web.get("/v1/models", serving.models)]) as address:
        serving.url = f"{address}/v1"
        async with open_model(serving.url, "key", "gpt-6-solo", **{"retries": 0, **how}) as model:
            yield serving, model


def whole(text: str) -> web.Response:
    return web.json_response({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]})
