"""Block Kit as tables: which blocks, elements and objects there are, and their limits.

Numbers are those published for Block Kit (docs.slack.dev/reference/block-kit) and those in slack_sdk's models."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from bot.local.workspace.schema import (
    Check,
    anything,
    both,
    either,
    exactly_one,
    flag,
    items,
    matching,
    number,
    one_of,
    problem,
    shape,
    string,
    typed,
)

URL = both(string(3000), matching(re.compile(r"^[a-z][a-z0-9+.-]*:", re.I).match, "must be a valid URL"))
IDENT = string(255)
DATE = matching(re.compile(r"^\d{4}-\d{2}-\d{2}$").match, "must be in format YYYY-MM-DD")
TIME = matching(re.compile(r"^([01]\d|2[0-3]):[0-5]\d$").match, "must be in format HH:mm")


def plain(most: int, least: int = 1) -> Check:
    return typed({"plain_text": shape({"text": string(most, least)}, {"emoji": flag})})


def words(most: int) -> Check:
    """Plain text or mrkdwn."""
    mrkdwn = shape({"text": string(most)}, {"verbatim": flag})
    return typed({"plain_text": shape({"text": string(most)}, {"emoji": flag}), "mrkdwn": mrkdwn})


CONFIRM = shape(
    {"title": plain(100), "text": words(300), "confirm": plain(30), "deny": plain(30)},
    {"style": one_of("primary", "danger")},
)
OPTION = shape({"text": words(75), "value": string(150)}, {"description": words(75), "url": URL})
PLAIN_OPTION = shape({"text": plain(75), "value": string(150)}, {"description": plain(75), "url": URL})
GROUP = shape({"label": plain(75), "options": items(PLAIN_OPTION, 100)})
IMAGE = both(
    shape(
        {"alt_text": string(2000)},
        {"image_url": URL, "slack_file": anything, "title": plain(2000), "block_id": IDENT},
    ),
    exactly_one("image_url", "slack_file"),
)
ACTING = {"action_id": IDENT, "confirm": CONFIRM, "focus_on_load": flag}
HINTED = {**ACTING, "placeholder": plain(150)}
DISPATCH = shape({}, {"trigger_actions_on": items(one_of("on_enter_pressed", "on_character_entered"), 2)})


FEEDBACK = shape({"text": plain(75), "value": string(2000)}, {"accessibility_label": string(75)})
BUTTON = shape(
    {"text": plain(75)},
    {
        "action_id": IDENT,
        "url": URL,
        "value": string(2000),
        "style": one_of("primary", "danger"),
        "confirm": CONFIRM,
        "accessibility_label": string(75),
        "visible_to_user_ids": items(string(20), 10),
        "agent_prompt": string(4000),
    },
)
CHOICES = both(
    shape(
        {},
        {
            **HINTED,
            "options": items(PLAIN_OPTION, 100),
            "option_groups": items(GROUP, 100),
            "initial_option": PLAIN_OPTION,
        },
    ),
    exactly_one("options", "option_groups"),
)
MANY = {"max_selected_items": number}
MANY_CHOICES = both(
    shape(
        {},
        {
            **HINTED,
            **MANY,
            "options": items(PLAIN_OPTION, 100),
            "option_groups": items(GROUP, 100),
            "initial_options": items(PLAIN_OPTION, 100),
        },
    ),
    exactly_one("options", "option_groups"),
)
TEXT_INPUT = shape(
    {},
    {
        **HINTED,
        "initial_value": string(3000, 0),
        "multiline": flag,
        "min_length": number,
        "max_length": number,
        "dispatch_action_config": DISPATCH,
    },
)
INPUTS: dict[str, Check] = {
    "plain_text_input": TEXT_INPUT,
    "email_text_input": shape({}, {**HINTED, "initial_value": string(3000, 0), "dispatch_action_config": DISPATCH}),
    "url_text_input": shape({}, {**HINTED, "initial_value": string(3000, 0), "dispatch_action_config": DISPATCH}),
    "number_input": shape(
        {"is_decimal_allowed": flag},
        {
            **HINTED,
            "initial_value": string(100),
            "min_value": string(100),
            "max_value": string(100),
            "dispatch_action_config": DISPATCH,
        },
    ),
    "static_select": CHOICES,
    "multi_static_select": MANY_CHOICES,
    "users_select": shape({}, {**HINTED, "initial_user": string(20)}),
    "multi_users_select": shape({}, {**HINTED, **MANY, "initial_users": items(string(20), 100)}),
    "conversations_select": shape(
        {},
        {
            **HINTED,
            "initial_conversation": string(20),
            "default_to_current_conversation": flag,
            "response_url_enabled": flag,
            "filter": anything,
        },
    ),
    "channels_select": shape({}, {**HINTED, "initial_channel": string(20), "response_url_enabled": flag}),
    "external_select": shape({}, {**HINTED, "min_query_length": number, "initial_option": PLAIN_OPTION}),
    "datepicker": shape({}, {**HINTED, "initial_date": DATE}),
    "timepicker": shape({}, {**HINTED, "initial_time": TIME, "timezone": string(100)}),
    "datetimepicker": shape({}, {**ACTING, "initial_date_time": number}),
    "checkboxes": shape({"options": items(OPTION, 10)}, {**ACTING, "initial_options": items(OPTION, 10)}),
    "radio_buttons": shape({"options": items(OPTION, 10)}, {**ACTING, "initial_option": OPTION}),
    "rich_text_input": shape({}, {**HINTED, "initial_value": anything, "dispatch_action_config": DISPATCH}),
    "file_input": shape({}, {"action_id": IDENT, "filetypes": anything, "max_files": number}),
}
NOT_IN_ACTIONS = {"plain_text_input", "email_text_input", "url_text_input", "number_input", "file_input"}
OVERFLOW = shape({"options": items(PLAIN_OPTION, 5)}, {"action_id": IDENT, "confirm": CONFIRM})
WORKFLOW = shape(
    {"text": plain(75), "workflow": anything},
    {"action_id": IDENT, "style": one_of("primary", "danger"), "accessibility_label": string(75)},
)
PRESSED: dict[str, Check] = {"button": BUTTON, "overflow": OVERFLOW, "workflow_button": WORKFLOW}
IN_ACTIONS = PRESSED | {name: check for name, check in INPUTS.items() if name not in NOT_IN_ACTIONS}
ELEMENT_IMAGE = both(
    shape({"alt_text": string(2000)}, {"image_url": URL, "slack_file": anything}),
    exactly_one("image_url", "slack_file"),
)
FEEDBACK_BUTTONS = shape({"positive_button": FEEDBACK, "negative_button": FEEDBACK}, {"action_id": IDENT})
ICON_BUTTON = shape(
    {"icon": string(50), "text": plain(75)},
    {
        "action_id": IDENT,
        "value": string(2000),
        "confirm": CONFIRM,
        "accessibility_label": string(75),
        "visible_to_user_ids": anything,
    },
)


def in_context(value: Any, at: str) -> Iterator[str]:
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "image":
        yield from ELEMENT_IMAGE(value, at)
    elif kind in ("mrkdwn", "plain_text"):
        yield from words(3000)(value, at)
    else:
        yield problem(f"unsupported type: {kind}", f"{at}/type")


RICH = typed(
    {name: anything for name in ("rich_text_section", "rich_text_list", "rich_text_preformatted", "rich_text_quote")}
)
CELL = typed({"raw_text": shape({"text": string(10_000)}), "raw_number": anything, "rich_text": anything})
TASK = {
    "task_id": string(255),
    "title": string(256),
}
TASK_MORE = {
    "status": one_of("pending", "in_progress", "complete", "error"),
    "details": anything,
    "output": anything,
    "sources": anything,
    "block_id": IDENT,
}
BLOCKS: dict[str, Check] = {
    "section": both(
        shape(
            {},
            {
                "block_id": IDENT,
                "text": words(3000),
                "fields": items(words(2000), 10),
                "accessory": typed({**PRESSED, **IN_ACTIONS, "image": ELEMENT_IMAGE}),
                "expand": flag,
            },
        ),
        either("text", "fields"),
    ),
    "divider": shape({}, {"block_id": IDENT}),
    "image": IMAGE,
    "actions": shape({"elements": items(typed(IN_ACTIONS), 25)}, {"block_id": IDENT}),
    "context": shape({"elements": items(in_context, 10)}, {"block_id": IDENT}),
    "context_actions": shape(
        {"elements": items(typed({"feedback_buttons": FEEDBACK_BUTTONS, "icon_button": ICON_BUTTON}), 5)},
        {"block_id": IDENT},
    ),
    "header": shape({"text": plain(150)}, {"block_id": IDENT, "level": number}),
    "input": shape(
        {"label": plain(2000), "element": typed(INPUTS)},
        {"block_id": IDENT, "hint": plain(2000), "optional": flag, "dispatch_action": flag},
    ),
    "markdown": shape({"text": string(12_000)}, {"block_id": IDENT}),
    "rich_text": shape({"elements": items(RICH, 100)}, {"block_id": IDENT}),
    "table": shape({"rows": items(items(CELL, 20), 100)}, {"block_id": IDENT, "column_settings": items(anything, 20)}),
    "plan": shape(
        {"title": string(256)}, {"block_id": IDENT, "plan_id": IDENT, "tasks": items(shape(TASK, TASK_MORE), 50, 0)}
    ),
    "task_card": shape(TASK, TASK_MORE),
    "alert": shape({"text": words(200)}, {"block_id": IDENT, "level": string(20)}),
    "video": shape(
        {"alt_text": string(2000), "title": plain(200), "thumbnail_url": URL, "video_url": URL},
        {
            "block_id": IDENT,
            "author_name": string(50),
            "description": plain(200),
            "provider_icon_url": URL,
            "provider_name": string(50),
            "title_url": URL,
        },
    ),
}
MODAL_ONLY = {"alert"}
MESSAGE_ONLY = {"plan", "task_card", "context_actions", "markdown", "table"}
