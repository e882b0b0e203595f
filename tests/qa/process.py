"""Processes of the programs: how they end, what they are told, and what of them is left. Standard library only: other
frameworks run it in their own environments."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path


def end_when_orphaned(code: int = 0) -> None:
    """Whoever started this process keeps its input open: without them it ends."""

    def wait_for_end_of_input() -> None:
        with suppress(OSError):
            while os.read(0, 1024):
                pass
        os._exit(code)

    threading.Thread(target=wait_for_end_of_input, daemon=True).start()


async def read_lines() -> AsyncIterator[str]:
    """What this process is told, line by line, until its input ends."""
    told = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(told), sys.stdin)
    while line := await told.readline():
        yield line.decode().strip()


def list_processes_in(folder: Path) -> dict[int, str]:
    """Those that live in this folder, or name it: their command lines by their ids."""
    found: dict[int, str] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            home, words = os.readlink(process / "cwd"), (process / "cmdline").read_bytes().replace(b"\0", b" ")
            line = words.decode(errors="replace")
            if f"{folder}/" in f"{home}/ {line}/":
                found[int(process.name)] = line
    return found


def compile_library(source: Path, folder: Path) -> Path:
    """To be loaded before the C library. Raises `CalledProcessError`."""
    library = folder / f"{source.stem}.so"
    words = ["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    subprocess.run(words, check=True, capture_output=True, text=True)
    return library


def write_program(file: Path, program: str, variables: Mapping[str, str]) -> str:
    """Another name of a program, which runs it with these variables of the environment."""
    words = " ".join(f"{name}='{value}'" for name, value in variables.items())
    file.write_text(f'#!/bin/sh\n{words} exec "{program}" "$@"\n')
    file.chmod(0o700)
    return str(file)
