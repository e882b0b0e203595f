"""Caches values computed from the list of all people. A directory returns the same tuple until somebody has changed, so
such a value is computed once per tuple and not for each question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

T = TypeVar("T")
S = TypeVar("S", bound=Sequence[Any])


def remember_by_list(make: Callable[[S], T]) -> Callable[[S], T]:
    """Wrap a function so that it is not called again for the tuple it was last called with. Nothing is cached for other
    sequences, which may change. If the value for another tuple equals the last value, the last object is returned
    again, so that values computed from it are cached too."""
    latest: list[tuple[S, T]] = []

    @wraps(make)
    def remembered(people: S) -> T:
        for known, value in latest:
            if known is people:
                return value
        value = make(people)
        if latest and latest[0][1] == value:
            value = latest[0][1]
        latest[:] = [(people, value)] if isinstance(people, tuple) else []
        return value

    return remembered
