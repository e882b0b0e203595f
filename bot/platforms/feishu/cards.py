"""Renders posts as Feishu cards (JSON 2.0).

A card is shown in full. Long text is split over several elements, and text that does not fit goes into further cards
before the one with the buttons. Nothing is ever cut off a card, because what is shown is what will be executed.
Somebody's own words are plain text, in which nothing is formatting.

Limits: open.feishu.cn, "卡片 JSON 2.0 结构" (200 elements) and "发送消息" (30 KB of a request)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from bot.chat.messages import (
    OPEN_FORM,
    Button,
    Card,
    HomeButton,
    LabelledValue,
    Moment,
    NamedPeople,
    NamedPerson,
    PersonPicker,
    Place,
    Post,
    RichText,
    StepList,
    StepState,
    TickList,
)
from bot.platforms.feishu.text import (
    convert_markdown,
    count_cost,
    count_markdown_cost,
    count_plain_cost,
    escape_text,
    format_label,
    format_mention,
    has_layout,
    limit_tables,
)
from bot.platforms.feishu.values import TICK, HomeValue, OpenFormValue, PressValue, Value, build_value
from bot.platforms.shared import read_piece
from tools.characters import show_invisible, split_text

Element: TypeAlias = dict[str, Any]
"""A part of a card, or a whole one."""

MAX_BYTES = 28_000
"""Most bytes of a request with a card. Feishu takes 30 KB."""
MAX_ELEMENTS = 180
"""Most elements of a card. Feishu takes 200."""
PIECE, PROSE, FIELD = 8_000, 14_000, 1_200
"""Bytes in a request of a text, of the model's prose, and of a fact on one line."""
HEADER, LABEL, NOTICE, BUTTONS, BOXES, BOX = 100, 100, 200, 5, 20, 40
"""Characters of a header, of a button and of a notification; most buttons in a row, most boxes in a form, and
characters of a box."""
NAME, ADDRESS = 100, 320
"""Characters of a person's name and of an e-mail address."""
MAX_PICKED = 150
"""Most people of a picker."""
SMALL = {"text_size": "notation", "text_color": "grey"}
_STEP_SIGNS = {StepState.DONE: "✅", StepState.WAITING: "⏳", StepState.FAILED: "❌"}


def render_post(post: Post, place: Place, people: Sequence[str] = ()) -> list[Element]:
    """Render the cards that show this post, in order. The last one carries the buttons. `people` are the open ids of
    those who can be picked. With none, Feishu offers the members of the chat."""
    if post.steps is not None:
        return _build_cards(post.steps.title, "", [_render_steps(post.steps)], [])
    if post.card is None:
        rich = "".join(map(_format_piece, post.rich))
        if rich.strip() and count_cost(rich) <= PIECE:
            said = [build_markdown(rich)]
        elif post.plain:
            said = list(render_literal(post.text))
        else:
            chunks = split_text(limit_tables(show_invisible(post.text)), PROSE, count_markdown_cost)
            said = [build_markdown(convert_markdown(chunk)) for chunk in chunks if chunk.strip()]
        pieces = [*said, *_render_people(post.people), *render_small_print(post.receipt)]
        last = [*build_rows(post.buttons, place), *_render_picker(post.picker, place, people)]
        last += [_render_pair(pair) for pair in post.pairs]
        return _build_cards(post.text if post.plain else post.text.replace("**", ""), "", pieces, last)
    card = post.card
    pieces = [*render_title_in_full(card.title), *render_card_content(card), *render_small_print(post.receipt)]
    last = [*_render_ticks(card.ticks, card.buttons, place)] if card.ticks else build_rows(card.buttons, place)
    template = "blue" if card.buttons else "grey" if card.is_void else "default"
    return _build_cards(post.text or card.title, card.title, pieces, last, template)


