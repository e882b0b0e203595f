"""Checks of a command's filters. A filter that cannot match is an error: an empty list would look like an answer.

The record is searched as far back as the command asks (`since`) and no further: it may hold months."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from bot.app.settings import Settings
from bot.core.i18n import detect_terminal_language
from bot.ops.cli import console
from bot.ops.cli.name_lookup import open_name_lookup
from bot.queue.keys import Keys
from bot.storage.journal import KINDS, Journal
from tools.people.names import describe_person, find_people
from tools.platform_ids import MENTION

CHANNEL = re.compile(r"[CDG][A-Z0-9]{2,30}|oc_[0-9a-z]{6,64}")
PERSON = re.compile(r"[UW][A-Z0-9]{2,30}|ou_[0-9a-z]{6,64}")
NEAR = 5
"""Maximum number of kinds or people named in an error about one that was not found."""


async def require_known_kinds(journal: Journal, kinds: Sequence[str], *, since: str) -> None:
    """Raise CountersignError for a kind that is neither written by this version nor in the record."""
    for kind in kinds:
        if kind in KINDS or await journal.has_record(since, kinds=(kind,)):
            continue
        from bot.features.shipped import JOURNAL_KINDS  # takes long, and most kinds are found before

        known = sorted(KINDS | JOURNAL_KINDS)
        if kind not in known:
            topic = [one for one in known if kind and one.partition(".")[0] == kind.strip(".").partition(".")[0]]
            near = list(dict.fromkeys([*get_close_matches(kind.lower(), known, NEAR), *topic]))
            shown = ", ".join(near or known)
            which = console.build_sentence("tail.near_kinds" if near else "tail.all_kinds", kinds=shown)
            raise console.build_error("tail.no_kind", kind=kind, near=which, since=since)


async def require_known_run(journal: Journal, keys: Keys, run: str, *, since: str) -> None:
    """Raise CountersignError for a run that is no longer kept and that the record does not mention."""
    if not run:
        return
    from bot.storage.runs import RunStore

    is_kept = await RunStore(journal.redis, keys).load_run(run) is not None
    if not is_kept and not await journal.has_record(since, run=run):
        raise console.build_error("tail.no_run", run=run, since=since)


async def require_known_channel(journal: Journal, channel: str, *, since: str, follow: bool) -> None:
    """Raise CountersignError for a text that is no id, and for a channel without any record. With `follow`, a channel
    without a record only prints a note."""
    if not channel:
        return
    if not CHANNEL.fullmatch(channel):
        raise console.build_error("tail.odd_channel", channel=channel)
    if await journal.has_record(since, channel=channel):
        return
    if not follow:
        raise console.build_error("tail.no_channel", channel=channel, since=since)
    console.print_note("tail.no_channel_yet", channel=channel, since=since)


async def find_person_id(journal: Journal, settings: Settings, text: str, *, since: str) -> str:
    """Return the id of the person that `text` means: an id, a mention, an exact e-mail address or a name. Empty stays
    empty.

    Ids are looked for in the record first, so that they need no chat platform. Raises CountersignError if nobody
    matches, or several people do."""
    text = text.strip()
    mention = MENTION.match(text)
    person = mention[1] if mention else text
    if not person or (PERSON.fullmatch(person) and await journal.has_record(since, person=person)):
        return person
    async with open_name_lookup(settings) as names:
        if PERSON.fullmatch(person) and await names.find_name(person):
            return person
        people = await names.list_people()
    found = find_people(people, text)
    if found.is_certain:
        return found.people[0].id
    if found.people:
        language = detect_terminal_language()
        named = (f"{describe_person(one, people, language)} {one.id}" for one in found.people[:NEAR])
        raise console.build_error("tail.some_people", person=text, candidates="; ".join(named))
    if await journal.has_record(since, person=person):  # for example a user of this system
        return person
    raise console.build_error("tail.no_person" if people else "tail.no_person_nor_names", person=text, since=since)
