"""An approval through any order of events keeps its promises; and a machine with a safety taken out is noticed by the
property that the safety is for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from bot import approval_state
from bot.approval_events import (
    ApprovalEffects,
    ApprovalEvent,
    CardDelivered,
    CardEdited,
    CardExpired,
    CardRedrafted,
    CardRenewed,
    CardRequested,
    CardSettled,
    CardTakenBack,
    ClaimDecision,
    ConfirmationRequired,
    CopiesUpdated,
    CopyFound,
    DecisionMade,
    EffectAbandoned,
    EffectConfirmed,
    EffectFailed,
    EffectLost,
    EffectRetried,
    EffectStarted,
    EffectSucceeded,
    NotifyWaiter,
    PartsChanged,
    ReminderDue,
    SaveEnd,
    SaveOpening,
    SubjectClosed,
    SuggestionAdded,
    WaiterAdded,
)
from bot.approval_state import IllegalTransition, find_refusal, to_ms
from bot.events import Click, Place, Ref
from bot.records import Approval, ApprovalState, EffectState, Waiter, seal
from bot.store.approvals import Approvals
from bot.store.keys import Keys
from bot.store.writes import apply
from tools.parts import PartState
from tools.spec import Choice, Fact, Gate, Note, Outcome, Plan

BEGIN = datetime(2026, 1, 5, 9, tzinfo=UTC)
LASTS = timedelta(hours=72)
OWNER, OTHER = "U1", "U2"
PLACE = Place(team="T", channel="D1")
COPIES = {CardDelivered, CopiesUpdated, CopyFound}
LEGAL: Mapping[str, set[type]] = {
    "absent": {CardRequested},
    "open": {
        *(WaiterAdded, CardRedrafted, CardEdited, ReminderDue, CardExpired, SuggestionAdded),
        *(SubjectClosed, CardTakenBack, DecisionMade),
    },
    "decided": {CardRequested, EffectStarted, EffectAbandoned},
    "started": {
        *(CardRequested, ConfirmationRequired, PartsChanged),
        *(EffectSucceeded, EffectFailed, EffectLost, EffectAbandoned),
    },
    "done": {CardSettled},
    "failed": {CardRequested, EffectRetried, CardSettled},
    "unknown": {EffectRetried, EffectConfirmed, CardSettled},
    "cancelled": {CardRequested, CardTakenBack, CardSettled},
    "expired": {CardRequested, CardRenewed, SubjectClosed, CardSettled},
    "closed": {CardSettled},
}
"""What may happen to a card beside what happens to its copies, as far as its version, its time and the person fit."""
REOPENS = (CardRequested, CardRenewed, ConfirmationRequired)
"""What opens a card again, as its next version."""
DECISION = ("by", "choice", "form", "removed", "decided_ms")
"""The fields that say what was decided, by whom and when."""
RANK = {EffectState.NONE: 0, EffectState.STARTED: 1}
"""An effect that has ended has rank 2."""


def make_plan(n: int) -> Plan:
    choices = (Choice(name="send"), Choice(name="cancel", runs=False))
    return Plan(args={"n": n}, title=Note(key="x"), facts=(), deciders=(OWNER,), choices=choices)


def make_event(kind: type, draw: Callable[[st.SearchStrategy[Any]], Any], card: Approval | None) -> ApprovalEvent:
    """An event of this kind that mostly fits the card: its version, its owner, its time."""
    version = (card.version if card else 1) + draw(st.sampled_from((0, 0, 0, -1, 1)))
    person, n = draw(st.sampled_from((OWNER, OWNER, OTHER))), draw(st.integers(0, 3))
    place, gate = (
        draw(st.sampled_from((PLACE, None))),
        draw(st.sampled_from((Gate.CONFIRM, Gate.CONFIRM, Gate.APPROVE))),
    )
    click = Click(
        id=f"c{n}", approval="A", version=version, choice="send", person=person, place=PLACE, form={"opinion": f"{n}"}
    )
    ref, parts = Ref(channel="D1", ts=str(n)), {OTHER: draw(st.sampled_from(PartState))}
    made: dict[type, Callable[[], ApprovalEvent]] = {
        CardRequested: lambda: CardRequested(
            approval="A", tool="t", gate=gate, plan=make_plan(n), caller=OWNER, place=place, run="", lasts=LASTS
        ),
        CardRedrafted: lambda: CardRedrafted(plan=make_plan(n), lasts=LASTS),
        CardEdited: lambda: CardEdited(plan=make_plan(n), lasts=LASTS, person=person),
        CardRenewed: lambda: CardRenewed(plan=card.plan if card else make_plan(n), lasts=LASTS, person=person),
        ConfirmationRequired: lambda: ConfirmationRequired(plan=make_plan(n), lasts=LASTS),
        WaiterAdded: lambda: WaiterAdded(Waiter(run=f"R{n}", uid=f"u{n}", lane="D1")),
        CardDelivered: lambda: CardDelivered({person: ref}),
        CopiesUpdated: lambda: CopiesUpdated(card.refs[1:] if card else ()),
        CopyFound: lambda: CopyFound(person, ref),
        ReminderDue: lambda: ReminderDue(version),
        CardExpired: lambda: CardExpired(version),
        SuggestionAdded: lambda: SuggestionAdded(version, Fact(label="advice", value=f"{n}"), "advice.approve"),
        SubjectClosed: lambda: SubjectClosed(person, "withdrawn"),
        CardTakenBack: lambda: CardTakenBack(person),
        DecisionMade: lambda: DecisionMade(_taking_back(click, card) if n == 3 else click, 0, runs=n > 0),
        EffectStarted: EffectStarted,
        PartsChanged: lambda: PartsChanged(parts),
        EffectSucceeded: lambda: EffectSucceeded(Outcome(data={}, note=Note(key="done")), parts),
        EffectFailed: lambda: EffectFailed(problem=Note(key="error.x"), why="x", parts=parts),
        EffectLost: EffectLost,
        EffectAbandoned: EffectAbandoned,
        EffectRetried: lambda: EffectRetried(click),
        EffectConfirmed: lambda: EffectConfirmed(click),
        CardSettled: CardSettled,
    }
    return made[kind]()


def _taking_back(click: Click, card: Approval | None) -> Click:
    """The same press, under the id that only taking the card back has."""
    return Click(**{**dict(click), "id": card.take_back_press}) if card else click


def list_kinds() -> list[type]:
    """Every kind of event that there is."""
    return sorted(get_args(ApprovalEvent), key=lambda kind: kind.__name__)


def name_phase(card: Approval | None) -> str:
    if card is None:
        return "absent"
    return card.effect.value or card.state.value


def is_legal(card: Approval | None, event: ApprovalEvent, now_ms: int) -> bool:
    """Said once more, and otherwise than the machine says it."""
    if type(event) not in LEGAL[name_phase(card)] | (COPIES if card else set()):
        return False
    in_time = card is not None and now_ms < card.expires_ms
    match event:
        case CardTakenBack(person):
            again = card is not None and card.state is ApprovalState.CANCELLED
            ours = card is not None and card.press == f"cancel:A:{card.version}"
            return card is not None and card.gate is Gate.CONFIRM and person == OWNER and (ours if again else in_time)
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
    """What happens to a card in this phase of a walk: decisions and effects above all, but also everything else."""
    kinds = list_kinds()
    legal = [kind for kind in kinds if kind in LEGAL[phase]]
    forward = [kind for kind in legal if kind in (DecisionMade, EffectStarted, ConfirmationRequired)]
    return legal * 4 + forward * 16 + kinds


WAITS = (*(timedelta(hours=hours) for hours in (0, 0, 0, 0, 0, 1, 1, 1, 1)), LASTS)
LIKELY = {phase: list_likely(phase) for phase in LEGAL}


class Walk:
    """Cards through drawn events, one after another, and whatever they break."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.draw, self.card, self.now = draw, None, BEGIN
        self.card: Approval | None
        self.decided = Counter[int]()
        self.made = set[type]()

    def go(self, steps: int) -> None:
        for _ in range(steps):
            self.now += self.draw(st.sampled_from(WAITS))
            if name_phase(self.card) in ("done", "closed") and self.draw(st.booleans()):
                self.card, self.decided = None, Counter()
            event = make_event(self.draw(st.sampled_from(LIKELY[name_phase(self.card)])), self.draw, self.card)
            broken = sorted(set(self._step(event)))
            assert not broken, f"{', '.join(broken)}: {event} on {self.card}"

    def _step(self, event: ApprovalEvent) -> Iterator[str]:
        """The names of the properties that this event breaks."""
        before, snapshot = self.card, self.card.model_dump_json() if self.card else ""
        legal = is_legal(before, event, to_ms(self.now))
        try:
            after, effects = approval_state.transition(before, event, self.now)
        except IllegalTransition:
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
        yield from self._find_broken_effect(before, after, event)
        yield from self._find_broken_notice(before, after, event, effects)

    def _find_broken_seal(self, before: Approval | None, after: Approval) -> Iterator[str]:
        if after.sha != seal(after.tool, after.plan):
            yield "the seal is that of the plan"
        if before is not None and before.sha != after.sha and after.version != before.version + 1:
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
        opened = after.state is ApprovalState.OPEN and (before is None or before.version != after.version)
        if opened != any(isinstance(effect, SaveOpening) for effect in effects):
            yield "what opens is saved as open"
        if after.state is ApprovalState.OPEN and (after.by or after.press or after.choice or after.effect):
            yield "nobody has decided what is open"
        if before is None:
            return
        reopened = after.state is ApprovalState.OPEN and before.state is not ApprovalState.OPEN
        next_version = isinstance(event, REOPENS) and after.version == before.version + 1
        if reopened and (before.over or not next_version):
            yield "what has ended stays ended"
        decided = before.state is after.state is ApprovalState.DECIDED
        if decided and any(getattr(before, name) != getattr(after, name) for name in DECISION):
            yield "a decision stays as it was made"

    def _find_broken_effect(self, before: Approval | None, after: Approval, event: ApprovalEvent) -> Iterator[str]:
        if after.effect and after.state is not ApprovalState.DECIDED:
            yield "only what is decided is done"
        if before is None:
            return
        if after.tries - before.tries != (type(event) is EffectStarted) and not isinstance(event, CardRequested):
            yield "every try is counted"
        ended = RANK.get(before.effect, 2) == 2
        back = RANK.get(after.effect, 2) < RANK.get(before.effect, 2) or (ended and after.effect != before.effect)
        if before.version == after.version and back:
            yield "an effect only moves forward"

    def _find_broken_notice(
        self, before: Approval | None, after: Approval, event: ApprovalEvent, effects: ApprovalEffects
    ) -> Iterator[str]:
        told = [effect.waiter for effect in effects if isinstance(effect, NotifyWaiter)]
        waited = list(before.waiters) if before is not None and type(event) is CardSettled else []
        if told != waited or (told and after.waiters):
            yield "whoever waits is notified once"
        if any(isinstance(effect, SaveEnd) for effect in effects) and name_phase(after) in (
            "open",
            "decided",
            "started",
        ):
            yield "what is not over is not closed"
        rest = set(Approval.model_fields) - {"refs", "brought"}
        if type(event) in COPIES and any(getattr(before, name) != getattr(after, name) for name in rest):
            yield "copies change nothing else"


