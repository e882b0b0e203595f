"""Builds the feature of this folder."""

from __future__ import annotations

from functools import partial

from bot.core.work_items import CompactConversation
from bot.features.contract import Core, Feature, Work
from bot.features.summaries.compaction import HistoryCompactor, build_compaction_request
from bot.features.summaries.summary import Summarizer


def build(core: Core) -> Feature:
    compactor = HistoryCompactor(
        summarizer=Summarizer(core.model, core.directory.list_people),
        runs=core.runs,
        history=core.history,
        directory=core.directory,
        journal=core.journal,
        spending=core.spending,
        prices=core.prices,
        budget=core.budget,
        pause_ms=core.summary_pause_ms,
    )
    return Feature(
        work=(Work(model=CompactConversation, handle=compactor.compact_history),),
        build_answer_writes=partial(build_compaction_request, core.history),
    )
