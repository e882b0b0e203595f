"""What must be true at the end of a run, whatever broke in it. Pure: facts in, findings out, one sentence each."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

from bot.approvals.authorization import RETRY_CHOICE
from bot.conversation.approver_answers import MANAGER_CHOICE
from bot.core.records import Approval, ApprovalState, EffectState, Run, RunStatus
from bot.core.run_state import CallStatus
from bot.storage.journal import JournalRecord
from tests.chaos.facts import Facts, Posted, lane_of
from tests.chaos.people import Spoken
from tests.chaos.plan import TAG
from tools.mail.send_email import build_message_id
from tools.workflow.engine.commands import DecideCommand

Findings = Iterator[str]
T = TypeVar("T")
K = TypeVar("K")
CARD = re.compile(r"^A\w+:.*:open:(R\w+):")
"""The key of a card that a run asked for."""
ENDED = (RunStatus.DONE, RunStatus.STOPPED, RunStatus.CANCELLED)
REPEATING = frozenset({"stop", "redis"})
"""Faults after which a process may still say a line that another one, which has its work by now, says too. Right before
it speaks it looks whether it still may; what is left is one request's way to the wire, from which a platform without
idempotency keys cannot be kept. Such lines are counted. A card with buttons is another matter, and so are effects."""


def everything(facts: Facts) -> list[str]:
    """All findings of a whole run: what is wrong, and what has not happened, so that nothing was proved."""
    return [*wrong(facts), *happened(facts)]


def wrong(facts: Facts) -> list[str]:
    """What is not as it must be."""
    return [f"{name}: {finding}" for name, check in CHECKS.items() for finding in check(facts)]


def answered(facts: Facts) -> Findings:
    """Every message that was accepted has one run, which ended with one answer or waits for a button."""
    runs = _by(facts.runs, lambda run: (run.message.place.channel, run.message.at))
    finals = Counter(post.key for post in facts.posts if post.part == 1)
    for one in facts.spoken:
        mine = runs.get((one.channel, one.ts), [])
        if len(mine) != 1:
            yield f"{one.line.tag} has {len(mine)} runs"
        for run in mine:
            yield from _ended(one, run, finals)


def _ended(one: Spoken, run: Run, finals: Mapping[str, int]) -> Findings:
    times = finals.get(f"{run.id}:final", 0)
    if run.status in ENDED and not times:
        yield f"{one.line.tag} ended without an answer"
    if run.status is RunStatus.PAUSED and times:
        yield f"{one.line.tag} waits, but was answered"
    if run.status is RunStatus.RUNNING:
        yield f"{one.line.tag} never ended"


def once(facts: Facts) -> Findings:
    """Every run ends once in the journal; nothing is said twice unless a process was held up in mid-sentence, and no
    card at all, as long as it has its buttons."""
    ends = Counter(one.run for one in facts.journal if one.kind in ("run.finished", "run.stopped", "run.cancelled"))
    for run in facts.runs:
        expected = int(run.status in ENDED)
        if ends[run.id] != expected:
            yield f"run {run.id} of {run.message.text} ended {ends[run.id]} times in the journal"
    if not REPEATING & set(facts.wanted.faults):
        for post in repeated(facts.posts):
            yield f"said twice in {post.channel}: {post.key}"


def repeated(posts: Sequence[Posted]) -> list[Posted]:
    """Posts that are there already."""
    seen: set[tuple[str, str, int]] = set()
    return [post for post in posts if post.key and _again(seen, (post.channel, post.key, post.part))]


def _again(seen: set[tuple[str, str, int]], one: tuple[str, str, int]) -> bool:
    if one in seen:
        return True
    seen.add(one)
    return False


def order(facts: Facts) -> Findings:
    """In every conversation the first word about each message comes in the order in which they were written. A card
    comes from a lane of its own, so that it may be overtaken, but it never comes before the word about an earlier
    message."""
    first, cards = _first_words(facts), _first_cards(facts.posts)
    runs = {(run.message.place.channel, run.message.at): run for run in facts.runs}
    for lane, talk in _by(facts.spoken, lane_of).items():
        lines = sorted(talk, key=lambda one: one.line.index)
        known = [(one.line.tag, runs[at].id) for one in lines if (at := (one.channel, one.ts)) in runs]
        shown = [(tag, run) for tag, run in known if run in first]
        for (before, earlier), (after, later) in pairwise(shown):
            if first[earlier] > first[later]:
                yield f"{lane}: {after} was dealt with before {before}"
            if first[earlier] > cards.get(later, first[earlier]):
                yield f"{lane}: the card of {after} came before {before} was dealt with"


def _first_words(facts: Facts) -> dict[str, str]:
    """By run: when it first said something. In a DM a run that waits for a button says nothing, since its card is there
    to see: what counts is when it began to wait, which only the journal tells."""
    first: dict[str, str] = {}
    for post in facts.posts:
        run = post.key.partition(":")[0]
        first[run] = min(post.ts, first.get(run, post.ts))
    direct = {run.id for run in facts.runs if run.message.place.direct}
    for record in facts.journal:
        if record.run in direct and began_to_wait(record):
            ts = f"{record.at_ms / 1000:.6f}"
            first[record.run] = min(ts, first.get(record.run, ts))
    return first


def began_to_wait(record: JournalRecord) -> bool:
    """A step of a run that needs a button to be pressed."""
    return record.kind == "step" and record.more.get("status") == CallStatus.AWAITING


def _first_cards(posts: Sequence[Posted]) -> dict[str, str]:
    """By run: when the first card that it asked for was posted."""
    first: dict[str, str] = {}
    for post in posts:
        if found := CARD.search(post.key):
            first[found[1]] = min(post.ts, first.get(found[1], post.ts))
    return first


def remembered(facts: Facts) -> Findings:
    """Every conversation remembers what was asked in it: each message once, in order. A DM also remembers, once each,
    what its person has asked in a thread and was answered in the DM."""
    lines = {one.line.tag: one for one in facts.spoken}
    for lane, talk in _by(facts.spoken, lane_of).items():
        entries = facts.histories.get(lane, ())
        asked = [TAG.search(one.content) for one in entries if not (one.is_answer or one.kind)]
        tags = [one[1] for one in asked if one]
        expected = [one.line.tag for one in sorted(talk, key=lambda one: one.line.index)]
        brought = [tag for tag in tags if tag not in expected]
        own = [tag for tag in tags if tag in expected]
        if own != expected:
            yield f"{lane} remembers {_difference(expected, own)}"
        if len(set(brought)) < len(brought):
            yield f"{lane} remembers twice what was brought to it: {brought}"
        strangers = [tag for tag in brought if not _brought(lane, lines.get(tag))]
        if strangers:
            yield f"{lane} remembers what is not its own: {strangers}"


def _brought(lane: str, asked: Spoken | None) -> bool:
    """True for a line of the person of a DM, said in a thread."""
    return asked is not None and lane.endswith(f":D{asked.line.person[1:]}") and not asked.channel.startswith("D")


def _difference(expected: Sequence[str], found: Sequence[str]) -> str:
    missing, more = [x for x in expected if x not in found], [x for x, n in Counter(found).items() if n > 1]
    return f"not {missing}, twice {more}" if missing or more else f"another order: {found}"


def commands(facts: Facts) -> Findings:
    """Each confirmed request was started once, and nothing else; numbers have no gaps."""
    started = Counter(tag_of(request.filled.values.get("reason", "")) for request in facts.requests)
    confirmed: Counter[str] = Counter()
    for one in facts.approvals:
        if one.tool == "start_process":
            confirmed[tag_of(str(one.proposal.args))] += int(one.effect is EffectState.DONE)
    for tag in sorted(started.keys() | confirmed.keys()):
        if started[tag] != confirmed[tag]:
            yield f"#{tag} was confirmed {confirmed[tag]} times and started {started[tag]} times"
    for prefix in ("L", "E"):
        numbers = sorted(int(r.id.partition("-")[2]) for r in facts.requests if r.id.startswith(prefix))
        if numbers != list(range(1, len(numbers) + 1)) or int(facts.numbers.get(prefix, 0)) != len(numbers):
            yield f"request numbers have gaps: {len(numbers)} requests, last number {facts.numbers.get(prefix)}"


def decisions(facts: Facts) -> Findings:
    """Each decision is the engine's, once, by the one it was assigned to, as pressed."""
    tasks = {task.id: task for request in facts.requests for task in request.tasks}
    decided = Counter(one.command.task for one in facts.record if isinstance(one.command, DecideCommand))
    for one in facts.approvals:
        if one.tool != "decide_task" or one.effect is not EffectState.DONE:
            continue
        task = tasks.get(one.proposal.subject)
        if task is None or decided[task.id] != 1:
            yield f"{one.proposal.subject} was pressed once and decided {decided[one.proposal.subject]} times"
        elif (task.outcome, task.assignee) != (one.choice, one.decided_by):
            yield f"{task.id} is {task.outcome}, but {one.decided_by} pressed {one.choice}"
    pressed = {one.proposal.subject for one in facts.approvals if one.effect is EffectState.DONE}
    yield from (f"{task} was decided without a press" for task in decided if task not in pressed)


