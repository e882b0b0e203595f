"""Sets of tasks, one JSON text each, written by the commits of their own lanes."""

from __future__ import annotations

from dataclasses import dataclass

from redis.asyncio import Redis

from bot.core.approval_sets import ApprovalSet
from bot.queue.keys import Keys
from bot.queue.writes import Set, Write
from bot.redis.connect import translate_redis_errors
from bot.storage.approvals import RETENTION_MS


@dataclass(frozen=True, slots=True)
class ApprovalSetStore:
    redis: Redis
    keys: Keys

    async def load_set(self, set_id: str) -> ApprovalSet | None:
        with translate_redis_errors():
            text = await self.redis.get(self._build_set_key(set_id))
        return ApprovalSet.model_validate_json(text) if text else None

    def build_save_write(self, approval_set: ApprovalSet) -> Write:
        return Set(self._build_set_key(approval_set.id), approval_set.model_dump_json(), ttl_ms=RETENTION_MS)

    def _build_set_key(self, set_id: str) -> str:
        return self.keys.build_key(self.keys.get_partition(set_id), set_id)
