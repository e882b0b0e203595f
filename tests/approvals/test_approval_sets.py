"""Sets of tasks without a platform: killed anywhere they are shown once and decide once; what changed is skipped and
said; authority is what it is at the press."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from redis.asyncio import Redis

from bot.approvals.approval_sets import MAX_ENTRIES
from bot.chat.messages import Click, MessageRef, Post
from bot.chat.slack.blocks import MAX_BLOCKS, count_json_bytes, render_post
from bot.core.approval_sets import APPROVE_SET, REJECT_SET, SEVERAL, TICK, TICKED, build_set_id
from bot.core.records import Approval
from bot.core.work_items import ButtonPressed, CloseCard, OpenMorningList, OpenSet, RefreshSet
from bot.queue.writes import Write
from bot.storage.approvals import derive_task_card_id
from tests.harness.lab import DM, Edges, Lab, Said, every_edge
from tests.tools.company import LI, WANG, ZHANG
from tools.workflow.engine.state import Decision, Delegation, Status

SET = build_set_id(LI.id, "x")


async def start_claims(lab: Lab, *amounts: int, reason: str = "taxi", category: str = "transport") -> list[str]:
    """Claims that wait for Li Si; their cards are open."""
    started = []
    for amount in amounts:
        form = {"amount": str(amount), "currency": "CNY", "category": category, "reason": reason, "approver": LI.id}
        made = await lab.engine.start_request("expense", form, ZHANG.id, f"s{amount}", lab.today())
        started.append(made.request)
    await lab.work()
    return started


async def open_set(lab: Lab, id_: str = "o1", person: str = LI.id) -> None:
    await lab.lanes.enqueue(SET, id_, OpenSet(person=person).model_dump_json())


async def press(
    lab: Lab, choice: str, person: str = LI.id, id_: str = "p1", version: int = 1, form: dict[str, str] | None = None,
    lane: str = SET, at: MessageRef | None = None,
) -> None:  # fmt: skip
    click = Click(id=id_, approval=lane, version=version, choice=choice, person=person, place=DM, form=form, card=at)
    await lab.lanes.enqueue(lane, id_, ButtonPressed(click=click).model_dump_json())


def shown(lab: Lab) -> list[Post]:
    """Messages of sets, as they are now."""
    return [one.post for one in lab.wall.said if one.key.startswith("set:")]


async def statuses(lab: Lab, numbers: list[str]) -> list[Status]:
    return [(await lab.engine.get_request(one)).status for one in numbers]


async def card_of(lab: Lab, number: str) -> Approval:
    task = (await lab.engine.get_request(number)).open_tasks[0].id
    found = await lab.approvals.load_approval(derive_task_card_id(lab.keys, task))
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.parametrize("choice", [APPROVE_SET, REJECT_SET])
async def test_killed_anywhere_it_is_shown_once_and_decides_once(redis: Redis, choice: str) -> None:
    async def play(edges: Edges) -> None:
        await redis.flushall()
        lab = Lab(redis)
        numbers = await start_claims(lab, 11, 12, 13)
        lab.wall.edge = lab.lanes.edge = edges
        await open_set(lab)
        await lab.work()
        await press(lab, choice, form={TICKED: "0,2", "opinion": "no receipt"})
        await lab.work()
        done = {APPROVE_SET: Status.APPROVED, REJECT_SET: Status.REVISE}[choice]
        assert await statuses(lab, numbers) == [done, Status.WAITING, done]
        opinions = [(await lab.engine.get_request(one)).opinions for one in numbers]
        assert [len(one) for one in opinions] == [1, 0, 1]
        assert len(shown(lab)) == 1
        card = shown(lab)[0].card
        assert card is not None and card.ticks is not None and [one.value for one in card.ticks.options] == ["1"]
        kinds = Counter(await lab.kinds())
        assert kinds["effect.done"] == 2 and kinds["set.opened"] == kinds["set.pressed"] == 1

    assert await every_edge(play) > 20


@pytest.mark.slow
async def test_a_morning_list_killed_anywhere_is_posted_once(redis: Redis) -> None:
    async def play(edges: Edges) -> None:
        await redis.flushall()
        lab = Lab(redis)
        await start_claims(lab, 11)
        lab.wall.edge = lab.lanes.edge = edges
        day = lab.today().date().isoformat()
        for _ in range(2):  # two processes
            lab.mornings.planned.clear()
            await lab.mornings.plan_due_mornings()
            await lab.work()
        again = OpenMorningList(person=LI.id, day=day).model_dump_json()
        await lab.lanes.enqueue(build_set_id(LI.id, day), "by another name", again)
        await lab.work()
        assert len([one for one in shown(lab) if one.card and "11月20日" in one.card.title]) == 2, (
            "Li Si, and the author"
        )

    assert await every_edge(play) > 5


async def test_everybody_has_their_own_morning(redis: Redis) -> None:
    """Ten in Shanghai is nine in the evening in New York; eleven hours later it is their morning, and night here."""
    lab = Lab(redis)
    lab.staff.known = [
        one.model_copy(update={"timezone": "America/New_York"}) if one.id == ZHANG.id else one
        for one in lab.staff.known
    ]
    await start_claims(lab, 11)
    for hours, whose in ((0, [LI.id]), (12, [LI.id, ZHANG.id]), (13, [LI.id, ZHANG.id])):
        lab.days = timedelta(hours=hours)
        await lab.mornings.plan_due_mornings()
        await lab.work()
        mornings = [one.place.channel[1:] for one in lab.wall.said if one.key.startswith("set:")]
        assert mornings == whose


async def test_what_has_changed_since_it_was_shown_is_skipped_and_said(redis: Redis) -> None:
    lab = Lab(redis)
    numbers = await start_claims(lab, 11, 12)
    await open_set(lab)
    await lab.work()
    card = await card_of(lab, numbers[0])
    await redis.hset(lab.keys.build_key(lab.keys.get_partition(card.id), "apr", card.id), "version", "2")
    await press(lab, APPROVE_SET, form={TICKED: "0,1"})
    await lab.work()
    assert await statuses(lab, numbers) == [Status.WAITING, Status.APPROVED]
    (post,) = shown(lab)
    assert post.card is not None and any("跳过：内容已经变了" in value for _, value in post.card.facts)


async def test_who_was_made_a_guest_a_moment_ago_decides_nothing_and_reads_why(redis: Redis) -> None:
    lab = Lab(redis)
    numbers = await start_claims(lab, 11, 12)
    await open_set(lab)
    await lab.work()
    (li,) = [one for one in lab.staff.known if one.id == LI.id]
    lab.staff.by_now[LI.id] = li.model_copy(update={"active": False})
    await press(lab, APPROVE_SET)
    await lab.work()
    assert await statuses(lab, numbers) == [Status.WAITING] * 2
    assert Counter(await lab.kinds())["approval.refused"] == 2


async def test_without_the_fresh_look_they_would_have_decided(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control."""
    lab = Lab(redis)
    numbers = await start_claims(lab, 11)
    await open_set(lab)
    await lab.work()
    (li,) = [one for one in lab.staff.known if one.id == LI.id]
    lab.staff.by_now[LI.id] = li.model_copy(update={"active": False})

    async def remembered(people: object) -> None: ...

    monkeypatch.setattr(lab.staff, "refresh_people", remembered)
    await press(lab, APPROVE_SET)
    await lab.work()
    assert await statuses(lab, numbers) == [Status.APPROVED]


