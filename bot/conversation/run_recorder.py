"""The writes of a run: checkpoints, pauses and its end, with the journal and the memory that conversations have of it.

A run is remembered in the conversation where the person asked and, if something went to their DM, in that DM. A DM also
remembers events. Content that may not be shown in a channel is not remembered there either, because the model of the
next person in the thread reads the history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

from bot.agent.limits import StopReason
from bot.agent.prompt import build_calls_entry, build_event_entry
from bot.agent.recall import NOT_VERIFIED, build_past_call, format_call_line, list_latest_calls, name_offered_call
from bot.agent.tool_executor import RunStep
from bot.chat.messages import Message, Place, RateSlot
from bot.conversation.endings import DeliveryResult, render_receipt
from bot.conversation.turn_context import TurnContext, Turns
from bot.core import metrics
from bot.core.history_entries import EntryKind, HistoryEntry, PastCall
from bot.core.i18n import translate
from bot.core.records import OpenCard, Run, RunResult, RunStatus
from bot.core.run_state import CallRecord, CallStatus, RunState
from bot.core.work_items import AppendDirectHistory
from bot.queue.lanes import CheckpointResult
from bot.queue.writes import AppendHistory, EnqueueItem, Write
from tools.catalog import TOOLS
from tools.spec import Person, Privacy
from tools.workflow.engine.state import format_decimal

WAITING_NOTE = "a card was brought and waits for its button: {tool}"
CANCELLED_NOTE = "the person took the card back: nothing was done"
STOPPED_NOTE = "it was stopped: nothing was done"

_TOOL_NAMES = frozenset(tool.name for tool in TOOLS)
"""Names of the bot's own tools. Tools of servers, and names that a model made up, are counted together."""


async def checkpoint_run(
    turns: Turns, context: TurnContext, seq: str, *more: Write, slot: RateSlot | None = None, most_ms: int | None = None
) -> CheckpointResult:
    """Store the run, and in the same write its usage since the last checkpoint."""
    run, lease = context.run, context.lease
    usage_writes = turns.stores.spending.build_usage_writes(
        lease.lane, run.message.person, run.state.uncounted_usage, begun=run.state.is_uncounted_run
    )
    result = await lease.checkpoint(
        seq, *turns.stores.runs.build_save_writes(run), *usage_writes, *more, slot=slot, most_ms=most_ms
    )
    run.state.uncounted_usage.clear()
    run.stored_messages = len(run.state.messages) if run.status is RunStatus.RUNNING else 0
    return result


def build_step_writes(turns: Turns, run: Run, steps: Sequence[RunStep]) -> list[Write]:
    """A journal line for each step, and the writes of features."""
    writes = list[Write]()
    for step in steps:
        call, status = step.call, step.call.status.value
        metrics.STEPS.labels(call.tool if call.tool in _TOOL_NAMES else metrics.OTHER, status).inc()
        error_fields = {"error": step.error, "why": step.error_message} if step.error else {}
        journal_write = build_journal_write(
            turns, run.message, "step", run=run.id, text=call.reason, tool=call.tool, status=status, **error_fields
        )
        writes += [journal_write, *turns.features.build_step_writes(run, step)]
    return writes


def build_pause_writes(turns: Turns, run: Run) -> Sequence[Write]:
    """Build the writes for a pause: the card's item, and the entries that conversations remember meanwhile. The
    card's shown fields go with its item. The run keeps the arguments with which later calls are compared."""
    requested_card = run.requested_card
    if requested_card is None:
        return []
    history_writes = _build_waiting_writes(turns, run, requested_card)
    card_write = EnqueueItem(
        requested_card.approval, f"open:{run.id}:{len(run.state.calls)}", requested_card.model_dump_json()
    )
    proposal = requested_card.proposal.model_copy(update={"fields": (), "choices": ()})
    stored = run.model_copy(update={"requested_card": requested_card.model_copy(update={"proposal": proposal})})
    return [*turns.stores.runs.build_save_writes(stored), *history_writes, card_write]


