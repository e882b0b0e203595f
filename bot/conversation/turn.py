"""Handles one message.

`handle_message` is the whole path of a message, top to bottom. Identify the person → answer without a model
if possible → start or load the run → the loop, step by step, each step stored and shown. The last step is an answer
with its receipt, or a card and a pause. `resume_run` goes on after a button. Both return the writes of the
one commit that pops the item. If the process dies before that commit, another process goes on from the last
checkpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from bot.agent.loop import RunContext, RunFinished, RunPaused, RunStopped, StepsFinished
from bot.agent.tool_executor import RunStep
from bot.approvals.render import describe_proposal
from bot.chat.messages import Message, Post
from bot.conversation import endings, run_recorder, turn_context
from bot.conversation.notices import build_given_up_notice
from bot.conversation.stops import answer_written_stop, is_stop
from bot.conversation.turn_context import CommandReply, LoadConversation, TurnContext, Turns
from bot.core import logs
from bot.core.disclosure import can_show_in
from bot.core.errors import NEEDS_ADMINISTRATOR, ChatRefusedError, ModelUnavailableError
from bot.core.i18n import render_value, translate
from bot.core.records import STOPPED_CHOICE, Approval, CardSummary, OpenCard, Run, RunResult, RunStatus
from bot.core.run_state import CallStatus
from bot.core.work_items import CHANGED, MessageReceived, RefreshProgress, ResumeRun
from bot.queue.lanes import LaneItem, Lease, RetryLater
from bot.queue.writes import Write
from bot.storage.approvals import build_open_card
from bot.storage.file_keeper import TakenFiles
from bot.storage.runs import ConversationState, build_waiting_files_key, derive_run_id
from bot.storage.spending import DailyUsage
from tools.cancel_card.tool import CANCEL_CARD
from tools.cards.fields import build_change_fields, describe_files
from tools.languages import choose_words
from tools.people.names import format_people_names
from tools.requests.processes import START_PROCESS, WITHDRAW_REQUEST
from tools.spec import Caller, Gate, Privacy
from tools.tool import ToolContext

log = logs.get_logger(__name__)

TEXT_MAX = 12_000
"""Longest message, in characters."""
DOWN_MAX_MS = 300_000
"""Longest wait that a model may ask for (ms)."""


async def handle_message(turns: Turns, lease: Lease, message: Message) -> Sequence[Write]:
    """Handle a message. Returns the writes for its commit. Raises `RetryLater` while the model cannot be reached."""
    with turns.progress.remove_status_after(message):
        await turns.platform.gate.wait_until_quiet()
        lease.set_person(message.person)
        caller = await turns.platform.directory.find_caller(message.person)
        if caller is None:
            return await _refuse_stranger(turns, lease, message)
        message, taken = await _complete_message(turns, message), TakenFiles()
        if message.files:
            taken = await turns.stores.files.keeper.take_message_files(lease, message)
            if text := taken.troubles.get(caller.person.language):  # told at once, by name
                await endings.post_notice(turns, lease, message, text, key="files", privacy=Privacy.OWN_TEXT)
        known = list[ConversationState]()

        async def load_conversation() -> ConversationState:
            if not known:
                # With its run, if the message was begun before.
                run = derive_run_id(turns.stores.keys, message) if lease.item.is_redelivery else ""
                known.append(await turns.stores.runs.load_conversation(lease.lane, turns.stores.history, run))
            return known[0]

        writes = await _answer_without_model(turns, lease, message, caller, taken, load_conversation)
        if writes is not None:
            return writes
        context = await turn_context.continue_or_start_run(turns, lease, message, caller, await load_conversation())
        logs.bind_context(run=context.run.id)
        return await _run_agent(turns, context)


async def _refuse_stranger(turns: Turns, lease: Lease, message: Message) -> Sequence[Write]:
    """Tell guests that they are not served, where that disturbs nobody else."""
    person = await turns.platform.directory.find_person(message.person)
    if person is not None and message.place.direct:
        await endings.post_notice(turns, lease, message, translate("turn.stranger", person.language), key="stranger")
    why = "not a member who can be served"
    return [run_recorder.build_journal_write(turns, message, "message.ignored", text=why)]


async def _complete_message(turns: Turns, message: Message) -> Message:
    """Return the message with its files. If the payload did not list the files, they are looked up."""
    if not message.has_unlisted_files:
        return message
    try:
        found = await turns.platform.file_source.list_message_files(message.place, message.at)
    except ChatRefusedError as failed:
        log.warning("a message is not looked up", code=failed.code, channel=message.place.channel)
        found = ()
    return message.model_copy(update={"files": found, "has_unlisted_files": False})


async def _answer_without_model(
    turns: Turns, lease: Lease, message: Message, caller: Caller, files: TakenFiles, load: LoadConversation
) -> Sequence[Write] | None:
    """Answer a message by code alone: a command, an empty or an overlong message. Returns None if the message needs the
    model. `files`: outcomes of the message's files; the kept ones are named here too."""
    language, length, is_empty = caller.person.language, len(message.text), not message.text.strip()
    if files.refused and not files.kept and is_empty:  # the person was told why
        return [run_recorder.build_journal_write(turns, message, "message.empty")]
    kind, key = "command", "command"
    if is_stop(message.text):
        reply = CommandReply("stop", await answer_written_stop(turns, message, caller))
    elif (known := await turns.features.answer_command(message, caller, load)) is not None:
        kind, reply = "command" if known.command else "", known
    elif message.unread or length > TEXT_MAX:
        text = translate("turn.too_long", language, length=message.unread or length, most=TEXT_MAX)
        kind, key, reply = "message.too_long", "long", CommandReply("", text)
    elif is_empty and not files.kept:
        kind, key, reply = "message.empty", "empty", CommandReply("", translate("turn.empty", language))
    else:
        return None
    await endings.post_notice(turns, lease, message, reply.text, key=key, privacy=reply.privacy)
    if files.kept:
        text = translate("file.kept", language, files=choose_words(describe_files(files.kept), language))
        await endings.post_notice(turns, lease, message, text, key="kept", privacy=Privacy.OWN_TEXT)
    noted = [run_recorder.build_journal_write(turns, message, kind, text=reply.command)] if kind else []
    return [*reply.writes, *noted]


