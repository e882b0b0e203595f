"""Reads what a message carries besides its own words: forwarded messages and tables. Each is quoted, with its author.

Slack sends a forwarded message as an attachment with `is_share`, and a pasted table as a block of type `table`. The
previews of links are attachments too. Nobody wrote them to us, so they are left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.chat.messages import SentFile
from bot.core.i18n import translate
from bot.platforms.shared import MAX_QUOTE, MAX_QUOTES, join_quotes, list_mappings, quote, quote_forwarded
from bot.platforms.slack.files import parse_sent_files
from bot.platforms.slack.text import parse_message_text
from tools.characters import show_invisible

MAX_AUTHOR = 80
"""Most characters of an author's name."""
MAX_ROWS, MAX_CELLS = 100, 20
"""Rows and cells of a table: Slack's own limits."""
MAX_DEPTH = 4
"""Deepest nesting of rich text: sections in lists in quotes."""


def read_quotes(event: Mapping[str, Any], bot: str, language: str) -> str:
    """Return all quotes as text, each under a line that says what it is. Quotes beyond the limit are counted. `bot` is
    our own id."""
    forwarded = _list_forwarded(event)
    quotes = list[str]()
    for one in forwarded[:MAX_QUOTES]:
        named = one.get("author_name") or one.get("author_subname")
        author = show_invisible(" ".join(named[:MAX_AUTHOR].split())) if isinstance(named, str) else "?"
        text = "\n".join(filter(None, (_read_text(one.get("text"), bot), *_quote_tables(one, bot, language))))
        quotes.append(quote_forwarded(author, text, language))
    quotes += _quote_tables(event, bot, language)
    return join_quotes(quotes, len(forwarded) - MAX_QUOTES, language)


def list_forwarded_files(event: Mapping[str, Any]) -> tuple[SentFile, ...]:
    return tuple(file for one in _list_forwarded(event)[:MAX_QUOTES] for file in parse_sent_files(one.get("files")))


def _list_forwarded(event: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one for one in list_mappings(event.get("attachments")) if one.get("is_share") is True]


def _quote_tables(holder: Mapping[str, Any], bot: str, language: str) -> list[str]:
    """Quote the tables of a message, with a line for each row, as far as there is room."""
    quotes, tables = list[str](), [one for one in list_mappings(holder.get("blocks")) if one.get("type") == "table"]
    for table in tables[:MAX_QUOTES]:
        rows, lines, room = table.get("rows"), list[str](), MAX_QUOTE
        for row in rows[:MAX_ROWS] if isinstance(rows, list) else []:
            cells = row[:MAX_CELLS] if isinstance(row, list) else []
            line = " | ".join(" ".join(_read_cell(cell, bot).split()) for cell in cells)
            room -= len(line)
            lines.append("…" if room < 0 else line)
            if room < 0:
                break
        quotes.append(quote(translate("slack.table", language), "\n".join(lines)))
    return quotes


def _read_cell(cell: object, bot: str, depth: int = 0) -> str:
    """Return the text of a cell: raw text, or rich text with nested parts."""
    if not isinstance(cell, Mapping) or depth > MAX_DEPTH:
        return ""
    own = cell.get("text")
    if isinstance(own, str):
        return _read_text(own, bot)
    return "".join(_read_cell(part, bot, depth + 1) for part in list_mappings(cell.get("elements"))[:MAX_CELLS])


def _read_text(text: object, bot: str) -> str:
    """Parse a text, bounded before it is parsed."""
    if not isinstance(text, str):
        return ""
    shown = parse_message_text(text[:MAX_QUOTE], bot)
    return shown + "…" if len(text) > MAX_QUOTE else shown
