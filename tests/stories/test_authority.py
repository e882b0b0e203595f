"""The person of a press, and the person of an approver: told through the whole bot."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.dev.workspace.world import WorkspaceMember
from tests.harness.office import DEMO, LI, ZHANG, ZHAO, Office, name_id, office, read_message_text
from tests.harness.programs import ran
from tests.stories.behind import facts_of, kept, request_of, times_told

TWO_DAYS = "明天起请2天年假，去看父母，审批人"
LARGE = "报销 1500 元差旅费，去上海开会，审批人李四"
CHOICE = '[[policy]]\nprocess = "leave"\nlevel = "approver"\nwho = ["manager"]\nothers = "flagged"\n'
AT_ONCE = {"person_max_age_s": 0.0}
"""Everybody who decides is looked up again: thirty seconds are too long for a story."""


def member(id: str, name: str, real_name: str) -> WorkspaceMember:
    return WorkspaceMember(
        id=name_id(id), name=name, real_name=real_name, email=f"{name}@example.com", locale="zh-CN", tz="Asia/Shanghai"
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
    """An office with two more people and its own directory file; without a bot."""
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
    """Edit the directory file, as an administrator."""
    text = town.directory_file.read_text(encoding="utf-8")
    assert before in text
    town.directory_file.write_text(text.replace(before, after), encoding="utf-8")


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
        audit = ("audit", "--since", "2026-11-01")
        plain, table = await ran(*audit, "--json", cwd=tmp_path, env=env), await ran(*audit, cwd=tmp_path, env=env)
    assert f'"flags": "exception approver={SUN.id} rules={LI}"' in plain.out, plain
    assert "approver not named by the rules" in " ".join(table.out.split()), table


async def test_a_role_that_was_taken_away_while_the_bot_runs_decides_nothing(town: Office) -> None:
    """The role is removed by an edit of the directory file, read without a restart, and returned likewise."""
    async with town.opened(tuned=AT_ONCE):
        await town.says(ZHANG, LARGE)
        await town.press(ZHANG, await town.card(town.dm(ZHANG)), "confirm")
        await town.press(LI, await town.card(town.dm(LI), "E-0001"), "approve")
        card = kept(await town.card(town.dm(ZHAO), "E-0001"))
        edit(town, 'roles = ["finance"]', "roles = []")
        await town.press(ZHAO, card, "approve")
        await town.until(lambda: "The rules now name Admin for this step" in town.whispers(ZHAO))
        await town.quiet()
        assert ZHAO in (await request_of(town, "E-0001")).waits_for
        assert await times_told(town, "approval.refused", person=ZHAO) == 1
        assert "approve" in read_message_text(card).lower() or town.cards(town.dm(ZHAO)), "the card stays as it was"
        edit(town, "roles = []", 'roles = ["finance"]')
        await town.press(ZHAO, card, "approve")
        await town.until(lambda: not town.cards(town.dm(ZHAO)))