async def resume_run(turns: Turns, lease: Lease, resume: ResumeRun) -> Sequence[Write]:
    """Continue a paused run: the result of its call is now an observation."""
    conversation = await turns.stores.runs.load_conversation(lease.lane, turns.stores.history, resume.run)
    run = conversation.run
    if run is None or run.is_over:
        return []
    logs.bind_context(run=run.id)
    lease.set_person(run.message.person)
    is_new = _settle_call(turns, run, resume)
    await endings.end_change_notices(turns, run, "cancelled" if resume.is_silent else "over")
    run.change_notices = ()
    if resume.is_silent:  # the person has been answered: nothing more is said, and nothing is left waiting
        is_stopped = resume.observation.get("error") == STOPPED_CHOICE
        run.status = RunStatus.STOPPED if is_stopped else RunStatus.CANCELLED
        if run.progress_message is not None:
            await turns.progress.flush_lines(run, again=lease.item.is_redelivery)
        await turns.progress.settle_session(run)
        late = turns.progress.build_refresh_request(run, lease.item.id)
        released = turns.stores.files.keeper.build_file_writes(run, conversation.waiting_files)
        return [*run_recorder.build_silent_end_writes(turns, run), *late, *released]
    caller = await turns.platform.directory.find_caller(run.message.person)
    if caller is None:
        why = "its person is not a member any more"
        journal_write = run_recorder.build_journal_write(turns, run.message, "run.stopped", run=run.id, text=why)
        return [*run_recorder.end_run(turns, run, RunStatus.STOPPED), journal_write]
    await turn_context.refresh_start_tools(turns)
    context = TurnContext(lease=lease, run=run, caller=caller, conversation=conversation)
    if is_new:  # its card holds no file any more, however the run ends
        files = turns.stores.files.keeper.build_file_writes(run, conversation.waiting_files)
        await run_recorder.checkpoint_run(turns, context, f"resume:{resume.uid}", *files)
    with turns.progress.remove_status_after(run.message):
        return await _run_agent(turns, context)