def _build_cards(
    text: str, title: str, pieces: Iterable[Element], last: Sequence[Element], template: str = "default"
) -> list[Element]:
    """Build as many cards as the pieces need. The last elements stay together if they fit into one card."""
    notice = format_label(text, NOTICE) or "…"
    room = MAX_BYTES - count_bytes([build_card(title, [], notice, template, (99, 99))])
    fits = count_bytes(last) <= room and count_elements(last) <= MAX_ELEMENTS
    pages: list[list[Element]] = [[]]
    for unit in [*([one] for one in pieces), *([list(last)] if fits else [[one] for one in last])]:
        page = [*pages[-1], *unit]
        if pages[-1] and (count_elements(page) > MAX_ELEMENTS or count_bytes(page) > room):
            pages.append(unit)
        else:
            pages[-1] = page
    return [build_card(title, page, notice, template, (number, len(pages))) for number, page in enumerate(pages, 1)]


def build_card(
    title: str, elements: Sequence[Element], notice: str, template: str = "default", count: tuple[int, int] = (1, 1)
) -> Element:
    """Build a card, with `(2/3)` in its header when it continues."""
    config = {"update_multi": True, "enable_forward": False, "width_mode": "default", "summary": {"content": notice}}
    number = f" ({count[0]}/{count[1]})" if count[1] > 1 else ""
    label = format_label(title, HEADER - len(number))
    header = {"header": {"title": build_plain_text(label + number), "template": template}} if label else {}
    shown = list(elements) or ([] if label else [build_text("…")])
    return {"schema": "2.0", "config": config, **header, "body": {"elements": shown}}


def count_bytes(elements: Iterable[Element]) -> int:
    """Return the most bytes that the elements take in a request, which carries the card as a text."""
    return sum(len(json.dumps(json.dumps(one, ensure_ascii=False))) for one in elements)


def count_elements(shown: Any) -> int:
    """Return the number of elements, as Feishu counts them: everything with a tag."""
    if isinstance(shown, dict):
        return ("tag" in shown) + sum(map(count_elements, shown.values()))
    return sum(map(count_elements, shown)) if isinstance(shown, list | tuple) else 0


# Text


def build_plain_text(text: str, **style: str) -> Element:
    return {"tag": "plain_text", "content": text, **style}


def build_text(text: str, **style: str) -> Element:
    """Build an element of plain text, which shows every character as it is."""
    return {"tag": "div", "text": build_plain_text(text, **style)}


def build_markdown(content: str, **style: str) -> Element:
    return {"tag": "markdown", "content": content, **style}


def render_literal(text: str, **style: str) -> Iterator[Element]:
    """Render a person's text unchanged and in full."""
    for piece in split_text(show_invisible(text), PIECE, count_plain_cost):
        if piece.strip():
            yield build_text(piece, **style)


def render_title_in_full(title: str) -> Iterator[Element]:
    """Render a title that a header does not show unchanged."""
    if format_label(title, HEADER - len(" (99/99)")) != title:
        yield from render_literal(title, text_size="heading")


def render_small_print(text: str | RichText) -> Iterator[Element]:
    if not isinstance(text, str):
        formatted = "".join(map(_format_piece, text))
        if count_cost(formatted) <= PIECE:
            yield from [build_markdown(formatted, text_size="notation")] if formatted.strip() else []
            return
        text = "".join(map(read_piece, text))
    yield from render_literal(text, **SMALL)


def _format_piece(piece: str | NamedPerson | Moment) -> str:
    mention = format_mention(piece.id) if isinstance(piece, NamedPerson) else ""
    return mention or escape_text(read_piece(piece))


def format_bold(label: str) -> str:
    return f"**{escape_text(format_label(label, HEADER)) or '—'}**"


# Cards


