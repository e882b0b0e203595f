"""Every test here is told of each engine."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.harness.engines import StartEngine
from tests.tools.workflow.remote.company import KINDS, World, world_of


@pytest.fixture(params=KINDS)
async def world(request: pytest.FixtureRequest, start_engine: StartEngine) -> AsyncIterator[World]:
    async with world_of(request.param, start_engine(request.param)) as world:
        yield world
