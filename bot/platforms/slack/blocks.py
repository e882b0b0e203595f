"""Renders posts as Block Kit.

A card is shown in full. Long text is split over several blocks, and text that does not fit goes into further messages
before the one with the buttons. Nothing is ever cut off a card, because what is shown is what will be executed.

Limits: docs.slack.dev, Block Kit reference. The sum of a message's text has an undocumented limit
(`msg_blocks_too_long`, seen at 13,200), kept here by counting bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

from bot.chat.messages import (
    Button,
    Card,
    LabelledValue,
    Moment,
    NamedPeople,
    NamedPerson,
    PersonPicker,
    Post,
    RichText,
    StepState,
    TickList,
)
from bot.platforms.shared import read_piece
from bot.platforms.slack.text import (
    escape_markdown,
    escape_text,
    format_mention,
    format_plain_label,
    has_formatting,
    quote_block,
    quote_inline,
    replace_brackets,
    split_into_chunks,
    truncate_text,
)
from tools.characters import show_invisible

Block: TypeAlias = dict[str, Any]

MAX_BLOCKS = 50
"""Most blocks of a message."""
MAX_MESSAGE_BYTES = 12_000
"""Most bytes of JSON of a message's blocks."""
SECTION, FIELD, CONTEXT, PROSE = 2_900, 200, 1_900, 10_000
"""Bytes of text in a section, in one of two columns, in a context line, in a `markdown` block."""
HEADER, LABEL, NOTICE, BUTTONS, BOXES = 150, 75, 1_000, 25, 10
"""UTF-16 units of a header, of a button or a box, and of a notification (`chat.update` takes 4,000 bytes); most buttons
in a row, most boxes in a group."""
PAIR = "feedback_buttons"
"""Slack's element of two small buttons, for and against."""
SEAL_MARK = "~"
"""Mark before the part of the seal at the end of a block's id."""
DATE_FORMAT = "{date_short_pretty} {time}"
"""Slack's format of a point in time: *Nov 23, 2026 10:00 AM*, or *today*, in the reader's language and zone."""
TASKS, TASK_TITLE, TASK_DETAILS = 50, 250, 250
"""Most tasks of a plan, and UTF-16 units of a task's title and of its details (Slack takes 256 in a chunk)."""
_TASK_STATUSES = {StepState.DONE: "complete", StepState.WAITING: "pending", StepState.FAILED: "error"}
NAME, ADDRESS = 100, 320
"""UTF-16 units of a person's name (Slack takes 80) and of an e-mail address (RFC 5321 allows 254)."""


@dataclass(frozen=True, slots=True)
class RenderedMessage:
    """One message: its blocks, and the text for notifications and screen readers."""

    text: str
    blocks: tuple[Block, ...]


def render_post(post: Post) -> tuple[RenderedMessage, ...]:
    """Render the messages that show this post, in order. The last one carries the buttons."""
    if post.steps is not None:
        # A `plan` block (docs.slack.dev/reference/block-kit/blocks/plan-block) takes at most 50 tasks. If all of them
        # would be too long, the latest are kept.
        tasks = list[Block]()
        for number, step in reversed(list(enumerate(post.steps.steps, 1))):
            title = truncate_text(" ".join(show_invisible(step.title).split()), TASK_TITLE) or "…"
            task: Block = {"type": "task_card", "task_id": f"step-{number}", "title": title}
            task["status"] = _TASK_STATUSES[step.state]
            if step.details:
                details = {"type": "text", "text": truncate_text(show_invisible(step.details), TASK_DETAILS)}
                section = {"type": "rich_text_section", "elements": [details]}
                task["details"] = {"type": "rich_text", "elements": [section]}
            if len(tasks) == TASKS or count_json_bytes([*tasks, task]) > PROSE:
                break
            tasks.insert(0, task)
        plan = {"type": "plan", "title": truncate_text(post.steps.title, TASK_TITLE), "tasks": tasks}
        return (RenderedMessage(truncate_text(escape_text(post.steps.title), NOTICE) or "…", (plan,)),)
    if post.card is None:
        if post.rich and len("".join(map(read_piece, post.rich)).encode()) <= SECTION:
            # A `rich_text` block contains no formatting, so words stay unchanged.
            words = [_render_element(piece) for piece in post.rich if piece not in ("", NamedPerson("", ""))]
            rich = [{"type": "rich_text_section", "elements": words}]
            said: list[Block] = [{"type": "rich_text", "elements": rich}]
        elif post.plain:
            said = list(_render_plain_text(post.text))
        else:
            chunks = split_into_chunks(show_invisible(post.text), PROSE)
            said = [{"type": "markdown", "text": escape_markdown(chunk)} for chunk in chunks if chunk.strip()]
        said += _render_people(post.people.people, format_bold(post.people.text) + "\n") if post.people else []
        notice = post.text if post.plain else post.text.replace("**", "")  # a notification shows the stars themselves
        last = [*render_actions(post.buttons, picker=post.picker), *map(_render_pair, post.pairs)]
        return _render_messages(notice, "", [*said, *render_context(post.receipt)], last)
    card, text = post.card, post.text or post.card.title
    pieces = [*render_card_content(card), *render_context(post.receipt)]
    if format_plain_label(card.title, HEADER - 10) != card.title:  # the header does not show it unchanged
        pieces = [*render_literal(card.title), *pieces]
    boxes = [] if card.ticks is None else [*render_tick_list(card.ticks)]
    return _render_messages(text, card.title, pieces, [*boxes, *render_actions(card.buttons)])


