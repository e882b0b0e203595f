"""Where a write has to be before anybody is told that it is kept.

A server that dies takes with it what no replica and no disk has yet. Three things therefore wait until what was written
is there: the acknowledgement of a message or a press, an effect outside, and a card that says *done*."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

TIMEOUT_MS = 1_000
"""How long one call waits (ms): Slack wants an answer within three seconds."""


class ConfirmedBy(StrEnum):
    """What confirms a write (`REDIS_CONFIRM`)."""

    AUTO = "auto"
    """A replica, as long as there is one; otherwise the server, which writes to its disk as it is set."""
    SERVER = "server"
    REPLICA = "replica"
    DISK = "disk"


@dataclass(slots=True)
class Confirmation:
    by: ConfirmedBy = ConfirmedBy.SERVER
    replicas: Mapping[int, int] = field(default_factory=dict)
    """How many replicas follow the server of each partition: as of the last look (`StoreWatch`)."""

    def build_command(self, partition: int) -> tuple[str | int, ...]:
        """The command that waits for what the same connection has written; empty: nothing is waited for."""
        if self.by is ConfirmedBy.DISK:
            return ("WAITAOF", 1, 0, TIMEOUT_MS)
        if self.by is ConfirmedBy.REPLICA or (self.by is ConfirmedBy.AUTO and self.replicas.get(partition)):
            return ("WAIT", 1, TIMEOUT_MS)
        return ()


def is_confirmed(answer: Any) -> bool:
    """Whether this answer of the command says that one replica, or the disk, has it. WAITAOF also counts replicas."""
    return int(answer[0] if isinstance(answer, list) else answer) > 0