@pytest.mark.parametrize("person", [ZHANG.id, WANG.id])
async def test_whose_it_is_not_neither_opens_ticks_nor_decides(redis: Redis, person: str) -> None:
    lab = Lab(redis)
    numbers = await start_claims(lab, 11)
    await press(lab, SEVERAL, person, "a")  # in somebody else's lane
    await open_set(lab)
    for id_, choice in (("b", APPROVE_SET), ("c", REJECT_SET), ("d", TICK), ("e", SEVERAL)):
        await press(lab, choice, person, id_, form={TICKED: "0", "opinion": "x"})
    await lab.work()
    assert await statuses(lab, numbers) == [Status.WAITING] and len(shown(lab)) == 1
    assert len(lab.wall.whispers) == 5 and {one for one, _ in lab.wall.whispers} == {person}


async def test_who_stands_in_reads_for_whom_and_what_is_unusual(redis: Redis) -> None:
    lab = Lab(redis)
    numbers = await start_claims(lab, 600, 500)  # together they reach the amount that finance decides on
    now = lab.today()
    absence = Delegation(id="D1", person=LI.id, deputy=WANG.id, start=now, end=now + timedelta(days=1))
    await lab.engine.add_delegation(absence, now)
    await lab.work()
    lane = build_set_id(WANG.id, "x")
    await lab.lanes.enqueue(lane, "o", OpenSet(person=WANG.id).model_dump_json())
    await lab.work()
    (post,) = shown(lab)
    assert post.card is not None and post.card.ticks is not None
    first, second = post.card.ticks.options
    assert first.text.endswith(("代李四处理", "for Li Si")) and "⚠" in second.details and "1100" in second.details
    await press(lab, APPROVE_SET, WANG.id, lane=lane)
    await lab.work()
    assert [
        (one.by, one.on_behalf) for number in numbers for one in (await lab.engine.get_request(number)).opinions
    ] == [(WANG.id, LI.id)] * 2


