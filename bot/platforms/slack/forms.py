"""Renders the form of a process as Slack views, and parses people's input in them as a `FormSubmission`.

A view names the process, the page, and the input of the pages before. All of it is checked again when it comes back.
The submitter is the person that the verified payload names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bot.chat.messages import FormDialog, FormSubmission
from bot.platforms.slack.dialogs import (
    METADATA,
    OPTION,
    OPTIONS,
    PAGES,
    VALUE,
    View,
    build_button_row,
    build_modal,
    build_short_text,
    list_chosen_files,
    parse_view_state,
    render_inputs,
)
from bot.platforms.slack.text import count_utf16_units

CALLBACK = "cs:form"
OPEN, MORE, PROCESS, INPUT = "cs:form:open", "cs:form:more", "cs:form:process", "cs:form:input"
NOTES, CHOICE = "cs:form:notes", "cs:form:choice"
"""Block ids that are not the name of a field."""
NOTE, NOTES_MAX = 300, 10
"""Characters of a note, and notes of a view."""


def render_form(dialog: FormDialog) -> View | None:
    """Render the view of a page. Return None if it would have to carry more than Slack takes."""
    about: dict[str, Any] = {"form": dialog.process, "page": dialog.page, "choice": bool(dialog.choices)}
    about |= {"kept": dialog.kept} if dialog.kept else {}
    metadata = json.dumps({**about, "values": dict(dialog.values)}, ensure_ascii=False)
    if count_utf16_units(metadata) > METADATA:
        return None
    blocks: list[View] = []
    choices = {
        key: {"text": build_short_text(name, OPTION), "value": key}
        for key, name in dialog.choices[:OPTIONS]
        if 0 < len(key) <= VALUE
    }
    if dialog.process in choices:
        options = {"options": list(choices.values()), "initial_option": choices[dialog.process]}
        element = {"type": "static_select", "action_id": PROCESS, **options}
        blocks.append({"type": "actions", "block_id": CHOICE, "elements": [element]})
    for one in dialog.inputs:
        more = {"dispatch_action": True} if one.is_watched else {}
        for block in render_inputs(one):
            # The process is in the name, because Slack keeps typed text while block and action stay the same.
            block["element"]["action_id"] = f"{INPUT}:{dialog.process}"
            blocks.append({**block, **more})
    if lines := [*dialog.notes, *(f"⚠️ {warning}" for warning in dialog.warnings)][:NOTES_MAX]:
        notes = [build_short_text(line, NOTE) for line in lines]
        blocks.append({"type": "context", "block_id": NOTES, "elements": notes})
    if dialog.more:
        blocks.append(build_button_row(dialog.more, MORE))
    return build_modal(CALLBACK, dialog.title, dialog.submit, dialog.cancel, blocks, metadata)


def render_open_button(label: str) -> list[View]:
    """Render the button that opens a form. Return nothing without a label."""
    return [build_button_row(label, OPEN)] if label else []


def parse_form(body: Mapping[str, Any]) -> FormSubmission | None:
    """Parse a person's input so far, from a payload with a view of ours. Return None for any other payload."""
    try:
        view = body["view"]
        about = json.loads(view.get("private_metadata") or "null")
        carried, page = about["values"], about["page"]
        if view["callback_id"] != CALLBACK or type(page) is not int or not 0 <= page < PAGES:
            return None
        typed = parse_view_state(view["state"]["values"])
        return FormSubmission(
            id=view.get("root_view_id") or view["id"],
            person=body["user"]["id"],
            process=about["form"],
            values={**carried, **{name: text for name, text in typed.items() if not name.startswith("cs:")}},
            page=page,
            earlier=tuple(carried),
            has_choice=bool(about["choice"]),
            files=list_chosen_files(view["state"]["values"]),
            kept=tuple(about.get("kept", ())),
        )
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None
