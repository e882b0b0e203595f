"""Everything acknowledged, begun outside or called done is on a replica: a failover loses and repeats nothing.

A server and its replica are behind proxies. One proxy holds back the replica's data; the other is the address that the
bot knows, whichever of the two is the master."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from bot.approvals.outbox import relay_events
from bot.core.errors import LeaseLost, StoreUnconfirmedError
from bot.core.records import EffectState
from bot.core.work_items import APPROVE_SET, TICKED, OpenSet
from bot.ops.doctor import describe_replicas
from bot.queue import scripts
from bot.queue.keys import Keys
from bot.queue.lanes import CheckpointResult, EnqueueResult, Lanes, Lease
from bot.queue.scripts import Arg, Confirmation, ConfirmedBy, ScriptRunner, is_confirmed
from bot.queue.store_watch import StoreWatch
from bot.queue.worker import GIVE_UP_TRIES
from bot.queue.writes import EnqueueItem, Set, apply_writes
from bot.redis.connect import connect_redis
from tests.harness.approval_sets import card_of, find_set_beside, press, start_claims
from tests.harness.cluster import HOST, Node, cluster, server, server_program
from tests.harness.memory_bot import Bot
from tests.harness.memory_mailer import MemoryMailer
from tests.harness.presses import LEAVE, proposed
from tests.harness.programs import free_ports
from tests.qa.chaos.proxy import Proxy, open_proxy
from tests.stories.script import mail
from tests.tools.company import LI, ZHANG
from tests.tools.office import SICK
from tools.effect_parts import PartState
from tools.spec import Person
from tools.workflow.engine.port import CommandResult
from tools.workflow.engine.state import Status
from tools.workflow.engine.store import RedisStore

KEYS = Keys()
PATIENT_MS, VAIN_MS = 5_000, 200
"""How long a call waits for a replica that gets everything, and for one that gets nothing."""
HOME = KEYS.get_partition("D1")
ELSEWHERE = next(lane for lane in map(str, range(99)) if KEYS.get_partition(lane) != HOME)


@dataclass
class Pair:
    master: Node
    replica: Node
    link: Proxy = field(init=False)
    """The proxy for data to the replica."""
    front: Proxy = field(init=False)
    """The proxy whose address is the store's."""
    redis: Redis = field(init=False)
    """A client of whichever is the master."""

    async def hold(self) -> None:
        """Let the replica get what there is, and nothing from now on."""
        await self.wait_for_replica()
        self.link.flowing.clear()
        scripts.TIMEOUT_MS = VAIN_MS

    def go_on(self) -> None:
        self.link.flowing.set()
        scripts.TIMEOUT_MS = PATIENT_MS

    async def fail_over(self) -> None:
        """Kill the master with its unsent data, and let the replica take over, which has none."""
        scripts.TIMEOUT_MS = VAIN_MS
        await self.master.kill()
        self.link.cut_all()
        await self.replica.until("REPLICAOF NO ONE", "+OK")
        self.master, self.replica = self.replica, self.master
        self.front.cut_all()

    async def load_script(self) -> None:
        """Let the servers know the script of writes."""
        await apply_writes(self.redis, KEYS, HOME, [Set(KEYS.build_key(HOME, "x"), "1")])

    async def wait_for_replica(self) -> None:
        async with self.redis.pipeline(transaction=False) as both:
            both.set("seen", "1")
            both.execute_command("WAIT", 1, 10_000)
            assert (await both.execute())[1] == 1

    async def change_places(self) -> None:
        """Fail over, and let the former master come back as the replica."""
        await self.fail_over()
        await self.get_replica_back()

    async def get_replica_back(self) -> None:
        await self.replica.start()
        await self.replica.until(f"REPLICAOF {HOST} {self.master.port}", "+OK")
        await self.replica.until("INFO replication", "master_link_status:up")
        scripts.TIMEOUT_MS = PATIENT_MS


@pytest.fixture
async def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pair]:
    if not server_program():
        pytest.skip("no server program of version 7 or later")
    monkeypatch.setattr(scripts, "TIMEOUT_MS", PATIENT_MS)
    at_once = {"repl-diskless-sync-delay": "0"}
    async with server(tmp_path / "one", at_once) as one, server(tmp_path / "two", at_once) as two:
        pair = Pair(one, two)

        async def reach_master() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            return await asyncio.open_connection(HOST, pair.master.port)

        async def reach_first() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            return await asyncio.open_connection(HOST, one.port)

        async with open_proxy(reach_first) as pair.link, open_proxy(reach_master) as pair.front:
            await two.until(f"REPLICAOF {HOST} {pair.link.port}", "+OK")
            await two.until("INFO replication", "master_link_status:up")
            pair.redis = await connect_redis(pair.front.url)
            yield pair
            await pair.redis.aclose()


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while not await is_so():
            await asyncio.sleep(0.001)


