"""Messages in: every shape that Feishu sends, as others have recorded or documented it."""

import asyncio
import json
from typing import Any

import pytest

from bot.chat.messages import ChannelReaders, HomeView, Place, SentFile
from bot.core.errors import ChatUnavailableError, StoreUnavailableError
from bot.platforms.feishu import listeners
from bot.platforms.feishu.message_content import CONTENT_MAX
from tests.platforms.feishu.ears_desk import BOT, DM, LI, OTHER, ZHANG, Ears, build_message, load_payload
from tests.platforms.feishu.message_server import TENANT
from tests.platforms.slack.doubles import eventually

GROUP = f"oc_e{1:031x}"
SAID = f"om_{4:032x}"
"""The message of the payload `text_p2p`."""
ROOT = f"om_{0x61:032x}"
DIRECT = Place(platform="feishu", team=TENANT, channel=DM, direct=True)
CONTENT = "event.message.content"


async def test_a_mention_begins_a_thread_once_and_keeps_the_mentions_of_others(ears: Ears) -> None:
    await ears.hear("text_group_mention")
    await ears.hear("text_group_mention")
    await ears.hear("text_group_mention", "header.event_id", "another event of the same message")
    [(message, _)] = ears.inbox.messages
    assert message.text == f"请把明天的会转给 <@{LI}>"
    assert message.place == Place(platform="feishu", team=TENANT, channel=GROUP, thread=message.at)
    await ears.hear("text_p2p", CONTENT, '{"text": ""}')
    assert [one.text for one, _ in ears.inbox.messages[1:]] == [""], "one without a text is heard, too"


@pytest.mark.parametrize(("written", "read"), [("1795806000123", 1_795_806_000_123), ("soon", 0), (None, 0)])
async def test_a_message_has_the_time_at_which_it_was_sent(ears: Ears, written: str | None, read: int) -> None:
    """Its id says nothing of it, and an event may come hours later."""
    await ears.hear("text_p2p", "event.message.create_time", written)
    [(message, _)] = ears.inbox.messages
    assert message.sent_ms == read


async def test_the_messages_of_a_forwarded_bundle_are_read(ears: Ears) -> None:
    about = load_payload("merge_forward")["event"]["message"]
    sender, other = {"id": LI, "id_type": "open_id", "sender_type": "user"}, {"id": BOT, "sender_type": "app"}
    inner = {"upper_message_id": about["message_id"], "msg_type": "text", "sender": sender}
    texts = [
        {**inner, "message_id": f"om_{n}", "body": {"content": json.dumps({"text": f"第{n}条\n完"})}} for n in range(12)
    ]
    texts[1] |= {"sender": other, "body": {"content": json.dumps({"text": "x" * 9_000})}}
    await ears.directory.list_people()
    ears.feishu.pages[f"im/v1/messages/{about['message_id']}"] = {"items": [{**about, "body": {}}, *texts]}
    await ears.hear("merge_forward")
    [(message, _)] = ears.inbox.messages
    assert message.text.startswith("（转发的消息，作者：李四）\n> 第0条\n> 完\n\n（转发的消息，作者：?）")
    assert "还有 2 条转发的内容没有读" in message.text and len(message.text) < 5_000


async def test_a_bundle_that_cannot_be_read_is_a_message_all_the_same(ears: Ears) -> None:
    ears.feishu.is_away = True
    about = load_payload("merge_forward")["event"]["message"]
    ears.feishu.pages[f"im/v1/messages/{about['message_id']}"] = {}
    await ears.hear("merge_forward")
    assert "merge_forward" in ears.inbox.messages[0][0].text


