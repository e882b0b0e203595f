"""Several waiting tasks in one message: their entries and the progress of each. A set is one JSON text, written by the
commits of its own lane."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field
from redis.asyncio import Redis

from bot.chat.messages import MessageRef, Place
from bot.queue.keys import Keys
from bot.queue.writes import Set, Write
from bot.storage.approvals import RETENTION_MS
from tools.spec import FrozenModel, StoredModel, TextRef


class SetEntry(FrozenModel):
    """One task of a set as it was shown: its card and the words for it."""

    approval: str
    version: int
    seal: str
    request: str
    about: dict[str, str]
    """Language → the sentence that says who asks for what."""
    details: dict[str, str] = Field(default_factory=dict)
    """Language → the requester's own words and everything unusual; empty if nothing more is known."""
    is_pressed: bool = False
    """Whether a press of the set is on its way to the card."""
    refusal: str = ""
    """Code of the reason why that press did nothing; empty if the press decided or is on its way."""
    refusal_note: TextRef | None = None


class ApprovalSet(StoredModel):
    """One message with a box to tick for each of several tasks. A set decides nothing itself: every press on it becomes
    a press on each ticked card."""

    id: str
    """The set's lane."""
    person: str
    """Person id of the decider; nobody else may press."""
    version: int = 1
    """Number of presses, plus 1; a button of an older version is stale."""
    entries: tuple[SetEntry, ...]
    ticked: tuple[int, ...]
    """Numbers of the ticked entries, from 0."""
    day: str = ""
    """ISO date of a morning list, which says more and takes in new tasks; empty for any other set."""
    left_out: int = 0
    """Number of waiting tasks that the set leaves out."""
    place: Place | None = None
    copies: tuple[MessageRef, ...] = ()
    """The messages of the set, oldest first; only the last one can be pressed."""
    made_ms: int
    shown_ms: int = 0
    """Time of the last update of its message (epoch ms)."""
    shown_sha: str = ""
    """Hash of the message's content; an unchanged message is not written again."""
    press_id: str = ""
    """Id of the last press that counted. When the same press is delivered again, it continues."""

    def press_entries(self, numbers: tuple[int, ...]) -> ApprovalSet:
        """Return the next version, with these entries pressed."""
        entries = tuple(
            one.model_copy(update={"is_pressed": True}) if number in numbers else one
            for number, one in enumerate(self.entries)
        )
        return self.model_copy(update={"entries": entries, "version": self.version + 1})

    def refuse_entry(self, approval: str, code: str, note: TextRef | None) -> ApprovalSet:
        """Return the set with the reason why the press on this card did nothing."""
        refused = {"refusal": code, "refusal_note": note}
        entries = tuple(one.model_copy(update=refused) if one.approval == approval else one for one in self.entries)
        return self.model_copy(update={"entries": entries})


@dataclass(frozen=True, slots=True)
class ApprovalSetStore:
    redis: Redis
    keys: Keys

    async def load_set(self, set_id: str) -> ApprovalSet | None:
        text = await self.redis.get(self._build_set_key(set_id))
        return ApprovalSet.model_validate_json(text) if text else None

    def build_save_write(self, approval_set: ApprovalSet) -> Write:
        return Set(self._build_set_key(approval_set.id), approval_set.model_dump_json(), ttl_ms=RETENTION_MS)

    def _build_set_key(self, set_id: str) -> str:
        return self.keys.build_key(self.keys.get_partition(set_id), set_id)
