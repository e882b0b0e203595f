"""Renders dialogs and forms as Feishu cards with a `form` container, and parses what was put in.

A value longer than one input may hold is spread over several inputs and joined again, so that editing a long email
never shortens it. Feishu has no dialogs, so a form is a card in the DM of the person who opened it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from itertools import zip_longest
from typing import Any

from bot.chat.feishu.cards import (
    HEADER,
    LABEL,
    MAX_BYTES,
    MAX_ELEMENTS,
    MAX_PICKED,
    SMALL,
    Element,
    RenderedCard,
    build_button,
    build_callback,
    build_card,
    build_markdown,
    build_plain_text,
    build_row,
    build_submit_button,
    count_bytes,
    count_elements,
    format_bold,
    render_card_content,
    render_literal,
    render_small_print,
    render_title_in_full,
)
from bot.chat.feishu.text import format_label, format_mention, replace_surrogates
from bot.chat.feishu.values import (
    ID_MAX,
    CancelValue,
    DialogMoreValue,
    DialogValue,
    FormMoreValue,
    FormValue,
    HomeDialogValue,
    OpenFormValue,
    Value,
)
from bot.chat.messages import Card, Dialog, FormDialog, FormInput, FormProblem
from bot.core.i18n import translate
from tools.spec import DialogField

PAGE, PAGES = 6, 3
"""Inputs of a page, and most pages."""
LONGEST, OPTION, OPTIONS, CHOICES = 1_000, 100, 60, 60
"""Characters of an input, as many as Feishu takes, and of an option; most options, and most processes in a menu."""
VALUE_MAX, FIELDS_MAX = 60_000, 100
"""Longest value that is read, in characters, and most inputs. A longer value is refused as too long."""
DAY = "~day"
"""End of the name of a date's input. Feishu returns a date with a time zone."""
_DAY = re.compile(r"(\d{4}-\d\d-\d\d) [+-]\d{4}\Z", re.ASCII)
_PART = re.compile(r"~(\d{1,3})\Z", re.ASCII)

Rows = Sequence[tuple[DialogField, str, tuple[tuple[str, str], ...], str]]
"""(field, label, options, hint) of each input."""


def render_dialog(
    dialog: Dialog,
    language: str,
    *,
    page: int = 0,
    values: Mapping[str, str] | None = None,
    typed: Mapping[str, str] | None = None,
    problems: Mapping[str, str] | None = None,
    people: Mapping[str, str] | None = None,
) -> RenderedCard | None:
    """Render a page of a dialog: the subject of the decision, then at most `PAGE` inputs. `page` counts from 0.
    `values` is the input of the pages before, and `typed` that of this page, which takes the place of the fields'
    values. `people` are those who can be picked: open id → words that find the person. Return None if the page does
    not fit into a card."""
    rows = [
        (field, label or field.name, options or (), hint or "")
        for field, label, options, hint in zip_longest(dialog.fields, dialog.labels, dialog.options, dialog.hints)
        if field is not None
    ]
    inputs, above = [row for row in rows if row[0].kind != "shown"], list[Element]()
    if not page:
        above += render_literal(dialog.lead)
        above += render_literal(dialog.matter, text_size="heading")
        above += render_card_content(Card("", facts=dialog.about))
        for field, label, _, _ in rows:
            if field.kind == "shown":  # to read in full, without an input
                above += [build_markdown(format_bold(label)), *render_literal(field.value)]
        above += [{"tag": "hr"}] if above else []
    about: dict[str, Any] = {"approval": dialog.approval, "version": dialog.version, "choice": dialog.choice}
    about |= {"place": dialog.place, "card": dialog.card, "seal": dialog.seal, "page": page}
    about |= {"values": dict(values or {}), "kept": dict(dialog.kept)}
    has_more = bool(dialog.more) and page + 1 < PAGES and len(inputs) > (page + 1) * PAGE
    shown = inputs[page * PAGE : (page + 1) * PAGE]
    placed = {name: [text] for name, text in (problems or {}).items()}
    form = [
        *render_fields(shown, language, typed or {}, placed, people or {}),
        *_render_form_buttons(
            (dialog.submit, DialogValue(**about)), (dialog.more, DialogMoreValue(**about)) if has_more else None
        ),
    ]
    return build_form_card(dialog.title, above, form, dialog.cancel)


