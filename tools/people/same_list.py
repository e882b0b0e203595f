"""What is made of all people is made once for each list of them, and not for each question: a directory answers with
the same tuple until somebody has changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

T = TypeVar("T")
S = TypeVar("S", bound=Sequence[Any])


def remember_by_list(make: Callable[[S], T]) -> Callable[[S], T]:
    """The function, which is not called again for the very tuple that it was called with last. Other sequences may
    change, and nothing is remembered of them. What is made of another tuple and equals what was made before is that
    itself, so what is made of it in turn is remembered, too."""
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
