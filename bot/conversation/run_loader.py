"""Starts the run of a message, or loads it as it was stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from bot.agent import prompt
from bot.agent.limits import Budget
from bot.agent.loop import AgentLoop
from bot.chat.messages import Message
from bot.conversation.turn_context import TurnContext
from bot.core.clock import Clock
from bot.core.logs import bind_context
from bot.core.records import Run, RunStatus
from bot.queue.keys import Keys
from bot.queue.lanes import Lease
from bot.storage.file_keeper import FileKeeper
from bot.storage.history import ConversationHistory, HistoryStore
from bot.storage.runs import ConversationState, RunStore, derive_run_id
from bot.storage.spending import DailyUsageQuery, UsageStore
from tools.spec import Caller, Privacy
from tools.tool import ToolServices


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLoader:
    keys: Keys
    runs: RunStore
    history: HistoryStore
    spending: UsageStore
    loop: AgentLoop
    files: FileKeeper
    tool_services: ToolServices
    clock: Clock
    budget: Budget = field(default_factory=Budget)

    async def load_or_start_run(self, lease: Lease, message: Message, caller: Caller) -> TurnContext:
        """Return the run of the message: a new one, or the stored one if the message was begun before."""
        run_id, usage_query = self._derive_run_id(message), self._build_usage_query(message.person)
        stored_run_id = run_id if lease.item.is_redelivery else ""
        conversation = await self.runs.load_conversation(lease.lane, self.history, stored_run_id, usage_query)
        run, person = conversation.run, caller.person
        if run is None:
            run = Run(
                id=run_id,
                message=message,
                language=person.language,
                timezone=person.timezone,
                created_ms=self.clock.now_ms(),
            )
            run.state.privacy = Privacy.PUBLIC  # the run has seen nothing but the conversation
            await self.refresh_start_tools()
            recent = RecentConversation(conversation.history)
            run.state.offered_tools = self.loop.selector.choose_offered_tools(message.text, recent)
            files = self.files.list_usable_files(run, conversation.waiting_files)
            today = self.clock.today(person.zone)
            run.state.append_message(prompt.build_user_message(caller, message.text, today, files))
        return TurnContext(lease=lease, run=run, caller=caller, conversation=conversation)

    async def refresh_start_tools(self) -> None:
        """Update the start tools from the processes that exist now."""
        await self.loop.start_tools.refresh_tools(self.tool_services.engine)

    async def load_paused_run(self, lease: Lease, run_id: str) -> tuple[Run, ConversationState] | None:
        """Load a paused run that goes on after a button, with its conversation. None if the run has ended."""
        conversation = await self.runs.load_conversation(lease.lane, self.history, run_id)
        run = _find_unfinished_run(conversation.run)
        if run is None:
            return None
        bind_context(run=run.id)
        lease.set_person(run.message.person)
        if usage_query := self._build_usage_query(run.message.person):
            conversation = replace(conversation, usage=await self.spending.load_daily_usage(usage_query))
        return run, conversation

    async def load_run_of_message(self, message: Message) -> Run | None:
        return await self.runs.load_run(self._derive_run_id(message))

    async def load_unfinished_run(self, run_id: str) -> Run | None:
        return _find_unfinished_run(await self.runs.load_run(run_id))

    def get_budget_renewal(self) -> datetime:
        """Return the begin of the next day's budget (aware, UTC)."""
        return self.spending.get_next_day_start()

    def _derive_run_id(self, message: Message) -> str:
        return derive_run_id(self.keys, message)

    def _build_usage_query(self, person: str) -> DailyUsageQuery | None:
        """Build the query for the person's usage today, if a budget is set."""
        return self.spending.build_daily_query(person, self.loop.prices.currency) if self.budget else None


def _find_unfinished_run(run: Run | None) -> Run | None:
    return run if run is not None and run.status in (RunStatus.RUNNING, RunStatus.PAUSED) else None


MAX_ENTRIES, MAX_ENTRY_LENGTH = 12, 400
"""Most entries that are read, and most characters of each."""


@dataclass(frozen=True, slots=True)
class RecentConversation:
    """Implements `bot.agent.tool_search.PriorConversation`. The history is read only if there are tools to choose
    from."""

    remembered: ConversationHistory

    def join_earlier_messages(self) -> str:
        return " ".join(
            [one.visible_text[:MAX_ENTRY_LENGTH] for one in self.remembered.entries if one.is_visible][-MAX_ENTRIES:]
        )

    def list_called_tools(self) -> Sequence[str]:
        return self.remembered.list_called_tools()
