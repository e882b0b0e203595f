"""*Stop*, written or pressed: who may stop what, and what it ends.

A stop first marks its lane, ahead of the queue: work that was put there before ends at once (`Lease.stopped`). The item
behind the mark, in the same lane, then ends the runs that wait for a card. Each card's own lane carries that out
(`cancel_card` of `bot.approvals.lifecycle`)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from bot.agent.limits import StopReason
from bot.chat.messages import Message, SessionStatus
from bot.chat.platform import Platform
from bot.conversation.turn_context import Turns
from bot.core.history_entries import PausedRun
from bot.core.i18n import load_sentences, translate
from bot.core.records import STOPPED_CHOICE
from bot.core.work_items import SessionStopped, StopOpenCard
from bot.queue.lanes import ANYBODY, Lease
from bot.queue.writes import Write
from bot.storage.stores import Stores
from tools.languages import LANGUAGES, choose_words
from tools.spec import Caller, Gate

RECENT_ENTRIES = 20
"""Number of entries of a conversation that are searched for a run that a *stop* ended."""
SKEW_MS = 5_000
"""Largest difference between the platform's clock and the bot's (ms)."""
RECENT_MS = 30_000
"""Age beyond which a stop acts in its lane only (ms): nobody heard it at first, and work may be of later messages."""
Stop: TypeAlias = Message | SessionStopped


@dataclass(frozen=True, slots=True)
class StopResult:
    """The outcome of a stop for the runs that wait for a card."""

    cancelled_cards: int
    is_empty: bool
    """Whether nothing of this person's was at work or waited, and they may stop nobody else's work."""
    is_waiting: bool
    """Whether a run of somebody else still waits for a card."""


# At once, ahead of the queue


def is_word_of(text: str, key: str) -> bool:
    """Whether a message consists of one of the words that people type for a command, and nothing else. `key`: the
    sentence with these words."""
    words = ",".join(choose_words(load_sentences()[key], language) for language in LANGUAGES)
    return text.strip().strip("/!！。.?？").strip().lower() in map(str.strip, words.split(","))


def is_stop(text: str) -> bool:
    """Whether a message is the word *stop*, in a DM or a shared channel."""
    return is_word_of(text, "command.stop_words")


def read_time_ms(said: Stop) -> float:
    """Read the platform's time of a message or a press (epoch ms), 0 if it is not known."""
    sent_ms = said.sent_ms if isinstance(said, Message) else 0
    return sent_ms or (float(said.at) * 1000 if said.at.replace(".", "", 1).isdecimal() else 0)


async def stop_running_work(
    stores: Stores, platform: Platform, stop: Stop, go_on: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    """Stop the person's own running work, or everybody's for an administrator. The platform waits, so the directory
    is not asked. A person who is not known yet stops their own work at once, and everybody's once a look-up, in a
    task of its own, says that they may."""

    async def stop_everybody_if_administrator() -> None:
        caller = await platform.directory.find_caller(stop.person)
        if caller is not None and caller.person.is_administrator:
            await stores.lanes.request_stop(stop.place.conversation, stop.at, ANYBODY)

    if 0 < read_time_ms(stop) < stores.clock.now_ms() - RECENT_MS:
        return
    known = platform.directory.find_known_person(stop.person)
    if known is None:
        go_on(stop_everybody_if_administrator())
    if known is None or known.active:
        whose = ANYBODY if known is not None and known.is_administrator else stop.person
        await stores.lanes.request_stop(stop.place.conversation, stop.at, whose)


# Behind the mark, in its lane


async def answer_written_stop(turns: Turns, stop: Message, caller: Caller) -> str:
    """Stop the runs that wait for a card, and return the answer to the written stop."""
    result, language = await stop_waiting_runs(turns, stop, caller), caller.person.language
    is_entitled = stop.place.direct or caller.person.is_administrator
    key = "stopped" if is_entitled else "stopped_nothing" if result.is_empty else "stopped_own"
    cards = translate("command.stopped_cards", language, n=result.cancelled_cards)
    return " ".join([translate(f"command.{key}", language), *([cards] if result.cancelled_cards else [])])


async def stop_session(turns: Turns, lease: Lease, stop: SessionStopped) -> Sequence[Write]:
    """Handle the platform's own *Stop* button. The run that it ended has said so by now, and so does each card.
    Only a person who could stop nothing is told, privately."""
    caller = await turns.platform.directory.find_caller(stop.person)
    if caller is None:
        return []
    result = await stop_waiting_runs(turns, stop, caller)
    if result.is_empty:
        text = translate("command.stopped_nothing", caller.person.language)
        await turns.platform.chat.post_ephemeral(stop.place, stop.person, text)
    status = SessionStatus.SUSPENDED if result.is_waiting else SessionStatus.ACTIVE
    turns.platform.chat.set_session_status(stop.place, status)
    await turns.platform.chat.wait_for_session(stop.place)
    where = {"person": stop.person, "channel": stop.place.channel}
    return [turns.stores.journal.build_record_write(lease.lane, "command", **where, text="stop")]


async def stop_waiting_runs(turns: Turns, stop: Stop, caller: Caller) -> StopResult:
    """Stop the runs that wait for a card here: the caller's own, or everybody's for an administrator."""
    place, said_ms = stop.place, read_time_ms(stop)
    waiting = (await turns.stores.runs.load_conversation(place.conversation, turns.stores.history)).waiting
    cancelled = await cancel_cards(turns.stores, waiting, caller, said_ms)
    is_entitled = place.direct or caller.person.is_administrator
    is_empty = not (is_entitled or cancelled)
    if is_empty:  # unless this *stop* ended a run of its own author
        entries = (await turns.stores.history.load_history(place.conversation)).entries[-RECENT_ENTRIES:]
        ids = dict.fromkeys(entry.run for entry in entries if entry.run)
        runs = [await turns.stores.runs.load_run(one) for one in ids]
        own_runs = [run for run in runs if run is not None and run.message.person == caller.id]
        results = [run.result for run in own_runs if run.ended_ms >= said_ms - SKEW_MS]
        is_empty = not any(one is not None and one.stop_reason == StopReason.USER for one in results)
    return StopResult(
        cancelled_cards=cancelled,
        is_empty=is_empty,
        is_waiting=not is_entitled and any(one.person != caller.id for one in waiting),
    )


async def cancel_cards(stores: Stores, waiting: Iterable[PausedRun], caller: Caller, said_ms: float) -> int:
    """Cancel the cards of the caller's own runs among these, or of all runs for an administrator, but of none that was
    asked for after the stop. A card that needs an approval stays, and only its run ends. A press that came first
    stands. Returns the number of cards cancelled."""
    cancelled = 0
    for one in waiting:
        if not (one.person == caller.id or caller.person.is_administrator):
            continue
        run = await stores.runs.load_run(one.run)
        if run is not None and 0 < said_ms < read_time_ms(run.message):
            continue
        # A card that is not there yet is cancelled in its own lane, before anybody can press it.
        stop = StopOpenCard(approval=one.approval, run=one.run, person=caller.id)
        await stores.lanes.enqueue(one.approval, f"stop:{one.approval}:{one.run}", stop.model_dump_json())
        approval = await stores.approvals.load_approval(one.approval)
        if approval is None:
            card = run.requested_card if run is not None else None
            cancelled += card is not None and card.gate is not Gate.APPROVE
        elif approval.owner:  # decided here, once, against any press that may come first
            now_ms = stores.clock.now_ms()
            verdict = await stores.approvals.decide_cancellation(approval, caller.id, STOPPED_CHOICE, now_ms)
            cancelled += verdict == "ok"
    return cancelled
