"""Decides where something may be shown. Only `decide_disclosure` decides that; everything that posts asks it.

Private content goes to its person's DM, and the conversation gets a pointer. That also holds for what a model writes:
once a run has seen something private, none of its words may go to a channel."""

from __future__ import annotations

from enum import StrEnum

from bot.chat.messages import ChannelReaders
from tools.spec import Privacy


class Disclosure(StrEnum):
    """Where something may be shown."""

    HERE = "here"
    HERE_WITHOUT_FREE_TEXT = "here_without_free_text"
    """Only where code can leave out what people wrote. A model's words go to the DM."""
    DM_WITH_POINTER = "dm_with_pointer"
    """To its person's DM. The place gets a pointer and nothing else."""


def decide_disclosure(privacy: Privacy, surroundings: ChannelReaders) -> Disclosure:
    """Where content of this privacy may be shown if it belongs to a place with these readers."""
    if surroundings is ChannelReaders.DIRECT:
        return Disclosure.HERE
    if surroundings is ChannelReaders.OUTSIDE or privacy is Privacy.PRIVATE:
        return Disclosure.DM_WITH_POINTER
    return Disclosure.HERE_WITHOUT_FREE_TEXT if privacy is Privacy.OWN_TEXT else Disclosure.HERE


def decide_channel_disclosure(privacy: Privacy) -> Disclosure:
    """The most that any channel may show of it. Text that is written once for all readers follows this."""
    return decide_disclosure(privacy, ChannelReaders.INSIDE)
