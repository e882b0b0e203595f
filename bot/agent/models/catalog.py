"""The models at an address (`GET /v1/models`): when one is shut down, and which names are similar."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from typing import Any

from aiohttp import ClientError

from bot.agent.models.fields import parse_json, read_field, read_list, read_string
from bot.agent.models.http import HttpClient, ResponseTooLongError, send_http_request

ASKED_S = 5.0
MAX_SIMILAR, MAX_NAME_LENGTH, MAX_MODELS = 3, 100, 5_000
"""How many similar names are told; longest name; most models read from a list."""


@dataclass(frozen=True, slots=True)
class ModelCatalog:
    http: HttpClient
    url: str
    headers: Mapping[str, str]

    async def find_similar_models(self, name: str) -> Sequence[str]:
        """Existing names most similar to this one; none if the endpoint has no list."""
        some = [read_string(read_field(one, "id"))[:MAX_NAME_LENGTH] for one in await self._fetch_models()]
        return get_close_matches(name, [one for one in some if one.isprintable()], MAX_SIMILAR, 0.4)

    async def find_shutdown_date(self, name: str) -> date | None:
        """When a model is shut down, if its endpoint says so."""
        for one in await self._fetch_models():
            if read_field(one, "id") == name:
                try:
                    return date.fromisoformat(read_string(read_field(one, "shutdown_date")))
                except ValueError:
                    return None
        return None

    async def _fetch_models(self) -> Sequence[Any]:
        try:
            async with asyncio.timeout(ASKED_S):
                answer = await send_http_request(self.http, "GET", f"{self.url}models", self.headers, b"", lambda: None)
            found = parse_json(answer.body) if answer.status == 200 else None
        except (ClientError, ResponseTooLongError, ValueError, TimeoutError):
            return []
        return read_list(read_field(found, "data"))[:MAX_MODELS]
