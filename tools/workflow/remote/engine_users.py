"""Maps persons to users of the engine, and back.

Any text may be the assignee of a task, so a table is needed only where people have other names on the engine's own
pages."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from tools.people.names import get_names_by_language
from tools.ports import Directory
from tools.spec import ToolError


class InvalidUsersError(ValueError):
    """The file of users is unusable; the message says why."""


def read_users(path: Path | None) -> dict[str, str]:
    """Read the table `[users]`: e-mail address or person id → engine user. Raises `InvalidUsersError`."""
    if path is None:
        return {}
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8")).get("users", {})
        table = TypeAdapter(dict[str, str]).validate_python(found, strict=True)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError) as wrong:
        raise InvalidUsersError(
            f"{path.name}: a table [users] of e-mail or id = engine user is needed ({wrong})"
        ) from None
    if len(set(table.values())) < len(table):
        raise InvalidUsersError(f"{path.name}: an engine user stands for two people")
    return table


class EngineUsers:
    def __init__(self, table: Mapping[str, str], directory: Directory) -> None:
        self._directory = directory
        self._user_by_name = {_fold_name(k): v for k, v in table.items()}
        self._name_by_user = {v: _fold_name(k) for k, v in table.items()}
        self._person_by_user: dict[str, str] = {}
        """Those who were asked about: no list of people has who has left."""

    async def get_engine_user(self, person: str) -> str:
        """The engine user of a person. Raises `ToolError` `no_engine_user`."""
        user = await self.find_engine_user(person)
        if not user:
            names = await get_names_by_language(self._directory, person)
            raise ToolError("no_engine_user", f"{person} has no user in the workflow engine", name=names)
        return user

    async def find_engine_user(self, person: str) -> str:
        """The engine user of a person: by the table, else the id itself. Empty for an id that means another person
        there."""
        found = await self._directory.find_person(person)
        email = _fold_name(found.email) if found else ""
        user = self._user_by_name.get(_fold_name(person)) or self._user_by_name.get(email)
        if not user:
            return "" if person in self._name_by_user else person
        self._person_by_user[user] = person
        return user if await self.resolve_person_id(user) == person else ""

    async def resolve_person_id(self, user: str, likely: Iterable[str] = ()) -> str:
        """The person id of an engine user, perhaps one of the `likely` who has left. A user of no known person is
        returned unchanged, and can decide nothing."""
        name = self._name_by_user.get(user)
        if name is None:
            return user
        for p in await self._directory.list_people():
            if name == _fold_name(p.id) or (p.email and name == _fold_name(p.email)):
                return p.id
        for person in likely if user not in self._person_by_user else ():
            await self.find_engine_user(person)
        return self._person_by_user.get(user, user)


def _fold_name(name: str) -> str:
    return name.strip().casefold()
