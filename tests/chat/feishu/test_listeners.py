"""Messages in: every shape that Feishu sends, as others have recorded or documented it."""

import asyncio
import copy
import json
from typing import Any

import pytest

from bot.chat.feishu import listeners
from bot.chat.feishu.message_content import CONTENT_MAX
from bot.chat.messages import ChannelReaders, HomeView, Place, SentFile
from bot.core.errors import ChatUnavailableError, StoreUnavailableError
from tests.chat.feishu.ears_desk import BOT, DM, LI, OTHER, TENANT, ZHANG, Ears, build_message, load_payload
from tests.chat.slack.doubles import eventually

GROUP = f"oc_e{1:031x}"


async def test_a_direct_message_is_taken_with_its_place(ears: Ears) -> None:
    assert await ears.hear("text_p2p") is None
    [(message, aliases)] = ears.inbox.messages
    assert message.place == Place(platform="feishu", team=TENANT, channel=DM, direct=True)
    assert (message.person, message.text, message.at) == (ZHANG, "我想请 3 天年假", f"om_{4:032x}")
    assert message.id == f"{4:032x}" and aliases == (f"{DM}:om_{4:032x}",)
    assert message.thread_place.thread == message.at


async def test_a_mention_begins_a_thread_and_keeps_the_mentions_of_others(ears: Ears) -> None:
    await ears.hear("text_group_mention")
    [(message, _)] = ears.inbox.messages
    assert message.text == f"请把明天的会转给 <@{LI}>"
    assert message.place == Place(platform="feishu", team=TENANT, channel=GROUP, thread=message.at)


async def test_a_message_that_comes_twice_is_taken_once(ears: Ears) -> None:
    again = load_payload("text_group_mention")
    again["header"]["event_id"] = "another event of the same message"
    await ears.hear("text_group_mention")
    await ears.hear("text_group_mention")
    await ears.listeners.handle_payload(again)
    assert len(ears.inbox.messages) == 1


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


@pytest.mark.parametrize("name", ["text_p2p", "entered"])
async def test_the_chat_that_is_named_is_where_its_person_is_told(ears: Ears, name: str) -> None:
    payload = load_payload(name)
    where = payload["event"].get("message", payload["event"])
    where["chat_id"], person = (
        "oc_named",
        (payload["event"].get("sender", {}).get("sender_id") or payload["event"]["operator_id"]),
    )
    assert (await ears.channel.open_dm(person["open_id"])).channel != "oc_named", "the control"
    await ears.listeners.handle_payload(payload)
    assert (await ears.channel.open_dm(person["open_id"])).channel == "oc_named"


async def test_words_without_a_mention_are_no_message(ears: Ears) -> None:
    await ears.hear("text_group_without_mention")
    assert not ears.inbox.messages and "engaged" not in ears.inbox.log, "it begins a thread of its own"
    await ears.hear("thread_reply")
    assert not ears.inbox.messages and "engaged" in ears.inbox.log


async def test_a_reply_in_our_thread_needs_no_mention(ears: Ears) -> None:
    root = f"om_{0x61:032x}"
    ears.inbox.threads.add(root)
    await ears.hear("thread_reply")
    [(message, _)] = ears.inbox.messages
    assert (message.place.thread, message.text) == (root, "改成下周一")


async def test_a_reply_that_overtakes_its_mention_is_taken(ears: Ears) -> None:
    hearing = asyncio.create_task(ears.hear("thread_reply"))
    await eventually(lambda: "engaged" in ears.inbox.log)
    ears.inbox.threads.add(f"om_{0x61:032x}")
    await hearing
    assert len(ears.inbox.messages) == 1


async def test_everybody_is_not_the_bot(ears: Ears) -> None:
    payload = load_payload("text_all")
    del payload["event"]["message"]["mentions"]
    await ears.listeners.handle_payload(payload)
    assert not ears.inbox.messages
    await ears.hear("text_all")
    assert ears.inbox.messages[0][0].text == "@all 请看 的提醒"


