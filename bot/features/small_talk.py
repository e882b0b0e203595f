"""An answer to a greeting gets no receipt: nobody has asked for anything."""

from __future__ import annotations

from dataclasses import replace

from bot.chat.messages import Post
from bot.core.records import Run, RunResult
from bot.features.contract import Core, Feature
from bot.features.greetings import is_small_talk


def build(core: Core) -> Feature:
    return Feature(complete_answer=remove_receipt)


async def remove_receipt(_: object, run: Run, result: RunResult, post: Post, is_here: bool) -> Post:
    return replace(post, receipt="") if is_small_talk(run, result) else post
