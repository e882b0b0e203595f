"""A corpus: a table of cases as one test, which reports every failing case."""

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest


def corpus(names: str | Sequence[str], *rows: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Like `pytest.mark.parametrize`, but one test: each row is a subtest, named by its values, with an emptied `redis`
    and its own `monkeypatch`. All rows share the other fixtures. A corpus without rows is an error."""
    keys = [one.strip() for one in names.split(",")] if isinstance(names, str) else list(names)
    table = [dict(zip(keys, [row] if len(keys) == 1 else row, strict=True)) for row in rows]
    if not table:
        raise ValueError(f"there is nothing in the corpus of {names}")

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        fixtures = [one for name, one in inspect.signature(test).parameters.items() if name not in keys]
        wants_subtests = any(one.name == "subtests" for one in fixtures)  # a corpus of corpora

        @contextmanager
        def take_turn(
            row: dict[str, Any], given: dict[str, Any], subtests: pytest.Subtests
        ) -> Iterator[dict[str, Any]]:
            patch = given.get("monkeypatch")
            with subtests.test(_describe_row(row)), patch.context() if patch else nullcontext() as fresh:
                patched = {"monkeypatch": fresh} if patch else {}
                yield {**given, **patched, **row, **({"subtests": subtests} if wants_subtests else {})}

        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def play(*, subtests: pytest.Subtests, **given: Any) -> None:
                for row in table:
                    if "redis" in given:
                        await given["redis"].flushall()
                    with take_turn(row, given, subtests) as arguments:
                        await test(**arguments)
        else:

            @functools.wraps(test)
            def play(*, subtests: pytest.Subtests, **given: Any) -> None:
                for row in table:
                    with take_turn(row, given, subtests) as arguments:
                        test(**arguments)

        asked = inspect.Parameter("subtests", inspect.Parameter.KEYWORD_ONLY)
        others = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in fixtures if one.name != "subtests"]
        play.__signature__ = inspect.Signature([asked, *others])  # type: ignore[attr-defined]
        return play

    return decorate


def _describe_row(row: dict[str, Any]) -> str:
    return " | ".join(getattr(value, "__name__", None) or ascii(value)[:80] for value in row.values())