def _settle_call(turns: Turns, run: Run, resume: ResumeRun) -> bool:
    """Record the end of the call. Returns False if the run already knew it. The next outage is reported again."""
    if not turns.loop.settle_call(run.state, resume.uid, resume.status, resume.observation, resume.privacy):
        return False
    turns.progress.settle_step(run, resume.uid, resume.status)
    if resume.status is CallStatus.SUCCEEDED:
        turns.stores.files.keeper.note_used_files(run)
    run.status, run.requested_card, run.card_summary, run.has_reported_outage = RunStatus.RUNNING, None, None, False
    run.receipt_lines += [resume.receipt_line] if resume.receipt_line else []
    return True


async def _run_agent(turns: Turns, context: TurnContext) -> Sequence[Write]:
    """Run the loop, event by event, after finishing what a crash left half done."""
    run, caller, model = context.run, context.caller, turns.loop.model
    if context.is_redelivery:
        await turns.progress.flush_lines(run, again=True)
    if run.status is RunStatus.PAUSED:
        return await _finish_pause(turns, context)
    if run.result is not None:
        return await _post_run_result(turns, context, run.result, None)
    turns.progress.show_working(run)
    turns.progress.begin_session(run)
    try:
        files = turns.stores.files.keeper.list_usable_files(run, context.conversation.waiting_files)
        use = ToolContext(turns.tool_services, caller, turns.stores.clock.today(caller.person.zone), files=files)
        head, sources = await turn_context.build_prompt_head(turns, context)
        used = DailyUsage()
        if model.daily_budget:
            used = await turns.stores.spending.load_daily_usage(run.message.person, model.prices.currency)
        budget = model.daily_budget.compute_remaining_budget(used.tokens, used.cost, run.state)
        check = partial(turns.features.check_proposal, context.conversation.waiting, run)
        running = RunContext(run.id, head, run.state, use, context.lease.stopped, sources, budget, check)
        async with contextlib.aclosing(turns.loop.run(running)) as events:
            async for event in events:
                match event:
                    case StepsFinished(steps):
                        await _show_steps(turns, context, steps)
                        turns.progress.show_working(run)
                    case RunPaused():
                        await _request_card(turns, context, event)
                        await _show_steps(turns, context, event.steps)
                        await turns.progress.flush_lines(run, again=context.is_redelivery)
                        return await _finish_pause(turns, context)
                    case RunFinished() | RunStopped():
                        return await _finish_run(turns, context, event)
    except ModelUnavailableError as outage:
        journal_writes = list[Write]()
        if not run.has_reported_outage:  # told once, with its cause; the message stays queued
            why = "model_unfit" if outage.cause in NEEDS_ADMINISTRATOR else "model_down"
            text, key = translate(f"turn.{why}", run.language), f"down:{len(run.state.calls)}"
            await endings.post_notice(turns, context.lease, run.message, text, key=key)
            run.has_reported_outage = True
            why, said = outage.cause.value, str(outage)
            noted = run_recorder.build_journal_write(turns, run.message, "model.down", run=run.id, why=why, said=said)
            journal_writes.append(noted)
        await run_recorder.checkpoint_run(turns, context, f"down:{context.lease.token}", *journal_writes)
        wait_ms = min(max(turns.down_ms, int(outage.wait_s * 1000)), DOWN_MAX_MS)
        raise RetryLater(wait_ms, str(outage)) from outage
    raise AssertionError("the loop ends with a final, a pause or a stop")


async def _show_steps(turns: Turns, context: TurnContext, steps: Sequence[RunStep]) -> None:
    """Store the steps before showing them: after a crash in between, no call is made twice."""
    run = context.run
    await turns.platform.gate.wait_until_quiet()
    turns.progress.add_steps(run, steps)
    for step in steps:
        if step.receipt_line is not None and step.receipt_line not in run.receipt_lines:
            run.receipt_lines.append(step.receipt_line)
    result = await run_recorder.checkpoint_run(
        turns,
        context,
        f"step:{run.state.steps}",
        *run_recorder.build_step_writes(turns, run, steps),
        slot=turns.progress.find_rate_slot(run),
        most_ms=0,
    )
    await turns.progress.show_progress(run, again=context.is_redelivery, wait_ms=result.wait_ms)


