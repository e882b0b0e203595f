"""The page: all figures on one, with plots, in itself complete and readable in the light and in the dark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from tests.bench.figures import number, percentile
from tests.bench.machine import busy
from tests.bench.peers import TITLES

WIDTH, LABEL, ROW = 760, 310, 26
"""Of a plot: pixels."""
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
MET = {True: ("yes", "✓ met"), False: ("no", "✗ missed"), None: ("none", "–")}

Row = tuple[str, float]
Figures = Mapping[str, Mapping[str, Any]]


def page(data: Mapping[str, Any]) -> str:
    """The HTML of a report's data."""
    figures = {one["name"]: one for one in data["figures"]}
    parts = [_head(data), _table(data["figures"]), *_plots(figures), _versions(data)]
    title = "Countersign benchmarks"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body><main>{''.join(parts)}</main></body></html>"
    )


def _head(data: Mapping[str, Any]) -> str:
    about = data["machine"]
    quick = " Quick: small counts, which show that all works and little more." if data["quick"] else ""
    rounds = "1 round" if data["rounds"] == 1 else f"medians of {data['rounds']} rounds"
    return (
        f"<h1>Countersign, measured</h1><p>{escape(data['date'][:16].replace('T', ' '))} · {rounds} · "
        f"{escape(about['cpu'])}, {about['cores']} cores, {about['memory']} · {escape(about['system'])} · "
        f"{escape(about['python'])} · {escape(data['redis'])} · load before it began: {about['load']}.{quick}</p>"
        f"{_warned(about)}"
    )


def _warned(about: dict[str, str]) -> str:
    warning = busy(about)
    return f'<p class="no">{escape(warning.capitalize())}.</p>' if warning else ""


def _table(figures: Sequence[Mapping[str, Any]]) -> str:
    rows = "".join(
        f'<tr id="{one["name"]}"><td>{escape(one["title"])}<small>{escape(one["note"])}</small></td>'
        f'<td class="n">{escape(one["shown"])}</td><td class="n">{escape(one["reach"])}</td>'
        f'<td class="n {MET[one["met"]][0]}">{MET[one["met"]][1]}</td></tr>'
        for one in figures
    )
    head = '<tr><th>figure</th><th class="n">measured</th><th class="n">reach</th><th class="n"></th></tr>'
    return f'<div class="sheet"><table>{head}{rows}</table></div>'


def _plots(figures: Figures) -> Iterator[str]:
    """Every plot whose figures were measured."""
    if costs := _detail(figures, "ours", "cpu_ms_per_step"):
        told = "User and system time of the program itself, for one model call with everything around it."
        yield _section("CPU per step", told, bars(_titled(costs), "ms", mark=costs["floor"], mark_name="floor"))
    for name, count in (("many-200", "200"), ("many-1000", "1,000")):
        if beside := _detail(figures, name, "beside"):
            beside = {title: one["times_ideal"] for title, one in beside.items()}
            told = "Wall time, with a model that answers after 300 ms; 1 would be the model's time alone."
            rows = {"ours": figures[name]["value"], **beside}
            yield _section(f"{count} runs at once in one process", told, bars(rows, "×", mark=1, mark_name="ideal"))
    if acks := _detail(figures, "ack", "acks_ms"):
        yield _section("Event → acknowledgement", "Share of the events of the burst, by the time it took.", curve(acks))
    if parts := _detail(figures, "first-p50", "parts"):
        rows = {name: one["p50"] for name, one in parts.items()}
        yield _section("From a message to the first step that people see", "Medians; idle bot.", bars(rows, "ms"))
    if sizes := _detail(figures, "left-keys", "kb"):
        named = {KINDS.get(kind, kind): size for kind, size in sizes.items()}
        yield _section("What one finished run leaves in Redis", "By kind of key.", bars(named, "KB"))
    if modules := _detail(figures, "import", "ms_by_module"):
        yield _section(
            "Import of bot.main", "Time in a package's own modules.", bars(dict(list(modules.items())[:10]), "ms")
        )
    yield from _rounds(figures)


KINDS = {
    "run": "the run",
    "h": "the conversation's history",
    "j": "the audit",
    "dd": "told from duplicates",
    "st": "lane",
}


