"""Turns a call's arguments into the proposal on a card, which shows what will be executed.

Invisible characters are removed from the values that a tool of ours stores and executes. The card says how many were
removed, and from what. Tools of servers get their arguments unchanged, and their cards show them with escapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from bot.core.i18n import load_sentences, translate_label
from bot.core.run_state import validate_args
from tools.cards.fields import FIELD_PREFIX
from tools.characters import clean_value, count_cleaned
from tools.spec import CardField, Proposal, TextRef, ToolError
from tools.tool import Tool, ToolContext

MAX_NAMES = 6
"""Most names of changed values in the note."""


async def propose_call(tool: Tool, context: ToolContext, args: Mapping[str, Any]) -> Proposal:
    """Build the proposal of a gated call, with a note on what was removed from its arguments. Raises `ToolError`, also
    if a tool of ours would store something that its card cannot show unchanged."""
    if tool.prepare is None:  # fail closed: a call that cannot be shown is not run
        raise ToolError("tool_failed", f"{tool.name} needs a button and has no card.")
    proposal = await tool.prepare(context, validate_args(tool.args, args))
    if tool.server:
        return proposal
    left = _count_removed_by_name(proposal.args)
    if left:
        name = next(iter(left))
        raise ToolError("bad_arguments", f"{name} has characters that nobody can see", field=name)
    removed = _count_removed_by_name(args)
    if not removed:
        return proposal
    fields = [field for choice in proposal.choices for field in choice.fields]
    labels: dict[str, str | dict[str, str]] = {
        one.name.removeprefix(FIELD_PREFIX): one.label for one in reversed(fields) if one.name.startswith(FIELD_PREFIX)
    }
    names: dict[str, list[str]] = {"zh": [], "en": []}
    for name in list(removed)[:MAX_NAMES]:
        label = labels.get(name, name)
        is_known = not isinstance(label, str) or f"label.{label}" in load_sentences()
        for language, several in names.items():
            several.append(translate_label(label, language) if is_known else str(label))
    listed = {"zh": "、".join(names["zh"]), "en": ", ".join(names["en"])}
    note = TextRef(key="fact.removed", params={"n": sum(removed.values()), "from": listed})
    return proposal.with_card_fields((*proposal.fields, CardField(label="invisible", value=note)))


def clean_form(form: Mapping[str, str]) -> dict[str, str]:
    """Return the answers of a dialog without invisible characters."""
    return {name: clean_value(text) for name, text in form.items()}


def _count_removed_by_name(args: Mapping[str, Any]) -> Counter[str]:
    """Count removed characters by the innermost name of their value."""
    counts = Counter[str]()
    for name, text in _walk_texts("", args):
        if count := count_cleaned(text):
            counts[name] += count
    return counts


def _walk_texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _walk_texts(str(key).removeprefix(FIELD_PREFIX), one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _walk_texts(name, one)