async def _request_card(turns: Turns, context: TurnContext, event: RunPaused) -> None:
    """Pause the run and build its card. The run records the card that it waits for."""
    run, place = context.run, context.run.message.place
    can_show_here = await can_show_in(turns.platform, place, Privacy.PRIVATE)
    proposal = event.proposal
    former: Approval | None = None
    if event.call.tool == START_PROCESS.name:  # a new request may replace a card: it shows the differences
        # The card that this run has cancelled or by which it has withdrawn a request, or the changed message's.
        cards = [
            one.approval if one.tool == WITHDRAW_REQUEST.name else str(one.args.get("card", "")).strip()
            for one in run.state.calls
            if one.status is CallStatus.SUCCEEDED and one.tool in (WITHDRAW_REQUEST.name, CANCEL_CARD.name)
        ]
        if not cards and run.message.id.startswith(CHANGED):
            earlier = await turns.stores.runs.load_run(run.message.id.removeprefix(CHANGED))
            cards = [one.approval for one in earlier.state.calls if one.approval] if earlier else []
        former = await turns.stores.approvals.load_approval(cards[-1]) if cards else None
    if (
        former is not None
        and former.owner == run.message.person
        and former.proposal.title.params.get("process") == proposal.title.params["process"]
    ):
        form, fields = proposal.args["form"], former.proposal.fields
        is_same = former.proposal.args.get("form", form) == form
        changes = build_change_fields(fields, proposal.fields, render_value, is_same=is_same)
        proposal = proposal.with_card_fields((*changes, *proposal.fields))
    run.requested_card = build_open_card(turns.stores.keys, run, event.call, proposal, event.gate, here=can_show_here)
    index = run.state.calls.index(event.call)
    run.state.calls[index] = replace(event.call, approval=run.requested_card.approval)
    run.status = RunStatus.PAUSED
    text = describe_proposal(proposal, context.caller.person)
    run.card_summary = CardSummary(text=text, made_ms=turns.stores.clock.now_ms())
    if not can_show_here and event.gate is Gate.CONFIRM:
        run.dm_place = await turns.platform.chat.open_dm(run.message.person)


async def _post_card_location(turns: Turns, context: TurnContext, requested_card: OpenCard) -> None:
    """Tell the requester who decides and where the card is, unless the card comes to this very place or a step line
    says so."""
    run, again, deciders = context.run, context.is_redelivery, requested_card.proposal.deciders
    place, person, key = run.message.place, run.message.person, f"{run.id}:card:{len(run.state.calls)}"
    deputies: Sequence[str] = ()
    if requested_card.gate is Gate.APPROVE:
        engine, today = turns.tool_services.engine, turns.stores.clock.today()
        deputies = await engine.list_task_deputies(requested_card.proposal.subject, today)
    can_press, shows_steps = person in (*deciders, *deputies), turns.progress.get_display(run) == "replies"
    if requested_card.place == place or (place.direct and (can_press or shows_steps)):
        return
    if place.direct:
        who = choose_words(await format_people_names(turns.platform.directory, deciders), run.language)
        text = translate("turn.brought", run.language, who=who)
        await turns.platform.chat.post_message(place, Post(text), key=f"{run.id}:brought", again=again)
    elif can_press:
        await endings.post_pointer(turns.platform, place, person, "pointer.card", key=key, again=again)
    elif not shows_steps or not await can_show_in(turns.platform, place):
        await endings.post_pointer(turns.platform, place, person, "pointer.brought", key=key, again=again)


async def _finish_pause(turns: Turns, context: TurnContext) -> Sequence[Write]:
    """Say where the card is, and pause the run. The card's own lane delivers it, so a crash right here cannot lose
    it."""
    run = context.run
    if run.requested_card is not None:
        await _post_card_location(turns, context, run.requested_card)
    await turns.progress.settle_session(run, is_waiting=True)
    return [*run_recorder.build_pause_writes(turns, run), *_build_late_writes(turns, context)]


def _build_late_writes(turns: Turns, context: TurnContext) -> list[Write]:
    """Build the writes for the run's files, and for steps that could not be shown in time."""
    files = turns.stores.files.keeper.build_file_writes(context.run, context.conversation.waiting_files)
    return [*files, *turns.progress.build_refresh_request(context.run, context.lease.item.id)]


