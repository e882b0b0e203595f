"""One message through.

`TurnHandler.handle_message` is the whole way of a message, top to bottom: who is it → is it a plain command → the loop,
step by step, each step shown and stored → an answer with its receipt, or a card and a pause. `TurnHandler.resume_run`
goes on after a button. Both return the writes of the one commit that pops the item; whatever dies before that is done
again by another process, from the last checkpoint.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from bot.agent import prompt
from bot.agent.events import RunFinished, RunPaused, RunStep, RunStopped, StepsFinished
from bot.agent.grounding.sources import GroundingSources
from bot.agent.limits import DailyBudget
from bot.agent.loop import AgentLoop
from bot.agent.recall import format_history, list_grounding_messages
from bot.agent.situation import RunSituation
from bot.approvals.duplicates import DuplicateGuard
from bot.approvals.render import describe_proposal
from bot.chat.ingress_gate import IngressGate
from bot.chat.messages import ChatDirectory, Message, Post, RateSlot
from bot.conversation import compaction, diagrams
from bot.conversation.commands import CommandHandler
from bot.conversation.endings import RunReplies
from bot.conversation.memory import ConversationMemory
from bot.conversation.progress import ProgressReporter, build_run_figures, describe_stop, render_receipt
from bot.conversation.recent import RecentConversation
from bot.conversation.reply import DeliveryResult, MessageDelivery
from bot.conversation.turn_context import TurnContext
from bot.core.errors import NEEDS_ADMINISTRATOR, ModelUnavailableError
from bot.core.history_entries import PausedRun
from bot.core.i18n import translate
from bot.core.logs import bind_context
from bot.core.records import CardSummary, OpenCard, RenderDiagram, ResumeRun, Run, RunResult, RunStatus
from bot.queue.keys import Keys
from bot.queue.lanes import CheckpointResult, LaneItem, Lease, RetryLater
from bot.queue.writes import EnqueueItem, Write
from bot.storage.approvals import build_open_card
from bot.storage.history import HistoryStore
from bot.storage.journal import Journal
from bot.storage.runs import RunStore
from bot.storage.spending import DailyUsageQuery, UsageStore
from tools.spec import Caller, Gate, Privacy
from tools.tool import ToolContext, ToolServices

DOWN_MAX_MS = 300_000
"""The longest wait that a model may ask for."""
TEXT_MAX = 12_000
"""Characters of one message that are read."""


@dataclass(frozen=True, slots=True)
class TurnHandler:
    delivery: MessageDelivery
    replies: RunReplies
    memory: ConversationMemory
    directory: ChatDirectory
    tool_services: ToolServices
    loop: AgentLoop
    commands: CommandHandler
    progress: ProgressReporter
    keys: Keys
    runs: RunStore
    history: HistoryStore
    journal: Journal
    spending: UsageStore
    duplicates: DuplicateGuard
    today: Callable[[], datetime]
    """Aware UTC: the day that people mean."""
    now: Callable[[], datetime]
    """Aware UTC."""
    company_rules: str = ""
    """What the company adds to the rules (`prompt.render_company_rules`)."""
    ingress_gate: IngressGate = field(default_factory=IngressGate)
    budget: DailyBudget = field(default_factory=DailyBudget)
    down_ms: int = 5_000
    """How long a message waits before an unreachable model is tried again, unless that asks for longer."""
    on_run_ended: Callable[[Run], object] = field(default=lambda run: None)
    """Is told of every run that ends, a moment before that is kept: returns at once and raises nothing."""

    async def handle_message(self, lease: Lease, message: Message) -> Sequence[Write]:
        """From what a person wrote to the writes that end it. Raises `RetryLater` while the model is down."""
        await self.ingress_gate.wait_until_quiet()
        lease.set_person(message.person)
        caller = await self.directory.find_caller(message.person)
        if caller is None:
            return await self._refuse_stranger(lease, message)
        if (plain := await self._answer_without_model(lease, message, caller)) is not None:
            return plain
        passage = await self._load_or_start_run(lease, message, caller)
        bind_context(run=passage.run.id)
        return await self._run_agent(passage)

    async def resume_run(self, lease: Lease, resume: ResumeRun) -> Sequence[Write]:
        """Goes on with a paused run: what became of its call is an observation now."""
        recalled = await self.runs.load_conversation(lease.lane, self.history, resume.run)
        run = _find_unfinished_run(recalled.run)
        if run is None:
            return []
        bind_context(run=run.id)
        lease.set_person(run.message.person)
        if today := self._build_usage_query(run.message.person):
            recalled = replace(recalled, usage=await self.spending.load_daily_usage(today))
        fresh = self._settle_call(run, resume)
        if resume.silent:
            return self._end_cancelled_run(run)
        caller = await self.directory.find_caller(run.message.person)
        if caller is None:
            noted = self._build_journal_write(
                run.message, "run.stopped", run=run.id, text="its person is not a member any more"
            )
            return [*self._end_run(run, RunStatus.STOPPED), noted]
        await self.loop.start_tools.refresh_tools(self.tool_services.engine)
        passage = TurnContext(lease, run, caller, recalled)
        if fresh:
            await self._checkpoint_run(passage, f"resume:{resume.uid}")
        return await self._run_agent(passage)

    def _end_cancelled_run(self, run: Run) -> Sequence[Write]:
        """Its person has taken its card back in words and was answered by another run: this one ends without a word."""
        over, remembered = self._end_run(run, RunStatus.CANCELLED), self.memory.build_cancelled_writes(run)
        return [
            *over,
            *remembered,
            self._build_journal_write(run.message, "run.cancelled", run=run.id, **build_run_figures(run.trace)),
        ]

    async def give_up_message(self, item: LaneItem, message: Message) -> Sequence[Write]:
        """A message that failed every time. A card that was proposed is still brought; otherwise its writer is told."""
        run = await self.runs.load_run(self._derive_run_id(message))
        if run is not None and run.status is RunStatus.PAUSED:
            return self._build_pause_writes(run)
        text, told = await self.replies.post_failure(item, message, run)
        return self._end_given_up_run(run, text, told) if run else []

    async def give_up_resume(self, item: LaneItem, resume: ResumeRun) -> Sequence[Write]:
        """The same after a button: what it changed is said, whatever else could not be."""
        run = _find_unfinished_run(await self.runs.load_run(resume.run))
        if run is None:
            return []
        self._settle_call(run, resume)
        if run.status is RunStatus.PAUSED:
            return self._build_pause_writes(run)
        return self._end_given_up_run(run, *await self.replies.post_failure(item, run.message, run))

    def _end_given_up_run(self, run: Run, text: str, told: DeliveryResult) -> Sequence[Write]:
        remembered, direct = self.memory.build_answer_writes(run, text, told)
        return [*self._end_run(run, RunStatus.STOPPED), remembered, *direct]

    def _end_run(self, run: Run, status: RunStatus) -> Sequence[Write]:
        """The run has ended, and whoever follows runs is told."""
        run.status, run.ended_ms = status, self._now_ms()
        self.on_run_ended(run)
        return self.runs.build_save_writes(run)

    def _derive_run_id(self, message: Message) -> str:
        """The id of a message's run."""
        return self.keys.derive_id("R", self.keys.get_partition(message.place.conversation), message.id)

    def _settle_call(self, run: Run, resume: ResumeRun) -> bool:
        """How the call ended is in the run; False if it was already. Whatever is away from here on is news again."""
        if not self.loop.settle_call(run.trace, resume.uid, resume.status, resume.observation, resume.privacy):
            return False
        run.status, run.ask, run.proposal, run.told_down = RunStatus.RUNNING, None, None, False
        run.effects += [resume.effect] if resume.effect else []
        return True

    async def _refuse_stranger(self, lease: Lease, message: Message) -> Sequence[Write]:
        """Guests are told so where it disturbs nobody else."""
        person = await self.directory.find_person(message.person)
        if person is not None and message.place.direct:
            await self._post_notice(lease, message, translate("turn.stranger", person.language), key="stranger")
        return [self._build_journal_write(message, "message.ignored", text="not a member who can be served")]

    async def _answer_without_model(self, lease: Lease, message: Message, caller: Caller) -> Sequence[Write] | None:
        """Commands, and messages that no model needs to see."""
        language = caller.person.language
        if (answer := await self.commands.answer_command(message, caller)) is not None:
            await self._post_notice(lease, message, answer.text, key="command")
            return [*answer.writes, self._build_journal_write(message, "command", text=answer.command)]
        if message.unread:
            return await self._refuse_long_message(lease, message, message.unread, language)
        if not message.text.strip():
            await self._post_notice(lease, message, translate("turn.empty", language), key="empty")
            return [self._build_journal_write(message, "message.empty")]
        if len(message.text) > TEXT_MAX:
            return await self._refuse_long_message(lease, message, len(message.text), language)
        return None

    async def _refuse_long_message(self, lease: Lease, message: Message, length: int, language: str) -> Sequence[Write]:
        text = translate("turn.too_long", language, length=length, most=TEXT_MAX)
        await self._post_notice(lease, message, text, key="long")
        return [self._build_journal_write(message, "message.too_long")]

    async def _load_or_start_run(self, lease: Lease, message: Message, caller: Caller) -> TurnContext:
        """The message's run: a new one, or, if the message was begun before, the one that was left."""
        run_id = self._derive_run_id(message)
        today, again = self._build_usage_query(message.person), lease.item.is_redelivery
        recalled = await self.runs.load_conversation(lease.lane, self.history, run_id if again else "", today)
        if recalled.run is not None:
            return TurnContext(lease, recalled.run, caller, recalled)
        person = caller.person
        run = Run(
            id=run_id,
            message=message,
            language=person.language,
            timezone=person.timezone,
            created_ms=self._now_ms(),
        )
        run.trace.privacy = Privacy.PUBLIC  # it has seen nothing but the conversation
        await self.loop.start_tools.refresh_tools(self.tool_services.engine)
        run.trace.offered = self.loop.selector.choose_offered_tools(message.text, RecentConversation(recalled.history))
        run.trace.append_message(prompt.build_user_message(caller, message.text, self._get_local_time(caller)))
        return TurnContext(lease, run, caller, recalled)

    async def _run_agent(self, passage: TurnContext) -> Sequence[Write]:
        """The loop, event by event; before it, whatever a crash has left half done."""
        run, lease = passage.run, passage.lease
        if passage.is_redelivery:
            await self.progress.flush_lines(run, again=True)
        if run.status is RunStatus.PAUSED:
            return self._build_pause_writes(run)
        if run.last is not None:
            return await self._post_run_result(passage, run.last, None)
        use = ToolContext(self.tool_services, passage.caller, self._get_local_time(passage.caller))
        head, grounds = await self._build_prompt_head(passage)
        share = self.budget.compute_remaining_budget(
            passage.recalled.usage.tokens, passage.recalled.usage.cost, run.trace
        )
        screen = partial(self.duplicates.reject_duplicate, passage.recalled.waiting, run)
        running = self.loop.run(run.id, head, run.trace, use, lease.stopped, grounds, share, screen)
        try:
            async with contextlib.aclosing(running) as events:
                async for event in events:
                    match event:
                        case StepsFinished(steps):
                            await self._show_steps(passage, steps)
                        case RunPaused():
                            return await self._pause_run(passage, event)
                        case RunFinished(text, unverified, overclaims):
                            last = RunResult(text=text, unverified=unverified, overclaims=overclaims)
                            return await self._finish_run(passage, last)
                        case RunStopped(reason, said):
                            text = describe_stop(
                                run, reason, self.spending.get_next_day_start().astimezone(passage.caller.person.zone)
                            )
                            return await self._finish_run(
                                passage, RunResult(text=text, stopped=reason.value, said=said)
                            )
        except ModelUnavailableError as down:
            await self._handle_model_outage(passage, down)
            wait_ms = min(max(self.down_ms, int(down.wait_s * 1000)), DOWN_MAX_MS)
            raise RetryLater(wait_ms, str(down)) from down
        raise AssertionError("the loop ends with a final, a pause or a stop")

    async def _build_prompt_head(self, passage: TurnContext) -> tuple[list[str], GroundingSources]:
        """All that precedes this run's own messages, what changes last: as JSON, in few pieces, because that is what
        every step sends. And what of it an answer may rest on."""
        run, caller, recalled = passage.run, passage.caller, passage.recalled
        cards = [one for one in recalled.waiting if _is_own_card(one, run)]
        now = RunSituation(
            caller,
            self._get_local_time(caller),
            self._now_ms(),
            self.tool_services.calendar,
            run.message.place.direct,
            cards,
        )
        manager = await self.directory.find_person(caller.person.manager) if caller.person.manager else None
        facts, style = prompt.build_facts_message(caller.person, manager), self.loop.get_reply_format(run.trace)
        sent = recalled.history.list_messages_with_calls(without=run.id)
        history = format_history(sent, style)
        theirs = (
            [prompt.build_tools_message(cards_of)] if (cards_of := self.loop.describe_server_tools(run.trace)) else []
        )
        rules = prompt.build_system_message(self.loop.render_instructions(run.trace), self.company_rules)
        before, behind = (prompt.dump_messages(some) for some in ([rules, *theirs, facts], now.messages))
        told = [self.company_rules, *now.grounding_texts, facts["content"]]
        grounds = GroundingSources(
            told, list_grounding_messages(sent), self.directory.list_people, has_card=bool(cards), days=now.days
        )
        return [*before, *([",".join(history)] if history else []), *behind], grounds

    async def _show_steps(self, passage: TurnContext, steps: Sequence[RunStep]) -> None:
        """Kept before it is shown: after a crash in between nobody is asked, and nothing looked up, once more."""
        run = passage.run
        await self.ingress_gate.wait_until_quiet()
        self.progress.add_steps(run, steps)
        told = [write for step in steps for write in self._build_step_writes(run, step)]
        kept = await self._checkpoint_run(
            passage, f"step:{run.trace.steps}", *told, slot=self.progress.find_rate_slot(run), most_ms=0
        )
        await self.progress.show_progress(run, again=passage.is_redelivery, wait_ms=kept.wait_ms)

    async def _pause_run(self, passage: TurnContext, event: RunPaused) -> Sequence[Write]:
        """The card is brought by its own lane, so that a crash right here cannot lose it."""
        run, place = passage.run, passage.run.message.place
        here = await self.delivery.can_show_in(place, Privacy.PRIVATE)
        run.ask = build_open_card(self.keys, run, event.call, event.plan, event.gate, here=here)
        index = run.trace.calls.index(event.call)
        run.trace.calls[index] = replace(event.call, approval=run.ask.approval)
        run.status = RunStatus.PAUSED
        text = describe_proposal(event.plan, passage.caller.person)
        run.proposal = CardSummary(text=text, made_ms=self._now_ms())
        if not here and event.gate is Gate.CONFIRM:
            run.direct = await self.delivery.chat.open_dm(run.message.person)
        await self._show_steps(passage, event.steps)
        await self.progress.flush_lines(run, again=passage.is_redelivery)
        await self._post_card_location(passage, run.ask)
        return self._build_pause_writes(run)

    async def _post_card_location(self, passage: TurnContext, ask: OpenCard) -> None:
        """Who asks is told where the card is, if it does not come to this very place and no step says so."""
        run, stand_ins = passage.run, self.tool_services.engine.list_task_deputies
        deputies = await stand_ins(ask.plan.subject, self.today()) if ask.gate is Gate.APPROVE else ()
        theirs, quiet = run.message.person in (*ask.plan.deciders, *deputies), self.progress.display == "quiet"
        await self.replies.post_card_location(run, ask, theirs=theirs, quiet=quiet, again=passage.is_redelivery)

    def _build_pause_writes(self, run: Run) -> Sequence[Write]:
        """What ends the message of a paused run: the card's item, and what conversations remember meanwhile."""
        ask = run.ask
        if ask is None:
            return []
        remembered = self.memory.build_waiting_writes(run)
        put = EnqueueItem(ask.approval, f"open:{run.id}:{len(run.trace.calls)}", ask.model_dump_json())
        return [*self.runs.build_save_writes(run), *remembered, put]

    async def _finish_run(self, passage: TurnContext, last: RunResult) -> Sequence[Write]:
        """The last word is kept before it is said: after a crash in between the model is not asked for another one."""
        run = passage.run
        run.last = last
        kept = await self._checkpoint_run(passage, "end", slot=self.delivery.chat.find_rate_slot(run.message.place))
        return await self._post_run_result(passage, last, kept.wait_ms)

    async def _post_run_result(self, passage: TurnContext, last: RunResult, wait_ms: int | None) -> Sequence[Write]:
        run = passage.run
        await self.progress.flush_lines(run, again=passage.is_redelivery)
        told = await self.replies.post_run_result(run, last, again=passage.is_redelivery, wait_ms=wait_ms)
        remembered, direct = self.memory.build_answer_writes(run, last.text, told)
        return [
            *self._end_run(run, RunStatus.STOPPED if last.stopped else RunStatus.DONE),
            remembered,
            *direct,
            *compaction.build_compaction_request(self.history, passage.recalled.history, remembered, run),
            self._build_journal_write(
                run.message,
                "run.stopped" if last.stopped else "run.finished",
                run=run.id,
                text=render_receipt(run),
                **({"why": last.stopped} if last.stopped else {}),
                **({"said": last.said} if last.said else {}),
                **build_run_figures(run.trace),
            ),
        ]

    async def _handle_model_outage(self, passage: TurnContext, down: ModelUnavailableError) -> None:
        """The message stays queued; its writer is told, once, and so is the journal, which says why."""
        run, noted = passage.run, list[Write]()
        if not run.told_down:
            why = "model_unfit" if down.cause in NEEDS_ADMINISTRATOR else "model_down"
            text = translate(f"turn.{why}", run.language)
            await self._post_notice(passage.lease, run.message, text, key=f"down:{len(run.trace.calls)}")
            run.told_down = True
            noted = [
                self._build_journal_write(run.message, "model.down", run=run.id, why=down.cause.value, said=str(down))
            ]
        await self._checkpoint_run(passage, f"down:{passage.lease.token}", *noted)

    async def _checkpoint_run(
        self, passage: TurnContext, seq: str, *more: Write, slot: RateSlot | None = None, most_ms: int | None = None
    ) -> CheckpointResult:
        """Keeps the run as it is, and counts in the same breath what it has cost since the last time."""
        run, lease = passage.run, passage.lease
        counted = self.spending.build_usage_writes(
            lease.lane, run.message.person, run.trace.uncounted, begun=run.trace.is_uncounted_run
        )
        kept = await lease.checkpoint(
            seq, *self.runs.build_save_writes(run), *counted, *more, slot=slot, most_ms=most_ms
        )
        run.trace.uncounted.clear()
        run.stored = len(run.trace.messages) if run.status is RunStatus.RUNNING else 0
        return kept

    async def _post_notice(self, lease: Lease, message: Message, text: str, *, key: str) -> None:
        """Words of our own, which tell nothing of anybody."""
        key = f"{message.id}:{key}"
        await self.delivery.deliver_message(
            message.place, message.person, Post(text), key=key, again=lease.item.is_redelivery
        )

    def _build_step_writes(self, run: Run, step: RunStep) -> list[Write]:
        """The journal's line; and the picture, if it is about one, in the same lane: it comes after the answer."""
        call, message = step.call, run.message
        failed = {"error": step.error, "why": step.error_message} if step.error else {}
        status = call.status.value
        noted = self._build_journal_write(
            message, "step", run=run.id, text=call.reason, tool=call.tool, status=status, **failed
        )
        if not diagrams.is_diagram_call(call):
            return [noted]
        draw = RenderDiagram(person=message.person, place=message.place, name=str(call.args["name"]))
        return [noted, EnqueueItem(message.place.conversation, f"draw:{call.uid}", draw.model_dump_json())]

    def _build_journal_write(self, message: Message, kind: str, *, run: str = "", text: str = "", **more: Any) -> Write:
        place = message.place
        return self.journal.build_record_write(
            place.conversation, kind, run=run, person=message.person, channel=place.channel, text=text, **more
        )

    def _build_usage_query(self, person: str) -> DailyUsageQuery | None:
        """What somebody has used today, if that matters."""
        return self.spending.build_daily_query(person, self.loop.prices.currency) if self.budget else None

    def _get_local_time(self, caller: Caller) -> datetime:
        return self.today().astimezone(ZoneInfo(caller.person.timezone))

    def _now_ms(self) -> int:
        return int(self.now().timestamp() * 1000)


def _is_own_card(one: PausedRun, run: Run) -> bool:
    """True for a card that the run's person waits for, from another run."""
    theirs = one.person == run.message.person if one.person else run.message.place.direct
    return theirs and one.run != run.id


def _find_unfinished_run(run: Run | None) -> Run | None:
    """A run, if it has not ended."""
    return run if run is not None and run.status in (RunStatus.RUNNING, RunStatus.PAUSED) else None
