"""What must be true at the end of a run, whatever broke in it. Pure: facts in, findings out, one sentence each."""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain, pairwise, product
from typing import Any, TypeVar

from bot.approvals.render import is_unrecoverable
from bot.core.records import Approval, ApprovalState, EffectState, RunStatus
from bot.core.run_state import CallStatus
from bot.features import retry
from bot.features.approver_question import MANAGER_CHOICE
from bot.features.feedback.feature import CHOICES as FEEDBACK
from bot.storage.journal import JournalRecord
from tests.harness.files import png
from tests.qa.chaos.facts import EVERYBODY, Facts, Posted, build_ts, lane_of
from tests.qa.chaos.people import Spoken
from tests.qa.chaos.plan import EVERY_S, TAG
from tests.qa.company import get_dm, is_dm
from tools.mail.send_email import build_message_id
from tools.spec import Gate
from tools.workflow.engine.commands import AddSignCommand, DecideCommand, TransferCommand
from tools.workflow.engine.state import Task, TaskKind

Findings = Iterator[str]
T = TypeVar("T")
K = TypeVar("K")
CARD = re.compile(r"^A\w+:.*:open:(R\w+):")  # the key of a card that a run asked for
MORNING = re.compile(r"set:(\w+):\d{4}-\d\d-\d\d:")  # the key of a morning list
AHEAD_MS = 2_000
"""A clock may be ahead by so much (ms): less than two seconds are the time that a question takes."""
COMMANDS = (DecideCommand, TransferCommand, AddSignCommand)
KIND = {"transfer": "transfer", "add_sign": "add_sign"}
"""Kind of the command that follows from a choice; any other choice decides."""
ON_NO_CARD = {retry.CHOICE, MANAGER_CHOICE, *FEEDBACK}
"""Buttons below words: to ask again, to name an approver, and, on Feishu, to say how good an answer was."""
MANY = 50  # of so many requests some wait until they escalate
TOLD_AS = {"model": "model troubles", "smtp": "smtp troubles"}
"""Fault → how its count is called, where that is another name."""
OFF = re.compile(r"answer #c\d+-\d+ (?!cancelled|unknown)[a-z]")
"""An answer that names the error of a tool, other than what became of a card."""
ENDED = (RunStatus.DONE, RunStatus.STOPPED, RunStatus.CANCELLED)


def everything(facts: Facts) -> list[str]:
    """All findings of a whole run: what is wrong, and what has not happened, so that nothing was proved."""
    return [*wrong(facts), *happened(facts)]


def wrong(facts: Facts) -> list[str]:
    checks = {name: check for name, check in CHECKS.items() if not facts.judged or name in facts.judged}
    return [f"{name}: {finding}" for name, check in checks.items() for finding in check(facts)]


def answered(facts: Facts) -> Findings:
    """Every message that was accepted has one run, which ended with one answer or waits for a button."""
    runs = _by(facts.runs, lambda run: (run.message.place.channel, run.message.at))
    finals = Counter(post.key for post in facts.posts if post.part == 1)
    for one in facts.spoken:
        mine, tag = runs.get((one.channel, one.ts), []), one.line.tag
        if len(mine) != 1 and not (tag in facts.given_up and not mine):
            yield f"{tag} has {len(mine)} runs"
        for run in mine:
            times = finals[f"{run.id}:final"]
            if run.status in ENDED and not times:
                yield f"{tag} ended without an answer"
            if run.status is RunStatus.PAUSED and times:
                yield f"{tag} waits, but was answered"
            if run.status is RunStatus.RUNNING:
                yield f"{tag} never ended"


def once(facts: Facts) -> Findings:
    """Every run ends once in the journal; nothing is said twice unless a process was held up in mid-sentence, and no
    card at all, as long as it has its buttons."""
    ends = Counter(one.run for one in facts.journal if one.kind in ("run.finished", "run.stopped", "run.cancelled"))
    for run in facts.runs:
        expected = int(run.status in ENDED)
        if ends[run.id] != expected:
            yield f"run {run.id} of {run.message.text} ended {ends[run.id]} times in the journal"
    for post in repeated(facts.posts):
        if not is_explained(facts, post.ts, post.by):
            yield f"said twice in {post.channel}: {post.key} by bot {post.by} at {post.ts}"


