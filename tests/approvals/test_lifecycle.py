"""Cards that end without a press: cancelled, expired, closed elsewhere, given up. Each guard has a story in which only
it holds."""

from typing import Any

import pytest
from redis.asyncio import Redis

from bot.approvals.delivery import DeliveredCard, can_decide_card, list_card_events, list_represented
from bot.approvals.lifecycle import build_end_writes, build_journal_write, end_approval, give_up_press, notify_waiter
from bot.approvals.state import IllegalTransitionError
from bot.chat.messages import Click, MessageRef
from bot.conversation.stops import cancel_cards
from bot.core.records import (
    STOPPED_CHOICE,
    TAKEN_BACK_CHOICE,
    Approval,
    ApprovalState,
    ApprovalWaiter,
    EffectState,
    RunStatus,
)
from bot.core.work_items import (
    ButtonPressed,
    CancelOpenCard,
    CloseCard,
    ExpireCard,
    JoinSet,
    RecordDirectEvent,
    RefreshCard,
    RemindDeciders,
    StopOpenCard,
)
from bot.queue.lanes import LaneItem
from bot.queue.writes import EnqueueItem, XAdd, apply_writes
from bot.storage.approvals import ApprovalStore
from tests.harness.corpus import corpus
from tests.harness.memory_bot import Bot
from tests.harness.memory_platform import DM
from tests.harness.presses import everywhere, name_deputies, proposed, requested, rewrite
from tests.stories.script import DONE, mail
from tools.spec import Gate

# Cancelled in chat


@pytest.mark.parametrize("stops", [False, True])
async def test_what_a_press_has_just_decided_is_neither_taken_back_nor_stopped(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, stops: bool
) -> None:
    """The card is open when it is looked at, and decided when the cancellation decides."""
    bot = await proposed(redis)
    card = (await bot.load_approval()).id
    decide_cancellation, verdicts = ApprovalStore.decide_cancellation, list[str]()

    async def be_second(self: ApprovalStore, approval: Approval, person: str, choice: str, now_ms: int) -> str:
        if not verdicts:
            click = Click(id="p", approval=card, version=1, choice="send", person="U1", place=DM)
            decided = self.build_decide_writes(click, ends=ApprovalState.DECIDED, now_ms=now_ms)
            assert await apply_writes(redis, bot.keys, bot.keys.get_partition(card), decided) == "ok"
            await bot.lanes.enqueue(card, "p", ButtonPressed(click=click).model_dump_json())
        verdicts.append(await decide_cancellation(self, approval, person, choice, now_ms))
        return verdicts[-1]

    monkeypatch.setattr(ApprovalStore, "decide_cancellation", be_second)
    if stops:
        await bot.send("停", id="Ev2")
    else:
        await bot.handle_work(card, "back", CancelOpenCard(approval=card, person="U1"))
    approval = await bot.load_approval()
    assert verdicts[0] == "already" and (stops or len(verdicts) == 1) and len(bot.mailer.mails) == 1
    assert (approval.state, approval.effect, approval.press_id) == (ApprovalState.DECIDED, EffectState.DONE, "p")
    assert not any("卡片" in text for text in bot.chat.texts() if "停" in text or "正在进行" in text)


async def test_only_who_proposed_a_card_takes_it_back(redis: Redis) -> None:
    bot = await proposed(redis)
    card = (await bot.load_approval()).id
    for person, state in (("U2", ApprovalState.OPEN), ("U1", ApprovalState.CANCELLED)):
        await bot.handle_work(card, f"{person} takes it back", CancelOpenCard(approval=card, person=person))
        assert (await bot.load_approval()).state is state
        assert bool(bot.chat.cards()) is (state is ApprovalState.OPEN) and not bot.mailer.mails


@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize("meanwhile", ["edited", "expired"])
async def test_what_is_cancelled_while_its_lane_works_stays_cancelled(
    redis: Redis, meanwhile: str, stops: bool
) -> None:
    """The lane has read the card as open; it is cancelled in chat before the lane's commit."""
    bot = await proposed(redis)
    [card], approval = bot.chat.cards(), await bot.load_approval()
    if meanwhile == "edited":
        await bot.put_press(card, "edit", form={"subject": "x", "body": "something else"})
    else:
        await bot.lanes.enqueue(approval.id, "late", ExpireCard(version=1).model_dump_json())
    [lease] = [one for n in range(2) for one in await bot.lanes.claim("p", n, 1)]
    writes = await bot.dispatcher.handle_item(lease)
    end = StopOpenCard(approval=approval.id, run=approval.run, person="U1")
    work = end if stops else CancelOpenCard(approval=approval.id, person="U1")
    await bot.lanes.enqueue(approval.id, "end", work.model_dump_json())
    choice = STOPPED_CHOICE if stops else TAKEN_BACK_CHOICE
    verdict = await bot.approvals.decide_cancellation(approval, "U1", choice, bot.clock.now_ms())
    assert verdict == "ok", "the person is told so"
    await lease.commit(*writes, more=False)
    await bot.work()
    assert (await bot.load_approval()).state is ApprovalState.CANCELLED and not bot.chat.cards()
    assert not await bot.approvals.list_open_approvals() and not bot.mailer.mails


