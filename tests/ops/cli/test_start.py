"""The start of a command: how much it imports before it does anything, which is most of the time that a short one
takes, and its help."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from bot.core.version import VERSION
from bot.ops.cli import app
from bot.ops.cli.command_table import GROUPS, MODULES
from tests.harness.programs import ROOT, ran

SLOW = frozenset(
    ("aiohttp", "boto3", "botocore", "holidays", "mcp", "openai", "PIL", "slack_bolt", "slack_sdk", "structlog",
     "uvicorn", "bot.app.build", "bot.ops.doctor", "bot.dev.evaluation", "bot.dev.rehearsal", "tools.catalog")
)  # fmt: skip
"""What takes long to import, and what only the bot at work, the doctor and the evaluation need."""
LOOK = """
import sys
from bot.ops.cli import main
sys.argv = ["countersign", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("imported", *sorted(sys.modules))
"""


def list_imported(*arguments: str, **env: str) -> set[str]:
    """The modules that a command has imported when it ends."""
    known = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "LANG": "en_US.UTF-8", **env}
    done = subprocess.run(
        [sys.executable, "-c", LOOK, *arguments], capture_output=True, text=True, check=True, timeout=250, env=known
    )
    return set(done.stdout.splitlines()[-1].split()[1:])


MORE: dict[tuple[str, ...], set[str]] = {
    ("pending",): set(),
    ("usage",): set(),
    ("dead",): set(),
    ("top", "--once"): set(),
    ("audit",): {"holidays"},
    ("restored",): {"structlog"},
    ("init", "--help"): {"structlog"},
    ("check", "--help"): set(),
    ("new", "tool", "--help"): set(),
}
"""Command → what it needs of what is slow to import."""


def test_a_command_that_only_looks_imports_no_more_than_it_needs(valkey: str) -> None:
    assert not SLOW & list_imported("tail", "--since", "2m", REDIS_URL=valkey)


@pytest.mark.slow
def test_neither_does_any_other(valkey: str, subtests: pytest.Subtests) -> None:
    for arguments, needs in MORE.items():
        with subtests.test(" ".join(arguments)):
            assert SLOW & list_imported(*arguments, REDIS_URL=valkey) <= needs


def test_who_needs_more_has_it_and_the_test_sees_it() -> None:
    assert {"slack_sdk", "bot.ops.doctor"} <= list_imported("doctor", "--help")


def test_every_name_in_the_table_is_a_command_of_its_module() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert {name: one.name for name, one in commands.items()} == {name: name for name in MODULES}


async def test_help_is_short_flags_take_nothing_and_the_version_is_printed(tmp_path: Path) -> None:
    """It stands on a terminal of 80 columns, whole."""
    pages = [("--help",), *((name, "--help") for name in MODULES), ("--version",), ()]
    env = {"COLUMNS": "80", "LANG": "en_US.UTF-8"}
    *ends, version, bare = await asyncio.gather(*(ran(*page, cwd=tmp_path, env=env) for page in pages))
    for (name, *more), end in zip(pages, ends, strict=False):
        assert end.code == 0 and "<bool>" not in end.out and "list[" not in end.out, end
        listed = end.out.partition("\nCommands:\n")[2]
        assert bool(listed) == (not more or name in GROUPS), end.out
        assert "..." not in listed, "every command has a first sentence that stands on its line"
        long = [line for line in end.out.splitlines() if len(line) > 80 and "countersign " not in line]
        assert not long, "no line but an example wraps"
    assert (version.code, version.out) == (0, f"countersign {VERSION}\n")
    assert "Commands:" in bare.all, "alone it lists its commands"
