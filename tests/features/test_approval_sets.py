"""Sets of tasks without a platform. Killed anywhere, they are shown once and decide once. Changed tasks are skipped and
reported. Authority is checked at the press."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.chat.messages import MessageRef, Post, TickOption
from bot.core.work_items import (
    APPROVE_SET,
    REJECT_SET,
    SEVERAL,
    TICK,
    TICKED,
    CloseCard,
    OpenSet,
    RefreshSet,
    build_set_id,
)
from bot.features.sets.morning_lists import OpenMorningList
from bot.features.sets.sets import MAX_ENTRIES
from bot.platforms.slack.blocks import MAX_BLOCKS, count_json_bytes, render_post
from bot.queue.writes import Write
from bot.storage.dead_letters import DeadLetterStore
from tests.harness.approval_sets import SET, card_of, find_set_beside, press, put_press, start_claims
from tests.harness.corpus import corpus
from tests.harness.memory_bot import Bot, every_edge
from tests.harness.memory_platform import Edges, PostedMessage
from tests.stories.script import DONE, calls
from tests.tools.company import LI, WANG, ZHANG
from tests.tools.office import withdraw
from tools.spec import ToolError
from tools.workflow.engine.state import Delegation, Status


async def open_set(bot: Bot, lane: str = SET, person: str = LI.id) -> None:
    await bot.handle_work(lane, f"open {lane}", OpenSet(person=person))


async def opened(redis: Redis, *amounts: int, reason: str = "taxi") -> tuple[Bot, list[str]]:
    """A bot with claims, two by default, that are put before Li Si as a set."""
    bot = Bot(redis)
    numbers = await start_claims(bot, *(amounts or (11, 12)), reason=reason)
    await open_set(bot)
    return bot, numbers


def shown(bot: Bot) -> list[Post]:
    """List the messages of sets, as they are now."""
    return [one.post for one in bot.chat.posts if one.key.startswith("set:")]


def ticks(post: Post) -> tuple[TickOption, ...]:
    """The boxes of a set's message; none if it has none any more."""
    return post.card.ticks.options if post.card is not None and post.card.ticks is not None else ()


async def statuses(bot: Bot, numbers: list[str]) -> list[Status]:
    return [(await bot.engine.get_request(one)).status for one in numbers]


@pytest.mark.slow
@pytest.mark.parametrize("choice", [APPROVE_SET, REJECT_SET])
async def test_killed_anywhere_it_is_shown_once_and_decides_once(redis: Redis, choice: str) -> None:
    async for edges in every_edge(redis, more_than=20):
        bot = Bot(redis)
        numbers = await start_claims(bot, 11, 12, 13)
        bot.end_at(edges)
        await open_set(bot)
        await press(bot, choice, form={TICKED: "0,2", "opinion": "no receipt"})
        done = {APPROVE_SET: Status.APPROVED, REJECT_SET: Status.REVISE}[choice]
        assert await statuses(bot, numbers) == [done, Status.WAITING, done]
        opinions = [(await bot.engine.get_request(one)).opinions for one in numbers]
        assert [len(one) for one in opinions] == [1, 0, 1]
        (post,) = shown(bot)
        assert [one.value for one in ticks(post)] == ["1"]
        kinds = Counter(await bot.list_journal_kinds())
        assert kinds["effect.done"] == 2 and kinds["set.opened"] == kinds["set.pressed"] == 1


@pytest.mark.slow
async def test_a_morning_list_killed_anywhere_is_posted_once(redis: Redis) -> None:
    async for edges in every_edge(redis, more_than=5):
        bot = Bot(redis)
        await start_claims(bot, 11)
        bot.end_at(edges)
        day = bot.today().date().isoformat()
        for _ in range(2):  # two processes
            bot.morning_lists.planned.clear()
            await bot.morning_lists.plan_due_mornings()
            await bot.work()
        again = OpenMorningList(person=LI.id, day=day).model_dump_json()
        await bot.handle_work(build_set_id(LI.id, day), "by another name", again)
        assert sum("11月20日" in one.card.title for one in shown(bot) if one.card) == 2, "Li Si, and the author"


