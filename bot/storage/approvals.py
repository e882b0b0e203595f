"""Approvals: one Redis hash each, decided once by one script.

The commit of the approval's own lane (its id is the lane's name) writes everything except the decision."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError
from redis.asyncio import Redis

from bot.chat.messages import Click, Place
from bot.core.errors import UnreadableRecordError
from bot.core.records import Approval, ApprovalState, ApprovalWaiter, OpenCard, Run, is_newer_record
from bot.core.run_state import CallRecord
from bot.core.work_items import ExpireCard, RemindDeciders
from bot.queue.keys import Keys
from bot.queue.lanes import Lease
from bot.queue.writes import SKIP, WRITE, CancelTimer, HSet, Rule, SetTimer, Write, ZAdd, ZRem, apply_writes
from tools.spec import Gate, Proposal

RETENTION_MS = 30 * 24 * 3_600_000
"""Time for which a decided approval is kept (ms), so that a late press still gets its answer."""

RECORD_KIND = "apr"
"""Kind of an approval's record, in its key."""
HOME_MARKS_MS = 3_600_000
"""Time for which the mark of a Home page is kept if no process takes it (ms)."""
MAX_SETS = 20
"""Number of sets that learn how a card ends: the latest ones."""

_RARE_FIELDS = frozenset({"parts", "sets"})
"""Fields of the record's hash that are written only when they say something: an empty value replaces nothing."""
_JSON_FIELDS: Mapping[str, TypeAdapter[Any]] = {
    name: TypeAdapter(kind)
    for name, kind in get_type_hints(Approval).items()
    if name in Approval.model_fields and not (isinstance(kind, type) and issubclass(kind, str | int))
}
"""Fields of the record's hash that are stored as JSON: all but texts, numbers and their kinds."""


