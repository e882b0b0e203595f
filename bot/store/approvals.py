"""Approvals: one Redis hash each, decided once by one script.

Everything but the decision is written in the commit of the approval's own lane (its id is the lane's name).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum

from pydantic import TypeAdapter
from redis.asyncio import Redis

from bot.events import Click, Place, Ref
from bot.records import Approval, ApprovalState, Ask, Expire, Remind, Run, Waiter
from bot.store.connect import reaching
from bot.store.keys import Keys
from bot.store.lanes import Lease
from bot.store.writes import Decide, Fields, Member, Timer, Unmember, Untimer, Write, apply
from bot.trace import Call
from tools.spec import Effect, Gate, Note, Outcome, Plan

KEPT_MS = 30 * 24 * 3_600_000
"""A decided approval is kept this long, so that a late press still gets its answer."""

_waiters = TypeAdapter(tuple[Waiter, ...])
_refs = TypeAdapter(tuple[tuple[str, Ref], ...])


class Verdict(StrEnum):
    """What the one deciding write answered."""

    OK = "ok"
    GONE = "gone"
    STALE = "stale"
    ALREADY = "already"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Approvals:
    redis: Redis
    keys: Keys

    def _key(self, approval: str) -> str:
        return self.keys.key(self.keys.partition(approval), "apr", approval)

    def _index(self, approval: str) -> str:
        return self._open(self.keys.partition(approval))

    def _open(self, partition: int) -> str:
        return self.keys.key(partition, "open")

    async def get(self, approval: str) -> Approval | None:
        with reaching():
            fields: dict[str, str] = await self.redis.hgetall(self._key(approval))  # type: ignore[assignment]
        return _read(fields) if fields else None

    def of(self, lease: Lease) -> Approval | None:
        """The approval whose lane this is, as it was when the item came. Only this lane's commits write it; only its
        decision may have been made meanwhile, and `Decide` looks for itself."""
        return _read(lease.record) if lease.record else None

    def decided(self, click: Click, *, ends: ApprovalState, now_ms: int) -> Decide:
        """Decide once: open, of this version and not expired → decided by this click. The click that won is let
        through again, so that it can be resumed after a crash."""
        return Decide(
            self._key(click.approval),
            self._index(click.approval),
            version=click.version,
            click=click.id,
            person=click.person,
            choice=click.choice,
            form=json.dumps(click.form or {}, ensure_ascii=False),
            now_ms=now_ms,
            becomes=ends.value,
            kept_ms=KEPT_MS,
        )

    async def take_back(self, approval: Approval, person: str, now_ms: int) -> Verdict:
        """Decide once that it shall not be: whoever proposed it says so in chat. Said again, OK again."""
        click = Click(
            id=approval.take_back_press,
            approval=approval.id,
            version=approval.version,
            choice="cancel",
            person=person,
            place=approval.place or Place(team="", channel=""),
        )
        decide = self.decided(click, ends=ApprovalState.CANCELLED, now_ms=now_ms)
        return Verdict(await apply(self.redis, self.keys, self.keys.partition(approval.id), [decide]))

    def saved(self, approval: Approval) -> Write:
        """The whole record, for a checkpoint or commit of its lane."""
        ttl = None if approval.state is ApprovalState.OPEN else KEPT_MS
        return Fields(self._key(approval.id), _written(approval), ttl_ms=ttl)

    def shown(self, approval: Approval) -> Write:
        """Who waits, and where its copies are: what bringing it to people changes. A decision stays as it is."""
        ttl, written = None if approval.state is ApprovalState.OPEN else KEPT_MS, _written(approval)
        changed = {name: written[name] for name in ("waiters", "refs", "brought")}
        return Fields(self._key(approval.id), changed, ttl_ms=ttl)

    def opened(self, approval: Approval) -> tuple[Write, ...]:
        """Record, index entry, and the timers for the reminder at half time and for expiry, in place of those of the
        version before."""
        reminder, expiry = self._timers(approval.id, approval.version)
        before = self._timers(approval.id, approval.version - 1)
        remind_ms = (approval.created_ms + approval.expires_ms) // 2
        return (
            self.saved(approval),
            *(Untimer(timer, approval.id) for timer in before),
            Member(self._index(approval.id), approval.id, approval.expires_ms),
            Timer(reminder, approval.id, remind_ms, Remind(version=approval.version).model_dump_json()),
            Timer(expiry, approval.id, approval.expires_ms, Expire(version=approval.version).model_dump_json()),
        )

    def closed(self, approval: Approval) -> tuple[Write, ...]:
        """The record of an approval that is open no longer, out of the index and without timers."""
        timers = tuple(Untimer(timer, approval.id) for timer in self._timers(approval.id, approval.version))
        return (self.saved(approval), Unmember(self._index(approval.id), approval.id), *timers)

    def _timers(self, approval: str, version: int) -> tuple[str, str]:
        return f"remind:{approval}:{version}", f"expire:{approval}:{version}"

    async def waiting(self) -> list[Approval]:
        """Everything open, oldest expiry first."""
        found: list[Approval] = []
        for partition in range(self.keys.partitions):
            with reaching():
                ids = await self.redis.zrange(self._open(partition), 0, -1)
            records = [await self.get(str(one)) for one in ids]
            found += [one for one in records if one is not None and one.state is ApprovalState.OPEN]
        return sorted(found, key=lambda one: one.expires_ms)


def ask_for(keys: Keys, run: Run, call: Call, plan: Plan, gate: Gate, *, here: bool) -> Ask:
    """What a paused run asks for. A task has one card whoever asks for it; any other call has a card of its own.
    `here`: its card may stand where the run was asked for; otherwise it goes to the DM of who presses."""
    place = run.message.place
    waiter = Waiter(run=run.id, uid=call.uid, lane=place.conversation)
    approval = (
        task_card(keys, plan.subject) if gate is Gate.APPROVE else keys.derived("A", keys.partition(run.id), call.uid)
    )
    where = place if here and gate is not Gate.APPROVE else None
    return Ask(
        approval=approval,
        tool=call.tool,
        gate=gate,
        plan=plan,
        caller=run.message.person,
        place=where,
        waiter=waiter,
    )


def task_card(keys: Keys, task: str) -> str:
    """Id of the card of a task."""
    return keys.derived("A", keys.partition(task), task)


def _written(approval: Approval) -> dict[str, str]:
    return {
        "id": approval.id,
        "version": str(approval.version),
        "tool": approval.tool,
        "gate": approval.gate.value,
        "plan": approval.plan.model_dump_json(),
        "sha": approval.sha,
        "caller": approval.caller,
        "place": approval.place.model_dump_json() if approval.place else "",
        "run": approval.run,
        "waiters": _waiters.dump_json(approval.waiters).decode(),
        "refs": _refs.dump_json(approval.refs).decode(),
        "brought": str(approval.brought),
        "state": approval.state.value,
        "created_ms": str(approval.created_ms),
        "expires_ms": str(approval.expires_ms),
        "by": approval.by,
        "choice": approval.choice,
        "form": json.dumps(approval.form, ensure_ascii=False),
        "press": approval.press,
        "decided_ms": str(approval.decided_ms),
        "effect": approval.effect.value,
        "tries": str(approval.tries),
        "outcome": approval.outcome.model_dump_json() if approval.outcome else "",
        "problem": approval.problem.model_dump_json() if approval.problem else "",
        "why": approval.why,
        "maybe": approval.maybe.model_dump_json() if approval.maybe else "",
        **({"removed": str(approval.removed)} if approval.removed else {}),
        **({"parts": json.dumps(approval.parts)} if approval.parts else {}),
    }


def _read(fields: dict[str, str]) -> Approval:
    return Approval.model_validate(
        {
            **fields,
            "plan": Plan.model_validate_json(fields["plan"]),
            "place": Place.model_validate_json(fields["place"]) if fields["place"] else None,
            "waiters": _waiters.validate_json(fields["waiters"]),
            "refs": _refs.validate_json(fields["refs"]),
            "form": json.loads(fields["form"]),
            "parts": json.loads(fields.get("parts", "{}")),
            "outcome": Outcome.model_validate_json(fields["outcome"]) if fields["outcome"] else None,
            "problem": Note.model_validate_json(fields["problem"]) if fields["problem"] else None,
            "maybe": Effect.model_validate_json(fields["maybe"]) if fields["maybe"] else None,
        }
    )
