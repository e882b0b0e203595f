"""The people and forms of these tests, and an engine to use in one line."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from aiohttp import ClientSession
from pydantic import SecretStr
from yarl import URL

from tests.harness.memory_key_value_store import MemoryKeyValueStore
from tests.harness.memory_store import Store
from tests.tools.office import NOW, SICK, People
from tests.tools.workflow.remote.proxy import LOGIN, PASSWORD, Fault, Proxy, serving
from tools.spec import AttachedFile, EffectUnknownError, Person
from tools.workflow.bpmn.xml import NAMESPACES
from tools.workflow.engine.commands import DecideCommand
from tools.workflow.engine.enrich import CommandEnricher
from tools.workflow.engine.port import CommandResult
from tools.workflow.engine.state import Decision, Request
from tools.workflow.process.calendar import WorkCalendar
from tools.workflow.process.definition import Process, compile_process, load_shipped_processes
from tools.workflow.remote.api import PAGE_SIZE, EngineApi, EngineName, EngineTask, ProcessInstance
from tools.workflow.remote.engine import RemoteEngine
from tools.workflow.remote.open_engine import APIS
from tools.workflow.remote.process_versions import convert_to_engine
from tools.workflow.remote.rebuild import build_record_variables, find_start_record
from tools.workflow.remote.rest_client import RestClient

ZHANG = Person(id="U1", name="张三", email="zhangsan@example.com", locale="zh-CN", manager="U2")
LI = Person(id="U2", name="李四", email="lisi@example.com", locale="zh-CN", manager="U3")
WANG = Person(id="U3", name="王五", email="wangwu@example.com", roles=frozenset({"director"}))
BOSS = Person(id="U9", name="周九", email="zhoujiu@example.com", roles=frozenset({"director"}))
"""Not among `PEOPLE`: whoever needs a third level invites her."""
ZHAO = Person(id="ou_4", name="赵六", email="zhaoliu@example.com", roles=frozenset({"finance"}))
PEOPLE = (ZHANG, LI, WANG, ZHAO)
QIAN = Person(id="U7", name="钱七", email="qianqi@example.com", roles=frozenset({"finance"}))
SUN = Person(id="U8", name="孙八", email="sunba@example.com", roles=frozenset({"finance"}))
"""Not among `PEOPLE` either: they are of finance as well."""
TABLE = {"lisi@example.com": "lisi", "ou_4": "zhaoliu"}
"""李四 by e-mail address, 赵六 by id, the others by their own ids."""

VERY_LONG = {**SICK, "end_date": "2026-12-11", "attachment": "F0SICKNOTE"}
"""Fifteen working days: three levels."""
SHORT = {"leave_type": "personal", "start_date": "2026-11-23", "end_date": "2026-11-23", "reason": "搬家"}
"""One: passes by rule."""
DESK = {"amount": "86.5", "approver": "U2"}
"""One level, as often as one likes."""
SOFA = {"amount": "1,200.50", "approver": "U2"}
"""Also goes to finance."""
CAR = {"amount": "1200", "category": "transport", "reason": "去客户现场", "approver": "U2"}
"""An expense, which finance decides."""
HERE = Path(__file__).parent


def build_alike(file: str, key: str, number: str, form: str = "spend") -> Process:
    """A process with the form and the graph of these files."""
    bpmn = (HERE / f"{file}.bpmn").read_text(encoding="utf-8").replace(f'process id="{file}"', f'process id="{key}"')
    toml = (HERE / f"{form}.toml").read_text(encoding="utf-8").replace(f'key = "{form}"', f'key = "{key}"')
    return compile_process(bpmn.encode(), toml.replace('number = "S"', f'number = "{number}"').encode())


SPEND = build_alike("spend", "spend", "S")
PAIR = build_alike("pair", "pair", "P")
"""Two decide at the same time, of whom one is reminded after a day."""
TURN = build_alike("turn", "turn", "T")
"""Two decide one after the other, and the last way is open only if both agreed."""
TELL = build_alike("tell", "tell", "N", form="tell")
"""One decides while a copy and a mail wait for us, and is reminded after a day."""
GHOST = build_alike("spend", "ghost", "G")
"""Is not deployed."""
EXPENSE = load_shipped_processes()[-1]


def build_expense(key: str, number: str, *changes: tuple[str, str]) -> Process:
    """The shipped expense with another step of several."""
    bpmn, toml = EXPENSE.bpmn.decode().replace('process id="expense"', f'process id="{key}"'), EXPENSE.toml.decode()
    for before, after in changes:
        assert before in bpmn
        bpmn = bpmn.replace(before, after)
    toml = toml.replace('key = "expense"', f'key = "{key}"').replace('number = "E"', f'number = "{number}"')
    return compile_process(bpmn.encode(), toml.encode())


UNTIL = "${decision == 'reject'}"
TURNS = build_expense("turns", "U", ('isSequential="false"', 'isSequential="true"'))
"""Finance decides one after the other."""
ANY = build_expense("any", "A", (UNTIL, "${nrOfCompletedInstances &gt;= 1}"))
"""One of finance decides."""
_LOOP = EXPENSE.bpmn.decode().partition("<bpmn:multiInstance")[2].partition("</bpmn:multiInstance")
LOOP = f"<bpmn:multiInstance{_LOOP[0]}{_LOOP[1]}LoopCharacteristics>"
GROUP = build_expense("group", "C", (LOOP, ""), ('camunda:assignee="${reviewer}"', 'camunda:candidateGroups="finance"'))
"""One of a group decides."""
BOARD = build_expense("board", "B", (LOOP, ""), ("${reviewer}", "${finance_approvers}"))
"""All of finance stand in the place of one."""
PROCESSES = (*load_shipped_processes(), SPEND, PAIR, TURN, TELL, GHOST, TURNS, ANY, GROUP, BOARD)

WRITES = {
    "start": ("/runtime/process-instances", "start"),
    "move": ("/change-state", "/modification"),
    "jobs": ("/acquire/jobs", "/fetchAndLock"),
    "finish": ("/complete", "/complete"),
    "record": ("/variables", "/variables"),
    "deploy": ("/repository/deployments", "/deployment/create"),
}
"""How the paths of writes end: Flowable's, and those of Camunda and Operaton."""
KINDS = tuple(APIS)


