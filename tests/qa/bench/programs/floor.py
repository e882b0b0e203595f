"""The floor: a bare loop over one shared client. Nothing is stored, checked or shown."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from openai import AsyncOpenAI

from tests.qa.bench.job import Job, Runs, main, observation


@asynccontextmanager
async def opened(job: Job) -> AsyncIterator[Runs]:
    async with AsyncOpenAI(base_url=job.model_url, api_key="none") as client:

        async def run(number: int) -> str:
            system = {"role": "system", "content": job.system}
            messages: list[Any] = [system, {"role": "user", "content": job.quoted}]
            while True:
                answer = await client.chat.completions.create(
                    model="mock-1",
                    messages=messages,
                    tools=[job.tool],  # type: ignore[list-item]
                    temperature=0.3,
                )
                said = answer.choices[0].message
                if not said.tool_calls:
                    return said.content or ""
                messages.append(said.model_dump(exclude_none=True))
                for call in said.tool_calls:
                    name = json.loads(call.function.arguments)["name"]  # type: ignore[union-attr]
                    result = json.dumps(observation(name))
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": result})

        yield Runs(run)


if __name__ == "__main__":
    main(opened, "openai", "httpx2", "pydantic")
