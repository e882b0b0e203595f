"""The models that scenarios are played with, each behind the one port, and what was said to them and by them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from bot.errors import ModelDown, ModelRefused
from bot.evaluation.scenario import Scripted, Style
from bot.evaluation.speaking import spoken
from bot.react.model import Model, Reply
from bot.react.probe import OBJECT, WORD


class OutOfScript(ModelRefused):
    """More was asked of a scripted model than its scenario has replies for."""


@dataclass
class Playing:
    """A scripted model: its scenario's replies, in order."""

    script: list[Scripted]
    style: Style
    wanting: int = 0
    """How often it was asked past its end."""

    async def reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> Reply:
        if probed(messages):
            return Reply(text="Hello!")
        if not self.script:
            self.wanting += 1
            raise OutOfScript("the script has ended")
        one = self.script.pop(0)
        if one.down:
            raise ModelDown("scripted")
        if one.refused:
            raise ModelRefused("scripted")
        return spoken(one, self.style, messages, extra)


def probed(messages: Sequence[str]) -> bool:
    """The bot asks at its start what the model can do (`bot.react.probe`): no part of any story."""
    return len(messages) == 1 and json.loads(f"[{messages[0]}]")[-1].get("content") in (WORD, OBJECT)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its reply, as they are shown in a transcript."""

    asked: str
    """What was new in the request: its last message."""
    said: str
    ms: float


@dataclass
class Recorded:
    """A model with a record of what it was asked and what it said."""

    model: Model
    exchanges: list[Exchange] = field(default_factory=list)

    async def reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> Reply:
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            reply = await self.model.reply(messages, extra, timeout_s=timeout_s)
        except (ModelDown, ModelRefused) as error:
            self._note(messages, f"({type(error).__name__}: {error})", clock() - began)
            raise
        calls = [f"{call.name} {call.arguments}" for call in reply.calls]
        said = "\n".join(filter(None, [reply.text, reply.refusal, *calls]))
        self._note(messages, f"{said} [{reply.finish}]", clock() - began)
        return reply

    def _note(self, messages: Sequence[str], said: str, seconds: float) -> None:
        last = json.loads(f"[{messages[-1]}]")[-1] if messages else {}
        asked = f"{last.get('role', '')}: {last.get('content') or ''}"
        self.exchanges.append(Exchange(asked, said, seconds * 1000))