class PresentPeople(People):
    """As on a platform: who has left is found by id, and is on no list."""

    async def list_people(self) -> tuple[Person, ...]:
        return tuple(one for one in self.known if one.active)


@dataclass
class Files:
    known: dict[str, AttachedFile] = field(default_factory=dict)

    async def find_files(self, person: str, ids: Sequence[str]) -> dict[str, AttachedFile]:
        return {id: self.known[id] for id in ids if id in self.known}


@dataclass
class World:
    """A real engine behind a proxy, and our engine over it."""

    proxy: Proxy
    kind: EngineName
    session: ClientSession
    url: str
    api: EngineApi
    """The engine itself, past the proxy and past our rules."""
    rest: RestClient
    """Of `api`."""
    marks: MemoryKeyValueStore = field(default_factory=MemoryKeyValueStore)
    people: People = field(default_factory=lambda: People(list(PEOPLE)))
    files: Files = field(default_factory=Files)
    seconds: float = 0.0
    keys: Any = field(default_factory=lambda: count(1))
    slept: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.marks.now = lambda: self.seconds
        self.engine = self.another(self.marks)

    def another(
        self, marks: MemoryKeyValueStore, password: str = PASSWORD, timeout_s: float = 30, page: int = PAGE_SIZE
    ) -> RemoteEngine:
        """Over the same remote engine; with marks of its own it is a bot that knows nothing of ours."""
        rest = RestClient(self.session, self.url, LOGIN, SecretStr(password), timeout_s)
        api = APIS[self.kind](rest)
        api._page = page  # type: ignore[attr-defined]
        return RemoteEngine(
            api, marks, PROCESSES, self.people, TABLE, self.completing, clock=lambda: self.seconds, sleep=self.sleep
        )

    def completing(self, store: Store) -> CommandEnricher:
        files = self.files if self.files.known else None
        rules = {"calendar": WorkCalendar(), "numbers": {}, "policy": ()}
        return CommandEnricher(lists=store, directory=self.people, files=files, **rules)

    async def sleep(self, seconds: float) -> None:
        """Long enough for others to get on."""
        self.slept.append(seconds)
        await asyncio.sleep(min(seconds, 0.2 if self.is_flowable else 0.1))  # Flowable has a job to do meanwhile

    @property
    def is_flowable(self) -> bool:
        return self.kind == "flowable"

    def fail(self, what: str, fault: Fault, times: int = 1) -> None:
        self.proxy.faults += [(get_write_path(what, self.kind), fault)] * times

    def fail_decision(self, task: str, fault: Fault) -> None:
        """What becomes of the next completion of a task."""
        self.proxy.faults.append((f"/{get_item(task)}" if self.is_flowable else "/complete", fault))

    def fail_hand_over(self, task: str, fault: Fault, times: int = 1) -> None:
        """What becomes of the next changes of a task's assignee."""
        self.proxy.faults += [(f"/{get_item(task)}" if self.is_flowable else "/assignee", fault)] * times

    @property
    def repeats(self) -> int:
        """How often Flowable's PUT of variables is sent when connections break; Camunda's POST once."""
        return 2 if self.is_flowable else 1

    async def count_instances(self) -> int:
        """How many instances the engine has, running and ended, whoever started them."""
        if self.is_flowable:
            return int((await self.rest.read_json("history", "historic-process-instances"))["total"])
        return int((await self.rest.read_json("history", "process-instance", "count"))["count"])

    async def get_instance(self, request: str) -> ProcessInstance:
        """The first instance with this number."""
        return (await self.api.list_instances(request))[0]

    async def load_variables(self, request: str) -> Mapping[str, object]:
        return (await self.get_instance(request)).variables

    async def get_item(self, task: str) -> EngineTask:
        steps = await self.api.list_activities((await self.get_instance(task[: task.index("-", 2)])).id)
        return next(step.task for step in steps if step.task and step.task.id == get_item(task))

    async def settle(self, request: str) -> None:
        """The engine goes on by itself, with us for its service tasks, until the request has ended."""
        while (await self.get_instance(request)).ended is None:
            self.seconds += 1
            await self.engine.run_due_jobs(self.now)
            await asyncio.sleep(0.02)

    async def deploy(self, source: bytes) -> None:
        await self.api.deploy_file("theirs.bpmn20.xml", source)

    async def empty(self) -> None:
        """The engine has no process and no instance any more."""
        base = ("repository", "deployments") if self.is_flowable else ("deployment",)
        found = await self.rest.read_json(*base, query={"size" if self.is_flowable else "maxResults": 1000})
        for one in found["data"] if self.is_flowable else found:
            await self.rest.write("DELETE", *base, one["id"], query={"cascade": "true"})

    @property
    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds)

    def key(self) -> str:
        return f"k{next(self.keys)}"

    async def start(self, form: Mapping[str, str] = SICK, process: str = "leave", key: str = "") -> CommandResult:
        return await self.engine.start_request(process, form, ZHANG.id, key or self.key(), NOW)

    async def task(self, request: str) -> str:
        (task,) = (await self.engine.get_request(request)).open_tasks
        return task.id

    async def do(self, command: Any, key: str = "", now: datetime = NOW) -> CommandResult:
        return await self.engine.execute_command(command, key or self.key(), now)

    async def told(self, pause: float = 0) -> list[str]:
        """What is announced, until nothing is left: kind, person, and what is said of it."""
        found = list[str]()
        while events := await self.engine.list_outbox(2):
            said = [(e.kind, e.data["person"], e.data.get("why") or e.data.get("status") or "") for e in events]
            found += [" ".join(filter(None, one)) for one in said]
            await self.engine.mark_sent([e.id for e in events])
            self.seconds += pause
        return found

    async def spoil(self, request: str) -> dict[str, str]:
        """The version that it was started with cannot be had any more. Returns what makes it readable again."""
        instance = await self.get_instance(request)
        record = find_start_record(await self.load_variables(request))
        assert record
        gone = record.command.model_copy(update={"definition": "0" * 64})
        await self.api.set_variables(instance.id, build_record_variables(record.model_copy(update={"command": gone})))
        return build_record_variables(record)

    async def decide(
        self, task: str, actor: Person, decision: str, opinion: str = "", *, key: str = "", **more: Any
    ) -> CommandResult:
        about = {"task": task, "actor": actor.id, "opinion": opinion, "to": more.pop("to", "")}
        command = DecideCommand(**about, decision=Decision(decision))
        return await self.engine.execute_command(command, key or self.key(), NOW, **more)


