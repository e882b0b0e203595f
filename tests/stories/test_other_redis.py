"""One story on a Redis cluster, and on a master that dies in the middle of it."""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.core.errors import StoreUnavailableError
from bot.redis.cluster import ClusterClient
from tests.harness.cluster import server_program
from tests.harness.office import LI, ZHANG, Office, found_request, office, read_message_text
from tests.harness.programs import ran
from tests.harness.sentinel import SERVICE, watched
from tests.stories.behind import request_of, times_told
from tools.workflow.engine.state import Status

pytestmark = pytest.mark.skipif(not server_program(), reason="no Redis server program on this machine")
TWO_DAYS = "明天起请2天年假，去看父母，审批人李四"


async def told(desk: Office, folder: Path, *arguments: str) -> str:
    """Return the output of a command."""
    env = {name: value for name, value in desk.shell.items() if name != "OPENAI_BASE_URL"}
    end = await ran(*arguments, cwd=folder, env=env)
    assert "FAIL" not in end.out and end.code == 0, end.all
    return end.out


async def approve(desk: Office, card: dict[str, Any]) -> None:
    await desk.press(LI, card, "approve")
    await desk.until(lambda: "您的请假申请 L-0001 已通过" in desk.said(desk.dm(ZHANG)))
    assert (await request_of(desk, "L-0001")).status is Status.APPROVED
    assert await times_told(desk, "effect.done") == 2, "each effect once"


@pytest.mark.slow
async def test_a_request_is_approved_on_a_cluster_and_every_command_shows_it(
    ring: str, redis_cluster: Redis, tmp_path: Path
) -> None:
    async with office(ring) as desk, desk.opened(steps="replies"):
        assert isinstance(desk.bot.stores.redis, ClusterClient)
        assert await desk.request_leave(ZHANG, TWO_DAYS) == "L-0001"
        card = await desk.card(desk.dm(LI), "L-0001")
        run = next(record.run for record in await desk.journal(person=ZHANG) if record.run)
        commands = ("tail --json", "pending --json", f"show {run}", "dead", "doctor")
        tail, pending, shown, dead, doctor = await asyncio.gather(
            *(told(desk, tmp_path, *command.split()) for command in commands)
        )
        kinds = [json.loads(line)["kind"] for line in tail.splitlines()]
        assert kinds.index("effect.started") < kinds.index("effect.done")
        assert json.loads(pending)["waits_for"] == LI
        assert "start_process" in shown and dead.strip()
        assert "redis: Cluster of 3 masters; of 8 partitions 127.0.0.1:" in doctor
        assert "redis: keeps what it is given" in doctor
        await approve(desk, card)


@pytest.mark.slow
async def test_a_conversation_goes_on_when_the_master_dies_in_the_middle_of_it(tmp_path: Path) -> None:
    async with watched(tmp_path / "redis") as redis, office(redis.url) as desk, desk.opened():
        here, first = desk.dm(ZHANG), await redis.master()
        await desk.says(ZHANG, TWO_DAYS)
        preview = await desk.card(here)
        doctor = await told(desk, tmp_path, "doctor")
        assert f"Sentinel: the master of {SERVICE} is {first.url.partition('//')[2]}" in doctor
        await redis.replicated()
        await first.kill()
        await redis.follows(first)
        await writable(desk)
        await desk.press(ZHANG, preview, "confirm")
        assert await desk.until(lambda: found_request(desk.said(here))) == "L-0001"
        await approve(desk, await desk.card(desk.dm(LI), "L-0001"))


@pytest.mark.slow
async def test_a_decision_that_no_replica_had_when_the_master_died_is_asked_for_again(tmp_path: Path) -> None:
    """The engine and the card have their earlier state; Li Si sees a card without buttons, until the bot has
    noticed."""
    async with watched(tmp_path / "redis") as redis, office(redis.url) as desk, desk.opened() as bot:
        await desk.request_leave(ZHANG, TWO_DAYS)
        await desk.card(desk.dm(LI), "L-0001")
        await desk.quiet()
        await bot.stores.watch.watch_store()
        first = await redis.master()
        await redis.replicated()
        async with redis.cut_off(first):
            await desk.press(LI, await desk.card(desk.dm(LI), "L-0001"), "approve")
            await desk.until(lambda: "您的请假申请 L-0001 已通过" in desk.said(desk.dm(ZHANG)))
            assert not desk.cards(desk.dm(LI))
            await first.kill()
        await redis.follows(first)
        lost = "我的数据丢了最后一小段"
        await desk.until(lambda: all(lost in desk.said(desk.dm(person)) for person in (LI, ZHANG)))
        await desk.press(LI, await desk.card(desk.dm(LI), "L-0001"), "approve")
        await desk.until(lambda: not desk.cards(desk.dm(LI)))
        await desk.quiet()
        assert (await request_of(desk, "L-0001")).status is Status.APPROVED
        assert [lost in read_message_text(one) for one in desk.posts(desk.dm(LI))].count(True) == 1


async def writable(desk: Office) -> None:
    """Return when the new master takes writes; the client itself would wait ever longer."""
    for _ in range(10):
        with contextlib.suppress(StoreUnavailableError):
            return await desk.bot.stores.journal.append_record("lane", "command", text="are you there?")
    raise AssertionError("no master takes writes")
