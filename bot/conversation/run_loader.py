"""Starts the run of a message, or loads it as it was stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bot.agent import prompt
from bot.chat.messages import Message
from bot.conversation.turn_context import TurnContext, Turns
from bot.core.logs import bind_context
from bot.core.records import Run, RunStatus
from bot.queue.lanes import Lease
from bot.storage.history import ConversationHistory
from bot.storage.runs import ConversationState, derive_run_id
from bot.storage.spending import DailyUsageQuery
from tools.spec import Caller, Privacy


async def load_or_start_run(turns: Turns, lease: Lease, message: Message, caller: Caller) -> TurnContext:
    """Return the run of the message: a new one, or the stored one if the message was begun before."""
    run_id, usage_query = derive_run_id(turns.stores.keys, message), _build_usage_query(turns, message.person)
    stored_run_id = run_id if lease.item.is_redelivery else ""
    conversation = await turns.stores.runs.load_conversation(
        lease.lane, turns.stores.history, stored_run_id, usage_query
    )
    run, person = conversation.run, caller.person
    if run is None:
        run = Run(
            id=run_id,
            message=message,
            language=person.language,
            timezone=person.timezone,
            created_ms=turns.stores.clock.now_ms(),
        )
        run.state.privacy = Privacy.PUBLIC  # the run has seen nothing but the conversation
        await refresh_start_tools(turns)
        recent = RecentConversation(conversation.history)
        run.state.offered_tools = turns.loop.selector.choose_offered_tools(message.text, recent)
        files = turns.stores.files.keeper.list_usable_files(run, conversation.waiting_files)
        today = turns.stores.clock.today(person.zone)
        run.state.append_message(prompt.build_user_message(caller, message.text, today, files))
    return TurnContext(lease=lease, run=run, caller=caller, conversation=conversation)


async def refresh_start_tools(turns: Turns) -> None:
    """Update the start tools from the processes that exist now."""
    await turns.loop.start_tools.refresh_tools(turns.tool_services.engine)


async def load_paused_run(turns: Turns, lease: Lease, run_id: str) -> tuple[Run, ConversationState] | None:
    """Load a paused run that goes on after a button, with its conversation. None if the run has ended."""
    conversation = await turns.stores.runs.load_conversation(lease.lane, turns.stores.history, run_id)
    run = _find_unfinished_run(conversation.run)
    if run is None:
        return None
    bind_context(run=run.id)
    lease.set_person(run.message.person)
    if usage_query := _build_usage_query(turns, run.message.person):
        conversation = replace(conversation, usage=await turns.stores.spending.load_daily_usage(usage_query))
    return run, conversation


async def load_run_of_message(turns: Turns, message: Message) -> Run | None:
    return await turns.stores.runs.load_run(derive_run_id(turns.stores.keys, message))


async def load_unfinished_run(turns: Turns, run_id: str) -> Run | None:
    return _find_unfinished_run(await turns.stores.runs.load_run(run_id))


def _build_usage_query(turns: Turns, person: str) -> DailyUsageQuery | None:
    """Build the query for the person's usage today, if a budget is set."""
    model = turns.loop.model
    return turns.stores.spending.build_daily_query(person, model.prices.currency) if model.daily_budget else None


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
