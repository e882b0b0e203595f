"""What people only ask: the handbook, a sum, a month's working days; answered from tools, and nothing is changed."""

from __future__ import annotations

import pytest

from tests.harness.office import ZHANG, ZHAO, Office
from tests.stories.behind import requests_of

UNCHANGED = {ZHANG: "没有做任何改动", ZHAO: "nothing was changed"}


@pytest.mark.parametrize(
    ("person", "words", "told", "source"),
    [
        (ZHANG, "年假可以结转吗？", "不能结转", "出处：leave.zh.md，请假制度 › 年假结转"),
        (ZHANG, "住宿标准", "600 元", "出处：expense.zh.md，报销制度 › 住宿标准"),
        (ZHAO, "how many days notice do I have to give?", "10 working days before", "Source: leave.en.md"),
        (ZHAO, "what is the hotel limit in Shanghai?", "600 CNY", "Source: expense.en.md, Expense rules › Hotel"),
        (ZHANG, "750*12+0.5*8*12*7 是多少？", "750×12+0.5×8×12×7 = 9336", ""),
        (ZHANG, "十月有几个工作日？", "18 个工作日", ""),
    ],
)
async def test_a_question_is_answered_with_its_source(
    desk: Office, person: str, words: str, told: str, source: str
) -> None:
    answer = await desk.answer(person, words)
    assert told in answer and source in answer and UNCHANGED[person] in answer
    assert desk.steps(desk.dm(person)), "it was looked up, not remembered"
    assert not any(raw in desk.said(desk.dm(person)) for raw in ("search_handbook", "read_handbook", "working_days"))
    assert await requests_of(desk, person) == ()
