"""The adapter against the local workspace: the same wire, with everything Slack would refuse refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.resources import as_file, files

import pytest

from bot.chat.ingress_gate import IngressGate
from bot.chat.messages import Button, Card, Dialog, HomeEntry, HomeSection, HomeView, Place, Post
from bot.chat.slack.app import build_bolt_app, open_socket_mode
from bot.chat.slack.channel import SlackChannel
from bot.chat.slack.directory import SlackDirectory, read_directory_file
from bot.chat.slack.web_client import identify_bot, open_web_client
from bot.local.workspace.delivery import DeliveryTiming
from bot.local.workspace.driver import WorkspaceDriver
from bot.local.workspace.server import serve_workspace
from bot.local.workspace.workspace import Workspace, WorkspaceSetup
from tests.chat.slack.doubles import APP_TOKEN, TOKEN, Inbox, Slots
from tools.spec import DialogField

ZHANG, DM, GENERAL = "U01ZHANG", "D01ZHANG", "C01GENERAL"
REJECT = (Button("Approve", "approve", "A03abc", 1, "primary"), Button("Reject", "reject", "A03abc", 1))


@dataclass
class Office:
    hands: WorkspaceDriver
    inbox: Inbox
    channel: SlackChannel
    directory: SlackDirectory


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    timing = DeliveryTiming(ack=0.4, redelivery=(0.0, 0.1, 0.1))
    workspace, inbox = Workspace(WorkspaceSetup(TOKEN, APP_TOKEN, timing=timing)), Inbox()
    async with serve_workspace(workspace) as address, open_web_client(TOKEN, f"{address}/api/") as client:
        me = await identify_bot(client)
        with as_file(files("bot.local") / "demo" / "directory.toml") as path:
            directory = SlackDirectory(client, read_directory_file(path), team=me.team)
        channel = SlackChannel(client, Slots(), team=me.team, bot=me.user)
        async with open_socket_mode(build_bolt_app(client, me, inbox, channel, directory), APP_TOKEN, IngressGate()):
            hands = WorkspaceDriver(workspace)
            await hands.wait_for_sockets()
            yield Office(hands, inbox, channel, directory)


async def test_people_are_who_they_are(office: Office) -> None:
    people = {person.name: person for person in await office.directory.list_people()}
    assert set(people) == {"张三", "李四", "王五", "赵六", "管理员"}
    assert people["张三"].manager == people["李四"].id
    assert people["赵六"].roles == {"finance"}
    assert (people["赵六"].manager, people["赵六"].department) == (people["王五"].id, "Finance"), "from the profile"
    assert (people["张三"].department, people["张三"].allowance) == ("Engineering", 15), "from the file"
    assert people["李四"].allowance is None


async def test_a_mention_arrives_once_and_typed_signs_as_typed(office: Office) -> None:
    await office.hands.mention_bot(ZHANG, GENERAL, "1 < 2 & ask @Li Si")
    await office.hands.wait_until(lambda: office.inbox.messages)
    await office.hands.send_message(ZHANG, DM, "done")
    await office.hands.wait_until(lambda: "done" in office.inbox.texts)
    assert len(office.inbox.messages) == 2
    assert office.inbox.texts[0].startswith("1 < 2 & ask")


async def test_what_is_not_durable_comes_again(office: Office) -> None:
    office.inbox.down = True
    await office.hands.send_message(ZHANG, DM, "hello")
    await office.hands.wait_until(lambda: len(office.hands.sent_envelopes) > 1)
    office.inbox.down = False
    await office.hands.wait_until(lambda: office.inbox.texts == ["hello"])


async def test_a_card_is_pressed_its_dialog_filled_in_and_the_card_rewritten(office: Office) -> None:
    place = await office.channel.open_dm(ZHANG)
    nasty = "<!channel> *all* ``` <@U02LI> &amp; [x](http://y)\n" * 40
    card = Card("请假申请 <1>", (("事由", nasty), ("天数", "10")), nasty, REJECT, "72 小时内有效")
    ref = await office.channel.post_message(place, Post(text="请审批", card=card), key="k1")
    assert await office.channel.post_message(place, Post(text="请审批", card=card), key="k1", again=True) == ref
    office.inbox.dialogs["reject"] = Dialog(
        title="驳回", submit="驳回", cancel="返回", approval="A03abc", version=1, choice="reject", place=place,
        fields=(DialogField(name="opinion", label="opinion", kind="long"),), labels=("意见",),
    )  # fmt: skip
    assert (await office.hands.click_button(ZHANG, DM, ref.ts, "cs:reject")).ok
    view = await office.hands.wait_until(lambda: office.hands.find_top_view(ZHANG))
    office.inbox.wrong = {"opinion": "请写明原因。"}
    refused = await office.hands.submit_view(ZHANG, view["id"], {"opinion": "不"})
    assert refused.errors == {"opinion": "请写明原因。"}
    office.inbox.wrong = {}
    assert (await office.hands.submit_view(ZHANG, view["id"], {"opinion": "人手不够 <3"})).ok
    [click] = office.inbox.clicks
    assert (click.form, click.person) == ({"opinion": "人手不够 <3"}, ZHANG)
    await office.channel.update_message(ref, Post(text="已驳回", card=Card("已驳回", footer="张三 · 10:42")))
    [message] = office.hands.list_messages(DM)
    assert "actions" not in [block["type"] for block in message["blocks"]]


async def test_a_press_without_a_dialog_and_a_private_answer(office: Office) -> None:
    place = Place(team="T0LOCAL", channel=GENERAL)
    ref = await office.channel.post_message(place, Post(text="x", card=Card("x", buttons=REJECT)), key="k")
    assert (await office.hands.click_button(ZHANG, GENERAL, ref.ts, "cs:approve")).ok
    [click] = office.inbox.clicks
    assert (click.place.channel, click.place.thread, click.place.direct) == (GENERAL, ref.ts, False)
    await office.channel.post_ephemeral(click.place, ZHANG, "只有李四可以审批。")
    assert [notice["text"] for notice in office.hands.list_ephemerals(ZHANG)] == ["只有李四可以审批。"]


async def test_a_long_answer_with_its_receipt_in_a_thread(office: Office) -> None:
    ts = await office.hands.mention_bot(ZHANG, GENERAL, "tell me everything")
    long = "\n\n".join(f"**{number}.** 很长的一段话，讲清楚每一件事。" * 5 for number in range(200))
    place = Place(team="T0LOCAL", channel=GENERAL, thread=ts)
    await office.channel.post_message(place, Post(text=long, receipt="什么都没有改变"), key="k")
    said = office.hands.list_thread_messages(GENERAL, ts)[1:]
    assert len(said) > 1
    assert said[-1]["blocks"][-1]["type"] == "context"


async def test_a_picture_in_a_thread(office: Office) -> None:
    ts = await office.hands.mention_bot(ZHANG, GENERAL, "show me")
    place = Place(team="T0LOCAL", channel=GENERAL, thread=ts)
    said = {"name": "process.png", "title": "请假", "alt": "李四 <审批中>"}
    for key, shown in (("k", 1), ("k", 1), ("other", 2)):
        await office.channel.upload_picture(place, b"\x89PNG\r\n\x1a\n...", **said, key=key, again=True)
        assert len(office.hands.list_thread_messages(GENERAL, ts)) == 1 + shown
    message = office.hands.list_thread_messages(GENERAL, ts)[1]
    [file] = message["files"]
    assert (message["text"], file["title"], file["mimetype"]) == ("李四 &lt;审批中&gt;", "请假", "image/png")


async def test_slash_command_and_home(office: Office) -> None:
    office.inbox.homes[ZHANG] = HomeView(
        "你好",
        (HomeSection("等你处理", (HomeEntry(Card("请假", buttons=REJECT)),)), HomeSection("我的申请", empty="没有")),
    )
    done = await office.hands.run_slash_command(ZHANG, GENERAL, "/countersign", "待办")
    assert "私信" in str(done.answer)
    assert office.inbox.messages[0][0].place == Place(team="T0LOCAL", channel=DM, direct=True)
    await office.hands.open_home(ZHANG)
    view = await office.hands.wait_until(lambda: office.hands.homes.get(ZHANG))
    assert (await office.hands.click_view_button(ZHANG, view["id"], "cs:approve")).ok
    assert office.inbox.clicks[0].place.channel == DM
