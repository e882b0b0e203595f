"""What a conversation remembers against a plain account of it, under any order of turns, waiting runs, folds that are
begun, end, fail or are killed, and *forget* at any moment."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, TypeVar

import pytest
from fakeredis import FakeAsyncRedis
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky

from bot.agent.loop import ModelInUse
from bot.agent.model import Messages, ModelReply
from bot.app.dispatch import parse_work
from bot.app.resources import build_stores
from bot.chat.messages import Message
from bot.core.errors import ModelUnavailableError
from bot.core.history_entries import HistoryEntry, estimate_tokens
from bot.core.records import Run
from bot.core.timing import Timing
from bot.features.summaries.compaction import CompactConversation, HistoryCompactor, build_compaction_request
from bot.features.summaries.summary import Summarizer
from bot.queue.keys import Keys
from bot.queue.lanes import Lanes, Lease, RetryLater
from bot.queue.writes import HDel, HSet, apply_writes
from bot.storage.history import HistoryStore
from bot.storage.runs import RunStore
from tests.features.grounding.battery import nobody
from tests.harness.memory_bot import OUTSIDE, build_settings
from tests.harness.memory_platform import DM
from tests.tools.office import People

pytestmark = pytest.mark.slow

CAP = 1_200
happened: Counter[str] = Counter()
"""What became of folds, in all plays together."""
SEEN = re.compile(r"\[t(\d+)\]|- noted ([\d ]+)")
T = TypeVar("T")


@dataclass
class Notes:
    """A model whose notes are the numbers of all turns that it was told of, once it may answer."""

    may: asyncio.Event = field(default_factory=asyncio.Event)
    away: bool = False

    async def request_reply(self, messages: Any, extra: str, *, timeout_s: float) -> ModelReply:
        asked: Messages = json.loads(f"[{','.join(messages)}]")
        await self.may.wait()
        if self.away:
            raise ModelUnavailableError("away")
        return ModelReply(json.dumps({"lines": ["noted " + " ".join(map(str, sorted(numbers(asked[1]["content"]))))]}))


def numbers(text: str) -> set[int]:
    return {int(n) for one, many in SEEN.findall(text) for n in (one or many).split()}


class Account:
    """`turns`: numbers of all since *forget*; `waiting`: of those whose run waits; `over`: the cap was ever reached."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.redis = FakeAsyncRedis(decode_responses=True, protocol=3, legacy_responses=False)
        keys = Keys(partitions=2)
        self.lanes, self.runs = Lanes(self.redis, keys, lease_ms=3_600_000), RunStore(self.redis, keys)
        self.history, self.home = HistoryStore(self.redis, keys, max_tokens=CAP), keys.get_partition(DM.conversation)
        stores = build_stores(build_settings(), OUTSIDE, Timing(), self.redis, keys)
        self.next, self.turns, self.waiting, self.over = 0, list[int](), list[int](), False
        self.notes = Notes()
        self.folding = HistoryCompactor(
            stores=replace(stores, runs=self.runs, history=self.history),
            directory=People(),
            model=ModelInUse(self.notes),
            summarizer=Summarizer(self.notes, nobody),
            pause_ms=0,
        )
        self.fold: asyncio.Task[None] | None = None

    def closes(self) -> None:
        self.kill()
        self.do(self.redis.aclose())
        self.loop.close()

    def do(self, step: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(step)

    def write(self, *writes: Any) -> None:
        assert self.do(apply_writes(self.redis, self.lanes.keys, self.home, writes)) == "ok"

    def remember(self, number: int, *texts: str, ends: bool = True) -> Any:
        entries = [
            HistoryEntry.from_content(
                "assistant" if answers else "user", f"[t{number}] {text}", run=f"R{number}", at_ms=number
            )
            for answers, text in zip((len(texts) == 1, True), texts, strict=False)
        ]
        turn = self.history.build_turn_write(DM.conversation, entries)
        known = self.do(self.history.load_history(DM.conversation))
        self.over |= known.tokens + sum(estimate_tokens(one.message) for one in entries) > CAP
        message = Message(id=f"E{number}", place=DM, person="U1", text="x", at="1.0")
        run = Run(id=f"R{number}", message=message, language="zh", created_ms=0)
        return [turn, *(build_compaction_request(self.history, run, known, turn) if ends else [])]

    def turns_come(self, random: Random) -> None:
        for length in [random.randint(50, 300) for _ in range(random.randint(1, 3))]:
            self.write(*self.remember(self.next, "长" * length, "短" * 20))
            self.turns.append(self.next)
            self.next += 1

    def a_turn_that_waits(self, random: Random) -> None:
        index = self.runs._build_paused_key(DM.conversation)
        listed = HSet(index, {f"R{self.next}": "A00x send_email"})
        self.write(*self.remember(self.next, "please", "waits", ends=False), listed)
        self.turns.append(self.next)
        self.waiting.append(self.next)
        self.next += 1

    def a_button(self, random: Random) -> None:
        if not self.waiting:
            return
        number = random.choice(self.waiting)
        self.write(*self.remember(number, "done"), HDel(self.runs._build_paused_key(DM.conversation), f"R{number}"))
        self.waiting.remove(number)
        if number not in self.turns:  # it was begun before *forget*: only its end is known
            self.turns.append(number)

    def forget(self, random: Random) -> None:
        self.write(*self.history.build_forget_writes(DM.conversation))
        self.turns, self.over = [], False

    def a_fold_begins(self, random: Random) -> None:
        leases = self.do(self.lanes.claim("p", self.home, 1)) if self.fold is None else []
        if leases:
            self.notes.may.clear()
            self.notes.away, self.lane = random.random() < 0.3, leases[0].lane
            self.fold = self.loop.create_task(self.work(leases[0]))
            self.do(self.go_on())

    async def go_on(self) -> None:
        """Let the fold come to where it waits for the model."""
        for _ in range(50):
            await asyncio.sleep(0)

    async def work(self, lease: Lease) -> None:
        fold = parse_work(lease.item.body)
        assert isinstance(fold, CompactConversation)
        try:
            await lease.commit(*await self.folding.compact_history(lease, fold))
        except RetryLater as later:
            await lease.retry(later.delay_ms, str(later), count=later.counted)

    def it_is_killed(self, random: Random) -> None:
        if self.fold is not None:
            self.kill()
            self.do(self.redis.zadd(self.lanes.keys.build_key(self.home, "z"), {self.lane: 1}, xx=True))

    def it_ends(self, random: Random) -> None:
        if self.fold is None:
            return
        self.notes.may.set()
        self.do(asyncio.wait_for(self.fold, 30))
        self.fold = None
        happened.update([record.kind for record in self.do(self.noted())])

    async def noted(self) -> list[Any]:
        found = [one async for one in self.folding.stores.journal.stream_records()]
        await self.redis.delete(self.lanes.keys.build_key(self.home, "j"))
        return found

    def kill(self) -> None:
        if self.fold is not None:
            self.fold.cancel()
            self.do(asyncio.wait([self.fold]))  # type: ignore[arg-type]
            self.fold = None

    def every_turn_is_accounted_for_once(self) -> None:
        known = self.do(self.history.load_history(DM.conversation))
        there = numbers("".join(known.stored_entries))
        folded = numbers("".join(f"- {line}" for line in known.summary.lines)) if known.summary else set()
        assert not there & folded, "nothing twice"
        assert there | folded <= set(self.turns), "nothing that was forgotten"
        lost = set(self.turns) - there - folded
        assert not lost or self.over, "nothing is lost while there is room"
        assert known.tokens <= CAP or len(known.stored_entries) == 1
        if known.summary:
            assert known.summary.turns == len(folded), "it claims what it stands for, and no more"
            assert (known.summary.since_ms, known.summary.until_ms) == (min(folded), max(folded))
            missing = [number for number in lost if number > min(folded)]
            assert not missing or known.summary.has_gap or known.has_gap, "and says so where something is missing"


STEPS = {
    "turns_come": 6, "a_fold_begins": 5, "it_ends": 4, "it_is_killed": 1, "forget": 0.5, "a_turn_that_waits": 1,
    "a_button": 1,
}  # fmt: skip
"""What can happen, and how often it does: a fold takes a long conversation."""


def played(times: int, **more: Any) -> None:
    """Plays, drawn anew; what happened in all of them is in `happened`."""

    @settings(max_examples=times, deadline=None, **more)
    @given(st.randoms(use_true_random=True))
    def play(random: Random) -> None:
        account = Account()
        try:
            for name in random.choices([*STEPS], [*STEPS.values()], k=50):
                getattr(account, name)(random)
                account.every_turn_is_accounted_for_once()
        finally:
            account.closes()

    happened.clear()
    play()


def test_the_account_holds() -> None:
    played(60)
    assert happened["history.folded"] > 40 and happened["history.not_folded"] > 20, "there was something to see"


def test_negative_control_a_script_that_does_not_compare_is_found(blind: None) -> None:
    """The same, with a fold that writes whatever has happened meanwhile."""
    with pytest.raises((AssertionError, Flaky, ExceptionGroup)):
        played(300, database=None, phases=[Phase.generate])
