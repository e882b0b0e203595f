"""A submitted form becomes a card once, whatever dies; and where it does not, its person is told."""

import asyncio

import pytest
from redis.asyncio import Redis

from bot.chat.messages import FormDialog, FormSubmission
from bot.core.work_items import FormSubmitted
from tests.harness.memory_bot import Bot
from tests.harness.presses import everywhere
from tests.stories.script import DONE, calls
from tests.tools.company import SICK

FORM = {name: text for name, text in SICK.items() if name != "approver"}


async def hand_in(bot: Bot, person: str = "U1", dialog: str = "V1", process: str = "leave", **changes: str) -> str:
    """What a submitted dialog puts into a lane; the card's id."""
    lane = bot.ingress.features.forms.derive_card_id(person, dialog)
    work = FormSubmitted(dialog=dialog, person=person, process=process, values={**FORM, **changes})
    await bot.lanes.enqueue(lane, f"form:{person}:{dialog}", work.model_dump_json())
    return lane


async def test_killed_anywhere_it_is_one_card_and_one_request(redis: Redis) -> None:
    async for bot in everywhere(redis, lambda: Bot(redis)):
        card = await hand_in(bot)
        await bot.work()
        assert len(bot.chat.cards("DU1")) == 1
        await bot.press(bot.chat.cards("DU1")[0], "confirm")
        assert len(await bot.engine.list_own_requests("U1")) == 1
        approval = await bot.load_approval(card)
        assert approval and approval.waiters == () and approval.caller == "U1"


async def test_what_will_not_do_any_more_and_a_process_that_is_gone_are_told_and_start_nothing(redis: Redis) -> None:
    bot = Bot(redis)
    await hand_in(bot, end_date="2020-01-01")
    await bot.work()
    assert not bot.chat.cards("DU1") and len(bot.chat.texts("DU1")) == 1
    assert "什么都没有发起" in bot.chat.texts("DU1")[0]
    assert "form.refused" in await bot.list_journal_kinds()
    await hand_in(bot, "U1", "V2", process="sabbatical")
    await bot.work()
    assert "什么都没有发起" in bot.chat.texts("DU1")[1] and not bot.chat.cards("DU1")


async def test_who_has_left_gets_no_card_and_the_dialog_of_two_people_is_two_cards(redis: Redis) -> None:
    bot = Bot(redis)
    bot.directory.change("U1", active=False)
    await hand_in(bot)
    await bot.work()
    assert not bot.chat.posts
    assert await hand_in(bot, "U1") != await hand_in(bot, "U2")


async def test_what_fails_every_time_is_told_with_a_reference(redis: Redis) -> None:
    bot = Bot(redis)
    lane = bot.ingress.features.forms.derive_card_id("U1", "V1")
    work = FormSubmitted(dialog="V1", person="U1", process="leave", values=FORM)

    async def fail(*_: object) -> None:
        raise RuntimeError("broken")

    object.__setattr__(bot.engine, "fill_form", fail)
    await bot.handle_work(lane, "form:U1:V1", work)
    assert not bot.chat.cards("DU1") and "form:U1:V1" in bot.chat.texts("DU1")[0]


async def test_a_check_that_takes_too_long_holds_no_acknowledgement_up(redis: Redis) -> None:
    bot = Bot(redis)
    never = asyncio.Event()

    async def wait(*_: object) -> None:
        await never.wait()

    checked = bot.ingress.features.forms
    wrong = FormSubmission(id="V1", person="U1", process="leave", values={**FORM, "end_date": "2020-01-01"})
    assert (await checked.check_form(wrong)).problems, "in time it is refused in the dialog"
    object.__setattr__(bot.directory, "list_people", wait)
    assert not (await checked.check_form(wrong)).problems


@pytest.mark.parametrize(
    ("offered", "last_day", "chosen"),
    [
        ({"days": "3"}, "", {"start_date": "2026-12-07", "end_date": "2026-12-08"}),
        (
            {"start_date": "2026-12-07", "days": "2.5", "type": "annual"},
            "2026-12-09",
            {"end_date": "2026-12-10", "end_half": "pm"},
        ),
        ({"start_date": "2026-12-07", "end_date": "2026-12-11", "days": "3"}, "2026-12-11", {}),
        ({"start_date": "some day", "days": "3", "type": "annual"}, "", {"start_date": "2026-12-07"}),
    ],
    ids=["without a first day", "a length as the last day", "two lengths", "a field that the form does not have"],
)
async def test_an_offered_form_opens_and_can_be_submitted_whatever_the_model_has_filled_in(
    redis: Redis, offered: dict[str, str], last_day: str, chosen: dict[str, str]
) -> None:
    step = {"form": "leave", "values": {"leave_type": "sick", **offered}}
    bot = Bot(redis, [calls(("offer_steps", {"steps": [step]})), DONE])
    await bot.send("请病假")
    (button,) = [one for post in bot.chat.posts for one in post.post.buttons if one.choice.startswith("form:open")]
    forms = bot.ingress.features.forms
    dialog = await forms.build_form(FormSubmission(id="", person="U1", process="", offer=f"{button.approval}.0"))
    assert isinstance(dialog, FormDialog)
    shown = {one.field.name: one.field.value for one in dialog.inputs}
    assert (shown["leave_type"], shown["end_date"]) == ("sick", last_day)
    typed = {**dict(dialog.values), **shown, "reason": "胃疼", **chosen}
    typed = {**typed, "end_date": typed["end_date"] or "2026-12-08"}
    form = FormSubmission(id="V1", person="U1", process="leave", values=typed)
    assert not (await forms.check_form(form)).problems
    await hand_in(bot, **typed)
    await bot.work()
    assert len(bot.chat.cards("DU1")) == 1
