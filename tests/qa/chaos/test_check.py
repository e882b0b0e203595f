"""Each check finds what it is for: the facts of a good run, spoiled in one place, are not good any more."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from typing import Any

import pytest
from pydantic import BaseModel

from bot.chat.messages import MessageRef
from bot.core.records import Approval, ApprovalState, EffectState, Run, RunStatus
from bot.queue.lanes import LaneItem
from bot.storage.dead_letters import DeadLetter
from bot.storage.journal import JournalRecord
from tests.qa.chaos import check
from tests.qa.chaos.facts import Facts, HeldUp, Posted, lane_of
from tests.qa.chaos.people import Button
from tests.qa.chaos.plan import CALM, Rates, Wanted
from tests.qa.chaos.run import ran
from tools.spec import AttachedFile, Gate
from tools.workflow.engine.state import TaskKind

EARLY = datetime(2020, 1, 1, tzinfo=UTC)
END_S = 9_999_999_999
BUTTON = Button("confirm", "A00nobody", 1, "A00nobody.1")


def final(post: Posted) -> bool:
    return post.key.endswith(":final")


def done(run: Run) -> bool:
    return run.status is RunStatus.DONE


def effect(tool: str) -> Callable[[Approval], bool]:
    return lambda one: one.tool == tool and one.effect is EffectState.DONE


def is_open(one: Approval) -> bool:
    return one.state is ApprovalState.OPEN


def backwards(facts: Facts) -> Facts:
    """The first conversation was dealt with in the opposite order."""
    ids = {run.id for run in facts.runs if run.message.place.channel == facts.spoken[0].channel}
    posts = [post for post in facts.posts if post.key.partition(":")[0] in ids]
    stamps = {post: other.ts for post, other in zip(posts, reversed(posts), strict=True)}
    return replace(facts, posts=sorted((replace(p, ts=stamps.get(p, p.ts)) for p in facts.posts), key=lambda p: p.ts))


def waited_in_a_dm(facts: Facts, *, first: bool) -> str:
    """A run that waited for a button in a DM, and was not asked for first there, or not last."""
    ends = {}
    for one in facts.spoken:
        if one.channel.startswith("D"):
            ends[one.channel] = ends.get(one.channel, one.ts) if first else one.ts
    waiting = {one.run for one in facts.journal if check.began_to_wait(one)}
    places = {run.id: (run.message.place.channel, run.message.at) for run in facts.runs}
    asked = (id for id in places if id in waiting and any(is_card_of(post, id) for post in facts.posts))
    return next(id for id in asked if ends.get(places[id][0], places[id][1]) != places[id][1])


def is_card_of(post: Posted, run: str) -> bool:
    return post.key.startswith("A") and f":open:{run}:" in post.key


def late(facts: Facts) -> Facts:
    """A run of a DM began to wait, and to speak, after everything that was asked for later."""
    run = waited_in_a_dm(facts, first=False)
    posts = [replace(p, ts="9999999999.000000") if p.key.partition(":")[0] == run else p for p in facts.posts]
    journal = [replace(one, at_ms=9_999_999_999_000) if one.run == run else one for one in facts.journal]
    return replace(facts, posts=posts, journal=journal)


def hasty(facts: Facts) -> Facts:
    """The card of a message was there before anything else."""
    run = waited_in_a_dm(facts, first=True)
    posts = [replace(p, ts="0000000001.000000") if is_card_of(p, run) else p for p in facts.posts]
    return replace(facts, posts=posts)


def forgotten(histories: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    lane = next(lane for lane, entries in histories.items() if any(not (one.is_answer or one.kind) for one in entries))
    return {**histories, lane: [one for one in histories[lane] if one.is_answer]}


LETTER = DeadLetter(at="1-0", item=LaneItem("a lane", "an item", "{}", 6, 0, "why"))
Spoil = Callable[[Facts], Facts]


def but(**other: Any) -> Spoil:
    """Facts with these in the place of what was found; or with what these make of it."""
    return lambda f: replace(f, **{n: new(getattr(f, n)) if callable(new) else new for n, new in other.items()})


def turn(field: str, where: Callable[[Any], object], become: Callable[[Any], list[Any]]) -> Spoil:
    """The first one of this kind becomes these."""

    def spoil(facts: Facts) -> Facts:
        records = getattr(facts, field)
        index = next(n for n, one in enumerate(records) if where(one))
        return replace(facts, **{field: [*records[:index], *become(records[index]), *records[index + 1 :]]})

    return spoil


def other(field: str, where: Callable[[Any], object], **values: Any) -> Spoil:
    """The first one of this kind has other values."""

    def become(one: Any) -> list[Any]:
        if not isinstance(one, BaseModel):
            return [replace(one, **values)]
        assert values.keys() <= type(one).model_fields.keys(), "or nothing is spoiled"
        return [one.model_copy(update=values)]

    return turn(field, where, become)


def lacks(field: str, where: Callable[[Any], object] = bool) -> Spoil:
    return turn(field, where, lambda one: [])


def has_twice(field: str, where: Callable[[Any], object] = bool) -> Spoil:
    return turn(field, where, lambda one: [one, one])


def counts(name: str, times: Callable[[Facts], int]) -> Spoil:
    return lambda f: replace(f, counts={**f.counts, name: times(f)})


def is_kind(kind: str) -> Callable[[JournalRecord], bool]:
    return lambda record: record.kind == kind


def waited(one: Approval) -> bool:
    return is_open(one) and bool(one.waiters)


def is_list(post: Posted) -> bool:
    return bool(check.MORNING.match(post.key))


def add_decision(seen: Any) -> Any:
    return replace(seen, decisions=seen.decisions + Counter(["T"]))


def date_ahead(seen: Any) -> Any:
    return replace(seen, latest="2999-01-01T00:00:00Z")


def count_answers(facts: Facts) -> int:
    """At least as many as presses were answered, however often a busy machine made the bots try again."""
    return len(facts.journal) + sum(one.version for one in facts.approvals)


def change_files(change: Callable[[tuple[AttachedFile, ...]], tuple[AttachedFile, ...]]) -> Spoil:
    """The first request with a file has others."""

    def spoil(facts: Facts) -> Facts:
        one = next(one for one in facts.requests if one.filled.files)
        filled = one.filled.model_copy(update={"files": change(one.filled.files)})
        return other("requests", lambda request: request is one, filled=filled)(facts)

    return spoil


def wait_for_years(facts: Facts) -> Facts:
    """A task has waited since long before, and none of its timers came."""
    waiting = next(one for one in facts.requests if any(task.kind is TaskKind.APPROVE for task in one.tasks))
    tasks = [task.model_copy(update={"outcome": "", "closed": None, "since": EARLY}) for task in waiting.tasks]
    return other("requests", lambda one: one is waiting, tasks=tuple(tasks))(facts)


def in_turn(*spoils: Spoil) -> Spoil:
    return lambda facts: reduce(lambda spoiled, spoil: spoil(spoiled), spoils, facts)


decided, sent, started = effect("decide_task"), effect("send_email"), effect("start_process")
nobody_told = but(posts=lambda posts: [replace(one, text="") for one in posts])
no_list = but(posts=lambda posts: [one for one in posts if not is_list(one)])
escalating = but(wanted=lambda wanted: replace(wanted, faults=("escalation",)))
SPOILED: dict[str, tuple[str, Spoil]] = {
    "an answer is missing": ("answered", lacks("posts", final)),
    "a message has no run": ("answered", lacks("runs", done)),
    "a message has two runs": ("answered", has_twice("runs", done)),
    "a run goes on for ever": ("answered", other("runs", done, status=RunStatus.RUNNING)),
    "an answer is said twice": ("once", has_twice("posts", final)),
    "a run ends twice": ("once", has_twice("journal", is_kind("run.finished"))),
    "another order": ("order", backwards),
    "a run waits too late": ("order", late),
    "a card comes too early": ("order", hasty),
    "a history has a hole": ("remembered", but(histories=forgotten)),
    "a request is started twice": ("commands", has_twice("requests")),
    "a request is lost": ("commands", lacks("requests")),
    "a number is skipped": ("commands", but(numbers=lambda numbers: {**numbers, "L": "99"})),
    "a press decides nothing": ("decisions", but(record=())),
    "another decision": ("decisions", other("approvals", decided, choice="elsewise")),
    "a decision without a press": ("decisions", lacks("approvals", decided)),
    "a stranger decides": ("authority", other("approvals", decided, decided_by="U0P9999")),
    "a press is ignored": ("authority", counts("presses taken", lambda f: 1 + count_answers(f))),
    "an effect is begun twice": ("effects", has_twice("journal", is_kind("effect.started"))),
    "an effect never ends": ("effects", other("approvals", started, effect=EffectState.STARTED)),
    "a mail arrives twice": ("mails", has_twice("mails")),
    "a mail is lost": ("mails", lacks("mails")),
    "a mail of nobody": ("mails", but(mails=lambda mails: [*mails, {**mails[0], "message_id": "<other>"}])),
    "a cancelled mail arrives": ("mails", other("approvals", sent, state=ApprovalState.CANCELLED, effect="")),
    "a dead card has buttons": ("cards", other("posts", final, buttons=(BUTTON,))),
    "a card is somewhere else": ("cards", other("approvals", is_open, copies=())),
    "an old card has buttons": ("cards", other("approvals", is_open, version=2)),
    "an open card is not shown": ("cards", lacks("posts", lambda post: post.buttons)),
    "an index forgets": ("records", but(open_index=lambda index: index[1:])),
    "a card never expires": ("records", but(timers=())),
    "a run waits in vain": ("records", other("approvals", waited, waiters=())),
    "work is left": ("lanes", but(left=("cs:{q00}:in:x",))),
    "something was given up": ("lanes", but(dead=(LETTER,))),
    "a handler failed": ("lanes", but(failures=("handler failed: x",))),
    "no rest": ("lanes", but(unrest="no rest")),
    "a file was lost": ("files", in_turn(change_files(lambda files: ()), nobody_told)),
    "a file is there twice": ("files", change_files(lambda files: (*files, *files))),
    "bytes of a file are gone": ("files", but(kept=frozenset())),
    "an approver never got a file": ("files", but(shown=())),
    "an approver got a file twice": ("files", but(shown=lambda shown: [*shown, *shown])),
    "an approver got other bytes": ("files", but(shown=lambda shown: [replace(one, sha256="0" * 64) for one in shown])),
    "two lists on one morning": ("mornings", has_twice("posts", is_list)),
    "no list on a morning": ("mornings", in_turn(wait_for_years, no_list)),
    "a decision that is read by nobody": ("witnessed", but(witnessed=add_decision)),
    "a task never escalates": ("escalated", in_turn(wait_for_years, escalating)),
    "something was seen": ("seen", but(seen=("a number came twice",))),
    "a request of tomorrow": ("dated", but(witnessed=date_ahead)),
    "a card of tomorrow": ("dated", other("approvals", bool, created_ms=2**52)),
    "a mail that is read by nobody": ("witnessed", lacks("mails")),
    "an event was lost": ("lanes", counts("events lost", lambda f: 1)),
}


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_a_good_run_is_good_and_spoiled_in_any_one_place_it_is_not() -> None:
    """One real run without any fault, small, but with everything in it, serves all: it takes some seconds."""
    good = await ran(Wanted(26, 14, 6, 2, seconds=3, faults=(), rates=CALM))
    assert check.everything(good) == []
    for what, (expected, spoil) in SPOILED.items():
        findings = check.wrong(spoil(good))
        assert any(one.startswith(f"{expected}: ") for one in findings), (what, findings)
    proves_nothing(good)
    asks_for_no_file_with_its_requester(good)
    tolerates_a_line_but_no_card(good)
    asks_for_no_order_of_what_was_given_up(good)
    knows_what_is_summed_up(good)


def proves_nothing(good: Facts) -> None:
    """A run in which nothing happened. A busy machine hands items out again without any fault."""
    asked = replace(good, wanted=Wanted(1, rates=Rates(smtp=60)), tries={})
    big = {"kill", "stop", "redis", "refuse", "stall", "dead", "cut", "socket", "away"}
    small = {"withheld", "twice", "api", "model troubles", "smtp troubles", "items handed out again"}
    assert big | small <= {one.rpartition("no ")[2] for one in check.everything(asked)}
    one_mail = replace(asked, mails=good.mails[:1])
    assert "nothing happened: no smtp troubles" not in check.everything(one_mail)
    assert check.happened(replace(good, counts={}, approvals=())), "nobody pressed anything"


def asks_for_no_file_with_its_requester(good: Facts) -> None:
    """Nobody decided: the requester has a card to ask again, and the files anyway. A deputy's card has them below."""
    card = next(one for one in good.approvals if one.proposal.files and one.gate is Gate.APPROVE)
    ref = MessageRef(channel="D0", ts="1.000001")
    for reader, found in ((card.proposal.requester, False), ("U0DEPUTY", True)):
        copies = (*card.copies, (reader, ref))
        spoiled = other("approvals", lambda one: one is card, copies=copies)(good)
        assert any("was not shown below" in one for one in check.files(spoiled)) is found