# Timers


@pytest.mark.parametrize("timer", [RemindDeciders, ExpireCard])
async def test_a_timer_of_the_version_before_does_nothing_to_an_edited_card(
    redis: Redis, timer: type[RemindDeciders] | type[ExpireCard]
) -> None:
    """The timer may already be on its way when the card is edited."""
    bot = await proposed(redis)
    await bot.press(bot.chat.cards()[0], "edit", form={"subject": "项目进度", "body": "李四你好，改过了。"})
    before, said = await bot.load_approval(), len(bot.chat.posts)
    assert (before.version, before.state) == (2, ApprovalState.OPEN)
    await bot.handle_work(before.id, "old", timer(version=1))
    assert await bot.load_approval() == before and len(bot.chat.posts) == said and bot.chat.cards()
    await bot.handle_work(before.id, "new", timer(version=2))
    is_expired = (await bot.load_approval()).state is ApprovalState.EXPIRED
    assert is_expired is (timer is ExpireCard) and len(bot.chat.posts) > said, "control: that of this version does"


async def test_who_has_not_answered_is_told_once_when_the_time_is_over(redis: Redis) -> None:
    """A mere update of the card announces nothing. Negative control: whose run says it is told no second time."""
    async for bot in everywhere(redis, lambda: requested(redis), more_than=5):
        await bot.handle_work((await bot.load_approval()).id, "x", ExpireCard(version=1))
        [_, told] = bot.chat.list_posts("DU2")
        assert "您还没有决定" in told.post.text and "重新发出" in told.post.text
        assert (told.place.thread, (await bot.load_approval()).state) == ("0", ApprovalState.EXPIRED)
    await redis.flushall()
    bot = await proposed(redis)
    await bot.handle_work((await bot.load_approval()).id, "x", ExpireCard(version=1))
    assert len(bot.chat.answers()) == 1 and not any("您还没有决定" in one for one in bot.chat.texts())


# Given up


async def test_a_cancelled_card_that_could_not_be_shown_is_ended_and_nobody_waits(redis: Redis) -> None:
    """The press is decided, and everything after it fails every time. No effect was begun, so none is unknown."""
    bot = await proposed(redis)
    assert await bot.list_paused_runs()
    bot.chat.fails[f"update {DM.channel}"] = [RuntimeError("a mistake of ours")] * bot.lanes.max_tries  # type: ignore[list-item]
    await bot.press(bot.chat.cards()[0], "cancel")
    approval = await bot.load_approval()
    assert (approval.state, approval.effect) == (ApprovalState.CANCELLED, EffectState.NONE)
    assert await bot.list_paused_runs() == () and not bot.chat.cards() and not bot.mailer.mails
    assert "item.dead" in await bot.list_journal_kinds() and bot.chat.texts()[-1] == "好的。"


@corpus(
    ("stored", "press", "ended"),
    ({"state": ApprovalState.DECIDED, "press_id": "p"}, "p", EffectState.FAILED),
    ({"state": ApprovalState.DECIDED, "press_id": "p", "effect": EffectState.STARTED}, "p", EffectState.UNKNOWN),
    ({"state": ApprovalState.CANCELLED, "press_id": "p"}, "p", EffectState.NONE),
    ({"state": ApprovalState.DECIDED, "press_id": "p", "effect": EffectState.DONE}, "p", None),
    ({"state": ApprovalState.DECIDED, "press_id": "other", "effect": EffectState.STARTED}, "p", None),
    ({"state": ApprovalState.CANCELLED, "press_id": "other"}, "p", None),
    ({}, "p", None),
    (None, "p", None),
)
async def test_only_what_the_given_up_press_itself_has_decided_is_ended(
    redis: Redis, stored: dict[str, Any] | None, press: str, ended: EffectState | None
) -> None:
    """The effect of another press goes on by its own item."""
    bot = await proposed(redis)
    pressed = {"choice": "send", "decided_by": "U1"} | stored if stored else {}
    before = (await bot.load_approval()).model_copy(update=pressed)
    if stored is None:
        await redis.delete(*[key async for key in redis.scan_iter("*:apr:*")])
    else:
        await rewrite(bot, **pressed)
    click = Click(id=press, approval=before.id, version=1, choice="send", person="U1", place=DM)
    item = LaneItem(lane=before.id, id="x", body="", tries=9)
    writes = list(await give_up_press(bot.handlers.cards, item, click))
    assert bool(writes) is (ended is not None)
    assert await apply_writes(redis, bot.keys, bot.keys.get_partition(before.id), writes) == "ok"
    if stored is not None:
        after = await bot.load_approval()
        assert after.effect is (before.effect if ended is None else ended)
        assert bool(after.waiters) is (ended is None), "whoever waits hears of the end"


