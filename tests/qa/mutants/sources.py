"""The mutants of the files of this tree, and which of them are drawn."""

import json
import random
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path

from tests.qa.mutants.lua_edits import list_lua_edits
from tests.qa.mutants.mutant import Key, Mutant, build_mutants
from tests.qa.mutants.python_edits import list_python_edits
from tests.qa.mutants.table import ROOT

EQUIVALENT = Path(__file__).with_name("equivalent.toml")


@cache
def list_mutants(path: str) -> tuple[Mutant, ...]:
    source = (ROOT / path).read_text(encoding="utf-8")
    return tuple(build_mutants(path, source, (list_lua_edits if path.endswith(".lua") else list_python_edits)(source)))


def draw_mutants(paths: Sequence[str], sample: int | None, seed: int) -> list[Mutant]:
    """Some of them, in the order of the files and lines. The same tree, files, number and seed give the same ones."""
    everything = [mutant for path in paths for mutant in list_mutants(path)]
    if sample is None or sample >= len(everything):
        return everything
    return [everything[at] for at in sorted(random.Random(seed).sample(range(len(everything)), sample))]


def read_keys(file: Path) -> dict[Key, str]:
    """Mutants listed in a file, each with why it is harmless."""
    entries = tomllib.loads(file.read_text(encoding="utf-8")).get("mutant", [])
    return {Key(**{name: one[name] for name in one if name != "why"}): one.get("why", "") for one in entries}


def find_stale(listed: Collection[Key]) -> list[Key]:
    """Those that the code does not have any more: they excuse nothing."""
    paths = {key.path for key in listed if (ROOT / key.path).is_file()}
    return sorted(set(listed) - {mutant.key for path in paths for mutant in list_mutants(path)}, key=repr)


def format_keys(listed: Mapping[Key, str]) -> str:
    """The text of such a file."""
    return "\n".join(_format_entry(asdict(key) | {"why": why}) for key, why in listed.items())


def _format_entry(fields: Mapping[str, object]) -> str:
    lines = (f"{name} = {_quote(value)}\n" for name, value in fields.items() if name != "number" or value)
    return "".join(("[[mutant]]\n", *lines))


def _quote(value: object) -> str:
    is_plain = isinstance(value, str) and "'" not in value and value.isprintable()
    return f"'{value}'" if is_plain else json.dumps(value, ensure_ascii=False)
