"""Runs that wait: seven look-ups and a leave request that needs a button, with the real tools and a scripted model."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

from bot.agent.model import ModelReply, RawToolCall
from bot.app import resources
from bot.chat.messages import MessageRef, Place, Post
from tests.bench import job as bench
from tests.bench.job import Job
from tests.bench.kept import STEPS
from tests.bench.programs.ours import BOB, PACKAGES, Endings, Nowhere, Ours, nowhere, working
from tools.catalog import TOOLS

WEEK = datetime.now(UTC).date() + timedelta(days=28)
FORM = {
    "leave_type": "annual",
    "start_date": WEEK.isoformat(),
    "end_date": (WEEK + timedelta(days=7)).isoformat(),
    "reason": "A holiday with the family",
    "approver": BOB.id,
}


class Asking:
    """A model that looks seven people up, one after another, then asks for leave."""

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        step = sum(json.loads(one)["role"] == "tool" for one in messages)
        name, args = "start_process", dict[str, Any](process="leave", form=FORM)
        if step < STEPS - 1:
            name, args = "list_people", {"name": f"Ann {step}"}
        arguments = json.dumps({"reason": "I look up who that is before I ask.", **args})
        return ModelReply(
            calls=(RawToolCall(f"call_{step:024d}", name, arguments),), finish="tool_calls", tokens_in=700
        )


class Cards(Nowhere):
    """A run has come as far as it can when its card is posted."""

    async def post_message(
        self, place: Place, post: Post, *, key: str, again: bool = False, wait_ms: int | None = None
    ) -> MessageRef:
        if post.card is not None and (ending := self.endings.waiting.pop(place.conversation, None)):
            ending.set_result(f"card: {post.text}")
        return await super().post_message(place, post, key=key, again=again, wait_ms=wait_ms)


@asynccontextmanager
async def opened(job: Job) -> AsyncIterator[Ours]:
    endings = Endings()
    async with AsyncExitStack() as stack:
        stack.enter_context(patch.object(resources, "_open_slack", lambda *given: nowhere(Cards(endings), given[2])))
        bot = await stack.enter_async_context(working(job, TOOLS, Asking()))
        yield Ours(job, bot, endings)


if __name__ == "__main__":
    bench.main(opened, *PACKAGES)
