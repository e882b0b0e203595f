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

from bot.chat.slack.text import (
    bracketless,
    chunks,
    escape,
    fenced,
    formats,
    mention,
    plain,
    prose,
    quote_inline,
    shortened,
)
from bot.events import Button, Card, NamedPeople, NamedPerson, Post
from tools.characters import show_invisible

Block: TypeAlias = dict[str, Any]
Fact: TypeAlias = tuple[str, str | NamedPeople]
"""(label, value)."""

BLOCKS = 50
"""Blocks a message may have."""
MESSAGE = 12_000
"""Bytes of JSON a message's blocks may have."""
SECTION, FIELD, CONTEXT, PROSE = 2_900, 200, 1_900, 10_000
"""Bytes of text in a section, in one of two columns, in a context line, in a `markdown` block."""
HEADER, LABEL, NOTICE, BUTTONS = 150, 75, 1_000, 25
"""UTF-16 units of a header, a button, a notification (`chat.update` takes 4,000 bytes); buttons in a row."""
NAME, ADDRESS = 100, 320
"""UTF-16 units of a person's name (Slack takes 80) and of an e-mail address (RFC 5321 allows 254)."""


@dataclass(frozen=True, slots=True)
class Part:
    """One message: its blocks, and what notifications and screen readers say."""

    text: str
    blocks: tuple[Block, ...]


def parts(post: Post) -> tuple[Part, ...]:
    """The messages that show this post, in order; the last one carries the buttons."""
    if post.card is None:
        said = [*(_plain(post.text) if post.plain else _prose(post.text))]
        said += _people(post.people.people, bold(post.people.text) + "\n") if post.people else []
        notice = post.text if post.plain else post.text.replace("**", "")  # a notification shows the stars themselves
        return _parts(notice, "", [*said, *context(post.receipt)], actions(post.buttons))
    card, text = post.card, post.text or post.card.title
    pieces = [*_full_title(card.title), *content(card), *context(post.receipt)]
    return _parts(text, card.title, pieces, actions(card.buttons))


def _parts(text: str, title: str, pieces: list[Block], last: list[Block]) -> tuple[Part, ...]:
    pages = list(_pages(pieces, MESSAGE - size([*heading(title), *last]), BLOCKS - 2 - len(last)))
    notice = shortened(escape(show_invisible(text)), NOTICE) or "…"
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
    yield from _plain(card.lead)
    yield from _facts(card.facts)
    yield from literal(card.body, always=True)
    yield from context(card.footer)


def _facts(facts: tuple[Fact, ...]) -> Iterator[Block]:
    for short, group in groupby(facts, _is_short):
        if short:
            yield from _columns([mrkdwn(f"{bold(label)}\n{_short(value)}") for label, value in group])
        else:
            for label, value in group:
                yield from _long(label, value)


def _short(value: str | NamedPeople) -> str:
    if isinstance(value, str):
        return escape(show_invisible(value)) or "—"
    return "\n".join(filter(None, (escape(show_invisible(value.text)), *map(_person, value.people))))


def _is_short(fact: Fact) -> bool:
    label, value = fact
    if isinstance(value, NamedPeople):
        return (
            len(value.people) == 1
            and not formats(show_invisible(value.text))
            and len((label + _short(value)).encode()) <= FIELD
        )
    return not formats(show_invisible(value)) and len((label + show_invisible(value)).encode()) <= FIELD


def _long(label: str, value: str | NamedPeople) -> Iterator[Block]:
    before = bold(label) + "\n"
    if isinstance(value, str):
        yield from literal(value, before)
        return
    if value.text:
        yield from literal(value.text, before)
    yield from _people(value.people, "" if value.text else before)


def _people(people: tuple[NamedPerson, ...], before: str) -> Iterator[Block]:
    """One below the other, in as many sections as it takes."""
    text = before
    for one in people:
        line = _person(one)
        if text != before and len((text + line).encode()) >= SECTION:
            yield section(text.rstrip("\n"))
            text = ""
        text += line + "\n"
    if text != before:
        yield section(text.rstrip("\n"))


def _person(one: NamedPerson) -> str:
    """Name and mention, then what people cannot choose themselves, then why they may be mistaken. The mention is made
    here and of nothing but the id; the rest is quoted."""
    name, email = quote_inline(shortened(one.name, NAME)), quote_inline(shortened(one.email, ADDRESS))
    named, more = " ".join(filter(None, (name, mention(one.id)))), map(quote_inline, one.more)
    lines = [named, email, *more, *(f"⚠ {escape(mark)}" for mark in one.marks)]
    return "\n".join(filter(None, lines))


def _columns(fields: list[Block]) -> Iterator[Block]:
    for start in range(0, len(fields), 10):
        yield {"type": "section", "fields": fields[start : start + 10]}


def bold(label: str) -> str:
    text = escape(show_invisible(shortened(label, HEADER)))
    return text if formats(label) else f"*{text}*"


def literal(text: str, before: str = "", *, always: bool = False) -> Iterator[Block]:
    """Somebody's text exactly as it is and in full; preformatted `always`, or when it is long or anything
    in it could be taken for formatting."""
    pieces = list(chunks(show_invisible(text), SECTION - len(before.encode())))
    quoted = always or len(pieces) > 1 or formats(show_invisible(text))
    for number, piece in enumerate(pieces):
        yield section((before if number == 0 else "") + (fenced(piece) if quoted else escape(piece)))


def section(text: str) -> Block:
    """mrkdwn that is never folded behind *see more*."""
    return {"type": "section", "text": mrkdwn(text), "expand": True}


def mrkdwn(text: str) -> Block:
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def context(text: str) -> Iterator[Block]:
    """Small print, in full."""
    for chunk in chunks(show_invisible(text), CONTEXT):
        if chunk.strip():
            yield {"type": "context", "elements": [plain_text(bracketless(chunk))]}


def plain_text(text: str) -> Block:
    return {"type": "plain_text", "text": text, "emoji": False}


def _plain(text: str) -> Iterator[Block]:
    for chunk in chunks(show_invisible(text), SECTION):
        if chunk.strip():
            yield {"type": "section", "text": plain_text(bracketless(chunk)), "expand": True}


def _prose(text: str) -> Iterator[Block]:
    for chunk in chunks(show_invisible(text), PROSE):
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
