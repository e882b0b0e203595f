"""Small but real pictures for the people of a scenario to send."""

from __future__ import annotations

import base64

PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==")


def build_picture(text: str = "") -> bytes:
    """Build a PNG of one pixel. A `text`, which follows the picture's end, makes other bytes."""
    return PIXEL + text.encode()
