"""Builds the objects that handle cards."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from bot.app.resources import Foundation
from bot.approvals.card_editor import CardEditor
from bot.approvals.delivery import CardDelivery
from bot.approvals.dialogs import CardDialogs
from bot.approvals.effect_runner import EffectRunner
from bot.approvals.fresh_cards import CardReplacer
from bot.approvals.lifecycle import ApprovalLifecycle
from bot.approvals.openings import CardOpener, OpenTime
from bot.approvals.press import PressHandler
from bot.approvals.refusals import PressRefuser
from bot.features.collected import Features


@dataclass(frozen=True, slots=True, kw_only=True)
class Approvals:
    """The objects that handle cards."""

    lifecycle: ApprovalLifecycle
    card_opener: CardOpener
    dialogs: CardDialogs
    press_handler: PressHandler


@dataclass(frozen=True, slots=True, kw_only=True)
class CardBasics:
    """The objects for cards that features may use, too."""

    card_delivery: CardDelivery
    lifecycle: ApprovalLifecycle
    refuser: PressRefuser


def build_card_basics(parts: Foundation) -> CardBasics:
    base, engine, clock = parts.resources, parts.tool_services.engine, parts.resources.timing.clock
    stores = base.stores
    card_delivery = CardDelivery(
        chat=base.platform.channel,
        directory=base.platform.directory,
        list_deputies=lambda task: engine.list_task_deputies(task, clock.today()),
        is_catching_up=stores.lanes.is_catching_up,
    )
    lifecycle = ApprovalLifecycle(
        card_delivery=card_delivery, approvals=stores.approvals, journal=stores.journal, clock=clock
    )
    refuser = PressRefuser(
        card_delivery=card_delivery,
        lifecycle=lifecycle,
        approvals=stores.approvals,
        journal=stores.journal,
        clock=clock,
    )
    return CardBasics(card_delivery=card_delivery, lifecycle=lifecycle, refuser=refuser)


def build_approvals(parts: Foundation, basics: CardBasics, features: Features) -> Approvals:
    base, desk, clock = parts.resources, parts.tool_services, parts.resources.timing.clock
    stores, settings, card_delivery, lifecycle = base.stores, base.settings, basics.card_delivery, basics.lifecycle
    open_time = OpenTime(
        directory=base.platform.directory,
        length=timedelta(hours=settings.approval_ttl_hours),
        calendar=desk.calendar,
    )
    card_opener = CardOpener(
        approvals=stores.approvals,
        card_delivery=card_delivery,
        lifecycle=lifecycle,
        clock=clock,
        open_time=open_time,
        build_card_writes=features.build_card_writes,
    )
    dialogs = CardDialogs(
        approvals=stores.approvals,
        card_delivery=card_delivery,
        directory=base.platform.directory,
        tool_services=desk,
        tools=parts.tools,
        clock=clock,
    )
    return Approvals(
        lifecycle=lifecycle,
        card_opener=card_opener,
        dialogs=dialogs,
        press_handler=_build_press_handler(parts, basics, features, open_time),
    )


def _build_press_handler(
    parts: Foundation, basics: CardBasics, features: Features, open_time: OpenTime
) -> PressHandler:
    card_delivery, lifecycle = basics.card_delivery, basics.lifecycle
    stores, directory = parts.resources.stores, parts.resources.platform.directory
    desk, clock = parts.tool_services, parts.resources.timing.clock
    card_editor = CardEditor(
        card_delivery=card_delivery,
        lifecycle=lifecycle,
        tool_services=desk,
        tools=parts.tools,
        clock=clock,
        open_time=open_time,
    )
    effect_runner = EffectRunner(
        card_editor=card_editor,
        lifecycle=lifecycle,
        directory=directory,
        tool_services=desk,
        outside=parts.resources.outside,
        tools=parts.tools,
        clock=clock,
    )
    return PressHandler(
        approvals=stores.approvals,
        card_delivery=card_delivery,
        directory=directory,
        tool_services=desk,
        tools=parts.tools,
        lifecycle=lifecycle,
        refuser=basics.refuser,
        card_editor=card_editor,
        effect_runner=effect_runner,
        card_replacer=CardReplacer(
            approvals=stores.approvals,
            card_delivery=card_delivery,
            directory=directory,
            tool_services=desk,
            journal=stores.journal,
            keys=stores.keys,
            clock=clock,
        ),
        clock=clock,
        files=features.files,
        feature_presses=features.card_presses,
    )