def authority(facts: Facts) -> Findings:
    """Whoever decided was asked to; and whoever pressed was answered, one way or the other."""
    for one in facts.approvals:
        if one.state is ApprovalState.DECIDED and one.decided_by not in one.proposal.deciders:
            yield f"{one.id} was decided by {one.decided_by}, who was not asked"
    refused = sum(record.kind == "approval.refused" and "set" not in record.more for record in facts.journal)
    won = sum(  # each recovery after the first press is a version; the first may have come from a set
        one.version - one.press_id.endswith(f":{one.id}") for one in facts.approvals if one.press_id
    )
    taken = facts.counts.get("presses taken", 0) + facts.counts.get("dialogs submitted", 0)
    if taken > refused + won:
        yield f"{taken} presses were taken, but only {refused} refused and {won} carried out"


def effects(facts: Facts) -> Findings:
    """An effect is begun once for each try, and ends once."""
    began = Counter(one.more.get("approval") for one in facts.journal if one.kind == "effect.started")
    done = Counter(one.more.get("approval") for one in facts.journal if one.kind == "effect.done")
    for one in facts.approvals:
        if began[one.id] != one.attempts:
            yield f"{one.id} was begun {began[one.id]} times in {one.attempts} tries"
        if done[one.id] > 1 or (one.effect is EffectState.DONE) > done[one.id]:
            yield f"{one.id} was done {done[one.id]} times"
        if one.effect is EffectState.STARTED:
            yield f"{one.id} was begun and never ended"
        if one.tool != "send_email" and one.effect is EffectState.UNKNOWN:
            yield f"{one.id} ({one.tool}) is unknown, though it can be repeated"


