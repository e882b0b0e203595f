"""Builds the feature of this folder."""

from __future__ import annotations

from bot.features.contract import Core, Feature
from bot.features.home.actions import HomeActions
from bot.features.home.operations import OperationsReader
from bot.features.home.page import HomeBuilder
from bot.features.home.refresh import HomeRefresher
from bot.queue.rate_limits import RateLimiter
from bot.storage.dead_letters import DeadLetterStore
from bot.storage.morning_preferences import MorningPreferenceStore


def build(core: Core) -> Feature:
    operations = OperationsReader(
        letters=DeadLetterStore(core.redis, core.keys),
        journal=core.journal,
        usage=core.spending,
        clock=core.clock,
        model=core.model_name,
    )
    mornings = MorningPreferenceStore(core.redis, core.keys)
    builder = HomeBuilder(core=core, operations=operations, mornings=mornings)
    refresher = HomeRefresher(
        builder=builder, homes=core.homes, publish=core.publish_home, limits=RateLimiter(core.redis, core.keys)
    )
    return Feature(
        home=HomeActions(core=core, builder=builder, operations=operations, mornings=mornings),
        jobs=(refresher.refresh_changed_homes,),
    )
