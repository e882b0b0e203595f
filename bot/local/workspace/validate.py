"""Refuse what the platform refuses: block counts, text lengths, ids, dialog limits, unknown blocks and elements.

The tables of `kit`, then the rules that need more than one place to see, then slack_sdk's own models as a second
opinion. Problems read like the platform's `response_metadata.messages`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

from slack_sdk.errors import SlackObjectFormationError
from slack_sdk.models.blocks import Block

from bot.local.workspace.kit import BLOCKS, MESSAGE_ONLY, MODAL_ONLY, plain
from bot.local.workspace.schema import anything, flag, items, problem, shape, string, typed
from bot.local.workspace.world import Json

Surface: TypeAlias = Literal["message", "modal", "home"]

POST_TEXT = 40_000
"""Characters of a message's text."""
UPDATE_BYTES = 4_000
"""UTF-8 bytes of the text of `chat.update`: less than of a post."""
MARKDOWN_TEXT = 12_000
BLOCK_TEXT = 13_200
"""Characters of all text in a message's blocks together (observed: slackapi/bolt-js issue 2509)."""
METADATA_BYTES = 8_000
VIEW_BYTES = 250_000
TABLE_TEXT = 10_000
EVENT_TYPE = re.compile(r"^[A-Za-z0-9_.:-]{1,255}$")

VIEW = typed(
    {
        "modal": shape(
            {"title": plain(24), "blocks": anything},
            {
                "close": plain(24),
                "submit": plain(24),
                "private_metadata": string(3000, 0),
                "callback_id": string(255, 0),
                "external_id": string(255, 0),
                "clear_on_close": flag,
                "notify_on_close": flag,
                "submit_disabled": flag,
            },
        ),
        "home": shape(
            {"blocks": anything},
            {"private_metadata": string(3000, 0), "callback_id": string(255, 0), "external_id": string(255, 0)},
        ),
    }
)


def block_problems(blocks: Any, surface: Surface = "message", at: str = "/blocks") -> list[str]:
    """Everything the platform would say about these blocks; empty when they are fine."""
    most = 50 if surface == "message" else 100
    least = 0 if surface == "message" else 1
    return list(items(typed(BLOCKS), most, least)(blocks, at)) or list(wider(blocks, surface, at))


def view_problems(view: Any) -> list[str]:
    found = list(VIEW(view, "/view")) or block_problems(view["blocks"], view["type"], "/view/blocks")
    if not found and view["type"] == "modal" and view.get("submit") is None and has_input(view["blocks"]):
        return [problem("missing required field: submit", "/view")]
    return found


def has_input(blocks: Sequence[Json]) -> bool:
    return any(block["type"] == "input" for block in blocks)


def wider(blocks: Sequence[Json], surface: Surface, at: str) -> Iterator[str]:
    """Rules over several places of well-shaped blocks."""
    yield from misplaced(blocks, surface, at)
    yield from repeated_ids(blocks, at)
    yield from input_rules(blocks, at)
    if sum(len(block["text"]) for block in blocks if block["type"] == "markdown") > MARKDOWN_TEXT:
        yield problem(f"markdown text must be less than {MARKDOWN_TEXT + 1} characters", at)
    tables = [block for block in blocks if block["type"] == "table"]
    if len(tables) > 1:
        yield problem("only one table is allowed", at)
    if sum(text_length(table) for table in tables) > TABLE_TEXT:
        yield problem(f"table text must be less than {TABLE_TEXT + 1} characters", at)
    for index, block in enumerate(blocks):
        yield from second_opinion(block, f"{at}/{index}")


def misplaced(blocks: Sequence[Json], surface: Surface, at: str) -> Iterator[str]:
    refused = MODAL_ONLY if surface == "message" else MESSAGE_ONLY | (MODAL_ONLY if surface == "home" else set())
    for index, block in enumerate(blocks):
        if block["type"] in refused:
            yield problem(f"unsupported type: {block['type']}", f"{at}/{index}/type")


def repeated_ids(blocks: Sequence[Json], at: str) -> Iterator[str]:
    seen: set[str] = set()
    focused = 0
    for index, block in enumerate(blocks):
        if (name := block.get("block_id")) is not None:
            if name in seen:
                yield problem(f"`block_id` already exists: {name}", f"{at}/{index}/block_id")
            seen.add(name)
        ids = [element["action_id"] for element in elements(block) if element.get("action_id")]
        for name in {name for name in ids if ids.count(name) > 1}:
            yield problem(f"`action_id` already exists: {name}", f"{at}/{index}/elements")
        focused += sum(bool(element.get("focus_on_load")) for element in elements(block))
    if focused > 1:
        yield problem("only one element may have focus_on_load", at)


def elements(block: Json) -> list[Json]:
    """The interactive elements (and images) inside a block."""
    inside = [*block.get("elements", ())] if block.get("type") in ("actions", "context_actions") else []
    inside += [block[name] for name in ("accessory", "element") if isinstance(block.get(name), dict)]
    return inside


def input_rules(blocks: Sequence[Json], at: str) -> Iterator[str]:
    for index, block in enumerate(blocks):
        for element in elements(block):
            options = all_options(element)
            values = [option["value"] for option in options]
            if len(set(values)) < len(values):
                yield problem("option values must be unique", f"{at}/{index}")
            for initial in initial_options(element):
                if initial not in options:
                    yield problem("initial option must be one of the options", f"{at}/{index}")
            least, most = element.get("min_length", 0), element.get("max_length", 3000)
            if element["type"] == "plain_text_input" and not 0 <= least <= most <= 3000:
                yield problem("min_length and max_length must be between 0 and 3000", f"{at}/{index}/element")


def all_options(element: Json) -> list[Json]:
    grouped = [option for group in element.get("option_groups") or () for option in group["options"]]
    return [*(element.get("options") or ()), *grouped]


def initial_options(element: Json) -> list[Json]:
    if element["type"].startswith("external"):
        return []
    one = element.get("initial_option")
    return [*([one] if one else []), *(element.get("initial_options") or ())]


def second_opinion(block: Json, at: str) -> Iterator[str]:
    """What slack_sdk's models say."""
    try:
        parsed = Block.parse(block)
        if parsed is None:
            yield problem(f"unsupported type: {block['type']}", f"{at}/type")
        else:
            parsed.to_dict()
    except (SlackObjectFormationError, TypeError, ValueError, AttributeError, KeyError) as refused:
        yield problem(str(refused), at)


def text_length(value: Any) -> int:
    """Characters of all `text` strings inside, however deep."""
    if isinstance(value, dict):
        return sum(len(v) if k == "text" and isinstance(v, str) else text_length(v) for k, v in value.items())
    return sum(map(text_length, value)) if isinstance(value, list) else 0


def metadata_problems(metadata: Any) -> list[str]:
    check = shape({"event_type": string(255), "event_payload": anything}, {"entities": anything})
    found = list(check(metadata, "/metadata"))
    if not found and not isinstance(metadata["event_payload"], dict):
        found.append(problem("must be an object", "/metadata/event_payload"))
    if not found and not EVENT_TYPE.match(metadata["event_type"]):
        found.append(problem("must be alphanumeric", "/metadata/event_type"))
    return found


def size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())
