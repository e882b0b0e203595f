"""Home pages of a `Lab`."""

from __future__ import annotations

from typing import Any

from bot.conversation.home import HomeBuilder
from bot.conversation.home_actions import HomeActions
from bot.conversation.operations import OperationsReader
from bot.storage.dead_letters import DeadLetterStore
from bot.storage.homes import HomeStore
from bot.storage.morning_preferences import MorningPreferenceStore
from bot.storage.preferences import PreferenceStore
from tests.harness.lab import Lab


def build_home_parts(lab: Lab) -> tuple[HomeBuilder, HomeActions]:
    shared: dict[str, Any] = {
        "tool_services": lab.desk,
        "directory": lab.staff,
        "approvals": lab.approvals,
        "card_delivery": lab.ends.card_delivery,
        "homes": HomeStore(lab.redis, lab.keys),
        "preferences": PreferenceStore(lab.redis, lab.keys),
        "operations": OperationsReader(
            letters=DeadLetterStore(lab.redis, lab.keys),
            journal=lab.journal,
            usage=lab.spending,
            clock=lab.clock,
            model="scripted",
        ),
        "keys": lab.keys,
        "clock": lab.clock,
        "mornings": MorningPreferenceStore(lab.redis, lab.keys),
        "morning_at": "08:30",
    }
    return HomeBuilder(**shared), HomeActions(**shared)
