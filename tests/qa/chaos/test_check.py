"""Each check finds what it is for: the facts of a good run, spoiled in one place, are not good any more."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel

from bot.chat.messages import MessageRef
from bot.core.records import Approval, ApprovalState, EffectState, Run, RunStatus
from bot.queue.lanes import LaneItem
from bot.storage.dead_letters import DeadLetter
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


def changed(records: Sequence[Any], where: Callable[[Any], object], **values: Any) -> list[Any]:
    """The records; the first one of this kind with other values."""
    index = next(n for n, one in enumerate(records) if where(one))
    one = records[index]
    assert not isinstance(one, BaseModel) or values.keys() <= type(one).model_fields.keys(), "or nothing is spoiled"
    other = one.model_copy(update=values) if isinstance(one, BaseModel) else replace(one, **values)
    return [*records[:index], other, *records[index + 1 :]]


def without(records: Sequence[Any], where: Callable[[Any], object]) -> list[Any]:
    """The records but the first one of this kind."""
    index = next(n for n, one in enumerate(records) if where(one))
    return [*records[:index], *records[index + 1 :]]


def twice(records: Sequence[Any], where: Callable[[Any], object]) -> list[Any]:
    return [*records, next(one for one in records if where(one))]


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
    return next(
        id
        for id, (channel, at) in places.items()
        if id in waiting and ends.get(channel, at) != at and is_asked(facts, id)
    )


def is_asked(facts: Facts, run: str) -> bool:
    """A card was posted because this run asked for it."""
    return any(is_card_of(post, run) for post in facts.posts)


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
SPOILED: dict[str, tuple[str, Callable[[Facts], Facts]]] = {
    "an answer is missing": ("answered", lambda f: replace(f, posts=without(f.posts, final))),
    "a message has no run": ("answered", lambda f: replace(f, runs=without(f.runs, done))),
    "a message has two runs": ("answered", lambda f: replace(f, runs=twice(f.runs, done))),
    "a run goes on for ever": ("answered", lambda f: replace(f, runs=changed(f.runs, done, status=RunStatus.RUNNING))),
    "an answer is said twice": ("once", lambda f: replace(f, posts=twice(f.posts, final))),
    "a run ends twice": ("once", lambda f: replace(f, journal=twice(f.journal, lambda r: r.kind == "run.finished"))),
    "another order": ("order", backwards),
    "a run waits too late": ("order", late),
    "a card comes too early": ("order", hasty),
    "a history has a hole": ("remembered", lambda f: replace(f, histories=forgotten(f.histories))),
    "a request is started twice": ("commands", lambda f: replace(f, requests=twice(f.requests, bool))),
    "a request is lost": ("commands", lambda f: replace(f, requests=without(f.requests, bool))),
    "a number is skipped": ("commands", lambda f: replace(f, numbers={**f.numbers, "L": "99"})),
    "a press decides nothing": ("decisions", lambda f: replace(f, record=())),
    "another decision": (
        "decisions",
        lambda f: replace(f, approvals=changed(f.approvals, effect("decide_task"), choice="elsewise")),
    ),
    "a decision without a press": (
        "decisions",
        lambda f: replace(f, approvals=without(f.approvals, effect("decide_task"))),
    ),
    "a stranger decides": (
        "authority",
        lambda f: replace(f, approvals=changed(f.approvals, effect("decide_task"), decided_by="U0P9999")),
    ),
    "a press is ignored": (
        "authority",
        lambda f: replace(f, counts={**f.counts, "presses taken": 1 + count_answers(f)}),
    ),
    "an effect is begun twice": (
        "effects",
        lambda f: replace(f, journal=twice(f.journal, lambda r: r.kind == "effect.started")),
    ),
    "an effect never ends": (
        "effects",
        lambda f: replace(f, approvals=changed(f.approvals, effect("start_process"), effect=EffectState.STARTED)),
    ),
    "a mail arrives twice": ("mails", lambda f: replace(f, mails=twice(f.mails, bool))),
    "a mail is lost": ("mails", lambda f: replace(f, mails=without(f.mails, bool))),
    "a mail of nobody": ("mails", lambda f: replace(f, mails=[*f.mails, {**f.mails[0], "message_id": "<other>"}])),
    "a cancelled mail arrives": (
        "mails",
        lambda f: replace(
            f, approvals=changed(f.approvals, effect("send_email"), state=ApprovalState.CANCELLED, effect="")
        ),
    ),
    "a dead card has buttons": ("cards", lambda f: replace(f, posts=changed(f.posts, final, buttons=(BUTTON,)))),
    "a card is somewhere else": ("cards", lambda f: replace(f, approvals=changed(f.approvals, is_open, copies=()))),
    "an old card has buttons": ("cards", lambda f: replace(f, approvals=changed(f.approvals, is_open, version=2))),
    "an open card is not shown": ("cards", lambda f: replace(f, posts=without(f.posts, lambda post: post.buttons))),
    "an index forgets": ("records", lambda f: replace(f, open_index=f.open_index[1:])),
    "a card never expires": ("records", lambda f: replace(f, timers=())),
    "a run waits in vain": ("records", lambda f: replace(f, approvals=changed(f.approvals, waited, waiters=()))),
    "work is left": ("lanes", lambda f: replace(f, left=("cs:{q00}:in:x",))),
    "something was given up": ("lanes", lambda f: replace(f, dead=(LETTER,))),
    "a handler failed": ("lanes", lambda f: replace(f, failures=("handler failed: x",))),
    "no rest": ("lanes", lambda f: replace(f, unrest="no rest")),
    "a file was lost": ("files", lambda f: without_its_file(f)),
    "a file is there twice": ("files", lambda f: with_its_file_twice(f)),
    "bytes of a file are gone": ("files", lambda f: replace(f, kept=frozenset())),
    "an approver never got a file": ("files", lambda f: replace(f, shown=())),
    "an approver got a file twice": ("files", lambda f: replace(f, shown=[*f.shown, *f.shown])),
    "an approver got other bytes": (
        "files",
        lambda f: replace(f, shown=[replace(one, sha256="0" * 64) for one in f.shown]),
    ),
    "two lists on one morning": ("mornings", lambda f: replace(f, posts=twice(f.posts, is_list))),
    "no list on a morning": ("mornings", lambda f: without_lists(f)),
    "a decision that is read by nobody": (
        "witnessed",
        lambda f: replace(f, witnessed=replace(f.witnessed, decisions=f.witnessed.decisions + Counter(["T"]))),  # type: ignore[type-var, union-attr]
    ),
    "a task never escalates": ("escalated", lambda f: without_timers(f)),
    "something was seen": ("seen", lambda f: replace(f, seen=("a number came twice",))),
    "a request of tomorrow": (
        "dated",
        lambda f: replace(f, witnessed=replace(f.witnessed, latest="2999-01-01T00:00:00Z")),  # type: ignore[type-var]
    ),
    "a card of tomorrow": ("dated", lambda f: replace(f, approvals=changed(f.approvals, bool, created_ms=2**52))),
    "a mail that is read by nobody": ("witnessed", lambda f: replace(f, mails=without(f.mails, bool))),
    "an event was lost": ("lanes", lambda f: replace(f, counts={**f.counts, "events lost": 1})),
}


def with_files(facts: Facts, change: Callable[[tuple[AttachedFile, ...]], tuple[AttachedFile, ...]]) -> Facts:
    """The first request with a file has others."""
    one = next(one for one in facts.requests if one.filled.files)
    filled = one.filled.model_copy(update={"files": change(one.filled.files)})
    return replace(facts, requests=changed(facts.requests, lambda other: other is one, filled=filled))


def is_list(post: Posted) -> bool:
    return bool(check.MORNING.match(post.key))


def without_lists(facts: Facts) -> Facts:
    """Nobody has one, and a task has waited since before."""
    waiting = next(one for one in facts.requests if any(task.kind is TaskKind.APPROVE for task in one.tasks))
    tasks = [task.model_copy(update={"outcome": "", "closed": None, "since": EARLY}) for task in waiting.tasks]
    requests = changed(facts.requests, lambda one: one is waiting, tasks=tuple(tasks))
    return replace(facts, requests=requests, posts=[one for one in facts.posts if not is_list(one)])


def without_timers(facts: Facts) -> Facts:
    """A task has waited for years, and none of its timers came."""
    wanted = replace(facts.wanted, faults=("escalation",))
    waiting = next(one for one in facts.requests if any(task.kind is TaskKind.APPROVE for task in one.tasks))
    tasks = [task.model_copy(update={"outcome": "", "closed": None, "since": EARLY}) for task in waiting.tasks]
    requests = changed(facts.requests, lambda one: one is waiting, tasks=tuple(tasks))
    return replace(facts, wanted=wanted, requests=requests)


def without_its_file(facts: Facts) -> Facts:
    """It is on no request, and nobody was told."""
    return replace(with_files(facts, lambda files: ()), posts=[replace(one, text="") for one in facts.posts])


def with_its_file_twice(facts: Facts) -> Facts:
    return with_files(facts, lambda files: (*files, *files))


def count_answers(facts: Facts) -> int:
    """At least as many as presses were answered, however often a busy machine made the bots try again."""
    return len(facts.journal) + sum(one.version for one in facts.approvals)


def waited(one: Approval) -> bool:
    return is_open(one) and bool(one.waiters)


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
    assert "nothing happened: no smtp troubles" not in check.everything(replace(asked, mails=good.mails[:1])), (
        "one mail"
    )
    assert check.happened(replace(good, counts={}, approvals=())), "nobody pressed anything"


def asks_for_no_file_with_its_requester(good: Facts) -> None:
    """Nobody decided: the requester has a card to ask again, and the files anyway. A deputy's card has them below."""
    card = next(one for one in good.approvals if one.proposal.files and one.gate is Gate.APPROVE)
    ref = MessageRef(channel="D0", ts="1.000001")
    for reader, found in ((card.proposal.requester, False), ("U0DEPUTY", True)):
        copies = (*card.copies, (reader, ref))
        spoiled = replace(good, approvals=changed(good.approvals, lambda one: one is card, copies=copies))
        assert any("was not shown below" in one for one in check.files(spoiled)) is found


