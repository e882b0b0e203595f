"""The table of settings in `deploy/README.md` is made of `Settings`, and is out of date when it is not what that says;
`deploy/env.example` documents every setting, and only those, with its default.

`GOLDEN=write .venv/bin/python -m pytest tests/deploy/test_settings_table.py` writes it anew.
"""

import os
import re
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from bot.app.settings import Settings
from tests.harness.settings_help import read_help

GUIDE = Path(__file__).parents[2] / "deploy" / "README.md"
BEGIN, END = "<!-- settings: begin -->\n", "<!-- settings: end -->"
KINDS: dict[Any, str] = {bool: "`true`, `false`", int: "whole number", float: "number", str: "text", Path: "path"}
KINDS[SecretStr] = "secret"


def describe_type(annotation: Any) -> str:
    kinds = [one for one in get_args(annotation) if one is not NoneType]
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{one}`" for one in kinds)
    if get_origin(annotation) is Annotated or kinds:
        return describe_type(kinds[0])
    return KINDS[annotation]


def describe_bounds(field: FieldInfo) -> str:
    least = [f" ≥ {one.ge}" for one in field.metadata if isinstance(one, Ge)]
    above = [f" > {one.gt}" for one in field.metadata if isinstance(one, Gt)]
    most = [f" ≤ {one.le}" for one in field.metadata if isinstance(one, Le)]
    return "".join([*least, *above, *most]).replace(" ≤", ", ≤")


def describe_default(default: object) -> str:
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return "" if default in (None, "") else f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


def capitalize_settings(text: str) -> str:
    """The names of settings as an administrator writes them; one line."""
    names = "|".join(Settings.model_fields)
    return re.sub(rf"`({names})`", lambda found: found[0].upper(), " ".join(text.split())).replace("|", "\\|")


def build_table() -> str:
    said = read_help()
    rows = ["| setting | takes | default | meaning |", "|---|---|---|---|"]
    for name, field in Settings.model_fields.items():
        takes = describe_type(field.annotation) + describe_bounds(field)
        rows.append(
            f"| `{name.upper()}` | {takes} | {describe_default(field.default)} | {capitalize_settings(said[name])} |"
        )
    return "\n".join(rows) + "\n"


def test_the_table_is_what_the_settings_say() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    written, behind = rest.split(END)
    if os.environ.get("GOLDEN") == "write":
        GUIDE.write_text(before + BEGIN + build_table() + END + behind, encoding="utf-8")
        return
    assert written == build_table(), "out of date: GOLDEN=write writes it anew"


def test_the_table_has_what_an_administrator_has_to_know() -> None:
    rows = dict(re.findall(r"^\| `([A-Z_]+)` (.*)$", build_table(), re.M))
    assert set(rows) == {name.upper() for name in Settings.model_fields}
    assert rows["MAX_STEPS"].startswith("| whole number ≥ 1, ≤ 100 | `16` |")
    assert rows["SLACK_BOT_TOKEN"].startswith("| secret |  |") and "`SLACK_APP_TOKEN`" in rows["SLACK_BOT_TOKEN"]
    assert rows["SLACK_MODE"].startswith("| `socket`, `http` | `socket` |")


EXAMPLE = Path(__file__).parents[2] / "deploy" / "env.example"


def shown(default: object) -> str:
    if isinstance(default, float):
        return f"{default:g}"
    return "" if default is None else str(default).lower() if isinstance(default, bool) else str(default)


def test_every_setting_stands_in_the_example_with_its_default() -> None:
    written = dict(re.findall(r"^#([A-Z_]+)=(.*)$", EXAMPLE.read_text(encoding="utf-8"), re.M))
    assert written == {name.upper(): shown(field.default) for name, field in Settings.model_fields.items()}