def _rounds(figures: Figures) -> Iterator[str]:
    """How far apart the rounds were."""
    found = {
        one["title"].removeprefix("CPU per step, "): [float(ratio) for ratio in one["detail"]["ratios"]]
        for one in figures.values()
        if len(one["detail"].get("ratios", ())) > 1
    }
    if found:
        told = "Each ratio is of two programs of the same round."
        yield _section("Round by round", told, "".join(dots(title, ratios) for title, ratios in found.items()))


def _detail(figures: Figures, name: str, key: str) -> Any:
    return figures[name]["detail"].get(key) if name in figures else None


def _titled(costs: Mapping[str, float]) -> dict[str, float]:
    return {TITLES.get(name, name): value for name, value in costs.items()}


def _section(title: str, told: str, plot: str) -> str:
    return f"<section><h2>{escape(title)}</h2><p>{escape(told)}</p>{plot}</section>"


def bars(rows: Mapping[str, float], unit: str, *, mark: float | None = None, mark_name: str = "") -> str:
    """Lying bars, the longest as long as there is room."""
    room, most = WIDTH - LABEL - 90, max([*rows.values(), mark or 0]) or 1
    height = ROW * len(rows) + 24
    drawn = []
    for at, (name, value) in enumerate(rows.items()):
        y, long = 20 + at * ROW, max(1.0, room * value / most)
        style = "ours" if name.startswith("ours") or mark is None else "other"
        drawn.append(
            f'<text x="{LABEL - 10}" y="{y + 14}" text-anchor="end">{escape(_short(name))}</text>'
            f'<rect class="{style}" x="{LABEL}" y="{y}" width="{long:.1f}" height="18" rx="3"/>'
            f'<text class="soft" x="{LABEL + long + 8:.1f}" y="{y + 14}">{number(value)} {unit}</text>'
        )
    if mark is not None:
        x = LABEL + room * mark / most
        drawn.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="16" y2="{height}"/>')
        drawn.append(f'<text class="soft" x="{x:.1f}" y="11" text-anchor="middle">{escape(mark_name)}</text>')
    return _svg(height, "".join(drawn))


def _short(name: str) -> str:
    return name if len(name) <= 46 else name[:45] + "…"


def curve(values: Sequence[float]) -> str:
    """How many were at most how long, on a line from none to all."""
    left, bottom, top = 50, 190, 12
    most = max(values) or 1

    def x(value: float) -> float:
        return left + (WIDTH - left - 30) * value / most

    shares = [0.0, *(n / 100 for n in range(1, 100)), 0.995, 0.999, 1.0]
    points = " ".join(f"{x(percentile(values, s)):.1f},{bottom - (bottom - top) * s:.1f}" for s in shares)
    drawn = [f'<polyline class="curve" points="{points}"/>']
    for share in (0, 0.5, 0.99):
        y = bottom - (bottom - top) * share
        drawn.append(f'<line class="axis" x1="{left}" x2="{WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}"/>')
        drawn.append(f'<text class="soft" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>')
    for part in (0, 0.25, 0.5, 0.75, 1):
        place = f'x="{x(most * part):.1f}" y="{bottom + 18}"'
        drawn.append(f'<text class="soft" {place} text-anchor="middle">{number(most * part)} ms</text>')
    return _svg(bottom + 26, "".join(drawn))


def dots(title: str, values: Sequence[float]) -> str:
    """The rounds of one ratio, on a line from nothing."""
    room, most = WIDTH - LABEL - 90, max(values) * 1.1
    found = "".join(f'<circle class="ours" cx="{LABEL + room * v / most:.1f}" cy="14" r="4"/>' for v in values)
    name = f'<text x="{LABEL - 10}" y="18" text-anchor="end">{escape(_short(title))}</text>'
    line = f'<line class="axis" x1="{LABEL}" x2="{LABEL + room}" y1="14" y2="14"/>'
    told = f"{number(min(values))}–{number(max(values))}"
    return _svg(28, f'{line}{found}{name}<text class="soft" x="{LABEL + room + 10}" y="18">{told}</text>')


def _svg(height: float, drawn: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img">{drawn}</svg>'


def _versions(data: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{escape(TITLES.get(program, program))}</td>"
        f"<td>{escape(', '.join(f'{name} {version}' for name, version in packages.items()))}</td></tr>"
        for program, packages in data["versions"].items()
    )
    skipped = "".join(f"<p>Left out: {escape(one)}</p>" for one in data["skipped"])
    return f'<h2>What was measured</h2><div class="sheet"><table>{rows}</table></div><p></p>{skipped}'
