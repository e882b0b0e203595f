"""Says things where they may stand: in the conversation, or in the person's DM with a pointer in the conversation."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bot import disclosure, logs
from bot.disclosure import Audience
from bot.errors import ChatDown, ChatFailed
from bot.events import Channel, Directory, Place, Post, Rooms, Surroundings
from bot.texts import say
from tools.names import language_of
from tools.spec import Privacy

log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Told:
    """Where something was said."""

    here: bool
    """In the conversation itself."""
    direct: Place | None = None
    """The DM that it went to instead; None when there is no way to the person."""
    pointer: str = ""
    """What the conversation was told instead."""


@dataclass(frozen=True, slots=True)
class Telling:
    chat: Channel
    rooms: Rooms
    directory: Directory

    async def audience(self, place: Place, privacy: Privacy) -> Audience:
        """Where something of this privacy may be shown, by who reads the place now."""
        surroundings = Surroundings.DIRECT if place.direct else await self.rooms.surroundings(place)
        return disclosure.decide_audience(privacy, surroundings)

    async def may_stand(self, place: Place, privacy: Privacy = Privacy.PUBLIC) -> bool:
        """True when words of this privacy, which code cannot take apart, may stand in the place."""
        return await self.audience(place, privacy) is Audience.HERE

    async def tell(
        self,
        place: Place,
        person: str,
        post: Post,
        privacy: Privacy = Privacy.PUBLIC,
        *,
        key: str,
        again: bool = False,
        wait_ms: int | None = None,
        receipt: str = "",
    ) -> Told:
        """Says it in the place, or to the person. `receipt`: what stands beside the pointer where a receipt may stand
        at all. `key`, `again`, `wait_ms`: as for `Channel.post`."""
        if await self.may_stand(place, privacy):
            await self.chat.post(place, post, key=key, again=again, wait_ms=wait_ms)
            return Told(here=True)
        direct = await self._reach(person, post, key, again=again)
        language = await language_of(self.directory, person)
        pointer = Post(say("pointer.sent" if direct else "pointer.unreachable", language))
        if receipt and await self.may_stand(place, Privacy.OWN):
            pointer = replace(pointer, receipt=receipt)
        await self.chat.post(place, pointer, key=f"{key}:pointer", again=again, wait_ms=wait_ms)
        return Told(here=False, direct=direct, pointer=pointer.text)

    async def point(self, place: Place, person: str, text: str, *, key: str, again: bool = False) -> None:
        """Says where something is: `text` is the key of a sentence that tells nothing else."""
        words = say(text, await language_of(self.directory, person))
        await self.chat.post(place, Post(words), key=key, again=again)

    async def _reach(self, person: str, post: Post, key: str, *, again: bool) -> Place | None:
        """The DM in which it was said; None if the platform lets nobody write to this person."""
        try:
            direct = await self.chat.direct(person)
            await self.chat.post(direct, post, key=key, again=again)
        except ChatDown:
            raise
        except ChatFailed as failed:
            log.warning("dm.not_reached", person=person, error=failed.code)
            return None
        return direct
