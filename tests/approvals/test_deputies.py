"""Standing in: the card comes to who is there, and what a press is worth is decided when it is made."""

from __future__ import annotations

from datetime import timedelta

import pytest
from redis.asyncio import Redis

from bot.core.records import EffectState
from tests.harness.lab import TODAY, Lab
from tests.tools.office import LONG, SICK
from tools.workflow.engine.state import Delegation, Status

DAY = timedelta(days=1)


async def asked(redis: Redis) -> Lab:
    """A request of Zhang San that waits for Li Si."""
    lab = Lab(redis)
    await lab.engine.start_request("leave", SICK, "U1", "start", lab.today())
    return lab


async def away(lab: Lab, deputy: str = "U5", start: timedelta = -DAY, end: timedelta = 3 * DAY) -> None:
    """Li Si is away."""
    delegation = Delegation(id="D1", person="U2", deputy=deputy, start=TODAY + start, end=TODAY + end)
    await lab.engine.add_delegation(delegation, lab.today())


async def ticked(lab: Lab, days: timedelta) -> None:
    lab.days += days
    await lab.engine.run_due_jobs(lab.today())
    await lab.work()


async def test_the_card_comes_to_the_assignee_and_to_who_stands_in_now(redis: Redis) -> None:
    lab = await asked(redis)
    await away(lab)
    await lab.work()
    [card], [copy] = lab.wall.cards("DU2"), lab.wall.cards("DU5")
    assert [one.choice for one in copy.buttons] == [one.choice for one in card.buttons]
    assert "is away" in copy.footer[0] and "Li Si" in copy.footer[0]
    assert "不在" not in "".join(map(str, card.footer))


async def test_a_decision_of_who_stands_in_is_told_as_theirs_for_the_other(redis: Redis) -> None:
    lab = await asked(redis)
    await away(lab)
    await lab.work()
    await lab.presses(lab.wall.cards("DU5")[0], "approve", person="U5")
    await lab.work()
    assert (await lab.engine.get_request("L-0001")).status is Status.APPROVED
    assert not lab.wall.cards("DU2") and not lab.wall.cards("DU5")
    titles = {one.post.card.title for one in lab.wall.said if one.post.card and one.place.channel == "DU2"}
    assert "李文光（代李四）已同意" in "".join(titles)
    noted = [one async for one in lab.journal.stream_records(kinds=["effect.done"])]
    assert [(one.person, one.more["raised_to"]) for one in noted] == [("U5", "U2")], "raised to A, decided by B"


async def test_after_the_time_away_a_copy_is_refused_with_words(redis: Redis) -> None:
    lab = await asked(redis)
    await away(lab)
    await lab.work()
    copy = lab.wall.cards("DU5")[0]
    lab.days = 4 * DAY
    await lab.presses(copy, "approve", person="U5")
    await lab.work()
    assert "The time in which you stood in is over" in lab.wall.whispers[-1][1] and "Li Si" in lab.wall.whispers[-1][1]
    assert (await lab.engine.get_request("L-0001")).status is Status.WAITING
    await lab.presses(lab.wall.cards("DU2")[0], "approve", person="U2", id="own")
    await lab.work()
    assert (await lab.engine.get_request("L-0001")).status is Status.APPROVED, "the control"


async def test_a_deputy_never_decides_their_own_request(redis: Redis) -> None:
    lab = await asked(redis)
    await away(lab, deputy="U1")
    await lab.work()
    assert not lab.wall.cards("DU1"), "no card for the author, whoever they stand in for"
    await lab.presses(lab.wall.cards("DU2")[0], "approve", person="U1")
    await lab.work()
    assert "您自己的申请" in lab.wall.whispers[-1][1]
    assert (await lab.engine.get_request("L-0001")).status is Status.WAITING


