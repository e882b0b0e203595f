"""The models listed at an address (`GET /v1/models`): when one is shut down, and which names are similar."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import date
from difflib import get_close_matches
from typing import Any

from openai import AsyncOpenAI

from bot.agent.models.client import CONNECTION_ERRORS, RefusalError, send_request
from bot.agent.models.fields import parse_json, read_field, read_list, read_string

ASKED_S = 5.0
MAX_SIMILAR, MAX_NAME_LENGTH, MAX_MODELS = 3, 100, 5_000
"""Most similar names that are told, longest name in characters, and most models read from a list."""


async def find_similar_models(client: AsyncOpenAI, name: str) -> Sequence[str]:
    """Return the existing names most similar to this one. Return none if the endpoint has no list."""
    some = [read_string(read_field(one, "id"))[:MAX_NAME_LENGTH] for one in await _fetch_models(client)]
    return get_close_matches(name, [one for one in some if one.isprintable()], MAX_SIMILAR, 0.4)


async def find_shutdown_date(client: AsyncOpenAI, name: str) -> date | None:
    """Return when a model is shut down, or None if its endpoint does not say."""
    for one in await _fetch_models(client):
        if read_field(one, "id") == name:
            try:
                return date.fromisoformat(read_string(read_field(one, "shutdown_date")))
            except ValueError:
                return None
    return None


async def _fetch_models(client: AsyncOpenAI) -> Sequence[Any]:
    try:
        async with asyncio.timeout(ASKED_S):
            found = parse_json(await send_request(client, "models"))
    except (*CONNECTION_ERRORS, RefusalError, ValueError, TimeoutError):
        return []
    return read_list(read_field(found, "data"))[:MAX_MODELS]
