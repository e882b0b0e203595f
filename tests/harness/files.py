"""Files as people send them: small, and really what they say; or not."""

from __future__ import annotations

import io
import zipfile

from bot.evaluation.pictures import build_picture

HTML = b"<!DOCTYPE html><html><body>Sign in</body></html>"


def png(text: str = "") -> bytes:
    """A picture of one pixel; another `text` makes other bytes."""
    return build_picture(text)


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
