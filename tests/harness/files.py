"""Files as people send them: small, and really what they say; or not."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

HTML = b"<!DOCTYPE html><html><body>Sign in</body></html>"


def png(text: str = "") -> bytes:
    """A picture of one pixel; another `text` makes other bytes."""

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


def pdf(text: str = "") -> bytes:
    return f"%PDF-1.4\n% {text}\n%%EOF\n".encode()


def archive(*names: str) -> bytes:
    """A ZIP with these entries."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name in names:
            file.writestr(name, "x")
    return out.getvalue()


def ofd() -> bytes:
    """An e-invoice as Chinese offices get it."""
    return archive("OFD.xml", "Doc_0/Document.xml")
