"""What the scripted model says can be used: otherwise a run would only prove what happens when it cannot."""

import json
from datetime import UTC

from bot.agent.model import Messages, ModelReply
from bot.core.history_entries import HistoryEntry
from bot.features.grounding.feature import UNCALLED, build_correction_request
from bot.features.summaries.summary import EarlierTurns, Summarizer
from tests.features.grounding.battery import nobody
from tests.harness.scripted_model import ScriptedModel
from tests.qa.chaos.model import Brain


async def answer(messages: Messages) -> ModelReply:
    return ModelReply(text=str(Brain().reply(messages)["content"]))


async def test_it_sums_up_older_turns() -> None:
    turns = [HistoryEntry.from_content("user", "#c1-0 plain"), HistoryEntry.from_content("assistant", "answer #c1-0")]
    draft = await Summarizer(ScriptedModel([answer]), nobody).draft_summary(EarlierTurns(turns, UTC), 600)
    assert draft.lines and not draft.failure and not draft.dropped


def test_an_answer_without_a_call_stands() -> None:
    asked = build_correction_request("answer #c1-0", UNCALLED, ())
    assert Brain().reply(list(map(json.loads, asked)))["content"] == ""
