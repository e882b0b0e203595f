"""Whole stories, and all that the bot says and keeps while they are told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.agent.model import Messages, ModelReply
from bot.storage.homes import build_marks_key
from tests.golden.pinned import compare_json, unfold
from tests.golden.recording import Recorder, log_nothing, record
from tests.harness.office import ADMIN, ANN, GENERAL, LI, WANG, ZHANG, ZHAO, Office
from tests.harness.scripted_model import ScriptedModel
from tests.stories.behind import hours_pass, kept
from tests.stories.endpoint import Raw, called, endpoint, message, said
from tests.stories.script import DONE, calls, expense
from tests.tools.mcp.running import World

pytestmark = pytest.mark.crowd

TWO_DAYS = "明天起请2天年假，去看父母，审批人李四"
IN_ENGLISH = "I need 2 days off from tomorrow, visiting my parents, approver Li Si"
LARGE = "报销 1500 元差旅费，去上海开会，审批人李四"

Opening = Callable[..., AbstractAsyncContextManager[tuple[Office, Recorder]]]


@pytest.fixture
def recorded(valkey: str, monkeypatch: pytest.MonkeyPatch) -> Opening:
    """Opens an office under the name of its golden files."""

    def open_office(name: str, **opened: Any) -> AbstractAsyncContextManager[tuple[Office, Recorder]]:
        return record(name, valkey, monkeypatch, **opened)

    return open_office


async def start(desk: Office, person: str, words: str, approver: str = LI) -> dict[str, Any]:
    """A confirmed request; its approver's card."""
    request = await desk.request_leave(person, words)
    await desk.until(lambda: desk.finals(desk.dm(person)))
    await desk.quiet()
    return await desk.card(desk.dm(approver), request)


async def confirm(desk: Office, person: str, words: str, shown: str, choice: str = "confirm") -> None:
    """Asked for in chat, shown on a card with these words, confirmed there."""
    await desk.says(person, words)
    card = await desk.card(desk.dm(person), shown)
    await desk.quiet()
    await desk.press(person, card, choice)
    await desk.quiet()


async def ask(desk: Office, person: str, words: str) -> None:
    await desk.answer(person, words)
    await desk.quiet()


async def test_a_leave_from_the_message_to_the_answer(recorded: Opening) -> None:
    async with recorded("leave") as (desk, recorder):
        here, there = desk.dm(ZHANG), desk.dm(LI)
        await desk.says(ZHANG, TWO_DAYS)
        card = await desk.card(here)
        await desk.quiet()
        await recorder.compare_redis("1_proposed", whole=True)
        await desk.press(ZHANG, card, "confirm")
        card = await desk.card(there, "L-0001")
        await desk.until(lambda: desk.finals(here))
        await desk.quiet()
        await recorder.compare_redis("2_confirmed", whole=True)
        await desk.press(LI, card, "approve")
        await desk.until(lambda: "您的请假申请 L-0001 已通过" in desk.said(here))
        await desk.quiet()
        await recorder.compare_redis("3_approved", whole=True)
        await recorder.compare_digests()
        recorder.compare_slack(desk)
        recorder.compare_writes()
        recorder.compare_model()


async def test_a_leave_in_english_edited_rejected_revised_and_approved_with_a_remark(recorded: Opening) -> None:
    async with recorded("leave_revised_en") as (desk, recorder):
        here, there = desk.dm(ANN.id), desk.dm(LI)
        await desk.says(ANN.id, IN_ENGLISH)
        await desk.press(ANN.id, await desk.card(here), "edit")
        await desk.fill(ANN.id, field_reason="visiting my parents in Suzhou")
        await desk.press(ANN.id, await desk.card(here, "Suzhou"), "confirm")
        card = await desk.card(there, "L-0001")
        await desk.until(lambda: desk.finals(here))
        await desk.quiet()
        await desk.press(LI, card, "reject")
        await desk.fill(LI, opinion=" ")
        await desk.fill(LI, opinion="month end")
        card = await desk.card(here, "was rejected")
        await desk.quiet()
        await desk.press(ANN.id, card, "resubmit")
        await desk.fill(ANN.id, field_reason="my mother’s birthday")
        card = await desk.card(there, "birthday")
        await desk.quiet()
        await desk.press(LI, card, "approve_with")
        await desk.fill(LI, opinion="enjoy")
        await desk.until(lambda: "Your leave request L-0001 is approved" in desk.said(here))
        await desk.quiet()
        recorder.compare_slack(desk)
        recorder.compare_writes()
        recorder.compare_model()