def is_explained(facts: Facts, ts: str, by: int = EVERYBODY) -> bool:
    """True if this bot was held up right before it said this: in mid-sentence a process may say a line that another
    one, which has its work by now, says too. Right before it speaks it looks whether it still may; what is left is one
    request's way to the wire, from which a platform without idempotency keys cannot be kept. A card with buttons is
    another matter, and so are effects."""
    return any(one.explains(ts, by) for one in facts.held_up)


def repeated(posts: Sequence[Posted]) -> list[Posted]:
    named = _by((post for post in posts if post.key), lambda one: (one.channel, one.key, one.part))
    return [post for same in named.values() for post in same[1:]]


def order(facts: Facts) -> Findings:
    """In every conversation the first word about each message comes in the order in which they were written. A card
    comes from a lane of its own, so that it may be overtaken, but it never comes before the word about an earlier
    message. A message of which the platform has given up an event has no place: nobody waited until it was taken."""
    first = _first_words(facts)
    cards = _earliest((found[1], post.ts) for post in facts.posts if (found := CARD.search(post.key)))
    runs = {(run.message.place.channel, run.message.at): run for run in facts.runs}
    for lane, talk in _by(facts.spoken, lane_of).items():
        lines = sorted((one for one in talk if one.line.tag not in facts.given_up), key=lambda one: one.line.index)
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
    direct = {run.id for run in facts.runs if run.message.place.direct}
    waiting = (one for one in facts.journal if one.run in direct and began_to_wait(one))
    posted = ((post.key.partition(":")[0], post.ts) for post in facts.posts)
    return _earliest(chain(posted, ((one.run, build_ts(one.at_ms)) for one in waiting)))


def _earliest(told: Iterable[tuple[str, str]]) -> dict[str, str]:
    """By run, of what it has done and when."""
    first: dict[str, str] = {}
    for run, ts in told:
        first[run] = min(ts, first.get(run, ts))
    return first


def began_to_wait(record: JournalRecord) -> bool:
    """A step of a run that needs a button to be pressed."""
    return record.kind == "step" and record.more.get("status") == CallStatus.AWAITING


def remembered(facts: Facts) -> Findings:
    """Every conversation remembers what was asked in it: each message once, in order. A DM also remembers, once each,
    what its person has asked in a thread and was answered in the DM."""
    lines = {one.line.tag: one for one in facts.spoken}
    for lane, talk in _by(facts.spoken, lane_of).items():
        entries = facts.histories.get(lane, ())
        asked = [TAG.search(one.content) for one in entries if not (one.is_answer or one.kind)]
        tags = [one[1] for one in asked if one]
        said = [one.line.tag for one in sorted(talk, key=lambda one: one.line.index)]
        expected = [tag for tag in said if tag in tags or tag not in facts.given_up]
        brought = [tag for tag in tags if tag not in expected]
        own = [tag for tag in tags if tag in expected]
        found, wanted = ([tag for tag in tags if tag not in facts.given_up] for tags in (own, expected))
        if found != wanted and not (lane in facts.compacted and _is_left_of(wanted, found)):
            missing, more = [x for x in wanted if x not in found], [x for x, n in Counter(found).items() if n > 1]
            difference = f"not {missing}, twice {more}" if missing or more else f"another order: {found}"
            yield f"{lane} remembers {difference}"
        if twice := sorted(facts.given_up.intersection(tag for tag, times in Counter(own).items() if times > 1)):
            yield f"{lane} remembers {twice} twice"
        if len(set(brought)) < len(brought):
            yield f"{lane} remembers twice what was brought to it: {brought}"
        strangers = [tag for tag in brought if not _brought(lane, lines.get(tag))]
        if strangers:
            yield f"{lane} remembers what is not its own: {strangers}"


def _is_left_of(said: Sequence[str], found: Sequence[str]) -> bool:
    """True for what summing up leaves: in order, with the newest. What waits for a button stays longer than others."""
    rest = iter(said)
    return bool(found) and found[-1] == said[-1] and all(tag in rest for tag in found)


