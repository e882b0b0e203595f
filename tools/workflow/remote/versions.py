"""Which version of a process: ours, and the engine's, which must mean the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tools.spec import ToolError
from tools.workflow.graph import DefinitionRefused
from tools.workflow.process import Process, compile_process
from tools.workflow.remote.api import Api
from tools.workflow.remote.common import SEVERAL, not_remote, several
from tools.workflow.remote.marks import Marks


class Versions:
    def __init__(self, api: Api, marks: Marks, processes: Sequence[Process]) -> None:
        self._api, self._marks = api, marks
        self._newest: Mapping[str, Process] = {p.key: p for p in processes}
        self._known = {(p.definition.version, p.form_version): p for p in processes}
        self._same: set[tuple[str, str]] = set()
        """Deployed definition and our version that were found to be the same."""

    @property
    def usable(self) -> tuple[Process, ...]:
        """Those that the engine can run."""
        return tuple(p for p in self._newest.values() if not several(p))

    @property
    def topics(self) -> list[str]:
        """What our service tasks wait for."""
        nodes = [n for p in self._newest.values() for n in p.definition.nodes.values()]
        alarms = {timer.alarm.value for n in nodes for timer in n.timers}
        return sorted(alarms | {n.topic.value for n in nodes if n.topic})

    def named(self, key: str) -> Process:
        """Raises `ToolError`: `unknown_process`, `not_remote`."""
        if key not in self._newest:
            known = ", ".join(self._newest)
            raise ToolError("unknown_process", f"there is no process {key!r}; there are: {known}", name=key[:60])
        if several(self._newest[key]):
            raise not_remote(SEVERAL)
        return self._newest[key]

    async def of(self, definition: str, form: str) -> Process:
        """The process in the version with these hashes. Raises `DefinitionRefused`."""
        if (definition, form) not in self._known:
            bpmn, toml = await self._marks.get(f"file:{definition}"), await self._marks.get(f"file:{form}")
            if bpmn is None or toml is None:
                raise DefinitionRefused(definition[:12], "the files of this version are gone")
            self._known[definition, form] = compile_process(bpmn.encode(), toml.encode())
        return self._known[definition, form]

    async def deployed(self, process: Process) -> str:
        """The engine's newest definition. It must mean what our file means, since authority is judged by ours; how it
        is drawn does not matter. Our files are kept for what is started with it. Raises `ToolError` `not_deployed`."""
        name = process.definition.key
        definition = await self._api.definition(name)
        if not definition:
            raise ToolError("not_deployed", f"process {name!r} is not deployed to the engine", process=name)
        if (definition, process.definition.version) not in self._same:
            if not await self._means(definition, process):
                raise ToolError("not_deployed", f"the engine has another process called {name!r}", process=name)
            await self._marks.put(f"file:{process.definition.version}", process.bpmn.decode())
            await self._marks.put(f"file:{process.form_version}", process.toml.decode())
            self._same.add((definition, process.definition.version))
        return definition

    async def _means(self, definition: str, process: Process) -> bool:
        try:
            theirs = compile_process(await self._api.source(definition), process.toml).definition
        except DefinitionRefused:
            return False
        return theirs.model_copy(update={"version": ""}) == process.definition.model_copy(update={"version": ""})
