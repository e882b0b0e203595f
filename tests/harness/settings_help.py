"""The text under each setting."""

import ast
from inspect import cleandoc, getsource
from itertools import pairwise

from bot.app.settings import Settings


def read_help() -> dict[str, str]:
    """Read the text under each setting, by the setting's name."""
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