def _brought(lane: str, asked: Spoken | None) -> bool:
    """True for a line of the person of a DM, said in a thread."""
    return asked is not None and lane.endswith(f":{get_dm(asked.line.person)}") and not is_dm(asked.channel)


def commands(facts: Facts) -> Findings:
    """Each confirmed request was started once, and nothing else; numbers have no gaps."""
    started = Counter(tag_of(request.filled.values.get("reason", "")) for request in facts.requests)
    done = (one for one in facts.approvals if one.tool == "start_process" and one.effect is EffectState.DONE)
    confirmed = Counter(tag_of(str(one.proposal.args)) for one in done)
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
    commands = (one.command for one in facts.record)
    decided = Counter((one.task, one.kind) for one in commands if isinstance(one, COMMANDS))
    done = [one for one in facts.approvals if one.tool == "decide_task" and one.effect is EffectState.DONE]
    pressed = Counter((one.proposal.subject, KIND.get(one.choice, "decide")) for one in done)
    for task, kind in decided.keys() | pressed.keys():
        times = pressed[task, kind], decided[task, kind]
        if times[0] != times[1] or (kind == "decide" and times[1] > 1):
            yield f"{task} was pressed {times[0]} times and decided {times[1]} times ({kind})"
    for one in done:
        found = tasks.get(one.proposal.subject)
        if one.choice not in KIND and found and (found.outcome, found.assignee) != (one.choice, one.decided_by):
            yield f"{found.id} is {found.outcome}, but {one.decided_by} pressed {one.choice}"


def authority(facts: Facts) -> Findings:
    """Whoever decided was asked to; and whoever pressed was answered, one way or the other."""
    for one in facts.approvals:
        if one.state is ApprovalState.DECIDED and one.decided_by not in one.proposal.deciders:
            yield f"{one.id} was decided by {one.decided_by}, who was not asked"
    refused = sum(record.kind == "approval.refused" and "set" not in record.more for record in facts.journal)
    pressed = (one for one in facts.approvals if one.press_id)
    # Each recovery after the first press is a version; the first may have come from a set.
    won = sum(one.version - one.press_id.endswith(f":{one.id}") for one in pressed)
    taken = facts.counts.get("presses taken", 0) + facts.counts.get("dialogs submitted", 0)
    if taken > refused + won:
        yield f"{taken} presses were taken, but only {refused} refused and {won} carried out"


def effects(facts: Facts) -> Findings:
    """An effect is begun once for each try, and ends once."""
    told = _by(facts.journal, lambda one: one.more.get("approval"))
    done = Counter(one.more.get("approval") for one in facts.journal if one.kind == "effect.done")
    for one in facts.approvals:
        kinds = [record.kind for record in told.get(one.id, ())]
        if (began := _count_begun(kinds)) != one.attempts:
            yield f"{one.id} was begun {began} times in {one.attempts} tries: {' '.join(kinds)}"
        if done[one.id] > 1 or (one.effect is EffectState.DONE) > done[one.id]:
            yield f"{one.id} was done {done[one.id]} times"
        if one.effect is EffectState.STARTED:
            yield f"{one.id} was begun and never ended"
        if one.tool != "send_email" and one.effect is EffectState.UNKNOWN:
            yield f"{one.id} ({one.tool}) is unknown, though it can be repeated"


def _count_begun(kinds: Sequence[str]) -> int:
    """How often the effect of a card was begun, by what the journal says of it. Whoever asks anew for a card that has
    failed gets a new one, whose tries are counted from the beginning."""
    begun, last = 0, ""
    for kind in kinds:
        begun = 0 if (last, kind) == ("effect.failed", "approval.requested") else begun + (kind == "effect.started")
        last = kind if kind.startswith("effect.") else last
    return begun


