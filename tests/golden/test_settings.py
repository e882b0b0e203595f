"""Settings, commands and the arguments of the Lua scripts: what other people's files, habits and Redis rely on."""

import re
from inspect import formatannotation
from typing import Any

import typer

from bot.app.settings import Settings
from bot.ops.cli import app
from tests.golden.golden_files import compare_sections
from tests.golden.rendering import format_line
from tests.harness.office import ROOT
from tests.harness.settings_help import read_help


def test_the_environment_variables() -> None:
    helped, found = read_help(), dict[str, list[str]]()
    for name, field in Settings.model_fields.items():
        limits = [str(one) for one in field.metadata if "Validator" not in str(one)]
        found[name.upper()] = [
            *format_line("type", formatannotation(field.annotation)),
            *format_line("default", "none" if field.default is None else repr(str(field.default))),
            *(format_line("limits", " ".join(limits)) if limits else ()),
            *format_line("help", helped.get(name, "")),
        ]
    compare_sections("settings.txt", found)


def describe_command(command: Any, name: str) -> dict[str, list[str]]:
    """A command with its parameters, and the commands below it."""
    lines = format_line("help", command.help or "")
    for one in command.params:
        kind = formatannotation(one.type_descriptor.annotation) if hasattr(one, "type_descriptor") else ""
        default = "" if callable(one.default) or one.default is None else f" = {one.default}"
        lines += format_line(
            one.param_type_name, f"{' '.join([*one.opts, *one.secondary_opts])} {kind}{default}".rstrip()
        )
        lines += format_line("", getattr(one, "help", None) or "")
    found = {name: lines}
    for below, one in sorted(getattr(command, "commands", {}).items()):
        found |= describe_command(one, f"{name} {below}")
    return found


def test_commands_and_their_options() -> None:
    compare_sections("commands.txt", describe_command(typer.main.get_command(app), "countersign"))


def test_the_arguments_of_the_scripts() -> None:
    """What the head of each Lua file says, by the file's name."""
    found: dict[str, list[str]] = {}
    files = [one for folder in ("bot", "tools") for one in (ROOT / folder).rglob("*.lua")]
    for file in sorted(files, key=lambda one: one.name):
        text = file.read_text(encoding="utf-8")
        head = re.match(r"(--.*\n)*", text)
        operations = re.findall(r"^function write\.(\w+\([^)]*\))", text, re.M)
        found[file.name] = [*(head[0].splitlines() if head else []), *operations]
    compare_sections("scripts.txt", found)