SMALL = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
CAUGHT = settings(SMALL, max_examples=1_000, phases=[Phase.generate], database=None, derandomize=True)
"""As many as it takes: the first failure ends it."""
STEPS = 40


@SMALL
@given(st.data())
def test_in_any_order_of_events_an_approval_keeps_its_promises(data: st.DataObject) -> None:
    Walk(data.draw).go(STEPS)


def test_the_walks_come_to_every_event() -> None:
    made = set[type]()

    @settings(CAUGHT, max_examples=100)
    @given(st.data())
    def play(data: st.DataObject) -> None:
        walk = Walk(data.draw)
        walk.go(STEPS)
        made.update(walk.made)

    play()
    assert made == set(list_kinds())


def _decided_without_a_look(approval: Any, version: int, now_ms: int) -> str:
    return "" if approval is not None and approval.state is not ApprovalState.EXPIRED else "expired"


def _replaced_in_place(approval: Approval, event: Any, now: datetime) -> Any:
    after, effects = REPLACE(approval, event, now)
    return after.model_copy(update={"version": approval.version}), effects


def _suggestion_in_the_arguments(approval: Approval, event: Any, now_ms: int) -> Any:
    after, effects = TO_VERSION(approval, event, now_ms)
    plan = make_plan(after.plan.args["n"] + 1) if type(event) is SuggestionAdded else after.plan
    return after.model_copy(update={"plan": plan}), effects


