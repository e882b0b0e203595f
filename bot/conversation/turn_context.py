"""The context of all turns, which functions of this room take first, and that of one: a run that is new or as it was
stored, with its caller, its conversation, and everything that the model reads before its own messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from bot.agent import prompt
from bot.agent.loop import AgentLoop, AnswerSources
from bot.agent.recall import format_history, name_offered_call
from bot.agent.tool_executor import RunStep
from bot.chat.messages import Message, Post
from bot.chat.platform import Platform
from bot.conversation.progress import ProgressReporter
from bot.core.history_entries import PausedRun
from bot.core.records import Approval, ApprovalState, Run, RunResult
from bot.queue.lanes import Lease
from bot.queue.writes import AppendHistory, Write
from bot.storage.history import ConversationHistory
from bot.storage.runs import ConversationState, derive_run_id
from bot.storage.stores import Stores
from tools.requests.processes import START_PROCESS
from tools.spec import Caller, Privacy, Proposal
from tools.tool import ToolServices

MAX_ENTRIES, MAX_ENTRY_LENGTH = 12, 400
"""Most entries by which tools are chosen, and most characters of each."""
MAX_CARDS = 5
"""Most open cards that are named, the newest."""


@dataclass(frozen=True, slots=True)
class CommandReply:
    """The answer to a command, with its writes."""

    command: str
    """Name in the journal. If it is empty, `writes` have the record."""
    text: str
    writes: tuple[Write, ...] = ()
    privacy: Privacy = Privacy.PUBLIC
    """Privacy of the text."""


LoadConversation = Callable[[], Awaitable[ConversationState]]
"""Loads what the conversation knows, for commands that need it. The others answer even if it cannot be read."""


class TurnFeatures(Protocol):
    """The additions of all features to turns; see `bot.features.contract`."""

    async def answer_command(self, message: Message, caller: Caller, load: LoadConversation) -> CommandReply | None:
        """Answer a command by code alone. Returns None for any other message."""

    async def complete_answer(
        self, waiting: Sequence[PausedRun], run: Run, result: RunResult, post: Post, is_here: bool
    ) -> Post:
        """Change an answer before it is posted. `is_here`: whether it stands where it was asked."""

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


async def continue_or_start_run(
    turns: Turns, lease: Lease, message: Message, caller: Caller, conversation: ConversationState
) -> TurnContext:
    """Return the run of the message: a new one, or the stored one if the message was begun before."""
    run, person = conversation.run, caller.person
    if run is None:
        run = Run(
            id=derive_run_id(turns.stores.keys, message),
            message=message,
            language=person.language,
            timezone=person.timezone,
            created_ms=turns.stores.clock.now_ms(),
        )
        run.state.privacy = Privacy.PUBLIC  # the run has seen nothing but the conversation
        await refresh_start_tools(turns)
        if turns.loop.server_tools:  # otherwise there is nothing to choose, and the history is not read
            history = conversation.history
            visible = [one.visible_text[:MAX_ENTRY_LENGTH] for one in history.entries if one.is_visible]
            earlier, called = " ".join(visible[-MAX_ENTRIES:]), history.list_called_tools()
            run.state.offered_tools = turns.loop.selector.choose_offered_tools(message.text, earlier, called)
        files = turns.stores.files.keeper.list_usable_files(run, conversation.waiting_files)
        today = turns.stores.clock.today(person.zone)
        run.state.append_message(prompt.build_user_message(caller, message.text, today, files))
    return TurnContext(lease=lease, run=run, caller=caller, conversation=conversation)


async def refresh_start_tools(turns: Turns) -> None:
    """Update the start tools from the processes that exist now."""
    await turns.loop.start_tools.refresh_tools(turns.tool_services.engine)


async def build_prompt_head(turns: Turns, context: TurnContext) -> tuple[list[str], AnswerSources]:
    """Build rules, server tools, person, history and situation, with the most variable parts last. The head is JSON
    in few pieces, because every step sends it. Also returns the sources in it that may support an answer."""
    run, caller, person = context.run, context.caller, context.caller.person
    now, now_ms, cards = turns.stores.clock.today(person.zone), turns.stores.clock.now_ms(), list[PausedRun]()
    for card in context.conversation.waiting:
        if card.run == run.id or not card.is_of(run.message.person, direct=run.message.place.direct):
            continue
        waiting_run = await turns.stores.runs.load_run(card.run) if card.tool == START_PROCESS.name else None
        if waiting_run is not None and waiting_run.requested_card is not None:
            args = waiting_run.requested_card.proposal.args  # named by the call that models are offered
            card = replace(card, tool=name_offered_call(turns.loop.selector.find_tool, card.tool, args)[0])
        cards.append(card)
    direct, calendar = run.message.place.direct, turns.tool_services.calendar
    now_note = prompt.build_now_message(caller, now, calendar, direct=direct)
    open_cards = [prompt.build_cards_message(cards, now_ms)] if cards else []
    manager = await turns.platform.directory.find_person(person.manager) if person.manager else None
    fields, reply_format = prompt.build_facts_message(person, manager), turns.loop.get_reply_format(run.state)
    run.state.style = reply_format.name
    messages = context.conversation.history.list_messages(without=run.id)
    history = format_history(messages, reply_format)
    sheet = turns.loop.get_tool_prompt(run.state)
    tools = [prompt.build_tools_message(sheet.server_tools)] if sheet.server_tools else []
    rules = prompt.dump_system_message(sheet.instructions, turns.company_rules)
    start, end = (prompt.dump_messages(some) for some in ([*tools, fields], [now_note, *open_cards]))
    told = [prompt.describe_today(caller, now), *(one["content"] for one in open_cards)]
    days = calendar.describe_days(now.date())[1]
    sources = AnswerSources(facts=[turns.company_rules, *told, fields["content"]], history=messages, days=days)
    return [rules, *start, *([",".join(history)] if history else []), *end], sources


async def load_open_cards(stores: Stores, message: Message, waiting: Sequence[PausedRun]) -> list[Approval]:
    """Load the open cards of the message's author among these, the newest `MAX_CARDS`, oldest first."""
    cards = [one for one in waiting if one.is_of(message.person, direct=message.place.direct)]
    found = [await stores.approvals.find_readable_approval(one.approval) for one in cards]
    return [one for one in found if one is not None and one.state is ApprovalState.OPEN][-MAX_CARDS:]
