"""Every test here is told of each engine; of Operaton alone where time counts."""

from collections.abc import AsyncIterator

import pytest

from tests.harness.engines import StartEngine
from tests.tools.workflow.remote.company import KINDS, World, world_of


@pytest.fixture(params=[kind if kind == "operaton" else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS])
async def world(request: pytest.FixtureRequest, start_engine: StartEngine) -> AsyncIterator[World]:
    async with world_of(request.param, start_engine(request.param)) as world:
        yield world
