"""Posts text where it may be shown: in the conversation, or in the person's DM with a pointer in the conversation."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bot.chat.messages import ChannelReaders, Place, Post
from bot.chat.platform import Platform
from bot.core import disclosure, logs
from bot.core.disclosure import Disclosure
from bot.core.errors import ChatRefusedError, PlaceClosedError
from bot.core.i18n import translate
from tools.people.names import get_person_language
from tools.spec import Privacy

log = logs.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryResult:
    """The places where a text was posted."""

    in_conversation: bool
    """Whether the text is in the conversation itself."""
    direct: Place | None = None
    """The DM that the text went to instead. None if the platform has no DM with the person."""
    pointer: str = ""
    """The text that was posted in the conversation instead."""


async def decide_place_disclosure(platform: Platform, place: Place, privacy: Privacy) -> Disclosure:
    """Decide where a text of this privacy may be shown, given the current readers of the place."""
    surroundings = ChannelReaders.DIRECT if place.direct else await platform.reader_classifier.classify_readers(place)
    return disclosure.decide_disclosure(privacy, surroundings)


async def can_show_in(platform: Platform, place: Place, privacy: Privacy = Privacy.PUBLIC) -> bool:
    """Whether text of this privacy may be posted in the place, if code cannot remove parts of it."""
    return await decide_place_disclosure(platform, place, privacy) is Disclosure.HERE


async def deliver_message(
    platform: Platform,
    place: Place,
    person: str,
    post: Post,
    privacy: Privacy = Privacy.PUBLIC,
    *,
    key: str,
    again: bool = False,
    wait_ms: int | None = None,
    receipt: str = "",
) -> DeliveryResult:
    """Post in the place or in the person's DM. `receipt`: posted with the pointer if the place may show a receipt
    at all. `key`, `again`, `wait_ms`: as for `Channel.post_message`."""
    if await can_show_in(platform, place, privacy):
        try:
            await platform.chat.post_message(place, post, key=key, again=again, wait_ms=wait_ms)
        except PlaceClosedError as closed:
            if place.direct:
                raise
            log.warning("place.closed", channel=place.channel, error=closed.code)
            reason = translate("pointer.closed", await get_person_language(platform.directory, person))
            post = replace(post, text=f"{reason}\n\n{post.text}")
            direct = await _deliver_to_dm(platform, person, post, key, again=again)
            return DeliveryResult(in_conversation=False, direct=direct)
        return DeliveryResult(in_conversation=True)
    direct = await _deliver_to_dm(platform, person, post, key, again=again)
    language = await get_person_language(platform.directory, person)
    pointer = Post(translate("pointer.sent" if direct else "pointer.unreachable", language))
    if receipt and await can_show_in(platform, place, Privacy.OWN):
        pointer = replace(pointer, receipt=receipt)
    await platform.chat.post_message(place, pointer, key=f"{key}:pointer", again=again, wait_ms=wait_ms)
    return DeliveryResult(in_conversation=False, direct=direct, pointer=pointer.text)


async def post_pointer(
    platform: Platform, place: Place, person: str, text: str, *, key: str, again: bool = False
) -> None:
    """Post where something is. `text`: the key of a sentence that reveals nothing else."""
    words = translate(text, await get_person_language(platform.directory, person))
    try:
        await platform.chat.post_message(place, Post(words), key=key, again=again)
    except PlaceClosedError as closed:
        log.warning("place.closed", channel=place.channel, error=closed.code)


async def _deliver_to_dm(platform: Platform, person: str, post: Post, key: str, *, again: bool) -> Place | None:
    """Post in the person's DM, and return the DM. None if the platform has no DM with this person."""
    try:
        direct = await platform.chat.open_dm(person)
        await platform.chat.post_message(direct, post, key=key, again=again)
    except ChatRefusedError as failed:
        log.warning("dm.not_reached", person=person, error=failed.code)
        return None
    return direct
