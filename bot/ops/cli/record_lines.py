"""Lines of the journal for people: time, kind, person by name and id, the event in words, and the other fields."""

from __future__ import annotations

import os
import re
import shutil
import sys
from contextlib import suppress
from datetime import datetime

import typer
from rich.cells import cell_len, set_cell_size

from bot.core.i18n import detect_terminal_language, load_sentences, translate
from bot.ops.cli.console import format_terminal_time, sanitize_for_terminal
from bot.storage.journal import JournalRecord
from tools.languages import choose_words

KIND_CELLS, WHO_CELLS = 18, 18
"""Minimum widths of these columns in cells."""
_COLOURS = {
    "run": "cyan",
    "message": "cyan",
    "step": "blue",
    "approval": "yellow",
    "effect": "green",
    "process": "magenta",
    "item": "red",
    "model": "red",
}


def find_line_width() -> int | None:
    """Return the width in cells at which a line would wrap, or None if the output is no terminal (a pipe, a file)."""
    with suppress(ValueError):
        return max(20, int(os.environ.get("COLUMNS", "")))
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_record(record: JournalRecord, name: str) -> None:
    typer.echo(format_record_line(record, name, detect_terminal_language(), find_line_width()))


def format_record_line(record: JournalRecord, name: str, language: str, width: int | None) -> str:
    """Format a record as one line, cut at the terminal's width. `--json` and a pipe get all of it."""
    is_today = datetime.fromtimestamp(record.at_ms / 1000).date() == datetime.now().date()
    at = format_terminal_time(record.at_ms, "%H:%M:%S" if is_today else "%m-%d %H:%M:%S")
    kind = sanitize_for_terminal(record.kind)
    who = sanitize_for_terminal(f"{name} {record.person}".strip() or "-")
    words, fields = describe_record(record, language), {"run": record.run, **record.more}
    if width is not None and _build_word_key(record) in load_sentences():
        fields = {name: value for name, value in fields.items() if name not in _IN_WORDS}
    details = " ".join(f"{name}={value}" for name, value in fields.items() if value not in ("", None))
    said = sanitize_for_terminal(f"{words}  {details}".strip())
    kind, who = _fill_cells(kind, KIND_CELLS), _fill_cells(who, WHO_CELLS)
    before = f"{at} {kind} {who} "
    if width is not None:
        said = cut_to_cells(said, width - cell_len(before))
    colour = _COLOURS.get(record.kind.partition(".")[0], "white")
    line = f"{at} {typer.style(kind, fg=colour)} {who} {said}".rstrip()
    return line if width is None or cell_len(before) <= width else cut_to_cells(before.rstrip(), width)


_IN_WORDS = frozenset(
    {*("steps", "characters", "files", "ms", "tokens_in", "tokens_out", "cost", "currency", "why", "tool", "error")}
)
"""Fields whose values the sentence in words contains already."""


_GAP = re.compile(r"\{\w+\}")
"""A part of a sentence that the journal does not keep."""


def _build_word_key(record: JournalRecord) -> str:
    return f"journal.{record.kind.replace('.', '_')}"


def describe_record(record: JournalRecord, language: str) -> str:
    """Describe a record in words; without a sentence for its kind, by its text and subject."""
    key = _build_word_key(record)
    if key not in load_sentences():
        sentence = load_sentences().get(record.text, {"en": record.text})  # a notice is kept as the key of its sentence
        words = " ".join(_GAP.sub("…", choose_words(sentence, language)).split())
        return " ".join(filter(None, (words, str(record.more.get("subject", "")))))
    more = record.more  # a record of an earlier version may lack any of these
    cost = f"{more['cost']} {more.get('currency', '')}" if more.get("cost") else ""
    words = translate(
        key,
        language,
        n=more.get("steps", more.get("characters", "?")),
        files=translate("journal.with_files", language, n=more["files"]) if more.get("files") else "",
        seconds=f"{_read_number(more.get('ms')) / 1000:.1f}",
        tokens=f"{_read_number(more.get('tokens_in')) + _read_number(more.get('tokens_out')):,}",
        cost=translate("journal.for_cost", language, cost=cost) if cost else "",
        why=more.get("why", ""),
        tool=more.get("tool", ""),
        error=f" ✗ {more['error']}" if more.get("error") else "",
        text=record.text,
    )
    return words.strip(" :：.。")


def _read_number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _fill_cells(text: str, least: int) -> str:
    return text + " " * max(0, least - cell_len(text))


def cut_to_cells(text: str, most: int) -> str:
    """Cut a text to a number of cells. A Chinese character takes two."""
    if cell_len(text) <= most:
        return text
    return set_cell_size(text, max(0, most - 1)).rstrip() + "…" if most > 0 else ""
