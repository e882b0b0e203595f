"""Several waiting tasks in one message: what stands there, and how far it has come."""

from __future__ import annotations

from pydantic import Field

from bot.chat.messages import MessageRef, Place
from tools.spec import FrozenModel, StoredModel, TextRef

SEVERAL = "several"
"""The press that asks for a set of everything that waits."""
TICK = "tick"
"""A changed tick: it decides nothing."""
APPROVE_SET, REJECT_SET = "set_approve", "set_reject"
SET_DECISIONS = {APPROVE_SET: "approve", REJECT_SET: "reject"}
"""Button of a set → button of each card."""
SET_CHOICES = frozenset({SEVERAL, TICK, *SET_DECISIONS})
TICKED = "ticked"
"""The name of the ticks in a press: numbers of entries, separated by commas."""


class SetEntry(FrozenModel):
    """One task of a set, as it was shown: its card, and the words that stand for it."""

    approval: str
    version: int
    seal: str
    request: str
    about: dict[str, str]
    """Language → who asks for what."""
    details: dict[str, str] = Field(default_factory=dict)
    """Language → what they say about it, and everything unusual; empty: there is nothing more to say."""
    is_pressed: bool = False
    """A press of the set is on its way to the card."""
    refusal: str = ""
    """Code of why that press did nothing; empty: it decided, or is on its way."""
    refusal_note: TextRef | None = None


class ApprovalSet(StoredModel):
    """One message with a box to tick for each of several tasks. It decides nothing itself: every press on it becomes a
    press on each ticked card."""

    id: str
    """The set's lane."""
    person: str
    """Whose tasks they are: nobody else may press."""
    version: int = 1
    """Counts presses; a button of an older version is stale."""
    entries: tuple[SetEntry, ...]
    ticked: tuple[int, ...]
    """Numbers of the ticked entries, from 0."""
    day: str = ""
    """ISO date of a morning list, which says more and takes in new tasks; empty: it is none."""
    left_out: int = 0
    """Waiting tasks that are not in it."""
    place: Place | None = None
    copies: tuple[MessageRef, ...] = ()
    """Its messages, oldest first; the last one can be pressed."""
    made_ms: int
    shown_ms: int = 0
    """When its message was written last."""
    shown_sha: str = ""
    """Hash of what it says: what has not changed is not written again."""
    press_id: str = ""
    """The last press that counted: delivered again, it goes on."""

    def press_entries(self, numbers: tuple[int, ...]) -> ApprovalSet:
        """The next version, with these entries pressed."""
        entries = tuple(
            one.model_copy(update={"is_pressed": True}) if number in numbers else one
            for number, one in enumerate(self.entries)
        )
        return self.model_copy(update={"entries": entries, "version": self.version + 1})

    def refuse_entry(self, approval: str, code: str, note: TextRef | None) -> ApprovalSet:
        """The same with the reason why the press on this card did nothing."""
        refused = {"refusal": code, "refusal_note": note}
        entries = tuple(one.model_copy(update=refused) if one.approval == approval else one for one in self.entries)
        return self.model_copy(update={"entries": entries})


def build_set_id(person: str, name: str) -> str:
    """The id, and the lane, of a person's set."""
    return f"set:{person}:{name}"
