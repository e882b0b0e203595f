"""Builds the context of cards."""

from __future__ import annotations

from datetime import timedelta

from bot.app.resources import Foundation
from bot.approvals.cards import Cards
from bot.features.collected import Features
from tools.outside import Outside


def build_cards(parts: Foundation, features: Features, outside: Outside | None) -> Cards:
    base, stores = parts.resources, parts.resources.stores
    return Cards(
        approvals=stores.approvals,
        journal=stores.journal,
        lanes=stores.lanes,
        chat=base.platform.channel,
        directory=base.platform.directory,
        tool_services=parts.tool_services,
        tools=parts.tools,
        outside=outside,
        clock=base.timing.clock,
        open_for=timedelta(hours=base.settings.approval_ttl_hours),
        features=features,
    )