async def test_cards_that_are_cancelled_taken_back_pass_by_rule_or_end_elsewhere(recorded: Opening) -> None:
    async with recorded("leave_ends") as (desk, recorder):
        here = desk.dm(ZHANG)
        await confirm(desk, ZHANG, TWO_DAYS, "去看父母", "cancel")
        await confirm(desk, ANN.id, IN_ENGLISH, "visiting", "cancel")
        await desk.says(ZHANG, "明天起请3天年假，去看父母，审批人李四")
        await desk.card(here)
        await desk.quiet()
        await ask(desk, ZHANG, "算了")
        await confirm(desk, ZHANG, "明天上午请半天假，去银行", "银行")
        await confirm(desk, ANN.id, "half a day off tomorrow morning, dentist", "dentist")
        await recorder.restart_bot()
        await desk.says(ZHANG, "下周一起请2天年假，去旅游，审批人李四")
        card = await desk.card(here, "去旅游")
        await desk.quiet()
        await desk.press(ZHANG, card, "confirm")
        await desk.card(desk.dm(LI), "L-0003")
        await desk.quiet()
        await confirm(desk, ZHANG, "撤回 L-0003", "撤回请假申请 L-0003")
        recorder.compare_slack(desk)
        recorder.compare_writes()
        await recorder.compare_redis("at_the_end")


async def test_nobody_decides_in_time(recorded: Opening) -> None:
    async with recorded("expired") as (desk, recorder):
        await start(desk, ZHANG, TWO_DAYS)
        await start(desk, ANN.id, IN_ENGLISH)
        await desk.says(WANG, "mail Li Si: please look at E-0001")
        await desk.card(desk.dm(WANG))
        await desk.quiet()
        await hours_pass(desk, 37)
        await desk.quiet()
        await hours_pass(desk, 37)
        await desk.quiet()
        card = await desk.card(desk.dm(ZHANG), "到期前没有人处理")
        await desk.press(ZHANG, card, "again")
        await desk.card(desk.dm(LI), "L-0001")
        await desk.quiet()
        recorder.compare_slack(desk)
        recorder.compare_writes()


async def test_an_expense_for_finance_and_a_veto(recorded: Opening) -> None:
    async with recorded("expense") as (desk, recorder):
        await desk.press(LI, await start(desk, ZHANG, LARGE), "approve")
        card = await desk.card(desk.dm(ZHAO), "E-0001")
        await desk.card(desk.dm(ADMIN), "E-0001")
        await desk.quiet()
        await desk.press(ZHAO, card, "reject")
        await desk.fill(ZHAO, opinion="the invoice says 1300")
        card = await desk.card(desk.dm(ZHANG), "被驳回")
        await desk.quiet()
        await desk.press(ZHANG, card, "resubmit")
        await desk.fill(ZHANG, field_amount="12.345")
        await desk.fill(ZHANG, field_amount="900")
        card = await desk.card(desk.dm(LI), "900.00 CNY")
        await desk.quiet()
        await desk.press(LI, card, "approve")
        await desk.until(lambda: "您的报销申请 E-0001 已通过" in desk.said(desk.dm(ZHANG)))
        await desk.quiet()
        await recorder.restart_bot()
        await confirm(desk, ANN.id, "expense 80 USD for travel, taxi to the airport, approver Li Si", "80.00 USD")
        recorder.compare_slack(desk)
        recorder.compare_writes()
        await recorder.compare_redis("at_the_end")


