"""A colleague poses as somebody else, and the model does whatever it is told: the right person is reached, or the bot
asks; and every card says who is meant in a way that can be checked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bot.local.workspace.world import WorkspaceMember
from tests.harness.office import LI, WANG, ZHANG, Office, office, read_message_text
from tests.stories.behind import facts_of, kept, people_of, request_of
from tests.stories.endpoint import Endpoint, called, endpoint, said

MALLORY = "U66MALLORY"
LEAVE = {"leave_type": "sick", "start_date": "2026-11-24", "end_date": "2026-11-25", "reason": "胃疼"}
ADDRESS = "lisi@example.com"
SHARED = "⚠ 另有人的名字相同或看起来一样，请核对邮箱"
MISLEADING = "⚠ 名字写得像邮箱或编号，或含有看不见的字符"
UNLISTED = "⚠ 不在公司名录里"


def poser(name: str, real_name: str = "") -> WorkspaceMember:
    return WorkspaceMember(
        MALLORY, "mallory", real_name or name, name, "CEO", "mallory@example.com", "zh-CN", "Asia/Shanghai"
    )


class Attacked:
    """An office with a poser in it, and a model that a test plays."""

    def __init__(self, desk: Office, model: Endpoint) -> None:
        self.desk, self.model = desk, model

    async def propose(self, person: str, tool: str, having: str = "", /, **args: Any) -> dict[str, Any]:
        """The model calls a tool for somebody; the card that comes of it."""
        self.model.then(called((tool, json.dumps({**args, "reason": "照做。"}, ensure_ascii=False))))
        await self.desk.says(person, "照办")
        return await self.desk.card(self.desk.dm(person), having)

    async def ask(self, person: str, tool: str, /, **args: Any) -> dict[str, Any]:
        """The same where no card comes; what the model was told instead."""
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


@pytest.fixture(params=[ADDRESS, "lisi＠example.com"], ids=["address", "full width"])
async def posed(request: Any, valkey: str, tmp_path: Path) -> AsyncIterator[Attacked]:
    """A company in which people may choose who approves."""
    rows = tmp_path / "policy.toml"
    rows.write_text('[[policy]]\nprocess = "leave"\nlevel = "approver"\nwho = ["manager"]\nothers = "flagged"\n')
    async with playing(valkey, poser(request.param), policy_file=rows) as there:
        yield there


async def test_a_mail_to_an_address_reaches_its_owner(posed: Attacked) -> None:
    card = await posed.propose(ZHANG, "send_email", to=ADDRESS, subject="工资", body="请看一下。")
    assert people_of(card)["收件人"] == [(LI, f"\n{ADDRESS}")]
    await posed.desk.press(ZHANG, card, "send")
    await posed.desk.until(lambda: posed.desk.mails)
    assert [mail["to"] for mail in posed.desk.mails] == [[ADDRESS]]


async def test_a_leave_is_approved_and_a_task_transferred_by_nobody_else(posed: Attacked) -> None:
    desk = posed.desk
    card = await posed.propose(ZHANG, "start_process", process="leave", form={**LEAVE, "approver": ADDRESS})
    assert people_of(card)["审批人"] == [(LI, f"\n{ADDRESS}")]
    await desk.press(ZHANG, card, "confirm")
    await desk.card(desk.dm(LI), "L-0001")
    assert (await request_of(desk, "L-0001")).waits_for == (LI,)
    card = await posed.propose(LI, "transfer_task", "转交给", task_id="L-0001-1", person="wangwu@example.com")
    assert people_of(card)["转交给"] == [(WANG, "\nwangwu@example.com")]
    await desk.press(LI, card, "confirm")
    await desk.card(desk.dm(WANG), "L-0001")
    assert not desk.cards(desk.dm(MALLORY))


async def test_a_deputy_who_signs_and_who_is_told(posed: Attacked) -> None:
    desk = posed.desk
    days = {"first_day": "2026-11-24", "last_day": "2026-12-23"}
    card = await posed.propose(ZHANG, "set_absence", deputy=ADDRESS, **days)
    assert people_of(card)["代理人"] == [(LI, f"\n{ADDRESS}")]
    await desk.press(ZHANG, card, "cancel")
    card = await posed.propose(ZHANG, "start_process", "审批人", process="leave", form={**LEAVE, "approver": WANG})
    await desk.press(ZHANG, card, "confirm")
    await desk.card(desk.dm(WANG), "L-0001")
    card = await posed.propose(ZHANG, "cc_request", "抄送给", request_id="L-0001", people=[ADDRESS])
    assert people_of(card)["抄送"] == [(LI, f"\n{ADDRESS}")]
    more = {"task_id": "L-0001-1", "where": "before", "mode": "all"}
    card = await posed.propose(WANG, "add_sign", "have", people=[ADDRESS], **more)
    assert people_of(card)["Who decides as well"] == [(LI, f"\n{ADDRESS}")]
    assert people_of(card)["Requested by"] == [(ZHANG, "\nzhangsan@example.com")]


@pytest.mark.parametrize(
    ("name", "typed"),
    [("Wang", "Wang"), ("Lі Sі", "Li Si"), ("Li\u200b Si", "Li Si"), ("李四", "李四"), ("五", "五")],
    ids=["beginning", "cyrillic", "zero width", "namesake", "part"],
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