async def is_started(bot: Bot, card: str) -> bool:
    return (await bot.load_approval(card)).effect is EffectState.STARTED


# Acceptance


async def test_an_item_that_no_replica_has_is_not_acknowledged_and_is_accepted_once(pair: Pair) -> None:
    lanes = Lanes(pair.redis, KEYS, confirmation=Confirmation(ConfirmedBy.REPLICA))
    assert await lanes.enqueue("D1", "E0", "{}") is EnqueueResult.NEW
    await pair.hold()
    for _ in range(2):  # the second call is a duplicate, and no replica has the first one yet
        with pytest.raises(StoreUnconfirmedError):
            await lanes.enqueue_or_claim("me", "D2", "E1", "{}")
    assert await Lanes(pair.redis, KEYS).enqueue("D3", "E2", "{}") is EnqueueResult.NEW, "control"
    pair.go_on()
    assert await lanes.enqueue("D2", "E1", "{}") is EnqueueResult.DUPLICATE
    [lease] = await lanes.claim("other", KEYS.get_partition("D2"), 1)
    assert (lease.lane, lease.item.tries) == ("D2", 1), "nobody holds it who has given it up"


async def test_an_item_that_no_replica_has_is_unconfirmed_also_where_another_server_takes_over(pair: Pair) -> None:
    """Its lane cannot be given back there: that server knows of neither."""

    class FailingOverLate(Lanes):
        async def run_confirmed_script(self, script: str, lane: str, *args: Arg) -> tuple[Any, bool, str]:
            answer = await super().run_confirmed_script(script, lane, *args)
            await pair.fail_over()
            return answer

    lanes = FailingOverLate(pair.redis, KEYS, confirmation=Confirmation(ConfirmedBy.REPLICA))
    await pair.hold()
    with pytest.raises(StoreUnconfirmedError):
        await lanes.enqueue_or_claim("me", "D1", "E1", "{}")
    assert not await lanes.has_pending_items("D1")


async def test_a_call_that_the_client_repeats_waits_for_what_it_wrote_the_first_time(pair: Pair) -> None:
    """WAIT counts the writes of its own connection, and the first connection is gone with the answer."""
    lanes = Lanes(pair.redis, KEYS, confirmation=Confirmation(ConfirmedBy.REPLICA))
    assert await lanes.enqueue("D0", "E0", "{}") is EnqueueResult.NEW
    await pair.hold()
    pair.front.cuts = 1
    with pytest.raises(StoreUnconfirmedError):
        await lanes.enqueue("D1", "E1", "{}")
    assert pair.front.was_cut == 1
    with pytest.raises(StoreUnconfirmedError):  # nor is the item reported as taken
        await lanes.withdraw_item("D1", "E1")
    pair.go_on()
    assert not await lanes.withdraw_item("D1", "E1")


async def test_an_item_that_is_lost_while_it_is_asked_about_was_never_accepted(pair: Pair) -> None:
    class TakenOver(Lanes):
        async def run_confirmed_script(self, script: str, lane: str, *args: Arg) -> tuple[Any, bool, str]:
            await pair.change_places()
            return await super().run_confirmed_script(script, lane, *args)

    await pair.load_script()
    await pair.hold()
    await Lanes(pair.redis, KEYS).enqueue("D1", "E1", "{}")
    lanes = TakenOver(pair.redis, KEYS, confirmation=Confirmation(ConfirmedBy.REPLICA))
    assert await lanes.withdraw_item("D1", "E1")
    assert not await lanes.has_pending_items("D1"), "nor is there one without a body"
    assert await Lanes(pair.redis, KEYS).enqueue("D1", "E1", "{}") is EnqueueResult.DUPLICATE, "nor will it be"


@pytest.mark.parametrize("is_lost", [True, False])
async def test_what_a_commit_writes_elsewhere_is_lost_with_it_or_kept_with_it(pair: Pair, is_lost: bool) -> None:
    lanes = Lanes(pair.redis, KEYS, confirmation=Confirmation(ConfirmedBy.REPLICA))
    await lanes.enqueue("D1", "E1", "{}")
    [lease] = await lanes.claim("me", HOME, 1)
    if is_lost:
        await pair.hold()
    await lease.commit(Set(KEYS.build_key(HOME, "x"), "1"), EnqueueItem(ELSEWHERE, "E2", "{}"))
    if not is_lost:
        await pair.wait_for_replica()
    await pair.fail_over()
    assert (await lanes.has_pending_items("D1"), await lanes.has_pending_items(ELSEWHERE)) == (is_lost, not is_lost)


