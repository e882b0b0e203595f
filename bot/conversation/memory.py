"""The memory that conversations have of a run: the conversation where the person asked and, if something went to their
DM, that DM. A DM also remembers events.

Content that may not be shown in a channel is not remembered there either, because the model of the next person in the
thread reads the history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from zoneinfo import ZoneInfo

from bot.agent.recall import (
    NOT_VERIFIED,
    build_calls_entry,
    build_event_entry,
    build_past_call,
    format_call_line,
    list_latest_calls,
    name_offered_call,
)
from bot.chat.messages import Place
from bot.conversation.endings import DeliveryResult, render_receipt
from bot.conversation.turn_context import Turns
from bot.core.history_entries import EntryKind, HistoryEntry, PastCall
from bot.core.i18n import translate
from bot.core.records import OpenCard, Run, RunStatus
from bot.core.run_state import CallRecord, CallStatus
from bot.core.work_items import AppendDirectHistory
from bot.queue.writes import AppendHistory, EnqueueItem, Write
from tools.spec import Person, Privacy

WAITING_NOTE = "a card was brought and waits for its button: {tool}"
CANCELLED_NOTE = "the person took the card back: nothing was done"
STOPPED_NOTE = "it was stopped: nothing was done"


@dataclass(slots=True)
class RunMemory:
    """The part of a run that is remembered now, oldest entry first."""

    entries: list[HistoryEntry] = field(default_factory=list)
    calls: Sequence[PastCall] = ()
    """Calls of the entry with calls, if there is one."""


def build_answer_writes(
    turns: Turns, run: Run, text: str, delivery_result: DeliveryResult
) -> tuple[AppendHistory, list[Write]]:
    """Build the entries of question, calls, answer and changes: for the conversation, and for the DM if there is
    one."""
    place, calls = run.message.place, RunMemory()
    question = [] if run.is_in_history else [_build_question_entry(turns, run)]
    was_in_dm = run.dm_place is not None  # the run's card has been in the DM
    run.dm_place = delivery_result.direct or run.dm_place
    answer = [_build_answer_entry(turns, run, text), *_build_effect_entries(turns, run)]
    if delivery_result.in_conversation:
        calls = _build_call_entries(turns, run, place) if _can_show_details(run, delivery_result) else calls
        here = [*question, *calls.entries, *answer]
    else:
        effects = _build_effect_entries(turns, run, in_channel=True)
        here = [*question, _build_answer_entry(turns, run, delivery_result.pointer), *effects]
    append, *writes = _build_history_writes(turns, place, RunMemory(here, calls.calls))
    assert isinstance(append, AppendHistory)
    if run.dm_place is None:
        return append, writes
    calls = _build_call_entries(turns, run, run.dm_place)
    entries = [*([] if was_in_dm else [_build_question_entry(turns, run)]), *calls.entries, *answer]
    return append, [*writes, _build_direct_history_item(run, "end", RunMemory(entries, calls.calls))]


def build_waiting_writes(turns: Turns, run: Run) -> list[Write]:
    """Build the entries that are remembered while a card of the run waits. If the card is in a DM, that DM lists it
    as open."""
    requested_card, place, writes = run.requested_card, run.message.place, list[Write]()
    if requested_card is None:
        return []
    question = [] if run.is_in_history else [_build_question_entry(turns, run)]
    run.is_in_history = True
    if place.direct:
        calls = _build_call_entries(turns, run, place)
        return _build_history_writes(turns, place, RunMemory([*question, *calls.entries], calls.calls))
    if question:
        args = requested_card.proposal.args
        tool, _ = name_offered_call(turns.loop.executor.find_tool, requested_card.tool, args)
        note = _build_event_entry(turns, run, WAITING_NOTE.format(tool=tool), said="")
        writes = _build_history_writes(turns, place, RunMemory([*question, note]))
    if run.dm_place is None:
        return writes
    calls = _build_call_entries(turns, run, run.dm_place)
    part = RunMemory([*question, *calls.entries], calls.calls)
    return [*writes, _build_direct_history_item(run, str(len(run.state.calls)), part, requested_card)]


def build_silent_end_writes(turns: Turns, run: Run) -> list[Write]:
    """Build the entries for a run that was stopped, or whose card its person cancelled in chat. Such a run says
    nothing more."""
    is_stopped = run.status is RunStatus.STOPPED
    sentence = translate("command.card_stopped" if is_stopped else "command.taken_back", run.language)
    event = _build_event_entry(turns, run, STOPPED_NOTE if is_stopped else CANCELLED_NOTE, said=sentence)
    question = [] if run.is_in_history else [_build_question_entry(turns, run)]
    writes = _build_history_writes(turns, run.message.place, RunMemory([*question, event]))
    return [*writes, _build_direct_history_item(run, "end", RunMemory([event]))] if run.dm_place else writes


def build_event_write(turns: Turns, place: Place, person: Person, text: str, id: str) -> EnqueueItem:
    """Build the item that sends an event of a DM to the lane of that DM. `id` names the event, so that it is
    remembered once."""
    event = build_event_entry(text, turns.stores.clock.today_ms(), person.zone)
    entries = ((event.message, event.shown_text, event.at_ms, event.kind.value),)
    work = AppendDirectHistory(run="", place=place, person=person.id, entries=entries)
    return EnqueueItem(place.conversation, f"direct_event:{id}", work.model_dump_json())


async def build_direct_history_writes(turns: Turns, work: AppendDirectHistory) -> Sequence[Write]:
    """Build the writes of an item in the DM's own lane."""
    conversation = work.place.conversation
    entries = [
        HistoryEntry(message=message, run=work.run, shown_text=said, at_ms=at_ms, kind=EntryKind("".join(kind)))
        for message, said, at_ms, *kind in work.entries
    ]
    part = RunMemory(entries, [PastCall(*row) for row in work.calls])
    writes = _build_history_writes(turns, work.place, part) if entries else []
    if not work.run:
        return writes
    if work.approval:
        paused_write = turns.stores.runs.build_add_paused_write(
            conversation, work.run, work.approval, work.tool, work.person, work.card_summary
        )
        return [*writes, paused_write]
    return [*writes, turns.stores.runs.build_remove_paused_write(conversation, work.run)]


