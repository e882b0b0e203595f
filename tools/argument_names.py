"""Names of arguments: tools offer one name for each thing, and accept other names as well. Those are names of earlier
versions, found in stored calls, and names that models write instead."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import model_validator

from tools.spec import FrozenModel

OTHER_NAMES = {
    "request": ("request_id", "id"),
    "process": ("process_key",),
    "name": ("request", "request_id", "process", "id"),
    "task": ("task_id", "request", "request_id", "id"),
    "tasks": ("requests",),
    "person": ("person_id", "name"),
    "people": ("persons", "names", "person"),
    "deputy": ("person", "name"),
    "absence": ("absence_id", "id"),
    "card": ("card_id", "id"),
    "start_date": ("first_day", "start", "from_date", "date", "day"),
    "end_date": ("last_day", "end", "to_date", "until"),
    "days": ("count",),
    "count": ("number",),
    "to": ("recipient", "recipients", "person", "people"),
    "opinion": ("draft", "remark"),
    "decision": ("meant",),
    "text": ("comment", "body"),
    "body": ("text", "content"),
}


def name_arguments(offered: Collection[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Rename arguments to their offered names. An argument keeps its name, and is refused as unknown, if several
    offered names fit it or if another argument fits the offered name too."""
    free = {name: {_fold_name(one) for one in (name, *OTHER_NAMES.get(name, ()))} for name in {*offered} - {*given}}
    meant = {one: [name for name in free if one not in offered and _fold_name(one) in free[name]] for one in given}
    taken = [name for names in meant.values() for name in names]
    return {
        names[0] if len(names) == 1 and taken.count(names[0]) == 1 else one: given[one] for one, names in meant.items()
    }


def _fold_name(name: str) -> str:
    """A name for comparison: without case, blanks, dashes and underscores, which models change."""
    return "".join(filter(str.isalnum, name)).casefold()


class ToolArgs(FrozenModel):
    @model_validator(mode="before")
    @classmethod
    def _use_offered_names(cls, values: Any) -> Any:
        return name_arguments(cls.model_fields, values) if isinstance(values, dict) else values
