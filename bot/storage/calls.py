"""Calls of the latest runs of a conversation, in a list beside its history: that has a line for each, which stays."""

from __future__ import annotations

import json
from collections.abc import Sequence

from bot.core.history_entries import PastCall

RUNS, UNFOLDED = 3, 4_500
"""Of so many runs a model is sent the calls and results themselves, and no more than this (tokens, besides what the
history counts); of older ones a line each."""
CALLS_KEPT = 2 * RUNS
"""Entries with calls whose calls are kept: a run that has waited for a button has two."""
TAB = "\t"
"""Between the parts of an entry: JSON has none of its own."""


def format_past_calls(run: str, at_ms: int, tokens: int, calls: Sequence[PastCall]) -> str:
    """`run⇥when⇥tokens⇥calls`."""
    rows = json.dumps([one.row for one in calls], ensure_ascii=False)
    return TAB.join((run, str(at_ms), str(tokens), rows))


def parse_latest_calls(values: Sequence[str], without: str) -> dict[str, Sequence[PastCall]]:
    """By run and time of their entries (`run⇥when`): the calls of the latest runs but one, as far as may be sent."""
    by_run: dict[str, dict[str, list[PastCall]]] = {}
    costs: dict[str, int] = {}
    for value in reversed(values):
        run, at_ms, tokens, calls = value.split(TAB, 3)
        if run != without and (run in by_run or len(by_run) < RUNS):
            some = [PastCall(*one) for one in json.loads(calls)]
            by_run.setdefault(run, {}).setdefault(f"{run}{TAB}{at_ms}", [])[:0] = some
            costs[run] = costs.get(run, 0) + int(tokens)
    left, kept = UNFOLDED, dict[str, Sequence[PastCall]]()
    for run, entries in by_run.items():
        left -= costs[run]
        if left < 0:
            break
        kept.update(reversed(entries.items()))
    return kept


def list_called_tools(values: Sequence[str]) -> list[str]:
    """Names of the tools that were called, each once, the newest last."""
    called = [str(one[1]) for value in values for one in json.loads(value.rpartition(TAB)[2])]
    return list(reversed(dict.fromkeys(reversed(called))))
