"""The report as one HTML file: figures, plots, and the whole transcript of each failed trial. The file needs no
network.

Text of people and models is untrusted: all of it is escaped, and no script runs in the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from html import escape

from bot.core.i18n import translate
from bot.dev.evaluation.charts import STYLE, render_bar_chart, render_distribution_curve
from bot.dev.evaluation.results import EvaluationReport, Trial
from bot.dev.evaluation.tables import (
    COLUMNS,
    build_replay_rows,
    build_scenario_rows,
    build_slip_rows,
    build_task_rows,
    describe_evaluation,
    describe_interruption,
    describe_token_estimate,
    format_figures,
    format_share,
    list_figure_groups,
)

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Second protection, by the browser: text that escapes the escaping still runs nothing and loads nothing."""
MORE = """
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(132px, 1fr)); gap: 12px; margin: 20px 0 8px }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px }
.tile b { display: block; font-size: 19px; white-space: nowrap; line-height: 1.25; font-variant-numeric: tabular-nums }
.tile span { color: var(--soft); font-size: 13px }
td.g { white-space: nowrap } th { vertical-align: bottom }
td, th { padding-right: 12px; font-size: 13px } th.n { white-space: normal; min-width: 62px }
.warn { color: var(--bad); font-weight: 600 }
details { border: 1px solid var(--line); border-radius: 10px; margin: 12px 0; background: var(--card) }
summary { cursor: pointer; padding: 12px 16px; font-weight: 600; overflow-wrap: anywhere }
summary small { display: block; color: var(--soft); font-weight: 400 }
details > div { padding: 0 16px 16px } details h3 { font-size: 14px; margin: 18px 0 6px }
ul { margin: 0; padding-left: 20px } li { overflow-wrap: anywhere }
.said { border-left: 3px solid var(--line); padding: 4px 0 4px 12px; margin: 8px 0; overflow-wrap: anywhere;
  white-space: pre-wrap }
.said.bot { border-color: var(--ours) } .said small { display: block; color: var(--soft) }
.said i { font-style: normal; border: 1px solid var(--line); border-radius: 6px; padding: 1px 8px; margin-right: 6px;
  font-size: 13px }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--paper); border: 1px solid var(--line);
  border-radius: 6px; padding: 8px 10px; margin: 6px 0; font-size: 12.5px }
main { max-width: 1040px } @media (max-width: 600px) { main { padding: 24px 14px 60px } }
"""
TILES = ("success", "interception", "unauthorised", "evidence", "latency", "steps")


def render_report_page(report: EvaluationReport, language: str) -> str:
    title, estimate = escape(translate("evaluation.title", language)), describe_token_estimate(report, language)
    told, warning = describe_evaluation(report, language), describe_interruption(report, language)
    shown = format_figures(report.figures)
    tiles = [_render_tile(shown[name], translate(f"evaluation.{name}", language)) for name in TILES]
    if report.figures.every_time is not None:
        about = translate("evaluation.every_time", language, k=report.repeat)
        tiles.insert(1, _render_tile(format_share(report.figures.every_time), about))
    parts = [
        f"<h1>{title}</h1><p>{escape(f'{told} {estimate}'.strip())}</p>",
        f'<p class="warn">{escape(warning)}</p>' if warning else "",
        f'<div class="tiles">{"".join(tiles)}</div>',
        *_render_plots(report, language),
        _render_figures_table(report, language),
    ]
    tables = {
        "tasks": build_task_rows(report, language),
        "slips": build_slip_rows(report, language),
        "replayed": build_replay_rows(report, language),
        "scenarios": build_scenario_rows(report, language),
    }
    for name, rows in tables.items():
        if len(rows) > 1:
            head, *body = (
                "".join(f'<td class="{"n" if column else "g"}">{escape(text)}</td>' for column, text in enumerate(row))
                for row in rows
            )
            table = f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in body)}</table>"
            parts.append(_render_section(translate(f"evaluation.{name}", language), estimate, table))
    parts.append(_render_failures(report, language))
    return (
        f'<!doctype html><html lang="{language}"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}{MORE}</style></head><body><main>{''.join(parts)}</main></body></html>"
    )


