"""The use of a model outside of runs: its count, and the check of a person's daily budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bot.agent.loop import ModelInUse
from bot.agent.model import Model, ModelReply
from bot.storage.spending import UsageStore


@dataclass(slots=True)
class MeteredModel:
    """Records the replies of a model."""

    model: Model
    replies: list[ModelReply] = field(default_factory=list)

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        reply = await self.model.request_reply(messages, extra, timeout_s=timeout_s)
        self.replies.append(reply)
        return reply


async def is_budget_used_up(model: ModelInUse, spending: UsageStore, person: str) -> bool:
    """Whether the person has used up today's budget. The store is asked only if there is a budget."""
    if not model.daily_budget:
        return False
    used = await spending.load_daily_usage(person, model.prices.currency)
    return model.daily_budget.is_used_up(used.tokens, used.cost)
