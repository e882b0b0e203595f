"""Small but real pictures for the people of a scenario to send."""

from __future__ import annotations

import struct
import zlib


def build_picture(text: str = "") -> bytes:
    """Build a PNG of one pixel; each `text` gives other bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    said = chunk(b"tEXt", b"Comment\x00" + text.encode()) if text else b""
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + said
        + chunk(b"IDAT", zlib.compress(b"\0\0"))
        + chunk(b"IEND", b"")
    )
