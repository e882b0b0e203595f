"""The list of people is long, slow, or not there: who is known does not wait for it, and one process reads it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from bot.local.workspace.world import WorkspaceMember
from tests.harness.office import LI, ZHANG, Office, office

FOR_EVER_S = 60.0
"""Longer than any test waits."""
CROWD = tuple(
    WorkspaceMember(id=f"U7{n:05d}", name=f"p{n}", real_name=f"Person {n}", email=f"p{n}@example.com")
    for n in range(2_500)
)
LEAVE = "明天起请2天年假，去看父母，审批人李四"


@pytest.fixture
async def crowded(valkey: str) -> AsyncIterator[Office]:
    async with office(valkey, more=CROWD) as opened:
        yield opened


def pages(desk: Office) -> list[str]:
    return [one.args.get("cursor", "") for one in desk.driver.calls if one.method == "users.list"]


async def test_a_process_that_starts_later_asks_for_nobodys_list(empty: Office) -> None:
    """What the one before has learned is in the store: presses and dialogs do not wait for Slack's list."""
    async with empty.opened():
        await empty.request_leave(ZHANG, LEAVE)
        card = await empty.card(empty.dm(LI))
    before = len(pages(empty))
    empty.driver.delay_answers(FOR_EVER_S, "users.list", "users.profile.get", "team.profile.get")
    async with empty.opened():
        pressed = await empty.press(LI, card, "reject")
        assert pressed.ok
        await empty.fill(LI, opinion="太忙")
        await empty.card(empty.dm(ZHANG), "被驳回")
    assert len(pages(empty)) == before, "it was read a moment ago"


async def test_who_writes_before_the_list_is_there_is_answered(empty: Office) -> None:
    """They are looked up alone. What needs everybody waits: a name may be somebody else's, too."""
    empty.driver.delay_answers(FOR_EVER_S, "users.list")
    async with empty.opened():
        await empty.says(ZHANG, "帮助")
        await empty.until(lambda: empty.said(empty.dm(ZHANG)))
        assert ZHANG in [one.args["user"] for one in empty.driver.calls if one.method == "users.info"]
        await empty.says(ZHANG, LEAVE)
        await asyncio.sleep(0.5)
        assert not empty.cards(empty.dm(ZHANG)), "the control: whose name it is cannot be known yet"


async def test_presses_are_acknowledged_while_everything_else_of_slack_hangs(empty: Office) -> None:
    async with empty.opened():
        await empty.request_leave(ZHANG, LEAVE)
        card = await empty.card(empty.dm(LI))
        empty.driver.delay_answers(FOR_EVER_S)
        for choice in ("reject", "approve"):
            began = time.monotonic()
            assert (await empty.press(LI, card, choice)).ok
            assert time.monotonic() - began < 1.0


async def test_a_press_on_the_home_tab_names_its_dm(empty: Office) -> None:
    async with empty.opened():
        request = await empty.request_leave(ZHANG, LEAVE)
        await empty.driver.open_home(LI)
        view = await empty.until(lambda: request in str(empty.driver.homes.get(LI)) and empty.driver.homes[LI])
        assert empty.dm(LI) in view["private_metadata"]


async def test_one_of_many_processes_reads_the_list(crowded: Office) -> None:
    async with AsyncExitStack() as all_of_them:
        for _ in range(3):
            await all_of_them.enter_async_context(crowded.opened())
        await crowded.says(ZHANG, LEAVE)
        await crowded.card(crowded.dm(ZHANG))
        assert pages(crowded) == ["", "next:1000", "next:2000"]


async def test_what_was_read_before_slack_refused_is_not_read_again(crowded: Office) -> None:
    refused = crowded.driver.ws.faults
    refused.retry_after_seconds = 0

    async def refuse_the_second_page() -> None:
        await crowded.driver.wait_until(lambda: pages(crowded))
        refused.fail_next_call("users.list", 429, 3)

    refusing = asyncio.create_task(refuse_the_second_page())
    async with crowded.opened():
        await crowded.says(ZHANG, LEAVE)
        await crowded.card(crowded.dm(ZHANG))
    await refusing
    read = [one.args.get("cursor", "") for one in crowded.driver.calls if one.method == "users.list" and not one.error]
    assert read == ["", "next:1000", "next:2000"]
