"""Builds the objects that handle cards."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from bot.agent.suggester import Suggester
from bot.app.foundation import Foundation
from bot.approvals.card_editor import CardEditor
from bot.approvals.delivery import CardDelivery
from bot.approvals.dialogs import CardDialogs
from bot.approvals.effect_runner import EffectRunner
from bot.approvals.lifecycle import ApprovalLifecycle
from bot.approvals.openings import CardOpener
from bot.approvals.press import PressHandler
from bot.approvals.refusals import PressRefuser
from bot.approvals.suggestions import SuggestionHandler
from bot.conversation.file_intake import take_chosen_files


@dataclass(frozen=True, slots=True, kw_only=True)
class Approvals:
    """The objects that handle cards."""

    card_delivery: CardDelivery
    lifecycle: ApprovalLifecycle
    card_opener: CardOpener
    dialogs: CardDialogs
    press_handler: PressHandler


def build_approvals(parts: Foundation) -> Approvals:
    base, desk, clock = parts.resources, parts.tool_services, parts.resources.timing.clock
    stores, settings = base.stores, base.settings
    card_delivery = CardDelivery(
        chat=base.platform.channel,
        directory=base.platform.directory,
        list_deputies=lambda task: desk.engine.list_task_deputies(task, clock.today()),
    )
    lifecycle = ApprovalLifecycle(
        card_delivery=card_delivery, approvals=stores.approvals, journal=stores.journal, clock=clock
    )
    card_opener = CardOpener(
        approvals=stores.approvals,
        card_delivery=card_delivery,
        lifecycle=lifecycle,
        clock=clock,
        open_for=timedelta(hours=settings.approval_ttl_hours),
        advice=settings.advice == "on",
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
        card_delivery=card_delivery,
        lifecycle=lifecycle,
        card_opener=card_opener,
        dialogs=dialogs,
        press_handler=_build_press_handler(parts, card_delivery, lifecycle, open_for=card_opener.open_for),
    )


def _build_press_handler(
    parts: Foundation, card_delivery: CardDelivery, lifecycle: ApprovalLifecycle, *, open_for: timedelta
) -> PressHandler:
    stores, directory = parts.resources.stores, parts.resources.platform.directory
    desk, clock = parts.tool_services, parts.resources.timing.clock
    card_editor = CardEditor(
        card_delivery=card_delivery,
        lifecycle=lifecycle,
        tool_services=desk,
        tools=parts.tools,
        clock=clock,
        open_for=open_for,
    )
    effect_runner = EffectRunner(
        card_delivery=card_delivery,
        card_editor=card_editor,
        lifecycle=lifecycle,
        directory=directory,
        tool_services=desk,
        tools=parts.tools,
        clock=clock,
    )
    refuser = PressRefuser(
        card_delivery=card_delivery,
        lifecycle=lifecycle,
        approvals=stores.approvals,
        journal=stores.journal,
        clock=clock,
    )
    return PressHandler(
        approvals=stores.approvals,
        card_delivery=card_delivery,
        directory=directory,
        tool_services=desk,
        tools=parts.tools,
        lifecycle=lifecycle,
        refuser=refuser,
        card_editor=card_editor,
        effect_runner=effect_runner,
        clock=clock,
        take_files=partial(take_chosen_files, parts.file_intake),
    )


def build_suggestion_handler(parts: Foundation, approvals: Approvals) -> SuggestionHandler:
    base = parts.resources
    return SuggestionHandler(
        suggester=Suggester(base.model, parts.tool_services.handbook),
        approvals=base.stores.approvals,
        card_delivery=approvals.card_delivery,
        lifecycle=approvals.lifecycle,
        directory=base.platform.directory,
        spending=base.stores.usage,
        clock=base.timing.clock,
        prices=base.prices,
    )