def build_finish_writes(
    turns: Turns, context: TurnContext, result: RunResult, delivery_result: DeliveryResult
) -> Sequence[Write]:
    """Build the writes after the answer has been posted."""
    run = context.run
    history_write, direct_writes = _build_answer_writes(turns, run, result.text, delivery_result)
    return [
        *end_run(turns, run, RunStatus.STOPPED if result.stop_reason else RunStatus.DONE),
        history_write,
        *direct_writes,
        *turns.features.build_answer_writes(run, context.conversation.history, history_write),
        build_journal_write(
            turns,
            run.message,
            "run.stopped" if result.stop_reason else "run.finished",
            run=run.id,
            text=render_receipt(run),
            **({"why": result.stop_reason} if result.stop_reason else {}),
            **({"said": result.endpoint_error} if result.endpoint_error else {}),
            **_build_run_figures(run.state),
        ),
    ]


def build_silent_end_writes(turns: Turns, run: Run) -> Sequence[Write]:
    """Build the silent end of a run that was stopped, or whose card its person cancelled in chat. The person has
    been answered already."""
    is_stopped = run.status is RunStatus.STOPPED
    sentence = translate("command.card_stopped" if is_stopped else "command.taken_back", run.language)
    event = _build_event_entry(turns, run, STOPPED_NOTE if is_stopped else CANCELLED_NOTE, said=sentence)
    question = [] if run.is_in_history else [_build_question_entry(turns, run)]
    why = {"why": StopReason.USER.value} if is_stopped else {}
    kind = "run.stopped" if is_stopped else "run.cancelled"
    return [
        *end_run(turns, run, run.status),
        *_build_history_writes(turns, run.message.place, [*question, event]),
        *([_build_direct_history_item(run, run.dm_place, "end", [event])] if run.dm_place else []),
        build_journal_write(turns, run.message, kind, run=run.id, **why, **_build_run_figures(run.state)),
    ]


def build_give_up_writes(turns: Turns, run: Run, text: str, delivery_result: DeliveryResult) -> Sequence[Write]:
    """Build the end of a run that failed every time, after the person was told so."""
    history_write, direct_writes = _build_answer_writes(turns, run, text, delivery_result)
    return [*end_run(turns, run, RunStatus.STOPPED), history_write, *direct_writes]


def _build_run_figures(state: RunState) -> dict[str, Any]:
    """Build the figures of a run for the journal. Cost is text, because it is exact; cost is left out if no price is
    known."""
    figures: dict[str, Any] = {
        "steps": state.steps,
        "ms": state.active_ms,
        "tokens_in": state.tokens_in,
        "cached": state.tokens_cached,
        "tokens_out": state.tokens_out,
        "malformed": state.malformed,
        "model": state.model,
    }
    figures |= {"cost": format_decimal(state.cost), "currency": state.currency} if state.currency else {}
    figures |= {"unpriced": state.unpriced} if state.unpriced else {}
    return figures | ({"claimed": state.claims, "supported": state.supported_claims} if state.claims else {})


def end_run(turns: Turns, run: Run, status: RunStatus) -> Sequence[Write]:
    """End a run, and build the writes of its end alone."""
    run.status, run.ended_ms = status, turns.stores.clock.now_ms()
    metrics.RUNS.labels(status.value).observe(max(0, run.ended_ms - run.created_ms) / 1000)
    turns.on_run_ended(run)
    return turns.stores.runs.build_save_writes(run)


def build_journal_write(
    turns: Turns, message: Message, kind: str, *, run: str = "", text: str = "", **more: Any
) -> Write:
    place = message.place
    return turns.stores.journal.build_record_write(
        place.conversation, kind, run=run, person=message.person, channel=place.channel, text=text, **more
    )


# Memory


