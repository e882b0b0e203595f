"""Walks of an approval through random events, and the properties checked at each step."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from inspect import getmembers, isfunction
from random import Random
from typing import Any

from bot.approvals import state
from bot.approvals.state import IllegalTransitionError, OpenPeriod
from bot.chat.messages import Click, Place
from bot.core.clock import to_ms
from bot.core.records import (
    STOPPED_CHOICE,
    TAKEN_BACK_CHOICE,
    Approval,
    ApprovalState,
    ApprovalWaiter,
    EffectState,
    OpenCard,
    compute_seal,
)
from tools.effect_parts import PartState
from tools.spec import CardChoice, CardField, Gate, Proposal, TextRef, ToolOutcome

STEPS = 40
"""Number of events in one walk."""
BEGIN = datetime(2026, 1, 5, 9, tzinfo=UTC)
LASTS = timedelta(hours=72)
OWNER, OTHER = "U1", "U2"
PLACE = Place(team="T", channel="D1")
REOPENINGS = ("redraft", "renew", "confirm again")
"""Reasons for a next version."""
LEGAL: Mapping[str, set[str]] = {
    "absent": {"create_approval"},
    "open": {
        *("add_waiter", "redraft", "expire_approval", "add_suggestion"),
        *("close_approval", "cancel_approval", "decide_approval"),
    },
    "decided": {"create_approval", "start_effect", "abandon_effect"},
    "started": {
        *("create_approval", "confirm again", "change_parts"),
        *("complete_effect", "fail_effect", "lose_effect", "abandon_effect"),
    },
    "done": {"settle_approval"},
    "failed": {"create_approval", "retry_effect", "settle_approval"},
    "unknown": {"retry_effect", "confirm_effect", "settle_approval"},
    "cancelled": {"create_approval", "cancel_approval", "settle_approval"},
    "expired": {"create_approval", "renew", "close_approval", "settle_approval"},
    "closed": {"settle_approval"},
}
"""Phase → events that may happen to a card, if its version, time and person fit."""
REOPENS = ("create_approval", "renew", "confirm again")
"""Events that open a card again as its next version."""
DECISION = ("decided_by", "choice", "form", "removed_characters", "decided_ms")
"""The fields that record the decision, its person and its time."""
UNENDED = ("open", "decided", "started")
RANK = {EffectState.NONE: 0, EffectState.STARTED: 1}
"""Ranks of effects; an ended effect has rank 2."""


Pick = Callable[[Sequence[Any]], Any]
"""A function that picks one of several."""


def make_plan(n: int = 1, **changes: Any) -> Proposal:
    choices = (CardChoice(name="send"), CardChoice(name="cancel", executes=False))
    plan = {"args": {"n": n}, "title": TextRef(key="x"), "fields": (), "deciders": (OWNER,), "choices": choices}
    return Proposal.model_validate(plan | changes)


def build_card(proposal: Proposal, **changes: Any) -> Approval:
    """Build a card that the owner is to confirm, unless the changes differ."""
    card: dict[str, Any] = {"id": "A", "version": 1, "tool": "t", "gate": Gate.CONFIRM, "caller": OWNER, "place": PLACE}
    card |= {"created_ms": to_ms(BEGIN), "expires_ms": to_ms(BEGIN + LASTS), **changes}
    return Approval(proposal=proposal, seal=compute_seal(card["tool"], proposal), **card)


def make_period(now: datetime) -> OpenPeriod:
    return OpenPeriod(to_ms(now), to_ms(now + LASTS / 2), to_ms(now + LASTS))


@dataclass(frozen=True)
class Event:
    """An event that may happen to a card, with all that a rule may ask of it."""

    name: str
    version: int
    person: str
    choice: str
    waiter: ApprovalWaiter
    apply: Callable[[Any], Approval | None]
    """Gets the card, or None."""


def make_event(name: str, pick: Pick, card: Approval | None, now: datetime) -> Event:
    """Make an event of this name that mostly fits the card: its version, its owner, its time."""
    version = (card.version if card else 1) + pick((0, 0, 0, -1, 1))
    person, n = pick((OWNER, OWNER, OTHER)), pick(range(4))
    place, gate = pick((PLACE, None)), pick((Gate.CONFIRM, Gate.CONFIRM, Gate.APPROVE))
    press = {"id": f"c{n}", "choice": "send", "person": person, "form": {"opinion": f"{n}"}}
    if name == "decide_approval" and n == 3 and card:
        press["id"] = card.build_cancelling_press(TAKEN_BACK_CHOICE)  # the id that only a cancellation in chat has
    click = Click(approval="A", version=version, place=PLACE, **press)
    parts, choice = {OTHER: pick(tuple(PartState))}, STOPPED_CHOICE if n % 2 else TAKEN_BACK_CHOICE
    waiter = ApprovalWaiter(run=f"R{n}", uid=f"u{n}", lane="D1")
    asked = OpenCard(approval="A", tool="t", gate=gate, proposal=make_plan(n), caller=OWNER, place=place)
    period, advice = make_period(now), CardField(label="advice", value=f"{n}")
    failure, outcome = TextRef(key="error.x"), ToolOutcome(data={}, summary=TextRef(key="done"))
    applied: dict[str, Callable[[Any], Approval | None]] = {
        "create_approval": lambda card: state.create_approval(card, asked, period),
        "redraft": lambda card: state.open_next_version(card, make_plan(n), period),
        "renew": lambda card: state.open_next_version(card, card.proposal, period, after=ApprovalState.EXPIRED),
        "confirm again": lambda card: state.open_next_version(card, make_plan(n), period, after=ApprovalState.DECIDED),
        "add_waiter": lambda card: state.add_waiter(card, waiter),
        "expire_approval": lambda card: state.expire_approval(card, version, now),
        "add_suggestion": lambda card: state.add_suggestion(card, version, advice),
        "close_approval": lambda card: state.close_approval(card, person, "withdrawn", now),
        "cancel_approval": lambda card: state.cancel_approval(card, person, choice, now),
        "decide_approval": lambda card: state.decide_approval(card, click, 0, now, runs=n > 0),
        "start_effect": lambda card: state.start_effect(card),
        "change_parts": lambda card: state.change_parts(card, parts),
        "complete_effect": lambda card: state.complete_effect(card, outcome, parts),
        "fail_effect": lambda card: state.fail_effect(card, failure, "x", parts=parts),
        "lose_effect": lambda card: state.lose_effect(card),
        "abandon_effect": lambda card: state.abandon_effect(card),
        "retry_effect": lambda card: state.retry_effect(card, click),
        "confirm_effect": lambda card: state.confirm_effect(card, click),
        "settle_approval": lambda card: state.settle_approval(card),
    }
    return Event(name, version, person, choice, waiter, applied[name])


BESIDE = {"record_delivery", "keep_copies", "compute_seal"}
"""Functions in the module that return something of a card and are no event: copies change in every state."""


def list_events() -> list[str]:
    """List every event: the functions that return a changed card. The next version has several reasons."""
    functions = {
        name for name, one in getmembers(state, isfunction) if "Approval" in str(one.__annotations__.get("return"))
    }
    events = {name for name in functions - BESIDE if not name.startswith("_")} - {"open_next_version"}
    return sorted(events | set(REOPENINGS))


def name_phase(card: Approval | None) -> str:
    if card is None:
        return "absent"
    return card.effect.value or card.state.value


def is_legal(card: Approval | None, event: Event, now_ms: int) -> bool:
    """Whether the event is legal, written independently of the machine."""
    if event.name not in LEGAL[name_phase(card)]:
        return False
    if card is None:
        return True
    in_time, fits = now_ms < card.expires_ms, event.version == card.version
    match event.name:
        case "cancel_approval":
            name = "stop" if event.choice == STOPPED_CHOICE else "cancel"
            same = card.press_id == f"{name}:A:{card.version}"
            theirs = card.gate is Gate.CONFIRM and (name == "stop" or event.person == OWNER)
            return theirs and (same if card.state is ApprovalState.CANCELLED else in_time)
        case "decide_approval":
            return fits and in_time
        case "expire_approval" | "add_suggestion" | "retry_effect" | "confirm_effect":
            return fits
        case "add_waiter":
            return event.waiter not in card.waiters
    return True


def list_likely(phase: str) -> list[str]:
    """List the likely events of a phase: mostly decisions and effects, but also all others."""
    events = list_events()
    legal = [name for name in events if name in LEGAL[phase]]
    forward = [name for name in legal if name in ("decide_approval", "start_effect", "lose_effect")]
    return legal * 4 + forward * 16 + events


WAITS = (*(timedelta(hours=hours) for hours in (0, 0, 0, 0, 0, 1, 1, 1, 1)), LASTS)
LIKELY = {phase: list_likely(phase) for phase in LEGAL}


class Walk:
    """Cards that go through random events one after another, and the properties that break."""

    def __init__(self, pick: Pick) -> None:
        self.pick, self.card, self.now = pick, None, BEGIN
        self.card: Approval | None
        self.decided = Counter[int]()
        self.made = set[str]()

    def go(self, steps: int) -> list[str]:
        """Return the properties that the first bad event breaks; empty when all hold to the end."""
        for _ in range(steps):
            self.now += self.pick(WAITS)
            if name_phase(self.card) in ("done", "closed") and self.pick((True, False)):
                self.card, self.decided = None, Counter()
            event = make_event(self.pick(LIKELY[name_phase(self.card)]), self.pick, self.card, self.now)
            if broken := sorted(set(self._step(event))):
                return [*broken, f"{event} on {self.card}"]
        return []

    def _step(self, event: Event) -> Iterator[str]:
        """Yield the names of the properties that this event breaks."""
        before, snapshot = self.card, self.card.model_dump_json() if self.card else ""
        if before is None and event.name != "create_approval":
            return  # there is nothing that it may happen to
        legal = is_legal(before, event, to_ms(self.now))
        try:
            after = event.apply(before)
        except IllegalTransitionError:
            after = None
        is_changed = before is not None and before.model_dump_json() != snapshot
        if after is None:
            if legal:
                yield "legal moves are made"
            if is_changed:
                yield "what is refused changes nothing"
            return
        if not legal:
            yield "illegal moves are refused"
        if is_changed:
            yield "what was is left as it was"
        self.card = after
        self.made.add(event.name)
        yield from self._find_broken_seal(before, after)
        yield from self._find_broken_decision(before, after, event)
        yield from self._find_broken_effect(before, after)
        if event.name == "settle_approval" and name_phase(after) in UNENDED:
            yield "what is not over is not closed"

    def _find_broken_seal(self, before: Approval | None, after: Approval) -> Iterator[str]:
        if after.seal != compute_seal(after.tool, after.proposal):
            yield "the seal is that of the plan"
        if before is not None and before.seal != after.seal and after.version != before.version + 1:
            yield "the seal changes with the version"
        if before is not None and not 0 <= after.version - before.version <= 1:
            yield "versions count up"

    def _find_broken_decision(self, before: Approval | None, after: Approval, event: Event) -> Iterator[str]:
        is_decision = event.name == "decide_approval"
        self.decided[after.version] += is_decision
        if self.decided[after.version] > 1:
            yield "a version is decided once"
        if is_decision and after.decided_ms >= after.expires_ms:
            yield "nothing is decided when its time is over"
        if after.state is ApprovalState.OPEN and (after.decided_by or after.press_id or after.choice or after.effect):
            yield "nobody has decided what is open"
        if before is None:
            return
        reopened = after.state is ApprovalState.OPEN and before.state is not ApprovalState.OPEN
        next_version = event.name in REOPENS and after.version == before.version + 1
        if reopened and (before.is_settled or not next_version):
            yield "what has ended stays ended"
        decided = before.state is after.state is ApprovalState.DECIDED
        if decided and any(getattr(before, name) != getattr(after, name) for name in DECISION):
            yield "a decision stays as it was made"

    def _find_broken_effect(self, before: Approval | None, after: Approval) -> Iterator[str]:
        if after.effect and after.state is not ApprovalState.DECIDED:
            yield "only what is decided is done"
        if before is None:
            return
        ended = RANK.get(before.effect, 2) == 2
        back = RANK.get(after.effect, 2) < RANK.get(before.effect, 2) or (ended and after.effect != before.effect)
        if before.version == after.version and back:
            yield "an effect only moves forward"


def list_walks() -> list[Walk]:
    """List fixed walks: they come to every event far more evenly than those that Hypothesis finds."""
    pick = Random(1).choice
    return [Walk(pick) for _ in range(300)]
