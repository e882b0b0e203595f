"""Final answers of a lab, and a model that knows how far its run has come."""

from __future__ import annotations

from bot.agent.model import Messages, ModelReply
from tests.harness.lab import Lab
from tests.harness.scripted_model import Scripted


def by_results(*replies: ModelReply) -> Scripted:
    """A model that knows how far it has come, however often it is asked."""

    async def reply(messages: Messages) -> ModelReply:
        return replies[len([one for one in messages if one["role"] == "tool"])]

    return reply


def answers(lab: Lab) -> list[str]:
    return [one.post.text for one in lab.wall.said if one.key.endswith(":final")]
