"""Confirmation of writes: nobody relies on a write before a replica or the disk has it.

A server that dies loses every write that no replica and no disk has yet. Three things therefore wait for the
confirmation: the acknowledgement of a message or a press, an effect outside, and the word that it is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

TIMEOUT_MS = 1_000
"""Longest wait of one call (ms). Slack wants an answer within three seconds."""


class ConfirmedBy(StrEnum):
    """The place that confirms a write (`REDIS_CONFIRM`)."""

    AUTO = "auto"
    """A replica, as long as there is one. Otherwise the server, which writes to its disk as configured."""
    SERVER = "server"
    REPLICA = "replica"
    DISK = "disk"


@dataclass(slots=True)
class Confirmation:
    by: ConfirmedBy = ConfirmedBy.SERVER
    replicas: Mapping[int, int] = field(default_factory=dict)
    """Number of replicas of each partition's server, as of the last look (`StoreWatch`)."""

    def build_command(self, partition: int) -> tuple[str | int, ...]:
        """Build the command that waits for what the same connection has written. Empty if nothing is waited for."""
        if self.by is ConfirmedBy.DISK:
            return ("WAITAOF", 1, 0, TIMEOUT_MS)
        if self.by is ConfirmedBy.REPLICA or (self.by is ConfirmedBy.AUTO and self.replicas.get(partition)):
            return ("WAIT", 1, TIMEOUT_MS)
        return ()


def is_confirmed(answer: Any) -> bool:
    """Whether this answer of the command says that a replica or the disk has the write. WAITAOF also answers the number
    of replicas, which is ignored."""
    return int(answer[0] if isinstance(answer, list) else answer) > 0
