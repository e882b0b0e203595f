"""Renders the diagram of a process: the path that a request has taken, its current steps, and possible later ones."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

from tools.spec import ToolError
from tools.workflow.diagram.labels import FAMILY, find_font_file, list_missing_glyphs
from tools.workflow.diagram.layout import read_diagram
from tools.workflow.diagram.svg import draw_diagram

ZOOM, LONGEST_PX = 2.0, 5_000
"""Pixels per unit of the diagram, and the longest side of the picture in pixels, which may reduce the former."""
PATIENCE_S = 30
PAINT = Path(__file__).with_name("rasterize.py")
CACHE_SIZE = 32
"""Number of cached pictures, of about 0.1 MB each."""


async def render_picture(bpmn: bytes, done: Collection[str], active: Collection[str], language: str) -> bytes:
    """Run `render_png` in a separate thread."""
    return await asyncio.to_thread(render_png, bpmn, frozenset(done), frozenset(active), language, find_font_file())


@lru_cache(maxsize=CACHE_SIZE)
def render_png(bpmn: bytes, done: frozenset[str], active: frozenset[str], language: str, font: Path | None) -> bytes:
    """The process as PNG. `done` has the ids of the visited nodes and flows, `active` those of the current ones.
    `language` (`zh`, `en`) is the language of the legend. Takes about 0.3 s; a cached picture takes no time. Raises
    `ToolError`: `no_diagram`; `no_font` if a name would be unreadable; `no_picture` if the renderer fails."""
    drawing = draw_diagram(read_diagram(bpmn), done, active, language)
    if font is None or not font.is_file():
        raise ToolError("no_font", "the font with Chinese characters is not installed, so there is no picture")
    if boxes := list_missing_glyphs(drawing.text, font):
        raise ToolError("no_font", f"the font has no {boxes[:20]!r}, so there is no picture")
    return rasterize_svg(drawing.svg, font, min(ZOOM, LONGEST_PX / max(drawing.width, drawing.height)))


def rasterize_svg(svg: str, font: Path, zoom: float) -> bytes:
    """Convert SVG to PNG, `zoom` pixels per unit. Raises `ToolError` `no_picture`."""
    command = [sys.executable, "-I", str(PAINT), str(font), FAMILY, f"{zoom:.4f}"]
    try:
        process = subprocess.run(  # noqa: S603  our own program; nothing of the process file is in the command
            command, input=svg.encode(), capture_output=True, timeout=PATIENCE_S, check=True, env={}
        )
    except (OSError, subprocess.SubprocessError) as failed:
        raise ToolError("no_picture", "the picture could not be drawn") from failed
    return process.stdout
