"""The length of a first request to a model."""

from collections.abc import Sequence

import pytest

from bot.agent.model import ModelReply
from tests.harness.office import ZHANG, Office
from tests.harness.scripted_model import ScriptedModel
from tests.stories.script import DONE


class Measured(ScriptedModel):
    """A model that keeps the text of its first request."""

    sent: str = ""

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        self.sent = self.sent or ",".join(messages) + extra
        return await super().request_reply(messages, extra, timeout_s=timeout_s)


@pytest.mark.parametrize("style", ["native", "text"])
async def test_the_first_request_is_short(empty: Office, style: str) -> None:
    """Count rules, tools, the company's table, the speaker and their words, in the tokens of OpenAI's models."""
    encoding = pytest.importorskip("bpe_openai").get_encoding("o200k_base")
    model = Measured([DONE if style == "native" else ModelReply(text="Thought: 好\nFinal Answer: 好的。")])
    async with empty.opened(model=model, react_style=style):
        await empty.answer(ZHANG, "我肚子疼，从明天起请 10 天假")
    found = len(encoding.encode(model.sent))
    print(f"{style}: {found} tokens in the first request")
    assert "肚子疼" in model.sent and "start_leave" in model.sent and found <= 5_000
