"""What a card says of other requests that claim the same, for whoever decides and for the author before confirming."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from tools.spec import Fact, Note
from tools.tool import Use
from tools.workflow.forms import FieldKind
from tools.workflow.process import Process
from tools.workflow.repeating import find_identical, find_same_file
from tools.workflow.state import Filled, Request

SHOWN = 5
"""Other requests that one fact names: the newest."""


async def identical_facts(
    use: Use, process: Process, filled: Filled, author: str, started: datetime, request_id: str = ""
) -> tuple[Fact, ...]:
    """Which of the author's other requests claim the same, by the form's `identical`. Nothing for a form without it.
    `request_id`: the request itself, once it has a number."""
    form = process.form
    if not form.identical:
        return ()
    person = await use.desk.directory.get(author)
    others = await use.desk.engine.mine(author)
    zone = person.zone if person else use.now.tzinfo
    assert zone is not None, "times are aware"
    alike = find_identical(form, request_id, filled, started, zone, others)
    facts = [_fact(use, "identical", alike)] if alike else []
    return (*facts, *_same_files(use, process, filled, request_id, [one for one in others if one not in alike]))


def _same_files(
    use: Use, process: Process, filled: Filled, request_id: str, others: Sequence[Request]
) -> Iterator[Fact]:
    """A receipt that was handed in before is told of, whatever else the other request says."""
    form = process.form
    for field in form.fields:
        if field.name not in form.identical or field.kind is not FieldKind.ATTACHMENT:
            continue
        if found := find_same_file(form, request_id, filled, field.name, others):
            yield _fact(use, {"zh": f"同一{field.label.zh}", "en": f"Same {field.label.en.lower()}"}, found)


def _fact(use: Use, label: str | dict[str, str], found: Sequence[Request]) -> Fact:
    newest = sorted(found, key=lambda one: one.started, reverse=True)[:SHOWN]
    more = len(found) - len(newest)
    told = {
        "zh": "、".join(f"{one.id}（{_status(use, one, 'zh')}）" for one in newest)
        + (f" 等 {len(found)} 份" if more else ""),
        "en": ", ".join(f"{one.id} ({_status(use, one, 'en').lower()})" for one in newest)
        + (f" and {more} more" if more else ""),
    }
    return Fact(label=label, value=Note(key="fact.identical", params={"requests": told}))


def _status(use: Use, request: Request, language: str) -> str:
    return use.desk.words(Note(key=f"status.{request.standing}"), language)
