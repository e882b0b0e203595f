"""People's own settings: their language, how steps are shown to them, and whether they want a morning list.

Every process keeps a copy of language and steps and checks for changes now and then, so that nobody waits for it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from pydantic import ValidationError
from redis.asyncio import Redis

from bot.queue.keys import Keys
from tools.spec import StoredModel

Steps = Literal["", "plan", "replies", "quiet"]


class Preferences(StoredModel):
    """One person's settings; empty means the default of the platform or the company."""

    language: str = ""
    steps: Steps = ""


DEFAULTS = Preferences()
OFF = "off"
"""The stored wish of a person who wants no morning list."""


@dataclass(slots=True)
class PreferenceStore:
    """The settings of all people. Every call that reads or writes may raise StoreUnavailableError."""

    redis: Redis
    keys: Keys
    known: Mapping[str, Preferences] = field(default_factory=dict)
    """Person id → settings, as this process knows them."""
    version: str = ""

    def get_preferences(self, person: str) -> Preferences:
        return self.known.get(person, DEFAULTS)

    def get_language(self, person: str) -> str:
        return self.get_preferences(person).language

    async def reload_if_changed(self) -> bool:
        """Take over changes of other processes. Returns whether anything has changed."""
        version = str(await self.redis.get(self._build_key("preferences_version")) or "")
        if version == self.version:
            return False
        fields: dict[str, str] = await self.redis.hgetall(self._build_key("preferences"))  # type: ignore[assignment]
        known = dict.fromkeys(fields, DEFAULTS)
        for person, text in fields.items():
            with suppress(ValidationError):  # settings of a newer version are not guessed at
                known[person] = Preferences.model_validate_json(text)
        self.known, self.version = known, version
        return True

    async def save_preferences(self, person: str, preferences: Preferences) -> None:
        async with self.redis.pipeline(transaction=True) as pipe:
            pipe.hset(self._build_key("preferences"), person, preferences.model_dump_json())
            pipe.incr(self._build_key("preferences_version"))
            await pipe.execute()
        self.known = {**self.known, person: preferences}

    async def wants_morning_list(self, person: str) -> bool:
        return await self.redis.get(self._build_morning_key(person)) != OFF

    async def save_morning_wish(self, person: str, *, wants_list: bool) -> None:
        """Save the wish, which takes effect with the next list."""
        if wants_list:
            await self.redis.delete(self._build_morning_key(person))
        else:
            await self.redis.set(self._build_morning_key(person), OFF)

    def _build_key(self, name: str) -> str:
        return f"{self.keys.prefix}:{{people}}:{name}"

    def _build_morning_key(self, person: str) -> str:
        return self.keys.build_key(self.keys.get_partition(person), "morning", person)