async def test_what_a_commit_writes_elsewhere_in_a_cluster_is_confirmed_before_it_pops(pair: Pair) -> None:
    """Otherwise another server could lack that write, and accept the commit nevertheless."""
    lanes = Lanes(pair.redis, KEYS, confirmation=Confirmation(ConfirmedBy.REPLICA))
    lanes.scripts = replace(lanes.scripts, wakeup_list="")  # as on a cluster
    await lanes.enqueue("D1", "E1", "{}")
    await pair.load_script()
    [lease] = await lanes.claim("me", HOME, 1)
    await pair.hold()
    committing = asyncio.create_task(lease.commit(EnqueueItem(ELSEWHERE, "E2", "{}")))
    await until(lambda: lanes.has_pending_items(ELSEWHERE))
    await pair.change_places()
    await asyncio.wait_for(committing, 20)
    assert (await lanes.has_pending_items("D1"), await lanes.has_pending_items(ELSEWHERE)) == (False, True)


@pytest.mark.parametrize("by", [ConfirmedBy.REPLICA, ConfirmedBy.SERVER])
async def test_what_was_acknowledged_survives_a_failover(pair: Pair, by: ConfirmedBy) -> None:
    lanes, acknowledged = Lanes(pair.redis, KEYS, confirmation=Confirmation(by)), list[str]()
    for number in range(6):
        if number == 3:
            await pair.hold()
        with suppress(StoreUnconfirmedError):
            await lanes.enqueue(f"D{number}", f"E{number}", "{}")
            acknowledged.append(f"D{number}")
    await pair.fail_over()
    lost = [lane for lane in acknowledged if not await lanes.has_pending_items(lane)]
    assert lost == ([] if by is ConfirmedBy.REPLICA else ["D3", "D4", "D5"])


async def test_by_itself_it_waits_for_a_replica_as_long_as_there_is_one(pair: Pair) -> None:
    by_itself = Confirmation(ConfirmedBy.AUTO)
    lanes = Lanes(pair.redis, KEYS, confirmation=by_itself)
    watch = StoreWatch(scripts=ScriptRunner.from_redis(pair.redis, KEYS), confirmation=by_itself)
    assert not lanes.find_confirm_command("D1")
    await watch.watch_store()
    assert lanes.find_confirm_command("D1") == ("WAIT", 1, scripts.TIMEOUT_MS)
    assert "1 at least" in await describe_replicas(pair.redis), "doctor says so"
    assert await lanes.enqueue("D1", "E1", "{}") is EnqueueResult.NEW
    await pair.replica.kill()
    await pair.master.until("INFO replication", "connected_slaves:0")
    await watch.watch_store()
    assert await lanes.enqueue("D1", "E2", "{}") is EnqueueResult.NEW
    assert "no replica" in await describe_replicas(pair.redis)


async def test_the_disk_confirms_where_that_is_asked_for(pair: Pair) -> None:
    await pair.redis.config_set("appendfsync", "everysec")
    lanes = Lanes(pair.redis, KEYS, confirmation=Confirmation(ConfirmedBy.DISK))
    assert await lanes.enqueue("D1", "E1", "{}") is EnqueueResult.NEW
    await pair.redis.config_set("appendonly", "no")
    with pytest.raises(ResponseError):  # no disk confirmation is possible there, and that is no outage
        await lanes.enqueue("D1", "E2", "{}")


@pytest.mark.parametrize(("silence_s", "count"), [(scripts.SILENT_S, 1), (0, 0)])
async def test_a_replica_that_is_silent_for_too_long_does_not_count(pair: Pair, silence_s: int, count: int) -> None:
    known = ("", 0) * KEYS.partitions
    answers = await ScriptRunner.from_redis(pair.redis, KEYS).run_in_all_partitions("watch", "x", 0, silence_s, *known)
    assert [answer[4] for answer in answers] == [count] * KEYS.partitions


