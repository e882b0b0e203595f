"""How much of a server's answer is read: one message has at most `MESSAGE_MAX` bytes, and nothing is unpacked.

The SDK bounds one event of an event stream (1 MiB) by itself. A JSON body and a line of standard output it reads to
their ends, however long they are: those are bounded here.
"""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator
from typing import Any

import httpx2

MESSAGE_MAX = 4 * 1024 * 1024
"""Bytes of one message: a list of 200 tools with their schemas has less than one MB, and of a result 4,000 characters
are passed on."""
ENCODING = "countersign_bounded_utf_8"
"""The name under which `register_encoding` makes `_Decoder` known."""


class TooLong(httpx2.StreamError):
    """A body that is longer than what is read of one, or packed."""


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """Reads bodies up to `MESSAGE_MAX` bytes; an event stream, which may live for days, is bounded event by event."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["Accept-Encoding"] = "identity"
        response = await super().handle_async_request(request)
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            await response.aclose()
            raise httpx2.DecodingError("the server packs its answers, which nobody has asked for", request=request)
        if not response.headers.get("Content-Type", "").lower().startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _Bounded(response.stream)
        return response


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream, self._left = stream, MESSAGE_MAX

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._left -= len(piece)
            if self._left < 0:
                raise TooLong(f"the answer is longer than {MESSAGE_MAX} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Decoder(codecs.BufferedIncrementalDecoder):
    """UTF-8 whose lines have an end: the SDK collects a line of standard output until it ends."""

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._line = 0
        """Bytes of the line that has begun."""

    def _buffer_decode(self, input: Any, errors: str, final: bool) -> tuple[str, int]:
        return codecs.utf_8_decode(input, errors, final)

    def decode(self, input: Any, final: bool = False) -> str:
        piece = bytes(input)
        newline = piece.rfind(b"\n")
        self._line = self._line + len(piece) if newline < 0 else len(piece) - newline - 1
        if self._line > MESSAGE_MAX:
            raise UnicodeDecodeError("utf-8", b"", 0, 0, f"a line is longer than {MESSAGE_MAX} bytes")
        return super().decode(input, final)


def register_encoding() -> str:
    """The name of the encoding that standard output of a server is read in; it is known from then on."""
    try:
        codecs.lookup(ENCODING)
    except LookupError:
        codecs.register(_find)
    return ENCODING


def _find(name: str) -> codecs.CodecInfo | None:
    if name != ENCODING:
        return None
    utf8 = codecs.lookup("utf-8")
    return codecs.CodecInfo(utf8.encode, utf8.decode, incrementaldecoder=_Decoder, name=ENCODING)
