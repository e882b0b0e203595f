"""The bot and the engine are killed, answers get lost or come late: nothing is lost, doubled or wrongly told."""

import asyncio
import os
import random
import signal
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from tests.engines.launch import NoEngineError, running_engine
from tests.harness.memory_key_value_store import MemoryKeyValueStore
from tests.harness.programs import free_ports
from tests.tools.office import NOW
from tests.tools.workflow.remote import company
from tests.tools.workflow.remote.company import DESK, KINDS, LI, ZHANG, World, world_of
from tests.tools.workflow.remote.proxy import Fault, Proxy
from tools.spec import EffectUnknownError, ToolError
from tools.workflow.engine.commands import DecideCommand
from tools.workflow.engine.state import Decision, Status
from tools.workflow.engine.store import OutboxEvent
from tools.workflow.remote.api import WRITE_PENDING_MS

REQUESTS, AUTHORS, AT_ONCE = 60, 20, 8
FAULTY = 0.1
"""The part of the calls that has a fault."""
FAULTS = [fault for fault in Fault if fault is not Fault.SILENT]
KILLS = ("bot", "engine", "bot", "engine", "bot")
"""One in each of the first rounds."""
APPROVED = Decision.APPROVE.value


@dataclass
class Storm(Proxy):
    chance: random.Random = field(default_factory=lambda: random.Random(29))
    is_on: bool = False
    under_way: set[asyncio.Task[web.StreamResponse]] = field(default_factory=set)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """A call goes on in the engine when the bot that made it is killed."""
        passing = asyncio.create_task(super().answer(request))
        self.under_way.add(passing)
        passing.add_done_callback(self.under_way.discard)
        return await asyncio.shield(passing)

    def _take_fault(self, request: web.Request) -> Fault | None:
        has_fault = self.is_on and request.method != "GET" and self.chance.random() < FAULTY
        return self.chance.choice(FAULTS) if has_fault else None


@dataclass
class BotStore(MemoryKeyValueStore):
    """A killed bot gives back no lock."""

    is_dead: bool = False

    async def delete_if_equal(self, key: str, value: str) -> None:
        if not self.is_dead:
            await super().delete_if_equal(key, value)


@dataclass
class Ledger:
    """What people were told."""

    started: dict[int, str] = field(default_factory=dict)
    decided: dict[int, Status] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    """Starts of which it was said that nothing was changed, and that nobody tried again."""
    unknown: int = 0
    events: dict[str, OutboxEvent] = field(default_factory=dict)


async def run_bot(world: World, ledger: Ledger, kill: str, engine: int) -> None:
    """Try everything that is open once; the bot or the engine (its process id) is killed in the midst of it."""
    storm, store = world.proxy, BotStore(world.marks.now, world.marks.values, world.marks.counters, world.marks.tables)
    assert isinstance(storm, Storm)
    bot, room = world.another(store, timeout_s=20), asyncio.Semaphore(AT_ONCE)

    async def attempt(n: int) -> None:
        async with room:
            try:
                if n not in ledger.started:
                    result = await bot.start_request("spend", DESK, f"A{n % AUTHORS}", f"s{n}", NOW)
                    ledger.started[n] = result.request
                request = await bot.get_request(ledger.started[n])
                approve = DecideCommand(task=request.tasks[0].id, actor=LI.id, decision=Decision.APPROVE)
                ledger.decided[n] = (await bot.execute_command(approve, f"d{n}", NOW)).status
            except EffectUnknownError:
                ledger.unknown += 1
            except ToolError as error:
                if n not in ledger.started and n % 10 == 0:
                    ledger.refused[n] = error.code

    async def tell() -> None:
        while True:
            for event in await bot.list_outbox(20):
                ledger.events[event.id] = event
                await bot.mark_sent([event.id])
            bot._poller.schedule_poll()
            await asyncio.sleep(0.2)

    storm.is_on, storm.calls = True, []
    open_ones = [n for n in range(REQUESTS) if n not in ledger.decided and n not in ledger.refused]
    working, telling = asyncio.gather(*map(attempt, open_ones)), asyncio.create_task(tell())
    try:
        while kill and len(storm.calls) < 3 * len(open_ones) and not working.done():
            await asyncio.sleep(0.01)
        if kill == "engine":
            os.kill(engine, signal.SIGKILL)
        if kill == "bot":
            store.is_dead = working.cancel()
        await asyncio.wait([working])
    finally:
        telling.cancel()
        storm.is_on = False


async def calm_down(world: World) -> None:
    """Whatever is late comes true within five minutes, and then nothing is under way any more."""
    await asyncio.sleep(0.05)  # the last calls of a killed bot have been sent and reach the proxy
    while world.proxy.late or world.proxy.under_way:  # type: ignore[attr-defined]
        await world.proxy.come_true()
        await asyncio.sleep(0.05)
    world.seconds += WRITE_PENDING_MS / 1000 + 1


@pytest.mark.slow
@pytest.mark.timeout(1_500)
@pytest.mark.parametrize("kind", KINDS)
async def test_of_many_requests_none_is_lost_or_doubled_or_wrongly_told(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(company, "Proxy", Storm)
    database, port, processes, ledger = f"file:{tmp_path}/engine;WRITE_DELAY=0", free_ports(1), list[int](), Ledger()
    with ExitStack() as stack:
        log = stack.enter_context((tmp_path / "log").open("w"))

        async def start_engine() -> str:
            running = running_engine(kind, log, port=port, database=database, note_process=processes.append)
            return await asyncio.to_thread(stack.enter_context, running)

        try:
            url = await start_engine()
        except NoEngineError as missing:
            pytest.skip(str(missing))
        async with world_of(kind, url) as world:
            world.people.known += [ZHANG.model_copy(update={"id": f"A{n}", "email": ""}) for n in range(AUTHORS)]
            for turn in range(40):
                kill = KILLS[turn] if turn < len(KILLS) else ""
                await run_bot(world, ledger, kill, processes[-1])
                if kill == "engine":
                    await start_engine()
                await calm_down(world)
                if len(ledger.decided) + len(ledger.refused) == REQUESTS and turn >= len(KILLS):
                    break
            fresh = world.another(MemoryKeyValueStore())
            assert len(ledger.started) == len(set(ledger.started.values())) == REQUESTS - len(ledger.refused)
            assert await world.count_instances() == len(ledger.started), "none is doubled, and the refused ones are not"
            for n, request in ledger.started.items():
                found = await fresh.get_request(request)
                assert (found.initiator, found.status) == (f"A{n % AUTHORS}", ledger.decided[n])
                assert [(one.by, one.decision) for one in found.opinions] == [(LI.id, APPROVED)]
            for event in await world.engine.list_outbox(10 * REQUESTS):
                ledger.events[event.id] = event
            ends = [event.data for event in ledger.events.values() if event.kind == "ended"]
            assert sorted(one["request"] for one in ends) == sorted(ledger.started.values()), "each end is told once"
            assert {one["status"] for one in ends} == {Status.APPROVED.value} and ledger.unknown
            given = [event.data["task"] for event in ledger.events.values() if event.kind == "assigned"]
            assert len(given) == len(set(given)) <= len(ledger.started)