async def test_what_is_done_to_a_request_beside_deciding_it(recorded: Opening) -> None:
    async with recorded("operations") as (desk, recorder):
        card = await start(desk, ZHANG, TWO_DAYS)
        await confirm(desk, ZHANG, "催一下 L-0001", "L-0001")
        await ask(desk, ZHANG, "催一下 L-0001")
        await confirm(desk, ZHANG, "评论 L-0001：材料已经补齐", "材料已经补齐")
        await confirm(desk, ZHANG, "把 L-0001 抄送给赵六", "赵六")
        await ask(desk, ZHANG, "L-0001 到哪了")
        await desk.press(LI, card, "show")
        await desk.until(lambda: [m for m in desk.posts(desk.dm(LI)) if m.get("files")])
        await desk.quiet()
        await recorder.restart_bot()
        await confirm(desk, LI, "L-0001 加签王五，在我之前", "王五")
        card = await desk.card(desk.dm(WANG), "L-0001")
        await desk.quiet()
        await desk.press(WANG, card, "approve")
        await desk.quiet()
        await recorder.restart_bot()
        await confirm(desk, LI, "把 L-0001 转交给赵六，备注：他更了解", "转交给赵六")
        card = await desk.card(desk.dm(ZHAO), "L-0001")
        await desk.quiet()
        await desk.press(ZHAO, card, "return")
        await desk.fill(ZHAO, opinion="is the handover arranged?")
        card = await desk.card(desk.dm(ZHANG), "被退回")
        await desk.quiet()
        await recorder.restart_bot()
        await desk.press(ZHANG, card, "withdraw")
        await desk.quiet()
        recorder.compare_slack(desk)
        recorder.compare_writes()
        await recorder.compare_redis("at_the_end")


async def test_dialogs_of_operations_in_english(recorded: Opening) -> None:
    async with recorded("operations_en") as (desk, recorder):
        card = await start(desk, ZHAO, "I need 2 days off from tomorrow, visiting my parents, approver Wang Wu", WANG)
        await desk.press(WANG, card, "add_sign")
        await desk.fill(WANG, people=[LI], where="before", mode="all")
        card = await desk.card(desk.dm(LI), "L-0001")
        await desk.quiet()
        await desk.press(LI, card, "approve")
        card = await desk.card(desk.dm(WANG), "L-0001")
        await desk.quiet()
        await desk.press(WANG, card, "transfer")
        await desk.fill(WANG, person=ZHAO)
        await desk.fill(WANG, person=ADMIN)
        card = await desk.card(desk.dm(ADMIN), "L-0001")
        await desk.quiet()
        await desk.press(ADMIN, card, "approve")
        await desk.until(lambda: "Your leave request L-0001 is approved" in desk.said(desk.dm(ZHAO)))
        await desk.quiet()
        await recorder.restart_bot()
        await confirm(desk, ZHAO, "withdraw L-0001", "ithdraw")
        recorder.compare_slack(desk)
        recorder.compare_writes()


async def test_somebody_stands_in_and_says_what_they_think(recorded: Opening) -> None:
    async with recorded("standing_in") as (desk, recorder):
        await confirm(desk, LI, "今天到下周三我不在，由王五代我审批", "王五")
        card = await start(desk, ANN.id, IN_ENGLISH)
        await desk.press(WANG, await desk.card(desk.dm(WANG), "L-0001"), "approve")
        await desk.quiet()
        await confirm(desk, LI, "我回来了", "王五")
        await recorder.restart_bot()
        await start(desk, ZHANG, TWO_DAYS)
        await desk.says(LI, "同意 L-0002，注意休息")
        card = await desk.card(desk.dm(LI), "注意休息")
        await desk.quiet()
        await recorder.restart_bot()
        old = kept(card)
        await desk.says(LI, "驳回 L-0002，理由：缺发票")
        card = await desk.card(desk.dm(LI), "缺发票")
        await desk.quiet()
        await desk.press(LI, old, "approve", force=True)
        await desk.quiet()
        await recorder.compare_redis("drafted")
        await desk.press(LI, card, "reject")
        await desk.fill(LI, opinion="缺发票")
        await desk.quiet()
        recorder.compare_slack(desk)
        recorder.compare_writes()


async def test_mails_that_go_out_fail_and_may_have_gone_out(recorded: Opening) -> None:
    async with recorded("mail") as (desk, recorder):
        here = desk.dm(ZHANG)
        await confirm(desk, ZHANG, "给李四发邮件，主题：项目进度，内容：请看一下 L-0001，谢谢", "项目进度", "send")
        desk.mailbox.fail_next_mail("refuse_data")
        await confirm(desk, ZHANG, "给李四发邮件，主题 请假，内容 谢谢批准。", "谢谢批准", "send")
        await desk.press(ZHANG, await desk.card(here, "没有成功"), "retry")
        await desk.quiet()
        await recorder.restart_bot()
        desk.mailbox.fail_next_mail("drop_after_data")
        await confirm(desk, ZHAO, "mail Li Si: please look at E-0001", "E-0001", "send")
        await desk.press(ZHAO, await desk.card(desk.dm(ZHAO)), "happened")
        await desk.quiet()
        desk.mailbox.fail_next_mail("drop_before_data")
        await confirm(desk, ZHANG, "给王五发邮件，主题：周会，内容：明天见", "明天见", "send")
        await desk.press(ZHANG, await desk.card(here, "不知道有没有完成"), "redo")
        await desk.quiet()
        await recorder.restart_bot()
        await confirm(desk, ZHANG, "给李四和王五发邮件，主题：聚餐，内容：周五聚餐", "周五聚餐", "send")
        recorder.compare_slack(desk)
        recorder.compare_writes()