def render_form(
    form: FormDialog,
    language: str,
    *,
    typed: Mapping[str, str] | None = None,
    problems: Sequence[FormProblem] = (),
    people: Mapping[str, str] | None = None,
) -> RenderedCard | None:
    """Render a page of a form. Return None if it does not fit into a card."""
    above = list[Element]()
    if form.process in dict(form.choices):
        options = {key: format_label(name, OPTION) for key, name in form.choices[:CHOICES]}
        menu = _build_select(options, form.process)
        above.append({**menu, "behaviors": [build_callback(OpenFormValue(is_menu=True))]})
    above += render_small_print("\n".join([*form.notes, *(f"⚠️ {warning}" for warning in form.warnings)]))
    carried = {"process": form.process, "page": form.page, "has_choice": bool(form.choices)}
    files = tuple(one.field.name for one in form.inputs if one.field.kind == "file")
    about: dict[str, Any] = {**carried, "values": dict(form.values), "kept": form.kept, "files": files}
    rows = [(one.field, one.label, one.options, one.hint) for one in form.inputs]
    placed = place_problems(problems, form.inputs)
    elements = [
        *render_fields(rows, language, typed or {}, placed, people or {}),
        *_render_form_buttons(
            (form.submit, FormValue(**about)), (form.more, FormMoreValue(**about)) if form.more else None
        ),
    ]
    return build_form_card(form.title, above, elements, form.cancel)


def render_closed_form(title: str, text: str) -> RenderedCard:
    """Render a form that was submitted or cancelled, without buttons."""
    words = f"{title}: {text}" if text else title
    shown = [*render_title_in_full(title), *render_literal(text)]
    return RenderedCard(build_card(title, shown, format_label(words, HEADER), "grey"), format_label(words, HEADER))


def place_problems(problems: Sequence[FormProblem], inputs: Sequence[FormInput]) -> dict[str, list[str]]:
    """Return input → problems. The problem of an input on another page goes under the first one, with its label."""
    here, placed = [one.field.name for one in inputs], dict[str, list[str]]()
    for one in problems:
        text = one.text if one.field in here or not one.label else f"{one.label}: {one.text}"
        placed.setdefault(one.field, []).append(text)
    return placed


def build_form_card(
    title: str, above: Sequence[Element], form: Sequence[Element], cancel: str, below: Sequence[Element] = ()
) -> RenderedCard | None:
    """Build the card of a form. The button that closes it is outside of the form, because it returns no input."""
    close = build_button(cancel, "", CancelValue(title=format_label(title, HEADER)))
    container = [{"tag": "form", "name": "form", "elements": list(form)}] if form else []
    shown = [*render_title_in_full(title), *above, *container, *below, build_row([close])]
    card = build_card(title, shown, format_label(title, HEADER) or "…", "blue")
    fits = count_bytes([card]) <= MAX_BYTES and count_elements(card) <= MAX_ELEMENTS
    return RenderedCard(card, format_label(title, HEADER) or "…") if fits else None


def _render_form_buttons(submit: tuple[str, Value], more: tuple[str, Value] | None) -> Iterator[Element]:
    buttons = [build_submit_button(submit[0], "primary", submit[1], "cs:submit")]
    if more is not None:
        buttons.append(build_submit_button(more[0], "", more[1], "cs:more"))
    yield build_row(buttons)


def build_home_submit(label: str, value: HomeDialogValue) -> Element:
    return build_row([build_submit_button(label, "primary", value, "cs:submit")])


# Inputs


def render_fields(
    rows: Rows,
    language: str,
    typed: Mapping[str, str],
    problems: Mapping[str, Sequence[str]],
    people: Mapping[str, str],
) -> Iterator[Element]:
    """Render inputs, each with its label above, its hint and its problems below. A problem of no input here goes under
    the first."""
    here = [row[0].name for row in rows]
    others = [text for name, texts in problems.items() if name not in here for text in texts]
    for number, (field, label, options, hint) in enumerate(rows):
        given = field.model_copy(update={"value": typed.get(field.name, field.value)})
        yield from _render_inputs(given, label, options, language, people)
        yield from render_literal(hint, **SMALL)
        for text in [*problems.get(field.name, ()), *(others if number == 0 else ())]:
            yield from render_literal(text, text_color="red")
    for text in [] if rows else others:
        yield from render_literal(text, text_color="red")


