"""Brings decisions and effects since a copy of the store into the restored store, so that nothing is done a second
time. The source is a journal kept elsewhere (`countersign tail --json`).

An effect whose result lay in the store itself (e.g. an approval of a request) is gone with the store. Its card says so,
and the decider carries it out again with one press. Any other effect (a mail) has happened outside, so its card is
done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from pydantic import ValidationError

from bot.approvals.state import ENDED_EFFECTS, has_ended
from bot.core.errors import CountersignError
from bot.core.records import Approval, ApprovalState, EffectState
from bot.core.work_items import MessageReceived, SettleCard
from bot.ops.holds import stream_waiting_items
from bot.queue.keys import split_stored_item
from bot.queue.scripts import ScriptRunner
from bot.queue.writes import EnqueueItem, apply_writes
from bot.storage.approvals import ApprovalStore
from bot.storage.runs import derive_run_id
from tools.catalog import TOOLS
from tools.spec import EffectPlace, TextRef, ToolOutcome

MAX_LINE = 1 << 20
"""Most bytes of a line of the journal."""
OPINION = "opinion"
"""The only field of a dialog that the journal contains."""
RUN_ENDS = frozenset({"run.finished", "run.stopped", "run.cancelled"})
CHANGES = frozenset({"approval.edited", "approval.asked_again"})
LOST_MESSAGE = "It was decided, and its effect was lost when the store was restored; nothing of it is on record."
FAILED_MESSAGE = "It was decided and did not work, before the store was restored; nothing of it is on record."
DONE_MESSAGE = "It was done before the store was restored. Do not propose it again."
_EFFECTS = frozenset({"effect.started", *(f"effect.{state.value}" for state in ENDED_EFFECTS)})


class JournalLineError(CountersignError):
    """A line does not come from `countersign tail --json`."""

    def __init__(self, number: int) -> None:
        super().__init__(f"line {number}")
        self.number = number


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEnd:
    """The end of a card, by the last journal line about it."""

    approval: str
    kind: str
    at_ms: int
    person: str
    tool: str
    subject: str
    choice: str
    opinion: str
    run: str
    is_changed: bool = False
    """Whether the card was changed first: the decided version is not the one in the copy."""


@dataclass(slots=True)
class JournalSince:
    """Content of the journal since a copy."""

    ends: dict[str, KnownEnd] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    ended_runs: set[str] = field(default_factory=set)
    acting_runs: set[str] = field(default_factory=set)
    """Runs whose card had its effect."""


@dataclass(slots=True)
class Settlement:
    """Result of bringing the journal into the restored store."""

    settled: list[KnownEnd] = field(default_factory=list)
    """Cards of the copy that are ended now."""
    unknown: list[KnownEnd] = field(default_factory=list)
    """Cards that the copy does not have."""
    left_open: list[KnownEnd] = field(default_factory=list)
    """Lost decisions that cannot be carried out again as they were: their cards wait for another press."""
    dropped_messages: int = 0
    """Number of messages dropped because they were answered since the copy."""


def list_kept_tools(engine: str) -> frozenset[str]:
    """List the tools whose effects lie in the restored store."""
    is_restored = engine == "embedded"
    return frozenset(tool.name for tool in TOOLS if is_restored and tool.effect_place is EffectPlace.ENGINE)


def read_journal(lines: Iterable[bytes], since_ms: int, journal: JournalSince) -> None:
    """Add the content of the lines since `since_ms`. Raises JournalLineError."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line) if len(line) <= MAX_LINE else None
        except (ValueError, RecursionError) as error:
            raise JournalLineError(number) from error
        if not isinstance(fields, dict) or type(fields.get("at_ms")) is not int or type(fields.get("kind")) is not str:
            raise JournalLineError(number)
        at_ms, texts = fields["at_ms"], {name: value for name, value in fields.items() if isinstance(value, str)}
        if at_ms < since_ms:
            continue
        kind, run, approval = texts["kind"], texts.get("run", ""), texts.get("approval", "")
        if run and kind in RUN_ENDS:
            journal.ended_runs.add(run)
        if run and kind in _EFFECTS:
            journal.acting_runs.add(run)
        if not approval:
            continue
        if kind in CHANGES:
            journal.changed.add(approval)
        known = journal.ends.get(approval)
        if (kind in _EFFECTS or kind == "approval.cancelled") and (known is None or known.at_ms <= at_ms):
            journal.ends[approval] = KnownEnd(
                approval=approval,
                kind=kind,
                at_ms=at_ms,
                person=texts.get("person", "") or (known.person if known else ""),
                tool=texts.get("text", ""),
                subject=texts.get("subject", ""),
                choice=texts.get("choice", "") or (known.choice if known else ""),
                opinion=texts.get(OPINION, ""),
                run=run,
                is_changed=approval in journal.changed,
            )


