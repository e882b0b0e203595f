"""The calls of a conversation's latest runs, in a list beside its history. The history has one line per call, which
stays."""

from __future__ import annotations

import json
from collections.abc import Sequence

from bot.core.history_entries import PastCall

MAX_RUNS, MAX_CALL_TOKENS = 3, 4_500
"""For this many latest runs, a model is sent the calls and results themselves, up to this many tokens on top of the
history. For older runs it gets one line per call."""
MAX_CALL_ENTRIES = 2 * MAX_RUNS
"""Entries whose calls are kept. A run that waited for a button has two entries."""
TAB = "\t"
"""Separates the parts of an entry: JSON contains no raw tab."""


def format_past_calls(run: str, at_ms: int, tokens: int, calls: Sequence[PastCall]) -> str:
    """`run⇥when⇥tokens⇥calls`."""
    rows = json.dumps([one.row for one in calls], ensure_ascii=False)
    return TAB.join((run, str(at_ms), str(tokens), rows))


def parse_latest_calls(values: Sequence[str], without: str) -> dict[str, Sequence[PastCall]]:
    """By run and time of their entry (`run⇥when`): the calls of the latest runs except `without`, within the limit."""
    by_run: dict[str, dict[str, list[PastCall]]] = {}
    costs: dict[str, int] = {}
    for value in reversed(values):
        run, at_ms, tokens, calls = value.split(TAB, 3)
        if run != without and (run in by_run or len(by_run) < MAX_RUNS):
            some = [PastCall(*one) for one in json.loads(calls)]
            by_run.setdefault(run, {}).setdefault(f"{run}{TAB}{at_ms}", [])[:0] = some
            costs[run] = costs.get(run, 0) + int(tokens)
    room, calls_by_entry = MAX_CALL_TOKENS, dict[str, Sequence[PastCall]]()
    for run, entries in by_run.items():
        room -= costs[run]
        if room < 0:
            break
        calls_by_entry.update(reversed(entries.items()))
    return calls_by_entry


def list_called_tools(values: Sequence[str]) -> list[str]:
    """Names of the called tools, each once, the newest last."""
    called = [str(one[1]) for value in values for one in json.loads(value.rpartition(TAB)[2])]
    return list(reversed(dict.fromkeys(reversed(called))))
