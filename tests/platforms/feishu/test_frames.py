"""Frames against the protocol buffers of somebody else: Feishu's own SDK."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark_channel.ws.pb.pbbp2_pb2 import Frame as ForeignFrame

from bot.platforms.feishu.frames import Frame, FrameError, decode_frame, encode_frame

_TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
_INT32, _UINT64 = st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**64 - 1)
_HEADERS = st.dictionaries(_TEXTS, _TEXTS, max_size=6)
_FRAMES = st.builds(Frame, method=_INT32, service=_INT32, headers=_HEADERS, payload=st.none() | st.binary(max_size=300))
_OTHERS = st.fixed_dictionaries(
    {"SeqID": _UINT64, "LogID": _UINT64},
    optional={"payload_encoding": _TEXTS, "payload_type": _TEXTS, "LogIDNew": _TEXTS},
)


def translate_frame(frame: Frame, others: dict[str, Any]) -> ForeignFrame:
    foreign = ForeignFrame(service=frame.service, method=frame.method, **others)
    for key, value in frame.headers.items():
        foreign.headers.add(key=key, value=value)
    if frame.payload is not None:
        foreign.payload = frame.payload
    return foreign


@settings(max_examples=500)
@given(_FRAMES)
def test_every_frame_is_written_as_the_sdk_writes_it_and_read_back(frame: Frame) -> None:
    written = translate_frame(frame, {"SeqID": 0, "LogID": 0}).SerializeToString()
    assert encode_frame(frame) == written
    assert decode_frame(written) == frame


@settings(max_examples=500)
@given(_FRAMES, _OTHERS)
def test_every_frame_of_the_sdk_is_read_and_returned_whole(frame: Frame, others: dict[str, Any]) -> None:
    foreign = translate_frame(frame, others)
    found = decode_frame(foreign.SerializeToString())
    assert replace(found, others=frame.others) == frame
    assert ForeignFrame.FromString(encode_frame(found)) == foreign


@settings(max_examples=2_000)
@given(st.binary(max_size=200))
def test_bytes_that_are_no_frame_are_refused_with_one_kind_of_error(data: bytes) -> None:
    try:
        decode_frame(data)
    except FrameError:
        return


def test_a_frame_that_is_cut_anywhere_is_refused_or_lacks_its_end() -> None:
    """Negative control: another byte makes another frame."""
    whole = Frame(1, 7, {"type": "event", "message_id": "m"}, payload=b"x" * 50)
    data = bytearray(encode_frame(whole))
    for end in range(len(data)):
        try:
            assert decode_frame(bytes(data[:end])) != whole
        except FrameError:
            continue
    data[-1] ^= 1
    assert decode_frame(bytes(data)) != whole


def test_fields_of_a_later_version_are_returned() -> None:
    frame = Frame(1, headers={"type": "event"}, payload=b"{}")
    later = b"\x50\x05" + b"\x59" + bytes(8) + b"\x65" + bytes(4) + b"\x6a\x02ab"
    assert decode_frame(encode_frame(frame) + later) == replace(frame, others=frame.others + later)


def test_what_lacks_required_fields_or_is_no_text_is_refused(subtests: pytest.Subtests) -> None:
    for data in (b"", b"\x08\x01", b"\x0b", b"\x08" + b"\xff" * 11, b"\x42\x7f", b"\x2a\x03\x0a\x01\xff"):
        with subtests.test(data=data), pytest.raises(FrameError):
            decode_frame(data)
