"""What platforms hand in is durable, or answered, when they are told so: each condition by itself."""

from typing import Any

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from bot.app.ingress import CardActions
from bot.chat.messages import Acceptance, Click, Message
from bot.core.errors import StoreUnavailableError, StoreUnconfirmedError
from bot.core.i18n import translate
from bot.core.records import ApprovalState
from bot.queue.scripts import ConfirmedBy
from bot.queue.writes import apply_writes
from bot.redis.outages import StoreClient
from tests.harness.lanes import pass_moment
from tests.harness.memory_bot import Bot
from tests.harness.memory_platform import DM
from tests.stories.script import DONE, mail
from tests.tools.company import ZHANG

HELLO = Message(id="Ev1", place=DM, person="U1", text="hello", at="1.0")
THERE = DM.model_copy(update={"channel": "C1", "direct": False, "thread": "9.0"})


@pytest.mark.parametrize(("setting", "value"), [("maxmemory", 1), ("min-replicas-to-write", 1), ("replica", 1)])
async def test_what_a_store_refuses_for_certain_is_told_as_not_taken(redis: Redis, setting: str, value: int) -> None:
    """OOM, NOREPLICAS, READONLY. Negative controls: what was taken, and what hangs in a connection perhaps."""
    bot = Bot(redis)
    taken, click = (Click(id=id, approval="A", version=1, choice="ok", person="U1", place=DM) for id in ("Ev1", "Ev2"))
    await bot.ingress.accept_click(taken)
    await (redis.replicaof("127.0.0.1", "1") if setting == "replica" else redis.config_set(setting, value))
    try:
        with pytest.raises(StoreUnavailableError) as refused:
            await bot.ingress.accept_click(click)
        assert await bot.ingress.withdraw(click, refused.value) is Acceptance.NOT_TAKEN
        assert await bot.ingress.withdraw(taken, refused.value) is Acceptance.TAKEN
        assert await bot.ingress.withdraw(click, StoreUnavailableError("no answer")) is Acceptance.UNKNOWN
        assert await bot.ingress.withdraw(taken, StoreUnconfirmedError("by none")) is Acceptance.UNKNOWN
        bot.lanes._confirmation.by = ConfirmedBy.REPLICA
        assert await bot.ingress.withdraw(taken, refused.value) is Acceptance.UNKNOWN, "known, and not confirmed"
        bot.lanes.redis = StoreClient(unix_socket_path="/nowhere/redis.sock", retry=Retry(NoBackoff(), 0))
        assert await bot.ingress.withdraw(taken, refused.value) is Acceptance.UNKNOWN, "nobody can be asked any more"
    finally:
        await (redis.replicaof("NO", "ONE") if setting == "replica" else redis.config_set(setting, 0))


# Messages


async def test_a_message_is_taken_once_under_each_of_its_names(redis: Redis) -> None:
    bot = Bot(redis, [DONE, DONE])
    await bot.ingress.accept_message(HELLO, aliases=("slack:DU1:1.0",))
    await bot.ingress.accept_message(HELLO.model_copy(update={"id": "Ev2"}), aliases=("slack:DU1:1.0",))
    await bot.ingress.accept_message(HELLO)
    await bot.work()
    assert bot.chat.texts() == ["好的。"] and len(bot.model.requests) == 1
    assert "lane.full" not in await bot.list_journal_kinds()


async def test_a_message_belongs_to_its_person_who_can_stop_it(redis: Redis) -> None:
    """And nobody else but an administrator."""
    for stopper, stops in (("U1", True), ("U2", False), ("U8", True), ("U9", False)):
        await redis.flushall()
        bot = Bot(redis, [DONE])
        bot.directory.known.append(ZHANG.model_copy(update={"id": "U8", "roles": frozenset({"admin"})}))
        await bot.ingress.accept_message(HELLO)
        due = bot.keys.build_key(bot.keys.get_partition(DM.conversation), "due", "U1")
        assert [key async for key in redis.scan_iter("*:due:*")] == [due]
        await pass_moment(redis)  # a stop concerns what was put before its own millisecond
        stop = {"id": "Ev2", "person": stopper, "text": "停", "at": "9999999999.0"}
        await bot.ingress.accept_message(HELLO.model_copy(update=stop))
        await bot.work()
        assert (bot.model.requests == []) is stops, stopper


