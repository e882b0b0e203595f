"""A submitted form becomes a card once, whatever dies; and where it does not, its person is told."""

from __future__ import annotations

import asyncio

from redis.asyncio import Redis

from bot.chat.messages import FormSubmission
from bot.conversation import request_forms
from bot.conversation.request_forms import RequestForms
from bot.core.work_items import FormSubmitted
from tests.harness.lab import Edges, Lab, every_edge
from tests.tools.company import SICK

FORM = {name: text for name, text in SICK.items() if name != "approver"}


def forms(lab: Lab) -> RequestForms:
    return lab.dispatch.handlers.request_forms


async def hand_in(lab: Lab, person: str = "U1", dialog: str = "V1", process: str = "leave", **changes: str) -> str:
    """What a submitted dialog puts into a lane; the card's id."""
    lane = forms(lab).derive_card_id(person, dialog)
    work = FormSubmitted(dialog=dialog, person=person, process=process, values={**FORM, **changes})
    await lab.lanes.enqueue(lane, f"form:{person}:{dialog}", work.model_dump_json())
    return lane


async def test_killed_anywhere_it_is_one_card_and_one_request(redis: Redis) -> None:
    async def play(edges: Edges) -> None:
        await redis.flushall()
        lab = Lab(redis)
        lab.wall.edge = lab.lanes.edge = edges
        card = await hand_in(lab)
        await lab.work()
        assert len(lab.wall.cards("DU1")) == 1
        await lab.presses(lab.wall.cards("DU1")[0], "confirm")
        await lab.work()
        assert len(await lab.engine.list_own_requests("U1")) == 1
        approval = await lab.approvals.load_approval(card)
        assert approval and approval.waiters == () and approval.caller == "U1"

    assert await every_edge(play) > 0


async def test_what_will_not_do_any_more_is_told_and_starts_nothing(redis: Redis) -> None:
    lab = Lab(redis)
    await hand_in(lab, end_date="2020-01-01")
    await lab.work()
    assert not lab.wall.cards("DU1") and len(lab.wall.texts("DU1")) == 1
    assert "什么都没有发起" in lab.wall.texts("DU1")[0]
    assert "form.refused" in await lab.kinds()


async def test_a_process_that_is_gone_is_told(redis: Redis) -> None:
    lab = Lab(redis)
    await hand_in(lab, process="sabbatical")
    await lab.work()
    assert "什么都没有发起" in lab.wall.texts("DU1")[0] and not lab.wall.cards("DU1")


async def test_who_has_left_gets_no_card(redis: Redis) -> None:
    lab = Lab(redis)
    lab.staff.leaves("U1")
    await hand_in(lab)
    await lab.work()
    assert not lab.wall.said


async def test_what_fails_every_time_is_told_with_a_reference(redis: Redis) -> None:
    lab = Lab(redis)
    lane = forms(lab).derive_card_id("U1", "V1")
    work = FormSubmitted(dialog="V1", person="U1", process="leave", values=FORM)

    async def fail(*_: object) -> None:
        raise RuntimeError("broken")

    object.__setattr__(lab.engine, "fill_form", fail)
    await lab.lanes.enqueue(lane, "form:U1:V1", work.model_dump_json())
    await lab.work()
    assert not lab.wall.cards("DU1") and "form:U1:V1" in lab.wall.texts("DU1")[0]


async def test_the_same_dialog_of_two_people_is_two_cards(redis: Redis) -> None:
    lab = Lab(redis)
    assert await hand_in(lab, "U1") != await hand_in(lab, "U2")


async def test_a_check_that_takes_too_long_holds_no_acknowledgement_up(redis: Redis) -> None:
    lab = Lab(redis)
    never = asyncio.Event()

    async def wait(*_: object) -> None:
        await never.wait()

    checked = forms(lab)
    wrong = FormSubmission(id="V1", person="U1", process="leave", values={**FORM, "end_date": "2020-01-01"})
    assert (await checked.check_form(wrong)).problems, "in time it is refused in the dialog"
    object.__setattr__(lab.staff, "list_people", wait)
    before = asyncio.get_running_loop().time()
    assert not (await checked.check_form(wrong)).problems
    assert asyncio.get_running_loop().time() - before < request_forms.CHECK_S + 1
