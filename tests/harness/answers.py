"""Final answers of a bot, and a model that follows the progress of its run."""

from bot.agent.model import Messages, ModelReply
from tests.harness.memory_bot import Bot
from tests.harness.memory_platform import DM
from tests.harness.scripted_model import Scripted


def by_results(*replies: ModelReply) -> Scripted:
    """A model that picks its reply by the number of results so far, however often it is asked."""

    async def reply(messages: Messages) -> ModelReply:
        return replies[len([one for one in messages if one["role"] == "tool"])]

    return reply


def answers(bot: Bot, channel: str = DM.channel) -> list[str]:
    return [one.post.text for one in bot.chat.posts if one.key.endswith(":final") and one.place.channel == channel]