def test_all_replicas_that_answer_are_waited_for() -> None:
    """After the server's death, the slowest may be the one that takes over."""
    assert Confirmation(ConfirmedBy.AUTO, {3: 2}).build_command(3)[:2] == ("WAIT", 2)
    assert Confirmation(ConfirmedBy.REPLICA).build_command(3)[:2] == ("WAIT", 1), "none is known: one at least"
    wait = ("WAIT", 1, 200)
    assert is_confirmed(wait, 1, 1)
    assert not is_confirmed(wait, 1, 2), "one has come since the last look"
    assert is_confirmed(("WAITAOF", 1, 0, 200), [1, 0], 1)


# Takeovers


def build_watch(pair: Pair, lanes: Lanes, *, is_laid_down: bool) -> StoreWatch:
    """The watch of the process of these lanes, which may forget what it remembers."""
    return StoreWatch(
        scripts=ScriptRunner.from_redis(pair.redis, KEYS),
        confirmation=lanes._confirmation,
        lay_down_again=lanes.lay_down_again if is_laid_down else None,
    )


@asynccontextmanager
async def taken_over(pair: Pair, lanes: Lanes, *, is_laid_down: bool) -> AsyncIterator[None]:
    """Lose what is done in the context, and let the process of these lanes notice it."""
    watch = build_watch(pair, lanes, is_laid_down=is_laid_down)
    await watch.watch_store()
    await pair.hold()
    yield
    await pair.fail_over()
    await watch.watch_store()


@pytest.mark.parametrize("is_laid_down", [True, False])
async def test_accepted_items_that_the_new_server_lacks_are_put_again_as_begun(pair: Pair, is_laid_down: bool) -> None:
    lanes = Lanes(pair.redis, KEYS)
    await lanes.enqueue("D1", "E0", "{}")
    async with taken_over(pair, lanes, is_laid_down=is_laid_down):
        lease = await lanes.enqueue_or_claim("me", "D2", "E1", '{"text": 1}', aliases=["m1"])
        assert isinstance(lease, Lease) and not lease.item.is_redelivery
    assert await lanes.has_pending_items("D1")
    assert await lanes.has_pending_items("D2") is is_laid_down
    assert (await lanes.enqueue("D2", "m1", "{}") is EnqueueResult.DUPLICATE) is is_laid_down
    # items from before a takeover count as begun: their handlers look for posts that are there already
    new = await lanes.enqueue_or_claim("me", "D3", "E3", "{}")
    [old] = [one for one in await lanes.claim("me", HOME, 9) if one.lane == "D1"]
    assert isinstance(new, Lease) and new.item.is_redelivery and new.item.tries == 1
    assert old.item.is_redelivery and old.item.tries == 1


async def test_the_next_item_of_a_lease_counts_as_begun_however_long_ago_the_takeover_was(pair: Pair) -> None:
    """The former holder may have begun it on the former server, whose last commit is lost."""
    lanes = Lanes(pair.redis, KEYS)
    for id in ("E1", "E2"):
        await lanes.enqueue("D1", id, "{}")
    async with taken_over(pair, lanes, is_laid_down=True):
        pass
    passed_ms, inbox = 2 * scripts.DOUBT_MS, KEYS.build_key(HOME, "in", "D1")
    await pair.redis.hincrby(KEYS.build_key(HOME, "life"), "since", -passed_ms)
    for n, item in enumerate(await pair.redis.lrange(inbox, 0, -1)):
        put_ms, _, rest = item.partition("|")
        await pair.redis.lset(inbox, n, f"{int(put_ms) - passed_ms}|{rest}")
    await build_watch(pair, lanes, is_laid_down=False).watch_store()
    [lease] = await lanes.claim("me", HOME, 9)
    await lanes.enqueue("D1", "E3", "{}")
    second = await lease.commit()
    third = await lease.commit()
    assert second is not None and (second.id, second.is_redelivery) == ("E2", True)
    assert third is not None and (third.id, third.is_redelivery) == ("E3", False), "control: put long after it"


@pytest.mark.parametrize("is_laid_down", [True, False])
async def test_a_mail_whose_begin_was_lost_is_not_sent_again_by_who_remembers_it(
    pair: Pair, is_laid_down: bool
) -> None:
    """Its card says *unknown*, and a person says what is true."""
    bot = await proposed(pair.redis)
    card, bot.lanes.laying_down_s = bot.chat.cards()[0], 0.1
    async with taken_over(pair, bot.lanes, is_laid_down=is_laid_down):
        await bot.press(card, "send")
        assert len(bot.mailer.mails) == 1
        assert (await bot.load_approval()).effect is EffectState.DONE
    if not is_laid_down:  # control: the person, whose card is open again, presses once more
        await bot.put_press(card, "send")
    await bot.work()
    assert len(bot.mailer.mails) == (1 if is_laid_down else 2)
    assert (await bot.load_approval()).effect is (EffectState.UNKNOWN if is_laid_down else EffectState.DONE)


