"""Messages that the bot sends outside any run: news of requests, the end of a backlog, items that failed every time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from redis.asyncio import Redis

from bot.chat.messages import NamedPerson, Post, RichText
from bot.conversation.endings import deliver_message
from bot.conversation.run_recorder import build_event_write
from bot.conversation.turn_context import Turns
from bot.core import logs
from bot.core.errors import ChatError
from bot.core.i18n import render_value, translate, translate_pieces
from bot.core.work_items import BacklogCleared, ItemSender, NotifyPerson, RecordDirectEvent
from bot.queue.keys import Keys
from bot.queue.lanes import LaneItem, Lease
from bot.queue.writes import Delete, EnqueueItem, Write
from tools.languages import choose_words
from tools.people.names import PERSON, get_person_language
from tools.spec import TextRef

log = logs.get_logger(__name__)


async def notify_person(turns: Turns, lease: Lease, notice: NotifyPerson) -> Sequence[Write]:
    """Tell the person in their DM, in their language. The DM remembers the notice."""
    person = await turns.platform.directory.find_person(notice.person)
    if person is None or not person.active:
        return []
    place, lines = await turns.platform.chat.open_dm(person.id), (notice.text, *notice.more)
    text = "\n".join(render_value(line, person.language).strip() for line in lines)
    pieces = list[object]()
    for line in lines:
        params: dict[str, object] = dict(line.params)
        for name, value in line.params.items():
            if isinstance(value, Mapping) and PERSON in value:
                params[name] = NamedPerson(str(value[PERSON]), str(choose_words(value, person.language)))
        pieces += [*(["\n"] if pieces else []), *translate_pieces(line.key, person.language, **params)]
    post, again = Post(text, plain=True, rich=cast(RichText, tuple(pieces))), lease.item.is_redelivery
    await turns.platform.chat.post_message(place, post, key=lease.item.id, again=again)
    journal_write = turns.stores.journal.build_record_write(
        lease.lane, "notice", person=person.id, channel=place.channel, text=notice.text.key
    )
    return [journal_write, build_event_write(turns, place, person, text, lease.item.id)]


async def record_direct_event(turns: Turns, lease: Lease, event: RecordDirectEvent) -> Sequence[Write]:
    """Add an event to the history of a person's DM, through the lane of that DM."""
    person = await turns.platform.directory.find_person(event.person)
    if person is None or not person.active:
        return []
    place = await turns.platform.chat.open_dm(person.id)
    return [build_event_write(turns, place, person, event.text, lease.item.id)]


async def notify_backlog_cleared(turns: Turns, lease: Lease, work: BacklogCleared) -> Sequence[Write]:
    """Tell the person that a lane which was full takes messages again."""
    text = translate("turn.caught_up", await get_person_language(turns.platform.directory, work.person))
    person, channel, again = work.person, work.place.channel, lease.item.is_redelivery
    await deliver_message(turns.platform, work.place, person, Post(text), key=lease.item.id, again=again)
    noted = turns.stores.journal.build_record_write(lease.lane, "lane.caught_up", person=person, channel=channel)
    return [Delete(_build_overflow_key(turns.stores.keys, lease.lane)), noted]


async def notify_sender(turns: Turns, sender: ItemSender, id: str) -> None:
    """Tell the sender that their item waits for a process of a newer version. A sender who cannot be told does not
    block the lane."""
    try:
        text = translate("turn.newer", await get_person_language(turns.platform.directory, sender.person), id=id)
        await turns.platform.chat.post_ephemeral(sender.place, sender.person, text)
    except ChatError as error:
        log.warning("could not tell", person=sender.person, error=error.code)


def build_given_up_notice(item: LaneItem, person: str, code: str = "turn.given_up") -> Write:
    """Build the notice that tells the author of an item that it failed every time, as soon as the platform takes it."""
    notice = NotifyPerson(person=person, text=TextRef(key=code, params={"id": item.id}))
    return EnqueueItem(f"notice:{person}", f"{item.id}:given_up", notice.model_dump_json())


# Full lanes: the first refused message marks the overflow, so that it is announced once.

MAX_SILENCE_MS = 3_600_000
"""Longest time that the next overflow stays silent because the end of this one was never announced (its item was given
up)."""


async def start_overflow(redis: Redis, keys: Keys, lane: str, id: str) -> bool:
    """Whether an overflow begins with this message, also on redelivery. False for every other message until the
    overflow ends. Raises StoreUnavailableError."""
    key = _build_overflow_key(keys, lane)
    return bool(await redis.set(key, id, nx=True, px=MAX_SILENCE_MS)) or await redis.get(key) == id


def _build_overflow_key(keys: Keys, lane: str) -> str:
    return keys.build_key(keys.get_partition(lane), "full", lane)
