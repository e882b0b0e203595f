"""Finds the place of an error in a form's file: the part that the problem names first, and its line.

Lines are found in the usual spelling: `[table]`, `[[table]]` and `key = …`, each on a line of its own. In other
spellings the part is named without a line."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

_PLACE = re.compile(
    r"(?:(?P<table>[a-z]+) row (?P<row>\d{1,6})(?:, (?P<part>[^:]+))?|field '(?P<field>[a-z_]+)'"
    r"|(?P<key>[a-z_]+)(?:, (?P<inner>[^:]+))?): "
)
_HEADER = re.compile(r"\s*\[(\[?)\s*([A-Za-z_-]+)\s*\]")
_KEY = re.compile(r"\s*([A-Za-z_-]+)\s*=\s*(.*)")
_TOML_LINE = re.compile(r"\(at line (\d{1,9}),")


@dataclass(frozen=True, slots=True)
class FormPlace:
    """A place in a form's file: row `row` of `[[table]]`, the `[[field]]` named `field`, or the key or table `key`.
    `part` is the part within it."""

    table: str = ""
    row: int = 0
    field: str = ""
    key: str = ""
    part: str = ""


def split_place(problem: str) -> tuple[FormPlace | None, str]:
    """Split a problem into its place and the rest: `policy row 2, who 1: 'boss' names nobody`. The place is None if the
    problem names none."""
    found = _PLACE.match(problem)
    if found is None:
        return None, problem
    place = FormPlace(
        table=found["table"] or "",
        row=int(found["row"] or 0),
        field=found["field"] or "",
        key=found["key"] or "",
        part=found["part"] or found["inner"] or "",
    )
    return place, problem[found.end() :]


def find_form_line(toml: bytes, problem: str) -> int:
    """The line of a problem in the form's file, from 1; 0 if it is unknown."""
    if said := _TOML_LINE.search(problem):
        return int(said[1])
    place, _ = split_place(problem)
    if place is None:
        return 0
    # Line, table, number of the table among those of its name, key (empty for the table's own line), text after it.
    lines: list[tuple[int, str, int, str, str]] = []
    name, counts = "", Counter[str]()
    for number, line in enumerate(toml.decode("utf-8", "replace").splitlines(), 1):
        if header := _HEADER.match(line):
            name = header[2]
            counts[name] += 1
            lines.append((number, name, counts[name], "", ""))
        elif pair := _KEY.match(line):
            lines.append((number, name, counts[name], pair[1], pair[2]))
    inner = place.part.partition(" ")[0]
    if place.field:
        names = ((n, value) for n, table, _, key, value in lines if (table, key) == ("field", "name"))
        return next((n for n, value in names if value.strip("\"' ") == place.field), 0)
    if place.table:
        own = [(n, key) for n, table, row, key, _ in lines if (table, row) == (place.table, place.row)]
    else:
        own = [(n, key) for n, table, _, key, _ in lines if table == place.key or (not table and key == place.key)]
    return next((n for n, key in own if inner and key == inner), own[0][0] if own else 0)
