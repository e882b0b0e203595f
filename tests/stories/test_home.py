"""Home as the central page: requests are decided, urged, withdrawn and set up there, by the same presses as on cards.
Each page is kept up to date, is private to its person, and stays within Slack's limits."""

import asyncio
import time
from typing import Any

import pytest

from bot.dev.evaluation.shown_blocks import list_buttons, read_message_text
from bot.features.home import page as home_pages
from bot.features.home.open_pages import HomeStore
from bot.storage.preferences import Preferences
from tests.harness.office import ADMIN, LI, WANG, ZHANG, ZHAO, Office, found_request

LEAVE = "明天起请2天年假，去看父母，审批人李四"
LONG = "明天起请2天年假，审批人李四，原因是" + "回老家看望父母，" * 40


async def open_home(office: Office, person: str) -> dict[str, Any]:
    office.driver.ws.state.homes.pop(person, None)
    await office.driver.open_home(person)
    return dict(await office.until(lambda: office.driver.homes.get(person)))


def read_home(office: Office, person: str) -> str:
    return read_message_text(dict(office.driver.homes.get(person) or {}))


async def press(office: Office, person: str, action: str, value: str = "") -> Any:
    """Press a button of the current Home page."""
    view = office.driver.homes[person]
    wanted = [b for b in list_buttons(dict(view)) if b["action_id"] == action and value in b.get("value", "")]
    return await office.driver.click_view_button(person, view["id"], action, value=wanted[0].get("value"))


async def dialog(office: Office, person: str) -> dict[str, Any]:
    return dict(await office.until(lambda: office.driver.find_top_view(person)))


async def submit(office: Office, person: str, **values: str) -> Any:
    return await office.driver.submit_view(person, (await dialog(office, person))["id"], values)


def shown(office: Office, person: str) -> str:
    return read_message_text(dict(office.driver.find_top_view(person) or {}))


async def forge(office: Office, person: str, action: str, value: str) -> Any:
    """Press a button that is not on the page."""
    return await office.driver.forge_view_button(person, office.driver.homes[person]["id"], action, value)


# Waiting tasks


async def test_a_task_is_approved_on_home_by_the_press_of_its_card(desk: Office) -> None:
    request = await desk.request_leave(ZHANG, LEAVE)
    await desk.card(desk.dm(LI), request)
    english = ("Zhang San", "Tue 24 Nov 2026", "Wed 25 Nov 2026")
    for language, told in (("zh", ("张三", "11月24日 周二", "11月25日 周三")), ("en", english)):
        await desk.bot.stores.preferences.save_preferences(LI, Preferences(language=language))
        await open_home(desk, LI)
        facts = (*told, "zhangsan@example.com", "去看父母", "13")  # the facts for the decision
        await desk.until(lambda what=facts: all(one in read_home(desk, LI) for one in what))
    assert (await press(desk, LI, "cs:approve")).ok
    await desk.until(lambda: f"申请 {request} 已通过" in desk.said(desk.dm(ZHANG)))
    await desk.until(lambda: "cs:approve" not in str(desk.driver.homes[LI]))
    await desk.quiet()
    assert not desk.cards(desk.dm(LI)), "the card in the DM is rewritten"
    assert request in read_home(desk, LI), "and stands among the decisions"
    decided = [one for one in await desk.journal() if one.kind == "effect.done" and one.more.get("choice") == "approve"]
    assert len(decided) == 1


async def test_nobody_decides_urges_or_withdraws_on_home_what_is_not_theirs(desk: Office) -> None:
    """A page is built for its viewer; a forged press is judged like every press."""
    request = await desk.request_leave(ZHANG, LEAVE)
    task = await desk.card(desk.dm(LI), request)
    value = next(list_buttons(task))["value"]
    for person in (ZHANG, WANG):
        await open_home(desk, person)
        assert "cs:approve" not in str(desk.driver.homes[person])
        await forge(desk, person, "cs:approve", value)
        await forge(desk, person, "cs:home:open", value)
        await desk.until(lambda who=person: "去看父母" not in shown(desk, who) and shown(desk, who))
    await desk.quiet()
    refused = [one.text for one in await desk.journal() if one.kind == "approval.refused"]
    assert sorted(refused) == ["not_yours", "own"]
    assert request not in read_home(desk, WANG)
    for action in ("urge", "withdraw"):
        desk.driver.ws.state.stacks.pop(WANG, None)
        await forge(desk, WANG, f"cs:home:{action}", request)
        view = await dialog(desk, WANG)
        assert view["submit"] is None and "Zhang San" not in read_message_text(view)
    await desk.quiet()
    assert not {"urge_task", "withdraw_request"} & {one.text for one in await desk.journal()}
    assert not (await desk.dead())


