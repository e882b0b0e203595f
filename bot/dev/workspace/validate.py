"""Refusals of the platform: block counts, text lengths, ids, dialog limits, unknown blocks and elements.

The tables of `kit` come first, followed by rules over several places, and slack_sdk's own models as a second opinion.
Problems read like the platform's `response_metadata.messages`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

from slack_sdk.errors import SlackObjectFormationError
from slack_sdk.models.blocks import Block

from bot.dev.workspace.kit import BLOCKS, MESSAGE_ONLY, build_plain_text
from bot.dev.workspace.schema import (
    ANYTHING,
    build_choice,
    build_items,
    build_shape,
    build_string,
    format_problem,
    list_problems,
)
from bot.dev.workspace.world import Json

Surface: TypeAlias = Literal["message", "modal", "home"]

POST_TEXT = 40_000
"""Maximum characters of a message's text."""
UPDATE_BYTES = 4_000
"""Maximum UTF-8 bytes of the text of `chat.update`, less than for a post."""
MARKDOWN_TEXT = 12_000
BLOCK_TEXT = 13_200
"""Maximum characters of all text in a message's blocks together (observed: slackapi/bolt-js issue 2509)."""
METADATA_BYTES = 8_000
VIEW_BYTES = 250_000

_OF_VIEWS = {"private_metadata": build_string(3000, 0), "callback_id": build_string(255, 0)}
VIEW = build_choice(
    {
        "modal": build_shape(
            {"title": build_plain_text(24), "blocks": ANYTHING},
            {**_OF_VIEWS, "close": build_plain_text(24), "submit": build_plain_text(24)},
        ),
        "home": build_shape({"blocks": ANYTHING}, _OF_VIEWS),
    }
)
EVENT_TYPE = {"type": "string", "pattern": "^[A-Za-z0-9_.:-]{1,255}$", "description": "must be alphanumeric"}
METADATA = build_shape({"event_type": EVENT_TYPE, "event_payload": {"type": "object"}})


def check_blocks(blocks: Any, surface: Surface = "message", at: str = "/blocks") -> list[str]:
    """List all problems that the platform would report about these blocks."""
    most = 50 if surface == "message" else 100
    least = 0 if surface == "message" else 1
    problems = list_problems(build_items(build_choice(BLOCKS), most, least), blocks, at)
    return problems or list(check_across_blocks(blocks, surface, at))


def check_view(view: Any) -> list[str]:
    found = list_problems(VIEW, view, "/view") or check_blocks(view["blocks"], view["type"], "/view/blocks")
    needs_submit = not found and view["type"] == "modal" and any(block["type"] == "input" for block in view["blocks"])
    if needs_submit and view.get("submit") is None:
        return [format_problem("missing required field: submit", "/view")]
    return found


def check_across_blocks(blocks: Sequence[Json], surface: Surface, at: str) -> Iterator[str]:
    """Check rules over several places of well-shaped blocks."""
    yield from check_placement(blocks, surface, at)
    yield from check_unique_ids(blocks, at)
    yield from check_inputs(blocks, at)
    if sum(len(block["text"]) for block in blocks if block["type"] == "markdown") > MARKDOWN_TEXT:
        yield format_problem(f"markdown text must be less than {MARKDOWN_TEXT + 1} characters", at)
    for index, block in enumerate(blocks):
        yield from check_with_slack_sdk(block, f"{at}/{index}")


def check_placement(blocks: Sequence[Json], surface: Surface, at: str) -> Iterator[str]:
    for index, block in enumerate(blocks):
        if surface != "message" and block["type"] in MESSAGE_ONLY:
            yield format_problem(f"unsupported type: {block['type']}", f"{at}/{index}/type")


def check_unique_ids(blocks: Sequence[Json], at: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, block in enumerate(blocks):
        if (name := block.get("block_id")) is not None:
            if name in seen:
                yield format_problem(f"`block_id` already exists: {name}", f"{at}/{index}/block_id")
            seen.add(name)
        ids = [element["action_id"] for element in list_elements(block) if element.get("action_id")]
        for name in {name for name in ids if ids.count(name) > 1}:
            yield format_problem(f"`action_id` already exists: {name}", f"{at}/{index}/elements")


def list_elements(block: Json) -> list[Json]:
    """List the interactive elements in a block."""
    inside = [*block.get("elements", ())] if block.get("type") in ("actions", "context_actions") else []
    return [*inside, *([block["element"]] if isinstance(block.get("element"), dict) else [])]


def check_inputs(blocks: Sequence[Json], at: str) -> Iterator[str]:
    for index, block in enumerate(blocks):
        for element in list_elements(block):
            options = list_options(element)
            values = [option["value"] for option in options]
            if len(set(values)) < len(values):
                yield format_problem("option values must be unique", f"{at}/{index}")
            for initial in filter(None, (element.get("initial_option"), *(element.get("initial_options") or ()))):
                if initial not in options:
                    yield format_problem("initial option must be one of the options", f"{at}/{index}")
            if not 1 <= (element.get("max_length") or 3000) <= 3000:
                yield format_problem("max_length must be between 1 and 3000", f"{at}/{index}/element")


def list_options(element: Json) -> list[Json]:
    return list(element.get("options") or ())


def check_with_slack_sdk(block: Json, at: str) -> Iterator[str]:
    """Check a block with slack_sdk's models."""
    try:
        parsed = Block.parse(block)
        if parsed is None:
            yield format_problem(f"unsupported type: {block['type']}", f"{at}/type")
        else:
            parsed.to_dict()
    except (SlackObjectFormationError, TypeError, ValueError, AttributeError, KeyError) as refused:
        yield format_problem(str(refused), at)


def count_text_characters(value: Any) -> int:
    """Count the characters of all `text` strings at any depth."""
    if isinstance(value, dict):
        return sum(len(v) if k == "text" and isinstance(v, str) else count_text_characters(v) for k, v in value.items())
    return sum(map(count_text_characters, value)) if isinstance(value, list) else 0


def check_metadata(metadata: Any) -> list[str]:
    return list_problems(METADATA, metadata, "/metadata")


def count_json_bytes(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())