def mails(facts: Facts) -> Findings:
    """No Message-ID arrives twice. A mail that counts as sent has arrived; one that failed or was cancelled has not;
    an unknown one may have, and its card asks a person."""
    arrived = Counter(str(mail["message_id"]) for mail in facts.mails)
    yield from (f"the mail {id} arrived {times} times" for id, times in arrived.items() if times > 1)
    known: set[str] = set()
    for one in facts.approvals:
        if one.tool == "send_email":
            ids = [build_message_id(key) for key in _keys(one)]
            known.update(ids)
            yield from _arrived(one, sum(arrived[id] for id in ids), arrived[build_message_id(one.attempt_key)])
    yield from (f"nobody pressed for the mail {id}" for id in arrived if id not in known)


def _keys(approval: Approval) -> list[str]:
    """The idempotency keys of its tries so far, oldest first."""
    return [approval.model_copy(update={"attempts": n}).attempt_key for n in range(1, approval.attempts + 1)]


def _arrived(approval: Approval, times: int, last: int) -> Findings:
    """`times`: of all its tries. `last`: of the latest one."""
    about = tag_of(str(approval.proposal.args))
    if approval.effect is EffectState.DONE and approval.outcome is not None and not last:
        yield f"#{about} counts as sent, but never arrived"
    if approval.state is not ApprovalState.DECIDED and times:
        yield f"#{about} arrived, though nobody sent it"
    if approval.effect is EffectState.FAILED and last:
        yield f"#{about} counts as failed, but arrived"
    if times > approval.attempts:
        yield f"#{about} arrived {times} times in {approval.attempts} tries"


def cards(facts: Facts) -> Findings:
    """Every message with buttons is the card of an approval that waits for them; every one that waits has its card."""
    approvals = {one.id: one for one in facts.approvals}
    shown: set[str] = set()
    for post in facts.posts:
        for button in (one for one in post.buttons[:1] if one.choice not in (RETRY_CHOICE, MANAGER_CHOICE)):
            one = approvals.get(button.approval)
            if one is None or not _waits(one):
                yield f"a card with buttons is over: {_about(post, one)}"
            elif button.version != one.version or (post.channel, post.ts) not in _refs(one):
                yield f"a card is orphaned: {_about(post, one)}"
            else:
                shown.add(one.id)
    for one in facts.approvals:
        if _waits(one) and one.id not in shown:
            yield f"{one.id} ({one.tool}, {one.state}, {one.effect}) waits without a card"


def _about(post: Posted, approval: Approval | None) -> str:
    """A card and what is known of it, for whoever looks for the cause."""
    where = f"{post.channel} {post.ts} {post.key}"
    if approval is None:
        return f"{where}, of nobody"
    return f"{where}, is {approval.state} {approval.effect} version {approval.version}, known at {_refs(approval)}"


def _refs(approval: Approval) -> list[tuple[str, str]]:
    return [(ref.channel, ref.ts) for _, ref in approval.copies]