def _render_messages(text: str, title: str, pieces: list[Block], last: list[Block]) -> tuple[RenderedMessage, ...]:
    room, count = MAX_MESSAGE_BYTES - count_json_bytes([*render_heading(title), *last]), MAX_BLOCKS - 2 - len(last)
    pages: list[list[Block]] = [[]]
    for piece in pieces:
        page = pages[-1]
        if page and (len(page) >= count or count_json_bytes([*page, piece]) > room):
            pages.append([])
        pages[-1].append(piece)
    notice = truncate_text(escape_text(show_invisible(text)), NOTICE) or "…"
    pages[-1] += last
    shown = ((*render_heading(title, number, len(pages)), *page) for number, page in enumerate(pages, 1))
    return tuple(RenderedMessage(notice, blocks) for blocks in shown)


def count_json_bytes(blocks: Iterable[Block]) -> int:
    """Return the size of the blocks' JSON in bytes."""
    return sum(len(json.dumps(block, ensure_ascii=False).encode()) for block in blocks)


def render_heading(title: str, number: int = 1, total: int = 1) -> list[Block]:
    """Render the first line of a card, with `(2/3)` when the card continues."""
    if not format_plain_label(title, HEADER):
        return []
    count = f" ({number}/{total})" if total > 1 else ""
    text = format_plain_label(title, HEADER - len(count)) + count
    return [{"type": "header", "text": build_plain_text(text)}]


def render_card_title(title: str) -> list[Block]:
    """Render a title inside a page with several cards."""
    return list(render_literal(title)) if has_formatting(title) else [render_section(format_bold(title))]


def render_card_content(card: Card) -> Iterator[Block]:
    """Render everything on a card between its title and its buttons."""
    if card.when is not None:
        yield render_section(_format_piece(card.when))
    yield from _render_plain_text(card.lead)
    lines = list[str]()
    for label, value in card.facts if card.is_void else ():
        # Nobody is mentioned for what is over, so people are named in words.
        words = (value or "—") if isinstance(value, str) else value.text or ", ".join(one.name for one in value.people)
        lines.append(f"{show_invisible(label)} · {show_invisible(words)}")
    if lines and len("\n".join(lines).encode()) <= SECTION:  # struck through, in a block that contains no formatting
        struck = {"type": "text", "text": "\n".join(lines), "style": {"strike": True}}
        yield {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [struck]}]}
    else:
        yield from _render_fields(card.facts)
    yield from render_literal(card.body, always=True)
    yield from render_context(card.footer)


def _render_fields(facts: tuple[LabelledValue, ...]) -> Iterator[Block]:
    for short, group in groupby(facts, _is_short_field):
        if not short:
            for label, value in group:
                heading = format_bold(label) + "\n"
                text, people = (value, ()) if isinstance(value, str) else (value.text, value.people)
                yield from render_literal(text, heading)
                yield from _render_people(people, "" if text else heading)
            continue
        fields = [build_mrkdwn(f"{format_bold(label)}\n{_format_short_value(value)}") for label, value in group]
        # The last of an odd number has a line of its own, so that no column ends before the other.
        paired = len(fields) - len(fields) % 2
        for start in range(0, paired, 10):
            yield {"type": "section", "fields": fields[start : min(start + 10, paired)]}
        for one in fields[paired:]:
            yield render_section(one["text"])


