"""The scripted model: a chat-completions server in a process of its own. It keeps no state: its reply follows from the
tag in the last message of a person and from the tool results after it. What goes wrong is drawn from a seed.

`python -m tests.qa.chaos.model --seed 1 --rate 5` prints its address as JSON; `GET /counts` tells what it has done.
"""

import argparse
import asyncio
import json
import random
import re
import sys
from collections import Counter
from datetime import date, timedelta
from typing import Any
from zlib import crc32

from aiohttp import web

from tests.harness.workspace_server import serve_routes
from tests.qa.company import list_full_weeks
from tests.qa.process import end_when_orphaned

ORDER = re.compile(r"#(c\d+-\d+) (\w+)(?: (\w+))?(?: (\w+))?")
TROUBLES = (("error", 25), ("busy", 20), ("slow", 10), ("cut", 25), ("broken", 20))
SUMMING_UP = "You keep the notes of a conversation"  # how the rules for summing up older turns begin
NOTES = json.dumps({"lines": ["It was asked what can be requested, and what had been requested so far."] * 5})
UNCALLED = "No tool was called for it"  # stands in the request to correct an answer without a call
NOT_USED = "Your last reply could not be used"
"""How the note begins by which a reply is answered that could not be used."""

Json = dict[str, Any]


def reply(messages: list[Json]) -> Json:
    if str(messages[0]["content"]).startswith(SUMMING_UP):
        return _say(NOTES)
    start = max(n for n, one in enumerate(messages) if one["role"] == "user")
    asked = str(messages[start]["content"])
    if UNCALLED in asked:
        return _say("")  # its answer stands
    order = ORDER.search(asked)
    if order is None:
        return _say("I only know tags.")
    results = [json.loads(one["content"]) for one in messages[start:] if one["role"] == "tool"]
    errors = [f" {one['error']}" for one in results if "error" in one]
    if errors or (call := _find_next_call(order, results)) is None:
        return _say(f"answer #{order[1]}" + "".join(errors))
    arguments = json.dumps({"reason": f"#{order[1]}", **call[1]})
    called = {"id": "call_0", "type": "function", "function": {"name": call[0], "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [called]}


def _say(text: str) -> Json:
    return {"role": "assistant", "content": text}


def _find_next_call(order: re.Match[str], results: list[Json]) -> tuple[str, Json] | None:
    tag, kind, who, number = order.groups()
    match kind, len(results):
        case "look", 0:
            return ("my_requests", {}) if tag.endswith(("1", "3", "5")) else ("list_processes", {})
        case "leave", 0:
            monday = week_of(tag)
            days = {"start_date": str(monday), "end_date": str(monday + timedelta(days=int(number) - 1))}
            form = {"leave_type": "personal", **days, "reason": f"#{tag}", "approver": who}
            return "start_process", {"process": "leave", "form": form}
        case "expense", 0:
            form = {"amount": number, "category": "transport", "reason": f"#{tag}", "approver": who}
            return "start_process", {"process": "expense", "form": form}
        case "mail", 0:
            text = {"subject": f"About #{tag}", "body": f"Please have a look at #{tag}."}
            return "send_email", {"to": who, **text}
        case "decide", 0:
            return "query_todo_tasks", {}
        case "decide", 1:
            tasks = [one for one in results[0].get("tasks", ()) if one["kind"] == "approve"]
            return ("decide_task", {"task_id": tasks[0]["task"]}) if tasks else None
    return None


def week_of(tag: str) -> date:
    """The Monday of a week that is worked from end to end: leaves of one person hardly ever overlap."""
    full = list_full_weeks(date.today())
    return full[crc32(tag.encode()) % len(full)]


class Server:
    """The endpoint, with its troubles. `rate`: how many of a hundred calls go wrong."""

    def __init__(self, seed: int, rate: float, slow_s: float) -> None:
        self.rng, self.rate, self.slow_s = random.Random(f"{seed}:model"), rate, slow_s
        self.counts: Counter[str] = Counter()

    async def complete(self, request: web.Request) -> web.StreamResponse:
        messages: list[Json] = json.loads(await request.read())["messages"]
        trouble = self._trouble(messages)
        self.counts[trouble or "replies"] += 1
        if trouble == "slow":
            await asyncio.sleep(self.slow_s)
        if trouble in ("error", "busy"):
            status = 500 if trouble == "error" else 429
            return web.json_response({"error": {"message": trouble}}, status=status, headers={"Retry-After": "0.2"})
        message = reply(messages)
        reason = "length" if trouble == "cut" else "tool_calls" if "tool_calls" in message else "stop"
        choices = [{"index": 0, "message": message, "finish_reason": reason}]
        usage = {"prompt_tokens": 700, "completion_tokens": 30}
        body = {"object": "chat.completion", "choices": choices, "usage": usage}
        if trouble != "broken":
            return web.json_response(body)
        data = json.dumps(body).encode()
        half = web.StreamResponse(headers={"Content-Length": str(len(data)), "Content-Type": "application/json"})
        await half.prepare(request)
        await half.write(data[: len(data) // 2])
        if request.transport is not None:
            request.transport.abort()
        return half

    def _trouble(self, messages: list[Json]) -> str:
        """A reply that could not be used once is not cut again: the bot gives up after three."""
        if self.rng.uniform(0, 100) >= self.rate:
            return ""
        trouble = self.rng.choices([name for name, _ in TROUBLES], [weight for _, weight in TROUBLES])[0]
        told = str(messages[-1].get("content")).startswith(NOT_USED)
        return "" if trouble == "cut" and told else trouble

    async def told(self, request: web.Request) -> web.Response:
        return web.json_response(dict(self.counts))


async def serve(options: argparse.Namespace) -> None:
    server = Server(options.seed, options.rate, options.slow)
    routes = [web.post("/v1/chat/completions", server.complete), web.get("/counts", server.told)]
    async with serve_routes(routes) as address:
        print(json.dumps({"url": address}), flush=True)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.qa.chaos.model")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=0.0, help="how many of a hundred calls go wrong")
    parser.add_argument("--slow", type=float, default=10.0, help="seconds that a slow reply takes")
    end_when_orphaned()
    try:
        asyncio.run(serve(parser.parse_args()))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
