"""Every regular expression of the two packages: those compiled when a module is imported, and those named where a
function compiles one each time it is called.

Run as a program it imports every module and prints what was compiled, so that a test sees them all, whatever they are
hidden in (a table, a class, a closure, the default of an argument).
"""

import ast
import gc
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.harness.command_server import ROOT, import_everything

PACKAGES = ("bot", "tools")
USES = frozenset({"search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer"})
SEARCHES = frozenset({"search", "sub", "subn", "split", "findall", "finditer"})
"""Uses that try a pattern at every character of a text."""


@dataclass(frozen=True, slots=True)
class Found:
    """One pattern, and where it stands."""

    where: str
    """`bot.core.logs:33`."""
    pattern: re.Pattern[str]
    uses: frozenset[str]
    """`search` if it is tried at every character, `fullmatch` if it is tried at the beginning of a text."""

    def __str__(self) -> str:
        return f"{self.where} {self.pattern.pattern[:60]!r}"


def find_patterns() -> list[Found]:
    """Every pattern that is compiled while the packages are imported, each once."""
    program = [sys.executable, "-m", "tests.linear.collect"]
    told = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True, timeout=250)
    uses = find_uses()
    found = dict[tuple[str, int], Found]()
    for module, line, written, flags, binary in json.loads(told.stdout):
        pattern = re.compile(written.encode("latin-1").decode() if binary else written, flags)
        where = f"{module}:{line}"
        before = found.get((written, flags))
        both = uses(module, line) | (before.uses if before else frozenset())
        found[written, flags] = Found(before.where if before else where, pattern, both)
    return list(found.values())


def find_uses() -> Callable[[str, int], frozenset[str]]:
    """How the patterns assigned to a name are used anywhere: (module, line of the assignment) → uses. A pattern
    without a name of its own, or used in no way that can be seen, is taken to be used in every way."""
    used, named = defaultdict[str, set[str]](set), dict[tuple[str, int], str]()
    for module, tree in parse_modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in USES:
                used[_scoped(module, _name(node.value))].add(node.attr)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                    named[module, line] = _scoped(module, node.targets[0].id)

    def look_up(module: str, line: int) -> frozenset[str]:
        seen = used.get(named.get((module, line), ""), USES)
        searched = {"search"} if seen & SEARCHES else set[str]()
        return frozenset(searched | ({"fullmatch"} if seen - SEARCHES else set()))

    return look_up


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return _name(node.value)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _scoped(module: str, name: str) -> str:
    """A name with an underscore is its module's own; others are used from anywhere."""
    return f"{module}.{name}" if name.startswith("_") else name


def parse_modules() -> Iterator[tuple[str, ast.Module]]:
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            module = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            text = file.read_text("utf-8")
            gc.disable()  # CPython 3.11 raises SystemError if a collection runs while it builds a tree
            try:
                tree = ast.parse(text)
            finally:
                gc.enable()
            yield module, tree


def record_patterns() -> list[tuple[str, int, str, int, bool]]:
    """What is compiled while everything is imported, with the module and the line that asked for it."""
    compiled, original = list[tuple[str, int, str, int, bool]](), re._compile  # type: ignore[attr-defined]

    def record(pattern, flags):  # type: ignore[no-untyped-def]
        made = original(pattern, flags)
        frame = sys._getframe(1)
        while frame is not None and frame.f_globals.get("__name__") in ("re", __name__):
            frame = frame.f_back
        module = frame.f_globals.get("__name__", "") if frame else ""
        if module.partition(".")[0] in PACKAGES:
            while frame.f_back is not None and frame.f_code.co_name != "<module>":
                frame = frame.f_back
            binary = isinstance(made.pattern, bytes)
            text = made.pattern.decode("latin-1") if binary else made.pattern
            compiled.append((module, frame.f_lineno, text, made.flags & ~re.DEBUG, binary))
        return made

    re._compile = record  # type: ignore[attr-defined]
    import_everything()
    return compiled


if __name__ == "__main__":
    json.dump(record_patterns(), sys.stdout)