def _format_short_value(value: str | NamedPeople) -> str:
    if isinstance(value, str):
        return escape_text(show_invisible(value)) or "—"
    return "\n".join(filter(None, (escape_text(show_invisible(value.text)), *map(_format_person, value.people))))


def _is_short_field(fact: LabelledValue) -> bool:
    label, value = fact
    if isinstance(value, NamedPeople):
        return (
            len(value.people) == 1
            and not has_formatting(show_invisible(value.text))
            and len((label + _format_short_value(value)).encode()) <= FIELD
        )
    return not has_formatting(show_invisible(value)) and len((label + show_invisible(value)).encode()) <= FIELD


def _render_people(people: tuple[NamedPerson, ...], heading: str) -> Iterator[Block]:
    """Render people one below the other, in as many sections as needed."""
    text = heading
    for one in people:
        line = _format_person(one)
        if text != heading and len((text + line).encode()) >= SECTION:
            yield render_section(text.rstrip("\n"))
            text = ""
        text += line + "\n"
    if text != heading:
        yield render_section(text.rstrip("\n"))


def _format_person(person: NamedPerson) -> str:
    """Format a person: name and mention, then data that people cannot choose themselves, then why they may be mistaken
    for somebody else. The mention is made here, from the id alone. Everything else is quoted."""
    name, email = quote_inline(truncate_text(person.name, NAME)), quote_inline(truncate_text(person.email, ADDRESS))
    named, more = " ".join(filter(None, (name, format_mention(person.id)))), map(quote_inline, person.more)
    lines = [named, email, *more, *(f"⚠ {escape_text(mark)}" for mark in person.marks)]
    return "\n".join(filter(None, lines)) or "—"  # Slack takes no empty text


def format_bold(label: str) -> str:
    text = escape_text(show_invisible(truncate_text(label, HEADER)))
    return text if has_formatting(label) else f"*{text}*"


def render_literal(text: str, prefix: str = "", *, always: bool = False) -> Iterator[Block]:
    """Render a person's text unchanged and in full. Text is preformatted with `always`, or if it is long or contains
    anything like formatting."""
    pieces = list(split_into_chunks(show_invisible(text), SECTION - len(prefix.encode())))
    quoted = always or len(pieces) > 1 or has_formatting(show_invisible(text))
    for number, piece in enumerate(pieces):
        yield render_section((prefix if number == 0 else "") + (quote_block(piece) if quoted else escape_text(piece)))


def render_section(text: str) -> Block:
    """Render mrkdwn that Slack never folds behind *see more*."""
    return {"type": "section", "text": build_mrkdwn(text), "expand": True}


def build_mrkdwn(text: str) -> Block:
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def render_context(text: str | RichText) -> Iterator[Block]:
    """Render small print, in full."""
    if not isinstance(text, str):
        formatted = "".join(map(_format_piece, text))
        if len(formatted.encode()) <= CONTEXT:
            yield from ({"type": "context", "elements": [build_mrkdwn(one)]} for one in [formatted] if one.strip())
            return
        text = "".join(map(read_piece, text))
    for chunk in split_into_chunks(show_invisible(text), CONTEXT):
        if chunk.strip():
            yield {"type": "context", "elements": [build_plain_text(replace_brackets(chunk))]}


def _format_piece(piece: str | NamedPerson | Moment) -> str:
    """Format a piece of a sentence as mrkdwn. A point in time is shown in its reader's own way (docs.slack.dev, *Date
    formatting*)."""
    match piece:
        case Moment():
            return f"<!date^{piece.ms // 1000}^{DATE_FORMAT}|{escape_text(piece.text)}>"
        case NamedPerson():
            return format_mention(piece.id) or quote_inline(piece.name)
        case str() if has_formatting(show_invisible(piece)):
            before, after = piece[: len(piece) - len(piece.lstrip())], piece[len(piece.rstrip()) :]
            return f"{before}{quote_inline(piece)}{after}"
        case str():
            return escape_text(show_invisible(piece))


