"""Walks of an approval through random events, and the properties checked at each step."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, get_args

from bot.approvals import state
from bot.approvals.state import (
    ApprovalEffects,
    ApprovalEvent,
    CardCancelled,
    CardEdited,
    CardExpired,
    CardRedrafted,
    CardRenewed,
    CardRequested,
    CardSettled,
    ClaimDecision,
    ConfirmationRequired,
    DecisionMade,
    EffectAbandoned,
    EffectConfirmed,
    EffectFailed,
    EffectLost,
    EffectRetried,
    EffectStarted,
    EffectSucceeded,
    IllegalTransitionError,
    OpenPeriod,
    PartsChanged,
    ReminderDue,
    SaveEnd,
    SubjectClosed,
    SuggestionAdded,
    WaiterAdded,
)
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
PERIOD = OpenPeriod(LASTS)
OWNER, OTHER = "U1", "U2"
PLACE = Place(team="T", channel="D1")
LEGAL: Mapping[str, set[type]] = {
    "absent": {CardRequested},
    "open": {
        *(WaiterAdded, CardRedrafted, CardEdited, ReminderDue, CardExpired, SuggestionAdded),
        *(SubjectClosed, CardCancelled, DecisionMade),
    },
    "decided": {CardRequested, EffectStarted, EffectAbandoned},
    "started": {
        *(CardRequested, ConfirmationRequired, PartsChanged),
        *(EffectSucceeded, EffectFailed, EffectLost, EffectAbandoned),
    },
    "done": {CardSettled},
    "failed": {CardRequested, EffectRetried, CardSettled},
    "unknown": {EffectRetried, EffectConfirmed, CardSettled},
    "cancelled": {CardRequested, CardCancelled, CardSettled},
    "expired": {CardRequested, CardRenewed, SubjectClosed, CardSettled},
    "closed": {CardSettled},
}
"""Phase → events that may happen to a card, if its version, time and person fit."""
REOPENS = (CardRequested, CardRenewed, ConfirmationRequired)
"""Events that open a card again as its next version."""
DECISION = ("decided_by", "choice", "form", "removed_characters", "decided_ms")
"""The fields that record the decision, its person and its time."""
UNENDED = ("open", "decided", "started")
RANK = {EffectState.NONE: 0, EffectState.STARTED: 1}
"""Ranks of effects; an ended effect has rank 2."""


Pick = Callable[[Sequence[Any]], Any]
"""A function that picks one of several."""


def make_plan(n: int) -> Proposal:
    choices = (CardChoice(name="send"), CardChoice(name="cancel", executes=False))
    return Proposal(args={"n": n}, title=TextRef(key="x"), fields=(), deciders=(OWNER,), choices=choices)


def build_card(proposal: Proposal, **changes: Any) -> Approval:
    """Build a card that the owner is to confirm, unless the changes differ."""
    card: dict[str, Any] = {"id": "A", "version": 1, "tool": "t", "gate": Gate.CONFIRM, "caller": OWNER, "place": PLACE}
    card |= {"created_ms": to_ms(BEGIN), "expires_ms": to_ms(BEGIN + LASTS), **changes}
    return Approval(proposal=proposal, seal=compute_seal(card["tool"], proposal), **card)


def make_event(kind: type, pick: Pick, card: Approval | None) -> ApprovalEvent:
    """Make an event of this kind that mostly fits the card: its version, its owner, its time."""
    version = (card.version if card else 1) + pick((0, 0, 0, -1, 1))
    person, n = pick((OWNER, OWNER, OTHER)), pick(range(4))
    place, gate = (
        pick((PLACE, None)),
        pick((Gate.CONFIRM, Gate.CONFIRM, Gate.APPROVE)),
    )
    click = Click(
        id=f"c{n}", approval="A", version=version, choice="send", person=person, place=PLACE, form={"opinion": f"{n}"}
    )
    parts = {OTHER: pick(tuple(PartState))}
    made: dict[type, Callable[[], ApprovalEvent]] = {
        CardRequested: lambda: CardRequested(
            card=OpenCard(approval="A", tool="t", gate=gate, proposal=make_plan(n), caller=OWNER, place=place),
            period=PERIOD,
        ),
        CardRedrafted: lambda: CardRedrafted(proposal=make_plan(n), period=PERIOD),
        CardEdited: lambda: CardEdited(proposal=make_plan(n), period=PERIOD, person=person),
        CardRenewed: lambda: CardRenewed(
            proposal=card.proposal if card else make_plan(n), period=PERIOD, person=person
        ),
        ConfirmationRequired: lambda: ConfirmationRequired(proposal=make_plan(n), period=PERIOD),
        WaiterAdded: lambda: WaiterAdded(ApprovalWaiter(run=f"R{n}", uid=f"u{n}", lane="D1")),
        ReminderDue: lambda: ReminderDue(version),
        CardExpired: lambda: CardExpired(version),
        SuggestionAdded: lambda: SuggestionAdded(version, CardField(label="advice", value=f"{n}"), "advice.approve"),
        SubjectClosed: lambda: SubjectClosed(person, "withdrawn"),
        CardCancelled: lambda: CardCancelled(person, STOPPED_CHOICE if n % 2 else TAKEN_BACK_CHOICE),
        DecisionMade: lambda: DecisionMade(_taking_back(click, card) if n == 3 else click, 0, runs=n > 0),
        EffectStarted: EffectStarted,
        PartsChanged: lambda: PartsChanged(parts),
        EffectSucceeded: lambda: EffectSucceeded(ToolOutcome(data={}, summary=TextRef(key="done")), parts),
        EffectFailed: lambda: EffectFailed(failure=TextRef(key="error.x"), why="x", parts=parts),
        EffectLost: EffectLost,
        EffectAbandoned: EffectAbandoned,
        EffectRetried: lambda: EffectRetried(click),
        EffectConfirmed: lambda: EffectConfirmed(click),
        CardSettled: CardSettled,
    }
    return made[kind]()


def _taking_back(click: Click, card: Approval | None) -> Click:
    """Return the press with the id that only a cancellation in chat has."""
    return Click(**{**dict(click), "id": card.build_cancelling_press(TAKEN_BACK_CHOICE)}) if card else click


def list_kinds() -> list[type]:
    """List every kind of event."""
    return sorted(get_args(ApprovalEvent), key=lambda kind: kind.__name__)


def name_phase(card: Approval | None) -> str:
    if card is None:
        return "absent"
    return card.effect.value or card.state.value


def is_legal(card: Approval | None, event: ApprovalEvent, now_ms: int) -> bool:
    """Whether the event is legal, written independently of the machine."""
    if type(event) not in LEGAL[name_phase(card)]:
        return False
    in_time = card is not None and now_ms < card.expires_ms
    match event:
        case CardCancelled(person, choice):
            again = card is not None and card.state is ApprovalState.CANCELLED
            name = "stop" if choice == STOPPED_CHOICE else "cancel"
            same = card is not None and card.press_id == f"{name}:A:{card.version}"
            theirs = card is not None and card.gate is Gate.CONFIRM and (name == "stop" or person == OWNER)
            return theirs and (same if again else in_time)
        case DecisionMade(click):
            return card is not None and click.version == card.version and in_time
        case ReminderDue(version) | CardExpired(version) | SuggestionAdded(version):
            return card is not None and version == card.version
        case EffectRetried(click) | EffectConfirmed(click):
            return card is not None and click.version == card.version
        case WaiterAdded(waiter):
            return card is not None and waiter not in card.waiters
    return True


def list_likely(phase: str) -> list[type]:
    """List the likely events of a phase: mostly decisions and effects, but also all others."""
    kinds = list_kinds()
    legal = [kind for kind in kinds if kind in LEGAL[phase]]
    forward = [kind for kind in legal if kind in (DecisionMade, EffectStarted, EffectLost)]
    return legal * 4 + forward * 16 + kinds


WAITS = (*(timedelta(hours=hours) for hours in (0, 0, 0, 0, 0, 1, 1, 1, 1)), LASTS)
LIKELY = {phase: list_likely(phase) for phase in LEGAL}


class Walk:
    """Cards that go through random events one after another, and the properties that break."""

    def __init__(self, pick: Pick) -> None:
        self.pick, self.card, self.now = pick, None, BEGIN
        self.card: Approval | None
        self.decided = Counter[int]()
        self.made = set[type]()

    def go(self, steps: int) -> list[str]:
        """Return the properties that the first bad event breaks; empty when all hold to the end."""
        for _ in range(steps):
            self.now += self.pick(WAITS)
            if name_phase(self.card) in ("done", "closed") and self.pick((True, False)):
                self.card, self.decided = None, Counter()
            event = make_event(self.pick(LIKELY[name_phase(self.card)]), self.pick, self.card)
            if broken := sorted(set(self._step(event))):
                return [*broken, f"{event} on {self.card}"]
        return []

    def _step(self, event: ApprovalEvent) -> Iterator[str]:
        """Yield the names of the properties that this event breaks."""
        before, snapshot = self.card, self.card.model_dump_json() if self.card else ""
        legal = is_legal(before, event, to_ms(self.now))
        try:
            after, effects = state.transition(before, event, self.now)
        except IllegalTransitionError:
            if legal:
                yield "legal moves are made"
            if before is not None and before.model_dump_json() != snapshot:
                yield "what is refused changes nothing"
            return
        if not legal:
            yield "illegal moves are refused"
        if before is not None and before.model_dump_json() != snapshot:
            yield "what was is left as it was"
        self.card = after
        self.made.add(type(event))
        yield from self._find_broken_seal(before, after)
        yield from self._find_broken_decision(before, after, event, effects)
        yield from self._find_broken_effect(before, after)
        if any(isinstance(effect, SaveEnd) for effect in effects) and name_phase(after) in UNENDED:
            yield "what is not over is not closed"

    def _find_broken_seal(self, before: Approval | None, after: Approval) -> Iterator[str]:
        if after.seal != compute_seal(after.tool, after.proposal):
            yield "the seal is that of the plan"
        if before is not None and before.seal != after.seal and after.version != before.version + 1:
            yield "the seal changes with the version"
        if before is not None and not 0 <= after.version - before.version <= 1:
            yield "versions count up"

    def _find_broken_decision(
        self, before: Approval | None, after: Approval, event: ApprovalEvent, effects: ApprovalEffects
    ) -> Iterator[str]:
        self.decided[after.version] += sum(isinstance(effect, ClaimDecision) for effect in effects)
        if self.decided[after.version] > 1:
            yield "a version is decided once"
        if any(isinstance(one, ClaimDecision) and one.now_ms >= after.expires_ms for one in effects):
            yield "nothing is decided when its time is over"
        if after.state is ApprovalState.OPEN and (after.decided_by or after.press_id or after.choice or after.effect):
            yield "nobody has decided what is open"
        if before is None:
            return
        reopened = after.state is ApprovalState.OPEN and before.state is not ApprovalState.OPEN
        next_version = isinstance(event, REOPENS) and after.version == before.version + 1
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
