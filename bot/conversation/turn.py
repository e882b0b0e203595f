"""Handles one message.

`TurnHandler.handle_message` is the whole path of a message, top to bottom. Identify the person → answer without a model
if possible → start or load the run → the loop, step by step, each step stored and shown. The last step is an answer
with its receipt, or a card and a pause. `TurnHandler.resume_run` goes on after a button. Both return the writes of the
one commit that pops the item. If the process dies before that commit, another process goes on from the last
checkpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from bot.agent.events import RunFinished, RunPaused, RunStep, RunStopped, StepsFinished
from bot.agent.limits import Budget
from bot.agent.loop import AgentLoop, RunContext
from bot.agent.past_calls import list_undone_calls
from bot.agent.recall import list_call_results
from bot.agent.request_numbers import find_requests, normalize_text
from bot.chat.ingress_gate import IngressGate
from bot.chat.messages import ChatDirectory, FileSource, Message
from bot.conversation.agreements import AgreementAnswerer
from bot.conversation.card_requests import CardRequester
from bot.conversation.endings import RunReplies
from bot.conversation.notices import build_given_up_notice
from bot.conversation.progress import ProgressReporter, describe_stop
from bot.conversation.prompt_head import PromptHeadBuilder
from bot.conversation.reply import DeliveryResult
from bot.conversation.run_loader import RunLoader
from bot.conversation.run_recorder import RunRecorder
from bot.conversation.triage import MessageTriage
from bot.conversation.turn_context import TurnContext
from bot.core import logs
from bot.core.clock import Clock
from bot.core.errors import NEEDS_ADMINISTRATOR, ChatRefusedError, ModelUnavailableError
from bot.core.history_entries import PausedRun
from bot.core.i18n import translate
from bot.core.records import STOPPED_CHOICE, OpenCard, Run, RunResult, RunStatus
from bot.core.run_state import CallStatus
from bot.core.work_items import RefreshProgress, ResumeRun
from bot.queue.lanes import LaneItem, Lease, RetryLater
from bot.queue.writes import Write
from bot.storage.file_keeper import FileKeeper, TakenFiles
from tools.cards.files import describe_files
from tools.languages import choose_words
from tools.requests.status import describe_current_states
from tools.spec import Privacy, Proposal
from tools.tool import ToolContext, ToolServices

log = logs.get_logger(__name__)

DOWN_MAX_MS = 300_000
"""Longest wait that a model may ask for (ms)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnHandler:
    directory: ChatDirectory
    tool_services: ToolServices
    triage: MessageTriage
    agreements: AgreementAnswerer
    run_loader: RunLoader
    prompt_heads: PromptHeadBuilder
    loop: AgentLoop
    check_proposal: Callable[[Sequence[PausedRun], Run, str, Proposal], Awaitable[None]]
    """Lets features refuse a card; see `bot.features.contract`."""
    progress: ProgressReporter
    card_requester: CardRequester
    replies: RunReplies
    run_recorder: RunRecorder
    clock: Clock
    file_source: FileSource
    files: FileKeeper
    ingress_gate: IngressGate = field(default_factory=IngressGate)
    budget: Budget = field(default_factory=Budget)
    down_ms: int = 5_000
    """Time that a message waits before the next try while the model cannot be reached (ms), unless the model asks for
    longer."""

    async def handle_message(self, lease: Lease, message: Message) -> Sequence[Write]:
        """Handle a message. Returns the writes for its commit. Raises `RetryLater` while the model cannot be
        reached."""
        with self.progress.remove_status_after(message):
            await self.ingress_gate.wait_until_quiet()
            lease.set_person(message.person)
            caller = await self.directory.find_caller(message.person)
            if caller is None:
                return await self.triage.refuse_stranger(lease, message)
            message, taken = await self._complete_message(message), TakenFiles()
            if message.files:
                taken = await self.files.take_message_files(lease, message)
                if text := taken.troubles.get(caller.person.language):  # told at once, by name
                    await self.replies.post_notice(lease, message, text, key="files", privacy=Privacy.OWN_TEXT)
            writes = await self.triage.answer_without_model(lease, message, caller, taken)
            if writes is not None:
                return writes
            context = await self.run_loader.load_or_start_run(lease, message, caller)
            logs.bind_context(run=context.run.id)
            writes = await self.agreements.answer_agreement(context)
            return await self._run_agent(context) if writes is None else writes

    async def _complete_message(self, message: Message) -> Message:
        """Return the message with its files. If the payload did not list the files, they are looked up."""
        if not message.has_unlisted_files:
            return message
        try:
            found = await self.file_source.list_message_files(message.place, message.at)
        except ChatRefusedError as failed:
            log.warning("a message is not looked up", code=failed.code, channel=message.place.channel)
            found = ()
        return message.model_copy(update={"files": found, "has_unlisted_files": False})

    async def resume_run(self, lease: Lease, resume: ResumeRun) -> Sequence[Write]:
        """Continue a paused run: the result of its call is now an observation."""
        paused = await self.run_loader.load_paused_run(lease, resume.run)
        if paused is None:
            return []
        run, conversation = paused
        is_new = self._settle_call(run, resume)
        await self.replies.end_change_notices(run, "cancelled" if resume.is_silent else "over")
        run.change_notices = ()
        if resume.is_silent:  # the person has been answered: nothing more is said, and nothing is left waiting
            is_stopped = resume.observation.get("error") == STOPPED_CHOICE
            run.status = RunStatus.STOPPED if is_stopped else RunStatus.CANCELLED
            if run.progress_message is not None:
                await self.progress.flush_lines(run, again=lease.item.is_redelivery)
            await self.progress.settle_session(run)
            late = self.progress.build_refresh_request(run, lease.item.id)
            released = self.files.build_file_writes(run, conversation.waiting_files)
            return [*self.run_recorder.build_silent_end_writes(run), *late, *released]
        caller = await self.directory.find_caller(run.message.person)
        if caller is None:
            return self.run_recorder.build_leaver_writes(run)
        await self.run_loader.refresh_start_tools()
        context = TurnContext(lease=lease, run=run, caller=caller, conversation=conversation)
        if is_new:
            await self.run_recorder.checkpoint_run(context, f"resume:{resume.uid}")
        with self.progress.remove_status_after(run.message):
            return await self._run_agent(context)

    def _settle_call(self, run: Run, resume: ResumeRun) -> bool:
        """Record the end of the call. Returns False if the run already knew it. The next outage is reported again."""
        if not self.loop.settle_call(run.state, resume.uid, resume.status, resume.observation, resume.privacy):
            return False
        self.progress.settle_step(run, resume.uid, resume.status)
        if resume.status is CallStatus.SUCCEEDED:
            self.files.note_used_files(run)
        run.status, run.requested_card, run.card_summary, run.has_reported_outage = RunStatus.RUNNING, None, None, False
        run.receipt_lines += [resume.receipt_line] if resume.receipt_line else []
        return True

    async def _run_agent(self, context: TurnContext) -> Sequence[Write]:
        """Run the loop, event by event, after finishing what a crash left half done."""
        run, caller, used = context.run, context.caller, context.conversation.usage
        if context.is_redelivery:
            await self.progress.flush_lines(run, again=True)
        if run.status is RunStatus.PAUSED:
            if run.requested_card is not None:  # the crash may have come before this was said
                await self._post_card_location(context, run.requested_card)
            await self.progress.settle_session(run, is_waiting=True)
            return self._build_pause_writes(context)
        if run.result is not None:
            return await self._post_run_result(context, run.result, None)
        self.progress.show_working(run)
        self.progress.begin_session(run)
        try:
            files = self.files.list_usable_files(run, context.conversation.waiting_files)
            use = ToolContext(self.tool_services, caller, self.clock.today(caller.person.zone), files=files)
            head, sources = await self.prompt_heads.build_prompt_head(context)
            budget = self.budget.compute_remaining_budget(used.tokens, used.cost, run.state)
            check = partial(self.check_proposal, context.conversation.waiting, run)
            running = RunContext(run.id, head, run.state, use, context.lease.stopped, sources, budget, check)
            async with contextlib.aclosing(self.loop.run(running)) as events:
                async for event in events:
                    match event:
                        case StepsFinished(steps):
                            await self._show_steps(context, steps)
                            self.progress.show_working(run)
                        case RunPaused():
                            return await self._pause_run(context, event)
                        case RunFinished() | RunStopped():
                            return await self._finish_run(context, event)
        except ModelUnavailableError as outage:
            journal_writes = list[Write]()
            if not run.has_reported_outage:  # told once, with its cause; the message stays queued
                why = "model_unfit" if outage.cause in NEEDS_ADMINISTRATOR else "model_down"
                text, key = translate(f"turn.{why}", run.language), f"down:{len(run.state.calls)}"
                await self.replies.post_notice(context.lease, run.message, text, key=key)
                run.has_reported_outage = True
                journal_writes = self.run_recorder.build_outage_writes(run, outage)
            await self.run_recorder.checkpoint_run(context, f"down:{context.lease.token}", *journal_writes)
            wait_ms = min(max(self.down_ms, int(outage.wait_s * 1000)), DOWN_MAX_MS)
            raise RetryLater(wait_ms, str(outage)) from outage
        raise AssertionError("the loop ends with a final, a pause or a stop")

    async def _show_steps(self, context: TurnContext, steps: Sequence[RunStep]) -> None:
        """Store the steps before showing them: after a crash in between, no call is made twice."""
        run = context.run
        await self.ingress_gate.wait_until_quiet()
        self.progress.add_steps(run, steps)
        for step in steps:
            if step.receipt_line is not None and step.receipt_line not in run.receipt_lines:
                run.receipt_lines.append(step.receipt_line)
        result = await self.run_recorder.checkpoint_run(
            context,
            f"step:{run.state.steps}",
            *self.run_recorder.build_step_writes(run, steps),
            slot=self.progress.find_rate_slot(run),
            most_ms=0,
        )
        await self.progress.show_progress(run, again=context.is_redelivery, wait_ms=result.wait_ms)

    async def _pause_run(self, context: TurnContext, event: RunPaused) -> Sequence[Write]:
        """Pause the run for a card. The card's own lane delivers it, so a crash right here cannot lose it."""
        run = context.run
        requested_card = await self.card_requester.request_card(context, event)
        await self._show_steps(context, event.steps)
        await self.progress.flush_lines(run, again=context.is_redelivery)
        await self._post_card_location(context, requested_card)
        await self.progress.settle_session(run, is_waiting=True)
        return self._build_pause_writes(context)

    def _build_pause_writes(self, context: TurnContext) -> Sequence[Write]:
        pause_writes = self.run_recorder.build_pause_writes(context.run)
        late = self.progress.build_refresh_request(context.run, context.lease.item.id)
        held = self.files.build_file_writes(context.run, context.conversation.waiting_files)
        return [*pause_writes, *held, *late]

    async def _post_card_location(self, context: TurnContext, requested_card: OpenCard) -> None:
        quiet = self.progress.get_display(context.run) != "replies"
        await self.card_requester.post_card_location(context, requested_card, quiet=quiet)

    async def _finish_run(self, context: TurnContext, event: RunFinished | RunStopped) -> Sequence[Write]:
        """Store the answer before posting it: after a crash in between, the model is not asked for another one."""
        if isinstance(event, RunFinished):
            result = RunResult(text=event.text, unverified=event.unverified)
        else:
            renewal = self.run_loader.get_budget_renewal().astimezone(context.caller.person.zone)
            text, reason = describe_stop(context.run, event.reason, renewal), event.reason.value
            result = RunResult(text=text, stop_reason=reason, endpoint_error=event.endpoint_message)
        context.run.result = result
        slot = self.replies.find_rate_slot(context.run)
        checkpoint = await self.run_recorder.checkpoint_run(context, "end", slot=slot)
        return await self._post_run_result(context, result, checkpoint.wait_ms)

    async def _post_run_result(self, context: TurnContext, result: RunResult, wait_ms: int | None) -> Sequence[Write]:
        run, caller = context.run, context.caller
        await self.progress.flush_lines(run, again=context.is_redelivery)
        # The current states of the requests that the answer names or that the run has changed.
        calls = zip(run.state.calls, list_call_results(run.state), strict=True)
        changed = [found for call, found in calls if call.approval and call.status is CallStatus.SUCCEEDED]
        numbers = find_requests("\n".join([normalize_text(result.text), *changed]))
        use = ToolContext(self.tool_services, caller, self.clock.today(caller.person.zone))
        sent, waiting = {one.id for one in run.message.files}, context.conversation.waiting_files
        left = [one for one in self.files.list_usable_files(run, waiting) if one.id in sent]
        states = await describe_current_states(use, numbers)
        delivery_result = await self.replies.post_run_result(
            run,
            result,
            again=context.is_redelivery,
            wait_ms=wait_ms,
            states=states,
            undone=list_undone_calls(run.state, self.loop.executor.is_gated),
            files=translate("file.kept", run.language, files=choose_words(describe_files(left), run.language))
            if left
            else "",
        )
        await self.progress.settle_session(run, is_waiting=context.is_other_run_waiting)
        finish_writes = self.run_recorder.build_finish_writes(context, result, delivery_result)
        late = self.progress.build_refresh_request(run, context.lease.item.id)
        return [*finish_writes, *late, *self.files.build_file_writes(run, waiting)]

    async def refresh_progress(self, lease: Lease, refresh: RefreshProgress) -> Sequence[Write]:
        return await self.progress.refresh_progress(lease, await self.run_loader.runs.load_run(refresh.run))

    async def give_up_message(self, item: LaneItem, message: Message) -> Sequence[Write]:
        """Give up a message that failed every time. A proposed card is still delivered; otherwise the person is
        told."""
        run = await self.run_loader.load_run_of_message(message)
        if run is not None and run.status is RunStatus.PAUSED:
            return self.run_recorder.build_pause_writes(run)
        text, delivery_result = await self.replies.post_failure(item, message, run)
        return await self._end_given_up_run(run, text, delivery_result) if run else []

    async def give_up_resume(self, item: LaneItem, resume: ResumeRun) -> Sequence[Write]:
        """Give up a run that failed every time after a button. The person is told what it changed, even if nothing else
        can be said."""
        run = await self.run_loader.load_unfinished_run(resume.run)
        if run is None:
            return []
        self._settle_call(run, resume)
        if run.status is RunStatus.PAUSED:
            return self.run_recorder.build_pause_writes(run)
        text, delivery_result = await self.replies.post_failure(item, run.message, run)
        return await self._end_given_up_run(run, text, delivery_result)

    async def bury_message(self, message: Message) -> Sequence[Write]:
        """End the run of a message that could not even be given up. Its person is told later, by a notice."""
        run = await self.run_loader.load_run_of_message(message)
        return self.run_recorder.build_burial_writes(run) if run is not None and not run.ended_ms else []

    async def bury_resume(self, item: LaneItem, resume: ResumeRun) -> Sequence[Write]:
        """End a run that could not even be given up after a button, and tell its person by a notice."""
        run = await self.run_loader.load_unfinished_run(resume.run)
        if run is None:
            return []
        self._settle_call(run, resume)
        notice = build_given_up_notice(item, run.message.person)
        return [*self.run_recorder.build_burial_writes(run), notice]

    async def _end_given_up_run(self, run: Run, text: str, delivery_result: DeliveryResult) -> Sequence[Write]:
        await self.progress.show_failure(run)
        await self.progress.settle_session(run)
        return self.run_recorder.build_give_up_writes(run, text, delivery_result)