@pytest.mark.parametrize(("name", "path"), [("text_p2p", "event.message.chat_id"), ("entered", "event.chat_id")])
async def test_the_chat_that_is_named_is_where_its_person_is_told(ears: Ears, name: str, path: str) -> None:
    assert (await ears.channel.open_dm(ZHANG)).channel != "oc_named", "the control"
    await ears.hear(name, path, "oc_named")
    assert (await ears.channel.open_dm(ZHANG)).channel == "oc_named"
    if name == "entered":
        await eventually(lambda: ears.inbox.welcomed)
        named = DIRECT.model_copy(update={"channel": "oc_named"})
        assert ears.inbox.welcomed == [(ZHANG, named)], "who opens the chat is welcomed"


async def test_a_reply_in_our_thread_needs_no_mention_and_other_words_are_no_message(ears: Ears) -> None:
    await ears.hear("text_group_without_mention")
    assert not ears.inbox.messages and "engaged" not in ears.inbox.log, "it begins a thread of its own"
    await ears.hear("thread_reply")
    assert not ears.inbox.messages and "engaged" in ears.inbox.log
    ears.inbox.threads.add(ROOT)
    await ears.hear("thread_reply")
    [(message, _)] = ears.inbox.messages
    assert (message.place.thread, message.text) == (ROOT, "改成下周一")


async def test_a_reply_that_overtakes_its_mention_is_taken(ears: Ears) -> None:
    hearing = asyncio.create_task(ears.hear("thread_reply"))
    await eventually(lambda: "engaged" in ears.inbox.log)
    ears.inbox.threads.add(ROOT)
    await hearing
    assert len(ears.inbox.messages) == 1


async def test_robots_notices_our_own_words_and_words_to_everybody_are_no_messages(ears: Ears) -> None:
    await ears.hear("sender_app")
    await ears.hear("message_read")
    await ears.hear("text_p2p", "event.sender.sender_id.open_id", BOT)
    assert await ears.hear("menu_home", "header.event_type", "drive.file.edit_v1") is None
    assert not ears.inbox.log
    await ears.hear("text_all", "event.message.mentions", None)
    assert not ears.inbox.messages
    await ears.hear("text_all")
    assert ears.inbox.messages[0][0].text == "@all 请看 的提醒"


async def test_an_event_for_another_company_is_dropped_and_a_sender_of_one_makes_the_place_shared(ears: Ears) -> None:
    for name in ("text_p2p", "recalled", "updated", "menu_home", "entered", "user_updated"):
        await ears.hear(name, "header.tenant_key", OTHER)
    assert not ears.inbox.log and not ears.inbox.welcomed
    await ears.hear("text_p2p")
    assert ears.inbox.log, "control: the very event for our company is taken"
    ears.inbox.messages.clear()
    await ears.hear("external_sender")
    [(message, _)] = ears.inbox.messages
    assert message.place.shared
    assert await ears.readers.classify_readers(message.place) is ChannelReaders.OUTSIDE
    assert not ears.feishu.asked, "nobody has to be asked for that"
    await ears.hear("text_group_mention")
    assert not ears.inbox.messages[1][0].place.shared, "control"


async def test_a_direct_message_is_taken_with_its_place_and_comes_again_if_it_is_not_durable(ears: Ears) -> None:
    ears.inbox.down = True
    with pytest.raises(StoreUnavailableError):
        await ears.hear("text_p2p")
    ears.inbox.down = False
    assert await ears.hear("text_p2p") is None
    [(message, aliases)] = ears.inbox.messages
    assert message.place == DIRECT
    assert (message.person, message.text, message.at) == (ZHANG, "我想请 3 天年假", SAID)
    assert message.id == f"{4:032x}" and aliases == (f"{DM}:{SAID}",)
    assert message.thread_place.thread == message.at
    ears.feishu.hear(DM, SAID)
    await ears.directory.find_person(ZHANG)
    await ears.hear("text_p2p")
    await eventually(lambda: ears.feishu.said[SAID].reactions)  # a known person sees a sign of life


# Content

