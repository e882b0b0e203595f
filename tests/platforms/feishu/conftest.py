"""What many tests of Feishu ask for: the bot's ears, and a desk from which it posts."""

from tests.platforms.feishu.ears_desk import ears
from tests.platforms.feishu.sending_desk import desk

__all__ = ["desk", "ears"]
