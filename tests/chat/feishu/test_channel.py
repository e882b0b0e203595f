"""Posting on Feishu: once, spaced, where it belongs, and honest about what Feishu refuses."""

import asyncio
import json
from contextlib import nullcontext
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.chat.feishu.cards import render_post
from bot.chat.feishu.channel import FeishuChannel, build_uuid, encode_content
from bot.chat.feishu.directory import FeishuMembers
from bot.chat.feishu.renewals import renew_cards
from bot.chat.messages import Card, MessageRef, Place, Post, SessionStatus
from bot.core.errors import ChatBusyError, ChatError, ChatUnavailableError, LeaseLost, PlaceClosedError
from bot.core.held_lease import bind_lease
from bot.people.directory import PlatformDirectory
from bot.queue.keys import Keys
from bot.queue.lanes import Lanes
from tests.chat.feishu.message_server import DAY, HOUR, TENANT
from tests.chat.feishu.sending_desk import CARD, CHAT, DM, GROUP, LATER, LI, OVER, PLACE, ROOT, ZHANG, Desk, has_buttons
from tests.chat.slack.doubles import Lane

CONTENT = {"msg_type": "interactive", "content": encode_content(render_post(CARD, PLACE)[-1])}


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


async def test_again_finds_what_is_already_there_also_after_the_hour_of_the_uuid(desk: Desk) -> None:
    for place in (PLACE, DM):
        first = await desk.channel.post_message(place, CARD, key="R03x.1")
        desk.feishu.passed += 2 * HOUR
        desk.start_again()
        assert await desk.channel.post_message(place, CARD, key="R03x.1", again=True) == first
        assert await desk.channel.post_message(place, CARD, key="R03x.2", again=True) != first
    assert len(desk.cards) == 4


async def test_negative_control_without_the_record_a_post_is_repeated_after_the_hour(desk: Desk, redis: Redis) -> None:
    await desk.channel.post_message(PLACE, CARD, key="k")
    await redis.flushall()
    await desk.channel.post_message(PLACE, CARD, key="k", again=True)
    assert len(desk.cards) == 1, "the uuid holds"
    await redis.flushall()
    desk.feishu.passed += 2 * HOUR
    await desk.channel.post_message(PLACE, CARD, key="k", again=True)
    assert len(desk.cards) == 2


async def test_again_completes_a_post_of_several_messages(desk: Desk) -> None:
    long = Post(text="", card=Card("Mail", body="words and words\n" * 4000, buttons=CARD.card.buttons))  # type: ignore[union-attr]
    desk.feishu.faults["reply"] = [0, "500", "500", "500"]
    with pytest.raises(ChatUnavailableError):
        await desk.channel.post_message(PLACE, long, key="k")
    assert len(desk.cards) == 1
    desk.feishu.passed += 2 * HOUR
    ref = await desk.channel.post_message(PLACE, long, key="k", again=True)
    again = await desk.channel.post_message(PLACE, long, key="k", again=True)
    assert again == ref and len(desk.cards) > 1
    assert [has_buttons(one) for one in desk.cards] == [one.id == ref.ts for one in desk.cards]


FAULTS: tuple[tuple[int | str, int], ...] = (("lose", 2), ("drop", 2), ("500", 2), (429, 2))


@pytest.mark.parametrize("place", [PLACE, CHAT, DM])
async def test_a_dropped_connection_never_says_it_twice(desk: Desk, place: Place, subtests: pytest.Subtests) -> None:
    name = "reply" if place.thread else "send"
    for fault, calls in FAULTS:
        with subtests.test(fault):
            desk.feishu.calls.clear()
            before = len(desk.cards)
            desk.feishu.faults[name] = [fault]
            ref = await desk.channel.post_message(place, CARD, key=f"k {fault}")
            assert [one.id for one in desk.cards[before:]] == [ref.ts]
            assert len(desk.feishu.called(name)) == calls


async def test_negative_control_without_the_uuid_a_lost_answer_says_it_twice(desk: Desk) -> None:
    desk.feishu.forgets_uuids = True
    desk.feishu.faults["reply"] = ["lose"]
    await desk.channel.post_message(PLACE, CARD, key="k")
    assert len(desk.cards) == 2


async def test_a_lost_record_does_not_say_it_twice_when_the_work_is_repeated_soon(desk: Desk) -> None:
    """The process is killed between the post and its record."""
    ref = await desk.channel.send_message(PLACE, CONTENT, build_uuid(GROUP, "k:1"))
    desk.start_again()
    assert await desk.channel.post_message(PLACE, CARD, key="k", again=True) == ref


