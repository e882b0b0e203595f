"""Settings: the environment variable of each, its type, default and help; and the arguments of the Lua scripts."""

from __future__ import annotations

import re
from inspect import formatannotation

from bot.app.settings import Settings
from tests.golden.pinned import compare, compare_json
from tests.harness.office import ROOT
from tests.harness.settings_help import read_help


def test_the_environment_variables() -> None:
    helped = read_help()
    told = [
        {
            "variable": name.upper(),
            "type": formatannotation(field.annotation),
            "default": None if field.default is None else str(field.default),
            "limits": [str(one) for one in field.metadata if "Validator" not in str(one)],
            "help": helped.get(name, ""),
        }
        for name, field in Settings.model_fields.items()
    ]
    compare_json("settings.json", told)


def test_the_arguments_of_the_scripts() -> None:
    """What the head of each Lua file says, by the file's name."""
    heads: list[str] = []
    files = [one for folder in ("bot", "tools") for one in (ROOT / folder).rglob("*.lua")]
    for file in sorted(files, key=lambda one: one.name):
        text = file.read_text(encoding="utf-8")
        head = re.match(r"(--.*\n)*", text)
        operations = re.findall(r"^function write\.(\w+\([^)]*\))", text, re.M)
        heads.append("\n".join([f"== {file.name}", *(head[0].splitlines() if head else []), *operations]))
    compare("scripts.txt", "\n\n".join(heads))
