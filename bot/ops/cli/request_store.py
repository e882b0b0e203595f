"""The embedded engine's store, for the commands that look into requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bot.app.settings import load_settings
from bot.ops.cli.console import build_error, open_bot_store
from bot.storage.journal import Journal
from tools.workflow.engine.store import RedisStore


@asynccontextmanager
async def open_request_store() -> AsyncIterator[tuple[RedisStore, Journal]]:
    """Open the embedded engine's store and the journal. Raises CountersignError if another engine keeps the
    requests."""
    engine = load_settings().workflow_engine
    if engine != "embedded":
        raise build_error("processes.elsewhere", engine=engine)
    async with open_bot_store() as (redis, keys):
        yield RedisStore(redis), Journal(redis, keys)
