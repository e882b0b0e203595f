"""`countersign new`: lays out a new part of the program, ready to run."""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from typing import Annotated

import typer

from bot.ops.cli.console import build_error, print_sentence, sanitize_for_terminal

app = typer.Typer(no_args_is_help=True, help="Lay out a new part of the program, ready to run.")

ROOT = Path(__file__).parents[3]
TEMPLATE = ROOT / "bot" / "dev" / "template"
NAME, LONGEST = "my_tool", 40
"""Name of the tool in the template, and most characters of a name."""
WORDS = re.compile(r"[a-z]+(_[a-z]+)*")
IMPORT = re.compile(r"^from tools\..*\n", re.MULTILINE)


@app.command("tool")
def lay_out_tool(name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, like order_lunch.")]) -> None:
    """Lay out a tool in the sources. It has a folder in tools, a row in the catalog, a test and two scenarios.

    The tool runs at once: it has a card, a gate and sentences in both languages. Change it from there.
    """
    from bot.agent.tool_search import FIND
    from tools.catalog import TOOLS  # imports every tool

    catalog = ROOT / "tools" / "catalog.py"
    if not WORDS.fullmatch(name) or keyword.iskeyword(name) or len(name) > LONGEST:
        raise build_error("new.odd_name", name=sanitize_for_terminal(name))
    if not (ROOT / "tests" / "tools").is_dir():
        raise build_error("new.no_tree", folder=ROOT)
    files = {file: ROOT / _put_name(str(file.relative_to(TEMPLATE)), name) for file in TEMPLATE.rglob("*.*")}
    taken = [*files.values(), ROOT / "tools" / name, ROOT / "tools" / f"{name}.py"]
    if name in {FIND, *(tool.name for tool in TOOLS)} or any(file.exists() for file in taken):
        raise build_error("new.exists", name=name)
    for file, target in files.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_put_name(file.read_text(encoding="utf-8"), name), encoding="utf-8")
    catalog.write_text(add_to_catalog(catalog.read_text(encoding="utf-8"), name), encoding="utf-8")
    for target in sorted([*files.values(), catalog]):
        print_sentence("new.written", file=target.relative_to(ROOT))
    print_sentence("new.next", name=name)


def _put_name(text: str, name: str) -> str:
    """Put a tool's name into a text or a path of the template."""
    camel = name.title().replace("_", "")
    return text.replace(NAME, name).replace(NAME.upper(), name.upper()).replace("MyTool", camel).removesuffix(".txt")


def add_to_catalog(text: str, name: str) -> str:
    """Add the import and the row of a tool to the text of the catalog."""
    imports = IMPORT.findall(text)
    added = sorted([*imports, f"from tools.{name}.tool import {name.upper()}\n"])
    head, mark, rows = text.replace("".join(imports), "".join(added)).partition("TOOLS: ")
    return head + mark + rows.replace("\n)\n", f"\n    {name.upper()},\n)\n", 1)
