"""The bot's core at work for people who write again and again, and now and then hand in an expense that they confirm
and their lead approves. Told how many runs to make, it makes them, waits until nothing is left to do, and says so.

Run as `python -m tests.bench.programs.year JOB PEOPLE`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import patch

from bot.agent.model import ModelReply, RawToolCall
from bot.app import build, resources
from bot.app.build import Application
from bot.chat.messages import Card, Click, Message, MessageRef, Place, Post
from bot.evaluation.environment import has_pending_work
from bot.storage.retention import build_trim_job
from tests.bench import town
from tests.bench.clerk import Clerk
from tests.bench.job import Job
from tests.bench.lines import lines
from tests.bench.programs.ours import Endings, Nowhere, Staff, nowhere, working
from tools.catalog import TOOLS
from tools.spec import Caller, Person

AT_ONCE = 40
EXPENSE_EVERY, LOOK_EVERY = 20, 4
"""Of a person's messages: the others are answered at once."""
HOURLY_S = 1.0
LOOK_S = 0.005
PATIENCE_S = 60.0
TALK = "By the way, this is what I have in front of me, so that you know what it is about and need not ask for it. "
"""Makes a message as long as people's messages are: a conversation soon holds as much as it may."""


class Company(Staff):
    """As the people of a town are led."""

    def __init__(self, count: int) -> None:
        self.everybody = tuple(map(_build_person, range(count)))
        self.people = {person.id: person for person in self.everybody}

    def find_known_person(self, person: str) -> Person | None:
        return self.people.get(person)

    async def list_people(self) -> tuple[Person, ...]:
        return self.everybody

    async def find_caller(self, person: str) -> Caller | None:
        found = self.people.get(person)
        return Caller(found) if found else None


def _build_person(number: int) -> Person:
    return Person(
        id=town.build_person_id(number),
        name=f"Person {number}",
        email=f"p{number}@example.com",
        manager=town.build_person_id(town.get_manager(number)),
        roles=frozenset({"director", "finance"} if number < town.DIRECTORS else ()),
    )


class Scripted:
    """The model does what a message says."""

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        said = Clerk().reply(json.loads(f"[{','.join(messages)}]"))
        calls = tuple(
            RawToolCall(one["id"], one["function"]["name"], one["function"]["arguments"])
            for one in said.get("tool_calls", ())
        )
        return ModelReply(text=said["content"] or "", calls=calls, tokens_in=700, tokens_out=30)


@dataclass
class Desk(Nowhere):
    """A platform whose people press whatever they are shown."""

    bot: Application | None = None
    pressing: set[asyncio.Task[Any]] = field(default_factory=set)

    async def post_message(
        self, place: Place, post: Post, *, key: str, again: bool = False, wait_ms: int | None = None
    ) -> MessageRef:
        ref = await super().post_message(place, post, key=key, again=again, wait_ms=wait_ms)
        if post.card is not None:
            self._press(post.card, place, ref)
        return ref

    async def open_dm(self, person: str) -> Place:
        return find_dm(person)

    def _press(self, card: Card, place: Place, ref: MessageRef) -> None:
        button = next((one for one in card.buttons if one.choice in ("confirm", "approve")), None)
        if button is None or self.bot is None:
            return
        click = Click(
            id=f"{button.approval}.{button.version}.{button.choice}", approval=button.approval, version=button.version,
            choice=button.choice, person=f"U{place.channel[1:]}", place=place, card=ref, seal=button.seal,
        )  # fmt: skip
        task = asyncio.create_task(self.bot.ingress.accept_click(click))
        self.pressing.add(task)
        task.add_done_callback(self.pressing.discard)


def find_dm(person: str) -> Place:
    return Place(team="T1", channel=f"D{person[1:]}", direct=True)


@dataclass
class Year:
    """`people`: how many write."""

    bot: Application
    desk: Desk
    people: int

    async def make_runs(self, first: int, count: int) -> int:
        """How many did not end with an answer."""
        numbers, failed = iter(range(first, first + count)), 0

        async def one_after_another() -> None:
            nonlocal failed
            for number in numbers:
                failed += not await self._make_run(number)

        await asyncio.gather(*(one_after_another() for _ in range(min(AT_ONCE, self.people))))
        async with asyncio.timeout(PATIENCE_S):
            while self.desk.pressing or await has_pending_work(self.bot):
                await asyncio.sleep(LOOK_S)
        return failed

    async def _make_run(self, number: int) -> bool:
        writer, round_ = number % self.people, number // self.people
        order = f"#c{number}-0 {'plain' if (round_ + writer) % LOOK_EVERY else 'look'}"
        if (round_ + writer) % EXPENSE_EVERY == 0:
            order = f"#c{number}-0 expense {town.build_person_id(town.get_manager(writer))} {10 + number % 80}"
        place = find_dm(town.build_person_id(writer))
        ending = self.desk.endings.of(place)
        message = Message(
            id=f"Ev{number}", place=place, person=f"U{place.channel[1:]}", text=f"{order} {TALK * 4}", at=f"{number}.0"
        )
        await self.bot.ingress.accept_message(message, aliases=(f"at:{place.channel}:{number}",))
        async with asyncio.timeout(PATIENCE_S):
            return "answer" in await ending


@asynccontextmanager
async def opened(job: Job, people: int) -> AsyncIterator[Year]:
    desk, company = Desk(Endings()), Company(people)
    async with AsyncExitStack() as stack:
        stack.enter_context(patch.object(resources, "_open_slack", lambda *given: nowhere(desk, given[2], company)))
        stack.enter_context(patch.object(build, "build_trim_job", partial(build_trim_job, pause_s=HOURLY_S)))
        desk.bot = await stack.enter_async_context(working(job, TOOLS, Scripted()))
        yield Year(desk.bot, desk, people)


async def work(job: Job, people: int) -> None:
    async with opened(job, people) as year:
        print(json.dumps({"ready": True}), flush=True)
        async for line in lines():
            order = json.loads(line)
            print(json.dumps({"failed": await year.make_runs(order["first"], order["count"])}), flush=True)


if __name__ == "__main__":
    asyncio.run(work(Job(**json.loads(sys.argv[1])), int(sys.argv[2])))
