"""Small checks that compose. Each walks a JSON value and yields the platform's refusals in its wording, with a JSON
pointer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Check: TypeAlias = Callable[[Any, str], Iterator[str]]
"""A check: (value, pointer) → problems."""


def format_problem(words: str, at: str) -> str:
    return f"[ERROR] {words} [json-pointer:{at}]"


def check_anything(value: Any, at: str) -> Iterator[str]:
    yield from ()


def check_boolean(value: Any, at: str) -> Iterator[str]:
    if not isinstance(value, bool):
        yield format_problem("must be a boolean", at)


def check_number(value: Any, at: str) -> Iterator[str]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield format_problem("must be a number", at)


def check_string(most: int, least: int = 1) -> Check:
    """Check a string of `least` to `most` characters."""

    def check_value(value: Any, at: str) -> Iterator[str]:
        if not isinstance(value, str):
            yield format_problem("must be a string", at)
        elif len(value) < least:
            yield format_problem(f"must be more than {least - 1} characters", at)
        elif len(value) > most:
            yield format_problem(f"must be less than {most + 1} characters", at)

    return check_value


def check_one_of(*allowed: str) -> Check:
    def check_value(value: Any, at: str) -> Iterator[str]:
        if value not in allowed:
            yield format_problem(f"must be one of: {', '.join(allowed)}", at)

    return check_value


def check_pattern(pattern: Callable[[str], object], words: str) -> Check:
    """Check a string that `pattern` matches; `words` describe the expected form."""

    def check_value(value: Any, at: str) -> Iterator[str]:
        if not isinstance(value, str) or not pattern(value):
            yield format_problem(words, at)

    return check_value


def check_items(each: Check, most: int, least: int = 1) -> Check:
    """Check a list of `least` to `most` values."""

    def check_value(value: Any, at: str) -> Iterator[str]:
        if not isinstance(value, Sequence) or isinstance(value, str):
            yield format_problem("must be an array", at)
            return
        if len(value) > most:
            yield format_problem(f"no more than {most} items allowed", at)
        if len(value) < least:
            yield format_problem(f"no less than {least} items allowed", at)
        for index, item in enumerate(value):
            yield from each(item, f"{at}/{index}")

    return check_value


def check_shape(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """Check an object with these fields and no others (`type` aside)."""
    fields = {"type": check_anything, **(optional or {}), **required}

    def check_value(value: Any, at: str) -> Iterator[str]:
        if not isinstance(value, Mapping):
            yield format_problem("must be an object", at)
            return
        for name in required:
            if value.get(name) is None:
                yield format_problem(f"missing required field: {name}", at)
        for name, inner in value.items():
            if name not in fields:
                yield format_problem(f"invalid additional property: {name}", at)
            elif inner is not None:
                yield from fields[name](inner, f"{at}/{name}")

    return check_value


def check_by_type(checks: Mapping[str, Check]) -> Check:
    """Check an object by its `type`; unknown types are refused."""

    def check_value(value: Any, at: str) -> Iterator[str]:
        if not isinstance(value, Mapping):
            yield format_problem("must be an object", at)
        elif "type" not in value:
            yield format_problem("missing required field: type", at)
        elif not isinstance(value["type"], str) or value["type"] not in checks:
            yield format_problem(f"unsupported type: {value['type']}", f"{at}/type")
        else:
            yield from checks[value["type"]](value, at)

    return check_value


def check_any_field(*names: str) -> Check:
    """Check that an object has at least one of these fields."""

    def check_value(value: Any, at: str) -> Iterator[str]:
        if not any(value.get(name) for name in names):
            yield format_problem(f"missing required field: {' or '.join(names)}", at)

    return check_value


def check_both(first: Check, second: Check) -> Check:
    """Run `second` only if `first` finds nothing, so that it can rely on the shape."""

    def check_value(value: Any, at: str) -> Iterator[str]:
        found = list(first(value, at))
        yield from found or second(value, at)

    return check_value
