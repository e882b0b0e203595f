"""Presses on sets of tasks, and the ids of sets."""

from __future__ import annotations

SEVERAL = "several"
"""The press that asks for a set of all waiting tasks."""
TICK = "tick"
"""A press that changes a tick and decides nothing."""
APPROVE_SET, REJECT_SET = "set_approve", "set_reject"
SET_DECISIONS = {APPROVE_SET: "approve", REJECT_SET: "reject"}
"""Button of a set → button of each card."""
SET_CHOICES = frozenset({SEVERAL, TICK, *SET_DECISIONS})
TICKED = "ticked"
"""The key of the ticks in a press: numbers of entries, separated by commas."""


def build_set_id(person: str, name: str) -> str:
    """The id, and the lane, of a person's set."""
    return f"set:{person}:{name}"
