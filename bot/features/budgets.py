"""The check of a person's daily budget, for features that ask a model outside of runs."""

from __future__ import annotations

from bot.agent.loop import ModelInUse
from bot.storage.spending import UsageStore


async def is_budget_used_up(model: ModelInUse, spending: UsageStore, person: str) -> bool:
    """Whether the person has used up today's budget. The store is asked only if there is a budget."""
    if not model.daily_budget:
        return False
    used = await spending.load_daily_usage(person, model.prices.currency)
    return model.daily_budget.is_used_up(used.tokens, used.cost)
