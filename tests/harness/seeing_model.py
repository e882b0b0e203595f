"""A model that sees pictures."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bot.agent.model import Messages, ModelReply
from tests.harness.budget import took


@dataclass
class SeeingModel:
    """A model that reads each picture as `reading`, and answers people by `talk`."""

    reading: str
    talk: Callable[[Messages], ModelReply]
    tokens: int = 10
    """Tokens of each picture."""
    pictures: list[Messages] = field(default_factory=list)
    talks: list[Messages] = field(default_factory=list)

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        asked: Messages = json.loads(f"[{','.join(messages)}]")
        if any(isinstance(one["content"], list) for one in asked):
            assert not extra, "who reads a picture has no tools"
            self.pictures.append(asked)
            return took(ModelReply(text=self.reading), self.tokens)
        self.talks.append(asked)
        return self.talk(asked)