def _build_answer_writes(
    turns: Turns, run: Run, text: str, delivery_result: DeliveryResult
) -> tuple[AppendHistory, list[Write]]:
    """Build the entries of question, calls, answer and changes: for the conversation, and for the DM if there is
    one."""
    place, question = run.message.place, _build_question_entry(turns, run)
    was_in_dm = run.dm_place is not None  # the run's card has been in the DM
    run.dm_place = delivery_result.direct or run.dm_place
    answer, doubts = _build_answer_entry(turns, run, text), run.result.unverified if run.result else ()
    private = [answer, *_build_effect_entries(turns, run, doubts, in_channel=False)]
    here = [] if run.is_in_history else [question]
    if delivery_result.in_conversation:
        is_answered = run.result is not None and not run.result.stop_reason
        if is_answered or place.direct or run.state.privacy is Privacy.PUBLIC:  # a stop shows nothing that was seen
            here += _build_call_entries(turns, run, place)
    else:
        answer, doubts = _build_answer_entry(turns, run, delivery_result.pointer), ()
    here += [answer, *_build_effect_entries(turns, run, doubts, in_channel=not place.direct)]
    append, *writes = _build_history_writes(turns, place, here)
    if run.dm_place is not None:
        calls = _build_call_entries(turns, run, run.dm_place)
        entries = [*([] if was_in_dm else [question]), *calls, *private]
        writes.append(_build_direct_history_item(run, run.dm_place, "end", entries))
    return append, writes


def _build_waiting_writes(turns: Turns, run: Run, card: OpenCard) -> list[Write]:
    """Build the entries that are remembered while a card of the run waits. If the card is in a DM, that DM lists it
    as open."""
    place, writes = run.message.place, list[Write]()
    question = [] if run.is_in_history else [_build_question_entry(turns, run)]
    run.is_in_history = True
    if place.direct:
        return [*_build_history_writes(turns, place, [*question, *_build_call_entries(turns, run, place)])]
    if question:
        tool, _ = name_offered_call(turns.loop.selector.find_tool, card.tool, card.proposal.args)
        note = _build_event_entry(turns, run, WAITING_NOTE.format(tool=tool), said="")
        writes += _build_history_writes(turns, place, [*question, note])
    if run.dm_place is not None:
        entries = [*question, *_build_call_entries(turns, run, run.dm_place)]
        writes.append(_build_direct_history_item(run, run.dm_place, str(len(run.state.calls)), entries, card))
    return writes


def build_event_write(turns: Turns, place: Place, person: Person, text: str, id: str) -> EnqueueItem:
    """Build the item that sends an event of a DM to the lane of that DM. `id` names the event, so that it is
    remembered once."""
    event = build_event_entry(text, turns.stores.clock.today_ms(), person.zone)
    entries = ((event.message, event.shown_text, event.at_ms, event.kind.value),)
    work = AppendDirectHistory(run="", place=place, person=person.id, entries=entries)
    return EnqueueItem(place.conversation, f"direct_event:{id}", work.model_dump_json())


async def build_direct_history_writes(turns: Turns, work: AppendDirectHistory) -> Sequence[Write]:
    """Build the writes of an item in the DM's own lane."""
    conversation, calls = work.place.conversation, [PastCall(*row) for row in work.calls]
    entries = list[HistoryEntry]()
    for message, said, at_ms, *stored_kind in work.entries:
        kind = EntryKind("".join(stored_kind))
        past = calls if kind is EntryKind.CALLS else ()
        entries.append(HistoryEntry(message=message, run=work.run, shown_text=said, at_ms=at_ms, kind=kind, calls=past))
    writes: Sequence[Write] = _build_history_writes(turns, work.place, entries) if entries else ()
    if not work.run:
        return writes
    if work.approval:
        paused_write = turns.stores.runs.build_add_paused_write(
            conversation, work.run, work.approval, work.tool, work.person, work.card_summary
        )
        return [*writes, paused_write]
    return [*writes, turns.stores.runs.build_remove_paused_write(conversation, work.run)]


