"""What a conversation remembers: its latest turns, capped by tokens, oldest out first, gone after thirty days; and in
front of them, once it has grown long, a summary of those before.

All of it is one list. Its values are `tokens:sum|…`: what each costs, and how much was ever remembered up to its end.
So the first and the last value tell what the list holds, and whether anything is missing between the summary and the
turns. What the calls of a run came to is in it as a line each; of the latest runs a second list has the calls
themselves, so that only what is always sent is counted and folded.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline

from bot.entries import Entry, Kind, PastCall, Sent, estimate
from bot.store.calls import CALLS_KEPT, TAB, list_tools, read_latest, write_calls
from bot.store.connect import reaching
from bot.store.keys import Keys
from bot.store.writes import Delete, Latest, Remember, Replace, Write

KEPT_MS = 30 * 24 * 3_600_000
SUMMARY = 600
"""What a summary may cost (tokens); where less than four times as much is remembered, a quarter of that."""
FOLDED, REGION = 16_000, 2_000
"""At most so much is folded at once (tokens, by one turn more), and looked through for it (entries): one script takes
all of them."""
CALL = 24
"""What a call costs besides its arguments and its result (tokens)."""
_FOLDED = "="
"""What a summary has where entries have their run."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What older turns came to, as a model has put it."""

    message: str
    """What a model reads later, as JSON."""
    lines: tuple[str, ...]
    since_ms: int
    until_ms: int
    """The first and the last entry that it stands for (epoch)."""
    turns: int
    """How many turns it stands for."""
    missed: bool = False
    """Something between these was dropped for want of room before it could be folded."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a conversation remembers, oldest first."""

    turns: Sequence[str]
    """Its entries as they are stored: what every turn needs of them is in their text."""
    start: int = 0
    """The first that is shown: never an answer whose question has been trimmed away."""
    folded: str = ""
    """The summary of what was before, as it is stored."""
    calls: Sequence[str] = ()
    """The calls of the latest runs, as they are stored."""

    def sent(self, *, without: str) -> list[str]:
        """Messages for a model, as JSON, with a line for each call; not those of one run."""
        of_it, values = f"|{without}{TAB}", [*filter(None, [self.folded]), *self.turns[self.start :]]
        return [value[value.rindex(TAB) + 1 :] for value in values if of_it not in value]

    def unfolded(self, *, without: str) -> list[Sent]:
        """The same with the calls of the latest runs themselves, each once, with how it has ended by now."""
        kept = read_latest(self.calls, without)
        if not kept:
            return [Sent(message) for message in self.sent(without=without)]
        ended = {call.uid: call for calls in kept.values() for call in calls}
        sent = [Sent(self.folded[self.folded.rindex(TAB) + 1 :])] if self.folded else []
        of_it = f"|{without}{TAB}"
        for value in self.turns[self.start :]:
            if of_it in value:
                continue
            calls = kept.get(_place(value))
            told = None if calls is None else [ended.pop(call.uid) for call in calls if call.uid in ended]
            sent.append(Sent(value[value.rindex(TAB) + 1 :], told))
        return sent

    def called_tools(self) -> list[str]:
        """Names of the tools that the latest runs have called, each once, the newest last."""
        return list_tools(self.calls)

    @property
    def entries(self) -> list[Entry]:
        return [_entry(value) for value in self.turns[self.start :]]

    @property
    def summary(self) -> Summary | None:
        return _summary(self.folded) if self.folded else None

    @property
    def tokens(self) -> int:
        """What all of it costs."""
        held = _upto(self.turns[-1]) - _begins(self.turns[0]) if self.turns else 0
        return held + (_tokens(self.folded) if self.folded else 0)

    @property
    def gap(self) -> bool:
        """Turns between the summary and the first entry were dropped for want of room."""
        return bool(self.folded and self.turns) and _begins(self.turns[0]) > _upto(self.folded)

    def oldest(self, waiting: Collection[str]) -> Part | None:
        """Of what is to be folded, about half of all: whole turns. Never the newest one, nor those of runs that are
        `waiting` for a button: they stay as they are. None if there is nothing else."""
        places, run = dict[str, list[int]](), ""
        for place, value in enumerate(self.turns):
            run = _run(value) or run  # what happened between two turns goes with the one before it
            places.setdefault(run, []).append(place)
        staying = {*waiting, run}
        taken, tokens, most = set[int](), 0, min(self.tokens / 2, FOLDED)
        for run, where in places.items():
            if tokens < most and run not in staying and where[-1] < REGION:
                taken.update(where)
                tokens += sum(_tokens(self.turns[place]) for place in where)
        return self._part(taken) if taken else None

    def _part(self, taken: set[int]) -> Part:
        head = self.turns[: max(taken) + 1]
        folded = [_entry(value) for place, value in enumerate(head) if place in taken]
        kept = [value for place, value in enumerate(head) if place not in taken]
        begun = {entry.run for entry in folded if entry.kind is Kind.SAID and not entry.answers}
        so_far = self.summary
        is_torn = any(entry.run and entry.run not in begun for entry in folded)
        missed = self.gap or is_torn or bool(so_far and so_far.missed)
        return Part([*filter(None, [self.folded]), *head], folded, kept, so_far, missed)

    def __bool__(self) -> bool:
        return bool(self.folded) or self.start < len(self.turns)


