"""Posting on Feishu, where it is not as on Slack; what both have is in `tests/platforms/test_channels.py`."""

import asyncio

import pytest
from redis.asyncio import Redis

from bot.chat.messages import MessageRef, Place, Post, SessionStatus
from bot.core.errors import ChatBusyError, ChatError, ChatUnavailableError, LeaseLost
from bot.core.held_lease import bind_lease
from bot.people.directory import PlatformDirectory
from bot.platforms.feishu.cards import render_post
from bot.platforms.feishu.channel import UPDATE_BURST, UPDATE_MS, FeishuChannel, build_uuid, encode_content
from bot.platforms.feishu.directory import FeishuMembers
from bot.platforms.feishu.renewals import renew_cards
from bot.platforms.shared import LocalRateLimiter
from bot.queue.keys import Keys
from bot.queue.lanes import Lanes
from tests.platforms.feishu.message_server import DAY, HOUR, TENANT
from tests.platforms.feishu.sending_desk import CHAT, DM, GROUP, LI, PLACE, ROOT, ZHANG, Desk, has_buttons
from tests.platforms.slack.doubles import CARD, LATER, OVER, SHARED, Lane


async def test_a_post_says_where_what_and_which(desk: Desk) -> None:
    ref = await desk.channel.post_message(PLACE, CARD, key="R03x.1")
    [sent] = desk.feishu.called("reply")
    assert ref == MessageRef(channel=GROUP, ts=desk.cards[0].id)
    assert (sent["path"], sent["reply_in_thread"], sent["msg_type"]) == (
        f"im/v1/messages/{ROOT}/reply", True, "interactive"
    )  # fmt: skip
    assert sent["uuid"].endswith("-R03x.1:1") and len(sent["uuid"]) <= 50
    assert desk.slots.reserved == [(f"feishu:{TENANT}:{GROUP}", 300, 4), (f"feishu:{TENANT}", 20, 25)]
    await desk.channel.post_message(DM, CARD, key="R03x.2")
    [sent] = desk.feishu.called("send")
    assert (sent["receive_id_type"], sent["receive_id"]) == ("chat_id", DM.channel)
    desk.feishu.calls.clear()
    card = await desk.channel.post_message(DM, CARD, key="k")
    note = Place(team="", channel=DM.channel, thread=card.ts, direct=True)
    await desk.channel.post_message(note, Post("Do not forget it"), key="k2")
    [sent] = desk.feishu.called("reply")
    assert "reply_in_thread" not in sent and desk.cards[-1].root == card.ts


async def test_negative_control_without_the_record_a_post_is_repeated_after_the_hour(desk: Desk, redis: Redis) -> None:
    await desk.channel.post_message(PLACE, CARD, key="k")
    await redis.flushall()
    await desk.channel.post_message(PLACE, CARD, key="k", again=True)
    assert len(desk.cards) == 1, "the uuid holds"
    await redis.flushall()
    desk.feishu.passed += 2 * HOUR
    await desk.channel.post_message(PLACE, CARD, key="k", again=True)
    assert len(desk.cards) == 2


async def test_negative_control_without_the_uuid_a_lost_answer_says_it_twice(desk: Desk) -> None:
    desk.feishu.forgets_uuids, desk.feishu.faults["reply"] = True, ["lose"]
    await desk.channel.post_message(PLACE, CARD, key="k")
    assert len(desk.cards) == 2


async def test_a_lost_record_does_not_say_it_twice_when_the_work_is_repeated_soon(desk: Desk) -> None:
    """The process is killed between the post and its record, also when it was the first post of all to a person."""
    content = {"msg_type": "interactive", "content": encode_content(render_post(CARD, PLACE)[-1])}
    for place, owner in ((PLACE, GROUP), (await desk.channel.open_dm(ZHANG), ZHANG)):
        before = len(desk.cards)
        ref = await desk.channel.send_message(place, content, build_uuid(owner, "k:1"))
        desk.start_again()
        again = PLACE if place is PLACE else await desk.channel.open_dm(ZHANG)
        assert await desk.channel.post_message(again, CARD, key="k", again=True) == ref
        assert len(desk.cards) == before + 1


