"""Block Kit as tables: the blocks, elements and objects that the bot sends, and their limits. Any other is refused.

The limits are those published for Block Kit (docs.slack.dev/reference/block-kit) and those in slack_sdk's models."""

from __future__ import annotations

import re

from bot.dev.workspace.schema import (
    Check,
    check_any_field,
    check_anything,
    check_boolean,
    check_both,
    check_by_type,
    check_items,
    check_number,
    check_one_of,
    check_pattern,
    check_shape,
    check_string,
)

URL = check_both(
    check_string(3000), check_pattern(re.compile(r"^[a-z][a-z0-9+.-]*:", re.I).match, "must be a valid URL")
)
IDENT = check_string(255)
DATE = check_pattern(re.compile(r"^\d{4}-\d{2}-\d{2}$").match, "must be in format YYYY-MM-DD")


def check_plain_text(most: int) -> Check:
    return check_by_type({"plain_text": check_shape({"text": check_string(most)}, {"emoji": check_boolean})})


def check_any_text(most: int) -> Check:
    """Check a plain text or mrkdwn."""
    mrkdwn = check_shape({"text": check_string(most)}, {"verbatim": check_boolean})
    return check_by_type({"plain_text": check_plain_text(most), "mrkdwn": mrkdwn})


OPTION, PLAIN_OPTION = (
    check_shape({"text": text, "value": check_string(150)}, {"description": text, "url": URL})
    for text in (check_any_text(75), check_plain_text(75))
)
HINTED = {"action_id": IDENT, "placeholder": check_plain_text(150)}
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
        "accessibility_label": check_string(75),
    },
)
INPUTS: dict[str, Check] = {
    "plain_text_input": check_shape(
        {},
        {
            **HINTED,
            "initial_value": check_string(3000, 0),
            "multiline": check_boolean,
            "min_length": check_number,
            "max_length": check_number,
        },
    ),
    "number_input": check_shape(
        {"is_decimal_allowed": check_boolean},
        {
            **HINTED,
            "initial_value": check_string(100),
            "min_value": check_string(100),
            "max_value": check_string(100),
        },
    ),
    "static_select": check_shape(
        {"options": check_items(PLAIN_OPTION, 100)}, {**HINTED, "initial_option": PLAIN_OPTION}
    ),
    "users_select": check_shape({}, {**HINTED, "initial_user": check_string(20)}),
    "multi_users_select": check_shape({}, {**HINTED, "initial_users": check_items(check_string(20), 100)}),
    "datepicker": check_shape({}, {**HINTED, "initial_date": DATE}),
    "checkboxes": check_shape(
        {"options": check_items(OPTION, 10)}, {"action_id": IDENT, "initial_options": check_items(OPTION, 10)}
    ),
    "file_input": check_shape({}, {"action_id": IDENT, "max_files": check_number}),
}
NOT_IN_ACTIONS = {"plain_text_input", "number_input", "file_input"}
IN_ACTIONS = {"button": BUTTON} | {name: check for name, check in INPUTS.items() if name not in NOT_IN_ACTIONS}
FEEDBACK_BUTTONS = check_shape({"positive_button": FEEDBACK, "negative_button": FEEDBACK}, {"action_id": IDENT})
RICH = check_by_type({"rich_text_section": check_anything})
TASK = {"task_id": check_string(255), "title": check_string(256)}
TASK_MORE = {
    "status": check_one_of("pending", "in_progress", "complete", "error"),
    "details": check_anything,
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
                "expand": check_boolean,
            },
        ),
        check_any_field("text", "fields"),
    ),
    "divider": check_shape({}, {"block_id": IDENT}),
    "actions": check_shape({"elements": check_items(check_by_type(IN_ACTIONS), 25)}, {"block_id": IDENT}),
    "context": check_shape({"elements": check_items(check_any_text(3000), 10)}, {"block_id": IDENT}),
    "context_actions": check_shape(
        {"elements": check_items(check_by_type({"feedback_buttons": FEEDBACK_BUTTONS}), 5)}, {"block_id": IDENT}
    ),
    "header": check_shape({"text": check_plain_text(150)}, {"block_id": IDENT}),
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
    "plan": check_shape(
        {"title": check_string(256)},
        {"block_id": IDENT, "tasks": check_items(check_shape(TASK, TASK_MORE), 50, 0)},
    ),
}
MESSAGE_ONLY = {"plan", "context_actions", "markdown"}
