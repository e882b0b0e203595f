"""Dead letters: nothing of them is lost, and each comes back once for everybody who asks."""

import asyncio
import json
from typing import Any

import pytest

from bot.app.dispatch import parse_work
from bot.chat.messages import Click, Message, Place
from bot.core.records import Run, RunStatus
from bot.core.run_state import CallStatus
from bot.core.work_items import ButtonPressed, MessageReceived, NotifyPerson, ResumeRun
from bot.ops.dead_letters import MARK_TIMEOUT_MS, find_dead_letter, retry_dead_letter
from bot.queue.lanes import EnqueueResult, LaneItem, Lanes, Lease
from bot.queue.writes import apply_writes
from bot.storage.dead_letters import DeadLetter, DeadLetterStore
from bot.storage.journal import Journal
from bot.storage.runs import RunStore
from tools.spec import TextRef

PLACE = Place(team="T", channel="D1", thread="1.0", direct=True)
LANE = PLACE.conversation
MESSAGE = Message(id="Ev1", place=PLACE, person="U1", text="hello", at="1.0")
CLICK = Click(id="t1", approval="A00abcabcabcabc", version=1, choice="confirm", person="U2", place=PLACE)


@pytest.fixture
def letters(lanes: Lanes) -> DeadLetterStore:
    return DeadLetterStore(lanes.redis, lanes.keys)


async def take(lanes: Lanes, lane: str = LANE) -> Lease:
    [lease] = await lanes.claim("me", lanes.keys.get_partition(lane), 1)
    return lease


async def buried(
    lanes: Lanes, body: str, *, id: str = "Ev1", lane: str = LANE, error: str = "ValueError: no"
) -> DeadLetter:
    """Puts an item, gives it up, and finds its letter."""
    letters = DeadLetterStore(lanes.redis, lanes.keys)
    assert await lanes.enqueue(lane, id, body) is EnqueueResult.NEW
    lease = await take(lanes, lane)
    await lease.commit(*letters.build_bury_writes(lease.item, error))
    letter = await find_dead_letter(letters, id)
    assert letter is not None
    return letter


def wrote(id: str = "Ev1") -> str:
    return MessageReceived(message=MESSAGE.model_copy(update={"id": id})).model_dump_json()


async def journal(lanes: Lanes) -> list[tuple[str, str, str, dict[str, object]]]:
    told = Journal(lanes.redis, lanes.keys).stream_records()
    return [(one.kind, one.person, one.text, one.more) async for one in told]


async def test_a_letter_says_when_what_whose_where_and_why(lanes: Lanes, letters: DeadLetterStore) -> None:
    letter = await buried(lanes, wrote(), error="ValueError: xoxb-1-secret")
    assert await letters.list_dead_letters() == [letter]
    assert (letter.kind, letter.person, letter.item.lane, letter.item.tries) == ("message_received", "U1", LANE, 1)
    assert letter.item.error == "ValueError: xoxb-***" and letter.item.body == wrote()
    assert letter.given_up_ms >= letter.item.put_ms > 0
    [(kind, person, text, more)] = await journal(lanes)
    assert (kind, person) == ("item.dead", "U1") and text.endswith("ValueError: xoxb-***")
    assert more == {"item": "Ev1", "work": "message_received"}


async def test_letters_of_all_partitions_stand_in_the_order_of_their_ends_and_what_nobody_can_read_comes_back_as_it_is(
    lanes: Lanes, letters: DeadLetterStore
) -> None:
    bodies = ("", "no json", "[]", "null", '{"kind": 3}', '{"message": 1}', '{"kind": "huddle"}')
    found = [await buried(lanes, body, id=f"Ev{n}", lane=f"lane {n}") for n, body in enumerate(bodies)]
    assert await letters.list_dead_letters() == found
    assert len({lanes.keys.get_partition(one.item.lane) for one in found}) == 2
    for letter, body in zip(found, bodies, strict=True):
        assert letter.kind in ("", "huddle") and letter.person == ""
        assert await retry_dead_letter(letters, letter, "root")
        assert (await take(lanes, letter.item.lane)).item.body == body


async def test_messages_and_presses_come_back_as_other_ones_and_other_work_unchanged(
    lanes: Lanes, letters: DeadLetterStore
) -> None:
    letter = await buried(lanes, wrote())
    done = await retry_dead_letter(letters, letter, "root")
    assert done is not None and done.by == "root"
    item = (await take(lanes)).item
    assert item.id == done.retried_as != "Ev1"
    assert (item.tries, item.is_redelivery) == (1, True), "some of its posts may be there already"
    work = parse_work(item.body)
    assert work == MessageReceived(message=MESSAGE.model_copy(update={"id": item.id})), "so that its run is another one"
    assert await letters.list_dead_letters() == []
    kind, _, text, more = (await journal(lanes))[-1]
    assert (kind, text, more) == ("item.retried", "put back by root", {"item": item.id, "was": "Ev1"})
    assert await lanes.enqueue(LANE, "Ev1", wrote()) is EnqueueResult.DUPLICATE, "if the platform sends it again"
    lane = CLICK.approval
    letter = await buried(lanes, ButtonPressed(click=CLICK).model_dump_json(), id="t1", lane=lane)
    done = await retry_dead_letter(letters, letter, "root")
    assert done is not None and letter.person == "U2"
    work = parse_work((await take(lanes, lane)).item.body)
    assert work == ButtonPressed(click=CLICK.model_copy(update={"id": done.retried_as})), "not the one that has decided"
    body = NotifyPerson(person="U3", text=TextRef(key="notice.approved", params={"request": "L-1"})).model_dump_json()
    letter = await buried(lanes, body, id="N1", lane="U3")
    await retry_dead_letter(letters, letter, "root")
    assert (await take(lanes, "U3")).item.body == body and letter.person == "U3"


