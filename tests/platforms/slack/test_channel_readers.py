"""Who reads a channel: what Slack says of it, joined with the directory; what cannot be known counts as strangers."""

from functools import partial
from typing import Any

from bot.chat.messages import ChannelReaders, Place
from bot.platforms.shared import CachingReaderClassifier
from bot.platforms.slack.channel_readers import PAGES, SHARED_FLAGS, has_only_insiders
from tests.platforms.slack.conftest import Desk
from tests.platforms.slack.doubles import member

PLACE = Place(team="T0", channel="C1", thread="1.0")
INFO = {"id": "C1", "name": "general", "is_channel": True, "is_private": False, "is_member": True,
        "is_shared": False, "is_ext_shared": False, "is_org_shared": False, "is_pending_ext_shared": False}  # fmt: skip
"""As in Slack's reference of conversations.info."""


def tell(desk: Desk, *pages: list[str], **info: Any) -> None:
    """Slack says this of the channel, and that these are its members."""
    desk.slack.channel, desk.slack.readers = {**INFO, **info}, [*pages] or [["U01ZHANG", "U04ZHAO"]]


async def classify(desk: Desk) -> ChannelReaders:
    return await CachingReaderClassifier(partial(has_only_insiders, desk.client, desk.directory)).classify_readers(
        PLACE
    )


async def test_members_of_the_company_and_a_channel_that_others_read_too_or_are_invited_to(desk: Desk) -> None:
    tell(desk, ["U01ZHANG"], ["U04ZHAO"])
    assert await classify(desk) is ChannelReaders.INSIDE
    assert len(SHARED_FLAGS) >= 4 and set(SHARED_FLAGS) <= set(INFO)
    for sign in SHARED_FLAGS:
        tell(desk, **{sign: True})
        assert await classify(desk) is ChannelReaders.OUTSIDE, sign


async def test_one_guest_on_the_last_page_is_enough_and_what_cannot_be_known_counts_as_strangers(desk: Desk) -> None:
    desk.slack.members.append(member("U05", "Gone", deleted=True))
    for stranger in ("U05", "U99NOBODY", ""):
        tell(desk, ["U01ZHANG"], ["U04ZHAO", stranger])
        assert await classify(desk) is ChannelReaders.OUTSIDE
    for pages, fault in (([[]], ""), ([["U01ZHANG"]] * (PAGES + 1), ""), ([], "info"), ([], "members"), ([], "")):
        tell(desk, *pages)
        desk.slack.channel = desk.slack.channel if pages or fault else {}
        desk.slack.faults[f"conversations.{fault}"] = ["missing_scope"]
        assert await classify(desk) is ChannelReaders.OUTSIDE, (pages, fault)
