"""A run on its way through one process."""

from __future__ import annotations

from dataclasses import dataclass

from bot.records import Run
from bot.store.lanes import Lease
from bot.store.runs import Recalled
from tools.spec import Caller


@dataclass(slots=True)
class Passage:
    """One run on its way through this process."""

    lease: Lease
    run: Run
    caller: Caller
    recalled: Recalled

    @property
    def again(self) -> bool:
        """Another process may have posted some of this already."""
        return self.lease.item.again
