"""Three hundred tasks, each pressed twenty-four times at once: by a dozen sets that show it, and a dozen times on its
own card, through real lanes and several workers. Each is decided once."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from redis.asyncio import Redis

from bot.approvals.openings import measure_open_time
from bot.approvals.state import create_approval
from bot.chat.messages import Click
from bot.core.records import Approval, ApprovalState, OpenCard
from bot.core.timing import Timing
from bot.core.work_items import APPROVE_SET, build_set_id
from bot.features.sets.set_store import ApprovalSet, ApprovalSetStore, SetEntry
from bot.queue.lanes import Lanes
from bot.queue.worker import Worker
from bot.queue.writes import HSet, Write, apply_writes
from bot.storage.approvals import RECORD_KIND, ApprovalStore
from bot.storage.dead_letters import DeadLetterStore
from tests.approvals.approval_walk import make_plan
from tests.harness.approval_sets import put_press
from tests.harness.memory_bot import TODAY, Bot
from tests.harness.tools import build_tool
from tests.tools.company import LI
from tools.spec import CardChoice, EffectPlace, FrozenModel, Gate, Privacy, TextRef, ToolOutcome
from tools.tool import ToolContext

SETS, SINGLES, GROUP, WORKERS = 12, 12, 5, 4


class SignArgs(FrozenModel):
    task: str
    decision: str = ""


class Signing:
    """A tool whose effect can be counted, and must not be repeated."""

    def __init__(self) -> None:
        self.done = Counter[str]()
        effect = {"gate": Gate.APPROVE, "effect_place": EffectPlace.ENGINE, "stored_args": SignArgs}
        more = {"is_idempotent": False, "privacy": Privacy.PRIVATE}
        self.tool = build_tool("sign", SignArgs, self.run, **effect, **more)

    async def run(self, context: ToolContext, args: SignArgs) -> ToolOutcome:
        self.done[args.task] += 1
        return ToolOutcome(data={}, summary=TextRef(key="result.tasks", params={"n": 1}))


async def open_cards(bot: Bot, count: int) -> list[Approval]:
    bot.now_offset = datetime.now(UTC) - TODAY  # timers use the clock of Redis
    cards = []
    for number in range(count):
        task = f"T-{number:04d}"
        choices = tuple(CardChoice(name=one, fixed_args={"decision": one}) for one in ("approve", "reject"))
        about = {"args": {"task": task}, "deciders": (LI.id,), "choices": choices, "subject": task}
        proposal = make_plan(number, **about)
        id_ = bot.keys.derive_id("A", bot.keys.get_partition(task), task)
        asked = OpenCard(approval=id_, tool="sign", gate=Gate.APPROVE, proposal=proposal, caller="", place=None)
        period = await measure_open_time(bot.handlers.cards, proposal, "")
        card = create_approval(None, asked, period)
        opened = bot.approvals.build_open_writes(card, period.reminder_ms)
        await apply_writes(bot.redis, bot.keys, bot.keys.get_partition(id_), opened)
        cards.append(card)
    return cards


async def open_set(bot: Bot, name: str, cards: list[Approval]) -> ApprovalSet:
    about = {"zh": "x", "en": "x"}
    entries = tuple(
        SetEntry(approval=c.id, version=c.version, seal=c.seal, request=c.proposal.subject, about=about) for c in cards
    )
    ticked = tuple(range(len(entries)))
    made = ApprovalSet(id=build_set_id(LI.id, name), person=LI.id, entries=entries, ticked=ticked, made_ms=0)
    store = ApprovalSetStore(bot.redis, bot.keys)
    await apply_writes(bot.redis, bot.keys, bot.keys.get_partition(made.id), [store.build_save_write(made)])
    return made


@asynccontextmanager
async def workers(bot: Bot, count: int) -> AsyncIterator[None]:
    """Run workers like those of several processes over one Redis."""
    bury = DeadLetterStore(bot.redis, bot.keys).build_bury_writes
    timing = Timing(poll_s=0.05, relay_pause_s=0.02, grace_s=5)
    lanes = [Lanes(bot.redis, bot.keys, lease_ms=30_000, record_kind=RECORD_KIND) for _ in range(count)]
    running = [Worker(one, bot.dispatcher, bury=bury, concurrency=16, timing=timing) for one in lanes]
    tasks = [asyncio.create_task(one.run()) for one in running]
    try:
        yield
    finally:
        for one in running:
            one.stop()
        await asyncio.gather(*tasks)


async def press_everything(bot: Bot, cards: list[Approval]) -> None:
    """Press every card by sets and by itself, all at once, until nothing is left to do."""
    groups = [cards[start : start + GROUP] for start in range(0, len(cards), GROUP)]
    sets = [await open_set(bot, f"{n}:{m}", group) for n, group in enumerate(groups) for m in range(SETS)]
    presses = [(APPROVE_SET, "set", one) for one in sets]
    presses += [("approve", str(n), one) for one in cards for n in range(SINGLES)]
    puts = [
        put_press(bot, choice, id_=f"{name}:{one.id}", version=one.version, lane=one.id)
        for choice, name, one in presses
    ]
    async with workers(bot, WORKERS):
        for start in range(0, len(puts), 50):
            await asyncio.gather(*puts[start : start + 50])
        while any([await bot.redis.zcard(bot.keys.build_key(n, "z")) for n in range(bot.keys.partitions)]):
            await asyncio.sleep(0.05)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_three_hundred_tasks_pressed_twenty_four_times_are_decided_once(redis: Redis) -> None:
    signing = Signing()
    bot = Bot(redis, tools=[signing.tool])
    cards = await open_cards(bot, 300)
    await press_everything(bot, cards)
    assert signing.done == Counter({one.proposal.subject: 1 for one in cards})
    ended = [await bot.load_approval(one.id) for one in cards]
    assert {one.state for one in ended if one} == {ApprovalState.DECIDED}
    assert len({one.press_id for one in ended if one}) == 300
    kinds = Counter(await bot.list_journal_kinds())
    assert kinds["effect.done"] == 300
    assert kinds["approval.refused"] + 300 <= 300 * (SETS + SINGLES), "every other press was answered"


async def test_without_the_decision_being_asked_for_they_would_be_decided_again(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: every press believes that its card is unchanged, and the deciding write accepts everything."""

    def overwrite(store: ApprovalStore, click: Click, *, ends: ApprovalState, now_ms: int) -> tuple[Write, ...]:
        return (HSet(store.build_approval_key(click.approval), {"state": ends.value, "press_id": click.id}),)

    monkeypatch.setattr(ApprovalStore, "build_decide_writes", overwrite)
    signing = Signing()
    bot = Bot(redis, tools=[signing.tool])
    cards = {one.id: one for one in await open_cards(bot, 3)}
    monkeypatch.setattr(ApprovalStore, "read_from_lease", lambda store, lease: cards.get(lease.lane))
    await press_everything(bot, list(cards.values()))
    assert all(count >= SINGLES for count in signing.done.values()) and len(signing.done) == 3
