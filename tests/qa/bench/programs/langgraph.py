"""LangGraph's prebuilt agent, without a checkpointer."""

# mypy: ignore-errors
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent

from tests.qa.bench.job import Job, Runs, main, observation


def look_up(name: str, reason: str) -> dict[str, str]:
    return observation(name)


@asynccontextmanager
async def opened(job: Job) -> AsyncIterator[Runs]:
    warnings.simplefilter("ignore")
    look_up.__doc__ = job.tool["function"]["description"]
    model = ChatOpenAI(model="mock-1", base_url=job.model_url, api_key="none", temperature=0.3)
    graph = create_react_agent(model, [tool(look_up)], prompt=job.system)

    async def run(number: int) -> str:
        end = await graph.ainvoke({"messages": [("user", job.quoted)]}, {"recursion_limit": 4 * job.steps})
        return end["messages"][-1].content

    yield Runs(run)


if __name__ == "__main__":
    main(opened, "langgraph", "langchain-openai", "openai", "pydantic")
