"""Greetings, and the answers to them: neither asks for anything."""

from __future__ import annotations

import re

from bot.core.records import Run, RunResult

GREETING = re.compile(
    r"(?:[\s,，.。!！~～、]|(?:你|您|大家)?好(?:的|呀|啊)?|早(?:上好|安)?|晚上好|下午好|在吗|嗨|谢+了?|多谢|辛苦了?|感谢|收到|明白了?|再见|拜拜"
    r"|hi|hello|hey|good (?:morning|afternoon|evening)|thanks?|thank you|thx|ok(?:ay)?|bye|there|so much|a lot"
    r"|[\U0001f300-\U0001faff\u2600-\u27bf\ufe0f])*+",
    re.IGNORECASE,
)
"""A message that asks for nothing."""
MAX_GREETING = 40
"""Longest greeting, in characters."""


def is_greeting(text: str) -> bool:
    return len(text) <= MAX_GREETING and GREETING.fullmatch(text.strip()) is not None


def is_small_talk(run: Run, result: RunResult) -> bool:
    """True for an answer to a greeting that looked nothing up, did nothing, and claims nothing else."""
    has_content = run.state.calls or run.receipt_lines or result.stop_reason or result.unverified
    return not has_content and is_greeting(run.message.text.strip())
