"""The morning list: one message per working day, in each person's time zone, updated while it changes, never two."""

from typing import Any

from bot.dev.evaluation.shown_blocks import read_message_text
from tests.harness.office import LI, WANG, ZHANG, Office
from tests.stories.sets import start_claims


def lists(desk: Office, person: str) -> list[dict[str, Any]]:
    """List the morning lists of a person, oldest first."""
    begins = ("日早间清单：", "morning list for")
    return [m for m in desk.posts(desk.dm(person)) if any(words in read_message_text(m) for words in begins)]


async def test_who_wants_none_gets_none(empty: Office) -> None:
    async with empty.opened():
        await start_claims(empty, 11)
        assert "has not switched on morning lists" in await empty.answer(WANG, "morning list on")
    async with empty.opened(morning_list="23:59"):
        assert "不再给您发早间清单" in await empty.answer(LI, "关闭早间清单")
        assert "早间清单：您已关闭" in await empty.answer(LI, "设置")
        assert "早间清单：工作日 23:59" in await empty.answer(ZHANG, "设置")
    async with empty.opened(morning_list="09:30"):
        await empty.until(lambda: lists(empty, ZHANG))
        await empty.quiet()
        assert not lists(empty, LI) and not lists(empty, WANG)
        assert "每个工作日 09:30" in await empty.answer(LI, "打开早间清单")
