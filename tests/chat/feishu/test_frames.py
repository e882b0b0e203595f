"""Frames against the protocol buffers of somebody else: Feishu's own SDK."""

from __future__ import annotations

import random
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark_channel.ws.pb.pbbp2_pb2 import Frame as ForeignFrame

from bot.chat.feishu.frames import Frame, FrameError, decode_frame, encode_frame

_TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
_INT32 = st.integers(-(2**31), 2**31 - 1)
_FRAMES = st.builds(
    Frame,
    method=_INT32,
    service=_INT32,
    seq_id=st.integers(0, 2**64 - 1),
    log_id=st.integers(0, 2**64 - 1),
    headers=st.lists(st.tuples(_TEXTS, _TEXTS), max_size=6).map(tuple),
    payload_encoding=st.none() | _TEXTS,
    payload_type=st.none() | _TEXTS,
    payload=st.none() | st.binary(max_size=300),
    log_id_new=st.none() | _TEXTS,
)


def translate_frame(frame: Frame) -> ForeignFrame:
    foreign = ForeignFrame(SeqID=frame.seq_id, LogID=frame.log_id, service=frame.service, method=frame.method)
    for key, value in frame.headers:
        foreign.headers.add(key=key, value=value)
    for name in ("payload_encoding", "payload_type", "payload"):
        if (value := getattr(frame, name)) is not None:
            setattr(foreign, name, value)
    if frame.log_id_new is not None:
        foreign.LogIDNew = frame.log_id_new
    return foreign


@given(_FRAMES)
@settings(max_examples=2_000, deadline=None)
def test_every_frame_is_written_as_the_sdk_writes_it_and_read_back(frame: Frame) -> None:
    written = translate_frame(frame).SerializeToString()
    assert encode_frame(frame) == written
    assert decode_frame(written) == frame


@given(st.binary(max_size=200))
@settings(max_examples=2_000, deadline=None)
def test_bytes_that_are_no_frame_are_refused_with_one_kind_of_error(data: bytes) -> None:
    try:
        decode_frame(data)
    except FrameError:
        return


def test_a_frame_that_is_cut_anywhere_is_refused_or_lacks_its_end() -> None:
    whole = Frame(1, 7, 3, 4, (("type", "event"), ("message_id", "m")), payload=b"x" * 50)
    data = encode_frame(whole)
    for end in range(len(data)):
        try:
            assert decode_frame(data[:end]) != whole
        except FrameError:
            continue


def test_fields_of_a_later_version_are_left_out() -> None:
    frame = Frame(1, headers=(("type", "event"),), payload=b"{}")
    later = encode_frame(frame) + b"\x50\x05" + b"\x59" + bytes(8) + b"\x65" + bytes(4) + b"\x6a\x02ab"
    assert decode_frame(later) == frame


@pytest.mark.parametrize("data", [b"", b"\x08\x01", b"\x0b", b"\x08" + b"\xff" * 11, b"\x42\x7f"])
def test_a_frame_without_its_required_fields_is_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        decode_frame(data)


def test_negative_control_another_byte_makes_another_frame() -> None:
    rng = random.Random(1)
    frame = Frame(1, 7, 3, 4, (("type", "".join(rng.choices(string.ascii_letters, k=9))),), payload=b"12345")
    data = bytearray(encode_frame(frame))
    data[-1] ^= 1
    assert decode_frame(bytes(data)) != frame
