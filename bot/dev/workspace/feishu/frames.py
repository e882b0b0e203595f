"""Frames of the long connection (`pbbp2.Frame`, proto2), coded by hand and independently of the bot's own codec."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

CONTROL, DATA = 0, 1
"""Values of a frame's `method`."""
VARINT, BYTES = 0, 2
"""Wire types."""
MASK = (1 << 64) - 1
"""A negative number is sent as its 64-bit complement."""


@dataclass(slots=True)
class Frame:
    method: int
    service: int = 0
    seq_id: int = 0
    log_id: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    payload: bytes = b""

    def encode(self) -> bytes:
        numbers = enumerate((self.seq_id, self.log_id, self.service, self.method), 1)
        out = b"".join(encode_varint(at << 3 | VARINT) + encode_varint(value & MASK) for at, value in numbers)
        for key, value in self.headers.items():
            out += encode_bytes(5, encode_bytes(1, key.encode()) + encode_bytes(2, value.encode()))
        return out + (encode_bytes(8, self.payload) if self.payload else b"")


def decode_frame(data: bytes) -> Frame:
    """Decode a frame. Raises `ValueError`."""
    frame, names = Frame(CONTROL), {1: "seq_id", 2: "log_id", 3: "service", 4: "method"}
    try:
        for number, value in iterate_fields(data):
            if number in names:
                setattr(frame, names[number], value)
            elif isinstance(value, bytes) and number == 5:
                pair = dict(iterate_fields(value))
                frame.headers[bytes(pair[1]).decode()] = bytes(pair[2]).decode()
            elif isinstance(value, bytes) and number == 8:
                frame.payload = value
    except (IndexError, KeyError) as error:
        raise ValueError("the frame is cut off") from error
    return frame


def encode_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def encode_bytes(number: int, value: bytes) -> bytes:
    return encode_varint(number << 3 | BYTES) + encode_varint(len(value)) + value


def decode_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and the place behind it."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def iterate_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = decode_varint(data, at)
        value, at = decode_varint(data, at)
        if tag & 7 == BYTES:
            yield tag >> 3, data[at : at + value]
            at += value
        elif tag & 7 == VARINT:
            yield tag >> 3, value
        else:
            raise ValueError(f"wire type {tag & 7}")
