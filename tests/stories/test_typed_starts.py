"""Requests that a model starts by the tool of their process: cards, presses and records are like those of
`start_process`."""

import json
from collections.abc import Sequence

import pytest

from bot.agent.model import ModelReply
from tests.harness.office import ZHANG, Office
from tests.harness.scripted_model import Scripted, ScriptedModel
from tests.stories.script import DONE
from tools.requests import start_tools
from tools.workflow.engine.store import RedisStore
from tools.workflow.process.definition import compile_process, load_shipped_processes


class Told(ScriptedModel):
    """A model that keeps the names of the tools that it is given."""

    def __init__(self, script: Sequence[Scripted]) -> None:
        super().__init__(list(script))
        self.given: list[list[str]] = []
        self.sent: list[str] = []
        """Whole requests, as far as they are words for the model."""

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        tools = json.loads(f"{{{extra}}}").get("tools", [])
        self.given.append([one["function"]["name"] for one in tools])
        self.sent.append(",".join(messages) + extra)
        return await super().request_reply(messages, extra, timeout_s=timeout_s)


async def test_a_process_that_is_deployed_meanwhile_has_a_tool(empty: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Told([DONE, DONE])
    monkeypatch.setattr(start_tools, "FRESH_S", 0.0)
    async with empty.opened(model=model):
        await empty.answer(ZHANG, "你好")
        expense = load_shipped_processes()[1]
        rent = compile_process(expense.bpmn, expense.toml.replace(b'key = "expense"', b'key = "rent"', 1))
        assert empty.bot is not None
        store = RedisStore(empty.bot.stores.redis)
        for version, content in zip(rent.version, (rent.bpmn, rent.toml), strict=True):
            await store.save_file(version, content)
        await store.save_deployment(rent.key, *rent.version)
        await empty.answer(ZHANG, "可以报销房租吗？")
    assert "start_rent" not in model.given[0] and "start_rent" in model.given[1]


@pytest.mark.parametrize("style", ["native", "text"])
async def test_the_first_request_is_short(empty: Office, style: str) -> None:
    """Count rules, tools, the company's table, the speaker and their words, in the tokens of OpenAI's models."""
    encoding = pytest.importorskip("bpe_openai").get_encoding("o200k_base")
    model = Told([DONE if style == "native" else ModelReply(text="Thought: 好\nFinal Answer: 好的。")])
    async with empty.opened(model=model, react_style=style):
        await empty.answer(ZHANG, "我肚子疼，从明天起请 10 天假")
    found = len(encoding.encode(model.sent[0]))
    print(f"{style}: {found} tokens in the first request")
    assert "肚子疼" in model.sent[0] and "start_leave" in model.sent[0] and found <= 5_000
