"""The state of the installation, for administrators: stuck lanes, dead letters, today's usage, and whether the model
answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from bot.core.clock import Clock
from bot.core.i18n import shorten_text, translate
from bot.features.home.waiting_lanes import LaneFigures, list_stuck_lanes
from bot.storage.dead_letters import DeadLetter, DeadLetterStore
from bot.storage.journal import Journal
from bot.storage.spending import UsageStore
from tools.workflow.engine.state import format_decimal

MODEL_MS = 15 * 60_000
"""Time after a failure in which the model counts as out of reach (ms)."""
LOADED_MS = 10_000
"""Time for which the figures are kept (ms), so that a page that is renewed often counts them once."""
SHOWN = 10
"""Most lanes, and most letters, in the dialog."""
ERROR = 120
"""Most characters shown of an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationsState:
    loaded_ms: int
    stuck: tuple[LaneFigures, ...]
    letters: tuple[DeadLetter, ...]
    """Oldest first."""
    replies: int
    tokens: int
    costs: dict[str, Decimal]
    failures: int
    """Number of recent times that the model could not be reached."""


@dataclass(slots=True, kw_only=True)
class OperationsReader:
    letters: DeadLetterStore
    journal: Journal
    usage: UsageStore
    clock: Clock
    model: str
    """Name of the model in use."""
    state: OperationsState | None = None

    async def load_state(self) -> OperationsState:
        """Load the figures. Raises StoreUnavailableError."""
        now_ms = self.clock.now_ms()
        if self.state is not None and now_ms - self.state.loaded_ms < LOADED_MS:
            return self.state
        costs, replies, tokens = defaultdict[str, Decimal](Decimal), 0, 0
        for row in await self.usage.list_usage_rows(1):
            replies, tokens = replies + row.replies, tokens + row.tokens_in + row.tokens_out
            for currency, cost in row.costs.items():
                costs[currency] += cost
        downs = self.journal.stream_records(since=f"{MODEL_MS // 1000}s", kinds=("model.down",))
        self.state = OperationsState(
            loaded_ms=now_ms,
            stuck=tuple(await list_stuck_lanes(self.letters.redis, self.letters.keys)),
            letters=tuple(await self.letters.list_dead_letters()),
            replies=replies,
            tokens=tokens,
            costs=dict(costs),
            failures=len([one async for one in downs]),
        )
        return self.state

    async def describe_operations(self, language: str) -> Sequence[str]:
        """Describe lanes, letters, usage and model, in one line each."""
        state = await self.load_state()
        spent = " · ".join(f"{format_decimal(cost)} {currency}" for currency, cost in sorted(state.costs.items()))
        model = "down" if state.failures else "up"
        return (
            translate("home.stuck" if state.stuck else "home.none_stuck", language, n=len(state.stuck)),
            translate("home.dead" if state.letters else "home.none_dead", language, n=len(state.letters)),
            translate(
                "home.usage", language, replies=state.replies, tokens=state.tokens, cost=f" · {spent}" if spent else ""
            ),
            translate(f"home.model_{model}", language, model=self.model, n=state.failures, minutes=MODEL_MS // 60_000),
        )

    async def describe_details(self, language: str) -> Sequence[str]:
        """Describe the lanes, the longest waiting first, and the letters, newest first, without people's text."""
        state = await self.load_state()
        lanes = [
            translate("home.stuck_lane", language, lane=one.lane, tries=one.tries, minutes=one.oldest_ms // 60_000,
                      error=shorten_text(one.error, ERROR) or "—")
            for one in state.stuck[:SHOWN]
        ]  # fmt: skip
        letters = [
            translate("home.letter", language, id=one.item.id, kind=one.kind or "—",
                      error=shorten_text(one.item.error, ERROR) or "—")
            for one in reversed(state.letters[-SHOWN:])
        ]  # fmt: skip
        return [*lanes, *letters]
