"""The floor: a bare loop over one shared client. Nothing is stored, checked or shown."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from openai import AsyncOpenAI

from tests.bench.job import Job, earlier, main, observation


@dataclass(frozen=True)
class Floor:
    job: Job
    client: AsyncOpenAI

    async def run(self, number: int) -> str:
        messages: list[Any] = [
            {"role": "system", "content": self.job.system},
            *earlier(self.job.earlier),
            {"role": "user", "content": self.job.quoted},
        ]
        while True:
            answer = await self.client.chat.completions.create(
                model="mock-1",
                messages=messages,
                tools=[self.job.tool],  # type: ignore[list-item]
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

    async def settled(self) -> None:
        pass


@asynccontextmanager
async def opened(job: Job) -> AsyncIterator[Floor]:
    async with AsyncOpenAI(base_url=job.model_url, api_key="none") as client:
        yield Floor(job, client)


if __name__ == "__main__":
    main(opened, "openai", "httpx2", "pydantic")
