"""The module of each command of `countersign`. A module is imported when its command is called, or when all commands
are listed: importing everything takes seconds, and most commands only look into Redis.

A command starts fast if its module imports at the top only what the command always needs. Slow imports that are needed
seldom (Slack's client, the model's, the engine) belong where they are used."""

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
    "dead": "dead_letters",
    "audit": "audit",
    "processes": "processes",
    "person": "person",
    "check": "check",
    "new": "new",
}
"""Command → module of this package, in the order of the list of commands."""
GROUPS = frozenset({"dead", "audit", "processes", "person", "new"})
"""Commands with subcommands."""


class CommandTable(Mapping[str, TyperCommand | TyperGroup]):
    """Name → command, imported when it is looked up."""

    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        return _import_command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


@cache
def _import_command(name: str) -> TyperCommand | TyperGroup:
    module = import_module(f"bot.ops.cli.{MODULES[name]}")
    holder = typer.Typer(rich_markup_mode=None)
    holder.add_typer(module.app, name=name if name in GROUPS else None)
    return typer.main.get_group(holder).commands[name]  # type: ignore[return-value]


class LazyGroup(TyperGroup):
    """The group of all commands: `countersign` itself."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = CommandTable()  # type: ignore[assignment]

    def list_commands(self, ctx: object) -> list[str]:
        """List the commands' names without importing anything."""
        return list(self.commands)
