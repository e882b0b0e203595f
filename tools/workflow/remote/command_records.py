"""Records stored with an instance, one per command, so that the engine alone is enough to rebuild a `Request`.

A record is one process variable. Wherever the engine allows it, the record is written in one step with the recorded
change. Variables are `countersign_start`, `countersign_task_<task>` (the decision of a task) and
`countersign_act_<hash>` (everything else). A decision and its author are thus never separated, and a repeated command
finds its own key in the record."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import TypeVar

from pydantic import ValidationError

from tools.workflow.engine.commands import Command, DecideCommand, StartCommand
from tools.workflow.engine.state import CompactRecord

PREFIX = "countersign_"
START = f"{PREFIX}start"
PIECE_LENGTH = 1_900
"""Characters per variable: Camunda stores text in VARCHAR(4000), on Oracle in NVARCHAR2(2000)."""


R = TypeVar("R", bound="CommandRecord")


class CommandRecord(CompactRecord):
    key: str
    """The command's idempotency key."""
    at: datetime
    command: Command
    round: int = 1


class DecisionRecord(CommandRecord):
    command: DecideCommand


class StartRecord(CommandRecord):
    command: StartCommand


def build_record_variables(record: CommandRecord, item: str = "") -> dict[str, str]:
    """The variables of a record. `item` is the engine's id of the decided task."""
    if item:
        name = f"{PREFIX}task_{item}"
    elif isinstance(record.command, StartCommand):
        name = START
    else:
        name = f"{PREFIX}act_{hashlib.sha256(record.key.encode()).hexdigest()[:16]}"
    text = record.model_dump_json()
    pieces = [text[i : i + PIECE_LENGTH] for i in range(0, len(text), PIECE_LENGTH)]
    # The first piece says how many there are, so that leftovers of a longer text do no harm.
    pieces[0] = f"{len(pieces)}|{pieces[0]}"
    return {f"{name}.{i}" if i else name: piece for i, piece in enumerate(pieces)}


def find_decision_record(variables: Mapping[str, object], item: str) -> DecisionRecord | None:
    """The record of a task's decision, if it was made through us."""
    return _parse_record(variables, f"{PREFIX}task_{item}", DecisionRecord)


def find_start_record(variables: Mapping[str, object]) -> StartRecord | None:
    """The record of the start; None for an instance that was not started by us."""
    return _parse_record(variables, START, StartRecord)


def list_action_records(variables: Mapping[str, object]) -> tuple[CommandRecord, ...]:
    """All records except decisions of tasks, oldest first."""
    names = [n for n in variables if n.startswith(f"{PREFIX}act_") and "." not in n]
    return tuple(sorted(filter(None, (_parse_record(variables, n, CommandRecord) for n in names)), key=lambda r: r.at))


def _parse_record(variables: Mapping[str, object], name: str, kind: type[R]) -> R | None:
    """Parse a record; None if it is missing or unreadable, because text by others is no record."""
    count, _, text = str(variables.get(name) or "").partition("|")
    if not (count.isascii() and count.isdigit()):
        return None
    text += "".join(str(variables.get(f"{name}.{i}", "")) for i in range(1, min(int(count), 100)))
    try:
        return kind.model_validate_json(text) if text else None
    except ValidationError:
        return None
