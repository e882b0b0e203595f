"""The brake on growth: figures of the product that only fall.

A figure that has grown fails its test. A figure that has fallen by more than one part in a hundred fails too, until the
lower value stands here: the next change is then measured against it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST = {
    "product lines": 69_009,
    "lines of the second platform": 5_805,
    "kernel lines": 14_571,
    "helpers used once, of 1,000 functions": 92,
    "helpers of three lines or fewer": 16,
    "clauses as subjects in docstrings": 0,
    "clauses as subjects in papers": 0,
    "files that run for a message": 110,
    "files that run for a click": 83,
}
KERNEL = ("agent", "approvals", "conversation", "queue", "storage", "core", "chat", "app")
BESIDE_KERNEL = re.compile(r"bot/(?:agent/models/|agent/formats/|app/\w+_platform\.py)")
"""The adapters of models, and the opening of the adapters of platforms."""
PRODUCT = (".py", ".lua", ".js", ".css", ".html")
SECOND_PLATFORM = re.compile(
    r"bot/(?:platforms/feishu/|dev/workspace/feishu/|\w+/feishu_|dev/workspace/page/(?:feishu|card)\.)"
)
"""Feishu: its adapter, its local workspace and the looks of its page."""
CLAUSE = re.compile(r"(?:What|Who|Whoever|Whom|Whose|Whatever|Which)\b(?!.*\?$)")
SMALL = 3
"""Lines of a helper that hardly hides anything."""


def hold_brake(name: str, measured: int) -> None:
    most = MOST[name]
    assert measured <= most, f"{name}: {measured:,}, at most {most:,}. Take something out for what came in."
    assert measured >= most - most // 100, (
        f"{name}: {measured:,} now. Write it in tests/brake.py, where {most:,} stands."
    )


def list_product() -> list[Path]:
    """Every file of the product that somebody writes and reads as code."""
    return [file for part in ("bot", "tools") for file in sorted((ROOT / part).rglob("*")) if file.suffix in PRODUCT]


def list_second_platform() -> list[Path]:
    return [file for file in list_product() if SECOND_PLATFORM.match(file.relative_to(ROOT).as_posix())]


def list_kernel() -> list[Path]:
    rooms = tuple(f"bot/{room}/" for room in KERNEL)
    names = {file: file.relative_to(ROOT).as_posix() for file in list_product()}
    return [file for file, name in names.items() if name.startswith(rooms) and not BESIDE_KERNEL.match(name)]


def count_lines(files: list[Path]) -> int:
    return sum(file.read_text(encoding="utf-8").count("\n") for file in files)


Function = ast.FunctionDef | ast.AsyncFunctionDef


def find_helpers_used_once(tree: ast.Module) -> tuple[int, list[Function]]:
    """How many functions a module has, and those of its private functions that it names once."""
    functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
    uses = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    uses.update(node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    defined = Counter(one.name for one in functions)
    once = [one for one in functions if defined[one.name] == uses[one.name] == 1 and re.match(r"_(?!_)", one.name)]
    return len(functions), once


def count_body_lines(function: Function) -> int:
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0


def split_sentences(text: str) -> list[str]:
    """Sentences of more than three words."""
    flat = re.sub(r"\s+", " ", text)
    return [one.strip() for one in re.split(r"(?<=[.;:])\s+(?=[A-Z`])", flat) if len(one.split()) > 3]


def list_docstrings(tree: ast.Module) -> Iterator[str]:
    """Texts that stand alone, also those below a name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def list_papers() -> Iterator[str]:
    """Paragraphs of the papers, without code, tables and headings."""
    for part in ("*.md", ".github/*.md", "*/README.md", "tests/qa/*/README.md"):
        for file in ROOT.glob(part):
            text = re.sub(r"```.*?```", "", file.read_text(encoding="utf-8"), flags=re.S)
            lines = [line for line in text.splitlines() if not line.startswith(("|", "#"))]
            yield from "\n".join(lines).split("\n\n")


def count_clause_subjects(texts: Iterator[str]) -> int:
    return sum(1 for text in texts for sentence in split_sentences(text) if CLAUSE.match(sentence))
