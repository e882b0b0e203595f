"""What `--help` and `--version` print stands on a terminal of 80 columns, whole."""

import asyncio
import signal
from pathlib import Path

from bot.core.version import VERSION
from bot.ops.cli.command_table import GROUPS, MODULES
from tests.harness.programs import ended, free_ports, printed, ran, started

NARROW = {"COLUMNS": "80", "LANG": "en_US.UTF-8"}


async def test_help_is_short_and_flags_take_nothing(tmp_path: Path) -> None:
    pages = [(), *((name,) for name in MODULES)]
    ends = await asyncio.gather(*(ran(*page, "--help", cwd=tmp_path, env=NARROW) for page in pages))
    for page, end in zip(pages, ends, strict=True):
        assert end.code == 0 and "<bool>" not in end.out and "list[" not in end.out, end
        listed = end.out.partition("\nCommands:\n")[2]
        assert bool(listed) == (not page or page[0] in GROUPS), end.out
        assert "..." not in listed, "every command has a first sentence that stands on its line"
        long = [line for line in end.out.splitlines() if len(line) > 80 and "countersign " not in line]
        assert not long, "no line but an example wraps"


async def test_the_version_is_printed(tmp_path: Path) -> None:
    version, bare = await asyncio.gather(ran("--version", cwd=tmp_path, env=NARROW), ran(cwd=tmp_path, env=NARROW))
    assert (version.code, version.out) == (0, f"countersign {VERSION}\n")
    assert "Commands:" in bare.all, "alone it lists its commands"


async def test_the_start_begins_with_its_banner(tmp_path: Path) -> None:
    env = {"DATA_DIR": str(tmp_path), "LOCAL_PORT": str(free_ports())}
    async with started("run", cwd=tmp_path, env=env) as child:
        assert (await printed(child, "Countersign is running.")).strip() == "Countersign is running."
        child.send_signal(signal.SIGTERM)
        await ended(child)
