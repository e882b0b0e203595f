"""The calls of a conversation's latest runs, in a list beside its history. The history itself keeps one line per
call."""

from __future__ import annotations

import json
from collections.abc import Sequence

from bot.core.history_entries import PastCall

MAX_RUNS, MAX_CALL_TOKENS = 3, 4_500
"""Most runs whose calls and results a model is sent in full, and most tokens of these on top of the history. Older runs
get one line per call."""
MAX_CALL_ENTRIES = 2 * MAX_RUNS
"""Number of entries whose calls are kept. A run that waited for a button has two entries."""
TAB = "\t"
"""The separator between the parts of an entry: JSON contains no raw tab."""


def format_past_calls(run: str, at_ms: int, tokens: int, calls: Sequence[PastCall]) -> str:
    """Format an entry as `run⇥when⇥tokens⇥calls`."""
    rows = json.dumps([one.row for one in calls], ensure_ascii=False)
    return TAB.join((run, str(at_ms), str(tokens), rows))


def parse_latest_calls(values: Sequence[str], without: str) -> dict[str, Sequence[PastCall]]:
    """Return the calls of the latest runs except `without`, within the limit, by run and time of their entry
    (`run⇥when`)."""
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
    """List the names of the called tools, each once, the newest last."""
    called = [str(one[1]) for value in values for one in json.loads(value.rpartition(TAB)[2])]
    return list(reversed(dict.fromkeys(reversed(called))))
