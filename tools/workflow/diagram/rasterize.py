"""The program that `render.rasterize_svg` runs: SVG on standard input, PNG on standard output. Arguments: the font
file, its family, pixels per unit. A separate process is used, because the renderer holds Python's lock while it works.
Memory use and crashes end with the process."""

from __future__ import annotations

import sys

import resvg_py


def main(font: str, family: str, zoom: str) -> None:
    picture = resvg_py.svg_to_bytes(
        svg_string=sys.stdin.buffer.read().decode(),
        skip_system_fonts=True,
        font_files=[font],
        font_family=family,
        sans_serif_family=family,
        zoom=float(zoom),
        background="#ffffff",
    )
    sys.stdout.buffer.write(bytes(picture))


if __name__ == "__main__":
    main(*sys.argv[1:])
