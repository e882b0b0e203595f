"""openai-agents on chat completions, without a session."""

# mypy: ignore-errors
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from tests.qa.bench.job import Job, Runs, main, observation


@asynccontextmanager
async def opened(job: Job) -> AsyncIterator[Runs]:
    set_tracing_disabled(True)

    @function_tool(description_override=job.tool["function"]["description"])
    def look_up(name: str, reason: str) -> dict[str, str]:
        return observation(name)

    async with AsyncOpenAI(base_url=job.model_url, api_key="none") as client:
        model, settings = OpenAIChatCompletionsModel("mock-1", client), ModelSettings(temperature=0.3)
        agent = Agent("bench", instructions=job.system, tools=[look_up], model=model, model_settings=settings)

        async def run(number: int) -> str:
            return (await Runner.run(agent, job.quoted, max_turns=job.steps + 2)).final_output

        yield Runs(run)


if __name__ == "__main__":
    main(opened, "openai-agents", "openai", "httpx2", "pydantic")
