"""Marks, counters and tables in memory."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class MemoryKeyValueStore:
    """A store like `KeyValueStore`, in memory. `now`: seconds, from any clock."""

    now: Callable[[], float] = lambda: 0.0
    values: dict[str, tuple[str, float]] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    tables: dict[str, dict[str, str]] = field(default_factory=dict)

    async def get(self, key: str) -> str | None:
        value, until = self.values.get(key, ("", 0.0))
        return value if self.now() < until else None

    async def put(self, key: str, value: str, ms: int = 0) -> None:
        self.values[key] = (value, self.now() + ms / 1000 if ms else float("inf"))

    async def put_if_absent(self, key: str, value: str, ms: int) -> bool:
        if await self.get(key) is not None:
            return False
        await self.put(key, value, ms)
        return True

    async def delete_if_equal(self, key: str, value: str) -> None:
        if await self.get(key) == value:
            del self.values[key]

    async def increment_counter(self, name: str) -> int:
        self.counters[name] = self.counters.get(name, 0) + 1
        return self.counters[name]

    async def get_table(self, name: str) -> dict[str, str]:
        return dict(self.tables.get(name, {}))

    async def set_row(self, name: str, row: str, value: str) -> None:
        self.tables.setdefault(name, {})[row] = value

    async def delete_row(self, name: str, row: str) -> None:
        self.tables.get(name, {}).pop(row, None)
