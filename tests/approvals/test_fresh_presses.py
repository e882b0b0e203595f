"""A press is judged by people's state at the press, not at the arrival of the card."""

from collections.abc import Iterable
from datetime import timedelta

import pytest
from redis.asyncio import Redis

from bot.core.records import ApprovalState, EffectState
from bot.storage.approvals import derive_task_card_id
from tests.harness.memory_bot import Bot
from tests.harness.memory_platform import DM, Killed
from tests.harness.presses import LEAVE, list_refusals, opened, started
from tests.stories.script import DONE, calls, mail
from tests.tools.company import LI, WANG, ZHANG
from tools.workflow.engine.state import Status


def lose_membership(bot: Bot, person: str) -> None:
    """Remove a person's membership just now: nobody has noticed yet."""
    (now,) = [one for one in bot.directory.known if one.id == person]
    bot.directory.fresh[person] = now.model_copy(update={"active": False})


@pytest.mark.parametrize("is_looked_up", [True, False])
async def test_who_was_made_a_guest_a_moment_ago_presses_in_vain(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, is_looked_up: bool
) -> None:
    """With its negative control: without the fresh look they would have decided."""
    bot = await started(redis)
    lose_membership(bot, LI.id)

    async def remembered(people: object) -> None: ...

    if not is_looked_up:
        monkeypatch.setattr(bot.directory, "refresh_people", remembered)
    await bot.press(bot.chat.cards("DU2")[0], "approve", LI.id)
    status = (await bot.engine.get_request("L-0001")).status
    if not is_looked_up:
        assert status is Status.APPROVED
        return
    assert status is Status.WAITING
    ((person, words),) = bot.chat.ephemerals
    assert person == LI.id and words
    assert await list_refusals(bot) == ["stranger"]


async def test_nor_do_they_confirm_what_they_asked_for(redis: Redis) -> None:
    bot = await opened(Bot(redis, [LEAVE, DONE]))
    lose_membership(bot, ZHANG.id)
    await bot.press(bot.chat.cards()[0], "confirm")
    assert await bot.engine.list_own_requests(ZHANG.id) == () and await list_refusals(bot) == ["stranger"]


async def test_while_the_platform_is_away_a_press_waits(redis: Redis) -> None:
    bot = await started(redis)
    bot.directory.is_unreachable = True
    await bot.put_press(bot.chat.cards("DU2")[0], "approve", LI.id)
    with pytest.raises(AssertionError, match="always something left to do"):
        await bot.work()
    assert (await bot.engine.get_request("L-0001")).status is Status.WAITING and not bot.chat.ephemerals
    bot.directory.is_unreachable = False
    await bot.work()
    assert (await bot.engine.get_request("L-0001")).status is Status.APPROVED


async def test_time_that_runs_out_before_the_decision_decides_nothing(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = await started(redis)
    look, looks = bot.directory.refresh_people, list[object]()

    async def dawdle(people: Iterable[str]) -> None:
        looks.append(people)
        bot.now_offset = timedelta(days=8 * (len(looks) > 1))  # the first look is the press's, the second the rules'
        await look(people)

    monkeypatch.setattr(bot.directory, "refresh_people", dawdle)
    await bot.press(bot.chat.cards("DU2")[0], "approve", LI.id)
    card = await bot.load_approval(derive_task_card_id(bot.keys, "L-0001-1"))
    assert len(looks) > 1 and card is not None and card.state is ApprovalState.OPEN and not card.press_id
    assert (await bot.engine.get_request("L-0001")).status is Status.WAITING
    assert await list_refusals(bot) == ["expired"] and len(bot.chat.ephemerals) == 1


async def test_whom_the_rules_no_longer_name_is_told_who_is_and_the_card_stays(redis: Redis) -> None:
    bot = await started(redis)
    bot.directory.fresh[ZHANG.id] = ZHANG.model_copy(update={"manager": WANG.id})
    for choice, form in (("approve", None), ("reject", {"opinion": "不行"})):
        await bot.press(bot.chat.cards("DU2")[0], choice, LI.id, form=form)
    request = await bot.engine.get_request("L-0001")
    assert (request.status, request.waits_for) == (Status.WAITING, (LI.id,))
    words = "L-0001：按现在的规则，这一步由王五审批，不再由李四审批。可以把它转交给王五"
    assert bot.chat.ephemerals == [(LI.id, words)] * 2
    assert await list_refusals(bot) == ["not_named", "not_named"], "an administrator reads it in the journal"
    await bot.press(bot.chat.cards("DU2")[0], "transfer", LI.id, form={"person": WANG.id, "opinion": ""})
    assert (await bot.engine.get_request("L-0001")).waits_for == (WANG.id,)
    await bot.press(bot.chat.cards("DU3")[0], "approve", WANG.id)
    assert (await bot.engine.get_request("L-0001")).status is Status.APPROVED


@pytest.mark.parametrize(
    ("choice", "state", "refused"),
    [("confirm", ApprovalState.OPEN, ["not_named"]), ("cancel", ApprovalState.CANCELLED, [])],
)
async def test_whom_the_rules_no_longer_name_can_still_cancel_what_they_have_proposed(
    redis: Redis, choice: str, state: ApprovalState, refused: list[str]
) -> None:
    bot = await started(redis)
    bot.model.script += [calls(("transfer_task", {"task_id": "L-0001-1", "person": "U5", "opinion": "x"})), DONE]
    await bot.send("转交给李文光", person=LI.id, id="Ev2", place=DM.model_copy(update={"channel": "DU2"}))
    card = next(one for one in bot.chat.cards("DU2") if "cancel" in {button.choice for button in one.buttons})
    bot.directory.fresh[ZHANG.id] = ZHANG.model_copy(update={"manager": WANG.id})
    await bot.press(card, choice, LI.id)
    approval = await bot.load_approval(card)
    assert approval is not None and approval.state is state and await list_refusals(bot) == refused
    assert (await bot.engine.get_request("L-0001")).waits_for == (LI.id,)


async def test_what_is_wrong_besides_is_told_as_before(redis: Redis) -> None:
    """The look-up judges authority alone: the effect reports refusals of other kinds."""
    bot = await started(redis)
    await bot.press(bot.chat.cards("DU2")[0], "transfer", LI.id, form={"person": "U0NOBODY", "opinion": ""})
    assert not bot.chat.ephemerals and await list_refusals(bot) == []


@pytest.mark.parametrize("what", ["request", "mail"])
async def test_nothing_runs_in_the_name_of_who_lost_their_membership_since(redis: Redis, what: str) -> None:
    """The process dies between the decision and the effect; the next process checks again who pressed. A begun effect
    may have happened, as far as anybody can know; one that was not begun has certainly not."""
    bot = await opened(Bot(redis, [LEAVE if what == "request" else mail(), DONE, DONE]))
    look = bot.directory.refresh_people

    async def die_at_the_look_after_the_decision(people: Iterable[str]) -> None:
        if (await bot.load_approval()).state is ApprovalState.DECIDED:
            bot.directory.refresh_people = look  # type: ignore[method-assign]
            lose_membership(bot, ZHANG.id)
            raise Killed
        await look(people)

    bot.directory.refresh_people = die_at_the_look_after_the_decision  # type: ignore[method-assign]
    await bot.press(bot.chat.cards()[0], "confirm" if what == "request" else "send")
    approval = await bot.load_approval()
    assert approval.state is ApprovalState.DECIDED
    assert approval.effect is (EffectState.UNKNOWN if what == "request" else EffectState.FAILED)
    assert await bot.engine.list_own_requests(ZHANG.id) == () and not bot.mailer.mails
