from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.stories.office import Office, office


@pytest.fixture
async def desk(valkey: str) -> AsyncIterator[Office]:
    """The outside world, with the bot at work in it."""
    async with office(valkey) as opened, opened.opened():
        yield opened


@pytest.fixture
async def empty(valkey: str) -> AsyncIterator[Office]:
    """The outside world without a bot: the story opens, kills and reopens its own."""
    async with office(valkey) as opened:
        yield opened
