"""Cards that wait longer than Feishu lets them be updated: posted anew in time, once, and still the same card."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest
from redis.asyncio import Redis

from bot.chat.messages import Button, Card, MessageRef, PersonPicker, Place, Post
from bot.core.clock import Clock
from bot.core.errors import ChatUnavailableError
from bot.dev.workspace.feishu.workspace import FeishuWorkspace
from bot.dev.workspace.feishu.world import FeishuSetup, convert_id
from bot.ops.personal_data import PersonalData
from bot.people.directory import PlatformDirectory
from bot.platforms.feishu.channel import FeishuChannel, encode_content
from bot.platforms.feishu.client import identify_bot, open_feishu_client
from bot.platforms.feishu.directory import FeishuMembers
from bot.platforms.feishu.renewals import keep_cards_renewed, renew_cards
from bot.platforms.feishu.sent_cards import DECIDED_MS, SentCards
from bot.queue.keys import Keys
from bot.queue.lanes import Lanes
from tests.harness.workspace_server import serve_workspace
from tests.platforms.feishu.message_server import DAY, HOUR, TENANT, Said
from tests.platforms.feishu.sending_desk import DM, LI, PLACE, Desk, has_buttons
from tests.platforms.slack.doubles import CARD, LATER, OVER

ANSWER = Post(text="Here you are", buttons=(Button("Try again", "retry", "R03abc", 0),))


def says_moved(said: Said) -> bool:
    words = json.dumps(said.content, ensure_ascii=False)
    return "这张卡片在下方的新消息里继续" in words and "This card continues in a new message below" in words


async def renew(desk: Desk) -> int:
    return await renew_cards(desk.channel, desk.sent)


async def age_card(desk: Desk) -> MessageRef:
    """Post a card that is due to be posted anew."""
    ref = await desk.channel.post_message(PLACE, CARD, key="k")
    desk.feishu.passed += 13 * DAY
    return ref


@pytest.mark.parametrize("place", [PLACE, DM])
async def test_an_old_card_is_posted_anew_and_stays_the_same_card(desk: Desk, redis: Redis, place: Place) -> None:
    ref = await desk.channel.post_message(place, CARD, key="k")
    desk.feishu.passed += 12 * DAY
    assert await renew(desk) == 0
    for days in (1, 13, 13, 13):
        desk.feishu.passed += days * DAY
        await redis.delete(f"cs:{{sent}}:{TENANT}:renewing:{ref.ts}")  # two minutes are over by then
        assert (await renew(desk), await renew(desk)) == (1, 0)
    *older, newest = desk.cards
    assert len(older) == 4 and has_buttons(newest) and newest.root == older[0].root
    assert all(says_moved(one) and not has_buttons(one) for one in older)
    desk.start_again()
    for one in desk.cards:
        assert await desk.sent.find_original(MessageRef(channel=ref.channel, ts=one.id)) == ref
    with desk.channel.presses.open_press(ref, LI) as press:
        await desk.channel.update_message(ref, OVER)
        assert press.card == newest.content
    assert not has_buttons(newest) and await desk.channel.has_buttons_of(ref, OVER) and len(desk.cards) == 5


async def test_negative_control_without_the_map_a_renewed_card_is_not_updated(desk: Desk, redis: Redis) -> None:
    ref = await age_card(desk)
    await renew(desk)
    await redis.delete(f"cs:{{sent}}:{TENANT}:newest:{ref.ts}")
    await desk.channel.update_message(ref, OVER)
    assert has_buttons(desk.cards[1])


async def test_only_cards_that_wait_are_posted_anew(desk: Desk) -> None:
    decided = await desk.channel.post_message(PLACE, CARD, key="decided")
    await desk.channel.update_message(decided, OVER)
    await desk.channel.post_message(PLACE, OVER, key="over")
    await desk.channel.post_message(PLACE, Post("Hello"), key="hello")
    await desk.channel.post_message(PLACE, ANSWER, key="answer")
    reopened = await desk.channel.post_message(PLACE, OVER, key="reopened")
    await desk.channel.update_message(reopened, LATER)
    await desk.channel.post_message(
        DM, Post("Who?", picker=PersonPicker("Choose", "pick", "A03abc", 1), buttons=ANSWER.buttons), key="question"
    )
    long = Post("", card=Card("Mail", body="words and words\n" * 4000, buttons=CARD.card.buttons))
    await desk.channel.post_message(PLACE, long, key="long")
    count = len(desk.cards)
    desk.feishu.passed += 13 * DAY + HOUR
    assert await renew(desk) == 3
    assert [one.chat for one in desk.cards[count:]] == [PLACE.channel, DM.channel, PLACE.channel]
    assert all(has_buttons(one) for one in desk.cards[count:]), "of the long card, the last part"


async def test_processes_that_look_at_once_post_it_once(desk: Desk) -> None:
    refs = [await desk.channel.post_message(PLACE, CARD, key=f"k{number}") for number in range(5)]
    desk.feishu.passed += 13 * DAY
    others = [desk.open_channel() for _ in range(4)]
    assert sum(await asyncio.gather(*(renew_cards(one, desk.sent) for one in others))) == len(refs)
    assert len(desk.cards) == 2 * len(refs) == 2 * sum(says_moved(one) for one in desk.cards)


@pytest.mark.parametrize("step", ["reply", "patch"])
@pytest.mark.parametrize("fault", ["lose", "drop"])
async def test_a_crash_on_the_way_repeats_nothing(desk: Desk, redis: Redis, step: str, fault: str) -> None:
    ref = await age_card(desk)
    desk.feishu.faults[step] = [fault] * 3
    with pytest.raises(ChatUnavailableError):
        await renew(desk)
    assert await renew(desk) == 0, "another process may be at it"
    await redis.delete(f"cs:{{sent}}:{TENANT}:renewing:{ref.ts}")  # two minutes later
    desk.start_again()
    assert await renew(desk) == 1
    assert [says_moved(one) for one in desk.cards] == [True, False]


@pytest.mark.parametrize("step", ["reply", "patch"])
@pytest.mark.parametrize("post", [OVER, LATER])
async def test_an_update_in_the_middle_is_lost_on_neither_card(desk: Desk, step: str, post: Post) -> None:
    ref = await age_card(desk)
    desk.feishu.meanwhile[step] = lambda: desk.channel.update_message(ref, post)
    await renew(desk)
    old, new = desk.cards
    assert new.content == json.loads(encode_content(desk.render(post)))
    assert says_moved(old) and not has_buttons(old)


async def test_a_renewal_in_the_middle_of_an_update_hides_it_on_neither_card(desk: Desk) -> None:
    ref = await age_card(desk)
    desk.feishu.meanwhile["patch"] = lambda: renew(desk)
    await desk.channel.update_message(ref, OVER)
    old, new = desk.cards
    assert not has_buttons(new) and new.content == desk.render(OVER) and says_moved(old)


async def test_a_card_that_nobody_lets_the_bot_post_is_left(desk: Desk) -> None:
    ref = await age_card(desk)
    desk.feishu.faults["reply"] = [230002]
    assert await renew(desk) == 0
    assert await desk.sent.list_old_cards(0, 9) == [] and (await desk.sent.load_card(ref.ts)).content == ""


async def test_the_job_goes_on_after_an_outage(desk: Desk) -> None:
    ref = await age_card(desk)
    desk.feishu.faults["reply"] = ["500"] * 3
    looks = asyncio.Queue[float]()

    async def sleep(seconds: float) -> None:
        await looks.put(seconds)
        await desk.sent.redis.delete(f"cs:{{sent}}:{TENANT}:renewing:{ref.ts}")

    job = asyncio.create_task(keep_cards_renewed(desk.channel, desk.sent, sleep))
    await asyncio.wait_for(looks.get(), 10)
    assert len(desk.cards) == 1
    await asyncio.wait_for(looks.get(), 10)
    job.cancel()
    assert [says_moved(one) for one in desk.cards] == [True, False]


async def play(desk: Desk) -> MessageRef:
    """One of everything."""
    ref = await desk.channel.post_message(await desk.channel.open_dm(LI), CARD, key="k")
    gone = await desk.channel.post_message(PLACE, CARD, key="k2")
    desk.feishu.passed += 13 * DAY
    await renew(desk)
    await desk.channel.update_message(gone, OVER)
    return ref


async def test_every_key_ends_and_what_a_card_said_ends_with_its_buttons(desk: Desk, redis: Redis) -> None:
    ref = await play(desk)
    found = {str(key): await redis.pttl(key) for key in await redis.keys("*")}
    assert found and all(ms > 0 for ms in found.values()), found
    await desk.channel.update_message(ref, OVER)
    found = {str(key): await redis.pttl(key) for key in await redis.keys("*")}
    with_words = [key for key in found if ":card:" in key or ":decided:" in key]
    assert with_words and all(found[key] <= DECIDED_MS for key in with_words)
    assert not [key for key in found if key.endswith(":renewals")]


async def test_what_names_a_person_is_shown_to_them_and_erased(desk: Desk, redis: Redis, keys: Keys) -> None:
    about = Post(text="", card=Card("Leave", body="words", buttons=CARD.card.buttons, lead=f"<@{LI}>"))  # type: ignore[union-attr]
    await desk.channel.post_message(await desk.channel.open_dm(LI), about, key="k")
    await desk.channel.post_message(PLACE, CARD, key="k2")
    data = PersonalData(redis, keys, LI)
    assert sorted([one.kind async for one in data.stream_records()]) == ["dm", "sent_card"]

    async def delete_file(*_: str) -> None: ...

    await data.erase_records(delete_file)
    assert not [one async for one in PersonalData(redis, keys, LI).stream_records()]
    desk.feishu.passed += 13 * DAY
    assert await renew(desk) == 1, "the other card"


async def test_a_cluster_keeps_it_as_well(desk: Desk, redis_cluster: Redis, keys: Keys) -> None:
    desk.sent = SentCards(redis_cluster, keys, TENANT, desk.feishu.clock)
    desk.start_again()
    await desk.channel.update_message(await play(desk), OVER)
    assert not any(has_buttons(one) for one in desk.cards)


async def test_a_person_who_never_wrote_gets_a_card_and_it_lasts(redis: Redis, keys: Keys) -> None:
    """In the local workspace, which refuses what Feishu refuses."""
    secret = "a-secret-of-a-test"
    ws, passed = FeishuWorkspace(FeishuSetup(app_secret=secret)), timedelta()
    clock, li = ws.clock, convert_id("U02LI")
    ws.clock = lambda: clock() + passed.total_seconds()
    async with serve_workspace(ws) as address, open_feishu_client(ws.setup.app_id, secret, address) as client:
        team = (await identify_bot(client)).tenant
        sent = SentCards(redis, keys, team, Clock(read_now=lambda: datetime.fromtimestamp(ws.clock(), UTC)))
        directory = PlatformDirectory(FeishuMembers(client), {})
        channel = FeishuChannel(client, Lanes(redis, keys), sent, directory, team=team)
        ref = await channel.post_message(await channel.open_dm(li), CARD, key="k")
        assert (await channel.open_dm(li)).channel == ref.channel
        for _ in range(3):
            passed += timedelta(days=13.5)
            await redis.delete(f"cs:{{sent}}:{team}:renewing:{ref.ts}")
            assert await renew_cards(channel, sent) == 1
        await channel.update_message(ref, OVER)
        await channel.close_signs()
    shown = [one for one in ws.state.rooms[ref.channel].messages.values() if one["user"] == ws.app.user]
    assert len(shown) == 4 and not any('"callback"' in json.dumps(one["card"]) for one in shown)
