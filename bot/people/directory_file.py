"""The directory file: the company's data about people that the chat platform does not have. TOML or CSV."""

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

from bot.core import logs
from bot.core.errors import SettingsError
from tools.file_stamps import FileStamp, build_stamp
from tools.spec import FrozenModel

log = logs.get_logger(__name__)

CHECK_INTERVAL_S = 2.0
"""Shortest time between two checks whether the file has changed (s)."""
COLUMNS = ("email", "manager", "roles", "title", "department", "annual_days", "names")
LIST_COLUMNS = ("roles", "names")
"""Columns whose cells hold several values, separated by `;`."""
TABLE = "[[person]]"

Rows: TypeAlias = Iterator[tuple[int, Mapping[str, Any]]]
"""(line number, row) pairs."""


class DirectoryEntry(FrozenModel):
    """The directory file's data about one person."""

    email: str = ""
    manager: str = ""
    """The manager's e-mail address."""
    roles: frozenset[str] = frozenset()
    title: str = ""
    department: str = ""
    annual_days: Decimal | None = Field(None, ge=0, le=366, multiple_of=0.5)
    """Days of annual leave per year."""
    names: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _validate_addresses(self) -> DirectoryEntry:
        if "@" not in self.email or "@" not in (self.manager or "@"):
            raise ValueError("email and manager should be e-mail addresses")
        if self.email.lower() == self.manager.lower():
            raise ValueError("nobody is their own manager")
        return self


EMPTY_ENTRY = DirectoryEntry.model_construct(email="")


class DirectoryFile:
    """The directory file, read again when it changes. An unusable new version changes nothing and is logged once. Run
    `countersign doctor` to see what is wrong with it."""

    def __init__(self, path: Path | None, clock: Callable[[], float] = time.monotonic) -> None:
        """Read the file. Raises `SettingsError`, as `read_directory_file` does."""
        self._path, self._clock = path, clock
        self._stamp = _read_file_stamp(path)  # before the file, so that a change during reading is noticed
        self.entries = read_directory_file(path)
        """E-mail → data, as last read."""
        self._problem = ""
        """The error found when the file was last read. Empty if there was none."""
        self._looked_at = clock()

    async def reload_if_changed(self, *, at_once: bool = False) -> bool:
        """Read the file if it has changed, in another thread. The file is checked every few seconds at most, or now
        with `at_once`. Return whether there is new data."""
        if self._path is None or (not at_once and self._clock() < self._looked_at + CHECK_INTERVAL_S):
            return False
        self._looked_at = self._clock()
        stamp = await asyncio.to_thread(_read_file_stamp, self._path)
        if stamp == self._stamp:
            return False
        previous_problem, problem, entries = self._problem, "", self.entries
        try:
            entries = await asyncio.to_thread(read_directory_file, self._path)
        except SettingsError as wrong:
            problem = str(wrong)
        self._stamp, self._problem = stamp, problem  # a caller who did not wait so long has not read it
        if problem and problem != previous_problem:
            log.error("directory.not_read", error=problem)
        if problem or (entries == self.entries and not previous_problem):
            return False
        self.entries = entries
        log.info("directory.read", people=len(self.entries))
        return True


def _read_file_stamp(path: Path | None) -> FileStamp | None:
    """Return the file's stamp, or None while the file is unreadable."""
    try:
        return build_stamp(path.stat()) if path else None
    except OSError:
        return None


def read_directory_file(path: Path | None) -> Mapping[str, DirectoryEntry]:
    """Read e-mail → data from a file of `[[person]]` tables or, if its name ends in `.csv`, from a table with a header
    row. Return no data without a file. Raises `SettingsError`, with the line, if the file is missing or invalid."""
    if path is None:
        return {}
    entries: dict[str, DirectoryEntry] = {}
    lines: dict[str, int] = {}
    try:
        text = path.read_text(encoding="utf-8-sig")
        for line, row in _parse_csv_rows(text) if path.suffix.lower() == ".csv" else _parse_toml_rows(text):
            try:
                entry = DirectoryEntry.model_validate(row)
            except ValidationError as error:
                problems = [
                    (*map(str, one["loc"][:1]), one["msg"].removeprefix("Value error, ")) for one in error.errors()
                ]
                raise ValueError(f"line {line}: {'; '.join(map(': '.join, problems))}") from None
            key = entry.email.lower()
            if key in entries:
                raise ValueError(f"line {line}: {entry.email} stands on line {lines[key]} already")
            entries[key], lines[key] = entry, line
    except OSError as error:
        raise SettingsError(f"DIRECTORY_FILE: {path} cannot be read: {error.strerror}") from error
    except (ValueError, csv.Error) as error:
        raise SettingsError(f"DIRECTORY_FILE: {path.name} is odd: {error}") from error
    return entries


def _parse_toml_rows(text: str) -> Rows:
    content = tomllib.loads(text)
    people = content.pop("person", [])
    if content or not (isinstance(people, list) and all(isinstance(row, dict) for row in people)):
        raise ValueError(f"it should hold {TABLE} tables and nothing else")
    lines = [n for n, line in enumerate(text.splitlines(), 1) if "".join(line.split("#")[0].split()) == TABLE]
    yield from zip(lines if len(lines) == len(people) else range(1, len(people) + 1), people, strict=True)


def _parse_csv_rows(text: str) -> Rows:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    header = [name.strip() for name in reader.fieldnames or ()]
    if "email" not in header or set(header) - set(COLUMNS) or len(set(header)) < len(header):
        raise ValueError(f"line 1: the columns can be {', '.join(COLUMNS)}, each once, and email is needed")
    reader.fieldnames = header
    for row in reader:
        if None in row or None in row.values():
            raise ValueError(f"line {reader.line_num}: {len(header)} cells are needed, as in the first line")
        cells: dict[str, Any] = {name: cell.strip() for name, cell in row.items() if cell.strip()}
        for name in cells.keys() & LIST_COLUMNS:
            cells[name] = [part.strip() for part in cells[name].split(";") if part.strip()]
        yield reader.line_num, cells
