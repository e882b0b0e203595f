"""openai-agents on chat completions, without a session, or with its Redis session."""

# mypy: ignore-errors
from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from tests.bench.job import Job, main, observation


@dataclass(frozen=True)
class OpenAiAgents:
    job: Job
    agent: Any
    redis: Any = None

    async def run(self, number: int) -> str:
        session = None
        if self.redis is not None:
            from agents.extensions.memory import RedisSession

            session = RedisSession(f"conversation-{number}", redis_client=self.redis)
        result = await Runner.run(self.agent, self.job.quoted, session=session, max_turns=self.job.steps + 2)
        return result.final_output

    async def settled(self) -> None:
        pass


@asynccontextmanager
async def opened(job: Job) -> AsyncIterator[OpenAiAgents]:
    set_tracing_disabled(True)

    @function_tool(description_override=job.tool["function"]["description"])
    def look_up(name: str, reason: str) -> dict[str, str]:
        return observation(name)

    redis = None
    async with AsyncOpenAI(base_url=job.model_url, api_key="none") as client:
        if job.variant == "redis":
            from redis.asyncio import BlockingConnectionPool, Redis

            redis = Redis.from_pool(BlockingConnectionPool.from_url(job.redis_url, max_connections=64, timeout=None))
        model = OpenAIChatCompletionsModel("mock-1", client)
        settings = ModelSettings(temperature=0.3)
        agent = Agent("bench", instructions=job.system, tools=[look_up], model=model, model_settings=settings)
        yield OpenAiAgents(job, agent, redis)
        if redis is not None:
            await redis.aclose()


if __name__ == "__main__":
    main(opened, "openai-agents", "openai", "redis", "httpx2", "pydantic")
