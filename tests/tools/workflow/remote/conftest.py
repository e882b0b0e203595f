"""Every test here is told twice: of Flowable and of Camunda."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.tools.workflow.remote.company import ENGINES, World, world_of


@pytest.fixture(params=sorted(ENGINES))
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    async with world_of(request.param) as world:
        yield world
