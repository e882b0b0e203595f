"""What the filters of a command mean. Whatever cannot be meant is an error: an empty list would look like an answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

import typer

from bot.cli.console import harmless, language
from bot.cli.names import names_of
from bot.errors import CountersignError
from bot.settings import Settings
from bot.store.journal import Journal, Wanted
from bot.store.keys import Keys
from bot.store.kinds import KINDS
from bot.store.runs import Runs
from bot.texts import say
from tools.names import MENTION, describe_person, find_people
from tools.spec import Person

CHANNEL = re.compile(r"[CDG][A-Z0-9]{2,30}")
PERSON = re.compile(r"[UW][A-Z0-9]{2,30}")
NEAR = 5
"""How many kinds or people are named at most where one was not found."""


async def check_kinds(journal: Journal, kinds: Sequence[str]) -> None:
    """Raises CountersignError for a kind that is neither written by this version nor anywhere in the record."""
    for kind in kinds:
        if kind not in KINDS and not await journal.has(Wanted(kinds=frozenset({kind}))):
            near = _near(kind)
            shown = ", ".join(near or sorted(KINDS))
            which = say("tail.near_kinds" if near else "tail.all_kinds", language(), kinds=shown)
            raise _error("no_kind", kind=kind, near=which)


def _near(kind: str) -> list[str]:
    """Those of its topic, and those that are written alike."""
    topic = sorted(one for one in KINDS if kind and one.partition(".")[0] == kind.strip(".").partition(".")[0])
    alike = get_close_matches(kind.lower(), sorted(KINDS), NEAR)
    return list(dict.fromkeys([*alike, *topic]))


async def check_run(journal: Journal, keys: Keys, run: str) -> None:
    """Raises CountersignError for a run that is not kept any more and of which the record says nothing."""
    if run and await Runs(journal.redis, keys).get(run) is None and not await journal.has(Wanted(run=run)):
        raise _error("no_run", run=run)


async def check_channel(journal: Journal, channel: str, *, follow: bool) -> None:
    """Raises CountersignError for what is no id, and for a channel without any record; who follows may wait for it."""
    if not channel:
        return
    if not CHANNEL.fullmatch(channel):
        raise _error("odd_channel", channel=channel)
    if await journal.has(Wanted(channel=channel)):
        return
    if not follow:
        raise _error("no_channel", channel=channel)
    typer.echo(say("tail.no_channel_yet", language(), channel=channel), err=True)


async def find_person_id(journal: Journal, settings: Settings, text: str) -> str:
    """The id of whom `text` means: an id, a mention, an exact e-mail address or a name; empty for nothing. Ids are
    looked for in the record first, so that they need no Slack. Raises CountersignError for nobody and for several."""
    text = text.strip()
    mention = MENTION.match(text)
    person = mention[1] if mention else text
    if not person or (PERSON.fullmatch(person) and await journal.has(Wanted(person=person))):
        return person
    async with names_of(settings) as names:
        if PERSON.fullmatch(person) and await names.of(person):
            return person
        people = await names.everyone()
    found = find_people(people, text)
    if found.is_certain:
        return found.people[0].id
    if found.people:
        candidates = "; ".join(_describe_candidate(one, people) for one in found.people[:NEAR])
        raise _error("some_people", person=text, candidates=candidates)
    if await journal.has(Wanted(person=person)):  # a user of this system, for one
        return person
    raise _error("no_person" if people else "no_person_nor_names", person=text)


def _describe_candidate(person: Person, people: Sequence[Person]) -> str:
    return f"{describe_person(person, people, language())} {person.id}"


def _error(name: str, **params: str) -> CountersignError:
    return CountersignError(say(f"tail.{name}", language(), **{key: harmless(value) for key, value in params.items()}))
