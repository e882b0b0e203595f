"""An engine that is broken, or somebody else's by now: a real server that answers anything but what it should.

Whatever it does costs one bounded look and ends in an honest sentence: nothing hangs, nothing grows without end, nobody
else's login or data goes anywhere, and what cannot be known is said to be unknown.
"""

import asyncio
import contextlib
import gzip
import json
import struct
import time
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import Any

import pytest
from aiohttp import ClientSession, web
from pydantic import SecretStr
from yarl import URL

from bot.core.i18n import render_value
from tests.harness.corpus import corpus
from tests.harness.memory_key_value_store import MemoryKeyValueStore
from tests.linear.pace import measure_pace
from tests.tools.office import NOW, SICK, People, refused
from tests.tools.workflow.remote.company import LI, PEOPLE, PROCESSES, TABLE, WANG, ZHANG, World
from tests.tools.workflow.remote.proxy import LOGIN, PASSWORD, serving
from tools.spec import EffectUnknownError, ToolError
from tools.workflow.engine.commands import DecideCommand
from tools.workflow.engine.enrich import CommandEnricher
from tools.workflow.engine.state import Decision
from tools.workflow.process.calendar import WorkCalendar
from tools.workflow.remote import request_reader
from tools.workflow.remote import rest_client as bounds
from tools.workflow.remote.api import MAX_PAGES, PAGE_SIZE
from tools.workflow.remote.engine import RemoteEngine
from tools.workflow.remote.open_engine import APIS
from tools.workflow.remote.request_reader import MAX_CONCURRENT_READS
from tools.workflow.remote.rest_client import ANSWER_MAX, EngineNoAnswerError, RestClient

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
TIMEOUT_S = 1.0
HONEST = {"engine_down", "engine_failed", "engine_too_large", "engine_unreadable", "engine_refused", "not_deployed",
          "no_request", "no_task"}  # fmt: skip
"""What people are told; the last three: the engine says there is nothing, and that is believed."""


@dataclass
class Hostile:
    """Answers everything in one way, and counts."""

    answer: Answer
    paths: list[str] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        self.paths.append(request.path)
        self.logins.append(request.headers.get("Authorization", ""))
        return await self.answer(request)


async def endless(request: web.Request) -> web.StreamResponse:
    """A body that never ends, as fast as it goes."""
    answer = web.StreamResponse()
    await answer.prepare(request)
    await answer.write(b'{"data": [')
    while True:
        await answer.write(b'{"id": "x"},' * 5_000)


