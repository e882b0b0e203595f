"""The context of all turns, which functions of this room take first, and that of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from bot.agent.events import RunStep
from bot.agent.loop import AgentLoop
from bot.chat.messages import Post
from bot.chat.platform import Platform
from bot.conversation.progress import ProgressReporter
from bot.core.history_entries import PausedRun
from bot.core.records import Run, RunResult
from bot.queue.lanes import Lease
from bot.queue.writes import AppendHistory, Write
from bot.storage.history import ConversationHistory
from bot.storage.runs import ConversationState
from bot.storage.stores import Stores
from tools.spec import Caller, Proposal
from tools.tool import ToolServices


class TurnFeatures(Protocol):
    """The additions of all features to turns; see `bot.features.contract`."""

    async def complete_answer(self, run: Run, result: RunResult, post: Post, is_here: bool) -> Post:
        """Add to an answer. `is_here`: whether it stands where it was asked."""

    async def check_proposal(self, waiting: Sequence[PausedRun], run: Run, tool: str, proposal: Proposal) -> None:
        """Raise `ToolError` for a card that is not to come."""

    def build_step_writes(self, run: Run, step: RunStep) -> Sequence[Write]: ...

    def build_answer_writes(self, run: Run, history: ConversationHistory, added: AppendHistory) -> Sequence[Write]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """The stores, the platform, the tools, the model and the settings of turns."""

    stores: Stores
    platform: Platform
    tool_services: ToolServices
    loop: AgentLoop
    progress: ProgressReporter
    features: TurnFeatures
    company_rules: str = ""
    """The company's additions to the rules of the model (`prompt.render_company_rules`)."""
    list_settings: Callable[[], Mapping[str, str]]
    """All settings as an administrator may see them, with masked secrets."""
    on_run_ended: Callable[[Run], object]
    """Gets every run that ends, just before the end is stored. Returns at once and raises nothing."""
    down_ms: int = 5_000
    """Time that a message waits before the next try while the model cannot be reached (ms), unless the model asks for
    longer."""


@dataclass(slots=True, kw_only=True)
class TurnContext:
    """One run in this process, with its lease, caller and conversation."""

    lease: Lease
    run: Run
    caller: Caller
    conversation: ConversationState

    @property
    def is_other_run_waiting(self) -> bool:
        """Whether another run of the same thread waits for a card. In a DM each message has a thread of its own."""
        is_direct = self.run.message.place.direct
        return not is_direct and any(one.run != self.run.id for one in self.conversation.waiting)

    @property
    def is_redelivery(self) -> bool:
        """Whether another process may have posted some of this already."""
        return self.lease.item.is_redelivery
