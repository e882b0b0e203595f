"""Settings: the environment variable of each, its type, default and help; and the arguments of the Lua scripts."""

from __future__ import annotations

import ast
import re
from inspect import cleandoc, formatannotation, getsource
from itertools import pairwise

from bot.app.settings import Settings
from tests.golden.pinned import compare, compare_json
from tests.harness.office import ROOT


def read_help() -> dict[str, str]:
    """The text under each setting, by its name."""
    body = ast.parse(getsource(Settings)).body[0].body  # type: ignore[attr-defined]
    return {
        setting.target.id: cleandoc(text.value.value)
        for setting, text in pairwise(body)
        if isinstance(setting, ast.AnnAssign)
        and isinstance(setting.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


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