async def test_what_waits_when_the_time_away_begins_gets_a_copy_and_the_assignee_no_second_one(redis: Redis) -> None:
    lab = await asked(redis)
    await lab.work()
    await away(lab, start=DAY)
    assert not lab.wall.cards("DU5")
    await ticked(lab, 2 * DAY)
    assert len(lab.wall.cards("DU5")) == len(lab.wall.cards("DU2")) == 1
    cards = [one for one in lab.wall.said if one.place.channel == "DU2" and one.post.card]
    assert len(cards) == 1, "one notification a task"
    assert (await lab.approval()).version == 1


async def test_a_cascade_ends_at_the_first_deputy(redis: Redis) -> None:
    lab = await asked(redis)
    await away(lab)
    further = Delegation(id="D2", person="U5", deputy="U4", start=TODAY - DAY, end=TODAY + DAY)
    await lab.engine.add_delegation(further, lab.today())
    await lab.work()
    assert not lab.wall.cards("DU4")
    await lab.presses(lab.wall.cards("DU2")[0], "approve", person="U4")
    await lab.work()
    assert "This is for Li Si to decide" in lab.wall.whispers[-1][1]


async def test_what_the_author_confirms_is_not_confirmed_for_them(redis: Redis) -> None:
    """A revision is the author's own, also while somebody stands in for them."""
    lab = await asked(redis)
    await lab.work()
    form = {"opinion": "no"}
    await lab.presses(lab.wall.cards("DU2")[0], "reject", person="U2", form=form)
    standing = Delegation(id="D3", person="U1", deputy="U5", start=TODAY - DAY, end=TODAY + DAY)
    await lab.engine.add_delegation(standing, lab.today())
    await lab.work()
    assert not lab.wall.cards("DU5")
    await lab.presses(lab.wall.cards("DU1")[0], "withdraw", person="U5")
    await lab.work()
    assert (await lab.engine.get_request("L-0001")).status is Status.REVISE and lab.wall.whispers[-1][0] == "U5"


@pytest.mark.parametrize("person", ["U2", "U5"])
async def test_two_press_one_decides_and_the_other_is_told(redis: Redis, person: str) -> None:
    lab = await asked(redis)
    await away(lab)
    await lab.work()
    other = {"U2": "U5", "U5": "U2"}[person]
    for one in (person, other):
        await lab.presses(lab.wall.cards("DU2")[0], "approve", person=one, id=one)
    await lab.work()
    assert [one for one, _ in lab.wall.whispers] == [other]
    assert (await lab.approval()).decided_by == person and (await lab.approval()).effect is EffectState.DONE
    assert len((await lab.engine.get_request("L-0001")).opinions) == 1


async def test_who_has_left_is_stood_in_for(redis: Redis) -> None:
    lab = await asked(redis)
    await away(lab)
    lab.staff.leaves("U2")
    await lab.work()
    assert len(lab.wall.cards("DU5")) == 1
    assert not [text for text in lab.wall.texts() if "送不到" in text]


async def test_who_has_a_say_of_their_own_stands_in_for_nobody_else_in_it(redis: Redis) -> None:
    """Wang Wu is the second level: his decision for Li Si would be refused, and the card used up."""
    lab = Lab(redis)
    await away(lab, deputy="U3")
    await lab.engine.start_request("leave", LONG, "U1", "start", lab.today())
    await lab.work()
    [card] = lab.wall.cards("DU2")
    assert not lab.wall.cards("DU3") and "王五" not in str([fact for fact in card.facts if "也可以" in str(fact[1])])
    assert (await lab.engine.list_todo_tasks("U3", lab.today())).tasks == ()
    await lab.presses(card, "approve", person="U3")
    await lab.work()
    assert lab.wall.whispers[-1][0] == "U3" and lab.wall.cards("DU2"), "told privately, and the card stays"
    await lab.presses(card, "approve", person="U2", id="own")
    await lab.work()
    assert len(lab.wall.cards("DU3")) == 1, "then it is his turn"


async def test_the_author_reads_who_decided_for_whom(redis: Redis) -> None:
    lab = await asked(redis)
    await away(lab)
    await lab.work()
    await lab.presses(lab.wall.cards("DU5")[0], "approve", person="U5")
    await lab.work()
    assert "李文光（代李四）同意" in lab.wall.texts("DU1")[-1]
