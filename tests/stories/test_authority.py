"""The person of a press, and the person of an approver: told through the whole bot."""

from pathlib import Path

from bot.dev.workspace.world import WorkspaceMember
from tests.harness.office import LI, ZHANG, ZHAO, Office, name_id, office
from tests.harness.programs import ran
from tests.stories.behind import facts_of, kept, request_of, times_told

FRIEND = WorkspaceMember(name_id("U06SUN"), "sunqi", "孙七", email="sunqi@example.com", locale="zh-CN")
FINANCE = ('roles = ["finance"]', "roles = []")


async def test_a_choice_that_a_row_permits_is_flagged_on_both_cards_and_in_the_audit(
    valkey: str, tmp_path: Path
) -> None:
    """In a company whose people may choose their approver."""
    flag, file = "审批人不是规则指定的人，由申请人自选", tmp_path / "policy.toml"
    file.write_text('[[policy]]\nprocess = "leave"\nlevel = "approver"\nwho = ["manager"]\nothers = "flagged"\n')
    async with office(valkey, more=(FRIEND,)) as town:
        with town.directory_file.open("a") as directory:
            directory.write('\n[[person]]\nemail = "sunqi@example.com"\n')
        async with town.opened(policy_file=file):
            await town.says(ZHANG, "明天起请2天年假，去看父母，审批人孙七")
            card = await town.card(town.dm(ZHANG))
            assert facts_of(card)["请注意"] == flag
            await town.press(ZHANG, card, "confirm")
            theirs = await town.card(town.dm(FRIEND.id), "L-0001")
            assert facts_of(theirs)["请注意"] == flag
            await town.press(FRIEND.id, theirs, "approve")
            await town.until(lambda: "您的请假申请 L-0001 已通过" in town.said(town.dm(ZHANG)))
            env = {"REDIS_URL": town.redis_url, "LANG": "en_US.UTF-8", "COLUMNS": "250"}
            audit = ("audit", "--since", "2026-11-01")
            plain, table = await ran(*audit, "--json", cwd=tmp_path, env=env), await ran(*audit, cwd=tmp_path, env=env)
    assert f'"flags": "exception approver={FRIEND.id} rules={LI}"' in plain.out, plain
    assert "approver not named by the rules" in " ".join(table.out.split()), table


async def test_a_role_that_was_taken_away_while_the_bot_runs_decides_nothing(empty: Office) -> None:
    """The role is removed by an edit of the directory file, read without a restart, and returned likewise."""
    whole = empty.directory_file.read_text(encoding="utf-8")
    assert FINANCE[0] in whole
    async with empty.opened(tuned={"person_max_age_s": 0.0}):  # thirty seconds are too long for a story
        await empty.says(ZHANG, "报销 1500 元差旅费，去上海开会，审批人李四")
        await empty.press(ZHANG, await empty.card(empty.dm(ZHANG)), "confirm")
        await empty.press(LI, await empty.card(empty.dm(LI), "E-0001"), "approve")
        card = kept(await empty.card(empty.dm(ZHAO), "E-0001"))
        empty.directory_file.write_text(whole.replace(*FINANCE), encoding="utf-8")
        await empty.press(ZHAO, card, "approve")
        await empty.until(lambda: "The rules now name Admin for this step" in empty.whispers(ZHAO))
        await empty.quiet()
        assert ZHAO in (await request_of(empty, "E-0001")).waits_for
        assert await times_told(empty, "approval.refused", person=ZHAO) == 1
        assert empty.cards(empty.dm(ZHAO)), "the card stays as it was"
        empty.directory_file.write_text(whole, encoding="utf-8")
        await empty.press(ZHAO, card, "approve")
        await empty.until(lambda: not empty.cards(empty.dm(ZHAO)))
