"""Each check finds what it is for: the facts of a good run, spoiled in one place, are not good any more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from bot.core.records import Approval, ApprovalState, EffectState, Run, RunStatus
from bot.queue.lanes import LaneItem
from bot.storage.dead_letters import DeadLetter
from tests.chaos import check
from tests.chaos.facts import Facts, Posted
from tests.chaos.people import Button
from tests.chaos.plan import Rates, Wanted
from tests.chaos.run import ran
from tests.chaos.trials import NOTHING
from tools.spec import AttachedFile

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
    "a press decides nothing": (
        "decisions",
        lambda f: replace(f, record=()),
    ),
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
        lambda f: replace(f, journal=without(f.journal, lambda r: r.kind == "approval.refused")),
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
    "an event was lost": ("lanes", lambda f: replace(f, counts={**f.counts, "events lost": 1})),
}


def with_files(facts: Facts, change: Callable[[tuple[AttachedFile, ...]], tuple[AttachedFile, ...]]) -> Facts:
    """The first request with a file has others."""
    one = next(one for one in facts.requests if one.filled.files)
    filled = one.filled.model_copy(update={"files": change(one.filled.files)})
    return replace(facts, requests=changed(facts.requests, lambda other: other is one, filled=filled))


def without_its_file(facts: Facts) -> Facts:
    """It is on no request, and nobody was told."""
    return replace(with_files(facts, lambda files: ()), posts=[replace(one, text="") for one in facts.posts])


def with_its_file_twice(facts: Facts) -> Facts:
    return with_files(facts, lambda files: (*files, *files))


def waited(one: Approval) -> bool:
    return is_open(one) and bool(one.waiters)


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_a_good_run_is_good_and_spoiled_in_any_one_place_it_is_not() -> None:
    """One real run without any fault, small, but with everything in it, serves all: it takes some seconds."""
    good = await ran(Wanted(26, 14, 6, 2, seconds=3, faults=(), rates=NOTHING))
    assert check.everything(good) == []
    for what, (expected, spoil) in SPOILED.items():
        findings = check.wrong(spoil(good))
        assert any(one.startswith(f"{expected}: ") for one in findings), (what, findings)
    proves_nothing(good)
    tolerates_a_line_but_no_card(good)


def proves_nothing(good: Facts) -> None:
    """A run in which nothing happened."""
    asked = replace(good, wanted=Wanted(1, rates=Rates(smtp=60)))
    big = {"kill", "stop", "redis", "socket", "away"}
    small = {"withheld", "twice", "api", "model troubles", "smtp troubles", "items handed out again"}
    assert big | small <= {one.rpartition("no ")[2] for one in check.everything(asked)}
    assert "nothing happened: no smtp troubles" not in check.everything(replace(asked, mails=good.mails[:1])), (
        "one mail"
    )
    assert check.happened(replace(good, counts={}, approvals=())), "nobody pressed anything"


def tolerates_a_line_but_no_card(good: Facts) -> None:
    """What a process says again that was held up in mid-sentence: a line may stand twice, a card may not."""
    stopped = replace(good, wanted=replace(good.wanted, faults=("stop",)))
    line, card = next(filter(final, good.posts)), next(post for post in good.posts if post.buttons)
    assert check.wrong(stopped) == [] and check.wrong(again(good, line))
    assert check.wrong(again(stopped, line)) == [] and len(check.repeated(again(stopped, line).posts)) == 1
    assert any(one.startswith("cards: a card is orphaned") for one in check.wrong(again(stopped, card)))


def again(facts: Facts, post: Posted) -> Facts:
    """The same post once more, at the very end."""
    return replace(facts, posts=[*facts.posts, replace(post, ts="9999999999.000000")])


def test_every_check_is_shown_to_fail() -> None:
    assert {expected for expected, _ in SPOILED.values()} == set(check.CHECKS)
