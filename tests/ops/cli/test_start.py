"""How much a command imports before it does anything: most of the time that a short one takes."""

import os
import subprocess
import sys

import pytest
import typer.main

from bot.ops.cli import app
from bot.ops.cli.command_table import MODULES
from tests.harness.programs import ROOT

SLOW = frozenset(
    {
        *("aiohttp", "boto3", "botocore", "holidays", "mcp", "openai", "PIL", "slack_bolt"),
        *("slack_sdk", "structlog", "uvicorn"),
        *("bot.app.build", "bot.ops.doctor", "bot.dev.evaluation", "bot.dev.rehearsal", "tools.catalog"),
    }
)
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
        [sys.executable, "-c", LOOK, *arguments], capture_output=True, text=True, check=True, timeout=60, env=known
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