@pytest.mark.parametrize("is_lost", [True, False])
async def test_a_lease_goes_on_after_a_takeover_exactly_if_nothing_of_it_was_lost(pair: Pair, is_lost: bool) -> None:
    lanes, key = Lanes(pair.redis, KEYS), KEYS.build_key(HOME, "x")
    lease = await lanes.enqueue_or_claim("me", "D1", "E1", "{}")
    assert isinstance(lease, Lease)
    await lease.checkpoint("1", Set(key, "first"))
    if is_lost:
        await pair.hold()
    await lease.checkpoint("2", Set(key, "second"))
    if not is_lost:
        await pair.wait_for_replica()
    await pair.fail_over()
    if not is_lost:
        await lease.checkpoint("3", Set(key, "third"))
        assert await lease.commit() is None
        return
    for write in (lease.checkpoint("3", Set(key, "third")), lease.commit(Set(key, "third"))):
        with pytest.raises(LeaseLost):
            await write
    assert await pair.redis.get(key) == "first"
    [again] = await lanes.claim("other", HOME, 9)  # at once: nobody waits for the end of the lease
    assert again.item.id == "E1" and again.item.is_redelivery
    assert await again.commit() is None


@pytest.mark.parametrize("is_taken_over", [True, False])
async def test_a_lease_that_somebody_else_had_on_the_former_server_is_over(pair: Pair, is_taken_over: bool) -> None:
    """The new server lacks that somebody else took the lane, and still has the token of the first holder."""
    lanes = Lanes(pair.redis, KEYS)
    await lanes.enqueue("D1", "E1", "{}")
    await StoreWatch(scripts=ScriptRunner.from_redis(pair.redis, KEYS)).watch_store()
    [first] = await lanes.claim("first", HOME, 1)
    await pair.redis.zadd(KEYS.build_key(HOME, "z"), {"D1": 1})  # its lease has run out
    if is_taken_over:
        await pair.hold()
        [second] = await lanes.claim("second", HOME, 1)
        await second.commit()
        await pair.fail_over()
        assert await lanes.extend([first]) == [first]
        with pytest.raises(LeaseLost):
            await first.commit()
    else:
        assert await first.commit() is None, "control: nobody else had it"