FILES = {
    "image": ("image/img_v3_02cd_11aa22bb-33cc-44dd-55ee-66ff77gg88hg", "image-88hg"),
    "file": ("file/file_v3_00ab_12345678-90ab-cdef-1234-567890abcdeg", "评审纪要.docx"),
    "media": ("file/file_v3_00cd_aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeeg", "现场.mp4"),
    "audio": ("file/file_v3_00ef_0123", "file-0123"),
}


async def test_files_come_with_the_messages_that_have_them(ears: Ears, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "RECENT_MAX", 2)
    for name, (id, shown) in FILES.items():
        await ears.hear(name)
        message, _ = ears.inbox.messages[-1]
        assert (message.text, message.files) == ("", (SentFile(id=f"{message.at}/{id}", name=shown),)), name
    assert len(ears.listeners._recent) == 2, "few messages are remembered"


async def test_rich_text_comes_as_lines_with_its_pictures(ears: Ears) -> None:
    await ears.hear("post_mention_image")
    [(message, _)] = ears.inbox.messages
    lines = ["报销", " 酒店两晚，共 1,480 元，见 行程 (https://example.com/trip)", "", f"<@{LI}> 同行:SMILE:", "a = 1"]
    assert message.text == "\n".join(lines)
    assert [one.id.split("/")[1] for one in message.files] == ["image"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("post_language_key", f"项目更新\n新版本：<@{LI}>**好**，<@{LI}>"),
        ("todo", "交周报"),
        ("vote", "周五聚餐吃什么\n火锅\n烤鱼"),
        ("location", "西湖区文三路"),
        ("sticker", "(a message of the type “sticker”; there is no text in it that I can read)"),
        ("merge_forward", "(a message of the type “merge_forward”; there is no text in it that I can read)"),
    ],
)
async def test_other_types_come_with_the_words_that_they_have(ears: Ears, name: str, text: str) -> None:
    await ears.hear(name)
    assert ears.inbox.messages[0][0].text == text


async def test_keys_of_mentions_are_read_whole_and_once_and_typed_ones_mention_nobody(ears: Ears) -> None:
    typed = {"content": [[{"tag": "text", "text": "@_user_2 approves"}]]}
    await ears.hear("post_mention_image", CONTENT, json.dumps(typed))
    assert ears.inbox.messages[0][0].text == "@_user_2 approves"
    payload = load_payload("text_p2p")
    evil = {"key": "@_user_1", "id": {}, "name": "@_user_2 <@ou_0000000000>\u202e"}
    payload["event"]["message"] |= {
        "content": json.dumps({"text": "@_user_1 @_user_12 @_user_2"}),
        "mentions": [evil, {"key": "@_user_2", "id": {"open_id": LI}, "name": "李四"}],
    }
    await ears.listeners.handle_payload(payload)
    text = ears.inbox.messages[1][0].text
    assert text.startswith("@@_user_2 <@ou_0000000000>") and text.endswith(f"@_user_12 <@{LI}>")
    assert "\u202e" not in text


async def test_content_that_is_too_long_is_counted_and_not_parsed(ears: Ears) -> None:
    await ears.hear("text_p2p", CONTENT, json.dumps({"text": "x" * CONTENT_MAX}))
    [(message, _)] = ears.inbox.messages
    assert message.text == "" and message.unread == CONTENT_MAX + 12


# Changes


def tell_message(ears: Ears, **changes: Any) -> None:
    about = build_message(SAID, "text", '{"text":"我想请 5 天年假"}', **changes)
    ears.feishu.pages |= {f"im/v1/messages/{SAID}": {"items": [about]}, f"im/v1/chats/{DM}": {"chat_mode": "p2p"}}


