"""A button of a store that was emptied or restored: its id may mean something else by now. It names what it shows."""

from __future__ import annotations

from dataclasses import replace

from redis.asyncio import Redis

from tests.harness.lab import Lab
from tests.harness.presses import LEAVE, opened, started
from tests.stories.script import DONE, calls
from tests.tools.company import LI
from tests.tools.office import SICK
from tools.workflow.engine.state import Status

LONGER = calls(("start_process", {"process": "leave", "form": {**SICK, "reason": "搬家"}}))


async def start_other_request(redis: Redis) -> Lab:
    """A store that was emptied: another request has the number, and its card the id, of the one before."""
    await redis.flushall()
    lab = await opened(Lab(redis, [LONGER, DONE]))
    await lab.presses(lab.wall.cards()[0], "confirm")
    await lab.work()
    return lab


async def test_an_old_card_does_not_decide_the_request_that_has_its_number_now(redis: Redis) -> None:
    old_card = (await started(redis)).wall.cards("DU2")[0]
    lab = await start_other_request(redis)
    await lab.presses(old_card, "approve", LI.id)
    await lab.work()
    assert (await lab.engine.get_request("L-0001")).status is Status.WAITING
    ((person, words),) = lab.wall.whispers
    assert person == LI.id and "与记录里的内容不一致" in words
    assert [one.text async for one in lab.journal.stream_records(kinds={"approval.refused"})] == ["other_card"]
    await lab.presses(lab.wall.cards("DU2")[0], "approve", LI.id, id="the right one")
    await lab.work()
    assert (await lab.engine.get_request("L-0001")).status is Status.APPROVED, "the right card decides"


async def test_without_its_seal_it_would_have(redis: Redis) -> None:
    """Negative control: as buttons were before they named what they show."""
    old_card = (await started(redis)).wall.cards("DU2")[0]
    unsealed = replace(old_card, buttons=tuple(replace(one, seal="") for one in old_card.buttons))
    lab = await start_other_request(redis)
    await lab.presses(unsealed, "approve", LI.id)
    await lab.work()
    assert (await lab.engine.get_request("L-0001")).status is Status.APPROVED


async def test_its_dialog_does_not_open_either(redis: Redis) -> None:
    old_card = (await started(redis)).wall.cards("DU2")[0]
    lab = await start_other_request(redis)
    await lab.presses(old_card, "reject", LI.id, form={"opinion": "不行"})
    await lab.work()
    assert (await lab.engine.get_request("L-0001")).status is Status.WAITING and len(lab.wall.whispers) == 1


async def test_nor_does_a_card_that_was_given_up(redis: Redis) -> None:
    """A press on it says so, and asks nothing again."""
    lab = await opened(Lab(redis, [LEAVE, DONE]))
    old_card = lab.wall.cards()[0]
    await redis.flushall()
    lab = await opened(Lab(redis, [LONGER, DONE]))
    await lab.presses(old_card, "confirm")
    await lab.work()
    assert not await lab.engine.list_own_requests("U1") and lab.wall.whispers