async def settle_since_copy(
    scripts: ScriptRunner, journal: JournalSince, is_kept_here: Callable[[str], bool]
) -> Settlement:
    """End the cards of a store in which nobody works. `is_kept_here`: whether the effects of a tool (by name) lie in
    this store. Raises StoreUnavailableError."""
    redis, keys = scripts.redis, scripts.keys
    approvals, settlement = ApprovalStore(redis, keys), Settlement()
    for end in sorted(journal.ends.values(), key=lambda one: one.at_ms):
        approval = await approvals.find_readable_approval(end.approval)
        if approval is None:
            settlement.unknown.append(end)
            continue
        if has_ended(approval) and approval.effect not in (EffectState.FAILED, EffectState.UNKNOWN):
            continue
        ended = _end_as_known(approval, end, is_kept_here=is_kept_here(approval.tool))
        if ended is None:
            settlement.left_open.append(end)
            continue
        settle = SettleCard(is_silent=bool(journal.ended_runs & {end.run, *(one.run for one in approval.waiters)}))
        put = EnqueueItem(ended.id, f"settle:{ended.id}:{end.at_ms}", settle.model_dump_json())
        await apply_writes(redis, keys, keys.get_partition(ended.id), (*approvals.build_close_writes(ended), put))
        settlement.settled.append(end)
    settlement.dropped_messages = await _drop_answered_messages(scripts, journal.ended_runs | journal.acting_runs)
    return settlement


def _end_as_known(approval: Approval, end: KnownEnd, *, is_kept_here: bool) -> Approval | None:
    """Return the approval with its known end. None if the decision cannot be carried out again as it was."""
    changes: dict[str, object] = {"decided_by": end.person, "decided_ms": end.at_ms, "press_id": f"known:{end.at_ms}"}
    choice = next((one for one in approval.proposal.choices if one.name == end.choice), None)
    if end.kind == "approval.cancelled":
        return approval.model_copy(update={**changes, "state": ApprovalState.CANCELLED, "choice": end.choice})
    if end.is_changed or choice is None or not choice.executes:
        return approval.model_copy(update={**changes, "state": ApprovalState.CLOSED, "choice": "restored"})
    if is_kept_here and any(one.required and one.name != OPINION for one in choice.inputs):
        return None
    form = {OPINION: end.opinion} if end.opinion else {}
    changes |= {
        "state": ApprovalState.DECIDED,
        "choice": choice.name,
        "form": form,
        "attempts": approval.attempts + 1,
        "outcome": None,
        "possible_change": None,
    }
    if is_kept_here or end.kind == "effect.failed":
        was_lost = end.kind != "effect.failed"
        why = {
            "failure": TextRef(key="error.lost_in_restore" if was_lost else "error.failed_before_restore"),
            "failure_for_model": LOST_MESSAGE if was_lost else FAILED_MESSAGE,
        }
        return approval.model_copy(update={**changes, **why, "effect": EffectState.FAILED})
    if end.kind == "effect.done":
        data = {"result": "done", "message": DONE_MESSAGE}
        outcome = ToolOutcome(data=data, summary=TextRef(key="restored.known_done"))
        return approval.model_copy(update={**changes, "effect": EffectState.DONE, "outcome": outcome})
    return approval.model_copy(update={**changes, "effect": EffectState.UNKNOWN})


async def _drop_answered_messages(scripts: ScriptRunner, answered_runs: set[str]) -> int:
    """Drop waiting messages of the copy that were answered since. Returns their number."""
    count = 0
    async for inbox, rows in stream_waiting_items(scripts):
        for row in rows:
            with suppress(ValidationError):  # every other item
                message = MessageReceived.model_validate_json(split_stored_item(row)[1]).message
                if derive_run_id(scripts.keys, message) in answered_runs:
                    count += int(await scripts.redis.lrem(inbox, 1, row))
    return count