def mails(facts: Facts) -> Findings:
    """No Message-ID arrives twice. A mail that counts as sent has arrived; one that failed or was cancelled has not;
    an unknown one may have, and its card asks a person."""
    arrived = Counter(str(mail["message_id"]) for mail in facts.mails)
    yield from (f"the mail {id} arrived {times} times" for id, times in arrived.items() if times > 1)
    known: set[str] = set()
    for one in (one for one in facts.approvals if one.tool == "send_email"):
        tries = [one.model_copy(update={"attempts": n}) for n in range(1, one.attempts + 1)]
        ids = [build_message_id(each.attempt_key) for each in tries]
        known.update(ids)
        about, times = f"#{tag_of(str(one.proposal.args))}", sum(arrived[id] for id in ids)
        last = arrived[build_message_id(one.attempt_key)]
        if one.effect is EffectState.DONE and one.outcome is not None and not last:
            yield f"{about} counts as sent, but never arrived"
        if one.state is not ApprovalState.DECIDED and times:
            yield f"{about} arrived, though nobody sent it"
        if one.effect is EffectState.FAILED and last:
            yield f"{about} counts as failed, but arrived"
        if times > one.attempts:
            yield f"{about} arrived {times} times in {one.attempts} tries"
    yield from (f"nobody pressed for the mail {id}" for id in arrived if id not in known)


def cards(facts: Facts) -> Findings:
    """Every message with buttons is the card of an approval that waits for them; every one that waits has its card."""
    approvals = {one.id: one for one in facts.approvals}
    shown: set[str] = set()
    for post in facts.posts:
        for button in (one for one in post.buttons[:1] if one.choice not in ON_NO_CARD):
            one = approvals.get(button.approval)
            refs = [(ref.channel, ref.ts) for _, ref in one.copies] if one else []
            known = f"is {one.state} {one.effect} version {one.version}, known at {refs}" if one else "of nobody"
            about = f"{post.channel} {post.ts} {post.key}, {known}"
            if one is None or not _waits(one):
                yield f"a card with buttons is over: {about}"
            elif button.version != one.version or (post.channel, post.ts) not in refs:
                yield f"a card is orphaned: {about}"
            else:
                shown.add(one.id)
    for one in facts.approvals:
        if _waits(one) and one.id not in shown:
            yield f"{one.id} ({one.tool}, {one.state}, {one.effect}) waits without a card"


def _waits(approval: Approval) -> bool:
    """There is something to press. What can only fail again (its task has escalated meanwhile, say) is over."""
    if approval.state is not ApprovalState.DECIDED:
        return approval.state in (ApprovalState.OPEN, ApprovalState.EXPIRED)
    can_retry = approval.effect is EffectState.FAILED and not is_unrecoverable(approval)
    return can_retry or approval.effect is EffectState.UNKNOWN


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
    yield from (f"dead: {one.item.lane} {one.item.error} {one.item.body[:80]}" for one in facts.dead)
    yield from (re.sub(r"\s+", " ", one) for one in facts.failures)
    lost = facts.counts.get("events lost", 0) - facts.counts.get("lost", 0)
    late = facts.counts.get("events not taken in time", 0)
    yield from (f"{n} {what}" for what, n in {"events lost": lost, "events not taken in time": late}.items() if n > 0)


def files(facts: Facts) -> Findings:
    """A file that came with a message is on the request that was started with it, once, or is named to its sender."""
    requests = {tag_of(one.filled.values.get("reason", "")): one for one in facts.requests}
    for one in facts.spoken:
        request, name = requests.get(one.line.tag), one.line.file
        if request is None or not name:
            continue
        content = hashlib.sha256(png(one.line.tag)).hexdigest()  # Feishu names no picture
        times = sum(name == file.name or content == file.sha256 for file in request.filled.files)
        if times > 1:
            yield f"{name} is on {request.id} {times} times"
        if not times and not any(name in post.text for post in facts.posts):
            yield f"{name} was lost: it is not on {request.id}, and nobody was told"
    for request in facts.requests:
        for file in request.filled.files:
            if file.sha256 not in facts.kept:
                yield f"{file.name} is on {request.id}, but its bytes are gone"
    yield from _shown(facts)