# Deputies


async def test_who_stands_in_does_so_for_deciders_of_others_requests_and_for_nothing_else(redis: Redis) -> None:
    """Nobody confirms for somebody else, and a decider acts as nobody's deputy."""
    bot = await requested(redis)
    asked = await bot.load_approval()
    plan, cards = asked.proposal.model_copy(update={"deciders": ("U2", "U3")}), name_deputies(bot, "U2", "U5")
    for gate in (Gate.APPROVE, Gate.CONFIRM):
        card = asked.model_copy(update={"gate": gate, "proposal": plan})
        for person in ("U5", "U4", "U2"):
            represented = {"U2", "U3"} if (gate, person) == (Gate.APPROVE, "U5") else set()
            assert await list_represented(cards, card, person) == represented, (gate, person)
            assert await can_decide_card(cards, card, person) is (bool(represented) or person == "U2")


# The writes of an end


def put_event(person: str, text: str) -> EnqueueItem:
    event = RecordDirectEvent(person=person, text=text)
    return EnqueueItem(f"notice:{person}", f"x:{person}:direct_event", event.model_dump_json())


@corpus(
    ("lanes", "caller", "remembered"),
    ((), "U3", {"U1", "U2", "U3"}),
    ((DM.conversation,), "U3", {"U2"}),
    ((DM.conversation,), "", {"U2", "U3"}),
    (("slack:T1:C1:9.0",), "U3", {"U1", "U2"}),
)
async def test_every_dm_that_has_the_card_remembers_its_end_but_those_whose_run_tells_of_it(
    redis: Redis, lanes: tuple[str, ...], caller: str, remembered: set[str]
) -> None:
    bot = await requested(redis)
    copies = tuple((person, MessageRef(channel=f"D{person}", ts="0")) for person in ("U1", "U2", "U3"))
    waiters = tuple(ApprovalWaiter(run="R1", uid="u", lane=lane) for lane in lanes)
    ended = (await bot.load_approval()).model_copy(
        update={"state": ApprovalState.CLOSED, "copies": copies, "waiters": waiters, "caller": caller}
    )
    item = LaneItem(lane=ended.id, id="x", body="", tries=1)
    writes = await end_approval(bot.handlers.cards, item, ended, shown=DeliveredCard(ended))
    words = await list_card_events(bot.handlers.cards, ended, ())
    put = [one for one in writes if isinstance(one, EnqueueItem) and one.lane.startswith("notice:")]
    assert put == [put_event(person, words[person]) for person in words if person in remembered]
    assert all(words[person] for person in remembered)


APPROVED = {"state": ApprovalState.DECIDED, "decided_by": "U2", "choice": "approve", "effect": EffectState.DONE}


@corpus("silent", False, True)
@corpus(
    ("changes", "kind"),
    ({"state": ApprovalState.CLOSED, "decided_by": "U1", "choice": "withdrawn"}, "approval.closed"),
    ({"state": ApprovalState.EXPIRED}, "approval.expired"),
    (APPROVED, "effect.done"),
)
async def test_an_end_closes_the_record_once_with_a_line_and_tells_who_waits_and_each_set(
    redis: Redis, changes: dict[str, Any], kind: str, silent: bool
) -> None:
    bot = await requested(redis)
    waiter = ApprovalWaiter(run="R1", uid="u", lane=DM.conversation)
    told = {"waiters": (waiter,), "sets": ("set:U2:a", "set:U2:b"), **changes}
    ended = (await bot.load_approval()).model_copy(update=told)
    item = LaneItem(lane=ended.id, id="x", body="", tries=1)
    writes = build_end_writes(bot.handlers.cards, item, ended, silent=silent)
    closed = bot.approvals.build_close_writes(ended.model_copy(update={"waiters": ()}))
    line = build_journal_write(bot.handlers.cards, ended, kind, person=ended.decided_by, choice=ended.choice)
    resumed = notify_waiter(ended, waiter, silent=silent)
    sets = [EnqueueItem(ended.id, f"x:{ended.id}:{one}", JoinSet(set=one).model_dump_json()) for one in told["sets"]]
    assert writes == [*closed, line, resumed, *sets]
    assert isinstance(line, XAdd) and line.fields["run"] == "R1"
    with pytest.raises(IllegalTransitionError):
        build_end_writes(bot.handlers.cards, item, await bot.load_approval())


