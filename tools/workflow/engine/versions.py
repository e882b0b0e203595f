"""The versions of processes: those shipped with the program, and those in a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from tools.workflow.bpmn.graph import InvalidDefinitionError
from tools.workflow.engine.redis_store import RedisStore
from tools.workflow.process.definition import Process, compile_process


class ProcessVersions:
    """The versions of processes, each compiled once. A version is `Process.version`: the hashes of its two files."""

    def __init__(self, store: RedisStore, shipped: Sequence[Process]) -> None:
        self._store, self._shipped = store, tuple(shipped)
        self._compiled = {process.version: process for process in shipped}
        self._saved_versions: set[str] = set()

    async def list_current_processes(self, deployed: Mapping[str, tuple[str, str]]) -> tuple[Process, ...]:
        """The processes for new requests: a deployed one comes before the shipped one with the same key."""
        current = {process.key: process for process in self._shipped}
        for key, version in deployed.items():
            with suppress(InvalidDefinitionError):  # refused by a stricter compiler: no new requests in it
                current[key] = await self.load_process(key, version)
        return tuple(current.values())

    async def load_process(self, owner: str, version: tuple[str, str]) -> Process:
        """The process in a version. Raises `InvalidDefinitionError`, which names the `owner`: a request, or a
        process."""
        if version not in self._compiled:
            bpmn, toml = await self._store.load_file(version[0]), await self._store.load_file(version[1])
            if bpmn is None or toml is None:
                raise InvalidDefinitionError(owner, f"the files of its version {version[0][:12]} are gone")
            self._compiled[version] = compile_process(bpmn, toml, is_stored=True)
        return self._compiled[version]

    async def save_process_files(self, process: Process) -> None:
        """Store the process files, so that requests keep them when the files change."""
        for version, content in zip(process.version, (process.bpmn, process.toml), strict=True):
            if version not in self._saved_versions:
                await self._store.save_file(version, content)
                self._saved_versions.add(version)
