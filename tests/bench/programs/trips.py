"""Counts Redis round trips: of a plain message, of a run with steps, of a press. Prints them as JSON.

Counted is each time something is sent to Redis while the message or the press is put into its lane, and by the task
that serves this lane; not what the worker does anyway, nor what the workflow engine behind a tool stores.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from typing import Any
from unittest.mock import patch

from redis.asyncio.connection import AbstractConnection

from bot.agent.model import ModelReply, RawToolCall
from bot.app import engine, resources
from bot.app.build import Application
from bot.chat.messages import Card, Click, Message, MessageRef, Place, Post
from tests.bench.job import Job
from tests.bench.programs.ours import ANN, Endings, Nowhere, nowhere, working
from tests.bench.programs.paused import FORM
from tests.harness.memory_store import MemoryStore
from tools.catalog import TOOLS

STEPS = 6
PUTTING = "putting"
"""Name of the task that puts something into a lane. The worker names its own after their lanes."""
SENT: Counter[str] = Counter()
"""Name of a task → how often it sent something."""


class Ordered:
    """A model that does what the message says: `plain`, `steps` or `leave <fortnights>`."""

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        said = [json.loads(one) for one in messages]
        begun = max(number for number, one in enumerate(said) if one["role"] == "user")
        step, order = len(said[begun:]) // 2, str(said[begun]["content"])
        if "steps" in order and step < STEPS:
            return _call(step, "list_people", {"name": f"Ann {step}"})
        if (leave := re.search(r"leave (\d+)", order)) and step == 0:
            return _call(step, "start_process", {"process": "leave", "form": _form(int(leave[1]))})
        return ModelReply(text="Done.")


def _form(fortnights: int) -> dict[str, str]:
    """A leave so many fortnights later: nobody is on leave twice at once."""
    later = {k: date.fromisoformat(FORM[k]) + timedelta(weeks=2 * fortnights) for k in ("start_date", "end_date")}
    return {**FORM, **{k: str(day) for k, day in later.items()}}


def _call(step: int, name: str, args: dict[str, Any]) -> ModelReply:
    arguments = json.dumps({"reason": "It has to be known.", **args})
    return ModelReply(calls=(RawToolCall(f"call_{step:024d}", name, arguments),), finish="tool_calls")


class Cards(Nowhere):
    """Keeps the card that was posted last."""

    card: Card | None = None

    async def post_message(
        self, place: Place, post: Post, *, key: str, again: bool = False, wait_ms: int | None = None
    ) -> MessageRef:
        self.card = post.card if post.card is not None and post.card.buttons else self.card
        return await super().post_message(place, post, key=key, again=again, wait_ms=wait_ms)


@contextmanager
def counting() -> Iterator[None]:
    """Whatever is sent is counted."""
    send = AbstractConnection.send_packed_command

    async def counted(self: AbstractConnection, *args: Any, **more: Any) -> None:
        task = asyncio.current_task()
        SENT[task.get_name() if task else ""] += 1
        await send(self, *args, **more)

    with patch.object(AbstractConnection, "send_packed_command", counted):
        yield


async def sent_for(bot: Application, lane: str, putting: Coroutine[Any, Any, None]) -> int:
    """Round trips of putting something into this lane, and of handling it to its end."""
    await quiet(bot)
    SENT.clear()
    await asyncio.create_task(putting, name=PUTTING)
    await quiet(bot)
    if not SENT[f"lane {lane}"]:
        raise ValueError(f"{lane} was served by none of {dict(SENT)}")
    return SENT[PUTTING] + SENT[f"lane {lane}"]


async def quiet(bot: Application) -> None:
    """What follows from something may begin a moment later."""
    for _ in range(3):
        await asyncio.sleep(0.03)
        while bot.worker.active_lane_count:
            await asyncio.sleep(0.005)


async def counted(job: Job) -> dict[str, float]:
    cards = Cards(Endings())
    with (
        patch.object(resources, "_open_slack", lambda *given: nowhere(cards, given[2])),
        patch.object(engine, "RedisStore", lambda _, **more: MemoryStore()),
    ):
        async with working(job, TOOLS, Ordered()) as bot:
            with counting():
                for number in range(2):  # the first ones open connections and load scripts
                    plain = await wrote(bot, _message(number, "plain"))
                    steps = await wrote(bot, _message(10 + number, "steps"))
                    await wrote(bot, _message(20 + number, f"leave {number}"))
                    press = _press(cards.card)
                    decision = await sent_for(bot, press.approval, bot.ingress.accept_click(press))
    return {"plain": plain, "step": (steps - plain) / STEPS, "decision": decision}


async def wrote(bot: Application, message: Message) -> int:
    return await sent_for(bot, message.place.conversation, bot.ingress.accept_message(message))


def _message(number: int, text: str) -> Message:
    place = Place(team="T1", channel=f"D{number:07d}", thread=f"{number}.0", direct=True)
    return Message(id=f"Ev{number}", place=place, person=ANN.id, text=text, at=f"{number}.0")


def _press(card: Card | None) -> Click:
    if card is None:
        raise ValueError("no card was brought")
    button = next(one for one in card.buttons if one.choice == "confirm")
    place = Place(team="T1", channel="D0000020", direct=True)
    press = f"{button.approval}.{button.version}"
    return Click(
        id=press,
        approval=button.approval,
        version=button.version,
        choice="confirm",
        person=ANN.id,
        place=place,
    )


if __name__ == "__main__":
    print(json.dumps(asyncio.run(counted(Job(**json.loads(sys.argv[1]))))), flush=True)