def _back_to_the_beginning(approval: Approval, event: Any) -> Any:
    after, effects = ADVANCE(approval, event)
    return after.model_copy(
        update={"effect": EffectState.NONE if type(event) is PartsChanged else after.effect}
    ), effects


def _uncounted(approval: Approval, event: Any) -> Any:
    after, effects = ADVANCE(approval, event)
    return after.model_copy(update={"tries": approval.tries}), effects


def _in_the_same_version(approval: Approval, event: Any) -> Approval:
    return RECOVER(approval, event).model_copy(update={"version": approval.version})


def _still_waiting(approval: Approval, *, silent: bool) -> Any:
    after, effects = SETTLE(approval, silent=silent)
    return after.model_copy(update={"waiters": approval.waiters}), effects


def _refused_with_a_trace(approval: Approval | None, event: Any, now_ms: int) -> str:
    if approval is not None:
        approval.form["refused"] = type(event).__name__
    return "already"


def _pressed_by_who_finds_it(approval: Approval, event: Any) -> Approval:
    after = COPY(approval, event)
    return after.model_copy(update={"by": event.reader}) if type(event) is CopyFound else after


def _without_the_answers(approval: Approval, event: Any) -> Any:
    after, effects = ADVANCE(approval, event)
    return after.model_copy(update={"form": {}}), effects


def _claimed_twice(approval: Approval, event: Any, now_ms: int) -> Any:
    after, effects = DECIDE(approval, event, now_ms)
    return after, (*effects, *effects)


def _unsaved(before: Approval | None, event: Any, now: datetime) -> Any:
    return OPEN(before, event, now)[0], ()


