"""Posts as Block Kit.

Everything on a card is shown in full: long text is split over several blocks, and what does not fit one
message goes into further messages before the one with the buttons. Nothing is ever cut off a card, because
what is shown is what will be executed. Limits: docs.slack.dev, Block Kit reference; the sum of a message's
text has an undocumented one (`msg_blocks_too_long`, seen at 13,200), kept here by counting bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

from bot.chat.slack.text import bracketless, chunks, escape, fenced, formats, plain, prose, shortened, visible
from bot.events import Button, Card, Post

Block: TypeAlias = dict[str, Any]

BLOCKS = 50
"""Blocks a message may have."""
MESSAGE = 12_000
"""Bytes of JSON a message's blocks may have."""
SECTION, FIELD, CONTEXT, PROSE = 2_900, 200, 1_900, 10_000
"""Bytes of text in a section, in one of two columns, in a context line, in a `markdown` block."""
HEADER, LABEL, NOTICE, BUTTONS = 150, 75, 1_000, 25
"""UTF-16 units of a header, a button, a notification (`chat.update` takes 4,000 bytes); buttons in a row."""


@dataclass(frozen=True, slots=True)
class Part:
    """One message: its blocks, and what notifications and screen readers say."""

    text: str
    blocks: tuple[Block, ...]


def parts(post: Post) -> tuple[Part, ...]:
    """The messages that show this post, in order; the last one carries the buttons."""
    if post.card is None:
        said = _plain(post.text) if post.plain else _prose(post.text)
        return _parts(post.text, "", [*said, *context(post.receipt)], actions(post.buttons))
    card, text = post.card, post.text or post.card.title
    pieces = [*_full_title(card.title), *content(card), *context(post.receipt)]
    return _parts(text, card.title, pieces, actions(card.buttons))


def _parts(text: str, title: str, pieces: list[Block], last: list[Block]) -> tuple[Part, ...]:
    pages = list(_pages(pieces, MESSAGE - size([*heading(title), *last]), BLOCKS - 2 - len(last)))
    notice = shortened(escape(visible(text)), NOTICE) or "…"
    return tuple(
        Part(notice, (*heading(title, number, len(pages)), *page, *(last if number == len(pages) else ())))
        for number, page in enumerate(pages, 1)
    )


def _pages(pieces: list[Block], room: int, count: int) -> Iterator[list[Block]]:
    page: list[Block] = []
    for piece in pieces:
        if page and (len(page) >= count or size([*page, piece]) > room):
            yield page
            page = []
        page.append(piece)
    yield page


def size(blocks: Iterable[Block]) -> int:
    """Bytes of the blocks' JSON."""
    return sum(len(json.dumps(block, ensure_ascii=False).encode()) for block in blocks)


def heading(title: str, number: int = 1, total: int = 1) -> list[Block]:
    """The first line of a card; `(2/3)` when it continues."""
    if not plain(title, HEADER):
        return []
    count = f" ({number}/{total})" if total > 1 else ""
    text = plain(title, HEADER - len(count)) + count
    return [{"type": "header", "text": plain_text(text)}]


def _full_title(title: str) -> Iterator[Block]:
    """The title once more when the header could not show it as it is."""
    return iter(()) if plain(title, HEADER - 10) == title else literal(title)


def named(title: str) -> list[Block]:
    """A title inside a page of several cards."""
    return list(literal(title)) if formats(title) else [section(bold(title))]


def content(card: Card) -> Iterator[Block]:
    """All that a card says below its title and above its buttons."""
    yield from _facts(card.facts)
    yield from literal(card.body, always=True)
    yield from context(card.footer)


def _facts(facts: tuple[tuple[str, str], ...]) -> Iterator[Block]:
    for short, group in groupby(((label, visible(value)) for label, value in facts), _is_short):
        if short:
            yield from _columns([mrkdwn(f"{bold(label)}\n{escape(value) or '—'}") for label, value in group])
        else:
            for label, value in group:
                yield from literal(value, bold(label) + "\n")


def _is_short(fact: tuple[str, str]) -> bool:
    return not formats(fact[1]) and len("".join(fact).encode()) <= FIELD


def _columns(fields: list[Block]) -> Iterator[Block]:
    for start in range(0, len(fields), 10):
        yield {"type": "section", "fields": fields[start : start + 10]}


def bold(label: str) -> str:
    text = escape(visible(shortened(label, HEADER)))
    return text if formats(label) else f"*{text}*"


def literal(text: str, before: str = "", *, always: bool = False) -> Iterator[Block]:
    """Somebody's text exactly as it is and in full; preformatted `always`, or when it is long or anything
    in it could be taken for formatting."""
    pieces = list(chunks(visible(text), SECTION - len(before.encode())))
    quoted = always or len(pieces) > 1 or formats(visible(text))
    for number, piece in enumerate(pieces):
        yield section((before if number == 0 else "") + (fenced(piece) if quoted else escape(piece)))


def section(text: str) -> Block:
    """mrkdwn that is never folded behind *see more*."""
    return {"type": "section", "text": mrkdwn(text), "expand": True}


def mrkdwn(text: str) -> Block:
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def context(text: str) -> Iterator[Block]:
    """Small print, in full."""
    for chunk in chunks(visible(text), CONTEXT):
        if chunk.strip():
            yield {"type": "context", "elements": [plain_text(bracketless(chunk))]}


def plain_text(text: str) -> Block:
    return {"type": "plain_text", "text": text, "emoji": False}


def _plain(text: str) -> Iterator[Block]:
    for chunk in chunks(visible(text), SECTION):
        if chunk.strip():
            yield {"type": "section", "text": plain_text(bracketless(chunk)), "expand": True}


def _prose(text: str) -> Iterator[Block]:
    for chunk in chunks(visible(text), PROSE):
        if chunk.strip():
            yield {"type": "markdown", "text": prose(chunk)}


def actions(buttons: tuple[Button, ...], where: str = "") -> list[Block]:
    """Rows of buttons. `where` keeps block ids apart when several cards share a page."""
    rows = [buttons[start : start + BUTTONS] for start in range(0, len(buttons), BUTTONS)]
    return [
        {
            "type": "actions",
            "block_id": f"cs:{where}{row[0].approval}.{row[0].version}:{number}",
            "elements": [_button(button) for button in row],
        }
        for number, row in enumerate(rows)
    ]


def _button(button: Button) -> Block:
    element: Block = {
        "type": "button",
        "action_id": f"cs:{button.choice}",
        "text": {"type": "plain_text", "text": plain(button.label, LABEL) or "…", "emoji": False},
        "value": f"{button.approval}.{button.version}",
    }
    return element | ({"style": "primary"} if button.style == "primary" else {})