async def test_the_rate_of_each_chat_is_shared_and_a_limit_waited_out_and_told_to_the_others(
    desk: Desk, redis: Redis, keys: Keys
) -> None:
    channel = FeishuChannel(
        desk.client, Lanes(redis, keys), desk.sent, PlatformDirectory(FeishuMembers(desk.client), {}), team=TENANT
    )
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.gather(*(channel.post_message(PLACE, CARD, key=f"k{n}") for n in range(6)))
    assert loop.time() - began >= 0.55, "four at once, then one every 300 ms"
    waiting = [asyncio.create_task(channel.post_message(PLACE, CARD, key=f"more {n}")) for n in range(3)]
    await channel.post_message(DM, CARD, key="k")
    assert not waiting[-1].done(), "another chat waits for none of them"
    await asyncio.gather(*waiting)
    before, desk.feishu.faults["reply"] = len(desk.cards), [429, 230020]
    await desk.channel.post_message(PLACE, CARD, key="limited")
    assert [key for key, _ in desk.slots.penalties] == [f"feishu:{TENANT}:{GROUP}"] * 2
    assert len(desk.cards) == before + 1
    desk.feishu.faults["reply"] = [429] * 9
    with pytest.raises(ChatBusyError):
        await desk.channel.post_message(PLACE, CARD, key="limited for long")


async def test_a_group_without_topics_gets_a_plain_reply_and_a_recalled_root_none(desk: Desk) -> None:
    desk.feishu.plain_groups.add(GROUP)
    ref = await desk.channel.post_message(PLACE, CARD, key="k")
    assert [(one.id, one.root, one.in_thread) for one in desk.cards] == [(ref.ts, ROOT, False)]
    desk.feishu.plain_groups.clear()
    desk.feishu.said[ROOT].recalled = True
    ref = await desk.channel.post_message(PLACE, CARD, key="k2")
    assert (desk.cards[-1].id, desk.cards[-1].root) == (ref.ts, "")
    await desk.channel.post_message(PLACE, CARD, key="k2", again=True)
    assert len(desk.cards) == 2
    unknown = PLACE.model_copy(update={"thread": "om_unknown1"})
    await desk.channel.post_message(unknown, CARD, key="k3")
    assert len(desk.cards) == 3


async def test_an_update_changes_the_message_and_waits_for_nothing(desk: Desk) -> None:
    ref = await desk.channel.post_message(PLACE, CARD, key="k")
    desk.feishu.faults["patch"] = [230020]
    with pytest.raises(ChatBusyError):
        await desk.channel.update_message(ref, OVER)
    assert has_buttons(desk.cards[0])
    await desk.channel.update_message(ref, OVER)
    assert not has_buttons(desk.cards[0]) and len(desk.cards) == 1
    desk.feishu.calls.clear()
    now = 0.0
    desk.channel._updates[ref.ts] = LocalRateLimiter(UPDATE_MS, UPDATE_BURST, lambda: now)
    with pytest.raises(ChatBusyError) as busy:
        for _ in range(9):
            await desk.channel.update_message(ref, OVER)
    assert 0 < busy.value.wait_ms <= 201 and len(desk.feishu.called("patch")) == 3, "rounded up"
    now += busy.value.wait_ms / 1000 + 0.001  # its lane waits
    await desk.channel.update_message(ref, OVER)


@pytest.mark.parametrize("cause", ["age", "recalled"])
@pytest.mark.parametrize("place", [PLACE, DM])
async def test_an_update_that_feishu_refuses_follows_as_a_message_once(desk: Desk, cause: str, place: Place) -> None:
    ref = await desk.channel.post_message(place, CARD, key="k")
    if cause == "age":
        desk.feishu.passed += 15 * DAY
    else:
        desk.feishu.said[ref.ts].recalled = True
    desk.feishu.faults["reply" if place.thread else "send"] = ["lose"]
    await desk.channel.update_message(ref, LATER)
    assert len(desk.cards) == 2 and desk.cards[1].root == (place.thread or "")
    desk.start_again()
    await desk.channel.update_message(ref, OVER)
    assert len(desk.cards) == 2 and not has_buttons(desk.cards[1]), "the message that has followed is updated"
    assert await desk.channel.has_buttons_of(ref, OVER)
    assert await desk.sent.find_original(MessageRef(channel=ref.channel, ts=desk.cards[1].id)) == ref


@pytest.mark.parametrize("place", [PLACE, DM])
@pytest.mark.parametrize("first", [CARD, OVER])
async def test_buttons_that_come_late_know_their_place(desk: Desk, place: Place, first: Post) -> None:
    ref = await desk.channel.post_message(place, first, key="k")
    await desk.channel.update_message(ref, OVER)
    for name in ("decided", "card"):
        await desk.sent.redis.delete(f"cs:{{sent}}:{TENANT}:{name}:{ref.ts}")  # an hour later
    desk.start_again()
    await desk.channel.update_message(ref, LATER)
    assert desk.cards[0].content == render_post(LATER, place)[-1] != render_post(LATER, CHAT)[-1]
    desk.feishu.passed += 13 * DAY + HOUR
    assert await renew_cards(desk.channel, desk.sent) == 1
    assert desk.cards[1].root == (place.thread or "")


