"""The versions of processes: those shipped with the program, and those in a store."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import TypeAlias

from tools.workflow.bpmn.graph import InvalidDefinitionError
from tools.workflow.process.definition import Process, compile_process

FileHashes: TypeAlias = tuple[str, str]
"""SHA-256 of a process file and of its form: `Process.version`."""


class ProcessVersions:
    """The versions of processes, each read once. `load_file` reads a stored file by its hash; `shipped` processes need
    no stored files."""

    def __init__(self, load_file: Callable[[str], Awaitable[bytes | None]], shipped: Iterable[Process] = ()) -> None:
        self._load_file, self._shipped = load_file, tuple(shipped)
        self._process_by_version = {process.version: process for process in self._shipped}

    async def list_current_processes(self, deployed: Mapping[str, FileHashes]) -> tuple[Process, ...]:
        """The processes for new requests: a deployed one comes before the shipped one with the same key."""
        current = {process.key: process for process in self._shipped}
        for key, version in deployed.items():
            with suppress(InvalidDefinitionError):  # refused by a stricter compiler: no new requests in it
                current[key] = await self.load_process(version)
        return tuple(current.values())

    async def load_process(self, version: FileHashes) -> Process:
        """The process in a version. Raises `InvalidDefinitionError` for a file that is missing, that was altered, or
        that a stricter compiler refuses."""
        if version not in self._process_by_version:
            files = list[bytes]()
            for name in version:
                content = await self._load_file(name)
                if content is None or hashlib.sha256(content).hexdigest() != name:
                    raise InvalidDefinitionError(name[:12] or "-", "missing" if content is None else "altered")
                files.append(content)
            self._process_by_version[version] = compile_process(*files, is_stored=True)
        return self._process_by_version[version]
