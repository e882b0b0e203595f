"""A model that does what a message says, as the one of `deploy/chaos` does, and that can keep notes of a conversation.

Run as `python -m tests.bench.clerk`: an endpoint for chat completions. Prints its address as JSON, ends when its input
ends."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import web

from bot.agent.summary import RULES
from tests.bench.lines import lines
from tests.chaos.model import Brain

NOTES = json.dumps({"lines": ["It was asked what can be requested, and what had been requested so far."] * 5})


class Clerk(Brain):
    def reply(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        if str(messages[0]["content"]).startswith(RULES[:40]):
            return {"role": "assistant", "content": NOTES}
        return super().reply(messages)


async def _complete(request: web.Request) -> web.Response:
    said = Clerk().reply((await request.json())["messages"])
    choice = {"index": 0, "message": said, "finish_reason": "tool_calls" if "tool_calls" in said else "stop"}
    usage = {"prompt_tokens": 700, "completion_tokens": 30, "total_tokens": 730}
    return web.json_response({"object": "chat.completion", "choices": [choice], "usage": usage})


async def serve() -> None:
    site = web.Application(client_max_size=1 << 24)
    site.add_routes([web.post("/v1/chat/completions", _complete)])
    runner = web.AppRunner(site, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(json.dumps({"url": f"http://127.0.0.1:{runner.addresses[0][1]}"}), flush=True)
    async for _ in lines():
        pass
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(serve())
