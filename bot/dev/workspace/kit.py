"""Block Kit as tables: the known blocks, elements and objects, and their limits.

The limits are those published for Block Kit (docs.slack.dev/reference/block-kit) and those in slack_sdk's models."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from bot.dev.workspace.schema import (
    Check,
    check_any_field,
    check_anything,
    check_boolean,
    check_both,
    check_by_type,
    check_items,
    check_number,
    check_one_field,
    check_one_of,
    check_pattern,
    check_shape,
    check_string,
    format_problem,
)

URL = check_both(
    check_string(3000), check_pattern(re.compile(r"^[a-z][a-z0-9+.-]*:", re.I).match, "must be a valid URL")
)
IDENT = check_string(255)
DATE = check_pattern(re.compile(r"^\d{4}-\d{2}-\d{2}$").match, "must be in format YYYY-MM-DD")
TIME = check_pattern(re.compile(r"^([01]\d|2[0-3]):[0-5]\d$").match, "must be in format HH:mm")


def check_plain_text(most: int, least: int = 1) -> Check:
    return check_by_type({"plain_text": check_shape({"text": check_string(most, least)}, {"emoji": check_boolean})})


def check_any_text(most: int) -> Check:
    """Check a plain text or mrkdwn."""
    mrkdwn = check_shape({"text": check_string(most)}, {"verbatim": check_boolean})
    return check_by_type(
        {"plain_text": check_shape({"text": check_string(most)}, {"emoji": check_boolean}), "mrkdwn": mrkdwn}
    )


CONFIRM = check_shape(
    {
        "title": check_plain_text(100),
        "text": check_any_text(300),
        "confirm": check_plain_text(30),
        "deny": check_plain_text(30),
    },
    {"style": check_one_of("primary", "danger")},
)
OPTION = check_shape(
    {"text": check_any_text(75), "value": check_string(150)}, {"description": check_any_text(75), "url": URL}
)
PLAIN_OPTION = check_shape(
    {"text": check_plain_text(75), "value": check_string(150)}, {"description": check_plain_text(75), "url": URL}
)
GROUP = check_shape({"label": check_plain_text(75), "options": check_items(PLAIN_OPTION, 100)})
IMAGE = check_both(
    check_shape(
        {"alt_text": check_string(2000)},
        {"image_url": URL, "slack_file": check_anything, "title": check_plain_text(2000), "block_id": IDENT},
    ),
    check_one_field("image_url", "slack_file"),
)
ACTING = {"action_id": IDENT, "confirm": CONFIRM, "focus_on_load": check_boolean}
HINTED = {**ACTING, "placeholder": check_plain_text(150)}
DISPATCH = check_shape(
    {}, {"trigger_actions_on": check_items(check_one_of("on_enter_pressed", "on_character_entered"), 2)}
)


FEEDBACK = check_shape(
    {"text": check_plain_text(75), "value": check_string(2000)}, {"accessibility_label": check_string(75)}
)
BUTTON = check_shape(
    {"text": check_plain_text(75)},
    {
        "action_id": IDENT,
        "url": URL,
        "value": check_string(2000),
        "style": check_one_of("primary", "danger"),
        "confirm": CONFIRM,
        "accessibility_label": check_string(75),
        "visible_to_user_ids": check_items(check_string(20), 10),
        "agent_prompt": check_string(4000),
    },
)
CHOICES = check_both(
    check_shape(
        {},
        {
            **HINTED,
            "options": check_items(PLAIN_OPTION, 100),
            "option_groups": check_items(GROUP, 100),
            "initial_option": PLAIN_OPTION,
        },
    ),
    check_one_field("options", "option_groups"),
)
MANY = {"max_selected_items": check_number}
MANY_CHOICES = check_both(
    check_shape(
        {},
        {
            **HINTED,
            **MANY,
            "options": check_items(PLAIN_OPTION, 100),
            "option_groups": check_items(GROUP, 100),
            "initial_options": check_items(PLAIN_OPTION, 100),
        },
    ),
    check_one_field("options", "option_groups"),
)
TEXT_INPUT = check_shape(
    {},
    {
        **HINTED,
        "initial_value": check_string(3000, 0),
        "multiline": check_boolean,
        "min_length": check_number,
        "max_length": check_number,
        "dispatch_action_config": DISPATCH,
    },
)
INPUTS: dict[str, Check] = {
    "plain_text_input": TEXT_INPUT,
    "email_text_input": check_shape(
        {}, {**HINTED, "initial_value": check_string(3000, 0), "dispatch_action_config": DISPATCH}
    ),
    "url_text_input": check_shape(
        {}, {**HINTED, "initial_value": check_string(3000, 0), "dispatch_action_config": DISPATCH}
    ),
    "number_input": check_shape(
        {"is_decimal_allowed": check_boolean},
        {
            **HINTED,
            "initial_value": check_string(100),
            "min_value": check_string(100),
            "max_value": check_string(100),
            "dispatch_action_config": DISPATCH,
        },
    ),
    "static_select": CHOICES,
    "multi_static_select": MANY_CHOICES,
    "users_select": check_shape({}, {**HINTED, "initial_user": check_string(20)}),
    "multi_users_select": check_shape({}, {**HINTED, **MANY, "initial_users": check_items(check_string(20), 100)}),
    "conversations_select": check_shape(
        {},
        {
            **HINTED,
            "initial_conversation": check_string(20),
            "default_to_current_conversation": check_boolean,
            "response_url_enabled": check_boolean,
            "filter": check_anything,
        },
    ),
    "channels_select": check_shape(
        {}, {**HINTED, "initial_channel": check_string(20), "response_url_enabled": check_boolean}
    ),
    "external_select": check_shape({}, {**HINTED, "min_query_length": check_number, "initial_option": PLAIN_OPTION}),
    "datepicker": check_shape({}, {**HINTED, "initial_date": DATE}),
    "timepicker": check_shape({}, {**HINTED, "initial_time": TIME, "timezone": check_string(100)}),
    "datetimepicker": check_shape({}, {**ACTING, "initial_date_time": check_number}),
    "checkboxes": check_shape(
        {"options": check_items(OPTION, 10)}, {**ACTING, "initial_options": check_items(OPTION, 10)}
    ),
    "radio_buttons": check_shape({"options": check_items(OPTION, 10)}, {**ACTING, "initial_option": OPTION}),
    "rich_text_input": check_shape({}, {**HINTED, "initial_value": check_anything, "dispatch_action_config": DISPATCH}),
    "file_input": check_shape({}, {"action_id": IDENT, "filetypes": check_anything, "max_files": check_number}),
}
NOT_IN_ACTIONS = {"plain_text_input", "email_text_input", "url_text_input", "number_input", "file_input"}
OVERFLOW = check_shape({"options": check_items(PLAIN_OPTION, 5)}, {"action_id": IDENT, "confirm": CONFIRM})
WORKFLOW = check_shape(
    {"text": check_plain_text(75), "workflow": check_anything},
    {"action_id": IDENT, "style": check_one_of("primary", "danger"), "accessibility_label": check_string(75)},
)
PRESSED: dict[str, Check] = {"button": BUTTON, "overflow": OVERFLOW, "workflow_button": WORKFLOW}
IN_ACTIONS = PRESSED | {name: check for name, check in INPUTS.items() if name not in NOT_IN_ACTIONS}
ELEMENT_IMAGE = check_both(
    check_shape({"alt_text": check_string(2000)}, {"image_url": URL, "slack_file": check_anything}),
    check_one_field("image_url", "slack_file"),
)
FEEDBACK_BUTTONS = check_shape({"positive_button": FEEDBACK, "negative_button": FEEDBACK}, {"action_id": IDENT})
ICON_BUTTON = check_shape(
    {"icon": check_string(50), "text": check_plain_text(75)},
    {
        "action_id": IDENT,
        "value": check_string(2000),
        "confirm": CONFIRM,
        "accessibility_label": check_string(75),
        "visible_to_user_ids": check_anything,
    },
)


def check_context_element(value: Any, at: str) -> Iterator[str]:
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "image":
        yield from ELEMENT_IMAGE(value, at)
    elif kind in ("mrkdwn", "plain_text"):
        yield from check_any_text(3000)(value, at)
    else:
        yield format_problem(f"unsupported type: {kind}", f"{at}/type")


RICH = check_by_type(
    {
        name: check_anything
        for name in ("rich_text_section", "rich_text_list", "rich_text_preformatted", "rich_text_quote")
    }
)
CELL = check_by_type(
    {"raw_text": check_shape({"text": check_string(10_000)}), "raw_number": check_anything, "rich_text": check_anything}
)
TASK = {"task_id": check_string(255), "title": check_string(256)}
TASK_MORE = {
    "status": check_one_of("pending", "in_progress", "complete", "error"),
    "details": check_anything,
    "output": check_anything,
    "sources": check_anything,
    "block_id": IDENT,
}
BLOCKS: dict[str, Check] = {
    "section": check_both(
        check_shape(
            {},
            {
                "block_id": IDENT,
                "text": check_any_text(3000),
                "fields": check_items(check_any_text(2000), 10),
                "accessory": check_by_type({**PRESSED, **IN_ACTIONS, "image": ELEMENT_IMAGE}),
                "expand": check_boolean,
            },
        ),
        check_any_field("text", "fields"),
    ),
    "divider": check_shape({}, {"block_id": IDENT}),
    "image": IMAGE,
    "actions": check_shape({"elements": check_items(check_by_type(IN_ACTIONS), 25)}, {"block_id": IDENT}),
    "context": check_shape({"elements": check_items(check_context_element, 10)}, {"block_id": IDENT}),
    "context_actions": check_shape(
        {"elements": check_items(check_by_type({"feedback_buttons": FEEDBACK_BUTTONS, "icon_button": ICON_BUTTON}), 5)},
        {"block_id": IDENT},
    ),
    "header": check_shape({"text": check_plain_text(150)}, {"block_id": IDENT, "level": check_number}),
    "input": check_shape(
        {"label": check_plain_text(2000), "element": check_by_type(INPUTS)},
        {
            "block_id": IDENT,
            "hint": check_plain_text(2000),
            "optional": check_boolean,
            "dispatch_action": check_boolean,
        },
    ),
    "markdown": check_shape({"text": check_string(12_000)}, {"block_id": IDENT}),
    "rich_text": check_shape({"elements": check_items(RICH, 100)}, {"block_id": IDENT}),
    "table": check_shape(
        {"rows": check_items(check_items(CELL, 20), 100)},
        {"block_id": IDENT, "column_settings": check_items(check_anything, 20)},
    ),
    "plan": check_shape(
        {"title": check_string(256)},
        {"block_id": IDENT, "plan_id": IDENT, "tasks": check_items(check_shape(TASK, TASK_MORE), 50, 0)},
    ),
    "task_card": check_shape(TASK, TASK_MORE),
    "alert": check_shape({"text": check_any_text(200)}, {"block_id": IDENT, "level": check_string(20)}),
    "video": check_shape(
        {"alt_text": check_string(2000), "title": check_plain_text(200), "thumbnail_url": URL, "video_url": URL},
        {
            "block_id": IDENT,
            "author_name": check_string(50),
            "description": check_plain_text(200),
            "provider_icon_url": URL,
            "provider_name": check_string(50),
            "title_url": URL,
        },
    ),
}
MODAL_ONLY = {"alert"}
MESSAGE_ONLY = {"plan", "task_card", "context_actions", "markdown", "table"}
