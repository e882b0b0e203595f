"""Who a person is in the engine, and back.

Camunda 7 and Operaton accept user ids of letters and digits only, so ids of chat platforms (`ou_…`) need a table.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from tools.names import name_of
from tools.ports import Directory
from tools.spec import Person, ToolError


class UsersRefused(ValueError):
    """The file of users cannot be used; the message says why."""


def read_users(path: Path | None) -> dict[str, str]:
    """The table `[users]`: e-mail address or person id → engine user. Raises `UsersRefused`."""
    if path is None:
        return {}
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8")).get("users", {})
        table = TypeAdapter(dict[str, str]).validate_python(found, strict=True)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError) as wrong:
        raise UsersRefused(f"{path.name}: a table [users] of e-mail or id = engine user is needed ({wrong})") from None
    if len(set(table.values())) < len(table):
        raise UsersRefused(f"{path.name}: an engine user stands for two people")
    return table


class Users:
    """`allowed`: what the engine accepts as a user id."""

    def __init__(self, table: Mapping[str, str], directory: Directory, allowed: re.Pattern[str]) -> None:
        self._directory, self._allowed = directory, allowed
        self._to = {_folded(k): v for k, v in table.items()}
        self._from = {v: _folded(k) for k, v in table.items()}

    async def user(self, person: str) -> str:
        """Raises `ToolError` `no_engine_user`."""
        user = await self.known(person)
        if not user:
            name = await name_of(self._directory, person)
            raise ToolError("no_engine_user", f"{name} has no user in the workflow engine", name=name)
        return user

    async def known(self, person: str) -> str:
        """By the table, else the id itself; empty for an id that the engine does not accept, and for one that means
        somebody else there."""
        found = await self._directory.get(person)
        user = self._to.get(_folded(person)) or self._to.get(_folded(found.email) if found else "") or person
        return user if self._allowed.fullmatch(user) and await self.person(user) == person else ""

    async def person(self, user: str) -> str:
        """The person id; a user nobody stands for is given back as it is, and is nobody who could decide."""
        name = self._from.get(user)
        if name is None:
            return user
        people = await self._directory.everyone()
        return next((p.id for p in people if name in _names(p)), user)


def _names(person: Person) -> tuple[str, ...]:
    return (_folded(person.id), *([_folded(person.email)] if person.email else []))


def _folded(name: str) -> str:
    return name.strip().casefold()
