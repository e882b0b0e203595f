"""Versions of a process: ours, and the engine's, which must have the same meaning.

A process file is written for the engine that shall read it. Each engine reads extension attributes in its own
namespace, and has its own word for a service task that waits for a worker. An attribute that it does not read is
ignored, and a task would have no assignee. Lists do not survive the engines' APIs, so the people of a step with several
deciders are counted variables (`tools.workflow.bpmn.assignees`)."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, TreeBuilder, register_namespace, tostring

from defusedxml.ElementTree import DefusedXMLParser, fromstring

from tools.spec import ToolError
from tools.workflow.bpmn.assignees import SEAT_COUNT, SEAT_PERSON, list_written_deciders
from tools.workflow.bpmn.graph import InvalidDefinitionError, ProcessDefinition
from tools.workflow.bpmn.xml import BPMN, EXTENSIONS, EXTERNAL_TYPES, LOOP, NAMESPACES, XSI
from tools.workflow.engine.versions import ProcessVersions
from tools.workflow.process.definition import Process, compile_process
from tools.workflow.remote.api import EngineApi, EngineName
from tools.workflow.remote.key_value_store import KeyValueStore
from tools.workflow.remote.rest_client import EngineNoAnswerError, EngineRefusedError, build_engine_failed_error

KEPT = "P730D"
"""How long the engine keeps an ended request where the file does not say it. Balances need two years."""
PREFIXES = {"bpmndi": "BPMN/20100524/DI", "dc": "DD/20100524/DC", "di": "DD/20100524/DI"}
for prefix, uri in {**NAMESPACES, **{name: f"http://www.omg.org/spec/{end}" for name, end in PREFIXES.items()}}.items():
    register_namespace(prefix, uri)
register_namespace("bpmn", BPMN.strip("{}"))
DEPLOYED_TABLE = "processes"
"""Table: process → `<bpmn> <form>` (SHA-256), deployed by an administrator."""


class RemoteVersions(ProcessVersions):
    """Our versions, and those of them that the engine has. `processes` are shipped; other processes, and other versions
    of these, were deployed."""

    def __init__(self, api: EngineApi, store: KeyValueStore, processes: Sequence[Process]) -> None:
        async def load_file(version: str) -> bytes | None:
            text = await store.get(f"file:{version}")
            return None if text is None else text.encode()

        super().__init__(load_file, processes)
        self._api, self._store = api, store
        self._verified_definitions: set[tuple[str, str]] = set()
        """Pairs of deployed definition and our version that were found equal."""

    async def list_processes(self) -> tuple[Process, ...]:
        """All processes for new requests."""
        deployed = {key: row.split() for key, row in (await self._store.get_table(DEPLOYED_TABLE)).items()}
        return await self.list_current_processes({key: (bpmn, form) for key, (bpmn, form) in deployed.items()})

    async def deploy_process(self, process: Process) -> bool:
        """Deploy a process to the engine, with all attributes in the engine's name, and here for new requests; return
        whether anything is new. A file that the engine has already makes no new version there. The engine's definition
        is looked up afterwards, whatever the engine answered. Raises `ToolError`, caused by the engine's refusal if it
        refused the file."""
        content = convert_to_engine(process.bpmn, self._api.extension_name)
        before = await self._api.find_definition_id(process.definition.key)
        is_new = not before or await self._api.load_definition_xml(before) != content
        refusal: EngineRefusedError | None = None
        if is_new:
            try:
                await self._api.deploy_file(f"{process.definition.key}.bpmn", content)
            except EngineRefusedError as refused:
                refusal = refused
            except EngineNoAnswerError:
                pass
        try:
            after = await self.require_deployed_definition(process)
        except ToolError as missing:
            raise missing from refusal
        if refusal and after == before:
            raise build_engine_failed_error(refusal) from refusal
        row = " ".join(process.version)
        is_new = is_new or (await self._store.get_table(DEPLOYED_TABLE)).get(process.key) != row
        await self._store.set_row(DEPLOYED_TABLE, process.key, row)
        return is_new

    async def require_deployed_definition(self, process: Process) -> str:
        """The engine's newest definition. The definition must mean the same as our file, because our file decides
        authority; the drawing does not matter. Our files are stored for requests started with it. Raises `ToolError`
        `not_deployed`."""
        definition = await self._api.find_definition_id(process.definition.key)
        if (definition, process.definition.version) not in self._verified_definitions:
            await require_same_meaning(self._api, definition, process)
            await self._store.put(f"file:{process.definition.version}", process.bpmn.decode())
            await self._store.put(f"file:{process.form_version}", process.toml.decode())
            self._verified_definitions.add((definition, process.definition.version))
        return definition


async def require_same_meaning(api: EngineApi, definition: str, process: Process) -> None:
    """Check that a definition of the engine means the same as our process. Raises `ToolError` `not_deployed`, also for
    an empty id, and for a file whose attributes the engine does not read: its tasks would have no assignee."""
    name = process.definition.key
    if not definition:
        raise ToolError("not_deployed", f"process {name!r} is not deployed to the engine", process=name)
    source = await api.load_definition_xml(definition)
    try:
        theirs: ProcessDefinition | None = compile_process(source, process.toml, is_stored=True).definition
    except InvalidDefinitionError:
        theirs = None
    ours = process.definition.model_copy(update={"version": ""})
    if theirs is None or theirs.model_copy(update={"version": ""}) != ours:
        raise ToolError("not_deployed", f"the engine has another process called {name!r}", process=name)
    names = [name for element in fromstring(source).iter() for name in element.attrib]
    spaces = {e: f"{{{uri}}}" for e, uri in NAMESPACES.items() if e not in api.read_extensions}
    if unread := sorted(e for e, space in spaces.items() if any(name.startswith(space) for name in names)):
        message = f"process {name!r} is deployed with attributes of {', '.join(unread)}, which the engine ignores"
        raise ToolError("not_deployed", message, process=name)


def convert_to_engine(source: bytes, engine: EngineName) -> bytes:
    """The process file in this engine's namespace and words. It compiles to the same definition. `source` must be a
    file that compiles."""
    parser = DefusedXMLParser(target=TreeBuilder(insert_comments=True))
    parser.feed(source)
    own, root = f"{{{NAMESPACES[engine]}}}", parser.close()
    for element in root.iter():
        named = {own + n.rpartition("}")[2] if n.startswith(EXTENSIONS) else n: v for n, v in element.items()}
        named.pop(f"{XSI}type", "")  # its value has a prefix
        if element.tag == f"{BPMN}process" and engine != "flowable":
            named.setdefault(f"{own}historyTimeToLive", KEPT)
        if element.tag == f"{BPMN}serviceTask" and named.get(f"{own}type") in EXTERNAL_TYPES:
            # While one instance is locked by an exclusive task, Flowable hands out no other task of that topic.
            named.pop(f"{own}exclusive", "")
            named |= {f"{own}type": "external"}
            if engine == "flowable":
                named |= {f"{own}type": "external-worker", f"{own}exclusive": "false"}
        element.attrib.clear()
        element.attrib.update(named)
    for task in root.iter(f"{BPMN}userTask"):
        who, loop = list_written_deciders(task), task.find(f"{BPMN}{LOOP}")
        if not who:
            continue
        if loop is None:  # candidates, of whom one decides
            loop = SubElement(task, f"{BPMN}{LOOP}", isSequential="false")
            SubElement(loop, f"{BPMN}completionCondition").text = "${nrOfCompletedInstances >= 1}"
        count = Element(f"{BPMN}loopCardinality")
        count.text, count.tail = SEAT_COUNT % (task.attrib["id"], ",".join(who)), loop.text
        loop.insert(0, count)
        for name in ("candidateUsers", "candidateGroups", "collection", "elementVariable"):
            task.attrib.pop(own + name, "")
            loop.attrib.pop(own + name, "")
        task.set(f"{own}assignee", SEAT_PERSON % (task.attrib["id"], ",".join(who)))
    return bytes(tostring(root, "utf-8", xml_declaration=True))
