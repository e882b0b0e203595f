"""The rehearsal model behind the OpenAI protocol: `POST /v1/chat/completions` and `GET /v1/models`.

No key is checked: the endpoint listens on loopback only and has nothing to protect."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web

from bot.core.history_entries import estimate_tokens
from bot.dev.rehearsal.plan import plan_reply
from bot.dev.rehearsal.scene import PlannedReply

MODEL = "rehearsal"


def build_model_routes() -> list[web.RouteDef]:
    return [web.post("/v1/chat/completions", create_completion), web.get("/v1/models", list_models)]


async def list_models(request: web.Request) -> web.Response:
    card = {"id": MODEL, "object": "model", "created": 0, "owned_by": "countersign-rehearsal"}
    return web.json_response({"object": "list", "data": [card]})


async def create_completion(request: web.Request) -> web.Response:
    """Answer with one completion, never streamed; with 400 and the protocol's error object for an unreadable
    request."""
    try:
        body = await request.json()
        messages, tools = body["messages"], body.get("tools") or []
        reply = plan_reply(messages, tools)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return build_error_response(f"The request cannot be read: {type(error).__name__}.")
    if body.get("stream"):
        return build_error_response("The rehearsal model does not stream.")
    return web.json_response(build_completion(reply, messages, tools))


def build_error_response(message: str) -> web.Response:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return web.json_response({"error": error}, status=400)


def build_completion(
    reply: PlannedReply, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Build the protocol's answer object. Call ids count on through a run, so none occurs twice."""
    earlier = sum(len(message.get("tool_calls") or ()) for message in messages)
    calls = [
        {
            "id": f"call_{earlier + index}",
            "type": "function",
            "function": {
                "name": call.tool,
                "arguments": json.dumps({"note": call.reason, **call.args}, ensure_ascii=False),
            },
        }
        for index, call in enumerate(reply.calls)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": reply.content or None}
    if calls:
        message["tool_calls"] = calls
    read = estimate_tokens(json.dumps([messages, tools], ensure_ascii=False))
    written = estimate_tokens(reply.content + json.dumps(calls, ensure_ascii=False))
    return {
        "id": f"chatcmpl-rehearsal-{len(messages)}",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
    }