def render_card_content(card: Card) -> Iterator[Element]:
    """Render everything on a card between its title and its buttons."""
    if card.when is not None:
        yield from render_literal(card.when.text)
    yield from render_literal(card.lead)
    for label, value in card.facts if card.is_void else ():
        # Nobody is mentioned for what is over, so people are named in words.
        words = (value or "—") if isinstance(value, str) else value.text or ", ".join(one.name for one in value.people)
        line = f"~~{_escape_line(f'{label} · {words}')}~~"
        yield from [build_markdown(line)] if count_cost(line) <= PIECE else render_literal(f"{label} · {words}")
    yield from _render_facts(() if card.is_void else card.facts)
    yield from render_literal(card.body)
    yield from render_small_print(card.footer)


def _render_facts(facts: tuple[LabelledValue, ...]) -> Iterator[Element]:
    lines = ""
    for fact in facts:
        line = _format_line(fact)
        if lines and (line is None or count_cost(lines + line) > PIECE):
            yield build_markdown(lines)
            lines = ""
        if line is not None:
            lines += ("\n" if lines else "") + line
            continue
        label, value = fact
        yield build_markdown(format_bold(label))
        yield from render_literal(value) if isinstance(value, str) else _render_people(value)
    if lines:
        yield build_markdown(lines)


def _format_line(fact: LabelledValue) -> str | None:
    """Format a fact as one line, or a person as a few. Return None if it has to be shown in elements of its own."""
    label, value = fact
    if len(value if isinstance(value, str) else value.text) > FIELD:
        return None
    if isinstance(value, str):
        words, is_flat = escape_text(value) or "—", not has_layout(show_invisible(value))
    else:
        words = "\n".join(filter(None, (escape_text(value.text), *map(_format_person, value.people))))
        is_flat = len(value.people) == 1 and not has_layout(show_invisible(value.text))
    line = f"{format_bold(label)} {words}"
    fits = format_label(label, HEADER) == label and count_cost(line) <= FIELD
    return line if is_flat and fits else None


def _render_people(named: NamedPeople | None) -> Iterator[Element]:
    if named is None:
        return
    yield from render_literal(named.text)
    for one in named.people:
        formatted = _format_person(one)
        if count_cost(formatted) <= PIECE:
            yield build_markdown(formatted)
        else:
            yield from [build_markdown(mention)] if (mention := format_mention(one.id)) else []
            marks = (f"⚠ {mark}" for mark in one.marks)
            yield from render_literal("\n".join((one.name, one.email, *one.more, *marks)))


def _format_person(person: NamedPerson) -> str:
    """Format a person: name and mention, then data that people cannot choose themselves, then why they may be mistaken
    for somebody else. The mention is made here, from the id alone. Everything else is escaped."""
    name, email = format_label(person.name, NAME), format_label(person.email, ADDRESS)
    named = " ".join(filter(None, (escape_text(name), format_mention(person.id))))
    more, marks = map(_escape_line, person.more), (f"⚠ {_escape_line(mark)}" for mark in person.marks)
    return "\n".join(filter(None, (named, escape_text(email), *more, *marks))) or "—"


def _escape_line(text: str) -> str:
    return escape_text(" ".join(show_invisible(text).split()))


def _render_steps(steps: StepList) -> Element:
    """Render the steps of a run in a panel, open while they are few. If all of them would be too long, the latest are
    kept."""
    lines, size = list[str](), 0
    for step in reversed(steps.steps):
        line = f"{_STEP_SIGNS[step.state]} {escape_text(format_label(step.title, HEADER * 3)) or '…'}"
        if step.details:
            line += f"\n<font color='grey'>{escape_text(format_label(step.details, HEADER * 3))}</font>"
        size += count_cost(line + "\n")
        if size > PROSE:
            break
        lines.insert(0, line)
    title = build_plain_text(format_label(steps.title, HEADER) or "…")
    if not lines:
        return {"tag": "div", "text": title}
    shown = [build_markdown("\n".join(lines))]
    return {"tag": "collapsible_panel", "expanded": len(lines) <= 5, "header": {"title": title}, "elements": shown}


# Buttons


