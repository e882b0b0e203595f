"""Who reads a channel: what Slack says of it, joined with the directory; what cannot be known counts as strangers."""

from typing import Any

import pytest

from bot.chat.messages import ChannelReaders, Place
from bot.chat.shared_parts import CACHE_S, FAILURE_CACHE_S
from bot.chat.slack.channel_readers import PAGES, SHARED_FLAGS, SlackReaderClassifier
from tests.chat.slack.conftest import Desk
from tests.chat.slack.doubles import ME, member

PLACE = Place(team="T0", channel="C1", thread="1.0")
INFO = {"id": "C1", "name": "general", "is_channel": True, "is_private": False, "is_member": True,
        "is_shared": False, "is_ext_shared": False, "is_org_shared": False, "is_pending_ext_shared": False}  # fmt: skip
"""As in Slack's reference of conversations.info."""


def tell(desk: Desk, *pages: list[str], **info: Any) -> None:
    """Slack says this of the channel, and that these are its members."""
    desk.slack.channel, desk.slack.readers = {**INFO, **info}, [*pages] or [["U01ZHANG", "U04ZHAO"]]


async def classify(desk: Desk, place: Place = PLACE) -> ChannelReaders:
    return await SlackReaderClassifier(desk.client, desk.directory).classify_readers(place)


async def test_members_of_the_company_and_nobody_else(desk: Desk) -> None:
    tell(desk, ["U01ZHANG"], ["U04ZHAO"])
    assert await classify(desk) is ChannelReaders.INSIDE


async def test_a_channel_that_others_read_too_or_are_invited_to(desk: Desk) -> None:
    assert len(SHARED_FLAGS) >= 4 and set(SHARED_FLAGS) <= set(INFO)
    for sign in SHARED_FLAGS:
        tell(desk, **{sign: True})
        assert await classify(desk) is ChannelReaders.OUTSIDE, sign


async def test_one_guest_on_the_last_page_is_enough(desk: Desk) -> None:
    desk.slack.members.append(member("U05", "Gone", deleted=True))
    for stranger in ("U05", "U99NOBODY", ""):
        tell(desk, ["U01ZHANG"], ["U04ZHAO", stranger])
        assert await classify(desk) is ChannelReaders.OUTSIDE


async def test_what_cannot_be_known_counts_as_strangers(desk: Desk) -> None:
    for pages, fault in (([[]], ""), ([["U01ZHANG"]] * (PAGES + 1), ""), ([], "info"), ([], "members"), ([], "")):
        tell(desk, *pages)
        desk.slack.channel = desk.slack.channel if pages or fault else {}
        desk.slack.faults[f"conversations.{fault}"] = ["missing_scope"]
        assert await classify(desk) is ChannelReaders.OUTSIDE, (pages, fault)


async def test_a_dm_and_what_the_message_itself_says_need_no_look_up(desk: Desk) -> None:
    assert await classify(desk, Place(team="T0", channel="D1", direct=True)) is ChannelReaders.DIRECT
    assert await classify(desk, PLACE.model_copy(update={"shared": True})) is ChannelReaders.OUTSIDE
    assert desk.slack.calls == []


async def test_it_is_asked_once_in_some_minutes_and_a_refusal_is_believed_for_less(desk: Desk) -> None:
    now = 0.0
    room = SlackReaderClassifier(desk.client, desk.directory, clock=lambda: now)
    tell(desk)
    for _ in range(3):
        await room.classify_readers(PLACE)
    assert len(desk.slack.called("conversations.info")) == len(desk.slack.called("conversations.members")) == 1
    now = CACHE_S + 1
    tell(desk, ["U01ZHANG", "U99NOBODY"])
    assert await room.classify_readers(PLACE) is ChannelReaders.OUTSIDE, "a guest who joined is noticed"
    desk.slack.faults["conversations.info"], now = ["missing_scope"], now + CACHE_S + 1
    await room.classify_readers(PLACE)
    tell(desk)
    now += FAILURE_CACHE_S + 1
    assert await room.classify_readers(PLACE) is ChannelReaders.INSIDE


async def test_bots_of_the_workspace_are_inside_and_guests_are_not(desk: Desk) -> None:
    desk.slack.members += [
        member("U06", "Guest", "guest@example.com", is_restricted=True),
        member("U0BOT", "Countersign", is_bot=True),
        member("U08", "Stranger", is_bot=True, team_id="T9", is_stranger=True),
    ]
    inside = [one for one in ("U01ZHANG", "U0BOT", "U06", "U08", "U99") if await desk.directory.is_inside(one)]
    assert inside == ["U01ZHANG", "U0BOT"] and ME.user == "U0BOT"


@pytest.mark.parametrize("right", ["is_admin", "is_owner", "is_primary_owner"])
async def test_who_runs_the_workspace_is_an_administrator_without_a_role(desk: Desk, right: str) -> None:
    desk.slack.members += [
        member("U07", "Owner", "owner@example.com", **{right: True}),
        member("U06", "Guest", "guest@example.com", is_restricted=True, **{right: True}),
    ]
    owner, guest = await desk.directory.find_person("U07"), await desk.directory.find_person("U06")
    assert owner is not None and owner.is_administrator and not owner.roles
    assert guest is not None and not guest.is_administrator
