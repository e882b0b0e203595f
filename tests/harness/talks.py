"""A conversation that grows long, and a model's summary of it."""

import json

from bot.agent.model import ModelReply
from tests.harness.memory_bot import Bot

TALK = "我想了解一下公司的请假规定和报销规定，请先不要办理任何事情。" * 3 + "多谢您的帮助。"
"""A text of more than a hundred tokens."""


def notes(*lines: str, **more: object) -> ModelReply:
    return ModelReply(json.dumps({"lines": lines}, ensure_ascii=False), tokens_in=900, tokens_out=70, **more)  # type: ignore[arg-type]


async def talked(bot: Bot, times: int, *, start: int = 0, text: str = TALK) -> None:
    for n in range(start, start + times):
        await bot.send(f"{text} 第{n}条", id=f"Ev{n}")
