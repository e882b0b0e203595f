"""Who may approve, sums, and authority at the press: the same rules where the requests live in a remote engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.tools.workflow.remote.company import LI, NOW, SICK, WANG, ZHANG, ZHAO, World, refused
from tools.spec import ToolError
from tools.workflow.engine.commands import TransferCommand
from tools.workflow.engine.state import Status
from tools.workflow.remote.engine import RemoteEngine

HALF = {"amount": "600", "approver": "U2"}


async def test_a_friend_as_approver_is_refused(world: World) -> None:
    assert (await refused(world.start({**SICK, "approver": "U3"}))).code == "other_approver"


async def test_a_choice_that_a_row_permits_is_flagged_and_stays_so(world: World) -> None:
    await world.start({**HALF, "approver": "U3"}, "spend")
    assert (await world.engine.get_request("S-0001")).filled.exceptions == {"approver": (LI.id,)}
    (start, *_) = await world.engine.list_events("S-0001")
    assert start.command.filled.exceptions == {"approver": (LI.id,)}  # type: ignore[union-attr]


async def test_sums_are_counted_from_what_the_engine_has(world: World) -> None:
    await world.start(HALF, "spend")
    await world.start(HALF, "spend")
    first, second = [(await world.engine.get_request(f"S-000{n}")).filled for n in (1, 2)]
    assert (first.exceeded, second.exceeded) == ((), ("recent",))
    assert second.numbers["recent"] == 1200


async def at_once(world: World) -> int:
    """How many of two claims that were started at the same moment are flagged."""
    await asyncio.gather(*(world.engine.start_request("spend", HALF, ZHANG.id, f"k{n}", NOW) for n in range(2)))
    return sum("recent" in request.filled.exceeded for request in await world.engine.list_own_requests(ZHANG.id))


async def test_two_at_the_same_moment_are_seen_together(world: World) -> None:
    assert await at_once(world) == 1


async def test_without_one_after_the_other_neither_sees_the_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control."""

    @asynccontextmanager
    async def together(self: RemoteEngine, *args: Any) -> AsyncIterator[None]:
        yield

    monkeypatch.setattr(RemoteEngine, "_lock_author_forms", together)
    assert await at_once(world) == 0


async def test_who_lost_the_role_decides_no_longer(world: World) -> None:
    await world.start({**HALF, "amount": "5000"}, "spend")
    await world.decide(await world.task("S-0001"), LI, "approve")
    other = ZHAO.model_copy(update={"id": "U7", "name": "孙七", "email": "sunqi@example.com"})
    without = ZHAO.model_copy(update={"roles": frozenset()})
    world.people.known = [*(without if p.id == ZHAO.id else p for p in world.people.known), other]
    task = await world.task("S-0001")
    error = await refused(world.decide(task, ZHAO, "approve"))
    assert (error.code, error.params["names"]) == ("not_named", {"zh": "孙七", "en": "孙七"})
    with pytest.raises(ToolError, match="the rules name 孙七"):
        await world.engine.authorize_command(TransferCommand(task=task, actor=ZHAO.id, person=WANG.id), NOW)
    assert (await world.engine.get_request("S-0001")).status is Status.WAITING
