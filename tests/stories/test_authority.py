"""Who a press is by, and who an approver is: told through the whole bot."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bot.local.workspace.world import WorkspaceMember
from tests.harness.office import DEMO, LI, WANG, ZHANG, ZHAO, Office, office, read_message_text
from tests.harness.programs import ran
from tests.stories.behind import facts_of, kept, request_of, requests_of, times_told
from tools.workflow.engine.state import Status

TWO_DAYS = "明天起请2天年假，去看父母，审批人"
LARGE = "报销 1500 元差旅费，去上海开会，审批人李四"
CHOICE = '[[policy]]\nprocess = "leave"\nlevel = "approver"\nwho = ["manager"]\nothers = "flagged"\n'
AT_ONCE = {"person_max_age_s": 0.0}
"""Whatever is decided is looked up anew: thirty seconds are too long for a story."""
REMEMBERED = {"person_max_age_s": 3600.0}
"""The safety off."""


def member(id: str, name: str, real_name: str) -> WorkspaceMember:
    return WorkspaceMember(
        id=id, name=name, real_name=real_name, email=f"{name}@example.com", locale="zh-CN", tz="Asia/Shanghai"
    )


SUN, ZHOU = member("U06SUN", "sunqi", "孙七"), member("U07ZHOU", "zhouba", "周八")
"""A friend, and the friend's manager."""
FRIENDS = """
[[person]]
email = "sunqi@example.com"
manager = "zhouba@example.com"

[[person]]
email = "zhouba@example.com"
"""


@pytest.fixture
async def town(valkey: str, tmp_path: Path) -> AsyncIterator[Office]:
    """An office with two more people and a directory file of its own; without a bot."""
    async with office(valkey, more=(SUN, ZHOU)) as opened:
        opened.directory_file = tmp_path / "directory.toml"
        opened.directory_file.write_text(DEMO.read_text(encoding="utf-8") + FRIENDS, encoding="utf-8")
        yield opened


@contextlib.asynccontextmanager
async def permissive(town: Office, tmp_path: Path) -> AsyncIterator[Office]:
    """The bot of a company whose people may choose their approver."""
    file = tmp_path / "policy.toml"
    file.write_text(CHOICE, encoding="utf-8")
    async with town.opened(policy_file=file):
        yield town


def edit(town: Office, before: str, after: str) -> None:
    """An administrator changes the directory file."""
    text = town.directory_file.read_text(encoding="utf-8")
    assert before in text
    town.directory_file.write_text(text.replace(before, after), encoding="utf-8")


def demote(town: Office, person: str) -> None:
    """The workspace's administrators make somebody a guest."""
    people = town.driver.ws.state.people
    people[person] = replace(people[person], is_restricted=True)


async def test_a_friend_as_approver_is_refused_and_the_manager_is_offered(town: Office) -> None:
    async with town.opened():
        here = town.dm(ZHANG)
        await town.says(ZHANG, f"{TWO_DAYS}孙七")
        await town.until(lambda: "按规则，审批人应该是“李四”" in town.said(here))
        assert not town.cards(here) and not town.cards(town.dm(SUN.id))
        await town.says(ZHANG, "李四")
        card = await town.card(here)
        assert facts_of(card)["审批人"] == "李四" and "请注意" not in facts_of(card)
        await town.press(ZHANG, card, "confirm")
        await town.card(town.dm(LI), "L-0001")


async def test_a_choice_that_a_row_permits_is_flagged_on_both_cards_and_in_the_audit(
    town: Office, tmp_path: Path
) -> None:
    flag = "审批人不是规则指定的人，由申请人自选"
    async with permissive(town, tmp_path):
        await town.says(ZHANG, f"{TWO_DAYS}孙七")
        card = await town.card(town.dm(ZHANG))
        assert facts_of(card)["请注意"] == flag
        await town.press(ZHANG, card, "confirm")
        theirs = await town.card(town.dm(SUN.id), "L-0001")
        assert facts_of(theirs)["请注意"] == flag
        await town.press(SUN.id, theirs, "approve")
        await town.until(lambda: "您的请假申请 L-0001 已通过" in town.said(town.dm(ZHANG)))
        env = {"REDIS_URL": town.redis_url, "LANG": "en_US.UTF-8", "COLUMNS": "250"}
        plain, table = await ran("audit", "--json", cwd=tmp_path, env=env), await ran("audit", cwd=tmp_path, env=env)
    assert f'"flags": "exception approver={SUN.id} rules={LI}"' in plain.out, plain
    assert "approver not named by the rules" in " ".join(table.out.split()), table


async def test_the_second_level_is_of_the_authors_chain(town: Office, tmp_path: Path) -> None:
    """周八, the friend's manager, has no say."""
    async with permissive(town, tmp_path):
        await town.request_leave(ZHANG, "我肚子疼，从明天起请7天假，审批人孙七")
        await town.press(SUN.id, await town.card(town.dm(SUN.id), "L-0001"), "approve")
        await town.card(town.dm(WANG), "L-0001")
        assert (await request_of(town, "L-0001")).waits_for == (WANG,) and not town.cards(town.dm(ZHOU.id))


