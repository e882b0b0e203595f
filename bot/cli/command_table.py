"""Which module has which command of `countersign`. A module is imported when its command is called, or when all of them
are listed: importing everything takes seconds, and most commands only look into Redis.

So that a command starts at once, what its module imports at the top should be what it always needs; what it needs
seldom and is slow to import (Slack's client, the model's, the engine) is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import typer.main
from typer.core import TyperCommand, TyperGroup

MODULES = {
    "init": "init",
    "run": "run",
    "tail": "tail",
    "show": "show",
    "pending": "pending",
    "doctor": "doctor",
    "top": "top",
    "export": "export",
    "usage": "usage",
    "eval": "evaluation",
    "backup": "backup",
    "restore": "backup",
    "restored": "restored",
    "upgrade": "upgrade",
    "sbom": "sbom",
    "licences": "sbom",
    "dead": "dead_letters",
    "audit": "audit",
    "processes": "processes",
    "person": "person",
}
"""Command → module of this package, in the order in which they are listed."""
GROUPS = frozenset({"dead", "audit", "processes", "person"})
"""Commands that have commands of their own."""


class CommandTable(Mapping[str, TyperCommand | TyperGroup]):
    """Name → command, imported when it is looked at."""

    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        return _import_command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


@cache
def _import_command(name: str) -> TyperCommand | TyperGroup:
    module = import_module(f"bot.cli.{MODULES[name]}")
    holder = typer.Typer()
    holder.add_typer(module.app, name=name if name in GROUPS else None)
    return typer.main.get_group(holder).commands[name]  # type: ignore[return-value]


class LazyGroup(TyperGroup):
    """`countersign` itself."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = CommandTable()  # type: ignore[assignment]

    def list_commands(self, ctx: object) -> list[str]:
        """Their names, without importing anything."""
        return list(self.commands)
