"""The features, in their order: the buttons under an answer stand in it. Take a line out, and the bot works without
that feature."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bot.features import (
    approver_question,
    changed_messages,
    diagrams,
    duplicates,
    feedback,
    lost_decisions,
    offered_steps,
    request_forms,
    retry,
    suggestions,
    welcome,
)
from bot.features.contract import Core, Feature
from bot.features.files import feature as files
from bot.features.grounding import feature as grounding
from bot.features.home import feature as home
from bot.features.sets import feature as sets
from bot.features.sets import morning_lists
from bot.features.summaries import compaction
from bot.features.summaries import feature as summaries
from tools.spec import FrozenModel

FEATURES: tuple[Callable[[Core], Feature], ...] = (
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
    files.build,
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
"""The features' own items. Every process can read them: without its feature an item ends without an effect."""