async def test_presses_of_a_set_that_were_lost_are_pressed_again(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """The press on the set was acknowledged, so it may not end without its presses on the cards."""
    checkpoint = Lease.checkpoint

    async def fail_over_behind_the_presses(lease: Lease, seq: str, *writes: Any, **more: Any) -> CheckpointResult:
        if seq != "press":
            return await checkpoint(lease, seq, *writes, **more)
        monkeypatch.setattr(Lease, "checkpoint", checkpoint)
        await pair.hold()
        result = await checkpoint(lease, seq, *writes, **more)
        await pair.change_places()
        return result

    bot = Bot(pair.redis)
    [request] = await start_claims(bot, 11)
    bot.lanes._confirmation = Confirmation(ConfirmedBy.REPLICA)
    lane = find_set_beside(bot, await card_of(bot, request), near=True)
    await bot.handle_work(lane, "o1", OpenSet(person=LI.id))
    monkeypatch.setattr(Lease, "checkpoint", fail_over_behind_the_presses)
    await press(bot, APPROVE_SET, lane=lane, form={TICKED: "0"})
    assert (await bot.engine.get_request(request)).status is Status.APPROVED


async def test_a_second_part_whose_begin_was_lost_is_not_sent_again(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = await proposed(pair.redis, mail(to=["李四", "王五"]))
    bot.lanes.laying_down_s = 0.1
    watch = build_watch(pair, bot.lanes, is_laid_down=True)
    await watch.watch_store()
    hold_at_checkpoint(monkeypatch, pair, "part:U3:begun")
    await bot.press(bot.chat.cards()[0], "send")
    assert len(bot.mailer.mails) == 2
    await pair.fail_over()
    await watch.watch_store()
    bot.lanes.lease_ms = 20_000
    await bot.work()
    approval = await bot.load_approval()
    assert len(bot.mailer.mails) == 2 and approval.effect is EffectState.UNKNOWN
    assert approval.parts == {"U2": PartState.DONE, "U3": PartState.BEGUN}


@pytest.mark.parametrize("is_laid_down", [True, False])
async def test_a_second_failover_keeps_the_memory_of_a_mail_that_was_begun(pair: Pair, is_laid_down: bool) -> None:
    """It takes the place of the server on which that was laid down, just before another process begins the mail."""
    bot = await proposed(pair.redis)
    sender, bot.lanes.laying_down_s = bot.lanes, 0.5
    await bot.put_press(bot.chat.cards()[0], "send")
    async with taken_over(pair, sender, is_laid_down=False):
        await bot.work()
    assert len(bot.mailer.mails) == 1
    await pair.get_replica_back()
    other = bot.lanes = copy(sender)  # another process, which has begun nothing
    other.begun_effects, other.lease_ms = deque(), 60_000
    [lease] = await other.claim("q", KEYS.get_partition((await bot.load_approval()).id), 1)
    await pair.wait_for_replica()
    await pair.replica.until("REPLICAOF NO ONE", "+OK")  # it gets nothing from now on
    watch = build_watch(pair, sender, is_laid_down=is_laid_down)
    await sender.lay_down_again({*range(KEYS.partitions)})
    await pair.fail_over()
    working = asyncio.create_task(bot.work_on(lease))
    await asyncio.wait({working}, timeout=1)  # nobody has noticed the second failover yet
    await watch.watch_store()
    await asyncio.wait_for(working, 20)
    assert len(bot.mailer.mails) == (1 if is_laid_down else 2)
    assert (await bot.load_approval()).effect is (EffectState.UNKNOWN if is_laid_down else EffectState.DONE)


@pytest.mark.parametrize("tries", [5, 5 + GIVE_UP_TRIES])
async def test_a_press_that_is_given_up_on_a_new_server_is_unknown(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, tries: int
) -> None:
    """The new server may lack that it was begun, and its card says *done*."""
    bot = await proposed(pair.redis)
    watch = StoreWatch(scripts=ScriptRunner.from_redis(pair.redis, KEYS))
    await watch.watch_store()
    hold_at_checkpoint(monkeypatch, pair, "begin:1")
    await bot.press(bot.chat.cards()[0], "send")
    assert len(bot.mailer.mails) == 1
    await pair.fail_over()
    await watch.watch_store()
    bot.lanes.lease_ms = 20_000
    lane = (await bot.load_approval()).id
    await pair.redis.hset(KEYS.build_key(KEYS.get_partition(lane), "st", lane), "tries", str(tries))
    await bot.work()
    assert (await bot.load_approval()).effect is EffectState.UNKNOWN


async def test_control_given_up_without_a_takeover_it_was_not_begun(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> bool:
        raise RuntimeError

    bot = await proposed(redis)
    monkeypatch.setattr(Lease, "begin", fail)
    await bot.press(bot.chat.cards()[0], "send")
    assert (await bot.load_approval()).effect is EffectState.FAILED


# Effects


@pytest.mark.parametrize("by", [ConfirmedBy.REPLICA, ConfirmedBy.SERVER])
async def test_a_failover_that_loses_the_begin_of_a_mail_sends_it_once(pair: Pair, by: ConfirmedBy) -> None:
    bot = await proposed(pair.redis)
    bot.lanes._confirmation, card = Confirmation(by), (await bot.load_approval()).id
    await bot.put_press(bot.chat.cards()[0], "send")
    await pair.hold()

    async def work() -> None:
        with suppress(LeaseLost):
            await bot.work()

    if by is ConfirmedBy.SERVER:  # control: the mail is sent before the replica knows that it begins
        object.__setattr__(bot.outside, "mailer", FailingOver(pair))
        await work()
        await work()
        assert len(bot.outside.mailer.mails) == 2
        return
    working = asyncio.create_task(work())
    await until(partial(is_started, bot, card))
    await pair.change_places()
    await asyncio.wait_for(working, 20)
    await work()
    assert len(bot.mailer.mails) == 1
    assert (await bot.load_approval()).effect is EffectState.DONE


class FailingOver(MemoryMailer):
    """A mailer during whose first mail the replica, which knows nothing of the mail, takes over."""

    def __init__(self, pair: Pair) -> None:
        super().__init__()
        self.pair, self.failed_over = pair, asyncio.Event()

    async def send_mail(self, to: Person, *rest: str) -> None:
        await super().send_mail(to, *rest)
        if len(self.mails) == 1:
            await self.pair.fail_over()
            self.failed_over.set()


async def test_no_second_mail_begins_before_that_is_confirmed(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a replica that knows of the first person's mail only would go on, and send the second one again."""
    bot = await proposed(pair.redis, mail(to=["李四", "王五"]))
    bot.lanes._confirmation = Confirmation(ConfirmedBy.REPLICA)
    is_held = hold_at_checkpoint(monkeypatch, pair, "part:U3:begun")
    await bot.put_press(bot.chat.cards()[0], "send")
    working = asyncio.create_task(bot.work())
    await asyncio.wait_for(is_held.wait(), 20)
    await asyncio.sleep(0.3)
    assert len(bot.mailer.mails) == 1
    await pair.change_places()
    await asyncio.wait_for(working, 20)
    await bot.work()
    assert len(bot.mailer.mails) == 2
    assert (await bot.load_approval()).effect is EffectState.DONE


async def test_a_mail_whose_first_part_was_lost_is_not_sent_again(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """The begin of the whole effect is confirmed, and an effect without parts is not resumed."""
    bot = await proposed(pair.redis, mail(to=["李四", "王五"]))
    bot.lanes._confirmation = Confirmation(ConfirmedBy.REPLICA)
    mailer = FailingOver(pair)
    object.__setattr__(bot.outside, "mailer", mailer)
    is_held = hold_at_checkpoint(monkeypatch, pair, "part:U2:begun")
    await bot.put_press(bot.chat.cards()[0], "send")
    working = asyncio.create_task(bot.work())
    await asyncio.wait_for(mailer.failed_over.wait(), 20)
    await pair.get_replica_back()
    await asyncio.wait_for(working, 20)
    assert len(mailer.mails) == 1 and is_held.is_set()
    assert (await bot.load_approval()).effect is EffectState.UNKNOWN


@pytest.mark.parametrize("by", [ConfirmedBy.REPLICA, ConfirmedBy.SERVER])
async def test_what_the_engine_saved_and_is_lost_is_saved_again(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, by: ConfirmedBy
) -> None:
    bot = await proposed(pair.redis, LEAVE)
    engine, calls, card = bot.tool_services.engine, list[str](), (await bot.load_approval()).id
    engine._store, start = RedisStore(pair.redis), engine.start_request
    bot.lanes._confirmation = Confirmation(by)

    async def start_and_lose(*given: Any, **more: Any) -> CommandResult:
        if not calls:
            await pair.hold()
        result = await start(*given, **more)
        calls.append(result.request)
        if len(calls) == 1:
            await pair.change_places()
        return result

    monkeypatch.setattr(engine, "start_request", start_and_lose)
    await bot.press(bot.chat.cards()[0], "confirm")
    requests = [one.id for one in await engine.list_own_requests("U1")]
    if by is ConfirmedBy.SERVER:  # control: nobody has the request
        assert requests == []
    else:
        assert (await bot.load_approval(card)).effect is EffectState.DONE
        assert (calls, requests) == (["L-0001", "L-0002"], ["L-0002"]), "no number is given twice"


@pytest.mark.parametrize("by", [ConfirmedBy.AUTO, ConfirmedBy.SERVER])
async def test_what_the_engine_saved_elsewhere_is_confirmed_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: ConfirmedBy
) -> None:
    """In a cluster, the engine's records lie on another server than the card; only the former has a replica here."""
    if not server_program():
        pytest.skip("no server program of version 7 or later")
    async with cluster(tmp_path) as formed, AsyncExitStack() as stack:
        master, port = formed.nodes[2], free_ports(2)
        replica = Node(tmp_path / "replica", port, port + 1)
        stack.push_async_callback(replica.close)
        await formed.add_replica(master, replica, "{wf}")
        redis = await connect_redis(formed.url)
        stack.push_async_callback(redis.aclose)
        bot = await proposed(redis, LEAVE)
        engine, is_held, card = bot.tool_services.engine, asyncio.Event(), (await bot.load_approval()).id
        engine._store, start = RedisStore(redis), engine.start_request
        known = bot.lanes._confirmation = Confirmation(by)
        scripts = ScriptRunner.from_redis(redis, bot.keys)
        await StoreWatch(scripts=scripts, confirmation=known).watch_store()
        assert not any(known.replicas.get(n) for n in range(bot.keys.partitions))

        async def start_and_hold(*given: Any, **more: Any) -> CommandResult:
            if not is_held.is_set():  # the replica gets nothing from now on
                await master.ask("ACL", "SETUSER", "default", "-psync", "-replconf", "-sync")
                await master.ask("CLIENT", "KILL", "TYPE", "replica")
            result = await start(*given, **more)
            is_held.set()
            return result

        monkeypatch.setattr(engine, "start_request", start_and_hold)
        await bot.put_press(bot.chat.cards()[0], "confirm")
        bot.lanes.lease_ms = 60_000
        [lease] = await bot.lanes.claim("p", bot.keys.get_partition(card), 1)
        working = asyncio.create_task(bot.work_on(lease))
        await asyncio.wait_for(is_held.wait(), 20)
        done, _ = await asyncio.wait({working}, timeout=20 if by is ConfirmedBy.SERVER else 1)
        assert bool(done) is (by is ConfirmedBy.SERVER)
        await master.kill()
        await replica.until("CLUSTER FAILOVER TAKEOVER", "+OK")
        await replica.until("INFO replication", "role:master")
        await master.start()
        await master.until("INFO replication", "master_link_status:up")
        await asyncio.wait_for(working, 20)
        await bot.work()  # on a busy machine, the press met the takeover and is tried again
        assert (await bot.load_approval(card)).effect is EffectState.DONE
        requests = [one.id for one in await engine.list_own_requests("U1")]
        assert requests == ([] if by is ConfirmedBy.SERVER else ["L-0002"])


async def test_an_announcement_whose_item_was_lost_is_not_sent(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the next approver has no card, and nobody knows."""
    bot = Bot(pair.redis)
    bot.engine._store = RedisStore(pair.redis)
    bot.lanes._confirmation = Confirmation(ConfirmedBy.REPLICA)
    mark_sent, has_failed_over = RedisStore.mark_sent, asyncio.Event()

    async def mark_later(store: RedisStore, ids: Sequence[str]) -> None:
        await has_failed_over.wait()
        await mark_sent(store, ids)

    monkeypatch.setattr(RedisStore, "mark_sent", mark_later)
    await bot.engine.start_request("leave", SICK, ZHANG.id, "start", bot.today())
    await pair.load_script()
    await pair.hold()
    relaying = asyncio.create_task(relay_events(bot.handlers.cards))

    async def is_lane_due() -> bool:
        return any([await pair.redis.zcard(KEYS.build_key(n, "z")) for n in range(2)])

    await until(is_lane_due)
    await pair.change_places()
    has_failed_over.set()
    await asyncio.wait_for(relaying, 20)
    await bot.work()
    assert len(bot.chat.cards("DU2")) == 1


async def test_a_lost_decision_is_made_again_before_the_engine_begins(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = await proposed(pair.redis, LEAVE)
    engine, card = bot.tool_services.engine, (await bot.load_approval()).id
    bot.lanes._confirmation = Confirmation(ConfirmedBy.REPLICA)
    found, start = list[EffectState](), engine.start_request

    async def look_and_start(*given: Any, **more: Any) -> CommandResult:
        found.append((await bot.load_approval(card)).effect)
        return await start(*given, **more)

    monkeypatch.setattr(engine, "start_request", look_and_start)
    await bot.put_press(bot.chat.cards()[0], "confirm")
    [lease] = await bot.lanes.claim("p", KEYS.get_partition(card), 1)
    await pair.hold()
    working = asyncio.create_task(bot.work_on(lease))
    await until(partial(is_started, bot, card))
    await pair.change_places()
    await asyncio.wait_for(working, 20)
    assert found == []
    await bot.work()
    assert found[:1] == [EffectState.STARTED]
    assert (await bot.load_approval(card)).effect is EffectState.DONE


async def test_a_replica_that_goes_before_an_effect_holds_up_nothing(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The effect is to be confirmed, but no server is left to confirm it: none names itself."""
    monkeypatch.setattr(Lease, "is_confirmation_needed", True)
    bot = await proposed(redis, LEAVE)
    card = (await bot.load_approval()).id
    await bot.press(bot.chat.cards()[0], "confirm")
    assert (await bot.load_approval(card)).effect is EffectState.DONE
    assert [one.id for one in await bot.engine.list_own_requests("U1")] == ["L-0001"]


def hold_at_checkpoint(monkeypatch: pytest.MonkeyPatch, pair: Pair, seq: str) -> asyncio.Event:
    """Let the replica get nothing from this checkpoint on; it sets the event."""
    checkpoint, is_held = Lease.checkpoint, asyncio.Event()

    async def hold(lease: Lease, at: str, *writes: Any, **more: Any) -> CheckpointResult:
        if at == seq and not is_held.is_set():
            await pair.hold()
            is_held.set()
        return await checkpoint(lease, at, *writes, **more)

    monkeypatch.setattr(Lease, "checkpoint", hold)
    return is_held