async def _finish_run(turns: Turns, context: TurnContext, event: RunFinished | RunStopped) -> Sequence[Write]:
    """Store the answer before posting it: after a crash in between, the model is not asked for another one."""
    if isinstance(event, RunFinished):
        result = RunResult(text=event.text, unverified=event.unverified)
    else:
        renewal = turns.stores.spending.get_next_day_start().astimezone(context.caller.person.zone)
        text, reason = endings.describe_stop(context.run, event.reason, renewal), event.reason.value
        result = RunResult(text=text, stop_reason=reason, endpoint_error=event.endpoint_message)
        lines = context.run.receipt_lines
        lines += [one for one in event.called_lines if one not in lines]
    context.run.result = result
    slot = turns.platform.chat.find_rate_slot(context.run.message.place)
    checkpoint = await run_recorder.checkpoint_run(turns, context, "end", slot=slot)
    return await _post_run_result(turns, context, result, checkpoint.wait_ms)


async def _post_run_result(
    turns: Turns, context: TurnContext, result: RunResult, wait_ms: int | None
) -> Sequence[Write]:
    await turns.progress.flush_lines(context.run, again=context.is_redelivery)
    delivery_result = await endings.post_run_result(turns, context, result, wait_ms)
    await turns.progress.settle_session(context.run, is_waiting=context.is_other_run_waiting)
    finish_writes = run_recorder.build_finish_writes(turns, context, result, delivery_result)
    return [*finish_writes, *_build_late_writes(turns, context)]


async def refresh_progress(turns: Turns, lease: Lease, refresh: RefreshProgress) -> Sequence[Write]:
    return await turns.progress.refresh_progress(lease, await turns.stores.runs.load_run(refresh.run))


async def _load_failed_run(turns: Turns, work: MessageReceived | ResumeRun) -> Run | None:
    """Load the run of an item that failed every time. After a button it knows what the button changed."""
    if isinstance(work, MessageReceived):
        return await turns.stores.runs.load_run(derive_run_id(turns.stores.keys, work.message))
    run = await turns.stores.runs.load_run(work.run)
    if run is None or run.is_over:
        return None
    _settle_call(turns, run, work)
    return run


async def give_up_run(turns: Turns, item: LaneItem, work: MessageReceived | ResumeRun) -> Sequence[Write]:
    """Give up an item that failed every time: tell the person, and end the run if there is one. A card that it has
    proposed is still delivered instead."""
    run = await _load_failed_run(turns, work)
    if run is not None and run.status is RunStatus.PAUSED:
        return run_recorder.build_pause_writes(turns, run)
    message = work.message if isinstance(work, MessageReceived) else run.message if run else None
    if message is None:
        return []
    text, delivery_result = await endings.post_failure(turns, item, message, run)
    if run is None:
        return []
    await turns.progress.show_failure(run)
    await turns.progress.settle_session(run)
    return [*run_recorder.build_give_up_writes(turns, run, text, delivery_result), *await _free_files(turns, run)]


async def bury_run(turns: Turns, lease: Lease, work: MessageReceived | ResumeRun) -> Sequence[Write]:
    """End the run of an item that could not even be given up. Its person is told later, by a notice. A card that it
    has proposed still comes."""
    run = await _load_failed_run(turns, work)
    if run is None or run.ended_ms:
        return []
    notices = [build_given_up_notice(lease.item, run.message.person)] if isinstance(work, ResumeRun) else []
    if run.status is RunStatus.PAUSED:
        return [*run_recorder.build_pause_writes(turns, run), *notices]
    return [*run_recorder.end_run(turns, run, RunStatus.STOPPED), *notices, *await _free_files(turns, run)]


async def _free_files(turns: Turns, run: Run) -> Sequence[Write]:
    """Build the writes that free the files of the card that the run has waited for, whatever cannot be read of its
    conversation."""
    key = build_waiting_files_key(turns.stores.keys, run.message.place.conversation)
    waiting: dict[str, str] = await turns.stores.redis.hgetall(key)  # type: ignore[assignment]
    return turns.stores.files.keeper.build_file_writes(run, waiting)
