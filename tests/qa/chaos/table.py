"""The figures of a run, as a table of plain text."""

import re
from collections import Counter
from collections.abc import Mapping

from tests.qa.chaos.check import MORNING, repeated
from tests.qa.chaos.facts import Facts

OFF = re.compile(r"answer #c\d+-\d+ (?!cancelled|unknown)[a-z]")
"""An answer that names the error of a tool, other than what became of a card."""


def table(facts: Facts, seconds: float) -> str:
    tasks = [task for one in facts.requests for task in one.tasks]
    rows: dict[str, object] = {
        "seconds": round(seconds),
        "messages": len(facts.spoken),
        "their runs": Counter(str(one.status) for one in facts.runs),
        "told that the model is away": sum(":down:" in one.key for one in facts.posts),
        "answers not to the point": sum(bool(OFF.search(one.text)) for one in facts.posts),
        "requests": len(facts.requests),
        "their tasks": Counter(task.outcome or "open" for task in tasks),
        "cards": Counter(str(one.state) for one in facts.approvals),
        "their effects": Counter(str(one.effect) or "none" for one in facts.approvals),
        "mails that arrived": len(facts.mails),
        "files shown": len(facts.shown),
        "morning lists": sum(bool(MORNING.match(one.key)) for one in facts.posts),
        "in the journal": Counter(one.kind for one in facts.journal),
        "items handed out again": len(facts.tries),
        "lanes lost to another process": sum(n for event, n in facts.logged.items() if event.startswith("lane lost")),
        "posts said twice": len(repeated(facts.posts)),
        "people, faults, troubles": facts.counts,
    }
    width = max(map(len, rows))
    return "\n".join(f"  {name.ljust(width)}  {_format_value(value)}" for name, value in rows.items())


def _format_value(value: object) -> str:
    told = sorted(value.items()) if isinstance(value, Mapping) else ()
    return ", ".join(f"{name} {times}" for name, times in told if times) or str(value or 0)
