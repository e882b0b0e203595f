"""The morning list: one message a working day, in everybody's own time zone, rewritten while it changes, never two."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from bot.core.clock import Clock
from bot.evaluation.shown_blocks import read_message_text
from tests.harness.office import ANN, LI, WANG, ZHANG, ZHAO, Office
from tests.stories.behind import request_of
from tests.stories.sets import labels, now, options, start_claims
from tools.workflow.engine.state import Status

MORNING = {"morning_list": "09:30"}
SATURDAY = datetime(2026, 11, 28, 2, 0, tzinfo=UTC)
"""10:00 in Shanghai."""


def lists(desk: Office, person: str) -> list[dict[str, Any]]:
    """Morning lists of a person, oldest first."""
    return [m for m in desk.posts(desk.dm(person)) if is_list(m)]


def is_list(message: dict[str, Any]) -> bool:
    return any(words in read_message_text(message) for words in ("日早间清单：", "morning list for"))


async def test_what_waits_for_me_where_mine_are_and_who_is_away(empty: Office) -> None:
    async with empty.opened() as bot:  # before there was such a thing
        numbers = await start_claims(empty, 11, 12)
        engine = bot.ingress.request_forms.tool_services.engine
        leave = {"leave_type": "annual", "start_date": "2026-11-23", "end_date": "2026-11-23", "reason": "x"}
        clock = bot.ingress.request_forms.clock
        away = (await engine.start_request("leave", leave, ANN.id, "ann", clock.today())).request
        assert (await request_of(empty, away)).status is Status.APPROVED, "by rule"
        await empty.quiet()
    async with empty.opened(**MORNING):
        message = (await empty.until(lambda: lists(empty, LI)))[0]
        text = read_message_text(message)
        assert "11月23日早间清单：2 项申请等您决定" in text
        assert all(one in " ".join(options(message)) for one in numbers) and labels(message)[0] == "同意全部 2 项"
        assert "团队里今天不在的人" in text and "Ann Smith（到 11月23日）" in text and "annual" not in text
        mine = read_message_text((await empty.until(lambda: lists(empty, ZHANG)))[0])
        assert "没有等您决定的申请" in mine and f"{numbers[0]}" in mine and "在李四那里，从 11月23日起" in mine
        await empty.quiet()
        assert not lists(empty, ZHAO) and not lists(empty, ANN.id), "nothing to say; and who is away gets none"
        assert not any(is_list(m) for room in empty.channels() if room.startswith("C") for m in empty.posts(room))

        await empty.press(LI, message, "set_approve")  # decided in the list itself
        await empty.until(lambda: "2 项都已处理" in read_message_text(now(empty, message)))
        await empty.until(lambda: numbers[0] not in read_message_text(lists(empty, ZHANG)[0]))
        await empty.quiet()
        assert [(await request_of(empty, one)).status for one in numbers] == [Status.APPROVED] * 2
        assert len(lists(empty, LI)) == len(lists(empty, ZHANG)) == 1, "rewritten, not posted again"


async def test_a_new_task_joins_the_list_and_another_day_brings_another_list(empty: Office) -> None:
    async with empty.opened():
        await start_claims(empty, 11)
    async with empty.opened(**MORNING):
        message = (await empty.until(lambda: lists(empty, LI)))[0]
        more = await start_claims(empty, 12)
        await empty.until(lambda: more[0] in " ".join(options(now(empty, message))))
        assert len(lists(empty, LI)) == 1 and labels(now(empty, message))[0] == "同意全部 2 项"


async def test_several_processes_killed_and_opened_again_bring_one(empty: Office) -> None:
    async with empty.opened():
        await start_claims(empty, 11)
        await empty.quiet()
    async with empty.opened(**MORNING), empty.opened(**MORNING):
        await empty.until(lambda: lists(empty, LI))
        await empty.quiet()
    async with empty.opened(**MORNING) as bot:
        planned = 0
        for _ in range(3):
            await bot.morning_lists.plan_due_mornings()
            bot.morning_lists.planned.clear()
            planned += 1
        await empty.quiet()
        assert planned == 3 and len(lists(empty, LI)) == 1


async def test_no_list_on_a_day_off(empty: Office) -> None:
    clock = Clock(read_now=empty.clock, read_today=lambda: SATURDAY)
    async with empty.opened():
        await start_claims(empty, 11)
        await empty.quiet()
    async with empty.opened(tuned={"clock": clock}, **MORNING) as bot:
        await bot.morning_lists.plan_due_mornings()
        await empty.quiet()
        assert not lists(empty, LI)


async def test_who_wants_none_gets_none(empty: Office) -> None:
    async with empty.opened():
        await start_claims(empty, 11)
    async with empty.opened(morning_list="23:59"):
        assert "不再给您发早间清单" in await empty.answer(LI, "关闭早间清单")
        assert "早间清单：您已关闭" in await empty.answer(LI, "设置")
        assert "早间清单：工作日 23:59" in await empty.answer(ZHANG, "设置")
    async with empty.opened(**MORNING):
        await empty.until(lambda: lists(empty, ZHANG))
        await empty.quiet()
        assert not lists(empty, LI) and not lists(empty, WANG)
        assert "每个工作日 09:30" in await empty.answer(LI, "打开早间清单")


async def test_before_its_hour_nothing_comes(empty: Office) -> None:
    async with empty.opened():
        await start_claims(empty, 11)
    async with empty.opened(morning_list="10:01") as bot:  # it is ten
        await bot.morning_lists.plan_due_mornings()
        await empty.quiet()
        assert not lists(empty, LI)


async def test_the_command_without_a_company_setting_says_so(desk: Office) -> None:
    assert "Morning lists are switched off" in await desk.answer(WANG, "morning list on")