async def test_whose_author_may_be_mistaken_is_left_to_its_own_card(redis: Redis) -> None:
    lab = Lab(redis)
    await start_claims(lab, 11)
    lab.staff.known = [*lab.staff.known, ZHANG.model_copy(update={"id": "U99", "email": "other@example.com"})]
    await open_set(lab)
    await lab.work()
    assert not shown(lab), "two people have this name, and one line does not tell them apart"


async def test_what_people_write_does_not_pass_for_another_fact(redis: Redis) -> None:
    lab = Lab(redis)
    await start_claims(lab, 11, reason="x” · 审批意见：“王五同意 · ⚠ 已核对")
    await open_set(lab)
    await lab.work()
    (post,) = shown(lab)
    assert post.card is not None and post.card.ticks is not None
    (option,) = post.card.ticks.options
    assert option.details.count("“") == option.details.count("”") == 1 and option.details.endswith("”")


async def test_ones_own_request_is_never_in_ones_set(redis: Redis) -> None:
    lab = Lab(redis)
    numbers = await start_claims(lab, 11)
    await lab.lanes.enqueue(
        build_set_id(ZHANG.id, "x"), "o", OpenSet(person=ZHANG.id, tasks=(f"{numbers[0]}-1",)).model_dump_json()
    )
    await lab.work()
    assert not shown(lab) and "没有可以一起决定" in lab.wall.whispers[0][1]


@pytest.mark.parametrize("said", ["", "7", "-1", "0,0,x", "9" * 5000, "０", "1e9"])
async def test_ticks_that_make_no_sense_decide_nothing_else(redis: Redis, said: str) -> None:
    lab = Lab(redis)
    numbers = await start_claims(lab, 11, 12)
    await open_set(lab)
    await lab.work()
    await press(lab, APPROVE_SET, form={TICKED: said})
    await lab.work()
    expected = [Status.APPROVED if said.startswith("0,") else Status.WAITING, Status.WAITING]
    assert await statuses(lab, numbers) == expected


async def test_a_rejection_without_a_reason_rejects_nothing(redis: Redis) -> None:
    lab = Lab(redis)
    numbers = await start_claims(lab, 11)
    await open_set(lab)
    await press(lab, REJECT_SET, form={TICKED: "0", "opinion": " \n"})
    await lab.work()
    assert await statuses(lab, numbers) == [Status.WAITING] and "请写明驳回的理由" in lab.wall.whispers[0][1]


async def test_the_card_of_a_set_is_rewritten_too_and_each_decision_has_its_hash(redis: Redis) -> None:
    lab = Lab(redis)
    numbers = await start_claims(lab, 11, 12)
    cards = [await card_of(lab, one) for one in numbers]
    await open_set(lab)
    await press(lab, APPROVE_SET)
    await lab.work()
    assert len(lab.wall.cards("DU2")) == 0, "no button is left, on the set or on its cards"
    now = [await lab.approvals.load_approval(one.id) for one in cards]
    assert [one.seal for one in now if one] == [one.seal for one in cards] and cards[0].seal != cards[1].seal
    assert len({one.effect_key for one in now if one}) == 2
    events = [await lab.engine.list_events(one) for one in numbers]
    assert [len([e for e in one if e.command.kind == "decide"]) for one in events] == [1, 1]
    assert [(await lab.engine.get_request(one)).opinions[0].decision for one in numbers] == [Decision.APPROVE] * 2


