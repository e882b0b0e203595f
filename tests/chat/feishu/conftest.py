"""What many tests of Feishu ask for: the bot's ears, and a desk from which it posts."""

from tests.chat.feishu.ears_desk import ears
from tests.chat.feishu.sending_desk import desk

__all__ = ["desk", "ears"]