def _render_tile(value: str, name: str) -> str:
    return f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>'


def _render_plots(report: EvaluationReport, language: str) -> Iterator[str]:
    if not report.trials:
        return
    shares = {
        f"{translate(f'evaluation.about_{name}', language)} · {some.passed}/{some.trials}": 100 * (some.success or 0)
        for name, some in report.by_category.items()
    }
    yield _render_section(translate("evaluation.by_category", language), "", render_bar_chart(shares, "%", most=100))
    if any(latencies := [ms for one in report.trials for ms in one.latencies_ms]):
        told = translate("evaluation.latencies_told", language)
        yield _render_section(translate("evaluation.latencies", language), told, render_distribution_curve(latencies))
    counted = Counter(one.counts.steps for one in report.trials)
    rows = {str(steps): float(counted[steps]) for steps in sorted(counted)}
    told = translate("evaluation.step_counts_told", language)
    yield _render_section(translate("evaluation.step_counts", language), told, render_bar_chart(rows, ""))


def _render_section(title: str, told: str, inner: str) -> str:
    said = f"<p>{escape(told)}</p>" if told else ""
    return f'<section><h2>{escape(title)}</h2>{said}<div class="sheet">{inner}</div></section>'


def _render_figures_table(report: EvaluationReport, language: str) -> str:
    names = "".join(f'<th class="n">{escape(translate(f"evaluation.{name}", language))}</th>' for name in COLUMNS)
    rows = "".join(
        f'<tr><td class="g">{escape(name)}</td>'
        + "".join(f'<td class="n">{escape(shown)}</td>' for shown in format_figures(some).values())
        + "</tr>"
        for name, some in list_figure_groups(report, language)
    )
    head = f"<tr><th>{escape(translate('evaluation.group', language))}</th>{names}</tr>"
    return _render_section(translate("evaluation.figures", language), "", f"<table>{head}{rows}</table>")


def _render_failures(report: EvaluationReport, language: str) -> str:
    shown = ""
    for trial in (one for one in report.trials if not one.passed):
        about = translate(f"evaluation.about_{trial.category}", language)
        head = f"{escape(trial.title)}<small>{escape(f'{trial.scenario} · {about} · {trial.seed}')}</small>"
        details = "".join(_render_trial_details(trial, language))
        shown += f"<details><summary>{head}</summary><div>{details}</div></details>"
    told = "" if shown else translate("evaluation.no_failures", language)
    return _render_section(translate("evaluation.failures", language), told, shown)


def _render_trial_details(trial: Trial, language: str) -> Iterator[str]:
    """Yield a failed trial's reasons, effects, conversation, calls, presses and model calls."""
    yield _render_list("reasons", [*trial.unauthorised, *trial.reasons], language)
    yield _render_list("effects", trial.effects or [translate("evaluation.no_effects", language)], language)
    if (all_of_it := trial.transcript) is None:
        return
    thread = ""
    for line in all_of_it.said:
        kind = "said bot" if line.who == "bot" else "said"
        labels = "".join(f"<i>{escape(one)}</i>" for one in line.buttons)
        told = f"<small>{escape(line.who)} · {escape(line.where)}</small>{escape(line.text)}"
        thread += f'<div class="{kind}">{told}{f"<div>{labels}</div>" if labels else ""}</div>'
    yield _render_titled_block("thread", thread, language)
    yield _render_list("calls", all_of_it.calls, language)
    yield _render_list("pressed", all_of_it.pressed, language)
    asked = "".join(f"<pre>{escape(one.asked)}\n\n→ {escape(one.said)}\n({one.ms} ms)</pre>" for one in all_of_it.model)
    yield _render_titled_block("model_calls", asked, language)


def _render_list(name: str, items: Iterable[str], language: str) -> str:
    return _render_titled_block(name, "".join(f"<li>{escape(one)}</li>" for one in items), language, "ul")


def _render_titled_block(name: str, inner: str, language: str, tag: str = "div") -> str:
    return f"<h3>{escape(translate(f'evaluation.{name}', language))}</h3><{tag}>{inner}</{tag}>" if inner else ""
