"""The frames of Feishu's long connection: the message `pbbp2.Frame` of protocol buffers (proto2), read and written.

message Header { required string key = 1; required string value = 2; }
message Frame {
    required uint64 SeqID = 1; required uint64 LogID = 2; required int32 service = 3; required int32 method = 4;
    repeated Header headers = 5; optional string payload_encoding = 6; optional string payload_type = 7;
    optional bytes payload = 8; optional string LogIDNew = 9;
}"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

CONTROL, DATA = 0, 1
"""Values of `method`: pings and their answers; events and their acknowledgements."""
_VARINT, _BYTES = 0, 2
_SIZES = {1: 8, _BYTES: 0, 5: 4}
"""Kinds of fields with a size: fixed, or told first."""
_MASK = (1 << 64) - 1


class FrameError(ValueError):
    """The bytes are no frame."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame. None stands for an optional field that is not there."""

    method: int
    service: int = 0
    seq_id: int = 0
    log_id: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    payload_encoding: str | None = None
    payload_type: str | None = None
    payload: bytes | None = None
    log_id_new: str | None = None

    def get_header(self, name: str) -> str:
        """Return the first header of this name, or an empty text."""
        return next((value for key, value in self.headers if key == name), "")


def encode_frame(frame: Frame) -> bytes:
    headers = [(5, _encode_fields((1, key), (2, value))) for key, value in frame.headers]
    numbers = (1, frame.seq_id), (2, frame.log_id), (3, frame.service), (4, frame.method)
    texts = (6, frame.payload_encoding), (7, frame.payload_type), (8, frame.payload), (9, frame.log_id_new)
    return _encode_fields(*numbers, *headers, *texts)


def decode_frame(data: bytes) -> Frame:
    """Decode a frame; unknown fields are left out. Raises `FrameError`."""
    numbers, contents, headers = dict[int, int](), dict[int, bytes](), list[tuple[str, str]]()
    try:
        for number, value in _read_fields(data):
            if isinstance(value, int):
                numbers[number] = value
            elif number == 5:
                pair = dict(_read_fields(value))
                headers.append((_read_text(pair[1]), _read_text(pair[2])))
            else:
                contents[number] = value
        service, method = (value - (value >> 31 << 32) for value in (numbers[3] & 0xFFFFFFFF, numbers[4] & 0xFFFFFFFF))
        encoding, kind, log_id_new = (_read_text(contents[at]) if at in contents else None for at in (6, 7, 9))
        return Frame(
            method, service, numbers[1], numbers[2], tuple(headers), encoding, kind, contents.get(8), log_id_new
        )
    except (KeyError, IndexError, UnicodeDecodeError) as error:
        raise FrameError(type(error).__name__) from error


def _encode_fields(*fields: tuple[int, int | str | bytes | None]) -> bytes:
    """Encode fields by their numbers. None is left out."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += _encode_varint(number << 3 | _VARINT) + _encode_varint(value)
        elif value is not None:
            content = value.encode() if isinstance(value, str) else value
            out += _encode_varint(number << 3 | _BYTES) + _encode_varint(len(content)) + content
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


def _read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _read_varint(data, at)
            yield tag >> 3, value
            continue
        if kind not in _SIZES:
            raise FrameError("a kind of field is unknown")
        size, at = _read_varint(data, at) if kind == _BYTES else (_SIZES[kind], at)
        if at + size > len(data):
            raise FrameError("a field is cut off")
        if kind == _BYTES:
            yield tag >> 3, data[at : at + size]
        at += size


def _read_text(value: int | bytes) -> str:
    if isinstance(value, int):
        raise FrameError("a text is a number")
    return value.decode()
