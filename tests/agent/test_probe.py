"""What a model can do is asked once, over a real connection, and remembered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from bot.agent.formats.json_format import JsonFormat
from bot.agent.models.openai_model import open_model
from bot.agent.probe import WEEK_MS, FormatSetting, choose_formats
from tests.stories.endpoint import Raw, called, endpoint, said

ECHO, OBJECT, CHAT = called(("echo", '{"word": "hello"}')), said('{"word": "hello"}'), said("Hello!")
REFUSED, AWAY = Raw(status=400), Raw(status=503)


@dataclass
class Notes:
    """A memory."""

    known: dict[str, str] = field(default_factory=dict)

    async def load_text(self, name: str) -> str | None:
        return self.known.get(name)

    async def save_text(self, name: str, text: str, ms: int) -> None:
        assert ms == WEEK_MS
        self.known[name] = text


async def found(wish: FormatSetting, answers: Sequence[Raw], notes: Notes) -> tuple[list[str], bool, int]:
    """(styles, is JSON mode used, how often the model was asked)."""
    async with endpoint(answers, past_end=Raw(status=500)) as model:
        async with open_model(model.url, "k", "m", retries=0) as client:
            styles = await choose_formats(wish, client, notes, "endpoint m")
        mode = any(one.mode for one in styles if isinstance(one, JsonFormat))
        return [one.name for one in styles], mode, len(model.asked)


async def test_the_first_style_that_works_is_taken_and_asked_for_once(subtests: pytest.Subtests) -> None:
    for answers, first, mode in [
        ([ECHO, CHAT, OBJECT], "native", True),
        ([ECHO, CHAT, REFUSED], "native", False),
        ([ECHO, REFUSED, OBJECT], "json", True),
        ([CHAT, OBJECT], "json", True),
        ([REFUSED, OBJECT], "json", True),
        ([CHAT, CHAT], "text", False),
        ([REFUSED, REFUSED], "text", False),
        ([called(("shout", "{}")), said("")], "text", False),
    ]:
        with subtests.test(answers=answers):
            notes = Notes()
            names, used, asked = await found("auto", answers, notes)
            assert (names[0], used, asked) == (first, mode, len(answers)) and sorted(names) == [
                "json",
                "native",
                "text",
            ]
            assert await found("auto", [], notes) == (names, used, 0), "remembered"


@pytest.mark.parametrize("answers", [[AWAY], [ECHO, AWAY], [ECHO, CHAT, AWAY]])
async def test_a_model_that_is_away_is_asked_again_at_the_next_start(answers: Sequence[Raw]) -> None:
    notes = Notes()
    names, used, _ = await found("auto", answers, notes)
    assert (names[0], used) == ("native", False) and notes.known == {}
    assert (await found("auto", [CHAT, OBJECT], notes))[0][0] == "json"


@pytest.mark.parametrize(("wish", "asked"), [("native", 0), ("text", 0), ("json", 2)])
async def test_a_style_that_is_wished_for_is_taken_whatever_works(wish: FormatSetting, asked: int) -> None:
    names, used, times = await found(wish, [CHAT, OBJECT], Notes())
    assert (names[0], times) == (wish, asked) and used == (wish == "json"), "JSON mode only where it works"