def _shown(facts: Facts) -> Findings:
    """Whoever has the card of a task to decide on it has each of its files below it, once: the very bytes. The card of
    one that expired is shown to its requester too, who has the files."""
    shown = _by(facts.shown, lambda one: (one.channel, one.thread, one.title))
    for one in facts.approvals:
        if one.gate is not Gate.APPROVE or one.place is not None:
            continue
        copies = [ref for reader, ref in one.copies if reader != one.proposal.requester]
        for ref, file in product(copies, one.proposal.files):
            found = shown.get((ref.channel, ref.ts, file.name), [])
            if not found:
                yield f"{file.name} was not shown below the card of {one.proposal.subject}"
            if len([one for one in found[1:] if not is_explained(facts, one.ts)]):
                yield f"{file.name} was shown {len(found)} times below the card of {one.proposal.subject}"
            if any(other.sha256 not in ("", file.sha256) for other in found):
                yield f"other bytes than those of {file.name} were shown for {one.proposal.subject}"


def mornings(facts: Facts) -> Findings:
    """Nobody has two lists of one morning, and nobody has none for whom something has waited since before it."""
    shown = (post for post in facts.posts if MORNING.match(post.key))
    lists = _by(shown, lambda post: post.key.split(":")[1])
    for person, posts in lists.items():
        if not all(is_explained(facts, post.ts, post.by) for post in posts[1:]):
            yield f"{person} has two morning lists"
    for task in _list_waiting(facts):
        if task.since.timestamp() * 1000 < facts.morning_ms and task.assignee not in lists:
            yield f"{task.id} has waited for {task.assignee} since before the morning, who has no list"


def _list_waiting(facts: Facts) -> list[Task]:
    """What somebody has yet to decide."""
    return [task for one in facts.requests for task in one.open_tasks if task.kind is TaskKind.APPROVE]


def escalated(facts: Facts) -> Findings:
    """Where tasks escalate, whoever was asked has decided in time, or their manager was asked instead. The version
    before has timers of days."""
    if "escalation" not in facts.wanted.faults or facts.wanted.versions > 1:
        return
    for task in _list_waiting(facts):
        due_ms = (task.clock or task.since).timestamp() * 1000 + facts.wanted.escalates_s * 1000
        if facts.ended_ms > due_ms and len(task.fired) < 2:
            yield f"{task.id} waits for {task.assignee}, and its timers never came"


def witnessed(facts: Facts) -> Findings:
    """Whoever looks from outside counts what the product's own classes read; and counts nothing twice."""
    seen = facts.witnessed
    if seen is None:
        return
    decided = (one.command.task for one in facts.record if isinstance(one.command, DecideCommand))
    read: dict[str, tuple[Counter[Any], Counter[Any]]] = {
        "requests": (seen.requests, Counter(one.filled.values.get("reason", "") for one in facts.requests)),
        "decisions": (seen.decisions, Counter(decided)),
        "effects": (seen.effects, Counter((one.tool, str(one.effect)) for one in facts.approvals)),
        "mails": (seen.mails, Counter(str(one["message_id"]) for one in facts.mails)),
        "posts": (seen.posts, Counter((one.channel, one.key, one.part) for one in facts.posts if one.key)),
    }
    for name, (outside, inside) in read.items():
        for what in (outside - inside) + (inside - outside):
            yield f"{name}: {what} is there {outside[what]} times, and was read {inside[what]} times"
    for name, counted in {"request": seen.requests, "decision": seen.decisions, "mail": seen.mails}.items():
        yield from (f"the {name} {what} is there {times} times" for what, times in counted.items() if times > 1)
    sent = seen.effects["send_email", EffectState.DONE] - sum(
        one.effect is EffectState.DONE and one.outcome is None for one in facts.approvals
    )
    if seen.mails.total() < sent:
        yield f"{sent} mails count as sent, and {seen.mails.total()} arrived"


def seen(facts: Facts) -> Findings:
    """Nothing was seen to be wrong on the way."""
    yield from facts.seen


def dated(facts: Facts) -> Findings:
    """No process's own clock decides: nothing is dated ahead of the time at which everything was looked at."""
    latest = facts.witnessed.latest if facts.witnessed else ""
    if latest and facts.ended_ms and datetime.fromisoformat(latest).timestamp() * 1000 > facts.ended_ms + AHEAD_MS:
        yield f"a request was changed at {latest}, which is yet to come"
    for one in facts.approvals:
        if facts.ended_ms and max(one.created_ms, one.decided_ms) > facts.ended_ms + AHEAD_MS:
            yield f"{one.id} is dated ahead"


