"""Names of keys, and the form of an item in a lane. All keys of a partition share a hash tag, so that one script can
write all of them, even on a Redis Cluster."""

from __future__ import annotations

import hashlib
import re
from binascii import crc_hqx
from dataclasses import dataclass

ENGINE = "{wf}"
"""The hash tag of the engine's records. As the name of a lane, in which nothing lies, it stands for their partition."""
_DERIVED = re.compile(r"[A-Z](\d\d)[0-9a-z]{12}(?=:|$)")
_TAG = re.compile(r"\{q(\d\d)\}:")
LOOKED_AT = 50
"""Most lanes of a partition that figures are read from, so that they are as cheap in a flood as in calm."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Builds the names of all keys.

    `partitions` (1 to 100) is fixed at installation: with another number, every lane would be looked for elsewhere."""

    prefix: str = "cs"
    partitions: int = 8

    def __post_init__(self) -> None:
        if not 1 <= self.partitions <= 100:
            raise ValueError(f"partitions must be 1 to 100, not {self.partitions}")

    def get_partition(self, lane: str) -> int:
        """Return the partition of a lane. An id derived here contains it, also with `:more` after it. For any other
        name, the CRC16 of Redis Cluster decides. -1: the engine's records."""
        if lane == ENGINE:
            return -1
        derived = _DERIVED.match(lane)
        number = int(derived[1]) if derived else crc_hqx(lane.encode(errors="replace"), 0)
        return number % self.partitions

    def derive_id(self, kind: str, partition: int, text: str) -> str:
        """Derive the id for `text`: kind letter, partition, twelve characters, e.g. `A034e07…`. Equal texts give equal
        ids."""
        return f"{kind}{partition:02d}{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:12]}"

    def build_key(self, partition: int, *parts: str) -> str:
        """Build a key of a partition, e.g. `cs:{q03}:run:R03…`."""
        return ":".join((self.prefix, ENGINE if partition < 0 else f"{{q{partition:02d}}}", *parts))

    def build_slot_key(self, rate: str) -> str:
        """Build the key of a rate limit."""
        return self.build_key(self.get_partition(rate), "slot", rate)

    def build_life_key(self, partition: int) -> str:
        """Build the key of a partition's `life`: what it says of the store as a whole."""
        return self.build_key(partition, "life")

    @property
    def life_keys(self) -> list[str]:
        return [self.build_life_key(partition) for partition in range(self.partitions)]

    def parse_partition(self, key: str) -> int:
        """Return the partition of a key. Raises ValueError if the key belongs to none."""
        found = _TAG.match(key, len(self.prefix) + 1) if key.startswith(f"{self.prefix}:") else None
        if found is None:
            raise ValueError(f"not a key of a partition: {key}")
        return int(found[1])

    @property
    def wakeup_list(self) -> str:
        """The list of partitions that may have work: a hint, never the work itself."""
        return f"{self.prefix}:bell"

    @property
    def stop_channel(self) -> str:
        """The pub/sub channel that announces each *stop*."""
        return f"{self.prefix}:stop"


def split_stored_item(row: str) -> tuple[str, str]:
    """Split a stored item (time, length of the id in bytes, id, body: `enqueue` in `lua/common.lua`) into (id, body).
    Raises ValueError if the row is no item."""
    _, length, rest = row.split("|", 2)
    encoded, end = rest.encode(), int(length)
    return encoded[:end].decode(), encoded[end:].decode()


def get_put_ms(row: str) -> int:
    """Return the time of the enqueue (epoch ms). Raises ValueError if the row is no item."""
    return int(row.partition("|")[0])


def build_stored_item(put_ms: int, id: str, body: str) -> str:
    return f"{put_ms}|{len(id.encode())}|{id}{body}"