@dataclass(frozen=True, slots=True)
class ApprovalStore:
    redis: Redis
    keys: Keys
    kept_ms: int = RETENTION_MS
    """Time for which an approval is kept after its end (ms)."""

    def build_approval_key(self, approval: str) -> str:
        """Build the key of an approval's record."""
        return self.keys.build_key(self.keys.get_partition(approval), RECORD_KIND, approval)

    def _build_open_key(self, partition: int) -> str:
        return self.keys.build_key(partition, "open")

    async def load_approval(self, approval: str) -> Approval | None:
        """Load an approval; None if it does not exist. Raises UnreadableRecordError, or ValidationError for a record of
        a newer version."""
        fields: dict[str, str] = await self.redis.hgetall(self.build_approval_key(approval))  # type: ignore[assignment]
        return _parse_approval_fields(fields) if fields else None

    async def find_readable_approval(self, approval: str) -> Approval | None:
        """Load an approval; None if it does not exist or this version cannot read it."""
        try:
            return await self.load_approval(approval)
        except (UnreadableRecordError, ValidationError):
            return None

    def read_from_lease(self, lease: Lease) -> Approval | None:
        """Parse the approval of this lane as it was when the item came. Only commits of this lane write it. Only its
        decision may have changed since; the deciding and the saving write check that themselves."""
        return _parse_approval_fields(lease.record) if lease.record else None

    def build_decide_writes(self, click: Click, *, ends: ApprovalState, now_ms: int) -> tuple[Write, ...]:
        """Build the writes that decide once: if the approval is open, of this version and not expired, this click
        decides it. Otherwise they refuse with a code, as `find_refusal` of `bot.approvals.state` does. A repetition of
        that click passes again, so that it can be resumed after a crash."""
        rules = (
            Rule("state", "is", "", "gone"),
            Rule("press_id", "is", click.id, SKIP),
            Rule("state", "is", ApprovalState.EXPIRED, "expired"),
            Rule("state", "is not", ApprovalState.OPEN, "already"),
            Rule("version", "is not", str(click.version), "stale"),
            Rule("expires_ms", "at most", str(now_ms), "expired"),
        )
        decision = {"state": ends.value, "press_id": click.id, "decided_by": click.person, "choice": click.choice}
        decision |= {"form": json.dumps(click.form or {}, ensure_ascii=False), "decided_ms": str(now_ms)}
        decide = HSet(self.build_approval_key(click.approval), decision, ttl_ms=self.kept_ms, rules=rules)
        return decide, ZRem(self._build_open_key(self.keys.get_partition(click.approval)), click.approval)

    async def decide_cancellation(self, approval: Approval, person: str, choice: str, now_ms: int) -> str:
        """Cancel once, in chat. `choice`: `TAKEN_BACK_CHOICE` or `STOPPED_CHOICE`. Returns `ok`, also for a repeated
        call, or the code of the refusal."""
        click = Click(
            id=approval.build_cancelling_press(choice),
            approval=approval.id,
            version=approval.version,
            choice=choice,
            person=person,
            place=approval.place or Place(team="", channel=""),
        )
        decide = self.build_decide_writes(click, ends=ApprovalState.CANCELLED, now_ms=now_ms)
        return await apply_writes(self.redis, self.keys, self.keys.get_partition(approval.id), decide)

    def build_save_write(self, approval: Approval) -> Write:
        """Build the write of the whole record, for a checkpoint or commit of its lane. A cancellation decided meanwhile
        by another press than the record's stands."""
        ttl = None if approval.state is ApprovalState.OPEN else self.kept_ms
        key, fields = self.build_approval_key(approval.id), _format_approval_fields(approval)
        rules = (Rule("press_id", "is", approval.press_id, WRITE), Rule("state", "is", ApprovalState.CANCELLED, SKIP))
        return HSet(key, fields, ttl_ms=ttl, rules=rules)

    def build_delivery_write(self, approval: Approval) -> Write:
        """Build the write of the fields that a delivery changes: waiters and copies. A decision stays unchanged."""
        ttl, record = None if approval.state is ApprovalState.OPEN else self.kept_ms, _format_approval_fields(approval)
        fields = {name: record[name] for name in ("waiters", "copies", "delivered_version")}
        return HSet(self.build_approval_key(approval.id), fields, ttl_ms=ttl)

    def build_join_write(self, approval: Approval, set_id: str) -> Write:
        """Build the write that adds a set to the card's sets; the card remembers only the last of them."""
        sets = (*(one for one in approval.sets if one != set_id), set_id)[-MAX_SETS:]
        return HSet(self.build_approval_key(approval.id), {"sets": json.dumps(sets)})

    def build_open_writes(self, approval: Approval, remind_ms: int) -> tuple[Write, ...]:
        """Build the writes of record, index entry, and the timers for reminder and expiry. These timers replace those
        of the previous version."""
        reminder, expiry = self._build_timer_ids(approval.id, approval.version)
        remind = RemindDeciders(version=approval.version).model_dump_json()
        expire = ExpireCard(version=approval.version).model_dump_json()
        earlier_timers = self._build_timer_ids(approval.id, approval.version - 1)
        return (
            self.build_delivery_write(approval),
            self.build_save_write(approval),
            *(CancelTimer(approval.id, timer) for timer in earlier_timers),
            *self.build_home_marks(approval),
            ZAdd(self._build_open_key(self.keys.get_partition(approval.id)), approval.id, approval.expires_ms),
            SetTimer(approval.id, reminder, remind_ms, remind),
            SetTimer(approval.id, expiry, approval.expires_ms, expire),
        )

    def build_close_writes(self, approval: Approval) -> tuple[Write, ...]:
        """Build the writes of a closed approval: its record, without index entry and timers."""
        timers = [CancelTimer(approval.id, one) for one in self._build_timer_ids(approval.id, approval.version)]
        index = ZRem(self._build_open_key(self.keys.get_partition(approval.id)), approval.id)
        return (self.build_save_write(approval), index, *self.build_home_marks(approval), *timers)

    def build_home_marks(self, approval: Approval) -> Sequence[Write]:
        """Build the marks that the Home pages with this card, or with the request it is about, are out of date: those
        of the people who may press it or have it, and of its requester."""
        readers = [reader for reader, _ in approval.copies]
        people = (*approval.proposal.deciders, approval.proposal.requester or "", approval.caller, *readers)
        return build_mark_writes(self.keys, self.keys.get_partition(approval.id), people)

    def _build_timer_ids(self, approval: str, version: int) -> tuple[str, str]:
        return f"remind:{approval}:{version}", f"expire:{approval}:{version}"

    async def list_open_ids(self, partition: int) -> list[str]:
        """Ids of the open approvals of a partition, earliest expiry first."""
        return [str(one) for one in await self.redis.zrange(self._build_open_key(partition), 0, -1)]

    async def count_open_approvals(self) -> int:
        """Count the open approvals in one round trip."""
        async with self.redis.pipeline(transaction=False) as pipe:
            for partition in range(self.keys.partitions):
                pipe.zcard(self._build_open_key(partition))
            return sum(await pipe.execute())

    async def list_open_approvals(self) -> list[Approval]:
        """All open approvals, earliest expiry first."""
        approvals: list[Approval] = []
        for partition in range(self.keys.partitions):
            records = [await self.load_approval(one) for one in await self.list_open_ids(partition)]
            approvals += [one for one in records if one is not None and one.state is ApprovalState.OPEN]
        return sorted(approvals, key=lambda one: one.expires_ms)