async def test_everybody_has_their_own_morning(redis: Redis) -> None:
    """Ten in Shanghai is nine in the evening in New York; eleven hours later it is morning there, and night here."""
    bot = Bot(redis)
    bot.directory.change(ZHANG.id, timezone="America/New_York")
    await start_claims(bot, 11)
    for hours, whose in ((0, [LI.id]), (12, [LI.id, ZHANG.id]), (13, [LI.id, ZHANG.id])):
        bot.today_offset = timedelta(hours=hours)
        await bot.morning_lists.plan_due_mornings()
        await bot.work()
        assert [one.place.channel[1:] for one in bot.chat.posts if one.key.startswith("set:")] == whose


async def test_what_has_changed_since_it_was_shown_is_skipped_and_said(redis: Redis) -> None:
    bot, numbers = await opened(redis)
    card = await card_of(bot, numbers[0])
    await redis.hset(bot.keys.build_key(bot.keys.get_partition(card.id), "apr", card.id), "version", "2")
    await press(bot, APPROVE_SET, form={TICKED: "0,1"})
    assert await statuses(bot, numbers) == [Status.WAITING, Status.APPROVED]
    (post,) = shown(bot)
    assert post.card is not None and any("跳过：内容已经变了" in value for _, value in post.card.facts)


@pytest.mark.parametrize("opinion", ["", "no receipt"])
@pytest.mark.parametrize("decision", ["reject", "return", "approve"])
async def test_what_somebody_has_said_they_refuse_is_in_no_set(redis: Redis, decision: str, opinion: str) -> None:
    """Neither a later set nor an earlier one has the task."""
    bot, (first, second) = await opened(redis)
    bot.model.script += [calls(("decide_task", {"task_id": first, "decision": decision, "opinion": opinion})), DONE]
    await bot.send(f"{decision} {first}", LI.id)
    await open_set(bot, build_set_id(LI.id, "later"))
    _, after = shown(bot)
    listed = [first, second] if decision == "approve" else [second]
    assert [one.text.split(" ")[0] for one in ticks(after)] == listed
    await press(bot, APPROVE_SET)
    approved = Status.APPROVED if decision == "approve" and not opinion else Status.WAITING
    assert await statuses(bot, [first, second]) == [approved, Status.APPROVED]


async def test_the_title_of_a_set_that_is_over_says_what_has_become_of_it(redis: Redis) -> None:
    bot, numbers = await opened(redis, 11, 12, 13, 14)
    await press(bot, APPROVE_SET, form={TICKED: "0,1"})
    await press(bot, REJECT_SET, id_="p2", version=2, form={TICKED: "2", "opinion": "no receipt"})
    await withdraw(bot.engine, (await bot.engine.get_request(numbers[3])).id, ZHANG.id)
    await bot.work()
    assert shown(bot)[0].text == "已同意 2 项、已驳回 1 项、1 项不是在这里决定的"


async def test_who_was_made_a_guest_a_moment_ago_decides_nothing_and_reads_why(redis: Redis) -> None:
    bot, numbers = await opened(redis)
    (li,) = [one for one in bot.directory.known if one.id == LI.id]
    bot.directory.fresh[LI.id] = li.model_copy(update={"active": False})
    await press(bot, APPROVE_SET)
    assert await statuses(bot, numbers) == [Status.WAITING] * 2
    assert Counter(await bot.list_journal_kinds())["approval.refused"] == 2


@pytest.mark.parametrize("person", [ZHANG.id, WANG.id])
async def test_whose_it_is_not_neither_opens_ticks_nor_decides(redis: Redis, person: str) -> None:
    bot = Bot(redis)
    numbers = await start_claims(bot, 11)
    await press(bot, SEVERAL, person, "a")  # in somebody else's lane
    await open_set(bot)
    for id_, choice in (("b", APPROVE_SET), ("c", REJECT_SET), ("d", TICK), ("e", SEVERAL)):
        await press(bot, choice, person, id_, form={TICKED: "0", "opinion": "x"})
    assert await statuses(bot, numbers) == [Status.WAITING] and len(shown(bot)) == 1
    assert len(bot.chat.ephemerals) == 5 and {one for one, _ in bot.chat.ephemerals} == {person}


async def test_who_stands_in_reads_for_whom_and_what_is_unusual(redis: Redis) -> None:
    bot = Bot(redis)
    numbers = await start_claims(bot, 600, 500)  # together these reach the amount that finance decides on
    now = bot.today()
    absence = Delegation(id="D1", person=LI.id, deputy=WANG.id, start=now, end=now + timedelta(days=1))
    await bot.engine.add_delegation(absence, now)
    await bot.work()
    lane = build_set_id(WANG.id, "x")
    await open_set(bot, lane, WANG.id)
    (post,) = shown(bot)
    first, second = ticks(post)
    assert first.text.endswith(("代李四处理", "for Li Si")) and "⚠" in second.details and "1100" in second.details
    await press(bot, APPROVE_SET, WANG.id, lane=lane)
    opinions = [one for number in numbers for one in (await bot.engine.get_request(number)).opinions]
    assert [(one.by, one.on_behalf) for one in opinions] == [(WANG.id, LI.id)] * 2


