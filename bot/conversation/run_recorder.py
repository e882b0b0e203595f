"""The writes of a run: checkpoints, pauses and its end, with the journal and the history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bot.agent.events import RunStep
from bot.agent.limits import StopReason
from bot.chat.messages import Message, RateSlot
from bot.conversation import memory
from bot.conversation.endings import DeliveryResult, render_receipt
from bot.conversation.turn_context import TurnContext, Turns
from bot.core import metrics
from bot.core.i18n import format_amount
from bot.core.records import Run, RunResult, RunStatus
from bot.core.run_state import RunState
from bot.queue.lanes import CheckpointResult
from bot.queue.writes import EnqueueItem, Write
from tools.catalog import TOOLS

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
    history_writes = memory.build_waiting_writes(turns, run)
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
    history_write, direct_writes = memory.build_answer_writes(turns, run, result.text, delivery_result)
    return [
        *_end_run(turns, run, RunStatus.STOPPED if result.stop_reason else RunStatus.DONE),
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
    end_writes, history_writes = _end_run(turns, run, run.status), memory.build_silent_end_writes(turns, run)
    why = {"why": StopReason.USER.value} if is_stopped else {}
    kind = "run.stopped" if is_stopped else "run.cancelled"
    journal_write = build_journal_write(turns, run.message, kind, run=run.id, **why, **_build_run_figures(run.state))
    return [*end_writes, *history_writes, journal_write]


def build_leaver_writes(turns: Turns, run: Run) -> Sequence[Write]:
    """Build the end of a run whose person can no longer be served and gets no answer."""
    why = "its person is not a member any more"
    journal_write = build_journal_write(turns, run.message, "run.stopped", run=run.id, text=why)
    return [*_end_run(turns, run, RunStatus.STOPPED), journal_write]


def build_give_up_writes(turns: Turns, run: Run, text: str, delivery_result: DeliveryResult) -> Sequence[Write]:
    """Build the end of a run that failed every time, after the person was told so."""
    history_write, direct_writes = memory.build_answer_writes(turns, run, text, delivery_result)
    return [*_end_run(turns, run, RunStatus.STOPPED), history_write, *direct_writes]


def build_burial_writes(turns: Turns, run: Run) -> Sequence[Write]:
    """Build the end of a run that failed every time and whose person could not be told. A card that it requested
    still comes."""
    return build_pause_writes(turns, run) if run.status is RunStatus.PAUSED else _end_run(turns, run, RunStatus.STOPPED)


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
    figures |= {"cost": format_amount(state.cost), "currency": state.currency} if state.currency else {}
    figures |= {"unpriced": state.unpriced} if state.unpriced else {}
    return figures | ({"claimed": state.claims, "supported": state.supported_claims} if state.claims else {})


def _end_run(turns: Turns, run: Run, status: RunStatus) -> Sequence[Write]:
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
