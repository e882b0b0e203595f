"""Plots as inline SVG, and the style of a self-contained page, in light and dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, LABEL, ROW = 760, 310, 26
"""Sizes of a plot in pixels."""
STYLE = """
:root { color-scheme: light dark; --ink: #1d2330; --soft: #667085; --line: #e3e6ec; --paper: #fff; --card: #f7f8fa;
  --ours: #2f6fed; --other: #a9b4c6; --good: #12805c; --bad: #c0362c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaf0; --soft: #98a2b3; --line: #2d333f; --paper: #14171d;
  --card: #1b1f27; --ours: #6c9bff; --other: #596579; --good: #4cc38a; --bad: #ff7b6e; } }
* { box-sizing: border-box } body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif }
main { max-width: 880px; margin: 0 auto; padding: 40px 24px 80px }
h1 { font-size: 26px; margin: 0 0 4px } h2 { font-size: 18px; margin: 44px 0 4px }
p { color: var(--soft); margin: 0 0 14px } .sheet { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: 13px }
td, th { padding: 8px 12px 8px 0; border-bottom: 1px solid var(--line); vertical-align: top }
td.n, th.n { white-space: nowrap; text-align: right } td small { display: block; color: var(--soft); font-size: 12.5px;
  overflow-wrap: anywhere }
.yes { color: var(--good) } .no { color: var(--bad); font-weight: 600 } .none { color: var(--soft) }
svg { display: block; width: 100%; height: auto; max-width: 760px; margin: 8px 0 }
svg text { fill: var(--ink); font: 13px system-ui, sans-serif } svg .soft { fill: var(--soft) }
svg .ours { fill: var(--ours) } svg .other { fill: var(--other) } svg .axis { stroke: var(--line) }
svg .mark { stroke: var(--bad); stroke-dasharray: 4 3 } svg .curve { stroke: var(--ours); fill: none; stroke-width: 2 }
"""


def format_rounded_number(value: float | None) -> str:
    """Format a number for people, with about three significant digits."""
    if value is None:
        return "–"
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def compute_percentile(values: Sequence[float], share: float) -> float:
    """Return the value at or below which this share of all values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def render_bar_chart(
    rows: Mapping[str, float], unit: str, *, mark: float | None = None, mark_name: str = "", most: float = 0
) -> str:
    """Render horizontal bars. The longest fills the room, or with `most` its share of that value."""
    room, most = WIDTH - LABEL - 90, max([*rows.values(), mark or 0, most]) or 1
    height = ROW * len(rows) + 24
    drawn = []
    for at, (name, value) in enumerate(rows.items()):
        y, long = 20 + at * ROW, max(1.0, room * value / most)
        style = "ours" if name.startswith("ours") or mark is None else "other"
        drawn.append(
            f'<text x="{LABEL - 10}" y="{y + 14}" text-anchor="end">{escape(shorten_label(name))}</text>'
            f'<rect class="{style}" x="{LABEL}" y="{y}" width="{long:.1f}" height="18" rx="3"/>'
            f'<text class="soft" x="{LABEL + long + 8:.1f}" y="{y + 14}">{format_rounded_number(value)} {unit}</text>'
        )
    if mark is not None:
        x = LABEL + room * mark / most
        drawn.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="16" y2="{height}"/>')
        drawn.append(f'<text class="soft" x="{x:.1f}" y="11" text-anchor="middle">{escape(mark_name)}</text>')
    return wrap_svg(height, "".join(drawn))


def shorten_label(name: str) -> str:
    return name if len(name) <= 46 else name[:45] + "…"


def render_distribution_curve(values: Sequence[float]) -> str:
    """Plot the share of values (0 to 100 %) that are at most as long, against the time in milliseconds."""
    left, bottom, top = 50, 190, 12
    most = max(values) or 1

    def scale_x(value: float) -> float:
        return left + (WIDTH - left - 30) * value / most

    shares = [0.0, *(n / 100 for n in range(1, 100)), 0.995, 0.999, 1.0]
    points = " ".join(f"{scale_x(compute_percentile(values, s)):.1f},{bottom - (bottom - top) * s:.1f}" for s in shares)
    drawn = [f'<polyline class="curve" points="{points}"/>']
    for share in (0, 0.5, 0.99):
        y = bottom - (bottom - top) * share
        drawn.append(f'<line class="axis" x1="{left}" x2="{WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}"/>')
        drawn.append(f'<text class="soft" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>')
    for part in (0, 0.25, 0.5, 0.75, 1):
        place = f'x="{scale_x(most * part):.1f}" y="{bottom + 18}"'
        drawn.append(f'<text class="soft" {place} text-anchor="middle">{format_rounded_number(most * part)} ms</text>')
    return wrap_svg(bottom + 26, "".join(drawn))


def wrap_svg(height: float, drawn: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img">{drawn}</svg>'