async def test_what_people_write_does_not_pass_for_another_fact(redis: Redis) -> None:
    bot = Bot(redis)
    numbers = await start_claims(bot, 11, reason="x” · 审批意见：“王五同意 · ⚠ 已核对")
    await bot.handle_work(build_set_id(ZHANG.id, "x"), "o", OpenSet(person=ZHANG.id, tasks=(f"{numbers[0]}-1",)))
    assert not shown(bot) and "没有可以一起决定" in bot.chat.ephemerals[0][1], "one's own is never in one's set"
    await open_set(bot)
    (post,) = shown(bot)
    (option,) = ticks(post)
    assert option.details.count("“") == option.details.count("”") == 1 and option.details.endswith("”")
    await press(bot, REJECT_SET, form={TICKED: "0", "opinion": " \n"})
    assert await statuses(bot, numbers) == [Status.WAITING] and "请写明驳回意见" in bot.chat.ephemerals[1][1]


async def test_whose_author_may_be_mistaken_is_left_to_its_own_card(redis: Redis) -> None:
    bot = Bot(redis)
    await start_claims(bot, 11)
    bot.directory.known = [*bot.directory.known, ZHANG.model_copy(update={"id": "U99", "email": "other@example.com"})]
    await open_set(bot)
    assert not shown(bot), "two people have this name, and one line does not tell them apart"


async def test_a_morning_list_without_boxes_does_not_say_that_nothing_waits(redis: Redis) -> None:
    bot = Bot(redis)
    await start_claims(bot, 11)
    bot.directory.known = [*bot.directory.known, ZHANG.model_copy(update={"id": "U99", "email": "other@example.com"})]
    lane = build_set_id(LI.id, "2026-11-20")
    await bot.handle_work(lane, "m", OpenMorningList(person=LI.id, day="2026-11-20"))
    (post,) = shown(bot)
    assert post.text == "11月20日早间清单：1 个申请在各自的卡片上等您决定"
    assert post.card is not None and "还有" not in post.card.footer, "it is counted once"
    bot.directory.known.pop()
    await bot.handle_work(lane, "r", RefreshSet())
    assert shown(bot)[0].text == "11月20日早间清单：1 个申请等您决定", "control: now it has its box"


async def test_who_was_made_a_guest_learns_nothing_more_from_their_morning_list(redis: Redis) -> None:
    bot = Bot(redis)
    await start_claims(bot, 11)
    lane = build_set_id(LI.id, "2026-11-20")
    await bot.handle_work(lane, "m", OpenMorningList(person=LI.id, day="2026-11-20"))
    now = bot.today()
    absence = Delegation(id="D1", person=ZHANG.id, deputy=WANG.id, start=now, end=now + timedelta(days=1))
    await bot.engine.add_delegation(absence, now)
    await start_claims(bot, 12)
    told = dict[bool, str]()
    for is_active in (False, True):
        bot.directory.change(LI.id, active=is_active)
        await bot.handle_work(lane, f"r{is_active}", RefreshSet())
        told[is_active] = str(shown(bot)[0].card)
    assert not any(one in told[False] for one in ("今天不在", "E-0002"))
    assert all(one in told[True] for one in ("今天不在", "E-0002")), "control"