async def test_in_a_channel(recorded: Opening) -> None:
    async with recorded("channel") as (desk, recorder):
        await desk.driver.mention_bot(ANN.id, GENERAL, IN_ENGLISH)
        card = await desk.card(desk.dm(ANN.id))
        await desk.quiet()
        await desk.press(ANN.id, card, "confirm")
        await desk.quiet()
        await desk.driver.mention_bot(ZHANG, GENERAL, "年假可以结转吗？")
        await desk.until(lambda: "不能结转" in desk.said(GENERAL))
        await desk.quiet()
        await desk.driver.mention_bot(LI, GENERAL, "我的待办")
        await desk.until(lambda: "L-0001" in desk.finals(desk.dm(LI))[-1] if desk.finals(desk.dm(LI)) else False)
        await desk.quiet()
        recorder.compare_slack(desk)
        recorder.compare_writes()


async def wait_until_marks_are_taken(desk: Office) -> None:
    """What has changed until now renews no page that is opened from here on."""
    assert desk.bot is not None
    redis, keys = desk.bot.redis, desk.bot.ingress.lanes.keys
    while any([await redis.zcard(build_marks_key(keys, n)) for n in range(keys.partitions)]):
        await asyncio.sleep(0.03)


async def test_questions_commands_and_the_home_page(recorded: Opening) -> None:
    async with recorded("questions") as (desk, recorder):
        for person, words in (
            (ZHANG, "你好"), (ZHAO, "hello"), (ZHANG, "帮助"), (ZHAO, "help"),
            (ZHANG, "住宿标准"), (ZHAO, "how many days notice do I have to give?"),
            (ZHANG, "750*12+0.5*8*12*7 是多少？"), (ZHANG, "十月有几个工作日？"), (ZHANG, "给李四发邮件"),
            (ZHANG, "待办"), (ZHAO, "tasks"), (ZHANG, "申请"), (ZHAO, "requests"), (ADMIN, "设置"), (ZHAO, "settings"),
            (ZHANG, "历史"), (ZHAO, "history"), (ZHANG, "清除"), (ZHAO, "clear"), (ZHANG, "停"), (ZHAO, "stop"),
        ):  # fmt: skip
            await ask(desk, person, words)
        await start(desk, ZHANG, TWO_DAYS)
        await desk.quiet()
        await wait_until_marks_are_taken(desk)
        for person in (ZHANG, ZHAO, LI):
            await desk.driver.open_home(person)
            await desk.until(lambda person=person: person in desk.driver.homes)
        for person, words in ((LI, "待办"), (ZHANG, "申请"), (ZHANG, "历史")):
            await ask(desk, person, words)
        recorder.compare_slack(desk)
        recorder.compare_writes()