async def test_what_is_too_long_for_home_is_opened_before_it_is_decided(
    desk: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.card(desk.dm(LI), await desk.request_leave(ZHANG, LONG))
    with monkeypatch.context() as unmeasured:
        for bound in ("FACTS", "FACTS_BYTES", "VALUE_BYTES"):
            unmeasured.setattr(home_pages, bound, 1_000_000)
        await open_home(desk, LI)
        assert "cs:approve" in str(desk.driver.homes[LI]), "the control: half of a reason could be approved"
        await desk.quiet()
    await open_home(desk, LI)
    await desk.until(lambda: "cs:approve" not in str(desk.driver.homes[LI]) and "查看全文" in read_home(desk, LI))
    await press(desk, LI, "cs:home:open")
    view = await dialog(desk, LI)
    assert read_message_text(view).count("回老家看望父母") == 40 and len(view["title"]["text"]) <= 24
    actions = [one["action_id"] for one in list_buttons(view)]
    assert {"cs:approve", "cs:reject", "cs:transfer"} <= {*actions}
    await desk.driver.click_view_button(LI, view["id"], "cs:approve")
    await desk.until(lambda: "已通过" in desk.said(desk.dm(ZHANG)))
    assert not list(list_buttons(desk.driver.find_top_view(LI) or {})), "no button stays that has done its work"


# Their requests


async def test_what_is_approved_is_withdrawn_from_home_with_a_reason_that_who_agrees_reads(desk: Office) -> None:
    request = await desk.request_leave(ZHANG, LEAVE)
    await desk.press(LI, await desk.card(desk.dm(LI), request), "approve")
    await desk.until(lambda: f"{request} 已通过" in desk.said(desk.dm(ZHANG)))
    await desk.quiet()
    await open_home(desk, ZHANG)
    await press(desk, ZHANG, "cs:home:withdraw", request)
    view = await dialog(desk, ZHANG)
    [reason] = [b for b in view["blocks"] if b["type"] == "input"]
    assert reason["block_id"] == "because" and reason["optional"] and "撤回原因" in str(reason["label"])
    assert "李四" in read_message_text(view), "who has to agree is named first"
    refused = await submit(desk, ZHANG, because="长" * 501)
    assert "because" in refused.errors and desk.driver.find_top_view(ZHANG)["id"] == view["id"]  # type: ignore[index]
    assert (await submit(desk, ZHANG, because="行程取消了​")).ok
    asked = await desk.card(desk.dm(LI), "行程取消了")
    assert "​" not in read_message_text(asked)
    await desk.quiet()
    await open_home(desk, ZHANG)
    assert "cs:home:withdraw" not in str(desk.driver.homes[ZHANG]), "it is asked for once"
    assert "cs:home:urge" in str(desk.driver.homes[ZHANG])
    await desk.press(LI, asked, "approve")
    await desk.until(lambda: "已撤回" in read_home(desk, ZHANG))
    assert "cs:home:withdraw" not in str(desk.driver.homes[ZHANG])


async def test_a_reason_stays_when_what_was_shown_has_changed(desk: Office) -> None:
    request = await desk.request_leave(ZHANG, LEAVE)
    card = await desk.card(desk.dm(LI), request)
    await open_home(desk, ZHANG)
    await press(desk, ZHANG, "cs:home:withdraw", request)
    await dialog(desk, ZHANG)
    await desk.press(LI, card, "approve")
    await desk.until(lambda: f"{request} 已通过" in desk.said(desk.dm(ZHANG)))
    await desk.quiet()
    await submit(desk, ZHANG, because="计划变了")
    view = await dialog(desk, ZHANG)
    assert "刚刚有变化" in read_message_text(view) and "同意才能撤回" in read_message_text(view)
    assert [b["element"]["initial_value"] for b in view["blocks"] if b["type"] == "input"] == ["计划变了"]
    assert not [one for one in await desk.journal() if one.text == "withdraw_request"]
    await submit(desk, ZHANG, because="计划变了")
    await desk.card(desk.dm(LI), "计划变了")


@pytest.mark.parametrize("is_sealed", [True, False])
async def test_what_changed_since_it_was_shown_is_shown_again_and_not_done(
    desk: Office, monkeypatch: pytest.MonkeyPatch, is_sealed: bool
) -> None:
    """With its control: without the seal, another person is urged than was shown. Nobody is urged by a look."""
    if not is_sealed:
        monkeypatch.setattr("bot.features.home.actions.compute_shown_hash", lambda proposal, language: "same")
    request = await desk.request_leave(ZHANG, "明天起请10天年假，去看父母，审批人李四")
    card = await desk.card(desk.dm(LI), request)
    await open_home(desk, ZHANG)
    await press(desk, ZHANG, "cs:home:urge", request)
    assert "李四" in read_message_text(await dialog(desk, ZHANG))
    await desk.press(LI, card, "approve")
    await desk.card(desk.dm(WANG), request)
    await desk.quiet()
    await submit(desk, ZHANG)
    if is_sealed:
        view = await dialog(desk, ZHANG)
        assert "刚刚有变化" in read_message_text(view) and "王五" in read_message_text(view)
        assert view["submit"]["text"] == "催办"
        assert not [one for one in await desk.journal() if one.text == "urge_task"], "nobody was urged"
        await submit(desk, ZHANG)
    await desk.until(lambda: "asks you to decide soon" in desk.said(desk.dm(WANG)))
    assert "请您尽快处理" not in desk.said(desk.dm(LI))
    await desk.quiet()
    sealed = [one for one in await desk.journal() if one.kind == "effect.done" and one.text == "urge_task"]
    assert len(sealed) == 1
    desk.driver.ws.state.stacks.pop(ZHANG, None)
    await forge(desk, ZHANG, "cs:home:urge", request)
    refusal = read_message_text(await dialog(desk, ZHANG))
    assert request in refusal and "刚催过" in refusal


# Deputies


async def test_a_stand_in_is_set_and_ended_from_home(desk: Office) -> None:
    await open_home(desk, LI)
    await press(desk, LI, "cs:home:set_absence")
    view = await dialog(desk, LI)
    kinds = {b["block_id"]: b["element"]["type"] for b in view["blocks"] if b["type"] == "input"}
    assert kinds == {"deputy": "users_select", "first_day": "datepicker", "last_day": "datepicker"}
    refused = await submit(desk, LI, deputy=LI, first_day="2026-11-23", last_day="2026-11-20")
    assert refused.errors and desk.driver.find_top_view(LI)["id"] == view["id"]  # type: ignore[index]
    await submit(desk, LI, deputy=ZHAO, first_day="2026-11-23", last_day="2026-11-27")
    review = await dialog(desk, LI)
    assert review["id"] != view["id"] and "zhaoliu@example.com" in read_message_text(review), "who is meant is shown"
    engine, day = desk.bot.resources.engine, desk.bot.stores.clock.today()
    assert not await engine.list_delegations(LI, day), "and nothing has happened yet"
    await submit(desk, LI)
    assert desk.driver.find_top_view(LI) is None
    await desk.until(lambda: "赵六正在代理审批" in read_home(desk, LI))
    request = await desk.request_leave(ZHANG, LEAVE)
    await desk.card(desk.dm(ZHAO), request)
    await open_home(desk, ZHAO)
    await press(desk, ZHAO, "cs:approve")
    await desk.until(lambda: f"{request} 已通过" in desk.said(desk.dm(ZHANG)))
    await desk.quiet()
    await open_home(desk, LI)
    assert "赵六（代李四）" in read_home(desk, LI), "what was decided for them is listed"
    await press(desk, LI, "cs:home:end_absence")
    assert "赵六" in read_message_text(await dialog(desk, LI))
    await submit(desk, LI)
    await desk.until(lambda: "没有代理人" in read_home(desk, LI))
    assert not await engine.list_delegations(LI, day)


# Decisions, settings, operations


async def test_decisions_are_listed_newest_first_with_details_and_pages(desk: Office) -> None:
    requests = []
    for n in range(4):
        await desk.says(ZHANG, f"报销打车费 {n + 31} 元，客户拜访，审批人李四")
        await desk.press(ZHANG, await desk.card(desk.dm(ZHANG), f"{n + 31}"), "confirm")
        card = await desk.card(desk.dm(LI), f"{n + 31}")
        requests.append(found_request(read_message_text(card)))
        await desk.press(LI, card, "approve")
        await desk.until(lambda r=requests[-1]: f"{r} 已通过" in desk.said(desk.dm(ZHANG)))
    await open_home(desk, LI)
    page = read_home(desk, LI)
    assert [one for one in requests if one in page] == requests[1:], "the newest three"
    assert page.index(requests[3]) < page.index(requests[2]) < page.index(requests[1])
    await press(desk, LI, "cs:home:decisions")
    text = read_message_text(await dialog(desk, LI))
    assert all(one in text for one in requests) and "目前状态：已通过" in text


async def test_the_language_and_the_steps_of_one_person(desk: Office) -> None:
    await open_home(desk, ZHANG)
    await press(desk, ZHANG, "cs:home:settings")
    assert (await dialog(desk, ZHANG))["submit"]["text"] == "保存"
    await submit(desk, ZHANG, language="en", steps="replies")
    await desk.until(lambda: "My Approvals" in read_home(desk, ZHANG) or "Waiting for Me" in read_home(desk, ZHANG))
    await desk.says(ZHANG, "my tasks and my requests please: 我的申请")
    await desk.quiet()
    lines = [m for m in desk.posts(desk.dm(ZHANG)) if m.get("thread_ts")]
    assert lines and not [m for m in lines if any(b["type"] == "plan" for b in m.get("blocks") or [])], "no plan"
    await open_home(desk, LI)
    assert "等我处理" in read_home(desk, LI), "nobody else reads otherwise"
    assert desk.bot.stores.preferences.get_preferences(ZHANG).steps == "replies"


async def test_the_morning_list_is_switched_on_and_off_beside_them(empty: Office) -> None:
    async with empty.opened(morning_list="08:30"):
        await open_home(empty, ZHANG)
        assert "早间清单：工作日 08:30 发给我" in read_home(empty, ZHANG)
        for choice, line in (("off", "早间清单：不要"), ("on", "早间清单：工作日 08:30 发给我")):
            await press(empty, ZHANG, "cs:home:settings")
            await submit(empty, ZHANG, language="default", steps="default", morning=choice)
            await empty.until(lambda line=line: line in read_home(empty, ZHANG))
        await empty.says(ZHANG, "关闭早间清单")
        await empty.quiet()
        await open_home(empty, ZHANG)
        assert "早间清单：不要" in read_home(empty, ZHANG), "the same as by words"


async def test_how_the_installation_does_is_for_administrators_and_the_handler_asks_again(desk: Office) -> None:
    words = ("系统状态", "队列正常", "没有搁置的事项", "今天：模型回复", "模型 rehearsal：正常")
    await open_home(desk, ADMIN)
    assert all(word in read_home(desk, ADMIN) for word in words)
    await press(desk, ADMIN, "cs:home:operations")
    assert "队列正常" in read_message_text(await dialog(desk, ADMIN))
    await open_home(desk, ZHANG)
    assert "系统状态" not in read_home(desk, ZHANG)
    await forge(desk, ZHANG, "cs:home:operations", "")
    await desk.quiet()
    assert desk.driver.find_top_view(ZHANG) is None


# Updates


async def test_it_is_renewed_when_its_data_change_and_only_for_who_has_it_open(desk: Office) -> None:
    await open_home(desk, LI)
    request = await desk.request_leave(ZHANG, LEAVE)
    await desk.until(lambda: request in read_home(desk, LI) and "cs:approve" in str(desk.driver.homes[LI]))
    await desk.quiet()
    assert ZHANG not in desk.driver.homes, "who has not opened theirs gets none"


async def test_the_control_without_marks_an_open_page_goes_stale(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.storage.approvals.build_mark_writes", lambda *_: [])
    for person in (LI, ZHAO):
        await open_home(desk, person)
    request = await desk.request_leave(ZHANG, LEAVE)
    await desk.card(desk.dm(LI), request)
    await desk.quiet()
    await HomeStore(desk.bot.stores.redis, desk.bot.stores.lanes.keys).mark_person(ZHAO)
    await desk.until(lambda: len(published(desk, ZHAO)) == 2)  # a person marked later has a new page
    assert request not in read_home(desk, LI) and len(published(desk, LI)) == 1


def published(office: Office, person: str) -> list[Any]:
    """List the pages that the bot has made for a person."""
    return [one for one in office.driver.list_call_arguments("views.publish") if one["user_id"] == person]


@pytest.mark.slow
async def test_a_storm_of_changes_is_few_pages(desk: Office) -> None:
    await open_home(desk, LI)
    homes, began = HomeStore(desk.bot.stores.redis, desk.bot.stores.lanes.keys), time.monotonic()
    before = len(published(desk, LI))
    while (took_s := time.monotonic() - began) < 3.0 or len(published(desk, LI)) == before:
        await asyncio.gather(*(homes.mark_person(LI) for _ in range(10)))
    assert len(published(desk, LI)) - before <= took_s / 2 + 2, "one in two seconds"
