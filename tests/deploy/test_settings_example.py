"""`deploy/env.example` documents every setting, and only those, with its default."""

import re
from pathlib import Path

from bot.app.settings import Settings

EXAMPLE = Path(__file__).parents[2] / "deploy" / "env.example"


def shown(default: object) -> str:
    if isinstance(default, float):
        return f"{default:g}"
    return "" if default is None else str(default).lower() if isinstance(default, bool) else str(default)


def test_every_setting_stands_in_the_example_with_its_default() -> None:
    written = dict(re.findall(r"^#([A-Z_]+)=(.*)$", EXAMPLE.read_text(encoding="utf-8"), re.M))
    assert written == {name.upper(): shown(field.default) for name, field in Settings.model_fields.items()}
