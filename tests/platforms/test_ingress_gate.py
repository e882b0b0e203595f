"""The door: events first, turns in between, and nobody waits for ever."""

import asyncio

import pytest

from bot.chat import platform
from bot.chat.platform import MAX_WAIT_S, IngressGate


async def waits(task: asyncio.Task[None]) -> bool:
    """Still waits after a while in which it had many a chance to go on."""
    await asyncio.sleep(MAX_WAIT_S / 5)
    return not task.done()


def crowded(door: IngressGate) -> None:
    door.begin_event()
    door.begin_event()


@pytest.fixture
def lasting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two events are a crowd for as long as the test takes."""
    monkeypatch.setattr(platform, "CROWD_S", 60)


async def test_nobody_waits_for_a_single_event() -> None:
    """An idle bot answers its one message without a pause: the event that began the turn is no crowd."""
    door = IngressGate()
    door.begin_event()
    with pytest.raises(StopIteration):  # it ended without ever handing control back
        door.wait_until_quiet().send(None)


@pytest.mark.usefixtures("lasting")
async def test_in_a_crowd_work_waits_until_all_are_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "MAX_WAIT_S", 60)
    door = IngressGate()
    crowded(door)
    going_on = asyncio.create_task(door.wait_until_quiet())
    assert await waits(going_on)
    door.end_event()
    assert await waits(going_on)
    door.end_event()
    await asyncio.wait_for(going_on, 5)


@pytest.mark.usefixtures("lasting")
async def test_pieces_of_work_go_on_one_after_another() -> None:
    door, went = IngressGate(), list[int]()

    async def work(number: int) -> None:
        await door.wait_until_quiet()
        went.append(number)

    crowded(door)
    tasks = [asyncio.create_task(work(number)) for number in range(3)]
    async with asyncio.timeout(5):
        await tasks[0]
        assert went == [0], "one passes, the others wait for their own turn"
        await asyncio.gather(*tasks)
    assert went == [0, 1, 2]


async def test_work_goes_on_while_an_event_waits_for_its_outcome() -> None:
    """A press is answered with the card as it is after the press: that work would wait for the press itself."""
    gate, outcome = IngressGate(), asyncio.Event()
    gate.begin_event()
    waiting = asyncio.create_task(gate.wait_for_outcome(outcome, 30))
    await asyncio.sleep(0)
    assert gate.coming == 0 and not waiting.done()
    outcome.set()
    await asyncio.wait_for(waiting, 5)
    assert gate.coming == 1


@pytest.mark.usefixtures("lasting")
async def test_in_a_crowd_no_event_waits_for_its_outcome_and_work_goes_on_at_last() -> None:
    gate = IngressGate()
    crowded(gate)
    await asyncio.wait_for(gate.wait_for_outcome(asyncio.Event(), 30), 5)
    assert gate.coming == 2
    await asyncio.wait_for(gate.wait_until_quiet(), 5)
    assert gate.coming == 2