def describe(request: Request) -> dict[str, Any]:
    """All that people see of it, but ids and times."""
    ballots = [(v.node, v.kind, v.ballot.mode, [(s.person, s.vote) for s in v.ballot.seats]) for v in request.visits]
    tasks = [(t.node, t.kind, t.assignee, t.outcome, t.by, t.round) for t in request.tasks]
    return {
        "status": request.display_status,
        "waits for": request.waits_for,
        "decisions": request.decisions,
        "tasks": tasks,
        "opinions": [(o.node, o.by, o.decision, o.text, o.round) for o in request.opinions],
        "copies": request.cc,
        "ballots": ballots,
    }


def list_named_engines(source: bytes) -> set[str]:
    """The engines in whose namespaces a file has attributes."""
    names = [name for element in ElementTree.fromstring(source).iter() for name in element.attrib]
    return {engine for engine, uri in NAMESPACES.items() if any(name.startswith(f"{{{uri}}}") for name in names)}


def get_item(task: str) -> str:
    return task.split("-", 2)[2].partition(".")[0]


def get_write_path(what: str, kind: str) -> str:
    return WRITES[what][kind != "flowable"]


@asynccontextmanager
async def world_of(kind: EngineName, engine: str) -> AsyncIterator[World]:
    """`engine`: the URL of its API. Whatever it has is deleted first."""
    async with ClientSession() as session:
        proxy = Proxy(URL(engine), session)
        async with serving(proxy.answer) as server:
            rest = RestClient(session, engine, "", SecretStr(""), 60)
            url = str(server.make_url(URL(engine).path))
            world = World(proxy, kind, session, url, APIS[kind](rest), rest)
            await world.empty()
            for process in PROCESSES:
                if process is not GHOST:
                    await world.api.deploy_file(f"{process.key}.bpmn", convert_to_engine(process.bpmn, kind))
            yield world


async def assert_unknown(work: Awaitable[object]) -> None:
    with pytest.raises(EffectUnknownError):
        await work