async def test_requests_by_a_form(recorded: Opening) -> None:
    """Zhang Wei asks for leave by a form, in Chinese; Zhao Liu claims an expense by another, in English."""
    async with recorded("by_form") as (desk, recorder):
        hands = desk.driver

        async def put(person: str, **values: str) -> None:
            for name, value in values.items():
                view = await desk.until(lambda: hands.find_top_view(person))
                before = len(hands.list_call_arguments("views.update"))
                block = next(one for one in view["blocks"] if one["block_id"] == name)
                await hands.change_input(person, view["id"], name, value)
                if block.get("dispatch_action"):
                    await desk.until(lambda before=before: len(hands.list_call_arguments("views.update")) > before)

        await hands.run_slash_command(ZHANG, desk.dm(ZHANG), "/leave", "去看父母")
        await put(ZHANG, leave_type="annual", start_date="2026-12-07", end_date="2026-12-07", reason="去看父母")
        await put(ZHANG, end_date="2026-12-16")
        view = await desk.until(lambda: hands.find_top_view(ZHANG))
        await hands.click_view_button(ZHANG, view["id"], "cs:form:more")
        await desk.until(lambda: len(hands.list_open_views(ZHANG)) == 2)
        await put(ZHANG, start_half="pm")
        second = await desk.until(lambda: hands.find_top_view(ZHANG))
        await hands.submit_view(ZHANG, second["id"], {})
        await desk.press(ZHANG, await desk.card(desk.dm(ZHANG)), "confirm")
        await desk.card(desk.dm(LI), "L-0001")
        await desk.quiet()
        await hands.use_shortcut(ZHAO, "cs:request")
        view = await desk.until(lambda: hands.find_top_view(ZHAO))
        await hands.click_view_button(ZHAO, view["id"], "cs:form:process", value="expense")
        await desk.until(lambda: "amount" in str(hands.find_top_view(ZHAO)))
        wrong = {"amount": "0.001", "category": "transport", "reason": "taxi", "approver": ZHAO}
        assert (await hands.submit_view(ZHAO, view["id"], wrong)).errors
        await hands.submit_view(ZHAO, view["id"], {**wrong, "amount": "84.50", "approver": None})
        await desk.press(ZHAO, await desk.card(desk.dm(ZHAO)), "confirm")
        await desk.quiet()
        recorder.compare_slack(desk)
        recorder.compare_writes()


async def test_several_at_once(recorded: Opening) -> None:
    """One task in a set: of several cards nobody could say which is decided first."""
    async with recorded("set") as (desk, recorder):
        there = desk.dm(LI)
        await desk.request_leave(ZHANG, TWO_DAYS)
        await desk.card(there, "L-0001")
        await desk.quiet()
        await ask(desk, LI, "都批了")
        card = await desk.card(there, "1 项申请等您决定")
        await desk.press(LI, card, "set_reject")
        view = await desk.until(lambda: desk.driver.find_top_view(LI))
        await desk.driver.close_view(LI, view["id"])
        await desk.quiet()
        await desk.press(LI, card, "set_approve")
        await desk.until(lambda: "您的请假申请 L-0001 已通过" in desk.said(desk.dm(ZHANG)))
        await desk.quiet()
        recorder.compare_slack(desk)
        recorder.compare_writes()


async def test_runs_that_stop_and_are_tried_again(recorded: Opening) -> None:
    """The model says nothing, invents a number, uses up its tokens, goes round in a ring."""
    async with (
        endpoint([message(content="")] * 3) as model,
        recorded("stops", model_url=model.url, run_tokens=100_000) as (desk, recorder),
    ):
        here = desk.dm(ZHANG)
        await ask(desk, ZHANG, "有什么事吗")
        [stop] = desk.stops(here)
        await desk.press(ZHANG, stop, "anew")
        await desk.until(lambda: any("好的，完成" in text for text in desk.finals(here)))
        await desk.quiet()
        invented = said("已为您提交申请 L-0042，金额 800 元，由王五审批。")
        model.then(called(("list_processes", '{"reason": "看看流程"}')), invented, invented)
        await ask(desk, ZHANG, "帮我报销打车费")
        look = called(("list_people", '{"reason": "see who is here"}'))
        model.then(replace(look, body={**look.body, "usage": {"prompt_tokens": 99_990, "completion_tokens": 10}}))
        await ask(desk, ZHAO, "who is here?")
        model.then(*[called(("list_people", '{"reason": "see who is here", "name": "Li"}'))] * 9)
        await ask(desk, ADMIN, "谁姓李？")
        recorder.compare_slack(desk)
        recorder.compare_writes()
        await recorder.compare_redis("at_the_end")


async def test_a_long_talk_is_put_in_short(recorded: Opening) -> None:
    async with recorded("folded", history_tokens=2_000) as (desk, recorder):
        question = "住宿标准是什么？我想知道出差时各个城市的酒店上限分别是多少，谢谢。"
        for _ in range(8):
            await ask(desk, ZHANG, question)
        await ask(desk, ZHANG, "历史")
        await recorder.compare_redis("at_the_end")
        recorder.compare_slack(desk)
        recorder.compare_writes()