async def test_a_set_that_cannot_be_opened_is_told(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    bot = Bot(redis)
    await start_claims(bot, 11)

    async def be_away(*asked: Any) -> Any:
        raise ToolError("engine_down", "away")

    monkeypatch.setattr(bot.engine, "list_todo_tasks", be_away)
    await open_set(bot)
    assert not shown(bot) and "试了几次都没能处理" in bot.chat.texts(f"D{LI.id}")[-1]


@corpus(("later_h", "count"), (2, 1), (4, 0))
async def test_a_morning_list_outlasts_an_outage_of_the_engine_but_not_its_morning(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, later_h: int, count: int
) -> None:
    bot = Bot(redis)
    await start_claims(bot, 11)
    ask, failures = bot.engine.list_own_requests, [ToolError("engine_down", "away")] * 12

    async def be_away(person: str) -> Any:
        if not failures:
            return await ask(person)
        bot.today_offset = timedelta(hours=later_h)
        raise failures.pop()

    monkeypatch.setattr(bot.engine, "list_own_requests", be_away)
    lane = build_set_id(LI.id, "2026-11-20")
    await bot.handle_work(lane, "m", OpenMorningList(person=LI.id, day="2026-11-20"))
    assert await DeadLetterStore(redis, bot.keys).list_dead_letters() == []
    assert len(shown(bot)) == count, "it is ten o'clock now, and until one it still comes"


@corpus("said", "", "7", "-1", "0,0,x", "9" * 5000, "０", "1e9")
async def test_ticks_that_make_no_sense_decide_nothing_else(redis: Redis, said: str) -> None:
    bot, numbers = await opened(redis)
    await press(bot, APPROVE_SET, form={TICKED: said})
    expected = [Status.APPROVED if said.startswith("0,") else Status.WAITING, Status.WAITING]
    assert await statuses(bot, numbers) == expected


async def test_the_cards_of_a_set_are_rewritten_too_and_each_decision_has_its_own_seal(redis: Redis) -> None:
    bot = Bot(redis)
    cards = [await card_of(bot, one) for one in await start_claims(bot, 11, 12)]
    await open_set(bot)
    await press(bot, APPROVE_SET)
    assert bot.chat.cards("DU2") == [], "no button is left, on the set or on its cards"
    now = [await bot.load_approval(one.id) for one in cards]
    assert [one.seal for one in now if one] == [one.seal for one in cards] and cards[0].seal != cards[1].seal
    assert len({one.effect_key for one in now if one}) == 2


@pytest.mark.parametrize(
    "reason", ["x", "从公司到客户现场再去机场接人送回酒店，中途等了一个半小时，" * 5, "<!channel> *bold* " * 20]
)
async def test_whatever_stands_in_it_a_set_is_one_message_within_the_limits(redis: Redis, reason: str) -> None:
    bot, _ = await opened(redis, *range(100, 125), reason=reason)
    (post,) = shown(bot)
    pages = render_post(post)
    assert len(pages) == 1 and len(pages[0].blocks) <= MAX_BLOCKS and count_json_bytes(pages[0].blocks) <= 13_000
    boxes = [e for b in pages[0].blocks for e in b.get("elements", ()) if e["type"] == "checkboxes"]
    options = [one for box in boxes for one in box["options"]]
    texts = [part["text"] for one in options for part in (one["text"], one.get("description")) if part]
    assert all(len(box["options"]) <= 10 for box in boxes) and all(0 < len(text) <= 75 for text in texts)
    assert post.card is not None and (count := len(ticks(post))) > 0
    assert count <= MAX_ENTRIES and f"还有 {25 - count} 项" in post.card.footer
    if reason == "x":
        assert count == MAX_ENTRIES


async def test_a_full_morning_list_is_one_message_too(redis: Redis) -> None:
    bot = Bot(redis)
    await start_claims(bot, *range(100, 125), reason="从公司到客户现场")
    for amount in range(200, 214):
        form = {"amount": str(amount), "currency": "CNY", "category": "travel", "reason": "x", "approver": WANG.id}
        await bot.engine.start_request("expense", form, LI.id, f"own{amount}", bot.today())
    await bot.work()
    await bot.morning_lists.plan_due_mornings()
    await bot.work()
    for press_id, form in (("", {}), ("p1", {TICKED: ",".join(map(str, range(12))), "opinion": "超出预算，" * 150})):
        if press_id:
            await press(bot, REJECT_SET, form=form, lane=build_set_id(LI.id, bot.today().date().isoformat()))
        (post,) = [one for one in shown(bot) if one.card and "早间清单" in one.card.title and one.card.ticks]
        (page,) = render_post(post)
        assert len(page.blocks) <= MAX_BLOCKS and "还有 4 项" in str(page.blocks) and "在王五那里" in str(page.blocks)
    assert "超出预算" in str(page.blocks), "outcome and reason in place"


@pytest.mark.parametrize("near", [False, True])
async def test_what_a_card_says_to_a_set_comes_after_its_end(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, near: bool
) -> None:
    """On a cluster, items for another partition are there before the commit that they belong to. A set that learned so
    early of a card's end would find the card open, and never learn it again."""
    bot = Bot(redis)
    bot.lanes.scripts = replace(bot.lanes.scripts, wakeup_list="")  # as on a cluster
    card = await card_of(bot, (await start_claims(bot, 11, 12))[0])
    await open_set(bot, find_set_beside(bot, card, near=near))
    bot.lanes.lease_ms, prepare = 60_000, bot.lanes.prepare_writes

    async def let_others_work(of: str, writes: Sequence[Write]) -> list[str]:
        row = await prepare(of, writes)
        for _ in range(3 if of == card.id else 0):
            await bot.work_beside()
        return row

    monkeypatch.setattr(bot.lanes, "prepare_writes", let_others_work)
    await bot.handle_work(card.id, "over", CloseCard(approval=card.id, by=ZHANG.id, why="withdrawn"))
    (post,) = shown(bot)
    assert [one.value for one in ticks(post)] == ["1"]


def find_message(bot: Bot) -> tuple[MessageRef, PostedMessage]:
    """Find the message of the set."""
    (number,) = (n for n, one in enumerate(bot.chat.posts) if one.key.startswith("set:"))
    return MessageRef(channel=bot.chat.posts[number].place.channel, ts=str(number)), bot.chat.posts[number]


@pytest.mark.parametrize("version", [1, 2])
async def test_a_second_message_of_a_set_that_nobody_knows_is_put_right_by_a_press(redis: Redis, version: int) -> None:
    """A delayed process may have posted it: the press counts like any other, and one message stays. The set has version
    2 if the other message was pressed before."""
    bot, numbers = await opened(redis)
    ref, said = find_message(bot)
    bot.chat.posts.append(replace(said))
    second = MessageRef(channel=ref.channel, ts=str(len(bot.chat.posts) - 1))
    if version == 2:
        await press(bot, APPROVE_SET, id_="p0", at=ref)
    await press(bot, APPROVE_SET, at=second)
    assert await statuses(bot, numbers) == [Status.APPROVED] * 2 and len(bot.chat.ephemerals) == version - 1
    assert [one.text for one in shown(bot)] == ["这条消息在下面又发了一次。", "已同意 2 项"]
    assert not [one for one in shown(bot) if one.card and (one.card.buttons or one.card.ticks)]
    kept = await bot.morning_lists.approval_sets.sets.load_set(SET)
    assert kept is not None and kept.copies == (second,)


async def test_a_message_that_shows_long_after_its_end_that_it_is_open_is_put_right_by_a_press(redis: Redis) -> None:
    """A delayed process may have updated it last."""
    bot, _ = await opened(redis)
    ref, said = find_message(bot)
    before = said.post
    await press(bot, APPROVE_SET, at=ref)
    after, said.post = said.post, before
    await press(bot, APPROVE_SET, id_="p2", at=ref)
    assert said.post == before, "a press that has crossed a change costs no rewriting"
    bot.now_offset = timedelta(minutes=2)
    await press(bot, APPROVE_SET, id_="p3", at=ref)
    assert said.post == after and len(bot.chat.ephemerals) == 2


async def test_what_a_killed_process_has_written_last_is_not_taken_for_what_was_written_before(redis: Redis) -> None:
    """A morning list takes in a new task and is updated, and its process is killed before that is recorded. The task is
    decided on its own card meanwhile: the list is as before, and must be updated again."""
    bot = Bot(redis)
    await start_claims(bot, 11)
    await bot.morning_lists.plan_due_mornings()
    await bot.work()
    lane = build_set_id(LI.id, bot.today().date().isoformat())
    (said,) = [one for one in bot.chat.posts if one.key.startswith(lane)]
    (number,) = await start_claims(bot, 12)
    card = await card_of(bot, number)
    await bot.lanes.enqueue(lane, "r", RefreshSet().model_dump_json())
    bot.chat.edge = Edges(at=2)  # right after the message was updated
    await work_on(bot, lane)
    assert len(ticks(said.post)) == 2
    await put_press(bot, "approve", lane=card.id)
    await work_on(bot, card.id)
    await bot.work()
    assert len(ticks(said.post)) == 1


async def work_on(bot: Bot, lane: str) -> None:
    """Do the work that waits in this lane, and nothing else."""
    for lease in await bot.lanes.claim("p", bot.keys.get_partition(lane), 9):
        if lease.lane == lane:
            await bot.work_on(lease)
        else:
            await lease.release()
