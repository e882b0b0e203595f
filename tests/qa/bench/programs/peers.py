"""The floor, a bare loop over one shared client, and what else one would pick, each as its documentation shows it: one
agent, one tool. Nothing is stored, checked or shown. Each runs in an environment of its own, which lacks the others.
The job names the one."""

# mypy: ignore-errors
import json
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.qa.bench.job import Job, Runs, main, observation, read_job


def look_up(name: str, reason: str) -> dict[str, str]:
    return observation(name)


@asynccontextmanager
async def open_floor(job: Job) -> AsyncIterator[Runs]:
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=job.model_url, api_key="none") as client:

        async def run(number: int) -> str:
            messages = [{"role": "system", "content": job.system}, {"role": "user", "content": job.quoted}]
            while True:
                answer = await client.chat.completions.create(
                    model="mock-1", messages=messages, tools=[job.tool], temperature=0.3
                )
                said = answer.choices[0].message
                if not said.tool_calls:
                    return said.content or ""
                messages.append(said.model_dump(exclude_none=True))
                for call in said.tool_calls:
                    result = json.dumps(observation(json.loads(call.function.arguments)["name"]))
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": result})

        yield Runs(run)


@asynccontextmanager
async def open_pydantic_ai(job: Job) -> AsyncIterator[Runs]:
    from openai import AsyncOpenAI
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    async with AsyncOpenAI(base_url=job.model_url, api_key="none") as client:
        model = OpenAIChatModel("mock-1", provider=OpenAIProvider(openai_client=client))
        agent = Agent(model, system_prompt=job.system, tools=[look_up], model_settings={"temperature": 0.3})

        async def run(number: int) -> str:
            return (await agent.run(job.quoted)).output

        yield Runs(run)


@asynccontextmanager
async def open_langgraph(job: Job) -> AsyncIterator[Runs]:
    """Its prebuilt agent, without a checkpointer."""
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.prebuilt import create_react_agent

    warnings.simplefilter("ignore")
    model = ChatOpenAI(model="mock-1", base_url=job.model_url, api_key="none", temperature=0.3)
    graph = create_react_agent(model, [tool(look_up)], prompt=job.system)

    async def run(number: int) -> str:
        end = await graph.ainvoke({"messages": [("user", job.quoted)]}, {"recursion_limit": 4 * job.steps})
        return end["messages"][-1].content

    yield Runs(run)


@asynccontextmanager
async def open_openai_agents(job: Job) -> AsyncIterator[Runs]:
    """On chat completions, without a session."""
    from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    async with AsyncOpenAI(base_url=job.model_url, api_key="none") as client:
        model, settings = OpenAIChatCompletionsModel("mock-1", client), ModelSettings(temperature=0.3)
        tools = [function_tool(description_override=look_up.__doc__)(look_up)]
        agent = Agent("bench", instructions=job.system, tools=tools, model=model, model_settings=settings)

        async def run(number: int) -> str:
            return (await Runner.run(agent, job.quoted, max_turns=job.steps + 2)).final_output

        yield Runs(run)


PROGRAMS = {
    "floor": (open_floor, "openai", "httpx2", "pydantic"),
    "pydantic_ai": (open_pydantic_ai, "pydantic-ai-slim", "openai", "httpx2", "pydantic"),
    "langgraph": (open_langgraph, "langgraph", "langchain-openai", "openai", "pydantic"),
    "openai_agents": (open_openai_agents, "openai-agents", "openai", "httpx2", "pydantic"),
}

if __name__ == "__main__":
    job = read_job()
    look_up.__doc__ = job.tool["function"]["description"]
    main(*PROGRAMS[job.variant])
