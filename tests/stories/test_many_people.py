"""All of Slack hangs: known people do not wait for it."""

from tests.harness.office import LI, ZHANG, Office

FOR_EVER_S = 600.0
"""Longer than any test waits (s)."""


async def test_who_writes_before_the_list_is_there_is_answered(empty: Office) -> None:
    """The writer is looked up alone. Work that needs all people waits, because a name may belong to several of them."""
    empty.driver.delay_answers(FOR_EVER_S, "users.list")
    async with empty.opened():
        await empty.says(ZHANG, "帮助")
        await empty.until(lambda: empty.said(empty.dm(ZHANG)))
        assert any(ZHANG in one.args.values() for one in empty.driver.calls if one.method == "users.info")
        await empty.says(ZHANG, "明天起请2天年假，去看父母，审批人李四")
        await empty.answer(LI, "帮助")  # Li Si came later and is answered
        assert not empty.cards(empty.dm(ZHANG)), "the control: whose name it is cannot be known yet"
