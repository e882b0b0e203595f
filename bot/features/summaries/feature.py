"""Builds the feature of this folder."""

from __future__ import annotations

from functools import partial

from bot.features.contract import Core, Feature, Work
from bot.features.summaries.compaction import CompactConversation, HistoryCompactor, build_compaction_request
from bot.features.summaries.summary import Summarizer

JOURNAL_KINDS = ("history.folded", "history.not_folded")


def build(core: Core) -> Feature:
    compactor = HistoryCompactor(
        stores=core.stores,
        directory=core.platform.directory,
        model=core.model,
        summarizer=Summarizer(core.model.endpoint, core.platform.directory.list_people),
        pause_ms=round(core.timing.summary_pause_s * 1000),
    )
    return Feature(
        work=(Work(model=CompactConversation, handle=compactor.compact_history),),
        build_answer_writes=partial(build_compaction_request, core.stores.history),
    )