async def test_a_waiting_press_gets_its_new_card_or_its_notice(desk: Desk) -> None:
    ref = await desk.channel.post_message(PLACE, CARD, key="k")
    with desk.channel.presses.open_press(ref, LI) as press:
        await desk.channel.update_message(ref, OVER)
    assert press.has_result.is_set() and press.card == desk.cards[0].content and press.card is not None
    assert len(desk.feishu.called("patch")) == 1
    with desk.channel.presses.open_press(MessageRef(channel=GROUP, ts="om_other"), LI) as press:
        await desk.channel.update_message(ref, OVER)
        assert press.card is None
    desk.feishu.calls.clear()
    with desk.channel.presses.open_press(ref, LI) as press:
        await desk.channel.post_ephemeral(PLACE, LI, "Only Wang Wu can approve this.")
        assert press.has_result.is_set() and press.notice == "Only Wang Wu can approve this."
        assert desk.feishu.calls == []
        await desk.channel.post_ephemeral(PLACE, ZHANG, "Somebody else is told by a message.")
        await desk.channel.post_ephemeral(PLACE, LI, "A second notice is posted.")
        assert len(desk.feishu.whispers) == 2
    with desk.channel.presses.open_press(ref, LI) as press:
        await desk.channel.post_ephemeral(PLACE, LI, "long " * 100)
        assert press.notice.startswith("long long") and len(desk.feishu.whispers) == 3
    await desk.channel.post_ephemeral(PLACE, LI, "The press has its answer already.")
    assert len(desk.feishu.whispers) == 4
    desk.feishu.calls.clear()
    bind_lease(Lane(0))
    with desk.channel.presses.open_press(ref, ZHANG) as press:
        for act in (desk.channel.update_message(ref, OVER), desk.channel.post_ephemeral(PLACE, ZHANG, "Only Li Si.")):
            with pytest.raises(LeaseLost):
                await act
    assert desk.feishu.calls == [] and (press.card, press.notice) == (None, ""), "from whoever has lost the lane"


async def test_somebody_whom_feishu_does_not_reach_is_asked_for_once(desk: Desk) -> None:
    desk.feishu.unreachable.add(ZHANG)
    desk.feishu.faults["ephemeral"] = [230013]
    await desk.channel.post_ephemeral(PLACE, ZHANG, "Only Li Si can approve this.")
    assert [name for name, _ in desk.feishu.calls] == ["ephemeral", "dm", "send"]
    desk.feishu.faults["ephemeral"] = ["500"] * 9
    with pytest.raises(ChatUnavailableError):
        await desk.channel.post_ephemeral(PLACE, ZHANG, "Only Li Si can approve this.")
    desk.feishu.unreachable.clear()
    await desk.channel.post_ephemeral(DM, ZHANG, "in the DM")  # where nobody else reads it
    assert not desk.feishu.whispers and len(desk.feishu.in_chat(DM.channel)) == 1


@pytest.mark.parametrize("names_dms", [True, False])
async def test_a_dm_is_asked_for_once_and_learned_from_the_first_post(desk: Desk, names_dms: bool) -> None:
    desk.feishu.names_dms = names_dms
    new = await desk.channel.open_dm(ZHANG)
    assert (new.channel, new.direct, new.platform) == (ZHANG, True, "feishu")
    ref = await desk.channel.post_message(new, CARD, key="k")
    assert ref.channel == DM.channel and await desk.channel.open_dm(ZHANG) == DM
    assert await desk.channel.post_message(DM, CARD, key="k", again=True) == ref, "its first post went to the person"
    desk.start_again()
    assert await desk.channel.open_dm(ZHANG) == DM
    assert await desk.channel.post_message(DM, CARD, key="k", again=True) == ref
    assert len(desk.feishu.called("dm")) == 1 and len(desk.cards) == 1


async def test_a_dm_that_feishu_names_is_used_and_kept(desk: Desk) -> None:
    desk.feishu.dms[ZHANG] = DM.channel
    assert await desk.channel.open_dm(ZHANG) == DM
    desk.start_again()
    assert await desk.channel.open_dm(ZHANG) == DM and len(desk.feishu.called("dm")) == 1
    await desk.channel.note_dm(LI, "oc_dm_li")
    assert (await desk.channel.open_dm(LI)).channel == "oc_dm_li" and len(desk.feishu.called("dm")) == 1


async def test_a_picture_comes_with_its_title_and_its_words(desk: Desk) -> None:
    await desk.channel.upload_picture(PLACE, b"png", **SHARED, key="k")
    [(key, (_, content))] = desk.feishu.uploads.items()
    [said] = [one for one in desk.feishu.said.values() if one.type == "post"]
    [[words], [picture]] = said.content["zh_cn"]["content"]
    assert content == b"png" and picture == {"tag": "img", "image_key": key}
    assert (said.root, said.content["zh_cn"]["title"], words["text"]) == (ROOT, "请假 QJ-1", "审批 <李四> & 王五")


