"""Several callers at the same moment."""

import asyncio
from typing import Any

from tests.harness.memory_store import Store


class Crowd:
    """A store that answers the first `size` callers of `what`, one or several methods, before any of them continues."""

    def __init__(self, store: Store, what: str, size: int) -> None:
        assert all(hasattr(store, name) for name in what.split()), what
        self._store, self._what, self._left, self._barrier = store, what.split(), size, asyncio.Barrier(size)

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._store, name)
        return self._together(asked) if name in self._what else asked

    def _together(self, asked: Any) -> Any:
        async def ask(*args: Any) -> Any:
            found = await asked(*args)
            self._left -= 1
            if self._left >= 0:
                await self._barrier.wait()
            return found

        return ask