async def test_an_edited_message_is_a_change_by_its_sender(ears: Ears) -> None:
    tell_message(ears)
    await ears.hear("updated")
    assert not ears.feishu.asked
    await ears.hear("updated_without_sender")
    for (message, is_deleted), text in zip(ears.inbox.changes, ("我想请 4 天年假", "我想请 5 天年假"), strict=True):
        assert (message.person, message.text, message.at, is_deleted) == (ZHANG, text, SAID, False)
        assert message.place.channel == DM and message.place.direct
    assert not ears.inbox.messages


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_recalled_message_is_one_of_its_writer(ears: Ears, is_restarted: bool) -> None:
    """After a restart, the writer is looked up."""
    tell_message(ears, deleted=True, body={"content": "This message was recalled"})
    if not is_restarted:
        await ears.hear("text_p2p")
    await ears.hear("recalled")
    [(message, is_deleted)] = ears.inbox.changes
    assert (message.person, message.at, message.place.channel, is_deleted) == (ZHANG, SAID, DM, True)
    assert bool(ears.feishu.asked) == is_restarted, "what the event of the message said is enough"


@pytest.mark.parametrize("sender", [{}, {"id": "cli_1", "id_type": "app_id", "sender_type": "app"}, {"id": BOT}])
async def test_a_message_of_nobody_is_no_change(ears: Ears, sender: dict[str, str]) -> None:
    tell_message(ears, sender=sender)
    await ears.hear("recalled")
    await ears.hear("updated_without_sender")
    assert not ears.inbox.changes


async def test_a_message_that_others_took_away_or_of_another_chat_is_not_withdrawn_by_its_writer(ears: Ears) -> None:
    await ears.hear("text_p2p")
    await ears.hear("recalled", "event.recall_type", "group_owner")
    await ears.hear("recalled", "event.chat_id", "oc_elsewhere")
    assert not ears.inbox.changes


async def test_a_recall_comes_again_while_feishu_cannot_be_asked(ears: Ears) -> None:
    tell_message(ears)
    ears.feishu.is_away = True
    with pytest.raises(ChatUnavailableError):
        await ears.hear("recalled")
    ears.feishu.is_away = False
    await ears.hear("recalled")
    assert len(ears.inbox.changes) == 1


# Menu, people and chats


async def test_the_menu_opens_home_and_asks_for_forms(ears: Ears) -> None:
    ears.inbox.homes[ZHANG] = HomeView("主页", ())
    await ears.hear("menu_home")
    await eventually(lambda: ears.homes)
    assert ears.homes == [(ZHANG, HomeView("主页", ()))]
    for key, process in (("request", ""), ("request:leave", "leave")):
        ears.inbox.forms.clear()
        await ears.hear("menu_home", "event.event_key", key)
        await eventually(lambda: ears.inbox.forms)
        [form] = ears.inbox.forms
        assert (form.person, form.process, form.has_choice) == (ZHANG, process, not process)
    await eventually(lambda: len(ears.feishu.in_chat(DM)) == 2)
    assert "no form" in json.dumps(ears.feishu.in_chat(DM)[0].content, ensure_ascii=False), "and is told why not"


async def test_a_changed_person_or_chat_is_asked_about_again(ears: Ears) -> None:
    await ears.directory.list_people()
    for name in ("user_updated", "user_deleted"):
        asked = ears.feishu.count_asked(f"users/{LI}")
        await ears.hear(name)
        await ears.directory.catch_up()
        assert ears.feishu.count_asked(f"users/{LI}") == asked + 1
    chat = f"oc_e{6:031x}"
    place = Place(platform="feishu", team=TENANT, channel=chat, thread="om_1")
    members = {"items": [{"member_id": ZHANG, "tenant_key": TENANT}], "has_more": False}
    ears.feishu.pages |= {f"im/v1/chats/{chat}": {"external": False}, f"im/v1/chats/{chat}/members": members}
    assert await ears.readers.classify_readers(place) is ChannelReaders.INSIDE
    ears.feishu.pages[f"im/v1/chats/{chat}"] = {"external": True}
    assert await ears.readers.classify_readers(place) is ChannelReaders.INSIDE, "control: the answer is kept"
    await ears.hear("member_added")
    assert await ears.readers.classify_readers(place) is ChannelReaders.OUTSIDE
