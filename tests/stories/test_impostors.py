"""A colleague poses as somebody else, and the model does whatever it is told. The right person is reached, or the bot
asks; and every card identifies people in a way that can be checked."""

import json

import pytest

from bot.agent.model import ModelReply
from bot.dev.workspace.world import WorkspaceMember
from tests.harness.office import LI, ZHANG, name_id, office, read_message_text
from tests.harness.scripted_model import ScriptedModel
from tests.stories.behind import facts_of, kept, people_of
from tests.stories.script import DONE, mail

MALLORY = name_id("U66MALLORY")
SHARED = "⚠ 另有人的名字相同或看起来一样，请核对邮箱"
MISLEADING = "⚠ 名字写得像邮箱或编号，或含有看不见的字符"
UNLISTED = "⚠ 不在公司通讯录里"


def poser(name: str, real_name: str = "") -> WorkspaceMember:
    about = (real_name or name, name, "CEO", "mallory@example.com", "zh-CN", "Asia/Shanghai")
    return WorkspaceMember(MALLORY, "mallory", *about)


@pytest.mark.parametrize(("name", "typed"), [("Wang", "Wang"), ("Lі Sі", "Li Si")], ids=["beginning", "cyrillic"])
async def test_who_may_be_mistaken_is_asked_about_with_what_nobody_chooses(valkey: str, name: str, typed: str) -> None:
    model = ScriptedModel([mail(to=typed), ModelReply(text="您指的是哪一位？")])
    async with office(valkey, more=[poser(name)]) as desk, desk.opened(model=model):
        answer = await desk.answer(ZHANG, "照办")
        assert not desk.cards(desk.dm(ZHANG)) and not desk.mails
        [told] = [json.loads(str(one["content"])) for one in model.requests[-1] if one["role"] == "tool"]
        assert (told["error"], told["ask_the_person"]) == ("ambiguous_person", True)
        assert f"(mallory@example.com, not in the company directory) = {MALLORY}" in told["message"]
        assert "CEO" not in told["message"], "what they say of themselves is no proof"
        assert f"<@{MALLORY}>\nmallory@example.com\n" in answer and UNLISTED in answer, "written by code, not the model"
        assert "CEO" not in answer


async def test_a_card_about_a_poser_says_so(valkey: str) -> None:
    model = ScriptedModel([mail(to=MALLORY), DONE, mail(to=LI, subject="真的"), DONE])
    async with office(valkey, more=[poser("李四", "lisi@example.com")]) as desk, desk.opened(model=model):
        await desk.says(ZHANG, "照办")
        card = kept(await desk.card(desk.dm(ZHANG)))
        assert people_of(card)["收件人"] == [(MALLORY, "\nmallory@example.com")]
        text = read_message_text(card)
        assert all(mark in text for mark in ("mallory@example.com", SHARED, MISLEADING, UNLISTED))
        assert facts_of(card)["收件人"] == "李四", "the control: by the name alone it would be believed"
        await desk.press(ZHANG, card, "cancel")
        await desk.says(ZHANG, "照办")
        real = read_message_text(await desk.card(desk.dm(ZHANG), "真的"))
        assert SHARED in real and UNLISTED not in real and MISLEADING not in real


async def test_where_nobody_poses_a_card_has_no_warning(valkey: str) -> None:
    async with office(valkey, more=[poser("Mallory")]) as desk, desk.opened(model=ScriptedModel([mail()])):
        await desk.says(ZHANG, "照办")
        assert "⚠" not in read_message_text(await desk.card(desk.dm(ZHANG)))