async def test_what_the_model_thinks_of_a_request(recorded: Opening) -> None:
    thinks = ModelReply(text='{"recommendation": "approve", "reasons": ["金额不大", "事由清楚"]}')

    async def answer(messages: Messages) -> ModelReply:
        return thinks if "recommendation" in str(messages[0]) else DONE

    model = ScriptedModel([expense(), *[answer] * 9])
    async with recorded("advice", model=model, advice="on") as (desk, recorder):
        await desk.says(ZHANG, "报销 500 元")
        card = await desk.card(desk.dm(ZHANG))
        await desk.quiet()
        await desk.press(ZHANG, card, "confirm")
        await desk.card(desk.dm(LI), "事由清楚")
        await desk.until(lambda: desk.finals(desk.dm(ZHANG)))
        await desk.quiet()
        recorder.compare_slack(desk)
        recorder.compare_writes()


async def test_a_message_that_is_given_up(recorded: Opening) -> None:
    def break_down(messages: Messages) -> ModelReply:
        raise RuntimeError("cannot digest xoxb-1-secret")

    tuned = {"max_tries": 2, "backoff_ms": 10}
    with log_nothing():
        async with recorded("given_up", model=ScriptedModel([break_down] * 9), tuned=tuned) as (desk, recorder):
            await desk.says(LI, "hello there")
            await desk.until(lambda: "我试了几次" in desk.said(desk.dm(LI)))
            await desk.quiet()
            await recorder.compare_redis("at_the_end")
            recorder.compare_slack(desk)
            recorder.compare_writes()


async def test_more_messages_than_a_conversation_holds(recorded: Opening) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def think(messages: Messages) -> ModelReply:
        asked.set()
        await go_on.wait()
        return DONE

    async with recorded("full", model=ScriptedModel([think] * 9), tuned={"max_lane_items": 1}) as (desk, recorder):
        await desk.says(ZHANG, "第一句")
        await asked.wait()
        await desk.says(ZHANG, "第二句")
        await desk.until(lambda: "暂时收不下" in desk.said(desk.dm(ZHANG)))
        go_on.set()
        await desk.until(lambda: "都处理完了" in desk.said(desk.dm(ZHANG)))
        await desk.quiet()
        recorder.compare_slack(desk)
        recorder.compare_writes()


async def test_what_an_endpoint_has_taught(recorded: Opening) -> None:
    refused = {"message": "Unsupported parameter: 'parallel_tool_calls'.", "param": "parallel_tool_calls"}
    lesson = Raw({"error": {**refused, "type": "invalid_request_error", "code": "unsupported_parameter"}}, 400)
    async with endpoint([lesson]) as model, recorded("lessons", model_url=model.url) as (desk, recorder):
        await ask(desk, ZHANG, "有什么事吗")
        await recorder.compare_redis("at_the_end")
        compare_json("lessons/asked.json", [sorted(one) for one in model.asked])


@pytest.mark.parametrize("style", ["text", "json"])
async def test_what_a_model_is_told_first_in_other_styles(recorded: Opening, style: str) -> None:
    async with endpoint() as model, recorded("styles", model_url=model.url, react_style=style) as (desk, _):
        await ask(desk, ZHANG, "有什么事吗")
        compare_json(f"styles/{style}.json", unfold(model.asked[0]))


async def test_a_card_for_a_tool_of_a_server(recorded: Opening, tmp_path: Path) -> None:
    command = json.dumps(World(tmp_path / "world").server("wiki").command)
    file = tmp_path / "mcp.toml"
    file.write_text(f"[servers.wiki]\ncommand = {command}\n", encoding="utf-8")
    write = calls(("wiki__write_page", {"title": "WLAN", "text": "郁金香"}))
    async with recorded("server", model=ScriptedModel([write, DONE, write, DONE]), mcp_file=file) as (desk, recorder):
        await confirm(desk, ZHANG, "在 wiki 里写一个页面", "郁金香")
        await desk.says(ZHAO, "write a page")
        await desk.card(desk.dm(ZHAO))
        await desk.quiet()
        recorder.compare_slack(desk)
        recorder.compare_writes()


async def test_slack_is_away_when_a_card_changes(recorded: Opening) -> None:
    async with recorded("away") as (desk, recorder):
        card = await start(desk, ZHANG, TWO_DAYS)
        desk.driver.fail_next_call("chat.update", 500, 6)
        await desk.press(LI, card, "approve")
        await desk.until(lambda: "您的请假申请 L-0001 已通过" in desk.said(desk.dm(ZHANG)))
        await desk.quiet()
        recorder.compare_writes()