@pytest.mark.parametrize("name", ["sender_app", "message_read"])
async def test_robots_and_notices_are_no_messages(ears: Ears, name: str) -> None:
    await ears.hear(name)
    assert not ears.inbox.log


async def test_our_own_words_are_no_message(ears: Ears) -> None:
    payload = load_payload("text_p2p")
    payload["event"]["sender"]["sender_id"]["open_id"] = BOT
    await ears.listeners.handle_payload(payload)
    assert not ears.inbox.log


async def test_an_event_for_another_company_is_dropped(ears: Ears) -> None:
    for name in ("text_p2p", "recalled", "updated", "menu_home", "entered", "user_updated"):
        payload = load_payload(name)
        payload["header"]["tenant_key"] = OTHER
        await ears.listeners.handle_payload(payload)
    assert not ears.inbox.log and not ears.inbox.welcomed
    await ears.hear("text_p2p")
    assert ears.inbox.log, "control: the very event for our company is taken"


async def test_a_sender_of_another_company_makes_the_place_a_shared_one(ears: Ears) -> None:
    await ears.hear("external_sender")
    [(message, _)] = ears.inbox.messages
    assert message.place.shared
    assert await ears.readers.classify_readers(message.place) is ChannelReaders.OUTSIDE
    assert not ears.feishu.asked, "nobody has to be asked for that"
    await ears.hear("text_group_mention")
    assert not ears.inbox.messages[1][0].place.shared, "control"


async def test_what_is_not_durable_comes_again(ears: Ears) -> None:
    ears.inbox.down = True
    with pytest.raises(StoreUnavailableError):
        await ears.hear("text_p2p")
    ears.inbox.down = False
    await ears.hear("text_p2p")
    assert len(ears.inbox.messages) == 1


async def test_a_known_person_sees_a_sign_of_life(ears: Ears) -> None:
    at = f"om_{4:032x}"
    ears.feishu.hear(DM, at)
    await ears.directory.find_person(ZHANG)
    await ears.hear("text_p2p")
    await eventually(lambda: ears.feishu.said[at].reactions)


# Content

FILES = {
    "image": "image/img_v3_02cd_11aa22bb-33cc-44dd-55ee-66ff77gg88hg",
    "file": "file/file_v3_00ab_12345678-90ab-cdef-1234-567890abcdeg",
    "media": "file/file_v3_00cd_aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeeg",
    "audio": "file/file_v3_00ef_0123",
}
NAMES = {"image": "image-88hg", "file": "评审纪要.docx", "media": "现场.mp4", "audio": "file-0123"}


@pytest.mark.parametrize("name", FILES)
async def test_a_file_comes_with_the_message_that_has_it(ears: Ears, name: str) -> None:
    await ears.hear(name)
    [(message, _)] = ears.inbox.messages
    assert message.files == (SentFile(id=f"{message.at}/{FILES[name]}", name=NAMES[name]),)
    assert message.text == ""


async def test_rich_text_comes_as_lines_with_its_pictures(ears: Ears) -> None:
    await ears.hear("post_mention_image")
    [(message, _)] = ears.inbox.messages
    lines = ["报销", " 酒店两晚，共 1,480 元，见 行程 (https://example.com/trip)", "", f"<@{LI}> 同行:SMILE:", "a = 1"]
    assert message.text == "\n".join(lines)
    assert [one.id.split("/")[1] for one in message.files] == ["image"]


async def test_rich_text_below_the_key_of_a_language(ears: Ears) -> None:
    await ears.hear("post_language_key")
    assert ears.inbox.messages[0][0].text == f"项目更新\n新版本：<@{LI}>**好**，<@{LI}>"


