"""Bounds for a server's answers: one message has at most `MESSAGE_MAX` bytes, and compressed answers are refused.

The SDK itself limits one event of an event stream (1 MiB), but neither a JSON body nor a line of standard output. This
module bounds both. A body that is too long raises `MessageTooLongError`. A line that is too long is replaced, because
the SDK's reader must not fail: its requests would then wait for their whole time-out. `is_line_too_long` recognizes the
replacement when the SDK reports it as unreadable."""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator
from typing import Any

import httpx2
from pydantic import ValidationError

MESSAGE_MAX = 4 * 1024 * 1024
"""Most bytes of one message. A list of 200 tools with their schemas has less than one MB, and 4,000 characters of a
result are passed on."""
ENCODING = "countersign_bounded_utf_8"
"""The name under which `register_encoding` registers `_BoundedDecoder`."""
LEFT_OUT = "countersign: a line was longer than what is read of one"
"""The replacement for a line that is too long; not valid JSON."""


class MessageTooLongError(httpx2.StreamError):
    """A body that is too long or compressed."""


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """A transport that reads bodies up to `MESSAGE_MAX` bytes. An event stream may last for days, so the SDK bounds
    each of its events instead."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["Accept-Encoding"] = "identity"
        response = await super().handle_async_request(request)
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            await response.aclose()
            raise httpx2.DecodingError("the server packs its answers, which nobody has asked for", request=request)
        if not response.headers.get("Content-Type", "").lower().startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _BoundedStream(response.stream)
        return response


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream, self._left = stream, MESSAGE_MAX

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._left -= len(piece)
            if self._left < 0:
                raise MessageTooLongError(f"the answer is longer than {MESSAGE_MAX} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


class _BoundedDecoder(codecs.BufferedIncrementalDecoder):
    """A UTF-8 decoder that bounds lines, because the SDK collects a line of standard output until it ends."""

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._line = 0
        self._leaves_out = False
        """Whether the rest of a line that is too long is being skipped."""

    def _buffer_decode(self, input: Any, errors: str, final: bool) -> tuple[str, int]:
        return codecs.utf_8_decode(input, errors, final)

    def decode(self, input: Any, final: bool = False) -> str:
        piece, text = bytes(input), ""
        first = piece.find(b"\n")
        if not self._leaves_out and self._line + (first if first >= 0 else len(piece)) > MESSAGE_MAX:
            self._leaves_out, self.buffer, text = True, b"", f"\n{LEFT_OUT}\n"
        if self._leaves_out:
            if first < 0:
                return text
            piece, self._leaves_out, self._line = piece[first + 1 :], False, 0
        last = piece.rfind(b"\n")
        self._line = self._line + len(piece) if last < 0 else len(piece) - last - 1
        return text + super().decode(piece, final)


def is_line_too_long(message: object) -> bool:
    """Whether the message that the SDK could not read is the replacement of a line that was too long."""
    return isinstance(message, ValidationError) and any(one["input"] == LEFT_OUT for one in message.errors())


def register_encoding() -> str:
    """Registers the encoding for a server's standard output and returns its name."""

    def find_codec(name: str) -> codecs.CodecInfo | None:
        if name != ENCODING:
            return None
        utf8 = codecs.lookup("utf-8")
        return codecs.CodecInfo(utf8.encode, utf8.decode, incrementaldecoder=_BoundedDecoder, name=ENCODING)

    try:
        codecs.lookup(ENCODING)
    except LookupError:
        codecs.register(find_codec)
    return ENCODING