async def test_a_run_that_was_stopped_goes_on_and_no_other_is_touched(lanes: Lanes, letters: DeadLetterStore) -> None:
    runs, home = RunStore(lanes.redis, lanes.keys), lanes.keys.get_partition(LANE)
    for status in RunStatus:
        run = Run(id=lanes.keys.derive_id("R", home, status), message=MESSAGE, language="en", created_ms=1)
        run.status = status
        run.state.append_message({"role": "user", "content": "hello"})
        await apply_writes(lanes.redis, lanes.keys, home, runs.build_save_writes(run))
        resume = ResumeRun(run=run.id, uid="u1", status=CallStatus.SUCCEEDED, observation={})
        await retry_dead_letter(letters, await buried(lanes, resume.model_dump_json(), id=status), "root")
        after = await runs.load_run(run.id)
        assert after is not None and after.state.messages == run.state.messages
        assert after.status is (RunStatus.RUNNING if status is RunStatus.STOPPED else status)
        await (await take(lanes)).commit()


async def test_many_at_once_put_it_back_once_and_what_fails_again_can_come_back_again(
    lanes: Lanes, letters: DeadLetterStore
) -> None:
    letter, ids = await buried(lanes, wrote()), ["Ev1"]
    for _ in range(3):
        done = await asyncio.gather(*(retry_dead_letter(letters, letter, f"admin {n}") for n in range(8)))
        [winner] = [one for one in done if one is not None]
        lease = await take(lanes)
        found = await find_dead_letter(letters, ids[-1])
        assert found is not None and (found.by, found.retried_as) == (winner.by, winner.retried_as)
        assert await retry_dead_letter(letters, found, "late") is None
        ids.append(lease.item.id)
        assert await lease.commit(*letters.build_bury_writes(lease.item, "again")) is None, "there is one"
        [letter] = await letters.list_dead_letters()
        assert letter.item.id == lease.item.id
    assert [kind for kind, *_ in await journal(lanes)] == ["item.dead", *["item.retried", "item.dead"] * 3]
    assert len(set(ids)) == 4 and all(id.startswith("Ev1") and id.count("~") <= 1 for id in ids)


async def test_who_dies_between_the_mark_and_the_item_loses_nothing_and_who_says_it_twice_puts_it_back_all_the_same(
    lanes: Lanes, letters: DeadLetterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client whose connection broke repeats what it said: the mark is its own."""
    letter, redis = await buried(lanes, wrote()), lanes.redis
    mark, once = letters.build_mark_key(letter), redis.set
    await redis.set(mark, json.dumps(["ghost", letter.retry_id, "1"]), px=MARK_TIMEOUT_MS)
    assert await retry_dead_letter(letters, letter, "root") is None
    await redis.delete(mark)  # its time is over
    assert await letters.list_dead_letters() == [letter]

    async def repeat(*args: Any, **named: Any) -> Any:
        await once(*args, **named)
        return await once(*args, **named)

    monkeypatch.setattr(redis, "set", repeat)
    assert await retry_dead_letter(letters, letter, "root")
    assert (await take(lanes)).item.id == letter.retry_id
    assert await retry_dead_letter(letters, letter, "late") is None
    assert 0 < await redis.pttl(mark) <= 90 * 24 * 3_600_000, "letters and marks end"


async def test_of_two_letters_with_one_id_the_one_that_waits_is_meant(lanes: Lanes, letters: DeadLetterStore) -> None:
    id, home = "remind:A:1", lanes.keys.get_partition(LANE)
    for put_ms in (1, 2, 3):
        letter = letters.build_bury_writes(LaneItem(LANE, id, "{}", 6, put_ms), "no")
        await apply_writes(lanes.redis, lanes.keys, home, letter)
    for put_ms in (3, 2, 1):
        found = await find_dead_letter(letters, id)
        assert found is not None and found.item.put_ms == put_ms
        assert await retry_dead_letter(letters, found, "root")
    found = await find_dead_letter(letters, id)
    assert found is not None and found.retried_as and await letters.list_dead_letters() == []


async def test_whose_and_where_a_letter_is(lanes: Lanes, letters: DeadLetterStore) -> None:
    """Also of work that only a newer process knows."""
    bodies = {
        ButtonPressed(click=CLICK).model_dump_json(): "U2",
        json.dumps({"kind": "open_card", "caller": "U3", "place": {"channel": "C9"}}): "U3",
        json.dumps({"kind": "huddle", "person": 7, "caller": "U4"}): "U4",
        json.dumps({"kind": "huddle", "message": {"person": "U5", "place": {"channel": 3}}}): "U5",
    }
    for number, (body, person) in enumerate(bodies.items()):
        assert (await buried(lanes, body, id=f"E{number}")).person == person
    told = [one async for one in Journal(lanes.redis, lanes.keys).stream_records()]
    assert [one.person for one in told] == list(bodies.values())
    assert [one.channel for one in told] == ["D1", "C9", "", ""]
    assert all(one.text.startswith("given up after 0 tries: ") for one in told)