@pytest.mark.parametrize(
    "reason", ["x", "从公司到客户现场再去机场接人送回酒店，中途等了一个半小时，" * 5, "<!channel> *bold* " * 20]
)
async def test_whatever_stands_in_it_a_set_is_one_message_within_the_limits(redis: Redis, reason: str) -> None:
    lab = Lab(redis)
    await start_claims(lab, *range(100, 125), reason=reason)
    await open_set(lab)
    await lab.work()
    (post,) = shown(lab)
    assert post.card is not None and post.card.ticks is not None
    pages = render_post(post)
    assert len(pages) == 1 and len(pages[0].blocks) <= MAX_BLOCKS and count_json_bytes(pages[0].blocks) <= 13_000
    boxes = [e for b in pages[0].blocks for e in b.get("elements", ()) if e["type"] == "checkboxes"]
    texts = [
        part["text"] for box in boxes for o in box["options"] for part in (o["text"], o.get("description")) if part
    ]
    assert all(len(box["options"]) <= 10 for box in boxes) and all(0 < len(text) <= 75 for text in texts)
    count = len(post.card.ticks.options)
    assert count <= MAX_ENTRIES and f"还有 {25 - count} 项" in post.card.footer
    if reason == "x":
        assert count == MAX_ENTRIES


async def test_a_full_morning_list_is_one_message_too(redis: Redis) -> None:
    lab = Lab(redis)
    await start_claims(lab, *range(100, 125), reason="从公司到客户现场")
    for amount in range(200, 214):
        form = {"amount": str(amount), "currency": "CNY", "category": "travel", "reason": "x", "approver": WANG.id}
        await lab.engine.start_request("expense", form, LI.id, f"own{amount}", lab.today())
    await lab.work()
    await lab.mornings.plan_due_mornings()
    await lab.work()
    for press_id, form in (("", {}), ("p1", {TICKED: ",".join(map(str, range(12))), "opinion": "超出预算，" * 150})):
        if press_id:
            lane = build_set_id(LI.id, lab.today().date().isoformat())
            await press(lab, REJECT_SET, form=form, lane=lane)
            await lab.work()
        (post,) = [one for one in shown(lab) if one.card and "早间清单" in one.card.title and one.card.ticks]
        (page,) = render_post(post)
        assert len(page.blocks) <= MAX_BLOCKS and "还有 4 项" in str(page.blocks) and "在王五那里" in str(page.blocks)
    assert "超出预算" in str(page.blocks), "outcome and reason in place"


def find_set_beside(lab: Lab, card: Approval, *, near: bool = False) -> str:
    """The id of a set of Li Si's in another partition than the card's, or in the same one."""
    home = lab.keys.get_partition(card.id)
    names = (build_set_id(LI.id, f"s{n}") for n in range(100))
    return next(one for one in names if (lab.keys.get_partition(one) == home) is near)


@pytest.mark.parametrize("near", [False, True])
async def test_what_a_card_says_to_a_set_comes_after_its_end(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, near: bool
) -> None:
    """Items for another partition are there before the commit that they belong to: a set that is told so early that a
    card has ended would find it open, and never be told again."""
    lab = Lab(redis)
    numbers = await start_claims(lab, 11, 12)
    card = await card_of(lab, numbers[0])
    lane = find_set_beside(lab, card, near=near)
    await lab.lanes.enqueue(lane, "o1", OpenSet(person=LI.id).model_dump_json())
    await lab.work()
    lab.lanes.lease_ms, prepare = 60_000, lab.lanes.prepare_writes

    async def let_others_work(of: str, writes: Sequence[Write]) -> list[str]:
        row = await prepare(of, writes)
        for _ in range(3 if of == card.id else 0):
            await lab.work_beside()
        return row

    monkeypatch.setattr(lab.lanes, "prepare_writes", let_others_work)
    close = CloseCard(approval=card.id, by=ZHANG.id, why="withdrawn")
    await lab.lanes.enqueue(card.id, "over", close.model_dump_json())
    await lab.work()
    (post,) = shown(lab)
    assert post.card is not None and post.card.ticks is not None
    assert [one.value for one in post.card.ticks.options] == ["1"]