@pytest.mark.parametrize(
    ("name", "text"),
    [
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


async def test_a_person_who_types_the_key_of_a_mention_mentions_nobody_in_rich_text(ears: Ears) -> None:
    payload = load_payload("post_mention_image")
    payload["event"]["message"]["content"] = json.dumps({"content": [[{"tag": "text", "text": "@_user_2 approves"}]]})
    await ears.listeners.handle_payload(payload)
    assert ears.inbox.messages[0][0].text == "@_user_2 approves"


async def test_keys_of_mentions_are_read_whole_and_once(ears: Ears) -> None:
    payload = load_payload("text_p2p")
    evil = {"key": "@_user_1", "id": {}, "name": "@_user_2 <@ou_0000000000>\u202e"}
    payload["event"]["message"] |= {
        "content": json.dumps({"text": "@_user_1 @_user_12 @_user_2"}),
        "mentions": [evil, {"key": "@_user_2", "id": {"open_id": LI}, "name": "李四"}],
    }
    await ears.listeners.handle_payload(payload)
    text = ears.inbox.messages[0][0].text
    assert text.startswith("@@_user_2 <@ou_0000000000>") and text.endswith(f"@_user_12 <@{LI}>")
    assert "\u202e" not in text


async def test_content_that_is_too_long_is_counted_and_not_parsed(ears: Ears) -> None:
    payload = load_payload("text_p2p")
    payload["event"]["message"]["content"] = json.dumps({"text": "x" * CONTENT_MAX})
    await ears.listeners.handle_payload(payload)
    [(message, _)] = ears.inbox.messages
    assert message.text == "" and message.unread == CONTENT_MAX + 12


# Changes


async def test_an_edited_message_is_a_change_by_its_sender(ears: Ears) -> None:
    await ears.hear("updated")
    [(message, is_deleted)] = ears.inbox.changes
    assert (message.person, message.text, message.at, is_deleted) == (ZHANG, "我想请 4 天年假", f"om_{4:032x}", False)
    assert message.place.channel == DM and not ears.inbox.messages


def tell_message(ears: Ears, **changes: Any) -> None:
    at = f"om_{4:032x}"
    about = build_message(at, "text", '{"text":"我想请 5 天年假"}', **changes)
    ears.feishu.pages |= {f"im/v1/messages/{at}": {"items": [about]}, f"im/v1/chats/{DM}": {"chat_mode": "p2p"}}


async def test_an_edit_without_a_sender_is_looked_up(ears: Ears) -> None:
    tell_message(ears)
    await ears.hear("updated_without_sender")
    [(message, is_deleted)] = ears.inbox.changes
    assert (message.person, message.text, message.place.direct, is_deleted) == (ZHANG, "我想请 5 天年假", True, False)


async def test_a_recalled_message_is_one_of_its_writer(ears: Ears) -> None:
    await ears.hear("text_p2p")
    await ears.hear("recalled")
    [(message, is_deleted)] = ears.inbox.changes
    assert (message.person, message.at, message.place.channel, is_deleted) == (ZHANG, f"om_{4:032x}", DM, True)
    assert not ears.feishu.asked, "what the event of the message said is enough"


async def test_after_a_restart_the_writer_of_a_recalled_message_is_looked_up(ears: Ears) -> None:
    tell_message(ears, deleted=True, body={"content": "This message was recalled"})
    await ears.hear("recalled")
    assert [(message.person, is_deleted) for message, is_deleted in ears.inbox.changes] == [(ZHANG, True)]


@pytest.mark.parametrize("sender", [{}, {"id": "cli_1", "id_type": "app_id", "sender_type": "app"}, {"id": BOT}])
async def test_a_message_of_nobody_is_no_change(ears: Ears, sender: dict[str, str]) -> None:
    tell_message(ears, sender=sender)
    await ears.hear("recalled")
    await ears.hear("updated_without_sender")
    assert not ears.inbox.changes


async def test_a_message_that_others_took_away_is_not_withdrawn_by_its_writer(ears: Ears) -> None:
    await ears.hear("text_p2p")
    payload = load_payload("recalled")
    payload["event"]["recall_type"] = "group_owner"
    await ears.listeners.handle_payload(payload)
    assert not ears.inbox.changes


async def test_a_recall_comes_again_while_feishu_cannot_be_asked(ears: Ears) -> None:
    tell_message(ears)
    ears.feishu.is_away = True
    with pytest.raises(ChatUnavailableError):
        await ears.hear("recalled")
    ears.feishu.is_away = False
    await ears.hear("recalled")
    assert len(ears.inbox.changes) == 1


async def test_a_recall_names_the_chat_of_the_message(ears: Ears) -> None:
    await ears.hear("text_p2p")
    payload = load_payload("recalled")
    payload["event"]["chat_id"] = "oc_elsewhere"
    await ears.listeners.handle_payload(payload)
    assert not ears.inbox.changes


async def test_few_messages_are_remembered(ears: Ears, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "RECENT_MAX", 2)
    for name in ("text_p2p", "file", "image", "audio"):
        await ears.hear(name)
    assert len(ears.listeners._recent) == 2


# Menu, people and chats


async def test_the_menu_opens_home(ears: Ears) -> None:
    ears.inbox.homes[ZHANG] = HomeView("主页", ())
    await ears.hear("menu_home")
    await eventually(lambda: ears.homes)
    assert ears.homes == [(ZHANG, HomeView("主页", ()))]


async def test_the_menu_asks_for_a_form(ears: Ears) -> None:
    for key, process in (("request", ""), ("request:leave", "leave")):
        payload = load_payload("menu_home")
        payload["event"]["event_key"] = key
        ears.inbox.forms.clear()
        await ears.listeners.handle_payload(payload)
        await eventually(lambda: ears.inbox.forms)
        assert [(one.person, one.process, one.has_choice) for one in ears.inbox.forms] == [
            (ZHANG, process, not process)
        ]
    await eventually(lambda: len(ears.feishu.in_chat(DM)) == 2)
    assert "no form" in json.dumps(ears.feishu.in_chat(DM)[0].content, ensure_ascii=False), "and is told why not"


async def test_who_opens_the_chat_is_welcomed(ears: Ears) -> None:
    await ears.hear("entered")
    await eventually(lambda: ears.inbox.welcomed)
    assert ears.inbox.welcomed == [(ZHANG, Place(platform="feishu", team=TENANT, channel=DM, direct=True))]


async def test_a_changed_person_is_looked_up_again(ears: Ears) -> None:
    await ears.directory.list_people()
    for name in ("user_updated", "user_deleted"):
        asked = ears.feishu.count_asked(f"users/{LI}")
        await ears.hear(name)
        await ears.directory.catch_up()
        assert ears.feishu.count_asked(f"users/{LI}") == asked + 1


async def test_a_changed_chat_is_asked_about_again(ears: Ears) -> None:
    chat = f"oc_e{6:031x}"
    place = Place(platform="feishu", team=TENANT, channel=chat, thread="om_1")
    members = {"items": [{"member_id": ZHANG, "tenant_key": TENANT}], "has_more": False}
    ears.feishu.pages |= {f"im/v1/chats/{chat}": {"external": False}, f"im/v1/chats/{chat}/members": members}
    assert await ears.readers.classify_readers(place) is ChannelReaders.INSIDE
    ears.feishu.pages[f"im/v1/chats/{chat}"] = {"external": True}
    assert await ears.readers.classify_readers(place) is ChannelReaders.INSIDE, "control: the answer is kept"
    await ears.hear("member_added")
    assert await ears.readers.classify_readers(place) is ChannelReaders.OUTSIDE


async def test_events_that_are_not_ours_are_acknowledged(ears: Ears) -> None:
    payload = copy.deepcopy(load_payload("menu_home"))
    payload["header"]["event_type"] = "drive.file.edit_v1"
    assert await ears.listeners.handle_payload(payload) is None and not ears.inbox.log
