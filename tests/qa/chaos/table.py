"""The figures of a run, as a table of plain text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from bot.core.records import ApprovalState, EffectState, RunStatus
from tests.qa.chaos.check import MORNING, repeated
from tests.qa.chaos.facts import Facts

OFF = re.compile(r"answer #c\d+-\d+ (?!cancelled|unknown)[a-z]")
"""An answer that names the error of a tool, other than what became of a card."""
SHOWN = (
    "kill", "stop", "redis", "refuse", "stall", "dead", "cut", "promote", "socket", "away", "api",
    "api away",
)  # fmt: skip
CARRIED = ("withheld", "unheard", "twice", "late", "lost", "redelivered")


def table(facts: Facts, seconds: float) -> str:
    rows = list(_rows(facts, seconds))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name.ljust(width)}  {value}" for name, value in rows)


def _rows(facts: Facts, seconds: float) -> Iterator[tuple[str, str]]:
    runs = Counter(run.status for run in facts.runs)
    yield "seconds", f"{seconds:.0f}"
    yield "messages accepted", f"{len(facts.spoken)}"
    yield "  answered", f"{runs[RunStatus.DONE]}"
    yield "  answered: stopped", f"{runs[RunStatus.STOPPED]}"
    yield "  taken back", f"{runs[RunStatus.CANCELLED]}"
    yield "  waiting for a button", f"{runs[RunStatus.PAUSED]}"
    yield "told that the model is away", f"{sum(':down:' in one.key for one in facts.posts)}"
    yield "answers not to the point", f"{sum(bool(OFF.search(one.text)) for one in facts.posts)}"
    yield "presses taken, by others too", f"{facts.counts.get('presses taken', 0)}"
    sets = (str(facts.counts.get(name, 0)) for name in ("sets asked for", "presses of sets"))
    yield "sets asked for, and pressed", ", ".join(sets)
    done = ("edits", "reject", "return", "transfer", "add_sign", "resubmit")
    yield "done by people", ", ".join(f"{name} {facts.counts[name]}" for name in done if facts.counts.get(name))
    yield "files on requests, shown", f"{sum(len(one.filled.files) for one in facts.requests)}, {len(facts.shown)}"
    yield "morning lists", f"{sum(bool(MORNING.match(one.key)) for one in facts.posts)}"
    yield "  refused", f"{sum(one.kind == 'approval.refused' for one in facts.journal)}"
    yield "  decided", f"{sum(bool(one.press_id) for one in facts.approvals)}"
    yield "  pressed again", f"{facts.counts.get('pressed again', 0)}"
    yield "requests started", f"{len(facts.requests)}"
    yield "tasks decided", f"{sum(len(one.opinions) for one in facts.requests)}"
    yield "  escalated", f"{sum(task.outcome == 'escalated' for one in facts.requests for task in one.tasks)}"
    yield "mails that arrived", f"{len(facts.mails)}"
    yield "  unknown, waiting for a person", f"{sum(one.effect is EffectState.UNKNOWN for one in facts.approvals)}"
    yield "cards open", f"{sum(one.state is ApprovalState.OPEN for one in facts.approvals)}"
    yield "cards expired", f"{sum(one.state is ApprovalState.EXPIRED for one in facts.approvals)}"
    yield "conversations summed up", f"{sum(one.kind == 'history.folded' for one in facts.journal)}"
    yield "items handed out again", f"{len(facts.tries)}"
    lost = sum(n for event, n in facts.logged.items() if event.startswith("lane lost"))
    yield "lanes lost to another process", f"{lost}"
    yield "posts said twice", f"{len(repeated(facts.posts))}"
    yield "bots that could not start, and tried again", f"{facts.counts.get('bots that could not start', 0)}"
    yield "faults", ", ".join(f"{name} {facts.counts[name]}" for name in (*SHOWN, *CARRIED) if facts.counts.get(name))
    told = (f"{name[8:]} {n}" for name, n in sorted(facts.counts.items()) if name.startswith("refused "))
    yield "refused by Redis with", ", ".join(told)
    yield "model", ", ".join(f"{name} {n}" for name, n in facts.counts.items() if name.startswith("model"))
    yield "mail troubles", ", ".join(f"{name[5:]} {n}" for name, n in facts.counts.items() if name.startswith("smtp "))
