"""pydantic-ai, as its documentation shows it: one agent, one tool. Nothing is stored."""

# mypy: ignore-errors
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.qa.bench.job import Job, Runs, main, observation


def look_up(name: str, reason: str) -> dict[str, str]:
    return observation(name)


@asynccontextmanager
async def opened(job: Job) -> AsyncIterator[Runs]:
    look_up.__doc__ = job.tool["function"]["description"]
    async with AsyncOpenAI(base_url=job.model_url, api_key="none") as client:
        model = OpenAIChatModel("mock-1", provider=OpenAIProvider(openai_client=client))
        agent = Agent(model, system_prompt=job.system, tools=[look_up], model_settings={"temperature": 0.3})

        async def run(number: int) -> str:
            return (await agent.run(job.quoted)).output

        yield Runs(run)


if __name__ == "__main__":
    main(opened, "pydantic-ai-slim", "openai", "httpx2", "pydantic")