def choose_value(button: Button | HomeButton | PersonPicker, place: Place, **where: bool) -> Value:
    """Choose what a button carries. `where`: see `PressValue`."""
    if isinstance(button, HomeButton):
        return HomeValue(action=button.action, value=button.value)
    if button.choice.startswith(OPEN_FORM):
        return OpenFormValue(offer=f"{button.approval}.{button.choice.removeprefix(OPEN_FORM)}")
    about = {"approval": button.approval, "version": button.version, "choice": button.choice}
    about["seal"] = button.seal if isinstance(button, Button) else ""
    return PressValue(**about, thread=place.thread or "", direct=place.direct, shared=place.shared, **where)


def build_button(label: str, style: str, value: Value) -> Element:
    return {
        "tag": "button",
        "text": build_plain_text(format_label(label, LABEL) or "…"),
        "type": "primary_filled" if style == "primary" else "default",
        "behaviors": [build_callback(value)],
    }


def build_callback(value: Value) -> Element:
    return {"type": "callback", "value": build_value(value)}


def build_submit_button(label: str, style: str, value: Value, name: str) -> Element:
    """Build a button of a form, which returns the form's input."""
    return {**build_button(label, style, value), "name": name, "form_action_type": "submit"}


def build_rows(buttons: Sequence[Button | HomeButton], place: Place, **where: bool) -> list[Element]:
    shown = [build_button(one.label, one.style, choose_value(one, place, **where)) for one in buttons]
    return [build_row(shown[start : start + BUTTONS]) for start in range(0, len(shown), BUTTONS)]


def build_row(elements: Sequence[Element]) -> Element:
    columns = [{"tag": "column", "width": "auto", "elements": [one]} for one in elements]
    return {"tag": "column_set", "flex_mode": "flow", "horizontal_spacing": "8px", "columns": columns}


def _render_ticks(ticks: TickList, buttons: Sequence[Button], place: Place) -> Iterator[Element]:
    """Render boxes and the buttons that return what is ticked. Both are in a form, so that a press brings exactly the
    ticks that its person sees. A text that does not fit into a box is shown above the form, in full."""
    for start in range(0, len(ticks.options), BOXES):
        boxes = list[Element]()
        for option in ticks.options[start : start + BOXES]:
            words = "\n".join(filter(None, (option.text, option.details)))
            text = format_label(option.text, BOX) if count_cost(words) > 12 * BOX else words
            if text != words or has_layout(show_invisible(option.text)) or not buttons:
                yield from render_literal(words)
            shown = build_plain_text(show_invisible(text) or "…")
            box = {"tag": "checker", "name": f"{TICK}{option.value}", "checked": option.is_ticked}
            boxes.append({**box, "text": shown})
        presses = [
            build_submit_button(one.label, one.style, choose_value(one, place), f"press{start}_{number}")
            for number, one in enumerate(buttons)
        ]
        if presses:  # Feishu takes no form without a button
            yield {"tag": "form", "name": f"ticks{start}", "elements": [*boxes, build_row(presses)]}


def _render_picker(picker: PersonPicker | None, place: Place, people: Sequence[str]) -> Iterator[Element]:
    # Without options, Feishu offers the members of the chat: in a DM, these are the person and the bot.
    options = [{"value": one} for one in people if format_mention(one)] if len(people) <= MAX_PICKED else []
    if picker is not None and (options or not place.direct):
        yield {
            "tag": "select_person",
            "placeholder": build_plain_text(format_label(picker.label, LABEL) or "…"),
            "options": options,
            "behaviors": [build_callback(choose_value(picker, place))],
        }


def _render_pair(pair: tuple[Button, Button]) -> Element:
    """Render two small buttons, with their words where the pointer rests."""
    row = list[Element]()
    for one in pair:
        value = PressValue(approval=one.approval, version=one.version, choice=one.choice)
        tips = build_plain_text(format_label(one.hint or one.label, LABEL))
        row.append({**build_button(one.label, "", value), "type": "text", "size": "small", "hover_tips": tips})
    return build_row(row)