def _build_history_writes(turns: Turns, place: Place, part: RunMemory) -> list[Write]:
    """Build the writes of a conversation in its own lane. The first one adds the entries."""
    conversation = place.conversation
    call_entries = [one for one in part.entries if one.kind is EntryKind.CALLS] if part.calls else []
    call_writes = [turns.stores.history.build_calls_write(conversation, one, part.calls) for one in call_entries]
    return [turns.stores.history.build_turn_write(conversation, part.entries), *call_writes]


def _build_direct_history_item(
    run: Run, step: str, part: RunMemory, requested_card: OpenCard | None = None
) -> EnqueueItem:
    """Build the item that sends entries to the lane of the DM, once: only the holder of that lane writes its
    history. `requested_card`: the card that waits there."""
    assert run.dm_place is not None
    work = AppendDirectHistory(
        run=run.id,
        place=run.dm_place,
        person=run.message.person,
        entries=tuple((one.message, one.shown_text, one.at_ms, one.kind.value) for one in part.entries),
        calls=tuple(part.calls),
        approval=requested_card.approval if requested_card else "",
        tool=requested_card.tool if requested_card else "",
        card_summary=run.card_summary if requested_card else None,
    )
    return EnqueueItem(run.dm_place.conversation, f"append_history:{run.id}:{step}", work.model_dump_json())


def _build_call_entries(turns: Turns, run: Run, place: Place) -> RunMemory:
    """Build the entry for the calls of the run that no entry holds yet. In a channel, a call with a card in the DM
    is remembered only by its outcome."""
    remembered = run.remembered_calls if place.direct else ()
    calls = list[tuple[CallRecord, PastCall, str]]()
    for call, result in list_latest_calls(run.state, remembered):
        tool, args = name_offered_call(turns.loop.executor.find_tool, call.tool, call.args)
        calls.append((call, build_past_call(replace(call, tool=tool, args=args), result), result))
    if not calls:
        return RunMemory()
    if place.direct:
        run.remembered_calls += [call.uid for call, _, _ in calls if call.status is not CallStatus.AWAITING]
    visible_calls = [one for one in calls if place.direct or not one[0].approval]
    lines = [
        format_call_line(past, result) if place.direct or not call.approval else f"{past.tool} → {past.status}"
        for call, past, result in calls
    ]
    waits = any(call.status is CallStatus.AWAITING for call, _, _ in calls)
    entry = build_calls_entry(
        lines, turns.stores.clock.today_ms(), ZoneInfo(run.timezone), run=run.id, said="" if waits else None
    )
    return RunMemory([entry], [past for _, past, _ in visible_calls])


def _can_show_details(run: Run, delivery_result: DeliveryResult) -> bool:
    """Whether details that the run has seen may be remembered beside its answer, and not only the bot's own
    words."""
    own_words = run.result is None or bool(run.result.stop_reason)
    return (
        run.message.place.direct
        or run.state.privacy is Privacy.PUBLIC
        or (delivery_result.in_conversation and not own_words)
    )


def _build_effect_entries(turns: Turns, run: Run, *, in_channel: bool = False) -> list[HistoryEntry]:
    """Build the entry of the run's changes and the unsupported parts of its answer. Empty if there are neither."""
    last = run.result
    lines = [render_receipt(run, in_channel=in_channel)] if run.receipt_lines else []
    said = "\n".join(lines)
    if last and last.unverified and not in_channel:
        lines.append(NOT_VERIFIED + " · ".join(last.unverified))
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
