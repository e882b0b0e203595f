"""The model holds, it notices its mutants, and the real scripts do what it does."""

import asyncio
import re
import signal
from pathlib import Path

import pytest

from tests.qa.chaos.bot import HELD
from tests.qa.chaos.plan import CALM, Wanted, planned
from tests.qa.chaos.run import Running, alive
from tests.qa.chaos.scenes import OTHER, ask, count_refusals, plan_lines
from tests.qa.lanes.logs import LaneLog, find_refused_call, read_logs
from tests.qa.lanes.model import check_configurations, check_mutants, find_missing_program

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(find_missing_program()), reason=f"no {find_missing_program()} on this machine"),
]


def test_every_state_of_the_model_holds(tmp_path: Path) -> None:
    found = {name: result.violated for name, result in check_configurations(tmp_path)}
    assert set(found.values()) == {""}, found


def test_every_mutant_of_the_model_is_noticed(tmp_path: Path) -> None:
    assert [mutant.what for mutant, result in check_mutants(tmp_path) if not result.violated] == []


# The real scripts


async def log_worst_moment(**more: str) -> dict[str, LaneLog]:
    """A bot is stopped when *Send* is decided, for longer than its lease; another one takes over and ends the press,
    and then the run, whose commit has its answer lost; then the first one wakes up."""
    wanted = Wanted(1, 1, 1, 2, faults=("stop", "cut"), rates=CALM, speed=20)
    environment = {"CHAOS_LOG": "1", "CHAOS_HELD": "1", **more}
    async with alive(plan_lines(wanted, f"mail {OTHER}"), "embedded", environment) as running:
        [proxy], mails, wait_until = running.store.proxies, running.out.mailbox.kept, running.wait_until
        card = await ask(running)
        proxy.trap = b'"1", ["set", '  # the commit that ends the run
        await running.people.press_only(card, "send")
        await wait_until(lambda: any(bot.times(HELD) for bot in running.town.bots))
        [held] = [bot for bot in running.town.bots if bot.times(HELD)]
        await wait_until(lambda: mails)
        await running.empty()
        held.signal(signal.SIGCONT)
        await wait_until(lambda: count_refusals(held) or len(mails) > 1)
        await running.rested()
        assert proxy.was_cut == 1
        return await read_logs(running.store.url)


async def say_stop(running: Running) -> None:
    """Everybody with a DM says *stop* now and then."""
    for _ in range(3):
        await asyncio.sleep(running.plan.wanted.lasts_s / 4)
        for talk in running.plan.conversations:
            if talk.direct:
                await running.out.driver.send_message(talk.lines[0].person, talk.channel, "stop")


def list_refused(logs: dict[str, LaneLog], folder: Path) -> list[str]:
    found = {lane: find_refused_call(log, folder) for lane, log in logs.items()}
    return [f"{lane}: {call}" for lane, call in found.items() if call]


async def test_the_model_accepts_what_two_bots_do_whatever_breaks(tmp_path: Path) -> None:
    wanted = Wanted(7, 8, 6, 2, seconds=6, faults=("kill", "stop", "cut", "stall", "twice"), speed=10)
    async with alive(planned(wanted), "embedded", {"CHAOS_LOG": "1"}) as running:
        await running.begin()
        async with running.pressing():
            async with asyncio.TaskGroup() as both:
                both.create_task(running.people.talk())
                both.create_task(running.strikes())
                both.create_task(say_stop(running))
            running.out.troubles.calm = True
            assert await running.rested() == ""
            assert running.counts["kill"] and running.counts["stop"] and running.counts["cut"]
        logs = await read_logs(running.store.url)
    assert list_refused(logs, tmp_path) == []
    assert sum(len(log.calls) for log in logs.values()) > 200
    assert any(", STOP, " in call for log in logs.values() for call in log.calls)


WITHOUT = {
    "": ({}, ""),
    "fence": ({"CHAOS_WITHOUT": "fencing"}, "EXTEND|CHECKPOINT"),
    "mark": ({"CHAOS_LUA": "mark"}, "COMMIT"),
    "lease": ({"CHAOS_LUA": "lease"}, "CLAIM"),
}
"""By what the scripts lack: how they come to lack it, and which call the model refuses then."""


@pytest.mark.parametrize("what", WITHOUT)
async def test_the_model_accepts_the_worst_moment_and_refuses_scripts_without_a_safety(
    what: str, tmp_path: Path
) -> None:
    more, refuses = WITHOUT[what]
    refused = list_refused(await log_worst_moment(**more), tmp_path)
    assert bool(refused) == bool(what), refused
    assert all(re.search(refuses, call) for call in refused)
