"""Confirmation of writes: nobody relies on a write before the replicas or the disk have it.

A server that dies loses every write that neither its disk nor the replica that takes over has yet. Three things
therefore wait for the confirmation: the acknowledgement of a message or a press, an effect outside, and the word that
it is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

TIMEOUT_MS = 1_000
"""Longest wait of one call (ms). Slack wants an answer within three seconds."""
DOUBT_MS = 60_000
"""Time after a takeover in which new items may be old ones of the former server, or follow from such ones (ms)."""
SILENT_S = 5
"""Silence after which a replica is no longer waited for (s). A replica answers every second."""


class ConfirmedBy(StrEnum):
    """The place that confirms a write (`REDIS_CONFIRM`)."""

    AUTO = "auto"
    """Every replica that follows. While there is none: the server, which writes to its disk as configured."""
    SERVER = "server"
    REPLICA = "replica"
    DISK = "disk"


@dataclass(slots=True)
class Confirmation:
    by: ConfirmedBy = ConfirmedBy.SERVER
    replicas: Mapping[int, int] = field(default_factory=dict)
    """Number of replicas of each partition's server that have answered it lately, as of the last look (`StoreWatch`).
    All of them are waited for: after the server's death, the one that takes over need not be the fastest."""
    servers: Mapping[int, str] = field(default_factory=dict)
    """Replication id of each partition's server, as of the last look."""

    def build_command(self, partition: int) -> tuple[str | int, ...]:
        """Build the command that waits for what the same connection has written. Empty if nothing is waited for."""
        if self.by is ConfirmedBy.DISK:
            return ("WAITAOF", 1, 0, TIMEOUT_MS)
        replicas = self.replicas.get(partition, 0)
        if self.by is ConfirmedBy.REPLICA or (self.by is ConfirmedBy.AUTO and replicas):
            return ("WAIT", max(replicas, 1), TIMEOUT_MS)
        return ()


def is_confirmed(command: Sequence[str | int], answer: Any, replicas: int) -> bool:
    """Whether this answer of the command says that the disk, or all replicas, have the write. `replicas`: the number of
    them that the server knows, which may be more than were known here. WAITAOF also answers the number of replicas,
    which is ignored."""
    return int(answer[0]) > 0 if isinstance(answer, list) else int(answer) >= max(int(command[1]), replicas)
