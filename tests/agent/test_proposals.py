"""What nobody sees is in no value that is stored and executed, and the card says that it was taken away."""

from typing import Any

import pytest

from bot.agent import tool_executor
from bot.agent.tool_executor import propose_call
from tests.tools.office import LI, SICK, ZHANG, Office, known, office
from tools.characters import has_invisible
from tools.spec import Proposal, TextRef, ToolError

HIDDEN = "\u200b\u202e\u2028\u061c\x85\U000e0041"
MAIL = {"to": "李四", "subject": "请假", "body": "李四你好，\n请看一下。"}
CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("send_email", {**MAIL, "body": f"李四{HIDDEN}你好，\n请看一下。"}, "正文"),
    ("send_email", {**MAIL, "subject": "请\u200b假"}, "主题"),
    ("start_process", {"process": "leave", "form": {**SICK, "reason": f"胃{HIDDEN}疼"}}, "请假事由"),
    ("withdraw_request", {"request_id": "L-0001", "because": f"计划{HIDDEN}变了"}, "撤回原因"),
    ("comment_request", {"request_id": "L-0001", "text": f"发票{HIDDEN}已补"}, "内容"),
    ("transfer_task", {"task_id": "L-0001-1", "person": "王五", "opinion": f"请{HIDDEN}看"}, "审批意见"),
    ("decide_task", {"task_id": "L-0001-1", "opinion": f"注意{HIDDEN}休息"}, "审批意见"),
]


async def plan(there: Office, tool: str, args: dict[str, Any]) -> Proposal:
    person = LI if "task_id" in args else ZHANG
    return await propose_call(known(tool), there.use(person), args)


def noted(plan: Proposal) -> dict[str, Any]:
    [fact] = [one for one in plan.fields if one.label == "invisible"]
    assert isinstance(fact.value, TextRef)
    return fact.value.params


async def test_a_value_has_none_and_the_card_says_from_what_they_were_removed(subtests: pytest.Subtests) -> None:
    for tool, args, name in CALLS:
        with subtests.test(tool=tool):
            there = office()
            if tool != "start_process":
                await there.start(SICK)
            shown = await plan(there, tool, args)
            assert not has_invisible(str(shown.args).replace("\\n", "")) and not has_invisible(shown.body)
            told = noted(shown)
            assert told["n"] in (1, len(HIDDEN)) and name in str(told["from"])


async def test_what_a_model_copies_from_what_it_was_shown_is_removed_too_and_nothing_else() -> None:
    """It reads `⟨U+200B⟩` in people's messages, and writes it into the arguments."""
    shown = await plan(office(), "send_email", {**MAIL, "body": "李⟨U+200B⟩四，می⟨U+200C⟩خواهم ⟨U+0041⟩"})
    assert shown.args["body"] == "李四，می\u200cخواهم ⟨U+0041⟩"
    assert noted(shown)["n"] == 1
    shown = await plan(office(), "send_email", {**MAIL, "body": "👩‍💻 你好\r\nمی\u200cخواهم"})
    assert not [one for one in shown.fields if one.label == "invisible"]
    assert shown.args["body"] == "👩‍💻 你好\nمی\u200cخواهم"


async def test_a_tool_that_keeps_them_brings_no_card_and_unchecked_they_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.mail.completeness.clean_value", lambda text: text)
    with pytest.raises(ToolError, match="nobody can see"):
        await plan(office(), "send_email", {**MAIL, "body": f"李四{HIDDEN}你好"})
    monkeypatch.setattr(tool_executor, "count_cleaned", lambda text: 0)
    assert has_invisible((await plan(office(), "send_email", {**MAIL, "body": f"李{HIDDEN}四"})).args["body"])