def build_open_card(keys: Keys, run: Run, call: CallRecord, proposal: Proposal, gate: Gate, *, here: bool) -> OpenCard:
    """Build the card that a paused run requests. A task has one card, whoever asks for it; any other call has its own
    card. `here`: the card may be posted in the conversation; otherwise it goes to each decider's DM."""
    place = run.message.place
    waiter = ApprovalWaiter(run=run.id, uid=call.uid, lane=place.conversation)
    approval = (
        derive_task_card_id(keys, proposal.subject)
        if gate is Gate.APPROVE
        else keys.derive_id("A", keys.get_partition(run.id), call.uid)
    )
    where = place if here and gate is not Gate.APPROVE else None
    return OpenCard(
        approval=approval,
        tool=call.tool,
        gate=gate,
        proposal=proposal,
        caller=run.message.person,
        place=where,
        waiter=waiter,
    )


def derive_task_card_id(keys: Keys, task: str) -> str:
    """Derive the card id of a task."""
    return keys.derive_id("A", keys.get_partition(task), task)


def build_marks_key(keys: Keys, partition: int) -> str:
    return keys.build_key(partition, "home_changed")


def build_mark_writes(keys: Keys, partition: int, people: Iterable[str]) -> Sequence[Write]:
    key = build_marks_key(keys, partition)
    return [ZAdd(key, person, 0, ttl_ms=HOME_MARKS_MS) for person in dict.fromkeys(people) if person]


def _format_approval_fields(approval: Approval) -> dict[str, str]:
    """Format the fields of the record's hash. None is an empty text."""
    fields = dict[str, str]()
    for name, value in approval:
        if value or name not in _RARE_FIELDS:
            as_json = _JSON_FIELDS.get(name)
            fields[name] = "" if value is None else as_json.dump_json(value).decode() if as_json else str(value)
    return fields


def _parse_approval_fields(fields: Mapping[str, str]) -> Approval:
    """Parse an approval. Raises UnreadableRecordError, or ValidationError for a record of a newer version."""
    try:
        stored = {name: field for name, field in _JSON_FIELDS.items() if name in fields}
        parsed = {name: field.validate_json(fields[name] or "null") for name, field in stored.items()}
        return Approval.model_validate({**fields, **parsed})
    except ValidationError as unread:
        if is_newer_record(unread):
            raise
        raise UnreadableRecordError(fields.get("id", "")) from unread