@pytest.mark.parametrize("sent_ms", [0, 1_000_000])
@pytest.mark.parametrize("is_at_work", [True, False])
@pytest.mark.parametrize(("stopped_s", "stops"), [(1_000, False), (3_000, True)])
async def test_a_stop_that_arrives_late_ends_nothing_that_was_asked_after_it(
    redis: Redis, is_at_work: bool, stopped_s: int, stops: bool, sent_ms: int
) -> None:
    """Nobody heard it at first, and the platform sends it again. A time beside its id counts, if there is one."""
    bot = Bot(redis, [mail(), DONE])
    at, stopped_at = ("om_1", "om_2") if sent_ms else ("2000.0", f"{stopped_s}.0")
    sent = {"sent_ms": 2 * sent_ms}, {"sent_ms": stopped_s * sent_ms // 1_000}
    await bot.ingress.accept_message(HELLO.model_copy(update={"at": at, **sent[0]}))
    if not is_at_work:
        await bot.work()
    await pass_moment(redis)
    stop = HELLO.model_copy(update={"id": "Ev2", "text": "停", "at": stopped_at, **sent[1]})
    await bot.ingress.accept_message(stop)
    await bot.work()
    assert len(bot.model.requests) == 1
    assert bool(bot.chat.cards()) is not stops


@pytest.mark.parametrize(("age_s", "stops"), [(600, False), (1, True), (-600, True)])
async def test_the_platforms_own_stop_acts_at_once_if_it_is_not_old(redis: Redis, age_s: int, stops: bool) -> None:
    bot = Bot(redis)
    await bot.ingress.stop_session(DM, "U1", "Ev1", f"{bot.clock.now_ms() / 1000 - age_s:.6f}")
    assert bool([key async for key in redis.scan_iter("*:stops:*")]) is stops
    assert await bot.lanes.has_pending_items(DM.conversation)


@pytest.mark.parametrize(("text", "stops"), [("停", True), ("Stop.", True), ("停车费怎么报销", False)])
async def test_a_word_that_stops_acts_before_it_is_handled(redis: Redis, text: str, stops: bool) -> None:
    bot = Bot(redis)
    await bot.ingress.accept_message(HELLO.model_copy(update={"text": text, "at": "9999999999.0"}))
    assert bool([key async for key in redis.scan_iter("*:stops:*")]) is stops
    assert await bot.lanes.has_pending_items(DM.conversation), "and it is answered"


async def test_what_is_not_taken_is_told_once_and_so_is_the_end(redis: Redis) -> None:
    bot = Bot(redis)
    bot.lanes.cap, intake = 0, bot.ingress
    for message in (HELLO, HELLO.model_copy(update={"id": "Ev2"}), HELLO):
        await intake.accept_message(message)
    full = translate("turn.full", "zh")
    assert [(one.post.text, one.key) for one in bot.chat.posts] == [(full, "Ev1:full")]
    [record] = [one async for one in bot.journal.stream_records(kinds={"lane.full"}) if one][:1]
    assert (record.person, record.channel) == ("U1", DM.channel)
    await bot.work()
    assert bot.chat.texts()[1:] == [translate("turn.caught_up", "zh")] and bot.model.requests == []
    await intake.accept_message(HELLO.model_copy(update={"id": "Ev3"}))
    assert bot.chat.texts()[2:] == [full], "the next overflow is another"


# Whether the bot is at work in a thread


async def test_it_is_engaged_while_it_works_remembers_or_waits_and_else_it_is_not(redis: Redis) -> None:
    bot = Bot(redis, [DONE, mail()])
    intake = bot.ingress
    assert not await intake.is_engaged(THERE)
    await bot.put_message("hello", place=THERE)
    assert await intake.is_engaged(THERE), "at work"
    await bot.work()
    assert await intake.is_engaged(THERE), "remembers"
    other = THERE.model_copy(update={"thread": "8.0"})
    await bot.send("发邮件", place=other, id="Ev2")
    assert (await bot.runs.load_conversation(other.conversation, bot.history)).waiting
    await redis.delete(*[key async for key in redis.scan_iter("*:h:*") if other.conversation in key])
    assert not (await bot.runs.load_conversation(other.conversation, bot.history)).history
    assert await intake.is_engaged(other), "waits"


# Taking a card back


async def propose(redis: Redis) -> tuple[Bot, str, CardActions]:
    bot = Bot(redis, [mail(), DONE])
    await bot.send("发邮件")
    return bot, (await bot.load_approval()).id, CardActions(bot.app.stores)


async def test_a_card_is_taken_back_once_by_who_proposed_it(redis: Redis) -> None:
    bot, card, canceller = await propose(redis)
    assert await canceller.cancel_card("A00x", "U1") is False
    assert await canceller.cancel_card(card, "U2") is False
    assert (await bot.load_approval()).state is ApprovalState.OPEN
    for _ in range(2):  # a process was killed before the call was stored, and another one makes it again
        assert await canceller.cancel_card(card, "U1") is True
    await bot.work()
    assert await canceller.cancel_card(card, "U1") is True, "the card's own lane was faster"
    assert (await bot.list_journal_kinds()).count("approval.cancelled") == 1
    assert (await bot.load_approval()).state is ApprovalState.CANCELLED and not bot.chat.cards()


async def test_what_was_pressed_first_is_not_taken_back(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    bot, card, canceller = await propose(redis)
    enqueue = bot.lanes.enqueue

    async def be_second(lane: str, id: str, body: str) -> Any:
        click = Click(id="p", approval=card, version=1, choice="send", person="U1", place=DM)
        decided = bot.approvals.build_decide_writes(click, ends=ApprovalState.DECIDED, now_ms=0)
        assert await apply_writes(redis, bot.keys, bot.keys.get_partition(card), decided) == "ok"
        return await enqueue(lane, id, body)

    monkeypatch.setattr(bot.lanes, "enqueue", be_second)
    assert await canceller.cancel_card(card, "U1") is False
