"""Which versions of which processes there are: those that come with the program, and those in a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from tools.workflow.graph import DefinitionRefused
from tools.workflow.process import Process, compile_process
from tools.workflow.store import Store


class Versions:
    """A version is what `Process.version` says: the hashes of its two files. Each is compiled once."""

    def __init__(self, store: Store, shipped: Sequence[Process]) -> None:
        self._store, self._shipped = store, tuple(shipped)
        self._compiled = {process.version: process for process in shipped}
        self._kept: set[str] = set()

    async def current(self, deployed: Mapping[str, tuple[str, str]]) -> tuple[Process, ...]:
        """What requests are started with: what is deployed under a key goes before what is shipped."""
        known = {process.key: process for process in self._shipped}
        for key, version in deployed.items():
            with suppress(DefinitionRefused):  # a stricter compiler: nothing starts in it, the others go on
                known[key] = await self.of(key, version)
        return tuple(known.values())

    async def of(self, owner: str, version: tuple[str, str]) -> Process:
        """Raises `DefinitionRefused`, which names the `owner`: a request, or a process."""
        if version not in self._compiled:
            bpmn, toml = await self._store.file(version[0]), await self._store.file(version[1])
            if bpmn is None or toml is None:
                raise DefinitionRefused(owner, f"the files of its version {version[0][:12]} are gone")
            self._compiled[version] = compile_process(bpmn, toml)
        return self._compiled[version]

    async def keep(self, process: Process) -> None:
        """The process files, so that requests started from them keep them when the files change."""
        for version, content in zip(process.version, (process.bpmn, process.toml), strict=True):
            if version not in self._kept:
                await self._store.keep_file(version, content)
                self._kept.add(version)
