"""Builds the objects that handle messages and runs."""

from __future__ import annotations

from bot.agent.loop import AgentLoop
from bot.app.company_files import build_daily_budget
from bot.app.resources import Foundation, Resources
from bot.conversation.agreements import AgreementAnswerer
from bot.conversation.card_requests import CardRequester
from bot.conversation.commands import CommandHandler
from bot.conversation.endings import RunReplies
from bot.conversation.notices import NoticePoster
from bot.conversation.progress import ProgressReporter
from bot.conversation.prompt_head import PromptHeadBuilder
from bot.conversation.run_loader import RunLoader
from bot.conversation.run_recorder import RunRecorder
from bot.conversation.stops import Stopper
from bot.conversation.triage import MessageTriage
from bot.conversation.turn import TurnHandler
from bot.features.collected import Features
from bot.storage.morning_preferences import MorningPreferenceStore


def build_turn_handler(parts: Foundation, loop: AgentLoop, features: Features) -> TurnHandler:
    base, desk, clock = parts.resources, parts.tool_services, parts.resources.timing.clock
    stores, platform, budget = base.stores, base.platform, build_daily_budget(base.settings)
    replies = RunReplies(
        chat=platform.channel,
        delivery=parts.delivery,
        directory=platform.directory,
        complete_answer=features.complete_answer,
    )
    run_recorder = RunRecorder(
        runs=stores.runs,
        memory=parts.memory,
        journal=stores.journal,
        spending=stores.usage,
        clock=clock,
        on_run_ended=base.on_run_ended,
        build_answer_writes=features.build_answer_writes,
        build_feature_writes=features.build_step_writes,
    )
    return TurnHandler(
        directory=platform.directory,
        tool_services=desk,
        triage=MessageTriage(
            directory=platform.directory,
            commands=_build_command_handler(parts),
            replies=replies,
            run_recorder=run_recorder,
        ),
        agreements=AgreementAnswerer(approvals=stores.approvals, replies=replies, run_recorder=run_recorder),
        run_loader=RunLoader(
            keys=stores.keys,
            runs=stores.runs,
            history=stores.history,
            spending=stores.usage,
            loop=loop,
            files=features.files,
            tool_services=desk,
            clock=clock,
            budget=budget,
        ),
        prompt_heads=PromptHeadBuilder(
            directory=platform.directory,
            tool_services=desk,
            loop=loop,
            clock=clock,
            runs=stores.runs,
            company_rules=base.company_rules,
        ),
        loop=loop,
        check_proposal=features.check_proposal,
        progress=ProgressReporter(
            chat=platform.channel,
            delivery=parts.delivery,
            clock=clock,
            display=base.settings.steps,
            get_choice=stores.preferences.get_steps,
            is_catching_up=stores.lanes.is_companion_waiting,
        ),
        card_requester=CardRequester(
            keys=stores.keys,
            chat=platform.channel,
            delivery=parts.delivery,
            replies=replies,
            tool_services=desk,
            clock=clock,
            runs=stores.runs,
            approvals=stores.approvals,
        ),
        replies=replies,
        run_recorder=run_recorder,
        clock=clock,
        file_source=platform.file_source,
        files=features.files,
        ingress_gate=parts.ingress_gate,
        budget=budget,
        down_ms=int(base.timing.outage_retry_s * 1000),
    )


def _build_command_handler(parts: Foundation) -> CommandHandler:
    base = parts.resources
    return CommandHandler(
        tool_services=parts.tool_services,
        history=base.stores.history,
        settings=base.settings.list_masked_values,
        stopper=parts.stopper,
        clock=base.timing.clock,
        preferences=MorningPreferenceStore(base.stores.redis, base.stores.keys),
    )


def build_stopper(resources: Resources) -> Stopper:
    stores = resources.stores
    return Stopper(
        lanes=stores.lanes,
        chat=resources.platform.channel,
        directory=resources.platform.directory,
        runs=stores.runs,
        history=stores.history,
        approvals=stores.approvals,
        journal=stores.journal,
        clock=resources.timing.clock,
    )


def build_notice_poster(parts: Foundation) -> NoticePoster:
    base, platform = parts.resources, parts.resources.platform
    return NoticePoster(
        chat=platform.channel,
        delivery=parts.delivery,
        directory=platform.directory,
        memory=parts.memory,
        overflows=parts.overflows,
        journal=base.stores.journal,
    )
