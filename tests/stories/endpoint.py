"""A chat-completions endpoint that answers exactly as a test tells it, garbage included."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.harness.workspace_server import serve_routes


@dataclass(frozen=True, slots=True)
class Raw:
    """One HTTP answer. `body`: bytes are sent unchanged, anything else as JSON; `hold_s` is the delay before it.
    Without a `status`, the connection breaks instead."""

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    hold_s: float = 0.0


def message(**parts: Any) -> Raw:
    """A completion whose message has exactly these parts; `finish` is its finish_reason."""
    finish = parts.pop("finish", "stop")
    return Raw({"choices": [{"index": 0, "message": {"role": "assistant", **parts}, "finish_reason": finish}]})


def said(text: str, finish: str = "stop") -> Raw:
    return message(content=text, finish=finish)


def called(*wanted: tuple[str, Any], finish: str = "tool_calls", ids: str = "call_{n}") -> Raw:
    """A completion with tool calls; arguments as text, or as any other value."""
    listed = [
        {"id": ids.format(n=n), "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(wanted)
    ]
    return message(content=None, tool_calls=listed, finish=finish)


@dataclass
class Endpoint:
    """An endpoint that plays its answers in order; after the last one it says `past_end`."""

    script: list[Raw] = field(default_factory=list)
    past_end: Raw = field(default_factory=Raw)
    asked: list[dict[str, Any]] = field(default_factory=list)
    """The requests, unchanged."""
    keys: list[str] = field(default_factory=list)
    """The Authorization header of each request."""
    times: list[float] = field(default_factory=list)
    url: str = ""
    on_request: Callable[[], None] = field(default=lambda: None)

    def then(self, *answers: Raw) -> None:
        self.script.extend(answers)

    async def complete(self, request: web.Request) -> web.Response:
        self.asked.append(json.loads(await request.read()))
        self.keys.append(request.headers.get("Authorization", ""))
        self.times.append(asyncio.get_running_loop().time())
        self.on_request()
        answer = self.script.pop(0) if self.script else self.past_end
        await asyncio.sleep(answer.hold_s)
        if not answer.status and request.transport is not None:
            request.transport.abort()
        if isinstance(answer.body, bytes):
            headers = {"Content-Type": "text/html", **answer.headers}
            return web.Response(status=answer.status or 200, body=answer.body, headers=headers)
        return web.json_response(answer.body, status=answer.status, headers=dict(answer.headers))

    def observed(self) -> list[str]:
        """List the results of tool calls in the latest request."""
        return [str(one["content"]) for one in self.asked[-1]["messages"] if one["role"] == "tool"]


@asynccontextmanager
async def endpoint(script: Sequence[Raw] = (), past_end: Raw | None = None) -> AsyncIterator[Endpoint]:
    """Run the endpoint, listening on loopback."""
    playing = Endpoint(list(script), past_end or said("好的，完成。"))
    async with serve_routes([web.post("/v1/chat/completions", playing.complete)]) as address:
        playing.url = f"{address}/v1"
        yield playing
