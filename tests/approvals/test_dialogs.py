"""The dialogs that open, and the messages about their answers: each condition with the dialog that only it stops."""

from collections import ChainMap
from typing import Any

from redis.asyncio import Redis

from bot.approvals.dialogs import build_dialog, check_dialog
from bot.chat.messages import Click
from bot.core.records import Approval
from tests.harness.corpus import corpus
from tests.harness.memory_bot import Bot
from tests.harness.memory_platform import DM
from tests.harness.presses import name_deputies, proposed, requested, rewrite
from tools.spec import CardChoice

EDIT = {"subject": "项目进度", "body": "李四你好，改过了。"}


async def ask(redis: Redis) -> tuple[Bot, Click]:
    """Return Li Si's card, and a press on *Transfer*."""
    bot = await requested(redis)
    return bot, press(await bot.load_approval(), "transfer", "U2")


async def propose(redis: Redis) -> tuple[Bot, Click]:
    """Return Zhang San's mail, and a press on *Edit*."""
    bot = await proposed(redis)
    return bot, press(await bot.load_approval(), "edit", "U1")


def press(approval: Approval, choice: str, person: str) -> Click:
    return Click(id="p", approval=approval.id, version=approval.version, choice=choice, person=person, place=DM)


def take_away(bot: Bot, tool: str) -> None:
    assert isinstance(bot.ingress.cards.tools, ChainMap)
    del bot.ingress.cards.tools[tool]


@corpus(
    ("changes", "opens"),
    ({}, True),
    ({"choice": "reject"}, True),
    ({"choice": "approve"}, False),
    ({"choice": "show"}, False),
    ({"approval": "A00x"}, False),
    ({"person": "U3"}, False),
    ({"person": "U5"}, True),
    ({"person": "U9"}, False),
    ({"version": 0}, False),
)
async def test_who_may_press_gets_the_dialog_of_the_button(redis: Redis, changes: dict[str, Any], opens: bool) -> None:
    bot, click = await ask(redis)
    name_deputies(bot, "U5")
    dialog = await build_dialog(bot.ingress.cards, click.model_copy(update=changes))
    assert (dialog is not None) is opens
    if dialog is not None:
        assert (dialog.approval, dialog.choice) == (click.approval, changes.get("choice", "transfer"))


async def test_without_its_tool_nothing_is_edited_and_all_else_is_asked(redis: Redis) -> None:
    bot, edit = await propose(redis)
    assert await build_dialog(bot.ingress.cards, edit) is not None
    take_away(bot, "send_email")
    assert await build_dialog(bot.ingress.cards, edit) is None
    assert await check_dialog(bot.ingress.cards, edit.with_form({"subject": "", "body": ""})) == {}
    await redis.flushall()
    bot, transfer = await ask(redis)
    take_away(bot, "decide_task")
    assert await build_dialog(bot.ingress.cards, transfer) is not None


@corpus(
    ("form", "wrong"),
    (EDIT, set()),
    ({}, set()),
    (EDIT | {"body": "李四你好，[Your name]"}, {"body"}),
    (EDIT | {"subject": ""}, {"subject"}),
    (EDIT | {"to": "nobody", "first_line": "x"}, set()),
)
async def test_an_edit_is_judged_as_it_would_be_done(redis: Redis, form: dict[str, str], wrong: set[str]) -> None:
    bot, click = await propose(redis)
    before = await bot.load_approval()
    told = await check_dialog(bot.ingress.cards, click.with_form(form))
    assert set(told) == wrong and all(told.values())
    assert await bot.load_approval() == before and not bot.mailer.mails


@corpus(
    ("choice", "form", "wrong"),
    ("transfer", {"person": "U3", "opinion": ""}, set()),
    ("transfer", {"person": "nobody", "opinion": ""}, {"person"}),
    ("transfer", {"person": "U1", "opinion": ""}, {"person"}),
    ("reject", {"opinion": "不行"}, set()),
    ("reject", {}, {"opinion"}),
    ("reject", {"opinion": "\u200b"}, {"opinion"}),
    ("approve", {}, set()),
)
async def test_what_a_decision_adds_is_judged_as_well(
    redis: Redis, choice: str, form: dict[str, str], wrong: set[str]
) -> None:
    bot, click = await ask(redis)
    told = await check_dialog(bot.ingress.cards, click.model_copy(update={"choice": choice, "form": form}))
    assert set(told) == wrong and all(told.values())
    assert await bot.engine.list_todo_tasks("U2", bot.today())


@corpus("changes", {"approval": "A00x"}, {"person": "U9"}, {"person": "U3"}, {"choice": "show"}, {"version": 0})
async def test_a_press_that_is_refused_says_nothing_beside_its_fields(redis: Redis, changes: dict[str, Any]) -> None:
    """The click itself gets an answer in words."""
    bot, click = await ask(redis)
    wrong = click.with_form({"person": "nobody", "opinion": ""})
    assert await check_dialog(bot.ingress.cards, wrong), "control"
    assert await check_dialog(bot.ingress.cards, wrong.model_copy(update=changes)) == {}


async def test_a_button_that_asks_nothing_has_no_field_to_say_anything_beside(redis: Redis) -> None:
    """The effect reports errors of such a press."""
    bot, click = await ask(redis)
    silent = CardChoice(name="reject", fixed_args={"decision": "reject"})
    await rewrite(bot, proposal=(await bot.load_approval()).proposal.model_copy(update={"choices": (silent,)}))
    reject = click.model_copy(update={"choice": "reject"})
    assert await check_dialog(bot.ingress.cards, reject.with_form({})) == {}
    assert await build_dialog(bot.ingress.cards, reject) is None
