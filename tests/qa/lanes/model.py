"""Builds the model with spin and the C compiler, and runs it.

Each configuration is gone through to its end: it must hold. Each mutant, the model without a safety, must not."""

import os
import re
import shutil
import subprocess
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BUDGETS = (
    "engine", "from_outside", "crashes", "pauses", "failures", "copies", "stops", "failovers", "several", "set",
    "cluster", "alone",
)  # fmt: skip
LIMIT_S = 300.0
DEPTH, HASH_BITS, MEMORY_MB = 1_000_000, 22, 4_000
_VIOLATED = re.compile(r"pan:1: (?:assertion violated )?(.*?) \(at depth \d+\)")
_STATES = re.compile(r"(\d+) states, stored")
_INCOMPLETE = ("Search not completed", "max search depth too small", "reached -M limit")


class ModelError(Exception):
    """Nothing could be judged."""


@dataclass(frozen=True, slots=True)
class Mutant:
    what: str
    configuration: str
    edits: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Result:
    states: int
    seconds: float
    violated: str  # the assertion that does not hold; empty: all hold


def find_missing_program() -> str:
    """A program that is missing on this machine, with the package that has it; empty: none."""
    return next((name for name in ("spin", "gcc") if not shutil.which(name)), "")


def read_model() -> tuple[Mapping[str, Mapping[str, int]], list[Mutant]]:
    """The configurations by name, and the mutants."""
    read: dict[str, Any] = tomllib.loads((HERE / "model.toml").read_text())
    return read["configurations"], [Mutant(one["what"], one["in"], one["edits"]) for one in read["mutant"]]


def build_model(folder: Path, edits: Sequence[Sequence[str]] = (), *, is_fast: bool = True) -> Path:
    """The program that goes through all states. An edit replaces a text that stands in the model once. Raises
    ModelError."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {name: (HERE / name).read_text() for name in ("store.pml", "lanes.pml")}
    for before, after in edits:
        [name] = [name for name, text in texts.items() if text.count(before) == 1] or [""]
        if not name:
            raise ModelError(f"the model does not say once: {before!r}")
        texts[name] = texts[name].replace(before, after)
    for name, text in texts.items():
        (folder / name).write_text(text)
    flags = ["-DSAFETY", "-DVECTORSZ=1024", f"-DMEMLIM={MEMORY_MB}", "-O2" if is_fast else "-O0", "-w"]
    for words in (["spin", "-a", "lanes.pml"], ["gcc", *flags, "-o", "pan", "pan.c"]):
        made = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        if made.returncode:
            raise ModelError(f"{words[0]}: {(made.stdout + made.stderr)[-500:]}")
    return folder / "pan"


def run_model(program: Path, budgets: Mapping[str, int]) -> Result:
    """Raises ModelError if not all states were seen and nothing was found."""
    env = dict(os.environ) | {name: str(budgets.get(name, 0)) for name in BUDGETS}
    began = time.monotonic()
    words = [str(program), f"-m{DEPTH}", f"-w{HASH_BITS}", "-n"]
    try:
        ended = subprocess.run(words, cwd=program.parent, env=env, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        raise ModelError(f"not done in {LIMIT_S:.0f} s") from None
    said = ended.stdout
    violated, states = _VIOLATED.search(said), _STATES.search(said)
    if not states or (not violated and any(one in said for one in _INCOMPLETE)):
        raise ModelError(f"not all states were seen: {said[-500:]}")
    return Result(int(states[1]), time.monotonic() - began, violated[1].strip() if violated else "")


def check_configurations(folder: Path, only: str | None = None) -> Iterator[tuple[str, Result]]:
    """Each of them, or one, by name. Raises ModelError."""
    program = build_model(folder / "model")
    for name, budgets in read_model()[0].items():
        if only in (None, name):
            yield name, run_model(program, budgets)


def check_mutants(folder: Path) -> Iterator[tuple[Mutant, Result]]:
    """Each of them. Raises ModelError."""
    configurations, mutants = read_model()

    def check_mutant(mutant: Mutant) -> Result:
        program = build_model(folder / mutant.what.replace(" ", "-"), mutant.edits, is_fast=False)
        return run_model(program, configurations[mutant.configuration])

    with ThreadPoolExecutor(max_workers=2) as both:
        yield from zip(mutants, both.map(check_mutant, mutants), strict=True)
