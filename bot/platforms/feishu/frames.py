"""The frames of Feishu's long connection: the message `pbbp2.Frame` of protocol buffers (proto2), read and written.

message Header { required string key = 1; required string value = 2; }
message Frame {
    required uint64 SeqID = 1; required uint64 LogID = 2; required int32 service = 3; required int32 method = 4;
    repeated Header headers = 5; optional string payload_encoding = 6; optional string payload_type = 7;
    optional bytes payload = 8; optional string LogIDNew = 9;
}"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

CONTROL, DATA = 0, 1
"""Values of `method`: pings and their answers; events and their acknowledgements."""
_VARINT, _BYTES = 0, 2
_SIZES = {1: 8, 5: 4}
"""Kinds of fields with a fixed size."""
_MASK = (1 << 64) - 1


class FrameError(ValueError):
    """The bytes are no frame."""


@dataclass(frozen=True, slots=True)
class Frame:
    method: int
    service: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    payload: bytes | None = None
    others: bytes = b"\x08\x00\x10\x00"
    """The fields that nobody here reads, as they came: two ids (0 in a new frame) and texts. An answer returns them."""


def encode_frame(frame: Frame) -> bytes:
    headers = [(5, _encode_fields((1, key.encode()), (2, value.encode()))) for key, value in frame.headers.items()]
    payload = [(8, frame.payload)] if frame.payload is not None else []
    return frame.others + _encode_fields((3, frame.service), (4, frame.method), *headers, *payload)


def decode_frame(data: bytes) -> Frame:
    """Decode a frame. Raises `FrameError`."""
    numbers, headers, others = dict[int, int](), dict[str, str](), b""
    payload: bytes | None = None
    try:
        for number, value, whole in _read_fields(data):
            match number, value:
                case ((3 | 4), int()):
                    numbers[number] = (value & 0xFFFFFFFF) - (value >> 31 & 1) * 2**32
                case 5, bytes():
                    pair = {name: text.decode() for name, text, _ in _read_fields(value) if isinstance(text, bytes)}
                    headers[pair[1]] = pair[2]
                case 8, bytes():
                    payload = value
                case _:
                    others += whole
        return Frame(numbers[4], numbers[3], headers, payload, others)
    except (KeyError, IndexError, UnicodeDecodeError) as error:
        raise FrameError(type(error).__name__) from error


def _encode_fields(*fields: tuple[int, int | bytes]) -> bytes:
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += _encode_varint(number << 3 | _VARINT) + _encode_varint(value)
        else:
            out += _encode_varint(number << 3 | _BYTES) + _encode_varint(len(value)) + value
    return out


def _encode_varint(value: int) -> bytes:
    value &= _MASK  # a negative number is sent as ten bytes
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value & _MASK, at
    raise FrameError("a number is too long")


def _read_fields(data: bytes) -> Iterator[tuple[int, int | bytes, bytes]]:
    """Yield the number of each field, its value and all of its bytes."""
    at = 0
    while at < len(data):
        start = at
        tag, at = _read_varint(data, at)
        kind = tag & 7
        value, at = _read_varint(data, at) if kind in (_VARINT, _BYTES) else (_SIZES[kind], at)
        if kind == _VARINT:
            yield tag >> 3, value, data[start:at]
            continue
        at += value
        if at > len(data):
            raise FrameError("a field is cut off")
        yield tag >> 3, data[at - value : at], data[start:at]