def _render_inputs(
    field: DialogField, label: str, options: tuple[tuple[str, str], ...], language: str, people: Mapping[str, str]
) -> Iterator[Element]:
    """Render the inputs of a field. A long text has several. A card has no input for files: those that are there are
    listed, and each can be left out."""
    required = {"required": True} if field.required else {}
    title = f"{label} *" if field.required else label
    base = {"name": field.name, "width": "fill", **required}
    match field.kind:
        case "file":
            yield build_markdown(format_bold(label))
            listed = {id: format_label(name, OPTION) for id, name in options[:OPTIONS]}
            if listed:
                select = {**_build_select(listed, ""), "tag": "multi_select_static", "selected_values": list(listed)}
                yield {**select, "name": field.name, "width": "fill", "required": False}
            key = "feishu.kept_files" if listed else "feishu.send_file_first"
            yield from render_literal(translate(key, language), **SMALL)
        case "date":
            day = ""
            with suppress(ValueError):
                day = field.value if date.fromisoformat(field.value).isoformat() == field.value else ""
            yield build_markdown(format_bold(title))
            named = {"name": f"{field.name}{DAY}", **({"initial_date": day} if day else {})}
            yield {"tag": "date_picker", **base, **named}
        case "choice" if 0 < len(options) <= OPTIONS and all(0 < len(name) <= OPTION for name, _ in options):
            yield build_markdown(format_bold(title))
            yield {**_build_select({n: format_label(w or n, OPTION) for n, w in options}, field.value), **base}
        case "person" | "people" if 0 < len(people) <= MAX_PICKED and all(
            one in people for one in field.value.split(",") if one
        ):
            chosen = [one for one in field.value.split(",") if one]
            picked = {"options": [{"value": one} for one in people if format_mention(one)]}
            yield build_markdown(format_bold(title))
            if field.kind == "people":
                yield {
                    "tag": "multi_select_person",
                    **picked,
                    **base,
                    **({"selected_values": chosen} if chosen else {}),
                }
            else:
                yield {"tag": "select_person", **picked, **base, **({"initial_option": chosen[0]} if chosen else {})}
        case "person" | "people":  # too many for a picker: a name or an address finds the person
            words = ", ".join(people.get(one, one) for one in field.value.split(",") if one)
            yield from _render_text_inputs(field.model_copy(update={"value": words}), title, base)
            yield from render_literal(translate("feishu.person_hint", language), **SMALL)
        case _:
            yield from _render_text_inputs(field, title, base)


def _render_text_inputs(field: DialogField, title: str, base: Mapping[str, Any]) -> Iterator[Element]:
    values, half = [field.value], LONGEST // 2
    while len(text := values[-1]) > LONGEST:
        # The cut is inside a word, because an input may lose outer white space.
        inside = (i for i in range(half, 0, -1) if not any(map(str.isspace, text[i - 1 : i + 1])))
        at = next(inside, half)
        values[-1:] = [text[:at], text[at:]]
    several = field.kind == "long" or "\n" in field.value
    kind: dict[str, Any] = {"input_type": "multiline_text", "rows": 4, "auto_resize": True} if several else {}
    for number, value in enumerate(values, 1):
        count = f" ({number}/{len(values)})" if len(values) > 1 else ""
        label = build_plain_text((format_label(title, LABEL - len(count)) or "…") + count)
        longest = max(1, min(LONGEST, max(field.max_length, len(value))))
        more = {"default_value": value} if value else {}
        named = {"name": f"{field.name}~{number}", "required": False} if number > 1 else {}
        yield {"tag": "input", **base, "label": label, "max_length": longest, **kind, **more, **named}


def _build_select(options: Mapping[str, str], value: str) -> Element:
    """Build a menu. `initial_index` counts from 1."""
    shown = [{"text": build_plain_text(words or "…"), "value": name} for name, words in options.items()]
    initial = {"initial_index": [*options].index(value) + 1} if value in options else {}
    return {"tag": "select_static", "options": shown, **initial}


# What comes back


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
