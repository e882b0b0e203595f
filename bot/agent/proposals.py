"""From the arguments that somebody wrote to the card that shows what will be executed.

What nobody can see is not in the values that a tool of ours stores and executes; the card says how much of it was taken
away, and from what. Tools of servers get their arguments as they are: their cards show them with escapes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from bot.core.i18n import load_sentences, translate_label
from bot.core.run_state import validate_args
from tools.cards.fields import PREFIX
from tools.characters import clean_value, count_cleaned
from tools.spec import CardField, Proposal, TextRef, ToolError
from tools.tool import Tool, ToolContext

NAMED = 6
"""So many of the values that something was taken from are named."""


async def propose_call(tool: Tool, context: ToolContext, args: Mapping[str, Any]) -> Proposal:
    """The plan of a gated call, with a note on what was removed from its arguments. Raises `ToolError`; also when a
    tool of ours would store something that its card cannot show as it is."""
    if tool.prepare is None:
        raise ToolError("tool_failed", f"{tool.name} needs a button and has no card.")
    proposal = await tool.prepare(context, validate_args(tool.args, args))
    if tool.server:
        return proposal
    left = _count_removed_by_name(proposal.args)
    if left:
        name = next(iter(left))
        raise ToolError("bad_arguments", f"{name} has characters that nobody can see", field=name)
    removed = _count_removed_by_name(args)
    return (
        proposal.with_card_fields((*proposal.fields, _build_removed_fact(proposal, removed))) if removed else proposal
    )


def clean_form(form: Mapping[str, str]) -> dict[str, str]:
    """What a dialog brought, without what cannot be seen."""
    return {name: clean_value(text) for name, text in form.items()}


def count_removed_characters(form: Mapping[str, str]) -> int:
    """How many characters `clean_form` removes."""
    return sum(map(count_cleaned, form.values()))


def _build_removed_fact(proposal: Proposal, removed: Mapping[str, int]) -> CardField:
    fields = [field for choice in proposal.choices for field in choice.fields]
    labels = {one.name.removeprefix(PREFIX): one.label for one in reversed(fields) if one.name.startswith(PREFIX)}
    names = [_label_both_languages(labels.get(name, name)) for name in list(removed)[:NAMED]]
    listed = {"zh": "、".join(one["zh"] for one in names), "en": ", ".join(one["en"] for one in names)}
    return CardField(
        label="invisible", value=TextRef(key="fact.removed", params={"n": sum(removed.values()), "from": listed})
    )


def _label_both_languages(name: str | dict[str, str]) -> dict[str, str]:
    known = not isinstance(name, str) or f"label.{name}" in load_sentences()
    return {language: translate_label(name, language) if known else str(name) for language in ("zh", "en")}


def _count_removed_by_name(args: Mapping[str, Any]) -> Counter[str]:
    """Characters that would be removed, by the innermost name of the value that has them."""
    counted = Counter[str]()
    for name, text in _walk_texts("", args):
        if count := count_cleaned(text):
            counted[name] += count
    return counted


def _walk_texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _walk_texts(str(key).removeprefix(PREFIX), one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _walk_texts(name, one)
