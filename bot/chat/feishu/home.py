"""Renders a person's Home, and the dialogs that it opens, as Feishu cards in the DM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bot.chat.feishu.cards import (
    MAX_BYTES,
    MAX_ELEMENTS,
    Element,
    LabelledButton,
    RenderedCard,
    build_card,
    build_press_value,
    count_bytes,
    count_elements,
    render_button_rows,
    render_card_content,
    render_literal,
    render_small_print,
    render_title_in_full,
)
from bot.chat.feishu.forms import build_form_card, build_home_submit, place_problems, render_fields
from bot.chat.feishu.text import format_label
from bot.chat.feishu.values import HomeDialogValue, HomeValue, OpenFormValue
from bot.chat.messages import FormProblem, HomeButton, HomeDialog, HomeEntry, HomeView, Place
from bot.core.i18n import translate

_DM = Place(platform="feishu", team="", channel="", direct=True)
"""The place of a press on Home. Team and channel are those of the payload."""
RESERVE = 1_000
"""Bytes for the line that counts what was left out."""


def render_home(view: HomeView, language: str) -> RenderedCard:
    """Render Home. An entry is shown whole or, when the card is full, counted and left out, so that buttons never stand
    under a part of their card."""
    opens: list[LabelledButton] = [(view.request, "primary", OpenFormValue())] if view.request else []
    top = [*render_title_in_full(view.title), *render_small_print(view.freshness), *render_button_rows(opens)]
    top += render_small_print(view.start)
    frames = list[tuple[list[Element], list[Element]]]()
    for section in view.sections:
        head: list[Element] = [{"tag": "hr"}, *render_literal(section.title, text_size="heading")]
        head += render_small_print(section.empty) if not section.entries else []
        frames.append((head, [*render_small_print(section.note), *render_button_rows(_list_buttons(section.buttons))]))
    fixed = [*top, *(one for head, foot in frames for one in (*head, *foot))]
    room = MAX_BYTES - RESERVE - count_bytes([build_card(view.title, fixed, view.title)])
    count_left = MAX_ELEMENTS - 2 - count_elements(build_card(view.title, fixed, view.title))
    shown, left = top, 0
    for section, (head, foot) in zip(view.sections, frames, strict=True):
        shown = [*shown, *head]
        for entry in section.entries:
            elements = list(_render_entry(entry))
            bytes_needed, count_needed = count_bytes(elements), count_elements(elements)
            if bytes_needed <= room and count_needed <= count_left:
                shown, room, count_left = [*shown, *elements], room - bytes_needed, count_left - count_needed
            else:
                left += 1
        shown += foot
    if left:
        shown += render_small_print(translate("slack.more_at_home", language, count=left))
    title = format_label(view.title, 100) or "…"
    return RenderedCard(build_card(view.title, shown, title, "blue"), title)


def _render_entry(entry: HomeEntry, *, in_dialog: bool = False) -> Iterator[Element]:
    yield from render_literal(entry.card.title, text_size="heading")
    yield from render_card_content(entry.card)
    where = {"on_page": True, "in_dialog": in_dialog}
    pressed = [(one.label, one.style, build_press_value(one, _DM, **where)) for one in entry.card.buttons]
    yield from render_button_rows([*pressed, *_list_buttons(entry.buttons)])


def _list_buttons(buttons: tuple[HomeButton, ...]) -> list[LabelledButton]:
    return [(one.label, one.style, HomeValue(action=one.action, value=one.value)) for one in buttons]


def render_home_dialog(
    dialog: HomeDialog,
    language: str,
    *,
    typed: Mapping[str, str] | None = None,
    problems: Sequence[FormProblem] = (),
    people: Mapping[str, str] | None = None,
) -> RenderedCard | None:
    """Render a dialog of Home. A card that is too long is not pressed here, because it is in the DM as a whole. Return
    None if the dialog does not fit into a card even so."""
    value = HomeDialogValue(action=dialog.action, value=dialog.value, form=dict(dialog.form), seal=dialog.seal)
    rows = [(one.field, one.label, one.options, one.hint) for one in dialog.inputs]
    placed = place_problems(problems, dialog.inputs)
    form = list[Element]()
    if dialog.submit:
        fields = render_fields(rows, language, typed or {}, placed, people or {})
        form = [*fields, build_home_submit(dialog.submit, value)]
    entry = list(_render_entry(HomeEntry(dialog.card), in_dialog=True)) if dialog.card else []
    notice, below = list(render_small_print(dialog.notice)), render_button_rows(_list_buttons(dialog.buttons))
    whole = list(render_small_print(translate("home.whole_in_dm", language))) if entry else []
    shown = build_form_card(dialog.title, [*notice, *entry], form, dialog.cancel, below)
    return shown or build_form_card(dialog.title, [*notice, *whole], form, dialog.cancel, below)
