"""Converts dialogs to Slack views, and submitted views to form values.

A value longer than one input may hold is spread over several inputs and joined again, so that editing a long email
never shortens it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bot.chat.messages import Card, Click, Dialog, FormInput, FormProblem, MessageRef, Place, SentFile
from bot.platforms.shared import VALUE_MAX, find_value, list_mappings, parse_object, read_day, split_value
from bot.platforms.slack.blocks import format_bold, render_card_content, render_card_title, render_literal
from bot.platforms.slack.files import parse_sent_files
from bot.platforms.slack.text import count_utf16_units, format_plain_label
from tools.characters import replace_surrogates
from tools.spec import DialogField

CALLBACK = "cs:dialog"
INPUT, MORE, BUTTON_ROW = "cs:input", "cs:dialog:more", "cs:form:buttons"
TITLE, LABEL, OPTION, VALUE, LONGEST, OPTIONS = 24, 150, 75, 150, 3000, 100
"""Characters of a title, a label (Slack takes 2,000), an option, its value and an input, and most options of a
choice."""
MAX_FILES = 10
"""Most files of one input, as many as Slack takes."""
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
    inputs = [one for one in dialog.inputs if one.field.kind != "shown"]
    blocks: list[View] = []
    if not page:
        if dialog.lead:  # the objection first
            blocks += render_literal(dialog.lead)
        if dialog.matter or dialog.about:
            blocks += [*render_card_title(dialog.matter), *render_card_content(Card("", facts=dialog.about))]
        if blocks:
            blocks.append({"type": "divider"})
        for one in dialog.inputs:
            if one.field.kind == "shown":  # to read in full, without an input
                blocks += render_literal(one.field.value, format_bold(one.label) + "\n", always=True)
    for one in inputs[page * PAGE : (page + 1) * PAGE]:
        blocks += render_inputs(one)
    if dialog.more and page + 1 < PAGES and len(inputs) > (page + 1) * PAGE:
        blocks.append(build_button_row(dialog.more, MORE))
    about: View = {"approval": dialog.approval, "version": dialog.version, "choice": dialog.choice, "seal": dialog.seal}
    about |= {"place": dialog.place.model_dump(), "card": dialog.card.model_dump() if dialog.card else None}
    about |= {"page": page, "values": dict(values or {})} if page else {}
    about |= {"kept": dict(dialog.kept)} if dialog.kept else {}
    metadata = json.dumps(about, ensure_ascii=False)
    return build_modal(CALLBACK, dialog.title, dialog.submit, dialog.cancel, blocks, metadata)


def build_modal(callback: str, title: str, submit: str | None, close: str, blocks: list[View], metadata: str) -> View:
    """Build a modal, without `submit` if it asks for nothing. `metadata` comes back with its input."""
    shown = {"title": title, "submit": submit, "close": close}
    labels = {name: build_short_text(text, TITLE) for name, text in shown.items() if text is not None}
    return {"type": "modal", "callback_id": callback, **labels, "private_metadata": metadata, "blocks": blocks}


def build_button_row(label: str, action: str) -> View:
    button = {"type": "button", "action_id": action, "text": build_short_text(label, OPTION)}
    return {"type": "actions", "block_id": BUTTON_ROW, "elements": [button]}


def render_inputs(one: FormInput) -> Iterator[View]:
    """Render the inputs of a field. Several inputs form one value: the pieces of a long text, or an input for files and
    boxes for the files that are there already. All boxes are ticked, and each file can be left out."""
    field, hint = one.field, {"hint": build_short_text(one.hint, HINT)} if one.hint else {}
    if field.kind == "file":
        shown = [{"text": build_short_text(name, OPTION), "value": id} for id, name in one.options[:MAX_FILES]]
        elements = [{"type": "file_input", "action_id": INPUT, "max_files": MAX_FILES}]
        if shown:
            elements.append({"type": "checkboxes", "action_id": INPUT, "options": shown, "initial_options": shown})
    else:
        is_text = field.kind in ("text", "long")
        values = split_value(field.value, LONGEST, count_utf16_units) if is_text else [field.value]
        elements = [_build_element(field, value, one.options) for value in values]
    for number, element in enumerate(elements, 1):
        count = f" ({number}/{len(elements)})" if len(elements) > 1 else ""
        yield {
            "type": "input",
            "block_id": field.name if number == 1 else f"{field.name}~{number}",
            "label": build_short_text(one.label, LABEL, count),
            "optional": not field.required or number > 1 or (field.kind == "file" and bool(one.options)),
            "element": element,
            **hint,
        }


def _build_element(field: DialogField, value: str, options: tuple[tuple[str, str], ...]) -> View:
    match field.kind:
        case "date":
            return _set_initial_value({"type": "datepicker"}, "initial_date", read_day(value))
        case "person":
            person = value if _PERSON.fullmatch(value) else ""
            return _set_initial_value({"type": "users_select"}, "initial_user", person)
        case "people":
            people = [one for one in value.split(",") if _PERSON.fullmatch(one)]
            return _set_initial_value({"type": "multi_users_select"}, "initial_users", people)
        case "number":
            base = {"type": "number_input", "is_decimal_allowed": True}
            return _set_initial_value(base, "initial_value", value if NUMBER.fullmatch(value) else "")
        case "choice" if 0 < len(options) <= OPTIONS and all(0 < len(name) <= VALUE for name, _ in options):
            shown = {name: {"text": build_short_text(label or name, OPTION), "value": name} for name, label in options}
            base = {"type": "static_select", "options": list(shown.values())}
            return _set_initial_value(base, "initial_option", shown.get(value))
        case _:
            several = field.kind == "long" or "\n" in value
            longest = max(1, min(LONGEST, max(field.max_length, count_utf16_units(value))))
            base = {"type": "plain_text_input", "multiline": several, "max_length": longest}
            return _set_initial_value(base, "initial_value", value)


def _set_initial_value(element: View, key: str, value: Any) -> View:
    return {**element, "action_id": INPUT} | ({key: value} if value else {})


def build_short_text(text: str, length: int, after: str = "") -> View:
    return {"type": "plain_text", "text": format_plain_label(text, length - len(after)) + after or "…", "emoji": False}


def parse_submission(body: Mapping[str, Any]) -> Click | None:
    """Parse the click of a submitted view. Return None if the view is not ours."""
    try:
        view = body["view"]
        about = json.loads(view.get("private_metadata") or "null")
        carried = {str(name): str(text) for name, text in about.get("values", {}).items()}
        kept = {str(name): str(value) for name, value in (about.get("kept") or {}).items()}
        return Click(
            id=f"{view['id']}:{view.get('hash', '')}",
            approval=about["approval"],
            version=about["version"],
            choice=about["choice"],
            person=body["user"]["id"],
            place=Place(**about["place"]),
            form={**carried, **parse_view_state(view["state"]["values"]), **kept},
            card=MessageRef(**about["card"]) if about.get("card") else None,
            files=list_chosen_files(view["state"]["values"]),
            seal=about.get("seal", ""),
        )
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None


def parse_view_state(state: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, str]:
    """Return field → value. Inputs that share one field are joined in their order."""
    form: dict[str, str] = {}
    for block in sorted(state, key=lambda name: int(name.partition("~")[2] or 1)):
        name = block.partition("~")[0]
        form.setdefault(name, "")
        for element in state[block].values():
            if element.get("type") == "file_input":
                given = "".join(f"{file.id}," for file in parse_sent_files(element.get("files")))
            elif element.get("type") == "checkboxes":
                given = "".join(f"{option.get('value')}," for option in element.get("selected_options") or ())
            else:
                chosen = (element.get("selected_option") or {}).get("value")
                picked = element.get("selected_date") or element.get("selected_user")
                several = ",".join(element.get("selected_users") or ())
                given = str(element.get("value") or chosen or picked or several)
            form[name] = (form[name] + replace_surrogates(given[:VALUE_MAX]))[:VALUE_MAX]
    return form


def list_chosen_files(state: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> tuple[SentFile, ...]:
    """Return the files that were chosen in the file inputs of a view."""
    rows = [element.get("files") for block in state.values() for element in block.values()]
    return tuple(file for row in rows for file in parse_sent_files(row))


def parse_dialog_page(view: Mapping[str, Any]) -> int:
    """Return the page of a dialog of ours that this view shows, from 0."""
    page = find_value(parse_object(view.get("private_metadata")), "page")
    return page if type(page) is int and 0 <= page < PAGES else 0


def list_input_blocks(view: Mapping[str, Any]) -> list[str]:
    """Return the block ids of a view's inputs. For a view without any, which Slack does not send, return an empty
    name."""
    shown = list_mappings(view.get("blocks"))
    return [str(one.get("block_id")) for one in shown if one.get("type") == "input"] or [""]


def assign_problems(problems: Iterable[FormProblem], view: Mapping[str, Any]) -> dict[str, str]:
    """Assign problems to inputs. A problem of no input in this view goes under the first, with the label of its own."""
    shown = list_input_blocks(view)
    placed: dict[str, str] = {}
    for one in problems:
        is_here = one.field in shown
        name = one.field if is_here else shown[0]
        text = one.text if is_here or not one.label else f"{build_short_text(one.label, LABEL)['text']}: {one.text}"
        placed[name] = f"{placed[name]} {text}" if name in placed else text
    return placed
