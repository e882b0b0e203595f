"""The picture of a process: which way a request has gone, where it is, and what may still come."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

from tools.spec import ToolError
from tools.workflow.drawing import draw
from tools.workflow.layout import has_diagram, read_diagram
from tools.workflow.lettering import FAMILY, font_file, unprintable

__all__ = ["font_file", "has_diagram", "picture", "png_of", "svg_of"]

ZOOM, LONGEST_PX = 2.0, 5_000
"""Pixels per unit of the diagram, less where the picture would be longer."""
PATIENCE_S = 30
PAINT = Path(__file__).with_name("paint.py")
KEPT = 32
"""Pictures that are remembered, of about 0.1 MB each."""


def svg_of(bpmn: bytes, done: Collection[str], active: Collection[str], language: str) -> str:
    """The process as SVG. `done`, `active`: ids of the nodes and flows taken, and of the current ones; `language`
    (`zh`, `en`) is that of the legend. Raises ToolError(`no_diagram`)."""
    return draw(read_diagram(bpmn), frozenset(done), frozenset(active), language).svg


async def picture(bpmn: bytes, done: Collection[str], active: Collection[str], language: str) -> bytes:
    """`png_of`, beside the event loop."""
    return await asyncio.to_thread(png_of, bpmn, done, active, language)


def png_of(
    bpmn: bytes, done: Collection[str], active: Collection[str], language: str, font: Path | None = None
) -> bytes:
    """The same as PNG; takes about 0.3 s, the same picture again nothing. `font`: another than `font_file()`. Raises
    ToolError: `no_diagram`; `no_font` when a name could not be read; `no_picture` when the renderer fails."""
    return _png(bpmn, frozenset(done), frozenset(active), language, font or font_file())


@lru_cache(maxsize=KEPT)
def _png(bpmn: bytes, done: frozenset[str], active: frozenset[str], language: str, font: Path | None) -> bytes:
    drawing = draw(read_diagram(bpmn), done, active, language)
    if font is None or not font.is_file():
        raise ToolError("no_font", "the font with Chinese characters is not installed, so there is no picture")
    if boxes := unprintable(drawing.text, font):
        raise ToolError("no_font", f"the font has no {boxes[:20]!r}, so there is no picture")
    return painted(drawing.svg, font, min(ZOOM, LONGEST_PX / max(drawing.width, drawing.height)))


def painted(svg: str, font: Path, zoom: float) -> bytes:
    """SVG as PNG, `zoom` pixels per unit. Raises ToolError(`no_picture`)."""
    command = [sys.executable, "-I", str(PAINT), str(font), FAMILY, f"{zoom:.4f}"]
    try:
        painted = subprocess.run(  # noqa: S603  our own program; nothing of the process file is in the command
            command, input=svg.encode(), capture_output=True, timeout=PATIENCE_S, check=True, env={}
        )
    except (OSError, subprocess.SubprocessError) as failed:
        raise ToolError("no_picture", "the picture could not be drawn") from failed
    return painted.stdout
