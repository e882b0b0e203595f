"""A model that plays a test's script."""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from bot.agent.model import Messages, ModelReply
from bot.features.grounding.feature import is_uncalled

Scripted = ModelReply | BaseException | Callable[[Messages], Awaitable[ModelReply]]


@dataclass
class ScriptedModel:
    """A model that plays replies in order: a `ModelReply`, an exception to raise, or a function of the messages. After
    the last one it answers `done`, so that a test with a missing reply sees a final answer instead of hanging."""

    script: list[Scripted]
    requests: list[Messages] = field(default_factory=list)
    model: str = ""
    """The model that has answered last."""

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        if is_uncalled(messages):
            return ModelReply(text="", model=self.model)  # the answer stands: no script has a reply to this
        self.requests.append(json.loads(f"[{','.join(messages)}]"))
        turn = self.script.pop(0) if self.script else ModelReply(text="done")
        if isinstance(turn, BaseException):
            raise turn
        reply = turn if isinstance(turn, ModelReply) else await turn(self.requests[-1])
        self.model = reply.model
        return reply
