"""Posting on either platform: once, in its place and turn, and honest about what the platform refuses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import nullcontext
from typing import Any, ClassVar

import pytest
from redis.asyncio import Redis

from bot.chat.messages import Card, Channel, MessageRef, Place, Post
from bot.core.errors import ChatError, ChatUnavailableError, LeaseLost, PlaceClosedError
from bot.core.held_lease import bind_lease
from bot.queue.keys import Keys
from tests.platforms.feishu import sending_desk as feishu
from tests.platforms.feishu.message_server import HOUR
from tests.platforms.feishu.reader import read_cards
from tests.platforms.slack import conftest as slack
from tests.platforms.slack.doubles import CARD, LATER, OVER, SHARED, Lane


class SlackSite:
    place, dm, person = slack.PLACE, slack.DM, "U01ZHANG"
    method = "chat.postMessage"
    reserves = 1
    """Slots that a post reserves."""
    call: ClassVar = {"get": "conversations.replies", "whisper": "chat.postEphemeral"}
    interrupted: ClassVar = {"lose": 1, "drop": 2, "500": 2, "403": 2}
    """Fault → calls of a post that meets it once."""
    limits = (0.01,)
    failures = ((["is_archived"], ChatError, "is_archived"), (["drop"] * 3, ChatUnavailableError, "unreachable"))
    gone = "message_not_found"
    not_there = (
        "not_in_channel", "user_not_in_channel", "channel_not_found", "is_archived", "thread_not_found",
        "message_not_found", "cannot_reply_to_message", "restricted_action", "a_code_of_next_year",
    )  # fmt: skip
    mishaps = (
        ("files.getUploadURLExternal", ["drop"]), ("files.getUploadURLExternal", [0.01]), ("upload", ["drop"]),
        ("upload", ["500", "500"]), ("files.completeUploadExternal", [0.01]),
        ("files.completeUploadExternal", ["lose"]),
    )  # fmt: skip

    def __init__(self, desk: slack.Desk) -> None:
        self.desk, self.server, self.uploads = desk, desk.slack, desk.slack.files

    def name_post(self, place: Place) -> str:
        return "chat.postMessage"

    def read(self, place: Place) -> list[tuple[str, Any]]:
        said = self.server.messages[place.channel]
        return [(one["ts"], {"text": one["text"], "blocks": one.get("blocks")}) for one in said]

    def read_words(self, content: Any) -> str:
        return str(content["text"])

    def lose_message(self, ref: MessageRef) -> None:
        said = self.server.messages[ref.channel]
        said[:] = [one for one in said if one["ts"] != ref.ts]

    def start_again_later(self) -> None: ...


class FeishuSite:
    place, dm, person = feishu.PLACE, feishu.DM, feishu.ZHANG
    method = "POST im/v1/messages/:id/reply"
    reserves = 2
    call: ClassVar = {"get": "get", "whisper": "ephemeral"}
    interrupted: ClassVar = {"lose": 2, "drop": 2, "500": 2, 429: 2}
    limits = (429, "500")
    failures = (
        ([230002], PlaceClosedError, "230002"), ([230025], ChatError, "230025"),
        (["drop"] * 3, ChatUnavailableError, "unreachable"),
    )  # fmt: skip
    gone = 230011
    not_there = (230002, 230013, 230029, 99991672, 99992402)
    mishaps = (
        ("image", ["drop"]), ("image", [429]), ("image", ["500", "500"]), ("reply", ["lose"]), ("reply", ["drop"]),
        ("reply", [429]),
    )  # fmt: skip

    def __init__(self, desk: feishu.Desk) -> None:
        self.desk, self.server, self.uploads = desk, desk.feishu, desk.feishu.uploads

    def name_post(self, place: Place) -> str:
        return "reply" if place.thread else "send"

    def read(self, place: Place) -> list[tuple[str, Any]]:
        return [(one.id, one.content) for one in self.server.in_chat(place.channel) if one.id != feishu.ROOT]

    def read_words(self, content: Any) -> str:
        return read_cards([content]).strip()

    def lose_message(self, ref: MessageRef) -> None:
        self.server.said[ref.ts].recalled = True

    def start_again_later(self) -> None:
        """Another process, when Feishu has forgotten which messages it has taken."""
        self.server.passed += 2 * HOUR
        self.desk.start_again()


Site = SlackSite | FeishuSite


@pytest.fixture(params=["slack", "feishu"])
async def site(request: pytest.FixtureRequest, redis: Redis, keys: Keys) -> AsyncIterator[Site]:
    if request.param == "slack":
        async with slack.open_desk() as on_slack:
            yield SlackSite(on_slack)
    else:
        async with feishu.open_desk(redis, keys) as on_feishu:
            yield FeishuSite(on_feishu)


async def post(site: Site, place: Place, what: Post = CARD, *, key: str, **more: Any) -> MessageRef:
    channel: Channel = site.desk.channel
    return await channel.post_message(place, what, key=key, **more)


async def test_again_finds_what_is_already_there(site: Site) -> None:
    for place in (site.place, site.dm):
        first = await post(site, place, key="R03x.1")
        site.start_again_later()
        assert await post(site, place, key="R03x.1", again=True) == first
        assert await post(site, place, key="R03x.2", again=True) != first
        assert len(site.read(place)) == 2


async def test_again_completes_a_post_of_several_messages(site: Site) -> None:
    long = Post(text="", card=Card("Mail", body="words and words\n" * 4000, buttons=CARD.card.buttons))  # type: ignore[union-attr]
    site.server.faults[site.name_post(site.place)] = ["", "500", "500", "500"]
    with pytest.raises(ChatUnavailableError):
        await post(site, site.place, long, key="k")
    assert len(site.read(site.place)) == 1
    site.start_again_later()
    ref = await post(site, site.place, long, key="k", again=True)
    assert await post(site, site.place, long, key="k", again=True) == ref
    completed = site.read(site.place)
    assert ["A03abc" in str(shown) for _, shown in completed] == [id == ref.ts for id, _ in completed]
    await post(site, site.place, long, key="at once")
    assert [shown for _, shown in site.read(site.place)] == [shown for _, shown in completed] * 2
    assert len(completed) > 1


async def test_a_dropped_connection_never_says_it_twice(site: Site, subtests: pytest.Subtests) -> None:
    for number, place in enumerate((site.place, site.place.model_copy(update={"thread": None}), site.dm)):
        for fault, calls in site.interrupted.items():
            with subtests.test(fault, place=place):
                site.server.calls.clear()
                before, name = len(site.read(place)), site.name_post(place)
                site.server.faults[name] = [fault]
                ref = await post(site, place, key=f"k {number} {fault}")
                assert [id for id, _ in site.read(place)[before:]] == [ref.ts]
                assert len(site.server.called(name)) == calls


async def test_whether_a_card_shows_the_buttons_of_today_is_read_from_the_platform(site: Site) -> None:
    for place in (site.place, site.dm):
        for number, shown in enumerate((CARD, LATER, OVER)):
            ref = await post(site, place, shown, key=f"k{number}")
            for one in (CARD, LATER, OVER):
                assert await site.desk.channel.has_buttons_of(ref, one) is (one is shown)
        site.server.faults[site.call["get"]] = [site.gone]
        assert await site.desk.channel.has_buttons_of(ref, CARD), "it is gone"
        site.lose_message(ref)
        assert await site.desk.channel.has_buttons_of(ref, CARD), "it is gone"
        site.server.faults[site.call["get"]] = ["500"] * 9
        with pytest.raises(ChatUnavailableError):
            await site.desk.channel.has_buttons_of(ref, CARD)
        site.server.faults.clear()


async def test_a_post_waits_for_its_slot_and_reserves_none_when_it_has_one(site: Site) -> None:
    loop, site.desk.slots.wait_ms = asyncio.get_running_loop(), 40
    for wait_ms, reserved in ((None, site.reserves), (40, site.reserves - 1)):
        began = loop.time()
        site.desk.slots.reserved.clear()
        await post(site, site.place, key=f"k {wait_ms}", wait_ms=wait_ms)
        assert loop.time() - began >= 0.039 and len(site.desk.slots.reserved) == reserved


async def test_a_post_that_fails_says_why(site: Site) -> None:
    for faults, kind, code in site.failures:
        site.server.faults[site.name_post(site.place)] = [*faults]
        with pytest.raises(kind) as failed:
            await post(site, site.place, key="k")
        assert (failed.value.code, failed.value.method) == (code, site.method) and not site.read(site.place)


async def test_what_only_one_person_may_see_goes_to_the_dm_where_the_platform_does_not_show_it(site: Site) -> None:
    site.server.faults[site.call["whisper"]] = [*site.not_there]
    for code in site.not_there:
        await site.desk.channel.post_ephemeral(site.place, site.person, f"Only Li Si: {code}")
        assert site.read_words(site.read(site.dm)[-1][1]) == f"Only Li Si: {code}"
    assert not site.read(site.place) and len(site.read(site.dm)) == len(site.not_there)


async def test_a_picture_is_shown_once_also_after_a_mishap_on_the_way(site: Site, subtests: pytest.Subtests) -> None:
    for number, (step, faults) in enumerate(site.mishaps, 1):
        with subtests.test(step, faults=faults):
            site.server.faults[step] = [*faults]
            await site.desk.channel.upload_picture(site.place, b"png", **SHARED, key=f"k{number}")
            assert len(site.read(site.place)) == number
    before, uploaded = len(site.read(site.place)), len(site.uploads)
    for key, shown in (("a", 1), ("a", 1), ("b", 2)):
        await site.desk.channel.upload_picture(site.place, b"png", **SHARED, key=key, again=True)
        assert len(site.read(site.place)) - before == shown == len(site.uploads) - uploaded


async def test_whoever_has_lost_the_lane_says_and_changes_nothing(site: Site) -> None:
    channel: Channel = site.desk.channel
    bind_lease(Lane(0))
    for act in (
        channel.post_message(site.place, CARD, key="k"),
        channel.update_message(MessageRef(channel=site.place.channel, ts="20.1"), OVER),
        channel.post_ephemeral(site.place, site.person, "Only Li Si can approve this."),
        channel.upload_picture(site.place, b"png", **SHARED, key="k"),
        channel.upload_files(site.place, [("a.pdf", b"%PDF")], comment="", key="k"),
    ):
        with pytest.raises(LeaseLost):
            await act
    assert site.server.calls == []


async def test_it_looks_again_before_each_try(site: Site) -> None:
    """The platform may say for how long to wait; in that time much can happen."""
    name = site.name_post(site.place)
    for fault in site.limits:
        for looks, posted in ((1, 0), (2, 1)):
            bind_lease(Lane(looks))
            site.server.calls.clear()
            before = len(site.read(site.place))
            site.server.faults[name] = [fault]
            with nullcontext() if posted else pytest.raises(LeaseLost):
                await post(site, site.place, key=f"k {fault} {looks}")
            assert len(site.server.called(name)) == 1 + posted
            assert len(site.read(site.place)) - before == posted, "who holds the lane is not hindered"