async def test_rate_limits_are_waited_out_and_told_to_the_others(desk: Desk) -> None:
    desk.feishu.faults["reply"] = [429, 230020]
    await desk.channel.post_message(PLACE, CARD, key="k")
    assert [key for key, _ in desk.slots.penalties] == [f"feishu:{TENANT}:{GROUP}"] * 2
    assert len(desk.cards) == 1
    desk.feishu.faults["reply"] = [429] * 9
    with pytest.raises(ChatBusyError):
        await desk.channel.post_message(PLACE, CARD, key="k2")


async def test_the_shared_limiter_spaces_the_posts_of_a_chat_and_not_those_of_another(
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


async def test_a_post_waits_for_its_slot_and_reserves_none_when_it_has_one(desk: Desk) -> None:
    loop, desk.slots.wait_ms = asyncio.get_running_loop(), 40
    for wait_ms, reserved in ((None, 2), (40, 1)):
        began = loop.time()
        desk.slots.reserved.clear()
        await desk.channel.post_message(PLACE, CARD, key=f"k {wait_ms}", wait_ms=wait_ms)
        assert loop.time() - began >= 0.039 and len(desk.slots.reserved) == reserved


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


async def test_a_note_under_a_card_in_a_dm_is_no_topic(desk: Desk) -> None:
    card = await desk.channel.post_message(DM, CARD, key="k")
    note = Place(team="", channel=DM.channel, thread=card.ts, direct=True)
    await desk.channel.post_message(note, Post("Do not forget it"), key="k2")
    [sent] = desk.feishu.called("reply")
    assert "reply_in_thread" not in sent and desk.cards[-1].root == card.ts


async def test_a_post_that_fails_says_why(desk: Desk) -> None:
    faults = {230002: PlaceClosedError, 230025: ChatError, "drop": ChatUnavailableError}
    for fault, kind in faults.items():
        desk.feishu.faults["reply"] = [fault] * 3
        with pytest.raises(kind) as failed:
            await desk.channel.post_message(PLACE, CARD, key="k")
        assert failed.value.code == str(fault).replace("drop", "unreachable") and not desk.cards


async def test_an_update_changes_the_message_and_waits_for_nothing(desk: Desk) -> None:
    ref = await desk.channel.post_message(PLACE, CARD, key="k")
    desk.feishu.faults["patch"] = [230020]
    with pytest.raises(ChatBusyError):
        await desk.channel.update_message(ref, OVER)
    assert has_buttons(desk.cards[0])
    await desk.channel.update_message(ref, OVER)
    assert not has_buttons(desk.cards[0]) and len(desk.cards) == 1
    desk.feishu.calls.clear()
    with pytest.raises(ChatBusyError) as busy:
        for _ in range(9):
            await desk.channel.update_message(ref, OVER)
    assert 0 < busy.value.wait_ms <= 200 and len(desk.feishu.called("patch")) <= 3
    await asyncio.sleep(busy.value.wait_ms / 1000 + 0.001)  # as its lane does
    await desk.channel.update_message(ref, OVER)


@pytest.mark.parametrize("cause", ["age", "recalled"])
@pytest.mark.parametrize("place", [PLACE, DM])
async def test_an_update_that_feishu_does_not_take_follows_as_a_message_once(
    desk: Desk, cause: str, place: Place
) -> None:
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


@pytest.mark.parametrize("place", [PLACE, DM])
async def test_whether_a_card_shows_the_buttons_of_today_is_read_from_feishu(desk: Desk, place: Place) -> None:
    for number, shown in enumerate((CARD, LATER, OVER)):
        ref = await desk.channel.post_message(place, shown, key=f"k{number}")
        for one in (CARD, LATER, OVER):
            assert await desk.channel.has_buttons_of(ref, one) is (one is shown)
    desk.feishu.said[ref.ts].recalled = True
    assert await desk.channel.has_buttons_of(ref, CARD), "it is gone"
    desk.feishu.faults["get"] = [230011]
    assert await desk.channel.has_buttons_of(ref, CARD), "it is gone"
    desk.feishu.faults["get"] = ["500"] * 9
    with pytest.raises(ChatUnavailableError):
        await desk.channel.has_buttons_of(ref, CARD)


async def test_a_waiting_press_gets_its_new_card_and_the_others_get_it_too(desk: Desk) -> None:
    ref = await desk.channel.post_message(PLACE, CARD, key="k")
    with desk.channel.presses.open_press(ref, LI) as press:
        await desk.channel.update_message(ref, OVER)
    assert press.has_result.is_set() and press.card == desk.cards[0].content and press.card is not None
    assert len(desk.feishu.called("patch")) == 1
    with desk.channel.presses.open_press(MessageRef(channel=GROUP, ts="om_other"), LI) as press:
        await desk.channel.update_message(ref, OVER)
        assert press.card is None


async def test_a_refused_press_is_told_as_its_answer_and_nowhere_else(desk: Desk) -> None:
    ref = await desk.channel.post_message(PLACE, CARD, key="k")
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


NOT_THERE = (230002, 230013, 230029, 99991672, 99992402)


async def test_what_only_one_person_may_see_goes_to_the_dm_where_feishu_does_not_show_it(desk: Desk) -> None:
    desk.feishu.faults["ephemeral"] = [*NOT_THERE]
    for code in NOT_THERE:
        await desk.channel.post_ephemeral(PLACE, ZHANG, f"Only Li Si: {code}")
        assert f"Only Li Si: {code}" in json.dumps(desk.feishu.in_chat(DM.channel)[-1].content)
    assert len(desk.feishu.in_chat(GROUP)) == 1 and not desk.feishu.whispers
    await desk.channel.post_ephemeral(DM, ZHANG, "in the DM")
    assert not desk.feishu.whispers and len(desk.feishu.in_chat(DM.channel)) == len(NOT_THERE) + 1


async def test_somebody_whom_feishu_does_not_reach_is_asked_for_once(desk: Desk) -> None:
    desk.feishu.unreachable.add(ZHANG)
    desk.feishu.faults["ephemeral"] = [230013]
    await desk.channel.post_ephemeral(PLACE, ZHANG, "Only Li Si can approve this.")
    assert [name for name, _ in desk.feishu.calls] == ["ephemeral", "dm", "send"]
    desk.feishu.faults["ephemeral"] = ["500"] * 9
    with pytest.raises(ChatUnavailableError):
        await desk.channel.post_ephemeral(PLACE, ZHANG, "Only Li Si can approve this.")


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


async def test_the_crash_after_the_first_post_of_all_says_it_once(desk: Desk) -> None:
    desk.feishu.names_dms = True
    place = await desk.channel.open_dm(ZHANG)
    ref = await desk.channel.send_message(place, CONTENT, build_uuid(ZHANG, "k:1"))
    desk.start_again()
    assert await desk.channel.post_message(await desk.channel.open_dm(ZHANG), CARD, key="k", again=True) == ref
    assert len(desk.cards) == 1


SHARED: dict[str, Any] = {"name": "process.png", "title": "请假 QJ-1", "alt": "审批 <李四> & 王五"}


async def test_a_picture_comes_with_its_title_and_its_words(desk: Desk) -> None:
    await desk.channel.upload_picture(PLACE, b"png", **SHARED, key="k")
    [(key, (_, content))] = desk.feishu.uploads.items()
    [said] = [one for one in desk.feishu.said.values() if one.type == "post"]
    [[words], [picture]] = said.content["zh_cn"]["content"]
    assert content == b"png" and picture == {"tag": "img", "image_key": key}
    assert (said.root, said.content["zh_cn"]["title"], words["text"]) == (ROOT, "请假 QJ-1", "审批 <李四> & 王五")


async def test_a_picture_that_is_there_is_not_shown_again(desk: Desk) -> None:
    for key, shown in (("k", 1), ("k", 1), ("another", 2)):
        await desk.channel.upload_picture(PLACE, b"png", **SHARED, key=key, again=True)
        assert sum(one.type == "post" for one in desk.feishu.said.values()) == shown == len(desk.feishu.uploads)


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


MISHAPS: tuple[tuple[str, list[int | str]], ...] = (
    ("image", ["drop"]), ("image", [429]), ("image", ["500", "500"]), ("reply", ["lose"]), ("reply", ["drop"]),
    ("reply", [429]),
)  # fmt: skip


async def test_a_mishap_on_the_way_shows_the_picture_once_all_the_same(desk: Desk, subtests: pytest.Subtests) -> None:
    for number, (step, faults) in enumerate(MISHAPS, 1):
        with subtests.test(step, faults=faults):
            desk.feishu.faults[step] = [*faults]
            await desk.channel.upload_picture(PLACE, b"png", **SHARED, key=f"k{number}")
            assert sum(one.type == "post" for one in desk.feishu.said.values()) == number


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


async def settle(desk: Desk, place: Place = PLACE) -> None:
    await desk.channel.wait_for_session(place)


async def test_the_bot_shows_that_it_is_at_work_until_it_rests(desk: Desk) -> None:
    for status in (SessionStatus.SUSPENDED, SessionStatus.ACTIVE):
        for _ in range(2):
            desk.channel.show_status(PLACE, "working")
            desk.channel.set_session_status(PLACE, SessionStatus.PROCESSING, person=ZHANG, title="hi")
            await settle(desk)
        await desk.channel.post_message(PLACE, Post("a step"), key=status)
        await settle(desk)
        assert desk.feishu.said[ROOT].reactions and count_signs(desk) == 1
        desk.channel.set_session_status(PLACE, status)
        await settle(desk)
        assert count_signs(desk) == 0
        await desk.sent.drop_sign(f"{GROUP}:{ROOT}")  # three seconds later


async def test_without_a_session_the_next_post_ends_the_sign_as_on_slack(desk: Desk) -> None:
    later = desk.feishu.hear(GROUP)
    desk.channel.note_message(PLACE, later.id)
    desk.channel.show_status(PLACE, "working")
    await settle(desk)
    assert later.reactions and count_signs(desk) == 1, "on the message that is answered"
    await desk.channel.post_message(PLACE, Post("an answer"), key="k")
    await settle(desk)
    assert count_signs(desk) == 0
    asked = desk.feishu.hear(DM.channel)
    under = DM.model_copy(update={"thread": asked.id})
    desk.channel.show_status(under, "working")
    await settle(desk, under)
    assert asked.reactions
    desk.channel.show_status(under, "")
    await settle(desk, under)
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
    desk.channel.show_status(PLACE, "working")
    await settle(desk)
    assert count_signs(desk) == 0 and len(desk.feishu.called("react")) == 1
    await end()
    desk.channel.show_status(PLACE, "working")
    await settle(desk)
    assert count_signs(desk) == 0 and len(desk.feishu.called("react")) == 1


async def test_a_sign_of_life_never_stands_in_the_way(desk: Desk) -> None:
    for fault in ("500", "drop", 230002, 231001, "500"):
        desk.feishu.faults["react"] = [fault]
        desk.channel.show_status(PLACE, "working")
        await settle(desk)
    assert len(desk.feishu.called("react")) == 4, "after a refusal Feishu is left alone for a while"
    desk.channel.show_status(DM, "working")
    await desk.channel.suggest_prompts(DM, ())


async def test_whoever_has_lost_the_lane_says_and_changes_nothing(desk: Desk) -> None:
    ref = MessageRef(channel=GROUP, ts="om_card0001")
    bind_lease(Lane(0))
    with desk.channel.presses.open_press(ref, ZHANG) as press:
        with pytest.raises(LeaseLost):
            await desk.channel.post_message(PLACE, CARD, key="k")
        with pytest.raises(LeaseLost):
            await desk.channel.update_message(ref, OVER)
        with pytest.raises(LeaseLost):
            await desk.channel.post_ephemeral(PLACE, ZHANG, "Only Li Si can approve this.")
        with pytest.raises(LeaseLost):
            await desk.channel.upload_picture(PLACE, b"png", **SHARED, key="k")
        with pytest.raises(LeaseLost):
            await desk.channel.upload_files(PLACE, [("a.pdf", b"%PDF")], comment="", key="k")
    assert desk.feishu.calls == [] and (press.card, press.notice) == (None, "")


async def test_it_looks_again_before_each_try(desk: Desk) -> None:
    """Feishu may say for how long to wait; in that time much can happen."""
    for fault in (429, "500"):
        for looks, posted in ((1, 0), (2, 1)):
            bind_lease(Lane(looks))
            desk.feishu.calls.clear()
            before = len(desk.cards)
            desk.feishu.faults["reply"] = [fault]
            with nullcontext() if posted else pytest.raises(LeaseLost):
                await desk.channel.post_message(PLACE, CARD, key=f"k {fault} {looks}")
            assert len(desk.feishu.called("reply")) == 1 + posted and len(desk.cards) - before == posted