def find_message(lab: Lab) -> tuple[MessageRef, Said]:
    """The message of the set."""
    (number,) = (n for n, one in enumerate(lab.wall.said) if one.key.startswith("set:"))
    return MessageRef(channel=lab.wall.said[number].place.channel, ts=str(number)), lab.wall.said[number]


@pytest.mark.parametrize("version", [1, 2])
async def test_a_second_message_of_a_set_that_nobody_knows_of_is_put_right_when_it_is_pressed(
    redis: Redis, version: int
) -> None:
    """A process that was held up may have posted it: the press counts like any other, and one message stays. Version 2
    is the set's when it has been pressed on the other message before."""
    lab = Lab(redis)
    numbers = await start_claims(lab, 11, 12)
    await open_set(lab)
    await lab.work()
    ref, said = find_message(lab)
    lab.wall.said.append(replace(said))
    second = MessageRef(channel=ref.channel, ts=str(len(lab.wall.said) - 1))
    if version == 2:
        await press(lab, APPROVE_SET, id_="p0", at=ref)
        await lab.work()
    await press(lab, APPROVE_SET, at=second)
    await lab.work()
    assert await statuses(lab, numbers) == [Status.APPROVED] * 2 and len(lab.wall.whispers) == version - 1
    assert [one.text for one in shown(lab)] == ["这条消息在下面又发了一次。", "2 项都已处理"]
    assert not [one for one in shown(lab) if one.card and (one.card.buttons or one.card.ticks)]
    kept = await lab.sets.sets.load_set(SET)
    assert kept is not None and kept.copies == (second,)


async def test_a_message_that_shows_long_after_its_end_that_it_is_open_is_put_right_when_it_is_pressed(
    redis: Redis,
) -> None:
    """A process that was held up may have rewritten it last."""
    lab = Lab(redis)
    await start_claims(lab, 11, 12)
    await open_set(lab)
    await lab.work()
    ref, said = find_message(lab)
    before = said.post
    await press(lab, APPROVE_SET, at=ref)
    await lab.work()
    after, said.post = said.post, before
    await press(lab, APPROVE_SET, id_="p2", at=ref)
    await lab.work()
    assert said.post == before, "a press that has crossed a change costs no rewriting"
    lab.ahead = timedelta(minutes=2)
    await press(lab, APPROVE_SET, id_="p3", at=ref)
    await lab.work()
    assert said.post == after and len(lab.wall.whispers) == 2


async def test_what_a_killed_process_has_written_last_is_not_taken_for_what_was_written_before(redis: Redis) -> None:
    """A morning list takes in a new task and is rewritten, and its process is killed before that is on record. The task
    is decided on its own card meanwhile: the list is as it was before, and has to say so again."""
    lab = Lab(redis)
    await start_claims(lab, 11)
    await lab.mornings.plan_due_mornings()
    await lab.work()
    lane = build_set_id(LI.id, lab.today().date().isoformat())
    (said,) = [one for one in lab.wall.said if one.key.startswith(lane)]
    (number,) = await start_claims(lab, 12)
    card = await card_of(lab, number)
    await lab.lanes.enqueue(lane, "r", RefreshSet().model_dump_json())
    lab.wall.edge = Edges(at=2)  # right after the message was rewritten
    await work_on(lab, lane)
    assert count_boxes(said) == 2
    await press(lab, "approve", lane=card.id)
    await work_on(lab, card.id)
    await lab.work()
    assert count_boxes(said) == 1


async def work_on(lab: Lab, lane: str) -> None:
    """What waits in this lane is done, and nothing else."""
    leases = await lab.lanes.claim("p", lab.keys.get_partition(lane), 9)
    for lease in leases:
        if lease.lane == lane:
            await lab._one(lease)
        else:
            await lease.release()


def count_boxes(said: Said) -> int:
    card = said.post.card
    return len(card.ticks.options) if card is not None and card.ticks is not None else 0
