"""The check of a person's daily model budget."""

from __future__ import annotations

from bot.agent.limits import Budget
from bot.storage.spending import UsageStore


async def is_budget_used_up(budget: Budget, spending: UsageStore, person: str, currency: str) -> bool:
    """Whether the person has used up today's budget. The store is asked only if there is a budget. `currency`: the
    currency of the prices."""
    if not budget:
        return False
    used = await spending.load_daily_usage(spending.build_daily_query(person, currency))
    return budget.is_used_up(used.tokens, used.cost)
