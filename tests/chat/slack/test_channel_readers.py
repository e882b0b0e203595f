"""Who reads a channel: what Slack says of it, joined with the directory; what cannot be known counts as strangers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from bot.chat.messages import ChannelReaders, Place
from bot.chat.shared_parts import CACHE_S, FAILURE_CACHE_S
from bot.chat.slack.channel_readers import PAGES, SHARED_FLAGS, SlackReaderClassifier
from tests.chat.slack.conftest import Desk
from tests.chat.slack.doubles import ME, member
from tests.harness.memory_platform import MemoryDirectory
from tests.tools.office import GONE, LI, PEOPLE, ZHANG

PLACE = Place(team="T1", channel="C1", thread="1.0")
INFO = {"id": "C1", "name": "general", "is_channel": True, "is_private": False, "is_member": True,
        "is_shared": False, "is_ext_shared": False, "is_org_shared": False, "is_pending_ext_shared": False}  # fmt: skip
"""As in Slack's reference of conversations.info."""


@dataclass
class Api:
    """The two methods, as the client has them. `fails`: method → error."""

    info: Mapping[str, Any] = field(default_factory=lambda: dict(INFO))
    pages: list[list[str]] = field(default_factory=lambda: [[ZHANG.id, LI.id]])
    fails: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def conversations_info(self, **args: Any) -> Any:
        return self._answer("info", {"channel": self.info})

    async def conversations_members(self, **args: Any) -> Any:
        number = int(args.get("cursor") or 0)
        more = str(number + 1) if number + 1 < len(self.pages) else ""
        return self._answer("members", {"members": self.pages[number], "response_metadata": {"next_cursor": more}})

    def _answer(self, method: str, data: Mapping[str, Any]) -> Any:
        self.asked.append(method)
        failed = self.fails.get(method)
        answer = AsyncSlackResponse(
            client=None, http_verb="POST", api_url="", req_args={}, headers={}, status_code=200,
            data={"ok": not failed, **({"error": failed} if failed else data)},
        )  # fmt: skip
        if failed:
            raise SlackApiError(failed, answer)
        return answer


def looking(api: Api) -> tuple[SlackReaderClassifier, list[float]]:
    clock = [0.0]
    client: Any = api
    return SlackReaderClassifier(client, MemoryDirectory(list(PEOPLE)), clock=lambda: clock[0]), clock


async def found(api: Api, place: Place = PLACE) -> ChannelReaders:
    return await looking(api)[0].classify_readers(place)


async def test_members_of_the_company_and_nobody_else() -> None:
    assert await found(Api(pages=[[ZHANG.id], [LI.id]])) is ChannelReaders.INSIDE


async def test_a_channel_that_others_read_too_or_are_invited_to() -> None:
    assert len(SHARED_FLAGS) >= 4 and set(SHARED_FLAGS) <= set(INFO)
    for sign in SHARED_FLAGS:
        assert await found(Api({**INFO, sign: True})) is ChannelReaders.OUTSIDE, sign


async def test_one_guest_on_the_last_page_is_enough() -> None:
    for stranger in (GONE.id, "U99NOBODY", ""):
        assert await found(Api(pages=[[ZHANG.id], [LI.id, stranger]])) is ChannelReaders.OUTSIDE


async def test_what_cannot_be_known_counts_as_strangers() -> None:
    for api in (
        Api(info={}), Api(pages=[[]]), Api(fails={"info": "missing_scope"}), Api(fails={"members": "missing_scope"}),
        Api(fails={"info": "channel_not_found"}), Api(pages=[[ZHANG.id]] * (PAGES + 1)),
    ):  # fmt: skip
        assert await found(api) is ChannelReaders.OUTSIDE, api


async def test_a_dm_and_what_the_message_itself_says_need_no_look_up() -> None:
    api = Api()
    assert await found(api, Place(team="T1", channel="D1", direct=True)) is ChannelReaders.DIRECT
    assert await found(api, PLACE.model_copy(update={"shared": True})) is ChannelReaders.OUTSIDE
    assert api.asked == []


async def test_it_is_asked_once_in_some_minutes_and_a_refusal_is_believed_for_less() -> None:
    api = Api()
    room, clock = looking(api)
    for _ in range(3):
        await room.classify_readers(PLACE)
    assert api.asked == ["info", "members"]
    clock[0], api.pages = CACHE_S + 1, [[ZHANG.id, GONE.id]]
    assert await room.classify_readers(PLACE) is ChannelReaders.OUTSIDE, "a guest who joined is noticed"
    api.fails, clock[0] = {"info": "missing_scope"}, clock[0] + CACHE_S + 1
    await room.classify_readers(PLACE)
    api.fails, api.pages, clock[0] = {}, [[ZHANG.id]], clock[0] + FAILURE_CACHE_S + 1
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
