"""The context of a run in one process."""

from __future__ import annotations

from dataclasses import dataclass

from bot.core.records import Run
from bot.queue.lanes import Lease
from bot.storage.runs import ConversationState
from tools.spec import Caller


@dataclass(slots=True, kw_only=True)
class TurnContext:
    """One run in this process, with its lease, caller and conversation."""

    lease: Lease
    run: Run
    caller: Caller
    conversation: ConversationState

    @property
    def is_other_run_waiting(self) -> bool:
        """Whether another run of the same thread waits for a card. In a DM each message has a thread of its own."""
        is_direct = self.run.message.place.direct
        return not is_direct and any(one.run != self.run.id for one in self.conversation.waiting)

    @property
    def is_redelivery(self) -> bool:
        """Whether another process may have posted some of this already."""
        return self.lease.item.is_redelivery