def _build_history_writes(
    turns: Turns, place: Place, entries: Sequence[HistoryEntry]
) -> tuple[AppendHistory, *tuple[Write, ...]]:
    """Build the writes of a conversation in its own lane. The first one adds the entries."""
    history, conversation = turns.stores.history, place.conversation
    call_writes = [history.build_calls_write(conversation, one, one.calls) for one in entries if one.calls]
    return history.build_turn_write(conversation, entries), *call_writes


def _build_direct_history_item(
    run: Run, place: Place, step: str, entries: Sequence[HistoryEntry], card: OpenCard | None = None
) -> EnqueueItem:
    """Build the item that sends entries to the lane of the DM, once: only the holder of that lane writes its
    history. `card`: the card that waits there."""
    work = AppendDirectHistory(
        run=run.id,
        place=place,
        person=run.message.person,
        entries=tuple((one.message, one.shown_text, one.at_ms, one.kind.value) for one in entries),
        calls=tuple(call for one in entries for call in one.calls),
        approval=card.approval if card else "",
        tool=card.tool if card else "",
        card_summary=run.card_summary if card else None,
    )
    return EnqueueItem(place.conversation, f"append_history:{run.id}:{step}", work.model_dump_json())


def _build_call_entries(turns: Turns, run: Run, place: Place) -> list[HistoryEntry]:
    """Build the entry for the calls of the run that no entry holds yet, if there are any. In a channel, a call with a
    card in the DM is remembered only by its outcome."""
    calls, lines = list[tuple[CallRecord, PastCall]](), list[str]()
    for call, result in list_latest_calls(run.state, run.remembered_calls if place.direct else ()):
        tool, args = name_offered_call(turns.loop.selector.find_tool, call.tool, call.args)
        past = build_past_call(replace(call, tool=tool, args=args), result)
        calls.append((call, past))
        is_shown = place.direct or not call.approval
        lines.append(format_call_line(past, result) if is_shown else f"{past.tool} → {past.status}")
    if not calls:
        return []
    if place.direct:
        run.remembered_calls += [call.uid for call, _ in calls if call.status is not CallStatus.AWAITING]
    said = "" if any(call.status is CallStatus.AWAITING for call, _ in calls) else None
    entry = build_calls_entry(lines, turns.stores.clock.today_ms(), ZoneInfo(run.timezone), run=run.id, said=said)
    return [replace(entry, calls=[past for call, past in calls if place.direct or not call.approval])]


def _build_effect_entries(turns: Turns, run: Run, doubts: Sequence[str], *, in_channel: bool) -> list[HistoryEntry]:
    """Build the entry of the run's changes and `doubts`, the unsupported parts of its answer, if there are any."""
    lines = [render_receipt(run, in_channel=in_channel)] if run.receipt_lines else []
    said = "\n".join(lines)
    lines += [NOT_VERIFIED + " · ".join(doubts)] if doubts else []
    return [_build_event_entry(turns, run, "\n".join(lines), said=said)] if lines else []


def _build_event_entry(turns: Turns, run: Run, text: str, *, said: str) -> HistoryEntry:
    return build_event_entry(text, turns.stores.clock.today_ms(), ZoneInfo(run.timezone), run=run.id, said=said)


def _build_answer_entry(turns: Turns, run: Run, text: str) -> HistoryEntry:
    return HistoryEntry.from_content("assistant", text, run=run.id, at_ms=turns.stores.clock.today_ms())


def _build_question_entry(turns: Turns, run: Run) -> HistoryEntry:
    """Build the entry of the question: the person's text, and its form for a model."""
    return HistoryEntry(
        message=run.state.messages[0], run=run.id, shown_text=run.message.text, at_ms=turns.stores.clock.today_ms()
    )
