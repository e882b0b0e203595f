"""pydantic-ai, as its documentation shows it: one agent, one tool. Nothing is stored."""

# mypy: ignore-errors
from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.bench.job import Job, main, observation


def look_up(name: str, reason: str) -> dict[str, str]:
    return observation(name)


@dataclass(frozen=True)
class PydanticAi:
    job: Job
    agent: Any

    async def run(self, number: int) -> str:
        return (await self.agent.run(self.job.quoted)).output

    async def settled(self) -> None:
        pass


@asynccontextmanager
async def opened(job: Job) -> AsyncIterator[PydanticAi]:
    look_up.__doc__ = job.tool["function"]["description"]
    async with AsyncOpenAI(base_url=job.model_url, api_key="none") as client:
        model = OpenAIChatModel("mock-1", provider=OpenAIProvider(openai_client=client))
        yield PydanticAi(
            job, Agent(model, system_prompt=job.system, tools=[look_up], model_settings={"temperature": 0.3})
        )


if __name__ == "__main__":
    main(opened, "pydantic-ai-slim", "openai", "httpx2", "pydantic")
