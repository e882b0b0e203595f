"""The directory file: what a company knows of its people and the chat platform does not. TOML or CSV."""

from __future__ import annotations

import asyncio
import csv
import io
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import Field, ValidationError, model_validator

from bot import logs
from bot.errors import SettingsWrong
from tools.spec import Frozen

log = logs.get(__name__)

LOOK_S = 2.0
"""How often, at most, it is looked whether the file has changed."""
COLUMNS = ("email", "manager", "roles", "title", "department", "annual_days", "names")
LISTS = ("roles", "names")
"""Columns whose cells hold several, with `;` between."""
TABLE = "[[person]]"

Stamp: TypeAlias = tuple[int, int, int, int] | None
Rows: TypeAlias = Iterator[tuple[int, Mapping[str, Any]]]
"""(line, row)."""


class Facts(Frozen):
    """What the directory file says of one person. Empty: nothing."""

    email: str = ""
    manager: str = ""
    """E-mail of the manager."""
    roles: frozenset[str] = frozenset()
    title: str = ""
    department: str = ""
    annual_days: Decimal | None = Field(None, ge=0, le=366, multiple_of=0.5)
    """Days of annual leave a year."""
    names: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _sensible(self) -> Facts:
        if "@" not in self.email or "@" not in (self.manager or "@"):
            raise ValueError("email and manager should be e-mail addresses")
        if self.email.lower() == self.manager.lower():
            raise ValueError("nobody is their own manager")
        return self


NOTHING = Facts.model_construct(email="")


class FactsFile:
    """The directory file, read again when it changes. A new version that cannot be used changes nothing, and is logged
    once; `countersign doctor` says what is wrong with it."""

    def __init__(self, path: Path | None, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises `SettingsWrong`, as `read_facts` does."""
        self._path, self._clock = path, clock
        self._stamp, self.known = _load(path)
        """`known`: e-mail → facts, as last read."""
        self._looked_at = clock()

    async def reload(self, *, at_once: bool = False) -> bool:
        """True if there are new facts. Looks at the file every few seconds at most, or `at_once`; reads it beside the
        event loop."""
        if self._path is None or (not at_once and self._clock() < self._looked_at + LOOK_S):
            return False
        self._looked_at = self._clock()
        if await asyncio.to_thread(_stamp_of, self._path) == self._stamp:
            return False
        try:
            self._stamp, self.known = await asyncio.to_thread(_load, self._path)
        except SettingsWrong as wrong:
            self._stamp = await asyncio.to_thread(_stamp_of, self._path)
            log.error("directory.not_read", error=str(wrong))
            return False
        log.info("directory.read", people=len(self.known))
        return True


def _load(path: Path | None) -> tuple[Stamp, Mapping[str, Facts]]:
    """The stamp first: what changes while the file is read is noticed at the next look."""
    return _stamp_of(path), read_facts(path)


def _stamp_of(path: Path | None) -> Stamp:
    """What differs as soon as the file is written or replaced; None while it cannot be looked at."""
    try:
        found = path.stat() if path else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino) if found else None


def read_facts(path: Path | None) -> Mapping[str, Facts]:
    """e-mail → facts, from a file of `[[person]]` tables or, by its ending `.csv`, a table with a header row; nothing
    without a file. Raises SettingsWrong, with the line, when the file is missing or odd."""
    if path is None:
        return {}
    try:
        text = path.read_text(encoding="utf-8-sig")
        return _known(_of_csv(text) if path.suffix.lower() == ".csv" else _of_toml(text))
    except OSError as error:
        raise SettingsWrong(f"DIRECTORY_FILE: {path} cannot be read: {error.strerror}") from error
    except (ValueError, csv.Error) as error:
        raise SettingsWrong(f"DIRECTORY_FILE: {path.name} is odd: {error}") from error


def _known(rows: Rows) -> Mapping[str, Facts]:
    known: dict[str, Facts] = {}
    lines: dict[str, int] = {}
    for line, row in rows:
        facts = _facts(line, row)
        key = facts.email.lower()
        if key in known:
            raise ValueError(f"line {line}: {facts.email} stands on line {lines[key]} already")
        known[key], lines[key] = facts, line
    return known


def _facts(line: int, row: Mapping[str, Any]) -> Facts:
    try:
        return Facts.model_validate(row)
    except ValidationError as error:
        wrong = "; ".join(_said(one["loc"], one["msg"]) for one in error.errors())
        raise ValueError(f"line {line}: {wrong}") from None


def _said(place: tuple[int | str, ...], message: str) -> str:
    return ": ".join((*map(str, place[:1]), message.removeprefix("Value error, ")))


def _of_toml(text: str) -> Rows:
    content = tomllib.loads(text)
    people = content.pop("person", [])
    if content or not (isinstance(people, list) and all(isinstance(row, dict) for row in people)):
        raise ValueError(f"it should hold {TABLE} tables and nothing else")
    lines = [n for n, line in enumerate(text.splitlines(), 1) if "".join(line.split("#")[0].split()) == TABLE]
    yield from zip(lines if len(lines) == len(people) else range(1, len(people) + 1), people, strict=True)


def _of_csv(text: str) -> Rows:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    header = [name.strip() for name in reader.fieldnames or ()]
    if "email" not in header or set(header) - set(COLUMNS) or len(set(header)) < len(header):
        raise ValueError(f"line 1: the columns can be {', '.join(COLUMNS)}, each once, and email is needed")
    reader.fieldnames = header
    for row in reader:
        if None in row or None in row.values():
            raise ValueError(f"line {reader.line_num}: {len(header)} cells are needed, as in the first line")
        cells = {name: cell.strip() for name, cell in row.items() if cell.strip()}
        yield reader.line_num, {name: _list(cell) if name in LISTS else cell for name, cell in cells.items()}


def _list(cell: str) -> list[str]:
    return [part.strip() for part in cell.split(";") if part.strip()]
