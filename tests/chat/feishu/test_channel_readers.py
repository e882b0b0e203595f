"""Who reads a chat: people of the company, or others too."""

import asyncio
from typing import Any

import pytest

from bot.chat.feishu.channel_readers import PAGES, FeishuReaderClassifier
from bot.chat.messages import ChannelReaders, Place
from tests.chat.feishu.ears_desk import LI, OTHER, TENANT, ZHANG, Ears

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


async def test_a_chat_of_colleagues_has_nobody_else(ears: Ears) -> None:
    tell(ears, MEMBERS, has_more=False)
    assert await ears.readers.classify_readers(PLACE) is ChannelReaders.INSIDE
    assert await ears.readers.classify_readers(PLACE.model_copy(update={"direct": True})) is ChannelReaders.DIRECT


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


async def test_an_outage_is_outside_and_asked_again(ears: Ears, monkeypatch: pytest.MonkeyPatch) -> None:
    tell(ears, MEMBERS)
    ears.feishu.is_away = True
    assert await ears.readers.classify_readers(PLACE) is ChannelReaders.OUTSIDE
    ears.feishu.is_away = False
    assert await ears.readers.classify_readers(PLACE) is ChannelReaders.INSIDE


async def test_an_answer_is_kept_for_a_while(ears: Ears) -> None:
    now = 0.0
    readers = FeishuReaderClassifier(ears.client, tenant=TENANT, clock=lambda: now)
    tell(ears, MEMBERS)
    found = await asyncio.gather(*(readers.classify_readers(PLACE) for _ in range(5)))
    assert set(found) == {ChannelReaders.INSIDE} and len(ears.feishu.asked) == 2
    now = 301.0
    tell(ears, [STRANGER])
    assert await readers.classify_readers(PLACE) is ChannelReaders.OUTSIDE


async def test_a_chat_that_changes_while_it_is_asked_about_is_not_kept(ears: Ears) -> None:
    """Control in `test_an_answer_is_kept_for_a_while`."""
    tell(ears, MEMBERS)
    call = ears.client.call

    async def change_meanwhile(*arguments: Any, **more: Any) -> Any:
        ears.readers.note_changed_place(CHAT)
        return await call(*arguments, **more)

    ears.readers._client = type("Client", (), {"call": staticmethod(change_meanwhile)})()  # type: ignore[assignment]
    assert await ears.readers.classify_readers(PLACE) is ChannelReaders.OUTSIDE
    asked = len(ears.feishu.asked)
    await ears.readers.classify_readers(PLACE)
    assert len(ears.feishu.asked) > asked