@dataclass(frozen=True, slots=True)
class Part:
    """The oldest of a conversation: what is folded, and what stays."""

    before: Sequence[str]
    """All of it as it is stored, the summary so far included."""
    entries: Sequence[Entry]
    """What is folded."""
    kept: Sequence[str]
    """What stays, as it is stored."""
    summary: Summary | None
    """The one so far."""
    missed: bool
    """Something between these was dropped for want of room, now or before."""

    @property
    def since_ms(self) -> int:
        first = min(entry.at_ms for entry in self.entries)
        return min(first, self.summary.since_ms) if self.summary else first

    @property
    def until_ms(self) -> int:
        last = max(entry.at_ms for entry in self.entries)
        return max(last, self.summary.until_ms) if self.summary else last

    @property
    def turns(self) -> int:
        return len({entry.run for entry in self.entries if entry.run}) + (self.summary.turns if self.summary else 0)


@dataclass(frozen=True, slots=True)
class History:
    """Histories by conversation. `max_tokens` counts the estimate of what is always sent, newest first; the calls of
    the latest runs come on top (`UNFOLDED`)."""

    redis: Redis
    keys: Keys
    max_tokens: int = 8_000
    kept_ms: int = KEPT_MS

    @property
    def mark(self) -> int:
        """What more than this costs (tokens) is folded: before anything has to be dropped."""
        return self.max_tokens * 3 // 4

    @property
    def summary_tokens(self) -> int:
        """What the lines of a summary may cost."""
        return min(SUMMARY, self.max_tokens // 4)

    def _key(self, conversation: str) -> str:
        return self.keys.key(self.keys.partition(conversation), "h", conversation)

    def _calls(self, conversation: str) -> str:
        return self.keys.key(self.keys.partition(conversation), "calls", conversation)

    def calls(self, conversation: str, entry: Entry, calls: Sequence[PastCall]) -> Write:
        """The write that keeps the calls of an entry; those of the oldest go."""
        costs = (CALL + estimate(json.dumps(one.args, ensure_ascii=False)) + estimate(one.result) for one in calls)
        value = write_calls(entry.run, entry.at_ms, sum(costs), calls)
        return Latest(self._calls(conversation), [value], CALLS_KEPT, ttl_ms=self.kept_ms)

    def turn(self, conversation: str, entries: Iterable[Entry]) -> Remember:
        """The write that adds entries, oldest first."""
        return Remember(self._key(conversation), [_value(one) for one in entries], self.max_tokens, ttl_ms=self.kept_ms)

    def grown(self, known: Remembered, turn: Remember) -> bool:
        """With this turn there is enough to fold."""
        return known.tokens + sum(_counted(value) for value in turn.values) > self.mark

    def fold(self, conversation: str, part: Part, summary: Summary) -> Replace:
        """The write that puts a summary in the place of what it stands for. It refuses if that is not as it was: it has
        been forgotten, or folded by somebody else, or there was no room for any of it."""
        at = _upto(part.before[-1]) - sum(map(_tokens, part.kept))
        after = [_folded(summary, at)]
        for value in part.kept:  # they come behind what is folded now, and so does their count
            at += _tokens(value)
            after.append(f"{_tokens(value)}:{at}|{value.partition('|')[2]}")
        return Replace(self._key(conversation), part.before, after, self.max_tokens)

    async def load(self, conversation: str) -> Remembered:
        """Raises StoreDown."""
        with reaching():
            async with self.redis.pipeline(transaction=False) as both:
                self.wanted(both, conversation)
                return self.read(*await both.execute())

    def wanted(self, pipe: Pipeline, conversation: str) -> None:
        """The same as a part of a pipeline; `read` understands the two answers."""
        pipe.lrange(self._key(conversation), 0, -1)
        pipe.lrange(self._calls(conversation), 0, -1)

    def read(self, values: Sequence[Any], calls: Sequence[Any]) -> Remembered:
        folded = values[0] if values and _run(values[0]) == _FOLDED else ""
        turns = values[1:] if folded else values
        start = next((i for i, one in enumerate(turns) if _may_begin(_entry(one))), len(turns))
        return Remembered(turns, start, folded, calls)

    def forget(self, conversation: str) -> tuple[Write, ...]:
        """The writes after which nothing of it is known."""
        return (Delete(self._key(conversation)), Delete(self._calls(conversation)))


def _value(entry: Entry) -> str:
    """`tokens|run⇥when⇥said⇥message`; with `kind⇥` before the message unless it was said."""
    said = "" if entry.said is None else json.dumps(entry.said, ensure_ascii=False)
    kind = [entry.kind.value] if entry.kind else []
    return f"{estimate(entry.message)}|" + TAB.join((entry.run, str(entry.at_ms), said, *kind, entry.message))


def _entry(value: str) -> Entry:
    run, at_ms, said, *kind, message = value.partition("|")[2].split(TAB)
    return Entry(message, run, json.loads(said) if said else None, int(at_ms), Kind("".join(kind)))


def _may_begin(entry: Entry) -> bool:
    """What a conversation may begin with: nothing that belongs to a question which has been trimmed away."""
    return not entry.answers and (entry.kind is Kind.SAID or not entry.run)


def _place(value: str) -> str:
    """Run and time of an entry with calls."""
    run, at_ms, _, kind, *_ = [*value.partition("|")[2].split(TAB, 4), ""]
    return f"{run}{TAB}{at_ms}" if kind == Kind.CALLS else ""


def _folded(summary: Summary, upto: int) -> str:
    """`tokens:sum|=⇥since⇥about⇥message`: the sum is that of the last turn it stands for."""
    about = [summary.until_ms, summary.turns, summary.missed, *summary.lines]
    parts = (_FOLDED, str(summary.since_ms), json.dumps(about, ensure_ascii=False), summary.message)
    return f"{estimate(summary.message)}:{upto}|" + TAB.join(parts)


def _summary(value: str) -> Summary:
    _, since_ms, about, message = value.partition("|")[2].split(TAB, 3)
    until_ms, turns, missed, *lines = json.loads(about)
    return Summary(message, tuple(lines), int(since_ms), until_ms, turns, missed)


def _run(value: str) -> str:
    return value.partition("|")[2].partition(TAB)[0]


def _counted(value: str) -> int:
    """Tokens of a value that is not stored yet."""
    return int(value.partition("|")[0])


def _tokens(value: str) -> int:
    return int(value.partition(":")[0])


def _upto(value: str) -> int:
    """What was ever remembered up to its end (tokens)."""
    return int(value.partition("|")[0].partition(":")[2])


def _begins(value: str) -> int:
    return _upto(value) - _tokens(value)