async def test_files_come_after_their_comment_each_once(desk: Desk) -> None:
    files = [("a.pdf", b"%PDF"), ("b.csv", b"1,2")]
    desk.feishu.faults["file"] = [0, 234006]
    with pytest.raises(ChatError):
        await desk.channel.upload_files(DM, files, comment="two files", key="k")
    desk.feishu.passed += 2 * HOUR
    for _ in range(2):
        await desk.channel.upload_files(DM, files, comment="two files", key="k", again=True)
    assert [one.type for one in desk.feishu.in_chat(DM.channel)] == ["interactive", "file", "file"]
    assert [about["file_type"] for about in desk.feishu.called("file")] == ["pdf", "stream", "stream"]
    assert sorted(desk.feishu.uploads.values()) == [("a.pdf", b"%PDF"), ("b.csv", b"1,2")]


async def test_a_form_is_posted_once_and_shows_its_end(desk: Desk) -> None:
    form, closed = render_post(CARD, DM)[-1], render_post(OVER, DM)[-1]
    ref = await desk.channel.post_form(ZHANG, form, key="click-1")
    assert await desk.channel.post_form(ZHANG, form, key="click-1") == ref
    await desk.channel.patch_card(ref.ts, closed)
    assert [one.content for one in desk.feishu.in_chat(DM.channel)] == [closed]


def count_signs(desk: Desk) -> int:
    signs = [emoji for said in desk.feishu.said.values() for emoji in said.reactions.values()]
    assert set(signs) <= {"Typing"}
    return len(signs)


async def show_work(desk: Desk, place: Place = PLACE, text: str = "working") -> None:
    desk.channel.show_status(place, text)
    await desk.channel.wait_for_session(place)


async def test_the_bot_shows_that_it_is_at_work_until_it_rests(desk: Desk) -> None:
    for status in (SessionStatus.SUSPENDED, SessionStatus.ACTIVE):
        for _ in range(2):
            desk.channel.show_status(PLACE, "working")
            desk.channel.set_session_status(PLACE, SessionStatus.PROCESSING, person=ZHANG, title="hi")
            await desk.channel.wait_for_session(PLACE)
        await desk.channel.post_message(PLACE, Post("a step"), key=status)
        await desk.channel.wait_for_session(PLACE)
        assert desk.feishu.said[ROOT].reactions and count_signs(desk) == 1
        desk.channel.set_session_status(PLACE, status)
        await desk.channel.wait_for_session(PLACE)
        assert count_signs(desk) == 0
        await desk.sent.drop_sign(f"{GROUP}:{ROOT}")  # three seconds later


async def test_without_a_session_the_next_post_ends_the_sign_as_on_slack(desk: Desk) -> None:
    later = desk.feishu.hear(GROUP)
    desk.channel.note_message(PLACE, later.id)
    await show_work(desk)
    assert later.reactions and count_signs(desk) == 1, "on the message that is answered"
    await desk.channel.post_message(PLACE, Post("an answer"), key="k")
    await desk.channel.wait_for_session(PLACE)
    assert count_signs(desk) == 0
    asked = desk.feishu.hear(DM.channel)
    under = DM.model_copy(update={"thread": asked.id})
    await show_work(desk, under)
    assert asked.reactions
    await show_work(desk, under, "")
    assert count_signs(desk) == 0


async def test_the_sign_ends_whichever_process_shows_it(desk: Desk) -> None:
    listening, working = desk.channel, desk.open_channel()
    listening.show_status(PLACE, "working")
    await listening.wait_for_session(PLACE)
    for status in (SessionStatus.PROCESSING, SessionStatus.ACTIVE):
        working.set_session_status(PLACE, status)
        await working.wait_for_session(PLACE)
        assert count_signs(desk) == (status is SessionStatus.PROCESSING)


async def test_a_sign_that_comes_after_its_end_does_not_stay(desk: Desk) -> None:
    working = desk.open_channel()

    async def end() -> None:
        working.set_session_status(PLACE, SessionStatus.ACTIVE)
        await working.wait_for_session(PLACE)

    desk.feishu.meanwhile["react"] = end
    await show_work(desk)
    assert count_signs(desk) == 0 and len(desk.feishu.called("react")) == 1
    await end()
    await show_work(desk)
    assert count_signs(desk) == 0 and len(desk.feishu.called("react")) == 1


async def test_a_sign_of_life_never_stands_in_the_way(desk: Desk) -> None:
    for fault in ("500", "drop", 230002, 231001, "500"):
        desk.feishu.faults["react"] = [fault]
        await show_work(desk)
    assert len(desk.feishu.called("react")) == 4, "after a refusal Feishu is left alone for a while"
    desk.channel.show_status(DM, "working")
    await desk.channel.suggest_prompts(DM, ())
