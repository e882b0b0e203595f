"""Builds the feature of this folder."""

from __future__ import annotations

from bot.features.contract import Core, Feature
from bot.features.home.actions import HomeActions
from bot.features.home.open_pages import HomeRefresher, HomeStore
from bot.features.home.operations import OperationsReader
from bot.features.home.page import HomeBuilder
from bot.storage.dead_letters import DeadLetterStore


def build(core: Core) -> Feature:
    operations = OperationsReader(
        letters=DeadLetterStore(core.stores.redis, core.stores.keys),
        journal=core.stores.journal,
        usage=core.stores.spending,
        clock=core.stores.clock,
        model=core.model.name,
    )
    pages = HomeStore(core.stores.redis, core.stores.keys)
    builder = HomeBuilder(core=core, pages=pages, operations=operations)
    return Feature(
        home=HomeActions(core=core, builder=builder),
        jobs=(HomeRefresher(core, pages, builder.build_home).refresh_changed_homes,),
    )
