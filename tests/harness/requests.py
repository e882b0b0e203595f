"""Requests to an endpoint of a model."""

import json
from typing import Any

from bot.agent.models.chat import ChatCompletionsTransport
from bot.agent.models.model_profile import ModelProfile
from bot.agent.models.responses import ResponsesTransport
from bot.agent.models.transport import ModelRequest

PARTS = [
    {"type": "text", "text": "what is this?"},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
    {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="}},
]


TALK = [
    {"role": "system", "content": "RULES"},
    {"role": "user", "content": PARTS},
    {"role": "assistant", "content": "I look.", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "seen"},
    {"role": "system", "content": "go on"},
]  # fmt: skip


def written(
    lessons: ModelProfile, extra: dict[str, Any] | None = None, talk: list[dict[str, Any]] | None = None
) -> Any:
    transport = ChatCompletionsTransport() if lessons.api == "chat" else ResponsesTransport()
    first, *more = [json.dumps(one) for one in (talk or TALK)]
    members = json.dumps(extra or {})[1:-1]
    request = ModelRequest(model="m", messages=[first, ",".join(more)], extra=members, profile=lessons)
    return json.loads(transport.encode_request(request))
