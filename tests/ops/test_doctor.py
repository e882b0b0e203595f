"""What doctor says of a Slack that is crowded or goes away between two looks."""

from dataclasses import replace

import pytest

from bot.ops.doctor import check_services
from tests.harness.memory_bot import OUTSIDE
from tests.platforms.slack.doubles import TOKEN, slack


@pytest.mark.parametrize(("faults", "words"), [([0.01], "scopes missing"), (["drop"] * 3, "unreachable")])
async def test_a_slack_that_fails_at_the_look_at_its_scopes_is_a_finding(faults: list[str | float], words: str) -> None:
    async with slack() as here:
        here.faults["auth.test"] = ["", *faults]
        services = replace(OUTSIDE, slack_api_url=here.url, bot_token=TOKEN, standins=("model", "fallback", "mail"))
        found = [one async for one in check_services(services, "native")]
    assert [one.subject for one in found][-1] == "pictures", "the rest is looked at all the same"
    assert [one.level for one in found if words in one.text] == ["fail"], found
