"""Requests that a model starts by the tool of their process: cards, presses and records are as of `start_process`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from bot.agent.model import ModelReply
from tests.harness.office import ZHANG, Office
from tests.harness.scripted_model import Scripted, ScriptedModel
from tests.stories.behind import facts_of, final, kept, record_of, request_of, requests_of
from tests.stories.script import DONE, calls
from tools.requests import start_tools
from tools.workflow.engine.redis_store import RedisStore
from tools.workflow.process.definition import compile_process, load_shipped_processes

SICK = {"leave_type": "sick", "start_date": "2026-11-23", "days": 10, "reason": "胃疼"}


def leave(**changes: Any) -> ModelReply:
    return calls(("start_leave", {"note": "照您说的做", **SICK, **changes}))


class Told(ScriptedModel):
    """Keeps the names of the tools that it is given."""

    def __init__(self, script: Sequence[Scripted]) -> None:
        super().__init__(list(script))
        self.given: list[list[str]] = []
        self.sent: list[str] = []
        """Whole requests, as far as they are words for the model."""

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        tools = json.loads(f"{{{extra}}}").get("tools", [])
        self.given.append([one["function"]["name"] for one in tools])
        self.sent.append(",".join(messages) + extra)
        return await super().request_reply(messages, extra, timeout_s=timeout_s)


def echoed(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    return [call["function"]["name"] for one in messages for call in one.get("tool_calls", ())]


async def test_ten_days_are_one_call_one_card_and_one_press(empty: Office) -> None:
    """Ten working days, and nobody was asked who approves: the card shows both."""
    model = Told([leave(), DONE])
    async with empty.opened(model=model):
        here = empty.dm(ZHANG)
        await empty.says(ZHANG, "从 11 月 23 日起请 10 天病假，胃疼")
        card = kept(await empty.card(here))
        facts = facts_of(card)
        assert facts["时长"] == "10 个工作日" and "2026年12月4日" in facts["结束日期"] and "李四" in facts["审批人"]
        [approval] = await empty.approvals.list_open_approvals()
        assert approval.tool == "start_process" and approval.proposal.args["process"] == "leave"
        assert approval.proposal.args["form"]["end_date"] == "2026-12-04"
        await empty.press(ZHANG, card, "confirm")
        await final(empty)
        assert await requests_of(empty, ZHANG) == ("L-0001",)
        request = await request_of(empty, "L-0001")
        assert request.filled.days == "10" and await record_of(empty, "L-0001")
    assert echoed(model.requests[1]) == ["start_leave"], "the model reads its call as it made it"
    assert {"start_leave", "start_expense"} <= set(model.given[0]) and "start_process" not in model.given[0]
    assert model.given[0] == model.given[1]


async def test_the_same_once_more_in_other_words_makes_no_second_card(empty: Office) -> None:
    """By its own tool, by the general one, with days or with the day that they lead to: it is the same call."""
    form = {**{name: one for name, one in SICK.items() if name != "days"}, "end_date": "2026-12-04", "approver": "李四"}
    again = calls(("start_process", {"process": "leave", "form": form}))
    async with empty.opened(model=ScriptedModel([leave(), again, DONE, DONE])):
        here = empty.dm(ZHANG)
        await empty.says(ZHANG, "请假")
        await empty.card(here)
        await empty.answer(ZHANG, "确认")
        await empty.quiet()
        assert len(empty.cards(here)) == 1 and "已经在等您按按钮" in empty.steps(here)[-1]


async def test_what_is_wrong_is_mended_in_one_more_call_and_people_read_nothing_of_it(empty: Office) -> None:
    guess = calls(("start_expense", {"note": "报销", "money": 300, "type": "客户餐费", "approver": "王五五"}))
    mended = calls(("start_expense", {"note": "报销", "amount": 300, "category": "meals", "reason": "客户餐费"}))
    model = ScriptedModel([guess, mended, DONE])
    async with empty.opened(model=model):
        here = empty.dm(ZHANG)
        await empty.says(ZHANG, "报销 300 元客户餐费")
        card = kept(await empty.card(here))
        assert "300.00 CNY" in facts_of(card)["金额"]
        assert not any("money" in step for step in empty.steps(here))
        records = [one for one in await empty.journal() if one.kind == "step"]
        assert [one.more.get("error") for one in records] == ["unknown_field", None]
        assert [one.more["tool"] for one in records] == ["start_process", "start_process"]
    told = [str(one["content"]) for one in model.requests[1] if one["role"] == "tool"][-1]
    assert all(said in told for said in ("'money'", "'type'", "amount", "category", "reason", "王五五", "expense{"))


async def test_a_process_that_is_deployed_meanwhile_has_a_tool(empty: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Told([DONE, DONE])
    monkeypatch.setattr(start_tools, "FRESH_S", 0.0)
    async with empty.opened(model=model):
        await empty.answer(ZHANG, "你好")
        expense = load_shipped_processes()[1]
        rent = compile_process(expense.bpmn, expense.toml.replace(b'key = "expense"', b'key = "rent"', 1))
        assert empty.bot is not None
        store = RedisStore(empty.bot.redis)
        for version, content in zip(rent.version, (rent.bpmn, rent.toml), strict=True):
            await store.save_file(version, content)
        await store.save_deployment(rent.key, *rent.version)
        await empty.answer(ZHANG, "我要报销房租")
    assert "start_rent" not in model.given[0] and "start_rent" in model.given[1]


@pytest.mark.parametrize("style", ["native", "text"])
async def test_the_first_request_is_short(empty: Office, style: str) -> None:
    """Rules, tools, the company's table, who speaks, and what they said: in the tokens of OpenAI's models."""
    encoding = pytest.importorskip("bpe_openai").get_encoding("o200k_base")
    model = Told([DONE if style == "native" else ModelReply(text="Thought: 好\nFinal Answer: 好的。")])
    async with empty.opened(model=model, react_style=style):
        await empty.answer(ZHANG, "我肚子疼，从明天起请 10 天假")
    found = len(encoding.encode(model.sent[0]))
    print(f"{style}: {found} tokens in the first request")
    assert "肚子疼" in model.sent[0] and "start_leave" in model.sent[0] and found <= 5_000
