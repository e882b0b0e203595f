"""Pages of bounded observations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

PAGE = 20


def slice_page(items: Sequence[T], page: int, size: int = PAGE) -> tuple[Sequence[T], int | None]:
    """The items of a page, counted from 1, and the number of the next page if there is one."""
    end = page * size
    return items[end - size : end], page + 1 if len(items) > end else None