async def test_the_journal_says_of_a_card_what_it_is_about_where_it_stands_and_of_which_run(redis: Redis) -> None:
    bot = await requested(redis)
    asked = await bot.load_approval()
    here = asked.model_copy(update={"place": DM, "run": "R1", "state": ApprovalState.DECIDED, "decided_by": "U2"})
    stood_in = here.model_copy(update={"place": None, "decided_by": "U5"})
    about = {"approval": asked.id, "subject": "L-0001-1"}
    for card, given, run, channel, more in (
        (here, {}, "R1", DM.channel, about),
        (here, {"choice": "approve"}, "R1", DM.channel, about | {"choice": "approve"}),
        (stood_in, {}, "R1", "", about | {"raised_to": "U2"}),
    ):
        write = build_journal_write(bot.handlers.cards, card, "effect.tried", person="U9", **given)
        assert await apply_writes(redis, bot.keys, bot.keys.get_partition(card.id), [write]) == "ok"
        *_, record = [one async for one in bot.journal.stream_records(kinds={"effect.tried"})]
        assert (record.run, record.person, record.channel, record.text) == (run, "U9", channel, "decide_task")
        assert record.more == more


async def test_what_is_not_there_any_more_is_not_brought_up_to_date(redis: Redis) -> None:
    bot = await proposed(redis)
    card = (await bot.load_approval()).id
    await redis.delete(*[key async for key in redis.scan_iter("*:apr:*")])
    for n, work in enumerate((RefreshCard(), RemindDeciders(version=1), ExpireCard(version=1))):
        await bot.lanes.enqueue(card, f"late{n}", work.model_dump_json())
    for n, end in enumerate((CancelOpenCard(approval=card, person="U1"), CloseCard(approval=card, by="U1"))):
        await bot.lanes.enqueue(card, f"end{n}", end.model_dump_json())
    await bot.work()
    assert "item.dead" not in await bot.list_journal_kinds() and bot.chat.cards()


# Cards of runs that are stopped


async def test_killed_anywhere_the_card_is_cancelled_and_never_pressed(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide_cancellation = ApprovalStore.decide_cancellation

    async def die_around(*given: Any) -> str:
        bot.lanes.edge()
        verdict = await decide_cancellation(*given)
        bot.lanes.edge()
        return verdict

    monkeypatch.setattr(ApprovalStore, "decide_cancellation", die_around)
    async for bot in everywhere(redis, lambda: proposed(redis), more_than=6):
        [card] = bot.chat.cards()
        await bot.send("停", id="Ev2")
        await bot.press(card, "send")
        approval = await bot.load_approval()
        assert approval.state is ApprovalState.CANCELLED and approval.choice == "stopped"
        assert not bot.chat.cards() and not bot.mailer.mails
        assert [run.status for run in bot.ended_runs][-1] is RunStatus.STOPPED
        assert sum("已取消" in text for text in bot.chat.texts() if "卡片" in text) == 1, "the stop is answered once"


async def test_a_card_that_is_not_there_yet_is_cancelled_before_anybody_can_press_it(redis: Redis) -> None:
    bot = Bot(redis, [mail(), DONE])
    await bot.put_message("发邮件")
    [lease] = [one for n in range(2) for one in await bot.lanes.claim("p", n, 1)]
    await lease.commit(*await bot.dispatcher.handle_item(lease), more=False)  # the card's own lane has not begun
    assert not bot.chat.cards()
    await bot.put_message("停", id="Ev2")
    conversation = await bot.runs.load_conversation(DM.conversation, bot.history)
    assert len(conversation.waiting) == 1
    caller = await bot.directory.find_caller("U1")
    assert await cancel_cards(bot.handlers.turns.stores, conversation.waiting, caller, 0) == 1
    await bot.work()
    assert (await bot.load_approval()).state is ApprovalState.CANCELLED and not bot.chat.cards()
