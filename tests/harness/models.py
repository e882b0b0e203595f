"""Runs with a real model client: its lessons about its endpoint, and their memory."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bot.agent.formats.native_format import NativeFormat
from bot.agent.formats.text_format import TextFormat
from bot.agent.loop import AgentLoop, ModelInUse, RunEvent
from bot.agent.models.client import ErrorResponse
from bot.agent.models.model_profile import PROFILE_RECORD, WEEK_MS, ModelProfile, RefusedRequest
from bot.agent.models.openai_model import OpenAIModel
from bot.core.run_state import RunState
from tests.harness.loop import Bench, run_loop


@dataclass
class Notes:
    """A memory that all processes share."""

    known: dict[str, str] = field(default_factory=dict)

    async def load_text(self, name: str) -> str | None:
        return self.known.get(name)

    async def save_text(self, name: str, text: str, ms: int) -> None:
        assert ms == WEEK_MS
        self.known[name] = text

    @property
    def lessons(self) -> ModelProfile:
        [text] = self.known.values()
        return PROFILE_RECORD.validate_json(text)


def fresh(text: str = "hello") -> RunState:
    return RunState(messages=[json.dumps({"role": "user", "content": text})])


async def run(model: Any, trace: RunState, head: Sequence[str] = ()) -> tuple[list[RunEvent], Bench]:
    bench = Bench()
    loop = AgentLoop(ModelInUse(model, formats=(NativeFormat(), TextFormat())), bench.tools())
    return await run_loop(loop, trace, head=head), bench


LEARNED: dict[str, ModelProfile] = {
    "only_responses": ModelProfile("responses"),
    "paired": ModelProfile("responses"),
    "no_include": ModelProfile("responses", unsupported=frozenset({"include"})),
    "thinking": ModelProfile(returned=frozenset({"reasoning_content"})),
    "signed": ModelProfile(returned=frozenset({"extra_content"})),
    "other_key": ModelProfile("responses"),
    "wrapped": ModelProfile(unsupported=frozenset({"temperature"})),
    "stream_only": ModelProfile(streams=True),
    "cut": ModelProfile("responses"),
    "bad_schema": ModelProfile(refused_tools=frozenset({"pay"})),
    "no_responses": ModelProfile(missing_apis=frozenset({"responses"}), effort="none"),
}


class Deaf(OpenAIModel):
    """A client that learns nothing."""

    async def _update_profile(self, refusal: ErrorResponse, request: RefusedRequest) -> bool:
        return False
