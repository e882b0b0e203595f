"""Versions of a process: ours, and the engine's, which must mean the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tools.spec import ToolError
from tools.workflow.bpmn.graph import InvalidDefinitionError
from tools.workflow.process.definition import Process, compile_process
from tools.workflow.remote.api import EngineApi
from tools.workflow.remote.key_value_store import KeyValueStore
from tools.workflow.remote.rebuild import SEVERAL_DECIDERS, build_not_remote_error, has_multi_decider_step


class RemoteVersions:
    def __init__(self, api: EngineApi, marks: KeyValueStore, processes: Sequence[Process]) -> None:
        self._api, self._store = api, marks
        self._newest: Mapping[str, Process] = {p.key: p for p in processes}
        self._process_by_version = {(p.definition.version, p.form_version): p for p in processes}
        self._verified_definitions: set[tuple[str, str]] = set()
        """Pairs of deployed definition and our version that were found equal."""

    @property
    def runnable_processes(self) -> tuple[Process, ...]:
        """Those that the engine can run."""
        return tuple(p for p in self._newest.values() if not has_multi_decider_step(p))

    @property
    def service_topics(self) -> list[str]:
        """The topics of our service tasks."""
        nodes = [n for p in self._newest.values() for n in p.definition.nodes.values()]
        alarms = {timer.alarm.value for n in nodes for timer in n.timers}
        return sorted(alarms | {n.topic.value for n in nodes if n.topic})

    def get_process_by_key(self, key: str) -> Process:
        """Raises `ToolError`: `unknown_process`, `build_not_remote_error`."""
        if key not in self._newest:
            known = ", ".join(self._newest)
            raise ToolError("unknown_process", f"there is no process {key!r}; there are: {known}", name=key[:60])
        if has_multi_decider_step(self._newest[key]):
            raise build_not_remote_error(SEVERAL_DECIDERS)
        return self._newest[key]

    async def load_process(self, definition: str, form: str) -> Process:
        """The process in the version with these hashes. Raises `InvalidDefinitionError`."""
        if (definition, form) not in self._process_by_version:
            bpmn, toml = await self._store.get(f"file:{definition}"), await self._store.get(f"file:{form}")
            if bpmn is None or toml is None:
                raise InvalidDefinitionError(definition[:12], "the files of this version are gone")
            self._process_by_version[definition, form] = compile_process(bpmn.encode(), toml.encode())
        return self._process_by_version[definition, form]

    async def require_deployed_definition(self, process: Process) -> str:
        """The engine's newest definition. It must mean the same as our file, because our file decides authority; the
        drawing does not matter. Our files are stored for requests started with it. Raises `ToolError`
        `not_deployed`."""
        name = process.definition.key
        definition = await self._api.find_definition_id(name)
        if not definition:
            raise ToolError("not_deployed", f"process {name!r} is not deployed to the engine", process=name)
        if (definition, process.definition.version) not in self._verified_definitions:
            if not await self._has_same_meaning(definition, process):
                raise ToolError("not_deployed", f"the engine has another process called {name!r}", process=name)
            await self._store.put(f"file:{process.definition.version}", process.bpmn.decode())
            await self._store.put(f"file:{process.form_version}", process.toml.decode())
            self._verified_definitions.add((definition, process.definition.version))
        return definition

    async def _has_same_meaning(self, definition: str, process: Process) -> bool:
        try:
            theirs = compile_process(await self._api.load_definition_xml(definition), process.toml).definition
        except InvalidDefinitionError:
            return False
        return theirs.model_copy(update={"version": ""}) == process.definition.model_copy(update={"version": ""})