async def test_who_was_made_a_guest_after_the_card_came_presses_in_vain(town: Office) -> None:
    async with town.opened(tuned=AT_ONCE):
        await town.request_leave(ZHANG, f"{TWO_DAYS}李四")
        card = await town.card(town.dm(LI), "L-0001")
        demote(town, LI)
        await town.press(LI, card, "approve", force=True)
        await town.until(lambda: town.whispers(LI))
        await town.quiet()
        assert (await request_of(town, "L-0001")).status is Status.WAITING
        assert await times_told(town, "approval.refused", person=LI) == 1


async def test_with_what_was_remembered_they_would_have_decided(town: Office) -> None:
    """Negative control: the safety off."""
    async with town.opened(tuned=REMEMBERED):
        await town.request_leave(ZHANG, f"{TWO_DAYS}李四")
        card = await town.card(town.dm(LI), "L-0001")
        demote(town, LI)
        await town.press(LI, card, "approve", force=True)
        await town.until(lambda: "L-0001 已通过" in town.said(town.dm(ZHANG)))


async def test_nor_does_who_was_demoted_confirm_a_request(town: Office) -> None:
    async with town.opened(tuned=AT_ONCE):
        await town.says(ZHANG, f"{TWO_DAYS}李四")
        card = await town.card(town.dm(ZHANG))
        demote(town, ZHANG)
        await town.press(ZHANG, card, "confirm", force=True)
        await town.until(lambda: town.whispers(ZHANG))
        await town.quiet()
        assert await requests_of(town, ZHANG) == ()


async def test_a_role_that_was_taken_away_while_the_bot_runs_decides_nothing(town: Office) -> None:
    """By an edit of the directory file, read without a restart; and given back likewise."""
    async with town.opened(tuned=AT_ONCE):
        await town.says(ZHANG, LARGE)
        await town.press(ZHANG, await town.card(town.dm(ZHANG)), "confirm")
        await town.press(LI, await town.card(town.dm(LI), "E-0001"), "approve")
        card = kept(await town.card(town.dm(ZHAO), "E-0001"))
        edit(town, 'roles = ["finance"]', "roles = []")
        await town.press(ZHAO, card, "approve")
        await town.until(lambda: "By the rules as they are now Admin decides this" in town.whispers(ZHAO))
        await town.quiet()
        assert ZHAO in (await request_of(town, "E-0001")).waits_for
        assert await times_told(town, "approval.refused", person=ZHAO) == 1
        assert "approve" in read_message_text(card).lower() or town.cards(town.dm(ZHAO)), "the card stays as it was"
        edit(town, "roles = []", 'roles = ["finance"]')
        await town.press(ZHAO, card, "approve")
        await town.until(lambda: not town.cards(town.dm(ZHAO)))


async def test_another_manager_in_the_file_decides_and_the_one_before_can_hand_it_on(town: Office) -> None:
    async with town.opened(tuned=AT_ONCE):
        await town.request_leave(ZHANG, f"{TWO_DAYS}李四")
        card = kept(await town.card(town.dm(LI), "L-0001"))
        edit(town, 'manager = "lisi@example.com"', 'manager = "zhouba@example.com"')
        await town.press(LI, card, "approve")
        await town.until(lambda: "这一步由周八审批，不再由李四审批" in town.whispers(LI))
        await town.press(LI, card, "transfer")
        await town.fill(LI, person=ZHOU.id)
        await town.press(ZHOU.id, await town.card(town.dm(ZHOU.id), "L-0001"), "approve")
        await town.until(lambda: "您的请假申请 L-0001 已通过" in town.said(town.dm(ZHANG)))


async def test_while_slack_does_not_say_who_somebody_is_their_press_waits(town: Office) -> None:
    async with town.opened(tuned=AT_ONCE):
        await town.request_leave(ZHANG, f"{TWO_DAYS}李四")
        card = await town.card(town.dm(LI), "L-0001")
        town.driver.fail_next_call("users.info", 500, times=6)
        await town.press(LI, card, "approve")
        await town.until(lambda: "您的请假申请 L-0001 已通过" in town.said(town.dm(ZHANG)))
        assert await times_told(town, "approval.refused") == 0


async def test_a_broken_directory_file_leaves_everybody_as_they_were(town: Office) -> None:
    async with town.opened(tuned=AT_ONCE):
        await town.request_leave(ZHANG, f"{TWO_DAYS}李四")
        town.directory_file.write_text("[[person]\nbroken", encoding="utf-8")
        await town.press(LI, await town.card(town.dm(LI), "L-0001"), "approve")
        await town.until(lambda: "您的请假申请 L-0001 已通过" in town.said(town.dm(ZHANG)))


async def test_several_claims_that_reach_the_threshold_together_are_pointed_out(town: Office) -> None:
    async with town.opened():
        for n in (1, 2):
            await town.says(ZHANG, f"报销 60{n} 元餐饮费，请客户吃饭，审批人李四")
            await town.press(ZHANG, await town.card(town.dm(ZHANG), f"60{n}"), "confirm")
            await town.card(town.dm(LI), f"E-000{n}")
        first, second = [await town.card(town.dm(LI), f"E-000{n}") for n in (1, 2)]
        assert "请注意" not in facts_of(first)
        assert facts_of(second)["请注意"] == "连同这一笔，30 天内共有 2 笔报销（餐饮），合计 1203.00 CNY"