REPLACE, TO_VERSION = approval_state._replace_plan, approval_state._apply_to_version
ADVANCE, RECOVER, SETTLE = approval_state._advance_effect, approval_state._recover, approval_state._settle
COPY, DECIDE, OPEN = approval_state.record_copies, approval_state._decide, approval_state._open_card
BROKEN: Mapping[str, tuple[str, object, str]] = {
    "a press is not looked at": ("find_refusal", _decided_without_a_look, "illegal moves are refused"),
    "time has no end": ("find_refusal", _decided_without_a_look, "nothing is decided when its time is over"),
    "a decision is claimed twice": ("_decide", _claimed_twice, "a version is decided once"),
    "every card can be asked for anew": ("_is_replaceable", lambda approval: True, "what has ended stays ended"),
    "an edit is the same version": ("_replace_plan", _replaced_in_place, "the seal changes with the version"),
    "a card opens in its old version": ("_replace_plan", _replaced_in_place, "what has ended stays ended"),
    "the seal is of something else": ("seal", lambda tool, plan: "0", "the seal is that of the plan"),
    "advice is sealed in": ("_apply_to_version", _suggestion_in_the_arguments, "the seal is that of the plan"),
    "old timers act": ("_is_open", lambda approval, version: True, "illegal moves are refused"),
    "anybody takes it back": ("_is_retractable", lambda *_: True, "illegal moves are refused"),
    "nobody takes it back": ("_is_retractable", lambda *_: False, "legal moves are made"),
    "a part starts it anew": ("_advance_effect", _back_to_the_beginning, "an effect only moves forward"),
    "the answers are forgotten": ("_advance_effect", _without_the_answers, "a decision stays as it was made"),
    "tries are not counted": ("_advance_effect", _uncounted, "every try is counted"),
    "tried again in the same version": ("_recover", _in_the_same_version, "an effect only moves forward"),
    "everything is over": ("has_ended", lambda approval: True, "what is not over is not closed"),
    "who waits is told again": ("_settle", _still_waiting, "whoever waits is notified once"),
    "a refusal leaves a trace": ("_explain", _refused_with_a_trace, "what is refused changes nothing"),
    "who finds a copy has pressed": ("record_copies", _pressed_by_who_finds_it, "copies change nothing else"),
    "an opened card is not saved": ("_open_card", _unsaved, "what opens is saved as open"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_negative_control_a_machine_without_a_safety_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attribute, broken, expected = BROKEN[name]
    found = set[str]()

    @CAUGHT
    @given(st.data())
    def play(data: st.DataObject) -> None:
        walk = Walk(data.draw)
        try:
            walk.go(STEPS)
        except AssertionError as error:
            found.update(str(error).partition(":")[0].split(", "))
            assert expected not in found, expected

    monkeypatch.setattr(approval_state, attribute, broken)
    with pytest.raises(AssertionError, match=expected):
        play()


def test_an_approval_is_changed_by_fields_of_its_own() -> None:
    """What mypy checks the changes against are the fields of the record, with their types."""
    changes = get_type_hints(approval_state._Changes)
    assert changes.items() <= get_type_hints(Approval).items()
    fixed = {"id", "tool", "gate", "caller", "place", "run"}
    assert set(Approval.model_fields) == set(changes) | fixed


def test_no_kind_of_event_is_forgotten() -> None:
    assert set(list_kinds()) == COPIES.union(*LEGAL.values())


async def test_the_deciding_write_and_the_machine_refuse_alike(redis: Redis) -> None:
    keys = Keys(partitions=2)
    approvals = Approvals(redis, keys)
    request = CardRequested(
        approval="A00x", tool="t", gate=Gate.CONFIRM, plan=make_plan(0), caller=OWNER, place=None, run="", lasts=LASTS
    )
    opened, _ = approval_state.transition(None, request, BEGIN)
    answers = set[str]()
    for state in ApprovalState:
        for version in (0, 1, 2):
            for now_ms in (opened.expires_ms - 1, opened.expires_ms, opened.expires_ms + 1):
                approval = opened.model_copy(update={"state": state})
                click = Click(id="c", approval="A00x", version=version, choice="send", person=OWNER, place=PLACE)
                decide = approvals.decided(click, ends=ApprovalState.DECIDED, now_ms=now_ms)
                await redis.flushall()
                await apply(redis, keys, keys.partition("A00x"), approvals.opened(approval))
                answers.add(answer := await apply(redis, keys, keys.partition("A00x"), [decide]))
                assert answer == (find_refusal(approval, version, now_ms) or "ok")
    assert answers == {"ok", "expired", "already", "stale"}
    await redis.flushall()
    assert await apply(redis, keys, keys.partition("A00x"), [decide]) == find_refusal(None, 1, 0) == "gone"
