"""Block Kit as tables: the blocks, elements and objects that the bot sends, and their limits. Any other is refused.

The limits are those published for Block Kit (docs.slack.dev/reference/block-kit) and those in slack_sdk's models."""

from __future__ import annotations

from bot.dev.workspace.schema import (
    ANYTHING,
    BOOLEAN,
    NUMBER,
    Schema,
    build_choice,
    build_items,
    build_shape,
    build_string,
)

IDENT = build_string(255)
DATE = {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$", "description": "must be in format YYYY-MM-DD"}


def build_plain_text(most: int) -> Schema:
    return build_choice({"plain_text": build_shape({"text": build_string(most)}, {"emoji": BOOLEAN})})


def build_any_text(most: int) -> Schema:
    """Build the schema of a plain text or mrkdwn."""
    mrkdwn = build_shape({"text": build_string(most)}, {"verbatim": BOOLEAN})
    return build_choice({"plain_text": build_plain_text(most), "mrkdwn": mrkdwn})


OPTION, PLAIN_OPTION = (
    build_shape({"text": text, "value": build_string(150)}, {"description": text})
    for text in (build_any_text(75), build_plain_text(75))
)
HINTED = {"action_id": IDENT, "placeholder": build_plain_text(150)}
FEEDBACK = build_shape(
    {"text": build_plain_text(75), "value": build_string(2000)}, {"accessibility_label": build_string(75)}
)
BUTTON = build_shape(
    {"text": build_plain_text(75)},
    {
        "action_id": IDENT,
        "value": build_string(2000),
        "style": {"enum": ["primary", "danger"]},
        "accessibility_label": build_string(75),
    },
)
INPUTS: dict[str, Schema] = {
    "plain_text_input": build_shape(
        {}, {**HINTED, "initial_value": build_string(3000, 0), "multiline": BOOLEAN, "max_length": NUMBER}
    ),
    "number_input": build_shape({"is_decimal_allowed": BOOLEAN}, {**HINTED, "initial_value": build_string(100)}),
    "static_select": build_shape(
        {"options": build_items(PLAIN_OPTION, 100)}, {**HINTED, "initial_option": PLAIN_OPTION}
    ),
    "users_select": build_shape({}, {**HINTED, "initial_user": build_string(20)}),
    "multi_users_select": build_shape({}, {**HINTED, "initial_users": build_items(build_string(20), 100)}),
    "datepicker": build_shape({}, {**HINTED, "initial_date": DATE}),
    "checkboxes": build_shape(
        {"options": build_items(OPTION, 10)}, {"action_id": IDENT, "initial_options": build_items(OPTION, 10)}
    ),
    "file_input": build_shape({}, {"action_id": IDENT, "max_files": NUMBER}),
}
NOT_IN_ACTIONS = {"plain_text_input", "number_input", "file_input"}
IN_ACTIONS = {"button": BUTTON} | {name: one for name, one in INPUTS.items() if name not in NOT_IN_ACTIONS}
FEEDBACK_BUTTONS = build_shape({"positive_button": FEEDBACK, "negative_button": FEEDBACK}, {"action_id": IDENT})
RICH = build_choice({"rich_text_section": ANYTHING})
TASK = {"task_id": build_string(255), "title": build_string(256)}
TASK_MORE = {
    "status": {"enum": ["pending", "in_progress", "complete", "error"]},
    "details": ANYTHING,
    "block_id": IDENT,
}
BLOCKS: dict[str, Schema] = {
    "section": {
        **build_shape(
            {},
            {
                "block_id": IDENT,
                "text": build_any_text(3000),
                "fields": build_items(build_any_text(2000), 10),
                "expand": BOOLEAN,
            },
        ),
        "anyOf": [{"required": ["text"]}, {"required": ["fields"]}],
        "description": "missing required field: text or fields",
    },
    "divider": build_shape({}, {"block_id": IDENT}),
    "actions": build_shape({"elements": build_items(build_choice(IN_ACTIONS), 25)}, {"block_id": IDENT}),
    "context": build_shape({"elements": build_items(build_any_text(3000), 10)}, {"block_id": IDENT}),
    "context_actions": build_shape(
        {"elements": build_items(build_choice({"feedback_buttons": FEEDBACK_BUTTONS}), 5)}, {"block_id": IDENT}
    ),
    "header": build_shape({"text": build_plain_text(150)}, {"block_id": IDENT}),
    "input": build_shape(
        {"label": build_plain_text(2000), "element": build_choice(INPUTS)},
        {"block_id": IDENT, "hint": build_plain_text(2000), "optional": BOOLEAN, "dispatch_action": BOOLEAN},
    ),
    "markdown": build_shape({"text": build_string(12_000)}, {"block_id": IDENT}),
    "rich_text": build_shape({"elements": build_items(RICH, 100)}, {"block_id": IDENT}),
    "plan": build_shape(
        {"title": build_string(256)}, {"block_id": IDENT, "tasks": build_items(build_shape(TASK, TASK_MORE), 50, 0)}
    ),
}
MESSAGE_ONLY = {"plan", "context_actions", "markdown"}
