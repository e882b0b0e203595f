"""A colleague poses as somebody else, and the model does whatever it is told. The right person is reached, or the bot
asks; and every card identifies people in a way that can be checked."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bot.dev.workspace.world import WorkspaceMember
from tests.harness.office import LI, ZHANG, Office, name_id, office, read_message_text
from tests.stories.behind import facts_of, kept, people_of
from tests.stories.endpoint import Endpoint, called, endpoint, said

MALLORY = name_id("U66MALLORY")


SHARED = "⚠ 另有人的名字相同或看起来一样，请核对邮箱"
MISLEADING = "⚠ 名字写得像邮箱或编号，或含有看不见的字符"
UNLISTED = "⚠ 不在公司名录里"


def poser(name: str, real_name: str = "") -> WorkspaceMember:
    return WorkspaceMember(
        MALLORY, "mallory", real_name or name, name, "CEO", "mallory@example.com", "zh-CN", "Asia/Shanghai"
    )


class Attacked:
    """An office with an impostor in it, and a model that a test plays."""

    def __init__(self, desk: Office, model: Endpoint) -> None:
        self.desk, self.model = desk, model

    async def propose(self, person: str, tool: str, having: str = "", /, **args: Any) -> dict[str, Any]:
        """Let the model call a tool for a person; return the resulting card."""
        self.model.then(called((tool, json.dumps({**args, "reason": "照做。"}, ensure_ascii=False))))
        await self.desk.says(person, "照办")
        return await self.desk.card(self.desk.dm(person), having)

    async def ask(self, person: str, tool: str, /, **args: Any) -> dict[str, Any]:
        """Let the model make a call that leads to no card; return the answer to the model."""
        self.model.then(
            called((tool, json.dumps({**args, "reason": "照做。"}, ensure_ascii=False))), said("您指的是哪一位？")
        )
        before = len(self.desk.finals(self.desk.dm(person)))
        await self.desk.says(person, "照办")
        await self.desk.until(lambda: self.desk.finals(self.desk.dm(person))[before:])
        assert not self.desk.cards(self.desk.dm(person))
        told: dict[str, Any] = json.loads(self.model.observed()[-1])
        return told


@asynccontextmanager
async def playing(valkey: str, person: WorkspaceMember, **changes: Any) -> AsyncIterator[Attacked]:
    async with office(valkey, more=[person]) as desk, endpoint() as model:
        desk.model_url, model.past_end = model.url, said("好的。")
        async with desk.opened(**changes):
            yield Attacked(desk, model)


@pytest.mark.parametrize(
    ("name", "typed"),
    [("Wang", "Wang"), ("Lі Sі", "Li Si")],
    ids=["beginning", "cyrillic"],
)
async def test_who_may_be_mistaken_is_asked_about_with_what_nobody_chooses(valkey: str, name: str, typed: str) -> None:
    async with playing(valkey, poser(name)) as there:
        told = await there.ask(ZHANG, "send_email", to=typed, subject="工资", body="请看一下。")
        assert (told["error"], told["ask_the_person"]) == ("ambiguous_person", True)
        assert f"(mallory@example.com, not in the company directory) = {MALLORY}" in told["message"]
        assert "CEO" not in told["message"], "what they say of themselves is no proof"
        answer = there.desk.finals(there.desk.dm(ZHANG))[-1]
        assert f"<@{MALLORY}>\nmallory@example.com\n" in answer and UNLISTED in answer, "written by code, not the model"
        assert "CEO" not in answer
        assert not there.desk.mails


async def test_a_card_about_a_poser_says_so(valkey: str) -> None:
    async with playing(valkey, poser("李四", "lisi@example.com")) as there:
        card = await there.propose(ZHANG, "send_email", to=MALLORY, subject="工资", body="请看一下。")
        [(id, checked)] = people_of(card)["收件人"]
        assert (id, checked) == (MALLORY, "\nmallory@example.com")
        text = read_message_text(kept(card))
        assert all(mark in text for mark in ("mallory@example.com", SHARED, MISLEADING, UNLISTED))
        assert facts_of(card)["收件人"] == "李四", "the control: by the name alone it would be believed"
        real = await there.propose(ZHANG, "send_email", "真的", to=LI, subject="工资", body="真的请看。")
        assert (
            SHARED in read_message_text(real)
            and UNLISTED not in read_message_text(real)
            and MISLEADING not in read_message_text(real)
        )


async def test_where_nobody_poses_a_card_has_no_warning(valkey: str) -> None:
    async with playing(valkey, poser("Mallory")) as there:
        card = await there.propose(ZHANG, "send_email", to="李四", subject="工资", body="请看一下。")
        assert "⚠" not in read_message_text(card)
