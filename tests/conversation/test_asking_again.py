"""A press that is answered with a question, and a draft that makes a card anew: whatever dies in between."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from bot.agent.model import ModelReply
from bot.core.records import ApprovalState, EffectState
from bot.storage.approvals import derive_task_card_id
from tests.harness.lab import Lab
from tests.harness.presses import everywhere
from tests.stories.script import DONE, calls, expense


async def asked_twice(redis: Redis) -> Lab:
    """An expense that was started, and the card of the very same."""
    lab = Lab(redis, [expense(), DONE, expense(), DONE])
    await lab.says("报销")
    await lab.work()
    await lab.presses(lab.wall.cards()[0], "confirm")
    await lab.work()
    await lab.says("再报一次", id="Ev2")
    await lab.work()
    return lab


async def requests(lab: Lab) -> list[str]:
    return [one.id for one in await lab.engine.list_own_requests("U1")]


async def test_killed_anywhere_in_a_press_that_is_asked_about_nothing_is_started_and_one_card_asks(
    redis: Redis,
) -> None:
    async def act(lab: Lab) -> None:
        await lab.presses(lab.wall.cards()[0], "confirm", id="again")
        await lab.work()
        assert await requests(lab) == ["E-0001"]
        [card] = lab.wall.cards()
        assert [one.choice for one in card.buttons] == ["start_another", "edit", "cancel"]
        approval = await lab.approvals.load_approval(card.buttons[0].approval)
        assert approval is not None and (approval.state, approval.version) == (ApprovalState.OPEN, 2)
        assert (approval.effect, approval.press_id, approval.decided_by) == (EffectState.NONE, "", "")
        assert len(await lab.waiting()) == 1, "its run waits on"
        assert approval.id in [one.id for one in await lab.approvals.list_open_approvals()]

    await everywhere(redis, lambda: asked_twice(redis), act)


@pytest.mark.slow
async def test_killed_anywhere_in_starting_another_knowingly_there_are_two(redis: Redis) -> None:
    async def prepare() -> Lab:
        lab = await asked_twice(redis)
        await lab.presses(lab.wall.cards()[0], "confirm", id="again")
        await lab.work()
        return lab

    async def act(lab: Lab) -> None:
        await lab.presses(lab.wall.cards()[0], "start_another")
        await lab.work()
        assert await requests(lab) == ["E-0001", "E-0002"]
        assert not lab.wall.cards() and await lab.waiting() == ()

    await everywhere(redis, prepare, act)


async def test_edited_to_something_else_it_is_started_without_a_question(redis: Redis) -> None:
    lab = await asked_twice(redis)
    await lab.presses(lab.wall.cards()[0], "confirm", id="again")
    await lab.work()
    card = lab.wall.cards()[0]
    await lab.presses(card, "edit", form={"field_amount": "7"})
    await lab.work()
    [edited] = lab.wall.cards()
    assert [one.choice for one in edited.buttons] == ["confirm", "edit", "cancel"]
    await lab.presses(edited, "confirm", id="edited")
    await lab.work()
    assert await requests(lab) == ["E-0001", "E-0002"]


def opinion(text: str) -> ModelReply:
    return calls(("decide_task", {"task_id": "E-0001-1", "opinion": text, "decision": "approve"}))


async def test_killed_anywhere_in_bringing_a_draft_one_card_has_it(redis: Redis) -> None:
    async def prepare() -> Lab:
        lab = Lab(redis, [expense(), DONE, *[opinion("注意发票")] * 9])
        await lab.says("报销")
        await lab.work()
        await lab.presses(lab.wall.cards()[0], "confirm")
        await lab.work()
        lab.model.script[:] = [opinion("注意发票")] * 9
        return lab

    async def act(lab: Lab) -> None:
        await lab.says("同意，注意发票", person="U2", id="Ev3")
        await lab.work()
        [card] = lab.wall.cards("DU2")
        assert "注意发票" in dict(card.facts).values()
        approval = await lab.approvals.load_approval(derive_task_card_id(lab.keys, "E-0001-1"))
        assert approval is not None and approval.version == 2

    await everywhere(redis, prepare, act)


async def test_a_card_of_the_version_before_is_decided_as_ever(redis: Redis) -> None:
    """Its arguments know of no author of a draft, and its dialogs hold the draft themselves."""
    lab = Lab(redis, [expense(), DONE])
    await lab.says("报销")
    await lab.work()
    await lab.presses(lab.wall.cards()[0], "confirm")
    await lab.work()
    approval = await lab.approvals.load_approval(derive_task_card_id(lab.keys, "E-0001-1"))
    assert approval is not None and set(approval.proposal.args) == {"task_id", "form_sha", "draft"}
    await lab.presses(lab.wall.cards("DU2")[0], "approve", person="U2")
    await lab.work()
    [said] = (await lab.engine.get_request("E-0001")).opinions
    assert (said.by, said.text) == ("U2", "")