def _render_element(piece: str | NamedPerson | Moment) -> Block:
    match piece:
        case Moment():
            return {"type": "date", "timestamp": piece.ms // 1000, "format": DATE_FORMAT, "fallback": piece.text}
        case NamedPerson() if format_mention(piece.id):
            return {"type": "user", "user_id": piece.id}
        case NamedPerson():
            return {"type": "text", "text": show_invisible(piece.name)}
        case str():
            return {"type": "text", "text": show_invisible(piece)}


def build_plain_text(text: str) -> Block:
    return {"type": "plain_text", "text": text, "emoji": False}


def _render_plain_text(text: str) -> Iterator[Block]:
    for chunk in split_into_chunks(show_invisible(text), SECTION):
        if chunk.strip():
            yield {"type": "section", "text": build_plain_text(replace_brackets(chunk)), "expand": True}


def render_tick_list(ticks: TickList) -> Iterator[Block]:
    """Render boxes, ten in a group. A text that does not fit into a box is shown above its group, in full."""
    for start in range(0, len(ticks.options), BOXES):
        group, boxes = ticks.options[start : start + BOXES], list[Block]()
        for option in group:
            text, details = (format_plain_label(words, LABEL) for words in (option.text, option.details))
            box: Block = {"text": {"type": "plain_text", "text": text or "…"}, "value": option.value}
            if (text, details) != (option.text, option.details):
                yield from render_literal(f"{option.text}\n{option.details}")
            elif details:
                box["description"] = {"type": "plain_text", "text": details}
            boxes.append(box)
        ticked = [box for box, option in zip(boxes, group, strict=True) if option.is_ticked]
        element: Block = {"type": "checkboxes", "action_id": "cs:tick", "options": boxes}
        element |= {"initial_options": ticked} if ticked else {}
        block_id = f"{build_tick_prefix(ticks.approval, ticks.version)}{start // BOXES}"
        yield {"type": "actions", "block_id": block_id, "elements": [element]}


def build_tick_prefix(approval: str, version: int) -> str:
    """Return the prefix of the block ids of a card's boxes."""
    return f"cs:{approval}.{version}:ticks:"


def _render_pair(pair: tuple[Button, Button]) -> Block:
    """Render two small buttons (docs.slack.dev/reference/block-kit/block-elements/feedback-buttons-element). Both have
    one action, which is the common part of their choices; the value of each begins with the rest of its choice."""
    element: Block = {"type": PAIR}
    for name, button in zip(("positive_button", "negative_button"), pair, strict=True):
        action, _, rest = button.choice.rpartition("_")
        element["action_id"] = f"cs:{action}"
        element[name] = {
            "text": {"type": "plain_text", "text": button.label, "emoji": True},
            "value": f"{rest}:{button.approval}.{button.version}",
            "accessibility_label": truncate_text(button.hint or button.label, LABEL),
        }
    return {"type": "context_actions", "elements": [element]}


def render_actions(buttons: tuple[Button, ...], where: str = "", *, picker: PersonPicker | None = None) -> list[Block]:
    """Render rows of buttons, with a picker behind the last one. `where` keeps block ids distinct when several cards
    share a page."""
    shown: list[Block] = []
    for start in range(0, len(buttons), BUTTONS):
        row = buttons[start : start + BUTTONS]
        elements = [
            {
                "type": "button",
                "action_id": f"cs:{button.choice}",
                "text": {"type": "plain_text", "text": format_plain_label(button.label, LABEL) or "…", "emoji": False},
                "value": f"{button.approval}.{button.version}",
                **({"style": "primary"} if button.style == "primary" else {}),
            }
            for button in row
        ]
        # The value of a button cannot hold the seal, because a process of the version before reads a card and a number
        # there, and would not understand the press.
        seal = f"{SEAL_MARK}{row[0].seal}" if row[0].seal else ""
        block_id = f"cs:{where}{row[0].approval}.{row[0].version}:{len(shown)}{seal}"
        shown.append({"type": "actions", "block_id": block_id, "elements": elements})
    if picker is not None and shown:
        shown[-1]["elements"].append(_render_picker(picker))
    elif picker is not None:
        block_id = f"cs:{where}{picker.approval}.{picker.version}:0"
        shown = [{"type": "actions", "block_id": block_id, "elements": [_render_picker(picker)]}]
    return shown


def _render_picker(picker: PersonPicker) -> Block:
    """Render the picker. Slack sends no value with a picker, so the block's id names the card."""
    placeholder = build_plain_text(format_plain_label(picker.label, LABEL) or "…")
    return {"type": "users_select", "action_id": f"cs:{picker.choice}", "placeholder": placeholder}