def _waits(approval: Approval) -> bool:
    """There is something to press."""
    return approval.state in (ApprovalState.OPEN, ApprovalState.EXPIRED) or (
        approval.state is ApprovalState.DECIDED and approval.effect in (EffectState.UNKNOWN, EffectState.FAILED)
    )


def records(facts: Facts) -> Findings:
    """The index, the timers and the paused runs agree with the approvals."""
    waiting = {one.id for one in facts.approvals if one.state is ApprovalState.OPEN}
    if waiting != set(facts.open_index):
        yield f"open approvals and their index differ: {sorted(waiting ^ set(facts.open_index))[:5]}"
    expiring = {timer.split(":")[1] for timer in facts.timers if timer.startswith("expire:")}
    if waiting != expiring:
        yield f"open approvals and their timers differ: {sorted(waiting ^ expiring)[:5]}"
    heard = {(waiter.run, waiter.uid) for one in facts.approvals if one.id in waiting for waiter in one.waiters}
    for run in facts.runs:
        call = run.awaiting_call
        if (run.status is RunStatus.PAUSED) != (call is not None):
            yield f"{run.message.text} is {run.status}, its call is {call.status if call else CallStatus.SUCCEEDED}"
        if call is not None and (run.id, call.uid) not in heard:
            yield f"{run.message.text} waits for a button that does not know of it"


def lanes(facts: Facts) -> Findings:
    """No lane is stuck, nothing was given up, no handler failed, no bot fell over, no event was lost."""
    if facts.unrest:
        yield facts.unrest
    yield from (f"left: {one}" for one in facts.left)
    yield from (f"dead: {one.item.lane} {one.item.error}" for one in facts.dead)
    yield from (re.sub(r"\s+", " ", one) for one in facts.failures)
    for what in ("events lost", "events not taken in time"):
        if facts.counts.get(what, 0):
            yield f"{facts.counts[what]} {what}"


def files(facts: Facts) -> Findings:
    """A file that came with a message is on the request that was started with it, once, or is named to its sender."""
    requests = {tag_of(one.filled.values.get("reason", "")): one for one in facts.requests}
    for one in facts.spoken:
        request, name = requests.get(one.line.tag), one.line.file
        if request is None or not name:
            continue
        times = sum(file.name == name for file in request.filled.files)
        if times > 1:
            yield f"{name} is on {request.id} {times} times"
        if not times and not any(name in post.text for post in facts.posts):
            yield f"{name} was lost: it is not on {request.id}, and nobody was told"


def happened(facts: Facts) -> Findings:
    """The run was not empty: what was asked for has happened, or nothing is proved."""
    faults = set(facts.wanted.faults)
    expected = {"messages": len(facts.spoken), "decisions": sum(bool(one.press_id) for one in facts.approvals)}
    expected |= {name: facts.counts.get(name, 0) for name in ("presses", "presses by others")}
    expected |= {
        kind: facts.counts.get(kind, 0) for kind in ("kill", "stop", "redis", "socket", "away") if kind in faults
    }
    small = {"withheld": "withheld", "twice": "twice", "api": "api", "model": "model troubles", "smtp": "smtp troubles"}
    due = faults & _due(facts)
    expected |= {name: facts.counts.get(name, 0) for kind, name in small.items() if kind in due}
    if sum(bool(one.line.file) for one in facts.spoken) >= 5:  # fewer may all be on requests that nobody confirmed
        expected["files on requests"] = sum(len(one.filled.files) for one in facts.requests)
    if faults & {"kill", "stop"}:
        expected["items handed out again"] = len(facts.tries)
    yield from (f"nothing happened: no {what}" for what, times in expected.items() if not times)


def _due(facts: Facts) -> set[str]:
    """Small faults that had so many chances that one must have happened."""
    said, replies = len(facts.spoken), facts.counts.get("model replies", 0)
    chances = {"withheld": said, "twice": said, "api": len(facts.posts), "model": replies, "smtp": len(facts.mails)}
    return {kind for kind, times in chances.items() if times * getattr(facts.wanted.rates, kind) >= 100}


def tag_of(text: str) -> str:
    found = TAG.search(text)
    return found[1] if found else ""


def _by(items: Sequence[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    found: dict[K, list[T]] = defaultdict(list)
    for one in items:
        found[key(one)].append(one)
    return found


CHECKS: dict[str, Callable[[Facts], Findings]] = {
    check.__name__: check
    for check in (
        answered,
        once,
        order,
        remembered,
        commands,
        decisions,
        authority,
        effects,
        mails,
        cards,
        records,
        lanes,
        files,
    )
}
