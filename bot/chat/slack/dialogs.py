"""Converts dialogs to Slack views, and submitted views to form values.

A value longer than one input may hold is spread over several inputs and joined again, so that editing a long email
never shortens it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from itertools import zip_longest
from typing import Any

from bot.chat.messages import Card, Click, Dialog, MessageRef, Place, SentFile
from bot.chat.slack.blocks import format_bold, render_card_content, render_card_title, render_literal
from bot.chat.slack.files import parse_sent_files
from bot.chat.slack.text import count_utf16_units, format_plain_label, replace_surrogates
from tools.spec import DialogField

CALLBACK = "cs:dialog"
INPUT, MORE, BUTTON_ROW = "cs:input", "cs:dialog:more", "cs:form:buttons"
TITLE, LABEL, OPTION, VALUE, LONGEST, OPTIONS = 24, 150, 75, 150, 3000, 100
"""Characters of a title, a label (Slack takes 2,000), an option, its value and an input, and most options of a
choice."""
MAX_FILES = 10
"""Most files of one input, as many as Slack takes."""
VALUE_MAX = 60_000
"""Longest value that is read, in characters. No field takes nearly as much, so a longer value is refused as too
long."""

PAGE, PAGES = 6, 3
"""Inputs of a page, and most pages: as many views as Slack stacks."""
METADATA, HINT = 3_000, 150
"""Characters of metadata that a view may carry, and of a hint."""

_PERSON = re.compile(r"[UW][A-Z0-9]+")
NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,10})?", re.ASCII)

View = dict[str, Any]


def render_modal(dialog: Dialog, page: int = 0, values: Mapping[str, str] | None = None) -> View:
    """Render the modal of a dialog: the subject of the decision, then at most `PAGE` inputs. `page` counts from 0.
    `values` is the input of the pages before. Only opened pages are submitted. All other fields keep their values."""
    rows = list(_pair_fields_with_labels(dialog))
    shown, inputs = [r for r in rows if r.field.kind == "shown"], [r for r in rows if r.field.kind != "shown"]
    here = inputs[page * PAGE : (page + 1) * PAGE]
    has_more = dialog.more and page + 1 < PAGES and len(inputs) > (page + 1) * PAGE
    return {
        "type": "modal",
        "callback_id": CALLBACK,
        "title": build_short_text(dialog.title, TITLE),
        "submit": build_short_text(dialog.submit, TITLE),
        "close": build_short_text(dialog.cancel, TITLE),
        "private_metadata": _format_private_metadata(dialog, page, values or {}),
        "blocks": [
            *([] if page else _render_matter(dialog)),
            *(block for row in ([] if page else shown) for block in _render_shown_text(row)),
            *(block for row in here for block in _render_input_row(row)),
            *([build_button_row(dialog.more, MORE)] if has_more else []),
        ],
    }


def _format_private_metadata(dialog: Dialog, page: int, values: Mapping[str, str]) -> str:
    about = {"approval": dialog.approval, "version": dialog.version, "choice": dialog.choice, "seal": dialog.seal}
    card = dialog.card.model_dump() if dialog.card else None
    carried = {"page": page, "values": dict(values)} if page else {}
    carried |= {"kept": dict(dialog.kept)} if dialog.kept else {}
    return json.dumps({**about, "place": dialog.place.model_dump(), "card": card, **carried}, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class _FieldRow:
    """One field of a dialog as its reader sees it."""

    field: DialogField
    label: str
    options: tuple[tuple[str, str], ...]
    hint: str


def _pair_fields_with_labels(dialog: Dialog) -> Iterator[_FieldRow]:
    for field, label, options, hint in zip_longest(dialog.fields, dialog.labels, dialog.options, dialog.hints):
        if field is not None:
            yield _FieldRow(field, label or field.name, options or (), hint or "")


def _render_matter(dialog: Dialog) -> Iterator[View]:
    """Render the objection first, then the subject of the decision."""
    if dialog.lead:
        yield from render_literal(dialog.lead)
    if dialog.matter or dialog.about:
        yield from render_card_title(dialog.matter)
        yield from render_card_content(Card("", facts=dialog.about))
    if dialog.lead or dialog.matter or dialog.about:
        yield {"type": "divider"}


def _render_shown_text(row: _FieldRow) -> Iterator[View]:
    """Render a text to read in full, in as many blocks as needed, without an input."""
    return render_literal(row.field.value, format_bold(row.label) + "\n", always=True)


def _render_input_row(row: _FieldRow) -> Iterator[View]:
    hint = {"hint": build_short_text(row.hint, HINT)} if row.hint else {}
    for block in render_inputs(row.field, row.label, row.options):
        yield {**block, **hint}


def build_button_row(label: str, action: str) -> View:
    button = {"type": "button", "action_id": action, "text": build_short_text(label, OPTION)}
    return {"type": "actions", "block_id": BUTTON_ROW, "elements": [button]}


def render_inputs(field: DialogField, label: str, options: tuple[tuple[str, str], ...]) -> Iterator[View]:
    if field.kind == "file":
        yield from _render_file_inputs(field, label, options)
        return
    values = list(_split_for_inputs(field.value)) if field.kind in ("text", "long") else [field.value]
    for number, value in enumerate(values, 1):
        count = f" ({number}/{len(values)})" if len(values) > 1 else ""
        yield {
            "type": "input",
            "block_id": field.name if number == 1 else f"{field.name}~{number}",
            "label": build_short_text(label, LABEL, count),
            "optional": not field.required or number > 1,
            "element": _build_element(field, value, options),
        }


def _render_file_inputs(field: DialogField, label: str, options: tuple[tuple[str, str], ...]) -> Iterator[View]:
    """Render an input for files, and boxes for the files that are there already. All boxes are ticked, and each file
    can be left out. Both inputs form one value, as several inputs of a long text do."""
    chosen = {"type": "file_input", "action_id": INPUT, "max_files": MAX_FILES}
    yield {
        "type": "input",
        "block_id": field.name,
        "label": build_short_text(label, LABEL),
        "optional": not field.required or bool(options),
        "element": chosen,
    }
    shown = [{"text": build_short_text(name, OPTION), "value": id} for id, name in options[:MAX_FILES]]
    if shown:
        boxes = {"type": "checkboxes", "action_id": INPUT, "options": shown, "initial_options": shown}
        yield {
            "type": "input",
            "block_id": f"{field.name}~2",
            "label": build_short_text(label, LABEL, " (2/2)"),
            "optional": True,
            "element": boxes,
        }


def _split_for_inputs(text: str) -> Iterator[str]:
    """Yield pieces that fit one input. Cuts are inside a word, because an input may lose outer white space."""
    half = LONGEST // 2
    while count_utf16_units(text) > LONGEST:
        inside = (i for i in range(half, 0, -1) if not any(map(str.isspace, text[i - 1 : i + 1])))
        at = next(inside, half)
        yield text[:at]
        text = text[at:]
    yield text


def _build_element(field: DialogField, value: str, options: tuple[tuple[str, str], ...]) -> View:
    match field.kind:
        case "date":
            return _set_initial_value({"type": "datepicker"}, "initial_date", value if _is_iso_date(value) else "")
        case "person":
            return _set_initial_value({"type": "users_select"}, "initial_user", value if _is_user_id(value) else "")
        case "people":
            people = [one for one in value.split(",") if _is_user_id(one)]
            return _set_initial_value({"type": "multi_users_select"}, "initial_users", people)
        case "number":
            base = {"type": "number_input", "is_decimal_allowed": True}
            return _set_initial_value(base, "initial_value", value if NUMBER.fullmatch(value) else "")
        case "choice" if 0 < len(options) <= OPTIONS and all(0 < len(name) <= VALUE for name, _ in options):
            return _build_select(value, options)
        case _:
            several = field.kind == "long" or "\n" in value
            longest = max(1, min(LONGEST, max(field.max_length, count_utf16_units(value))))
            base = {"type": "plain_text_input", "multiline": several, "max_length": longest}
            return _set_initial_value(base, "initial_value", value)


def _build_select(value: str, options: tuple[tuple[str, str], ...]) -> View:
    shown = {name: {"text": build_short_text(label or name, OPTION), "value": name} for name, label in options}
    base = {"type": "static_select", "options": list(shown.values())}
    return _set_initial_value(base, "initial_option", shown.get(value))


def _set_initial_value(element: View, key: str, value: Any) -> View:
    return {**element, "action_id": INPUT} | ({key: value} if value else {})


def build_short_text(text: str, length: int, after: str = "") -> View:
    return {"type": "plain_text", "text": format_plain_label(text, length - len(after)) + after or "…", "emoji": False}


def _is_iso_date(value: str) -> bool:
    try:
        return date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


def _is_user_id(value: str) -> bool:
    return bool(_PERSON.fullmatch(value))


def parse_submission(body: Mapping[str, Any]) -> Click | None:
    """Parse the click of a submitted view. Return None if the view is not ours."""
    try:
        view = body["view"]
        about = json.loads(view.get("private_metadata") or "null")
        carried = {str(name): str(text) for name, text in about.get("values", {}).items()}
        return Click(
            id=f"{view['id']}:{view.get('hash', '')}",
            approval=about["approval"],
            version=about["version"],
            choice=about["choice"],
            person=body["user"]["id"],
            place=Place(**about["place"]),
            form={**carried, **parse_view_state(view["state"]["values"]), **_read_kept_values(about)},
            card=MessageRef(**about["card"]) if about.get("card") else None,
            files=list_chosen_files(view["state"]["values"]),
            seal=about.get("seal", ""),
        )
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None


def _read_kept_values(about: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in (about.get("kept") or {}).items()}


def parse_view_state(state: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, str]:
    """Return field → value. Inputs that share one field are joined in their order."""
    form: dict[str, str] = {}
    for block in sorted(state, key=lambda name: int(name.partition("~")[2] or 1)):
        name = block.partition("~")[0]
        given = "".join(replace_surrogates(_read_input_value(element)[:VALUE_MAX]) for element in state[block].values())
        form[name] = (form.get(name, "") + given)[:VALUE_MAX]
    return form


def list_chosen_files(state: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> tuple[SentFile, ...]:
    """Return the files that were chosen in the file inputs of a view."""
    rows = [element.get("files") for block in state.values() for element in block.values()]
    return tuple(file for row in rows for file in parse_sent_files(row))


def _read_input_value(element: Mapping[str, Any]) -> str:
    if element.get("type") == "file_input":
        return "".join(f"{file.id}," for file in parse_sent_files(element.get("files")))
    if element.get("type") == "checkboxes":
        return "".join(f"{option.get('value')}," for option in element.get("selected_options") or ())
    chosen = (element.get("selected_option") or {}).get("value")
    picked = element.get("selected_date") or element.get("selected_user")
    several = ",".join(element.get("selected_users") or ())
    return str(element.get("value") or chosen or picked or several)


def parse_dialog_page(view: Mapping[str, Any]) -> int:
    """Return the page of a dialog of ours that this view shows, from 0."""
    try:
        page = json.loads(view.get("private_metadata") or "null").get("page", 0)
    except (AttributeError, ValueError, RecursionError):
        return 0
    return page if type(page) is int and 0 <= page < PAGES else 0


def list_input_blocks(view: Mapping[str, Any]) -> list[str]:
    """Return the block ids of a view's inputs. For a view without any, which Slack does not send, return an empty
    name."""
    blocks = view.get("blocks")
    shown = [one for one in blocks if isinstance(one, Mapping)] if isinstance(blocks, list) else []
    return [str(one.get("block_id")) for one in shown if one.get("type") == "input"] or [""]


def assign_errors_to_inputs(problems: Mapping[str, str], view: Mapping[str, Any]) -> dict[str, str]:
    """Assign problems to inputs. A problem of no field in this view goes under the first input."""
    shown = list_input_blocks(view)
    errors: dict[str, str] = {}
    for field, sentence in problems.items():
        name = field if field in shown else shown[0]
        errors[name] = f"{errors[name]} {sentence}" if name in errors else sentence
    return errors
