"""An endpoint for chat completions and for Responses with a script: six tool calls, then an answer. Raw asyncio, so
that it costs little.

It remembers nothing of a conversation: how far one has come is the number of tool messages behind its last user
message, so that any number of runs may ask at once. `…/after/300/v1` answers after 300 ms. `GET /served` tells how many
were answered.

Run as `python -m tests.qa.bench.mock`: prints its address as JSON, ends when its input ends.
"""

import asyncio
import json
import re
from typing import Any

from tests.qa.process import read_lines

CALLS = 6
STEPS = CALLS + 1  # model calls of one run
ANSWER = "Everyone you asked about is at work today."
NAMES = tuple(f"Person {number}" for number in range(1, CALLS + 1))
_USER = re.compile(rb'"role"\s*:\s*"user"')
_TOOL = re.compile(rb'"role"\s*:\s*"tool"|"type"\s*:\s*"function_call_output"')
_LENGTH = re.compile(rb"(?im)^content-length:\s*(\d+)")
_AFTER = re.compile(rb"POST /after/(\d+)/")
_ID, _CALL = "#" * 24, "%" * 24
"""Places of the ids in a prepared reply: as long as the ids, so that its length is known."""


def _reply(step: int) -> bytes:
    """One reply of chat completions, with its head."""
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None, "annotations": []}
    if step < CALLS:
        arguments = json.dumps({"reason": "I look up who that is before I answer.", "name": NAMES[step]})
        function = {"name": "look_up", "arguments": arguments}
        message["tool_calls"] = [{"id": f"call_{_CALL}", "type": "function", "function": function}]
    else:
        message["content"] = ANSWER
    reason = "tool_calls" if step < CALLS else "stop"
    usage = {"prompt_tokens": 640 + 60 * step, "completion_tokens": 24, "total_tokens": 664 + 60 * step}
    details = {
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }
    return _answer(
        {
            "id": f"chatcmpl-{_ID}", "object": "chat.completion", "created": 1_790_000_000, "model": "mock-1",
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
            "usage": usage | details, "service_tier": "default", "system_fingerprint": "fp_mock",
        }
    )  # fmt: skip


def _response(step: int) -> bytes:
    """The same as an answer of Responses, of a model that does not reason."""
    if step < CALLS:
        arguments = json.dumps({"note": "I look up who that is before I answer.", "name": NAMES[step]})
        call = {"type": "function_call", "id": f"fc_{_ID}", "call_id": f"call_{_CALL}", "name": "look_up"}
        output: dict[str, Any] = {**call, "arguments": arguments, "status": "completed"}
    else:
        text = {"type": "output_text", "text": ANSWER, "annotations": [], "logprobs": []}
        message = {"type": "message", "id": f"msg_{_ID}", "role": "assistant", "status": "completed"}
        output = {**message, "content": [text]}
    usage = {
        "input_tokens": 640 + 60 * step, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 24, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 664 + 60 * step,
    }  # fmt: skip
    return _answer(
        {
            "id": f"resp_{_ID}", "object": "response", "created_at": 1_790_000_000, "status": "completed",
            "error": None, "incomplete_details": None, "model": "mock-1", "output": [output],
            "parallel_tool_calls": True, "store": False, "usage": usage,
        }
    )  # fmt: skip


def _answer(told: dict[str, Any]) -> bytes:
    body = json.dumps(told).encode()
    return _head(200, len(body)) + body


def _head(status: int, length: int) -> bytes:
    kind = "OK" if status == 200 else "Not Found"
    return f"HTTP/1.1 {status} {kind}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n".encode()


def step_of(body: bytes) -> int:
    """How many tool messages stand behind the last user message. Quotes inside texts are escaped in JSON, so what is
    found is a role and never what somebody wrote."""
    last = 0
    for found in _USER.finditer(body):
        last = found.end()
    return min(len(_TOOL.findall(body, last)), CALLS)


class Script:
    """What is answered. `served`: how often."""

    def __init__(self) -> None:
        self.served = 0
        self._replies = {build: [build(step) for step in range(STEPS)] for build in (_reply, _response)}

    def answer(self, step: int, responses: bool) -> bytes:
        self.served += 1
        number = str(self.served).zfill(24).encode()
        reply = self._replies[_response if responses else _reply][step]
        return reply.replace(_ID.encode(), number).replace(_CALL.encode(), number)


class Connection(asyncio.Protocol):
    def __init__(self, script: Script) -> None:
        self._script = script
        self._came = bytearray()
        self._line: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._line = transport

    def data_received(self, data: bytes) -> None:
        self._came += data
        while (end := self._came.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._came[:end])
            length = _LENGTH.search(head)
            whole = end + 4 + (int(length[1]) if length else 0)
            if len(self._came) < whole:
                return
            body = bytes(self._came[end + 4 : whole])
            del self._came[:whole]
            self._asked(head, body)

    def _asked(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"GET /served"):
            self._write(_answer({"served": self._script.served}))
            return
        line = head.partition(b"\r\n")[0]
        responses = b"/responses" in line
        if not line.startswith(b"POST") or not (responses or b"/chat/completions" in line):
            self._write(_head(404, 2) + b"{}")
            return
        step = step_of(body)
        if after := _AFTER.match(head):
            asyncio.get_running_loop().call_later(int(after[1]) / 1000, self._answer, step, responses)
        else:
            self._answer(step, responses)

    def _answer(self, step: int, responses: bool) -> None:
        self._write(self._script.answer(step, responses))

    def _write(self, reply: bytes) -> None:
        if self._line is not None and not self._line.is_closing():
            self._line.write(reply)


async def serve() -> None:
    """Until the input ends: whoever started this is gone then."""
    loop, script = asyncio.get_running_loop(), Script()
    server = await loop.create_server(lambda: Connection(script), "127.0.0.1", 0, backlog=4096)
    print(json.dumps({"url": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"}), flush=True)
    async for _ in read_lines():
        pass
    server.close()


if __name__ == "__main__":
    asyncio.run(serve())