def happened(facts: Facts) -> Findings:
    """The run was not empty: what was asked for has happened, or nothing is proved."""
    faults = set(facts.wanted.faults)
    expected = {"messages": len(facts.spoken), "decisions": sum(bool(one.press_id) for one in facts.approvals)}
    expected |= {name: facts.counts.get(name, 0) for name in ("presses", "presses by others")}
    expected |= {kind: facts.counts.get(kind, 0) for kind in EVERY_S if kind in faults and kind not in facts.impossible}
    expected |= {TOLD_AS.get(kind, kind): facts.counts.get(TOLD_AS.get(kind, kind), 0) for kind in faults & _due(facts)}
    if sum(bool(one.line.file) for one in facts.spoken) >= 5:  # fewer may all be on requests that nobody confirmed
        expected["files on requests"] = sum(len(one.filled.files) for one in facts.requests)
    if facts.morning_ms and len(facts.requests) >= 10:  # fewer may all be decided by then
        expected["files shown"] = len(facts.shown)
        expected["morning lists"] = sum(bool(MORNING.match(post.key)) for post in facts.posts)
    if "escalation" in faults and len(facts.requests) >= MANY:
        expected["escalations"] = sum(task.outcome == "escalated" for one in facts.requests for task in one.tasks)
    if faults & {"kill", "stop"}:
        expected["items handed out again"] = len(facts.tries)
    yield from (f"nothing happened: no {what}" for what, times in expected.items() if not times)


def _due(facts: Facts) -> set[str]:
    """Small faults that had so many chances that one must have happened."""
    said, replies = len(facts.spoken), facts.counts.get("model replies", 0)
    chances = dict.fromkeys(("withheld", "twice", "late", "lost"), said)
    chances |= {"api": len(facts.posts), "model": replies, "smtp": len(facts.mails)}
    return {kind for kind, times in chances.items() if times * getattr(facts.wanted.rates, kind) >= 100}


def tag_of(text: str) -> str:
    found = TAG.search(text)
    return found[1] if found else ""


def _by(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    found: dict[K, list[T]] = defaultdict(list)
    for one in items:
        found[key(one)].append(one)
    return found


CHECKS: dict[str, Callable[[Facts], Findings]] = {
    check.__name__: check
    for check in (
        answered, once, order, remembered, commands, decisions, authority, effects, mails, cards, records, lanes, files,
        mornings, escalated, witnessed, seen, dated,
    )
}  # fmt: skip


def build_table(facts: Facts, seconds: float) -> str:
    """The figures of a run, as plain text."""
    tasks = [task for one in facts.requests for task in one.tasks]
    rows: dict[str, object] = {
        "seconds": round(seconds),
        "messages": len(facts.spoken),
        "their runs": Counter(str(one.status) for one in facts.runs),
        "told that the model is away": sum(":down:" in one.key for one in facts.posts),
        "answers not to the point": sum(bool(OFF.search(one.text)) for one in facts.posts),
        "requests": len(facts.requests),
        "their tasks": Counter(task.outcome or "open" for task in tasks),
        "cards": Counter(str(one.state) for one in facts.approvals),
        "their effects": Counter(str(one.effect) or "none" for one in facts.approvals),
        "mails that arrived": len(facts.mails),
        "files shown": len(facts.shown),
        "morning lists": sum(bool(MORNING.match(one.key)) for one in facts.posts),
        "in the journal": Counter(one.kind for one in facts.journal),
        "items handed out again": len(facts.tries),
        "lanes lost to another process": sum(n for event, n in facts.logged.items() if event.startswith("lane lost")),
        "posts said twice": len(repeated(facts.posts)),
        "people, faults, troubles": facts.counts,
    }
    width = max(map(len, rows))
    return "\n".join(f"  {name.ljust(width)}  {_format_value(value)}" for name, value in rows.items())


def _format_value(value: object) -> str:
    told = sorted(value.items()) if isinstance(value, dict) else ()
    return ", ".join(f"{name} {times}" for name, times in told if times) or str(value or 0)