def tolerates_a_line_but_no_card(good: Facts) -> None:
    """What a process says again that was held up in mid-sentence: a line may stand twice, a card may not."""
    line, card = next(filter(final, good.posts)), next(post for post in good.posts if post.buttons)

    def say_again(post: Posted, bot: int = line.by, before_s: int = 0) -> Facts:
        """The same post once more, at the very end; this bot was held up then, or before."""
        held_up, said = HeldUp(bot, END_S - 1 - before_s, END_S + 1 - before_s), replace(post, ts=f"{END_S:.6f}")
        return replace(good, posts=[*good.posts, said], held_up=[held_up], witnessed=None)

    assert line.by >= 0
    assert check.wrong(say_again(line)) == [] and len(check.repeated(say_again(line).posts)) == 1
    assert check.wrong(say_again(line, line.by + 1)), "it was not held up"
    assert check.wrong(say_again(line, before_s=8)), "not right then"
    assert any(one.startswith("cards: a card is orphaned") for one in check.wrong(say_again(card)))


def asks_for_no_order_of_what_was_given_up(good: Facts) -> None:
    """A line of which an event was given up may be taken after the next one; nothing else may."""
    lane = next(lane for lane, entries in good.histories.items() if entries and ":D" in lane)
    entries = good.histories[lane]
    runs = list(dict.fromkeys(one.run for one in entries))
    moved = [one for run in (runs[1], runs[0], *runs[2:]) for one in entries if one.run == run]
    swapped = replace(good, histories={**good.histories, lane: moved})
    first = next(one.line.tag for one in good.spoken if lane_of(one) == lane)
    assert any(one.startswith("remembered: ") for one in check.wrong(swapped))
    assert check.wrong(replace(swapped, given_up=frozenset({first}))) == []
    spoiled = backwards(good)
    backs = frozenset(one.line.tag for one in good.spoken if one.channel == good.spoken[0].channel)
    assert any(one.startswith("order: ") for one in check.wrong(spoiled))
    assert not any(one.startswith("order: ") for one in check.wrong(replace(spoiled, given_up=backs)))


def knows_what_is_summed_up(good: Facts) -> None:
    """Older turns may be a summary; the newest is there, and what is there is in order."""
    lane, entries = next((lane, entries) for lane, entries in good.histories.items() if ":D" in lane)
    runs = list(dict.fromkeys(one.run for one in entries))

    def remembers(*left: int) -> list[str]:
        kept = [one for n in left for one in entries if one.run == runs[n]]
        summed_up = replace(good, histories={**good.histories, lane: kept}, compacted=frozenset({lane}))
        return [one for one in check.wrong(summed_up) if one.startswith("remembered: ")]

    assert len(runs) > 4 and not remembers(-2, -1) and not remembers(-4, -2, -1)
    assert remembers(-3, -2) and remembers(-1, -2)


def test_only_a_card_that_has_failed_begins_anew() -> None:
    failed = ["approval.requested", "effect.started", "effect.failed", "effect.started", "effect.failed"]
    assert check._count_begun(failed) == 2
    assert check._count_begun([*failed, "approval.requested", "effect.started"]) == 1
    assert check._count_begun(["effect.started", "approval.requested", "effect.started"]) == 2


def test_every_check_is_shown_to_fail() -> None:
    assert {expected for expected, _ in SPOILED.values()} == set(check.CHECKS)
