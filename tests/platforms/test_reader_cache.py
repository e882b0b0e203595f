"""Who reads a place is asked once in some minutes, by the same code on both platforms."""

import asyncio
from collections.abc import Callable

from bot.chat.messages import ChannelReaders, Place
from bot.core.errors import ChatError, ChatRefusedError, ChatUnavailableError
from bot.platforms.shared import CACHE_S, FAILURE_CACHE_S, CachingReaderClassifier

PLACE = Place(team="T0", channel="C1", thread="1.0")
INSIDE, OUTSIDE = ChannelReaders.INSIDE, ChannelReaders.OUTSIDE
REFUSED, AWAY = ChatRefusedError("missing_scope", "info"), ChatUnavailableError("unreachable", "info")


class Readers(CachingReaderClassifier):
    def __init__(self) -> None:
        super().__init__(self.has_only_insiders, lambda: self.now)
        self.now, self.asked = 0.0, 0
        self.answer: bool | ChatError = True
        self.meanwhile: Callable[[], None] = lambda: None

    async def has_only_insiders(self, channel: str) -> bool:
        self.asked += 1
        await asyncio.sleep(0)
        self.meanwhile()
        if isinstance(self.answer, ChatError):
            raise self.answer
        return self.answer


async def test_a_dm_and_what_the_message_itself_says_need_no_look_up() -> None:
    readers = Readers()
    assert await readers.classify_readers(PLACE.model_copy(update={"direct": True})) is ChannelReaders.DIRECT
    assert await readers.classify_readers(PLACE.model_copy(update={"shared": True})) is OUTSIDE
    assert readers.asked == 0


async def test_it_is_asked_once_in_some_minutes_and_a_failure_is_believed_for_less() -> None:
    readers = Readers()
    kept = ((True, CACHE_S, INSIDE), (False, CACHE_S, OUTSIDE), (REFUSED, FAILURE_CACHE_S, OUTSIDE))
    for answer, kept_s, found in kept:
        readers.answer, asked = answer, readers.asked
        assert set(await asyncio.gather(*(readers.classify_readers(PLACE) for _ in range(5)))) == {found}
        readers.now += kept_s - 1
        readers.answer = not answer
        assert await readers.classify_readers(PLACE) is found and readers.asked == asked + 1
        readers.now += 2
    readers.answer = AWAY
    for answer, found in ((AWAY, OUTSIDE), (True, INSIDE)):
        readers.answer, readers.now = answer, readers.now + 0.01
        assert await readers.classify_readers(PLACE) is found, "an outage is not kept at all"


async def test_a_place_that_changes_is_asked_about_again_and_meanwhile_nobody_is_sure() -> None:
    readers = Readers()
    assert await readers.classify_readers(PLACE) is INSIDE
    readers.answer = False
    assert await readers.classify_readers(PLACE) is INSIDE, "control: the answer is kept"
    readers.note_changed_place("C1")
    assert await readers.classify_readers(PLACE) is OUTSIDE
    readers.note_changed_place("C1")
    readers.answer, readers.meanwhile = True, lambda: readers.note_changed_place("C1")
    assert await readers.classify_readers(PLACE) is OUTSIDE
    readers.meanwhile = lambda: None
    assert await readers.classify_readers(PLACE) is INSIDE, "it was not kept"
