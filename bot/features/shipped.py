"""The features, in their order: the buttons and the lines under an answer stand in it, after `small_talk`, which takes
the receipt away, and commands are known before words that only agree. Take a line out, and the bot works without that
feature."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from redis.asyncio import Redis

from bot.features import (
    approver_question,
    changed_messages,
    commands,
    diagrams,
    duplicates,
    lost_decisions,
    offered_steps,
    request_forms,
    retry,
    small_talk,
    suggestions,
    welcome,
)
from bot.features.agreements import feature as agreements
from bot.features.alerts import feature as alerts
from bot.features.contract import Core, Feature
from bot.features.feedback import feature as feedback
from bot.features.files import feature as files
from bot.features.footnotes import feature as footnotes
from bot.features.grounding import feature as grounding
from bot.features.home import feature as home
from bot.features.sets import feature as sets
from bot.features.sets import morning_lists
from bot.features.summaries import compaction
from bot.features.summaries import feature as summaries
from bot.queue.keys import Keys
from tools.spec import FrozenModel

FEATURES: tuple[Callable[[Core], Feature], ...] = (
    small_talk.build,
    retry.build,
    feedback.build,
    approver_question.build,
    offered_steps.build,
    changed_messages.build,
    diagrams.build,
    grounding.build,
    suggestions.build,
    welcome.build,
    home.build,
    request_forms.build,
    sets.build,
    summaries.build,
    lost_decisions.build,
    duplicates.build,
    commands.build,
    agreements.build,
    footnotes.build,
    files.build,
    alerts.build,
)
MODELS: Sequence[type[FrozenModel]] = (
    compaction.CompactConversation,
    diagrams.RenderDiagram,
    lost_decisions.FindLostDecisions,
    morning_lists.OpenMorningList,
    morning_lists.StartMorning,
    suggestions.DraftSuggestion,
    suggestions.ShowSuggestion,
    welcome.WelcomePerson,
)
"""The items of features. Every process can read them: without its feature an item ends without an effect."""
JOURNAL_KINDS = frozenset(
    {
        *agreements.JOURNAL_KINDS,
        *alerts.JOURNAL_KINDS,
        *changed_messages.JOURNAL_KINDS,
        *diagrams.JOURNAL_KINDS,
        *feedback.JOURNAL_KINDS,
        *files.JOURNAL_KINDS,
        *request_forms.JOURNAL_KINDS,
        *retry.JOURNAL_KINDS,
        *sets.JOURNAL_KINDS,
        *summaries.JOURNAL_KINDS,
    }
)
"""The kinds of journal records that features write (`bot.storage.journal`)."""
RUN_NOTES: Mapping[str, Callable[[Redis, Keys, str], Awaitable[list[dict[str, str]]]]] = {
    "feedback": feedback.list_ratings
}
"""Notes that people make on a run: field in `countersign export` → reader of the notes of a run. A note has its person
(`by`) and a `rating`."""
RATINGS = (*feedback.CHOICES.values(),)
"""All ratings of notes."""
