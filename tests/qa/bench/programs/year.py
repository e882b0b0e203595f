"""The bot's core at work for people who write again and again, and now and then hand in an expense that they confirm
and their lead approves. Told how many runs to make, it makes them, waits until nothing is left to do, and says so.

Run as `python -m tests.qa.bench.programs.year JOB PEOPLE`."""

import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from bot.agent.model import ModelReply, RawToolCall
from bot.app.build import Application
from bot.chat.messages import Card, Click, MessageRef, Place, Post
from bot.core.timing import Timing
from bot.dev.evaluation.environment import has_pending_work
from tests.harness.memory_platform import MemoryDirectory
from tests.qa.bench.job import Job
from tests.qa.bench.programs.ours import Endings, Nowhere, nowhere, tell, working
from tests.qa.chaos.model import reply
from tests.qa.company import DIRECTORS, ROLES, get_dm, get_email, get_manager, get_person_id
from tests.qa.process import read_lines
from tools.catalog import TOOLS
from tools.spec import Person

AT_ONCE = 40
EXPENSE_EVERY, LOOK_EVERY = 20, 4  # of a person's messages: the others are answered at once
HOURLY_S = 1.0
LOOK_S = 0.005
PATIENCE_S = 60.0
TALK = "By the way, this is what I have in front of me, so that you know what it is about and need not ask for it. "
"""Makes a message as long as people's messages are: a conversation soon holds as much as it may."""


class Company(MemoryDirectory):
    """As the people of a town are led."""

    def __init__(self, count: int) -> None:
        everybody = (
            Person(
                id=get_person_id(number), name=f"Person {number}", email=get_email(number),
                manager=get_person_id(get_manager(number)), roles=frozenset(ROLES if number < DIRECTORS else ()),
            )
            for number in range(count)
        )  # fmt: skip
        super().__init__(list(everybody))
        self.people, self.everybody = {person.id: person for person in self.known}, tuple(self.known)

    def find_known_person(self, person: str) -> Person | None:
        return self.people.get(person)

    async def list_people(self) -> tuple[Person, ...]:
        return self.everybody


class Scripted:
    """The model does what a message says."""

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        said = reply(json.loads(f"[{','.join(messages)}]"))
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

    async def post_message(self, place: Place, post: Post, *, key: str, **more: Any) -> MessageRef:
        ref = await super().post_message(place, post, key=key, **more)
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
    return Place(team="T1", channel=get_dm(person), direct=True)


async def make_runs(bot: Application, desk: Desk, people: int, numbers: Iterator[int]) -> int:
    """How many did not end with an answer."""

    async def one_after_another() -> int:
        return [await make_run(bot, desk, people, number) for number in numbers].count(False)

    failed = sum(await asyncio.gather(*(one_after_another() for _ in range(min(AT_ONCE, people)))))
    async with asyncio.timeout(PATIENCE_S):
        while desk.pressing or await has_pending_work(bot):
            await asyncio.sleep(LOOK_S)
    return failed


async def make_run(bot: Application, desk: Desk, people: int, number: int) -> bool:
    writer, round_ = number % people, number // people
    order = f"#c{number}-0 {'plain' if (round_ + writer) % LOOK_EVERY else 'look'}"
    if (round_ + writer) % EXPENSE_EVERY == 0:
        order = f"#c{number}-0 expense {get_person_id(get_manager(writer))} {10 + number % 80}"
    place = find_dm(get_person_id(writer))
    ending = desk.endings.of(place)
    await tell(bot, number, place, f"U{place.channel[1:]}", f"{order} {TALK * 4}")
    async with asyncio.timeout(PATIENCE_S):
        return "answer" in await ending


async def work(job: Job, people: int) -> None:
    desk, company, hourly = Desk(Endings()), Company(people), Timing(trim_pause_s=HOURLY_S)
    async with working(job, nowhere(desk, company), tools=TOOLS, model=Scripted(), timing=hourly) as desk.bot:
        print(json.dumps({"ready": True}), flush=True)
        async for line in read_lines():
            order = json.loads(line)
            numbers = iter(range(order["first"], order["first"] + order["count"]))
            print(json.dumps({"failed": await make_runs(desk.bot, desk, people, numbers)}), flush=True)


if __name__ == "__main__":
    asyncio.run(work(Job(**json.loads(sys.argv[1])), int(sys.argv[2])))
