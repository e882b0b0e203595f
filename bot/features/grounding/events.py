"""Reads the events that `bot.agent.prompt` has written into the history, for the claims that they support."""

from __future__ import annotations

from bot.agent.prompt import CALLED, EVENT
from bot.agent.recall import NOT_VERIFIED, WAITING_RESULT

_QUOTES = (("“", "”"), ('"', '"'), ("「", "」"))


def parse_event_lines(content: str) -> list[str]:
    """Return the lines of an event. Return none for any other message."""
    return content.removesuffix("\n</event>").split("\n")[1:] if content.startswith(EVENT) else []


def parse_call_results(content: str) -> list[str]:
    """Return the results of an event's calls, one line each, without arguments and without waiting calls."""
    lines = parse_event_lines(content) if content.startswith(CALLED) else []
    return [line.rpartition("→")[2].strip() for line in lines if not line.endswith(WAITING_RESULT)]


def parse_own_words(content: str) -> list[str]:
    """Return the words of an event that are ours, without quotations of people and results of tools."""
    words = list[str]()
    if content.startswith(CALLED):
        return words
    for line in parse_event_lines(content):
        said = line
        for opening, closing in _QUOTES:  # up to the last closing quote, because a quoted text may contain quotes
            start, end = said.find(opening), said.rfind(closing)
            said = said[:start] + said[end + 1 :] if 0 <= start < end else said
        words += [] if line.startswith(NOT_VERIFIED) else [said]
    return words


def cut_unverified_lines(content: str) -> str:
    """Return the part of a message that may support an answer: an event's line about unsupported parts is removed."""
    if NOT_VERIFIED not in content or not content.startswith(EVENT):
        return content
    return "\n".join(line for line in content.split("\n") if not line.startswith(NOT_VERIFIED))


def is_marked_unverified(content: str) -> bool:
    """Return whether an event marks part of the answer before it as unsupported."""
    return any(line.startswith(NOT_VERIFIED) for line in parse_event_lines(content))
