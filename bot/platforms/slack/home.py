"""Renders a person's Home tab, and the dialogs that it opens, as Slack views.

A view carries the channel that its cards belong to and what its dialog has shown. All of it is checked again when it
comes back. The presser is the person that the verified payload names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from bot.chat.messages import HomeButton, HomeDialog, HomeEntry, HomePress, HomeSubmission, HomeView, Place
from bot.core.i18n import translate
from bot.platforms.shared import find_value, fit_entries, parse_object
from bot.platforms.slack.blocks import (
    BUTTONS,
    LABEL,
    Block,
    count_json_bytes,
    render_actions,
    render_card_content,
    render_card_title,
    render_context,
    render_heading,
)
from bot.platforms.slack.dialogs import View, build_modal, build_short_text, parse_view_state, render_inputs
from bot.platforms.slack.forms import render_open_button
from bot.platforms.slack.payload_shape import is_short_text

CALLBACK = "cs:home"
ACTION = "cs:home:"
"""Prefix of the names of the buttons."""
MAX_BLOCKS = 100
"""Most blocks of a view."""
MAX_BYTES = 60_000
"""Most bytes of a view, well below Slack's limit (about 250 kB)."""


def render_home_view(home: HomeView, language: str, dm: str = "") -> View:
    """Render the Home tab. `dm` is the channel that its cards belong to, which comes back with every press. An entry of
    a section is shown whole or, when the page is full, counted and left out, so that buttons never stand under a part
    of their card."""
    blocks = [*render_heading(home.title), *render_context(home.freshness), *render_open_button(home.request)]
    blocks += render_context(home.start)
    frames = list[tuple[list[Block], list[Block]]]()
    for number, section in enumerate(home.sections):
        head: list[Block] = [{"type": "divider"}, *render_heading(section.title)]
        if not section.entries:
            head += render_context(section.empty)
        frames.append((head, [*render_context(section.note), *_render_buttons(section.buttons, f"{number}.section")]))
    room = MAX_BLOCKS - 1 - len(blocks) - sum(len(head) + len(foot) for head, foot in frames)
    bytes_left = MAX_BYTES - count_json_bytes(blocks) - sum(count_json_bytes([*head, *foot]) for head, foot in frames)

    def measure(shown: list[Block]) -> tuple[int, int]:
        return len(shown), count_json_bytes(shown)

    fitting, left = fit_entries(home.sections, frames, (room, bytes_left), _render_entry, measure)
    blocks += fitting
    if left:
        blocks += render_context(translate("slack.more_at_home", language, count=left))
    return {"type": "home", "blocks": blocks, "private_metadata": json.dumps({"dm": dm})}


def _render_entry(entry: HomeEntry, where: str) -> Iterator[Block]:
    if entry.card.title:
        yield from render_card_title(entry.card.title)
    yield from render_card_content(entry.card)
    own = [_build_button(button) for button in entry.buttons]
    if rows := render_actions(entry.card.buttons, where):
        rows[-1]["elements"] = [*rows[-1]["elements"], *own][:BUTTONS]
        yield from rows
    else:
        yield from _render_buttons(entry.buttons, where)


def _render_buttons(buttons: tuple[HomeButton, ...], where: str) -> Iterator[Block]:
    if buttons:
        elements = [_build_button(button) for button in buttons[:BUTTONS]]
        yield {"type": "actions", "block_id": f"{ACTION}{where}", "elements": elements}


def _build_button(button: HomeButton) -> Block:
    style = {"style": "primary"} if button.style == "primary" else {}
    value = {"value": button.value} if button.value else {}
    label = build_short_text(button.label, LABEL)
    return {"type": "button", "action_id": f"{ACTION}{button.action}", "text": label, **value, **style}


def parse_home_dm(metadata: object) -> str:
    """Return the channel that a view of Home names, or an empty text."""
    named = find_value(parse_object(metadata), "dm")
    return named if is_short_text(named) and named.startswith("D") else ""


def parse_home_press(body: Mapping[str, Any]) -> HomePress:
    """Parse the press of a button of Home, in a payload that `is_button_press` has checked."""
    action = body["actions"][0]
    return HomePress(
        id=body["trigger_id"],
        person=body["user"]["id"],
        action=action["action_id"].removeprefix(ACTION),
        value=action.get("value") or "",
    )


# Dialogs


def render_home_dialog(dialog: HomeDialog, language: str, dm: str = "") -> View:
    """Render the modal. A card that is too long for a modal is not pressed here, because it is in the DM as a whole."""
    about = {"home": dialog.action, "value": dialog.value, "form": dict(dialog.form), "seal": dialog.seal, "dm": dm}
    blocks = list(render_context(dialog.notice))
    if dialog.card is not None:
        shown = list(_render_entry(HomeEntry(dialog.card), "open."))
        is_whole = len(shown) <= MAX_BLOCKS - 10 and count_json_bytes(shown) <= MAX_BYTES
        blocks += shown if is_whole else render_context(translate("home.whole_in_dm", language))
    for one in dialog.inputs:
        blocks += render_inputs(one)
    blocks += _render_buttons(dialog.buttons, "dialog")
    metadata = json.dumps(about, ensure_ascii=False)
    return build_modal(CALLBACK, dialog.title, dialog.submit or None, dialog.cancel, blocks, metadata)


def parse_home_submission(body: Mapping[str, Any], team: str) -> HomeSubmission | None:
    """Parse a submitted dialog of Home. Return None if the view is none."""
    try:
        view = body["view"]
        about = json.loads(view.get("private_metadata") or "null")
        dm = parse_home_dm(view["private_metadata"])
        return HomeSubmission(
            id=view["id"],
            person=body["user"]["id"],
            action=about["home"],
            value=about["value"],
            place=Place(team=team, channel=dm, direct=True),
            form={**about["form"], **parse_view_state(view["state"]["values"])},
            seal=about["seal"],
        )
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None
