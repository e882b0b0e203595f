"""From the arguments that somebody wrote to the card that shows what will be executed.

What nobody can see is not in the values that a tool of ours stores and executes; the card says how much of it was taken
away, and from what. Tools of servers get their arguments as they are: their cards show them with escapes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from bot.texts import label, sentences
from bot.trace import fit
from tools.characters import clean_value, count_cleaned
from tools.facts import PREFIX
from tools.spec import Fact, Note, Plan, ToolError
from tools.tool import Tool, Use

NAMED = 6
"""So many of the values that something was taken from are named."""


async def plan_call(tool: Tool, use: Use, args: Mapping[str, Any]) -> Plan:
    """The plan of a gated call, with a note on what was removed from its arguments. Raises `ToolError`; also when a
    tool of ours would store something that its card cannot show as it is."""
    if tool.prepare is None:
        raise ToolError("tool_failed", f"{tool.name} needs a button and has no card.")
    plan = await tool.prepare(use, fit(tool.args, args))
    if tool.server:
        return plan
    left = _count_by_name(plan.args)
    if left:
        name = next(iter(left))
        raise ToolError("bad_arguments", f"{name} has characters that nobody can see", field=name)
    removed = _count_by_name(args)
    return plan.with_facts((*plan.facts, _note_removed(plan, removed))) if removed else plan


def clean_form(form: Mapping[str, str]) -> dict[str, str]:
    """What a dialog brought, without what cannot be seen."""
    return {name: clean_value(text) for name, text in form.items()}


def count_removed(form: Mapping[str, str]) -> int:
    """How many characters `clean_form` removes."""
    return sum(map(count_cleaned, form.values()))


def _note_removed(plan: Plan, removed: Mapping[str, int]) -> Fact:
    fields = [field for choice in plan.choices for field in choice.fields]
    labels = {one.name.removeprefix(PREFIX): one.label for one in reversed(fields) if one.name.startswith(PREFIX)}
    names = [_label_both(labels.get(name, name)) for name in list(removed)[:NAMED]]
    listed = {"zh": "、".join(one["zh"] for one in names), "en": ", ".join(one["en"] for one in names)}
    return Fact(label="invisible", value=Note(key="fact.removed", params={"n": sum(removed.values()), "from": listed}))


def _label_both(name: str | dict[str, str]) -> dict[str, str]:
    known = not isinstance(name, str) or f"label.{name}" in sentences()
    return {language: label(name, language) if known else str(name) for language in ("zh", "en")}


def _count_by_name(args: Mapping[str, Any]) -> Counter[str]:
    """Characters that would be removed, by the innermost name of the value that has them."""
    counted = Counter[str]()
    for name, text in _texts("", args):
        if count := count_cleaned(text):
            counted[name] += count
    return counted


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _texts(str(key).removeprefix(PREFIX), one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(name, one)
