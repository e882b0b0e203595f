"""The decision where content may be shown. Only `decide_disclosure` makes it; everything that posts asks it.

Private content goes to its person's DM, and the conversation gets a pointer. The rule also holds for a model's words:
once a run has seen private content, none of its words may go to a channel."""

from __future__ import annotations

from enum import StrEnum

from bot.chat.messages import ChannelReaders, Place
from bot.chat.platform import Platform
from tools.spec import Privacy


class Disclosure(StrEnum):
    """The places where content may be shown."""

    HERE = "here"
    HERE_WITHOUT_FREE_TEXT = "here_without_free_text"
    """Shown here only if code can leave out what people wrote. A model's words go to the DM."""
    DM_WITH_POINTER = "dm_with_pointer"
    """Shown in its person's DM. The conversation gets a pointer and nothing else."""


def decide_disclosure(privacy: Privacy, surroundings: ChannelReaders) -> Disclosure:
    """Decide where content of this privacy may be shown if it belongs to a place with these readers."""
    if surroundings is ChannelReaders.DIRECT:
        return Disclosure.HERE
    if surroundings is ChannelReaders.OUTSIDE or privacy is Privacy.PRIVATE:
        return Disclosure.DM_WITH_POINTER
    return Disclosure.HERE_WITHOUT_FREE_TEXT if privacy is Privacy.OWN_TEXT else Disclosure.HERE


def decide_channel_disclosure(privacy: Privacy) -> Disclosure:
    """Decide the most that any channel may show of content. Text that is written once for all readers follows this."""
    return decide_disclosure(privacy, ChannelReaders.INSIDE)


async def can_show_in(platform: Platform, place: Place, privacy: Privacy = Privacy.PUBLIC) -> bool:
    """Whether text of this privacy may be posted in the place for its current readers, if code cannot remove parts of
    it."""
    readers = ChannelReaders.DIRECT if place.direct else await platform.reader_classifier.classify_readers(place)
    return decide_disclosure(privacy, readers) is Disclosure.HERE
