"""The people and forms of these tests, and an engine to use in one line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from aiohttp import ClientSession
from pydantic import SecretStr

from tests.harness.memory_key_value_store import MemoryKeyValueStore
from tests.tools.office import People
from tests.tools.workflow.remote.camunda import CamundaFace
from tests.tools.workflow.remote.face import LOGIN, PASSWORD, Face, Fault
from tests.tools.workflow.remote.flowable import FlowableFace
from tests.tools.workflow.remote.runner import Run
from tools.spec import AttachedFile, Person, ToolError
from tools.workflow.engine.commands import DecideCommand
from tools.workflow.engine.enrich import CommandEnricher
from tools.workflow.engine.port import CommandResult
from tools.workflow.engine.state import Decision
from tools.workflow.engine.store import Store
from tools.workflow.process.calendar import WorkCalendar
from tools.workflow.process.definition import Process, compile_process, load_shipped_processes
from tools.workflow.remote.api import PAGE_SIZE
from tools.workflow.remote.camunda import CamundaApi
from tools.workflow.remote.command_records import build_record_variables, find_start_record
from tools.workflow.remote.engine import RemoteEngine
from tools.workflow.remote.extension_names import convert_to_engine
from tools.workflow.remote.flowable import FlowableApi
from tools.workflow.remote.rest_client import RestClient

NOW = datetime(2026, 11, 20, 10, 0, tzinfo=ZoneInfo("Asia/Shanghai"))
"""A Friday."""

ZHANG = Person(id="U1", name="张三", email="zhangsan@example.com", locale="zh-CN", manager="U2")
LI = Person(id="U2", name="李四", email="lisi@example.com", locale="zh-CN", manager="U3")
WANG = Person(id="U3", name="王五", email="wangwu@example.com", roles=frozenset({"director"}))
BOSS = Person(id="U9", name="周九", email="zhoujiu@example.com", roles=frozenset({"director"}))
"""Not among `PEOPLE`: whoever needs a third level invites her."""
ZHAO = Person(id="ou_4", name="赵六", email="zhaoliu@example.com", roles=frozenset({"finance"}))
"""With an id that Camunda does not accept."""
PEOPLE = (ZHANG, LI, WANG, ZHAO)
TABLE = {"lisi@example.com": "lisi", "ou_4": "zhaoliu"}
"""李四 by e-mail address, 赵六 by id, the others by their own ids."""

SICK = {"leave_type": "sick", "start_date": "2026-11-23", "end_date": "2026-11-24", "reason": "胃疼", "approver": "U2"}
"""Two working days: one level."""
LONG = {**SICK, "end_date": "2026-11-27"}
"""Five: two levels."""
VERY_LONG = {**SICK, "end_date": "2026-12-11", "attachment": "F0SICKNOTE"}
"""Fifteen: three levels."""
SHORT = {"leave_type": "personal", "start_date": "2026-11-23", "end_date": "2026-11-23", "reason": "搬家"}
"""One: passes by rule."""
DESK = {"amount": "86.5", "approver": "U2"}
"""One level, as often as one likes."""
SOFA = {"amount": "1,200.50", "approver": "U2"}
"""Also goes to finance."""
HERE = Path(__file__).parent


def build_alike(file: str, key: str, number: str) -> Process:
    """A process with the form of `spend`, and the graph of a file."""
    bpmn = (HERE / f"{file}.bpmn").read_text(encoding="utf-8").replace(f'process id="{file}"', f'process id="{key}"')
    form = (HERE / "spend.toml").read_text(encoding="utf-8").replace('key = "spend"', f'key = "{key}"')
    return compile_process(bpmn.encode(), form.replace('number = "S"', f'number = "{number}"').encode())


SPEND = build_alike("spend", "spend", "S")
PAIR = build_alike("pair", "pair", "P")
"""Two decide at the same time."""
TURN = build_alike("turn", "turn", "T")
"""Two decide one after the other, and the last way is open only if both agreed."""
PROCESSES = (*load_shipped_processes(), SPEND, PAIR, TURN)

WRITES = {
    "start": {"flowable": "/runtime/process-instances", "camunda": "start"},
    "move": {"flowable": "/change-state", "camunda": "/modification"},
    "jobs": {"flowable": "/acquire/jobs", "camunda": "/fetchAndLock"},
    "record": {"flowable": "/variables", "camunda": "/variables"},
    "deploy": {"flowable": "/repository/deployments", "camunda": "/deployment/create"},
}
"""How the paths of writes end."""
ENGINES = {"flowable": (FlowableFace, FlowableApi), "camunda": (CamundaFace, CamundaApi)}


@dataclass
class Files:
    """What people have sent, by id."""

    known: dict[str, AttachedFile] = field(default_factory=dict)

    async def find_files(self, person: str, ids: Sequence[str]) -> dict[str, AttachedFile]:
        return {id: self.known[id] for id in ids if id in self.known}


@dataclass
class World:
    """A remote engine, and our engine over it."""

    face: Face
    kind: str
    session: ClientSession
    url: str
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
        api = ENGINES[self.kind][1](rest, page)
        return RemoteEngine(
            api, marks, PROCESSES, self.people, TABLE, self.completing, clock=lambda: self.seconds, sleep=self.sleep
        )

    def completing(self, store: Store) -> CommandEnricher:
        return CommandEnricher(
            lists=store,
            directory=self.people,
            calendar=WorkCalendar(),
            numbers={},
            policy=(),
            files=self.files if self.files.known else None,
        )

    async def sleep(self, seconds: float) -> None:
        """Long enough for others to get on."""
        self.slept.append(seconds)
        await asyncio.sleep(min(seconds, 0.001))

    def fail(self, what: str, fault: Fault, times: int = 1) -> None:
        """What becomes of the next writes of this kind."""
        self.face.faults += [(WRITES[what][self.kind], fault)] * times

    @property
    def repeats(self) -> int:
        """How often Flowable's PUT of variables is sent when connections break; Camunda's POST once."""
        return 2 if self.kind == "flowable" else 1

    @property
    def runs(self) -> list[Run]:
        return list(self.face.runner.state.runs.values())

    def key(self) -> str:
        return f"k{next(self.keys)}"

    async def start(self, form: Mapping[str, str] = SICK, process: str = "leave", key: str = "") -> CommandResult:
        return await self.engine.start_request(process, form, ZHANG.id, key or self.key(), NOW)

    async def task(self, request: str) -> str:
        """The one open task of a request."""
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

    def spoil(self, request: str) -> None:
        """The version that it was started with cannot be had any more."""
        (run,) = (r for r in self.runs if r.business_key == request)
        record = find_start_record(run.variables)
        assert record
        gone = record.command.model_copy(update={"definition": "0" * 64})
        run.variables |= build_record_variables(record.model_copy(update={"command": gone}))

    async def decide(
        self, task: str, actor: Person, decision: str, opinion: str = "", *, key: str = "", **more: Any
    ) -> CommandResult:
        command = DecideCommand(
            task=task, actor=actor.id, decision=Decision(decision), opinion=opinion, to=more.pop("to", "")
        )
        return await self.engine.execute_command(command, key or self.key(), NOW, **more)


@asynccontextmanager
async def world_of(kind: str) -> AsyncIterator[World]:
    face = ENGINES[kind][0]()
    for process in PROCESSES:
        face.runner.deploy(process, convert_to_engine(process.bpmn, kind))
    async with face.served() as url, ClientSession() as session:
        yield World(face, kind, session, url)


async def refused(work: Any) -> ToolError:
    with pytest.raises(ToolError) as error:
        await work
    return error.value
