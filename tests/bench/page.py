"""The page: all figures on one, with plots, in itself complete and readable in the light and in the dark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from bot.evaluation.charts import STYLE, render_bar_chart, render_distribution_curve, render_dot_plot
from tests.bench.machine import busy
from tests.bench.peers import TITLES

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
        yield _section(
            "CPU per step", told, render_bar_chart(_titled(costs), "ms", mark=costs["floor"], mark_name="floor")
        )
    for name, count in (("many-200", "200"), ("many-1000", "1,000")):
        if beside := _detail(figures, name, "beside"):
            beside = {title: one["times_ideal"] for title, one in beside.items()}
            told = "Wall time, with a model that answers after 300 ms; 1 would be the model's time alone."
            rows = {"ours": figures[name]["value"], **beside}
            yield _section(
                f"{count} runs at once in one process", told, render_bar_chart(rows, "×", mark=1, mark_name="ideal")
            )
    if acks := _detail(figures, "ack", "acks_ms"):
        yield _section(
            "Event → acknowledgement",
            "Share of the events of the burst, by the time it took.",
            render_distribution_curve(acks),
        )
    if parts := _detail(figures, "first-p50", "parts"):
        rows = {name: one["p50"] for name, one in parts.items()}
        yield _section(
            "From a message to the first step that people see", "Medians; idle bot.", render_bar_chart(rows, "ms")
        )
    if sizes := _detail(figures, "left-keys", "kb"):
        named = {KINDS.get(kind, kind): size for kind, size in sizes.items()}
        yield _section("What one finished run leaves in Redis", "By kind of key.", render_bar_chart(named, "KB"))
    if modules := _detail(figures, "import", "ms_by_module"):
        yield _section(
            "Import of bot.app.build",
            "Time in a package's own modules.",
            render_bar_chart(dict(list(modules.items())[:10]), "ms"),
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
        yield _section(
            "Round by round", told, "".join(render_dot_plot(title, ratios) for title, ratios in found.items())
        )


def _detail(figures: Figures, name: str, key: str) -> Any:
    return figures[name]["detail"].get(key) if name in figures else None


def _titled(costs: Mapping[str, float]) -> dict[str, float]:
    return {TITLES.get(name, name): value for name, value in costs.items()}


def _section(title: str, told: str, plot: str) -> str:
    return f"<section><h2>{escape(title)}</h2><p>{escape(told)}</p>{plot}</section>"


def _versions(data: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{escape(TITLES.get(program, program))}</td>"
        f"<td>{escape(', '.join(f'{name} {version}' for name, version in packages.items()))}</td></tr>"
        for program, packages in data["versions"].items()
    )
    skipped = "".join(f"<p>Left out: {escape(one)}</p>" for one in data["skipped"])
    return f'<h2>What was measured</h2><div class="sheet"><table>{rows}</table></div><p></p>{skipped}'
