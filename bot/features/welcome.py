"""Somebody opens their DM with the bot: what they could write, and, the first time, a welcome."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Literal

from bot.chat.messages import Place, Post, SuggestedPrompt
from bot.core.i18n import translate
from bot.features.contract import Core, Feature, Work
from bot.queue.lanes import Lease
from bot.queue.writes import EnqueueItem, Set, Write
from tools.people.names import choose_name
from tools.spec import StoredModel, ToolError

MAX_PROMPTS = 4
EMPLOYEE_PROMPTS = ("leave", "expense", "requests", "balance")
"""Most wanted first. Sentences `prompt.…`: the title, and `prompt.…_message`: what is written with it."""


class WelcomePerson(StoredModel):
    """Somebody has opened their DM with the bot for the first time."""

    kind: Literal["welcome_person"] = "welcome_person"
    person: str
    place: Place
    """The DM."""


def build(core: Core) -> Feature:
    return Feature(
        work=(Work(model=WelcomePerson, handle=partial(welcome_person, core)),),
        list_prompts=partial(list_prompts, core),
        greet=partial(greet, core),
    )


def _build_mark_key(core: Core, lane: str, person: str) -> str:
    """Exists for good once the person was welcomed."""
    return core.stores.keys.build_key(core.stores.keys.get_partition(lane), "welcomed", person)


async def _was_welcomed(core: Core, lane: str, person: str) -> bool:
    """Raises StoreUnavailableError."""
    return bool(await core.stores.redis.exists(_build_mark_key(core, lane, person)))


async def list_prompts(core: Core, person: str) -> Sequence[SuggestedPrompt]:
    """By language and by what they are: who has something to decide begins with that, administrators see how the
    bot is set."""
    caller = await core.platform.directory.find_caller(person)
    if caller is None:
        return ()
    waiting = 0
    with suppress(ToolError):  # the engine cannot be asked
        waiting = (await core.tool_services.engine.list_todo_tasks(person, core.stores.clock.today(), 1)).total_count
    names = [
        *(["tasks"] if waiting else []),
        *(["settings"] if caller.person.is_administrator else []),
        *EMPLOYEE_PROMPTS,
    ]
    language = caller.person.language
    return [
        SuggestedPrompt(translate(f"prompt.{one}", language), translate(f"prompt.{one}_message", language))
        for one in names[:MAX_PROMPTS]
    ]


async def greet(core: Core, person: str, place: Place) -> Sequence[EnqueueItem]:
    """A welcome for somebody who had none, in the lane of the notices for them."""
    lane = f"notice:{person}"
    if await _was_welcomed(core, lane, person):
        return []
    return [EnqueueItem(lane, f"welcome:{person}", WelcomePerson(person=person, place=place).model_dump_json())]


async def welcome_person(core: Core, lease: Lease, work: WelcomePerson) -> Sequence[Write]:
    """Says who this is and what can be asked for. A person who has talked with the bot before gets no welcome."""
    caller = await core.platform.directory.find_caller(work.person)
    if caller is None or await _was_welcomed(core, lease.lane, work.person):
        return []
    mark = Set(_build_mark_key(core, lease.lane, work.person), str(core.stores.clock.now_ms()))
    if any(entry.run for entry in (await core.stores.history.load_history(work.place.conversation)).entries):
        return [mark]
    text = translate("command.welcome", caller.person.language, name=choose_name(caller.person, caller.person.language))
    again = lease.item.is_redelivery
    await core.platform.chat.post_message(work.place, Post(text), key=f"welcome:{work.person}", again=again)
    about = {"person": work.person, "channel": work.place.channel, "text": "command.welcome"}
    return [mark, core.stores.journal.build_record_write(lease.lane, "notice", **about)]
