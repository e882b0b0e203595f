"""Who reads a chat: people of the company, or others too."""

from typing import Any

import pytest

from bot.chat.messages import ChannelReaders, Place
from bot.platforms.feishu.channel_readers import PAGES
from tests.platforms.feishu.ears_desk import LI, OTHER, ZHANG, Ears
from tests.platforms.feishu.message_server import TENANT

CHAT = "oc_project"
PLACE = Place(platform="feishu", team=TENANT, channel=CHAT, thread="om_1")
MEMBERS = [{"member_id_type": "open_id", "member_id": one, "tenant_key": TENANT} for one in (ZHANG, LI)]
STRANGER = {"member_id": "ou_9f9f9f9f9f", "tenant_key": OTHER}


def tell(ears: Ears, members: Any, about: Any = None, **page: Any) -> None:
    about = {"chat_mode": "group", "external": False} if about is None else about
    ears.feishu.pages |= {
        f"im/v1/chats/{CHAT}": about,
        f"im/v1/chats/{CHAT}/members": members if isinstance(members, int) else {"items": members, **page},
    }


async def test_a_chat_of_colleagues_has_nobody_else_but_who_knows_in_an_outage(ears: Ears) -> None:
    tell(ears, MEMBERS, has_more=False)
    ears.feishu.is_away = True
    assert await ears.readers.classify_readers(PLACE) is ChannelReaders.OUTSIDE
    ears.feishu.is_away = False
    assert await ears.readers.classify_readers(PLACE) is ChannelReaders.INSIDE


@pytest.mark.parametrize(
    ("members", "about", "page"),
    [
        ([*MEMBERS, STRANGER], None, {}),
        ([*MEMBERS, {"member_id": "ou_9f9f9f9f9f"}], None, {}),
        (MEMBERS, {"external": True}, {}),
        (MEMBERS, {}, {}),
        ([], None, {}),
        (MEMBERS, None, {"has_more": True, "page_token": "again"}),
        (MEMBERS, 232011, {}),
        (99991672, None, {}),
    ],
    ids=["stranger", "no tenant", "external chat", "unknown chat", "nobody", "too many", "not in it", "no scope"],
)
async def test_what_is_not_certain_is_outside(ears: Ears, members: Any, about: Any, page: dict[str, Any]) -> None:
    tell(ears, members, about, **page)
    assert await ears.readers.classify_readers(PLACE) is ChannelReaders.OUTSIDE
    assert len(ears.feishu.asked) <= PAGES + 1