async def drip(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    while True:
        await answer.write(b" ")
        await asyncio.sleep(0.05)


async def silent(request: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    return web.Response()


@cache
def bomb() -> bytes:
    """A gigabyte in a megabyte: after each full flush the same piece is packed to the same bytes."""
    packer, piece, pieces = zlib.compressobj(9, zlib.DEFLATED, 31), b" " * (1 << 20), 1_024
    first, next_one = (packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    checksum = 0
    for _ in range(pieces):
        checksum = zlib.crc32(piece, checksum)
    return first + next_one * (pieces - 1) + b"\x03\x00" + struct.pack("<II", checksum, pieces << 20)


def body(content: bytes | Callable[[], bytes], status: int = 200, **headers: str) -> Answer:
    """`content`: a function makes it when it is first asked for."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(
            body=content() if callable(content) else content,
            status=status,
            headers={name.replace("_", "-"): value for name, value in headers.items()},
        )

    return answer


def said(value: Any) -> Answer:
    return body(json.dumps(value).encode())


def page(*rows: Any, total: int | None = None) -> Answer:
    """A page of rows, for whichever engine asks."""

    async def answer(request: web.Request) -> web.StreamResponse:
        found: Any = list(rows)
        flowable = "flowable" in request.path
        if flowable:
            found = {"data": found, "total": len(rows) if total is None else total}
        return web.json_response(found)

    return answer


ROW = {"id": "1", "processInstanceId": "1", "executionId": "1", "taskDefinitionKey": "approve", "assignee": "lisi",
       "createTime": "2026-11-20T10:00:00Z", "created": "2026-11-20T10:00:00.000+0000", "state": "ACTIVE",
       "startTime": "2026-11-20T10:00:00.000+0000", "businessKey": "L-0001", "activityId": "approve",
       "variables": [], "name": "x"}  # fmt: skip

ODD_VALUES = {"null": None, "lists": [], "objects": {"a": 1}, "numbers": 10**30, "long texts": "x" * 5_000}
ATTACKS: dict[str, Answer] = {
    "a body without end": endless,
    "a body by the byte": drip,
    "silence": silent,
    "a packed gigabyte": body(bomb, Content_Encoding="gzip"),
    "a packed gigabyte in another way": body(bomb, Content_Encoding="deflate"),
    "packed twice": body(cache(lambda: gzip.compress(bomb())), Content_Encoding="gzip, gzip"),
    "brackets in brackets": body(b"[" * 1_000_000),
    "objects in objects": body(b'{"data":' * 200_000),
    "a long body": body(b'{"data": ["' + b"x" * (ANSWER_MAX + 1) + b'"]}'),
    "no JSON": body(b"<html>hello</html>"),
    "nothing": body(b""),
    "other bytes": body(b"\xff\xfe\x00"),
    "a number without end": body(b"1" * 100_000),
    "not a number": body(b"NaN"),
    "a text": said("hello"),
    "a number": said(5),
    "null": said(None),
    "a list of texts": page("a", "b"),
    "a list of lists": page([], [[]]),
    "rows without anything": page({}, {}),
    **{f"rows with {name}": page(dict.fromkeys(ROW, value)) for name, value in ODD_VALUES.items()},
    "an id that is a path": page({**ROW, "id": "../../../admin?x=1#y"}),
    "more rows than were asked for": page(*[ROW] * (PAGE_SIZE + 1)),
    "the same page without end": page(*[ROW] * PAGE_SIZE, total=10**9),
    "a total that is a text": page(ROW, total="many"),  # type: ignore[arg-type]
    "a day that is none": page({**ROW, "startTime": "yesterday", "createTime": "-1", "created": "∞"}),
    "a year without end": page({**ROW, "startTime": "9" * 40, "createTime": "9" * 40, "created": "9" * 40}),
    "everything was moved": body(b"", 302, Location="http://127.0.0.1:1/elsewhere"),
    "see another": body(b"", 303, Location="//evil.example/"),
    "gone for good": body(b"", 410),
    "a strange status": body(b"", 299),
    "it is broken": body(b"stack trace with s3cret", 500),
    "it knows nobody": body(b"", 401),
    "headers without end": body(b"{}", **{f"X-{n}": "y" * 5_000 for n in range(50)}),
}


@asynccontextmanager
async def attacked(
    kind: str, answer: Answer, timeout_s: float = TIMEOUT_S
) -> AsyncIterator[tuple[RemoteEngine, Hostile, RestClient]]:
    hostile = Hostile(answer)
    async with serving(hostile.serve) as server, ClientSession() as session:
        base = "flowable-rest/service" if kind == "flowable" else "engine-rest"
        rest = RestClient(session, f"http://127.0.0.1:{server.port}/{base}", LOGIN, SecretStr(PASSWORD), timeout_s)
        engine = RemoteEngine(
            APIS[kind](rest), MemoryKeyValueStore(), PROCESSES, People(list(PEOPLE)), TABLE,
            lambda lists: CommandEnricher(
                lists=lists, directory=People(list(PEOPLE)), calendar=WorkCalendar(), numbers={}, policy=()
            ),
            clock=time.monotonic, sleep=asyncio.sleep,
        )  # fmt: skip
        yield engine, hostile, rest


def works(engine: RemoteEngine) -> dict[str, Callable[[], Awaitable[Any]]]:
    approve = DecideCommand(task="L-0001-1", actor=LI.id, decision=Decision.APPROVE)
    return {
        "todo": lambda: engine.list_todo_tasks(LI.id, NOW),
        "done": lambda: engine.list_decided_tasks(LI.id),
        "mine": lambda: engine.list_own_requests(ZHANG.id),
        "request": lambda: engine.get_request("L-0001"),
        "task": lambda: engine.get_task("L-0001-1"),
        "start": lambda: engine.start_request("leave", SICK, ZHANG.id, "k1", NOW),
        "approve": lambda: engine.execute_command(approve, "k2", NOW),
        "outbox": lambda: engine.list_outbox(10),
        "tick": lambda: engine.run_due_jobs(NOW),
    }


@pytest.mark.parametrize("kind", ["camunda", "flowable"])
@corpus("attack", *ATTACKS)
async def test_every_attack_ends_in_honest_words(kind: str, attack: str, caplog: pytest.LogCaptureFixture) -> None:
    async with attacked(kind, ATTACKS[attack]) as (engine, hostile, _):
        for name, work in works(engine).items():
            began, before = time.monotonic(), len(hostile.paths)
            try:
                found = await work()
            except EffectUnknownError as unknown:
                assert name in ("start", "approve") and str(unknown)
            except ToolError as error:
                assert error.code in HONEST, (name, error.code, error.text)
                for language in ("zh", "en"):
                    assert render_value(error.note, language) and "{" not in render_value(error.note, language)
                assert "s3cret" not in error.text and "127.0.0.1" not in error.text
            else:
                assert name in ("todo", "done", "mine", "outbox", "tick"), (name, found)
                assert not getattr(found, "tasks", found), (name, found)
            assert time.monotonic() - began < 60 * TIMEOUT_S, name
            assert len(hostile.paths) - before <= 20, name
        assert not any(path.startswith("/admin") or "elsewhere" in path for path in hostile.paths)
    assert PASSWORD not in caplog.text


@corpus("attack", "a body without end", "a packed gigabyte", "a long body", "the same page without end")
@corpus("kind", "camunda", "flowable")
async def test_what_is_read_is_bounded(kind: str, attack: str) -> None:
    async with attacked(kind, ATTACKS[attack]) as (engine, _, _):
        tracemalloc.start()
        try:
            with contextlib.suppress(ToolError):
                await engine.list_todo_tasks(LI.id, NOW)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 8 * bounds.LIST_MAX, f"{peak / 1e6:.0f} MB"


async def test_a_write_that_was_done_is_done_whatever_is_said_about_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with attacked("camunda", body(b"x" * (ANSWER_MAX + 1)), 30) as (_, hostile, rest):
        await rest.write("POST", "task", "1", "complete")
        assert len(hostile.paths) == 1
    async with attacked("camunda", drip) as (_, _, rest):
        with pytest.raises(EngineNoAnswerError):
            await rest.write("POST", "task", "1", "complete")
    monkeypatch.setattr(bounds, "ANSWER_MAX", 1 << 40)
    async with attacked("camunda", body(b'["' + b"x" * (4 * ANSWER_MAX) + b'"]'), 30) as (_, _, rest):
        assert len(str(await rest.read_json("task"))) > 4 * ANSWER_MAX, "the negative control of what is bounded"


async def test_a_redirect_is_not_followed_and_the_login_stays() -> None:
    elsewhere = Hostile(said([]))
    async with serving(elsewhere.serve) as other:
        for status in (301, 302, 303, 307, 308):
            location = f"http://127.0.0.1:{other.port}/engine-rest/task"
            async with attacked("camunda", body(b"", status, Location=location)) as (engine, _, _):
                assert (await refused(engine.list_todo_tasks(LI.id, NOW))).code == "engine_failed"
    assert elsewhere.logins == []


@pytest.mark.parametrize("kind", ["camunda", "flowable"])
async def test_ever_new_rows_end_some_day(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page is another one, and there are always more; nobody of them is ours."""
    monkeypatch.setattr(request_reader, "LIST_TIMEOUT_S", 2.0)
    numbers = count()

    async def more(request: web.Request) -> web.StreamResponse:
        found: Any = [
            {**ROW, "id": str(next(numbers)), "processInstanceId": str(next(numbers))} for _ in range(PAGE_SIZE)
        ]
        return web.json_response({"data": found, "total": 10**9} if kind == "flowable" else found)

    async with attacked(kind, more) as (engine, hostile, _):
        began = time.monotonic()
        with contextlib.suppress(ToolError):
            await engine.list_todo_tasks(LI.id, NOW)
        assert time.monotonic() - began < 60 * TIMEOUT_S, "reading what is listed ends after its time"
        assert hostile.paths.count(hostile.paths[0]) <= 2 * MAX_PAGES, "and so many pages are enough of a list"
        calls = len(hostile.paths)
        await asyncio.sleep(0.2)
        assert len(hostile.paths) <= calls + MAX_CONCURRENT_READS, "and nothing goes on behind"


async def test_an_engine_that_gives_everybody_everything_shows_nobody_what_is_not_theirs(world: World) -> None:
    """Whoever is asked for, it answers with everybody's tasks and requests."""
    async with attacked(world.kind, page(ROW)) as (engine, _, _):
        assert not (await engine.list_todo_tasks(LI.id, NOW)).tasks, "instances that are not ours are nobody's"
        assert not await engine.list_own_requests(ZHANG.id) and not await engine.list_decided_tasks(LI.id)
    await world.start(SICK)
    assert len((await world.engine.list_todo_tasks(LI.id, NOW)).tasks) == 1
    behind = world.url

    async def generous(request: web.Request) -> web.StreamResponse:
        login, asked = {"Authorization": request.headers["Authorization"]}, await request.read()
        for one in (b'"assignee": "U3", ', b'"taskAssignee": "U3", ', b'"finished": true, '):
            asked = asked.replace(one, b"")
        if b"initiator" in asked:
            asked = asked.replace(b"U3", b"U1").replace(b"wangwu", b"U1")
        url = URL(behind).with_path(request.path, encoded=True).with_query(request.query)
        headers = {**login, "Content-Type": request.content_type}
        async with world.session.request(request.method, url, data=asked, headers=headers) as answer:
            return web.Response(body=await answer.read(), status=answer.status, content_type=answer.content_type)

    async with serving(generous) as between:
        world.url = str(URL(world.url).with_port(between.port))
        engine = world.another(world.marks)
        assert len((await engine.list_todo_tasks(LI.id, NOW)).tasks) == 1, "the control: it answers"
        assert not (await engine.list_todo_tasks(WANG.id, NOW)).tasks
        assert not await engine.list_decided_tasks(WANG.id) and not await engine.list_own_requests(WANG.id)


async def test_nobody_waits_beside_an_attack() -> None:
    """The loop goes on while an engine attacks: no step of reading or parsing holds it up."""
    worst = 0.0

    async def watch() -> None:
        nonlocal worst
        while True:
            began = time.process_time()
            await asyncio.sleep(0.005)
            worst = max(worst, time.process_time() - began)

    for attack in ("a body without end", "a packed gigabyte", "brackets in brackets", "a long body"):
        async with attacked("camunda", ATTACKS[attack]) as (engine, _, _):
            watching = asyncio.create_task(watch())
            with pytest.raises(ToolError):
                await engine.list_todo_tasks(LI.id, NOW)
            watching.cancel()
    assert worst < measure_pace(), f"{worst:.3f} s of processor"