def tolerates_a_line_but_no_card(good: Facts) -> None:
    """What a process says again that was held up in mid-sentence: a line may stand twice, a card may not."""
    line, card = next(filter(final, good.posts)), next(post for post in good.posts if post.buttons)
    stopped = replace(good, held_up=[HeldUp(line.by, END_S - 1, END_S + 1)], witnessed=None)
    other = replace(good, held_up=[HeldUp(line.by + 1, END_S - 1, END_S + 1)], witnessed=None)
    earlier = replace(good, held_up=[HeldUp(line.by, END_S - 9, END_S - 8)], witnessed=None)
    assert line.by >= 0 and check.wrong(stopped) == []
    assert check.wrong(again(stopped, line)) == [] and len(check.repeated(again(stopped, line).posts)) == 1
    assert check.wrong(again(other, line)) and check.wrong(again(earlier, line)), "it was not held up right then"
    assert any(one.startswith("cards: a card is orphaned") for one in check.wrong(again(stopped, card)))


def asks_for_no_order_of_what_was_given_up(good: Facts) -> None:
    """A line of which an event was given up may be taken after the next one; nothing else may."""
    lane = next(lane for lane, entries in good.histories.items() if entries and ":D" in lane)
    entries = good.histories[lane]
    runs = list(dict.fromkeys(one.run for one in entries))
    moved = [one for run in (runs[1], runs[0], *runs[2:]) for one in entries if one.run == run]
    other = replace(good, histories={**good.histories, lane: moved})
    first = next(one.line.tag for one in good.spoken if lane_of(one) == lane)
    assert any(one.startswith("remembered: ") for one in check.wrong(other))
    assert check.wrong(replace(other, given_up=frozenset({first}))) == []
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
        other = replace(good, histories={**good.histories, lane: kept}, compacted=frozenset({lane}))
        return [one for one in check.wrong(other) if one.startswith("remembered: ")]

    assert len(runs) > 4 and not remembers(-2, -1) and not remembers(-4, -2, -1)
    assert remembers(-3, -2) and remembers(-1, -2)


def again(facts: Facts, post: Posted) -> Facts:
    """The same post once more, at the very end."""
    return replace(facts, posts=[*facts.posts, replace(post, ts=f"{END_S:.6f}")])


def test_only_a_card_that_has_failed_begins_anew() -> None:
    failed = ["approval.requested", "effect.started", "effect.failed", "effect.started", "effect.failed"]
    assert check._count_begun(failed) == 2
    assert check._count_begun([*failed, "approval.requested", "effect.started"]) == 1
    assert check._count_begun(["effect.started", "approval.requested", "effect.started"]) == 2


def test_every_check_is_shown_to_fail() -> None:
    assert {expected for expected, _ in SPOILED.values()} == set(check.CHECKS)
