"""Renders dialogs and forms as Feishu cards with a `form` container, and parses what was put in.

A value longer than one input may hold is spread over several inputs and joined again, so that editing a long email
never shortens it. Feishu has no dialogs, so a form is a card in the DM of the person who opened it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bot.chat.messages import Card, Dialog, FormDialog, FormInput, FormProblem
from bot.core.i18n import translate
from bot.platforms.feishu import cards
from bot.platforms.feishu.cards import LABEL, MAX_PICKED, SMALL, Element, build_plain_text
from bot.platforms.feishu.text import format_label, format_mention
from bot.platforms.feishu.values import ID_MAX, CancelValue, DialogValue, FormValue, OpenFormValue, Value
from bot.platforms.shared import VALUE_MAX, read_day, split_value
from tools.characters import replace_surrogates
from tools.spec import DialogField

PAGE, PAGES = 6, 3
"""Inputs of a page, and most pages."""
LONGEST, OPTION, OPTIONS = 1_000, 100, 60
"""Characters of an input, as many as Feishu takes, and of an option; most options of a menu."""
FIELDS_MAX = 100
"""Most inputs that are read."""
DAY = "~day"
"""End of the name of a date's input. Feishu returns a date with a time zone."""
_DAY = re.compile(r"(\d{4}-\d\d-\d\d) [+-]\d{4}\Z", re.ASCII)
_PART = re.compile(r"~(\d{1,3})\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class PageState:
    """A page in front of its reader."""

    language: str
    typed: Mapping[str, str] = field(default_factory=dict)
    """Input of this page, which takes the place of the fields' values."""
    problems: Sequence[FormProblem] = ()
    people: Mapping[str, str] = field(default_factory=dict)
    """Those who can be picked: open id → words that find the person."""
    page: int = 0
    """The page of a dialog, from 0."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Input of the dialog's pages before."""


def render_dialog(dialog: Dialog, state: PageState) -> Element | None:
    """Render a page of a dialog: the subject of the decision, then at most `PAGE` inputs. Return None if the page does
    not fit into a card."""
    inputs, above = [one for one in dialog.inputs if one.field.kind != "shown"], list[Element]()
    start, end = state.page * PAGE, (state.page + 1) * PAGE
    if not start:
        above += cards.render_literal(dialog.lead)
        above += cards.render_literal(dialog.matter, text_size="heading")
        above += cards.render_card_content(Card("", facts=dialog.about))
        for one in dialog.inputs:
            if one.field.kind == "shown":  # to read in full, without an input
                above += [cards.build_markdown(cards.format_bold(one.label)), *cards.render_literal(one.field.value)]
        above += [{"tag": "hr"}] if above else []
    about: dict[str, Any] = {"approval": dialog.approval, "version": dialog.version, "choice": dialog.choice}
    about |= {"place": dialog.place, "card": dialog.card, "seal": dialog.seal, "page": state.page}
    about |= {"values": dict(state.values), "kept": dict(dialog.kept)}
    more = dialog.more if end < min(len(inputs), PAGES * PAGE) else ""
    fields = render_inputs(inputs[start:end], state)
    return build_form_card(dialog.title, above, fields, dialog.submit, DialogValue(**about), dialog.cancel, more=more)


def render_form(form: FormDialog, state: PageState) -> Element | None:
    """Render a page of a form. Return None if it does not fit into a card."""
    above = list[Element]()
    if form.process in dict(form.choices):
        menu = _build_select(dict(form.choices[:OPTIONS]), form.process)
        above.append({**menu, "behaviors": [cards.build_callback(OpenFormValue(is_menu=True))]})
    above += cards.render_small_print("\n".join([*form.notes, *(f"⚠️ {warning}" for warning in form.warnings)]))
    about: dict[str, Any] = {"process": form.process, "page": form.page, "has_choice": bool(form.choices)}
    files = tuple(one.field.name for one in form.inputs if one.field.kind == "file")
    about |= {"values": dict(form.values), "kept": form.kept, "files": files}
    fields = render_inputs(form.inputs, state)
    return build_form_card(form.title, above, fields, form.submit, FormValue(**about), form.cancel, more=form.more)


def render_closed_form(title: str, text: str) -> Element:
    words = format_label(f"{title}: {text}", cards.HEADER)
    shown = [*cards.render_title_in_full(title), *cards.render_literal(text)]
    return cards.build_card(title, shown, words, "grey")


def build_form_card(
    title: str,
    above: Sequence[Element],
    fields: Iterator[Element],
    submit: str,
    value: Value | None,
    cancel: str,
    *,
    more: str = "",
    below: Sequence[Element] = (),
) -> Element | None:
    """Build the card of a form. The buttons `submit` and `more` carry `value` and return the input. Without a
    `value` there is no form. The button that closes the card returns no input, so it is outside of the form. Return
    None if a card cannot hold all this."""
    label, container = format_label(title, cards.HEADER), list[Element]()
    if value is not None:
        row = [cards.build_submit_button(submit, "primary", value, "cs:submit")]
        if more:
            row.append(cards.build_submit_button(more, "", value.model_copy(update={"is_more": True}), "cs:more"))
        container = [{"tag": "form", "name": "form", "elements": [*fields, cards.build_row(row)]}]
    close = cards.build_row([cards.build_button(cancel, "", CancelValue(title=label))])
    shown = [*cards.render_title_in_full(title), *above, *container, *below, close]
    card = cards.build_card(title, shown, label or "…", "blue")
    fits = cards.count_bytes([card]) <= cards.MAX_BYTES and cards.count_elements(card) <= cards.MAX_ELEMENTS
    return card if fits else None


# Inputs


def render_inputs(inputs: Sequence[FormInput], state: PageState) -> Iterator[Element]:
    """Render inputs, each with its label above, its hint and its problems below. Problems of no input here come first,
    with labels of their own."""
    here = [one.field.name for one in inputs]
    for problem in state.problems:
        if problem.field not in here:
            text = f"{problem.label}: {problem.text}" if problem.label else problem.text
            yield from cards.render_literal(text, text_color="red")
    for one in inputs:
        name = one.field.name
        given = one.field.model_copy(update={"value": state.typed.get(name, one.field.value)})
        yield from _render_input(given, one, state.language, state.people)
        yield from cards.render_literal(one.hint, **SMALL)
        for problem in state.problems:
            if problem.field == name:
                yield from cards.render_literal(problem.text, text_color="red")


def _render_input(field: DialogField, about: FormInput, language: str, people: Mapping[str, str]) -> Iterator[Element]:
    """Render the inputs of a field. A long text has several. A card has no input for files: those that are there are
    listed, and each can be left out."""
    label, options = about.label, about.options
    title = cards.build_markdown(cards.format_bold(f"{label} *" if field.required else label))
    base = {"name": field.name, "width": "fill", **({"required": True} if field.required else {})}
    chosen = [one for one in field.value.split(",") if one]
    match field.kind:
        case "file":
            yield cards.build_markdown(cards.format_bold(label))
            listed = dict(options[:OPTIONS])
            if listed:
                select = {**_build_select(listed, ""), "tag": "multi_select_static", "selected_values": list(listed)}
                yield {**select, **base, "required": False}
            key = "feishu.kept_files" if listed else "feishu.send_file_first"
            yield from cards.render_literal(translate(key, language), **SMALL)
        case "date":
            day = read_day(field.value)
            yield title
            yield {"tag": "date_picker", **base, "name": field.name + DAY, **({"initial_date": day} if day else {})}
        case "choice" if 0 < len(options) <= OPTIONS and all(0 < len(name) <= OPTION for name, _ in options):
            yield title
            yield {**_build_select({name: words or name for name, words in options}, field.value), **base}
        case "person" | "people" if 0 < len(people) <= MAX_PICKED and all(one in people for one in chosen):
            several = field.kind == "people"
            picked = {"options": [{"value": one} for one in people if format_mention(one)]}
            initial = {"selected_values": chosen} if several else {"initial_option": field.value}
            tag = "multi_select_person" if several else "select_person"
            yield title
            yield {"tag": tag, **picked, **base, **(initial if chosen else {})}
        case "person" | "people":  # too many for a picker: a name or an address finds the person
            words = ", ".join(people.get(one, one) for one in chosen)
            yield from _render_text_inputs(field, words, label, base)
            yield from cards.render_literal(translate("feishu.person_hint", language), **SMALL)
        case _:
            yield from _render_text_inputs(field, field.value, label, base)


def _render_text_inputs(field: DialogField, text: str, label: str, base: Mapping[str, Any]) -> Iterator[Element]:
    values, title = split_value(text, LONGEST), f"{label} *" if field.required else label
    several = field.kind == "long" or "\n" in text
    kind: dict[str, Any] = {"input_type": "multiline_text", "rows": 4, "auto_resize": True} if several else {}
    for number, value in enumerate(values, 1):
        count = f" ({number}/{len(values)})" if len(values) > 1 else ""
        words = build_plain_text((format_label(title, LABEL - len(count)) or "…") + count)
        longest = max(1, min(LONGEST, max(field.max_length, len(value))))
        more = {"default_value": value} if value else {}
        named = {"name": f"{field.name}~{number}", "required": False} if number > 1 else {}
        yield {"tag": "input", **base, "label": words, "max_length": longest, **kind, **more, **named}


def _build_select(options: Mapping[str, str], value: str) -> Element:
    """Build a menu. `initial_index` counts from 1."""
    shown = [
        {"text": build_plain_text(format_label(words, OPTION) or "…"), "value": name} for name, words in options.items()
    ]
    initial = {"initial_index": [*options].index(value) + 1} if value in options else {}
    return {"tag": "select_static", "options": shown, **initial}


def parse_form_value(given: object) -> dict[str, str]:
    """Return field → text of a submitted form (`action.form_value`), bounded. Several inputs of one field are joined in
    their order."""
    parts = list[tuple[str, int, str]]()
    for name, value in list(given.items())[:FIELDS_MAX] if isinstance(given, Mapping) else ():
        if not isinstance(name, str) or len(name) > ID_MAX:
            continue
        if isinstance(value, list):
            value = ",".join(one for one in value[:FIELDS_MAX] if isinstance(one, str))
        text = replace_surrogates(value[:VALUE_MAX]) if isinstance(value, str) else ""
        if name.endswith(DAY):
            found = _DAY.match(text)
            parts.append((name.removesuffix(DAY), 1, found[1] if found else text))
        else:
            part = _PART.search(name)
            parts.append((name[: part.start()] if part else name, int(part[1]) if part else 1, text))
    form = dict[str, str]()
    for name, _, text in sorted(parts, key=lambda one: one[1]):
        form[name] = (form.get(name, "") + text)[:VALUE_MAX]
    return form
