"""Whether somebody has used up what they may use of the model today."""

from __future__ import annotations

from bot.agent.limits import DailyBudget
from bot.storage.spending import UsageStore


async def is_budget_used_up(budget: DailyBudget, spending: UsageStore, person: str, currency: str) -> bool:
    """Asks the store only where there is a budget. `currency`: of the prices."""
    if not budget:
        return False
    used = await spending.load_daily_usage(spending.build_daily_query(person, currency))
    return budget.is_used_up(used.tokens, used.cost)
