"""LangGraph's prebuilt agent: alone, with its in-memory checkpointer, with its Redis checkpointer (which needs a server
with JSON and search), or with a minimal checkpointer on plain Redis."""

# mypy: ignore-errors
from __future__ import annotations

import base64
import json
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import create_react_agent
from redis.asyncio import BlockingConnectionPool, Redis

from tests.bench.job import Job, main, observation


class PlainRedisSaver(BaseCheckpointSaver):
    """The least that a durable checkpointer must do: keep a thread's newest checkpoint and its pending writes."""

    def __init__(self, redis: Redis) -> None:
        super().__init__()
        self.redis = redis

    async def aget_tuple(self, config: dict[str, Any]) -> CheckpointTuple | None:
        kept = await self.redis.hgetall(self._key(config))
        if not kept:
            return None
        checkpoint = self._load(kept[b"checkpoint"])
        writes = [(one[0], one[1], self._load(one[2].encode())) for one in json.loads(kept.get(b"writes", b"[]"))]
        return CheckpointTuple(config, checkpoint, json.loads(kept[b"metadata"]), None, writes)

    async def aput(self, config: dict[str, Any], checkpoint: Any, metadata: Any, new_versions: Any) -> dict[str, Any]:
        fields = {"checkpoint": self._dump(checkpoint), "metadata": json.dumps(metadata, default=str), "writes": "[]"}
        async with self.redis.pipeline(transaction=True) as both:
            both.hset(self._key(config), mapping=fields)
            both.expire(self._key(config), 7 * 86_400)
            await both.execute()
        known = config["configurable"]
        return {"configurable": {**known, "checkpoint_id": checkpoint["id"]}}

    async def aput_writes(self, config: dict[str, Any], writes: Any, task_id: str, task_path: str = "") -> None:
        dumped = [(task_id, channel, self._dump(value).decode()) for channel, value in writes]
        await self.redis.hset(self._key(config), "writes", json.dumps(dumped))

    def _dump(self, value: Any) -> bytes:
        kind, data = self.serde.dumps_typed(value)
        return kind.encode() + b":" + base64.b64encode(data)

    def _load(self, value: bytes) -> Any:
        kind, _, data = value.partition(b":")
        return self.serde.loads_typed((kind.decode(), base64.b64decode(data)))

    def _key(self, config: dict[str, Any]) -> str:
        return f"thread:{config['configurable']['thread_id']}"


@dataclass(frozen=True)
class LangGraph:
    job: Job
    graph: Any

    async def run(self, number: int) -> str:
        config = {"configurable": {"thread_id": f"thread-{number}"}, "recursion_limit": 4 * self.job.steps}
        end = await self.graph.ainvoke({"messages": [("user", self.job.quoted)]}, config)
        return end["messages"][-1].content

    async def settled(self) -> None:
        pass


@asynccontextmanager
async def saver(job: Job) -> AsyncIterator[Any]:
    if job.variant == "memory":
        yield InMemorySaver()
    elif job.variant == "plain-redis":
        redis = Redis.from_pool(BlockingConnectionPool.from_url(job.redis_url, max_connections=64, timeout=None))
        yield PlainRedisSaver(redis)
        await redis.aclose()
    elif job.variant == "redis":
        from langgraph.checkpoint.redis.aio import AsyncRedisSaver

        redis = Redis.from_pool(BlockingConnectionPool.from_url(job.redis_url, max_connections=64, timeout=None))
        async with AsyncRedisSaver.from_conn_string(redis_client=redis) as kept:
            await kept.asetup()
            yield kept
    else:
        yield None


@asynccontextmanager
async def opened(job: Job) -> AsyncIterator[LangGraph]:
    warnings.simplefilter("ignore")

    def look_up(name: str, reason: str) -> dict[str, str]:
        return observation(name)

    look_up.__doc__ = job.tool["function"]["description"]
    model = ChatOpenAI(model="mock-1", base_url=job.model_url, api_key="none", temperature=0.3)
    async with saver(job) as kept:
        yield LangGraph(job, create_react_agent(model, [tool(look_up)], prompt=job.system, checkpointer=kept))


if __name__ == "__main__":
    main(opened, "langgraph", "langchain-openai", "langgraph-checkpoint-redis", "openai", "redis", "pydantic")
