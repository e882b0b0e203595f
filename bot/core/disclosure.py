"""Where something may be shown. `decide_disclosure` is the one place that decides it; everybody who says something
asks.

What is private goes to the DM of its person, and the conversation gets a pointer. That holds for what a model writes
too: a run that has seen something private has no words for a channel any more, whatever they are.
"""

from __future__ import annotations

from enum import StrEnum

from bot.chat.messages import ChannelReaders
from tools.spec import Privacy


class Disclosure(StrEnum):
    """Where something may be shown."""

    HERE = "here"
    HERE_WITHOUT_FREE_TEXT = "here_without_free_text"
    """Only where code can leave out what people wrote: a model's words go to the DM."""
    DM_WITH_POINTER = "dm_with_pointer"
    """To its person's DM; the place is told no more than that."""


def decide_disclosure(privacy: Privacy, surroundings: ChannelReaders) -> Disclosure:
    """Where something of this privacy may be shown when it belongs into a place with these readers."""
    if surroundings is ChannelReaders.DIRECT:
        return Disclosure.HERE
    if surroundings is ChannelReaders.OUTSIDE or privacy is Privacy.PRIVATE:
        return Disclosure.DM_WITH_POINTER
    return Disclosure.HERE_WITHOUT_FREE_TEXT if privacy is Privacy.OWN_TEXT else Disclosure.HERE


def decide_channel_disclosure(privacy: Privacy) -> Disclosure:
    """The most that any channel may be shown of it: what is written once for whoever will read it is written so."""
    return decide_disclosure(privacy, ChannelReaders.INSIDE)
