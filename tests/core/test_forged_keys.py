"""Dialogs that nobody was shown: a view that somebody has put together is refused in words, and is no error."""

from itertools import product

import pytest
from redis.asyncio import Redis

from bot.approvals.dialogs import check_dialog
from bot.chat.messages import Click
from bot.core.records import ApprovalState
from tests.harness.memory_bot import Bot
from tests.harness.memory_platform import DM
from tests.harness.presses import LEAVE
from tests.harness.scripted_model import Scripted
from tests.stories.script import DONE, mail

FORMS: tuple[dict[str, str], ...] = (
    {}, {"subject": "x"}, {"nothing of the kind": "x"}, {"body": "y" * 60_000}, {"recipient": "eve@example.com"},
    {"by": "U3", "requester": "U3", "person": "U3"}, {"opinion": "\ud800".encode("utf-16", "surrogatepass").hex()},
)  # fmt: skip
CHOICES = (
    *("send", "confirm", "edit", "cancel", "approve", "reject", "again", "show", "redo", "retry", "happened", "", "x"),
)


async def put_card(redis: Redis, *script: Scripted) -> tuple[Bot, Click]:
    """A card, and a press on it that nothing is said of yet."""
    bot = Bot(redis, [*script, DONE, DONE])
    await bot.send("请办理")
    shown = bot.chat.cards()[0].buttons[0]
    about = {"approval": shown.approval, "version": shown.version, "choice": shown.choice}
    return bot, Click(id="forged", person="U1", place=DM, **about)


@pytest.mark.parametrize("card", ["mail", "leave"])
async def test_a_forged_dialog_is_never_an_error(redis: Redis, card: str) -> None:
    bot, click = await put_card(redis, mail() if card == "mail" else LEAVE)
    for number, given in enumerate(product(CHOICES, FORMS, ("U1", "U2", "U404"), (1, 2))):
        changed = dict(zip(("choice", "form", "person", "version"), given, strict=True))
        problems = await check_dialog(bot.ingress.cards, click.model_copy(update={"id": f"v{number}", **changed}))
        assert all(isinstance(sentence, str) and sentence for sentence in problems.values())
    unknown = click.model_copy(update={"approval": "A00000000000000", "form": {}})
    assert not await check_dialog(bot.ingress.cards, unknown)


@pytest.mark.parametrize("form", FORMS[:3])
async def test_a_dialog_of_a_button_that_has_none_is_refused_in_words(redis: Redis, form: dict[str, str]) -> None:
    bot, click = await put_card(redis, mail())
    assert await check_dialog(bot.ingress.cards, click.model_copy(update={"choice": "send", "form": form})) == {}
    await bot.press(bot.chat.cards()[0], "send", form=form)
    assert bot.mailer.mails == [] and (await bot.load_approval()).state is ApprovalState.OPEN
    assert "窗口" in bot.chat.ephemerals[-1][1] and "approval.refused" in await bot.list_journal_kinds()
    await bot.press(bot.chat.cards()[0], "send", id="plain")
    assert len(bot.mailer.mails) == 1, "the control: the button itself works"


async def test_who_may_not_press_has_nothing_looked_up_for_them(redis: Redis) -> None:
    """A plan costs look-ups: somebody else's forged dialog does not begin one."""
    bot, click = await put_card(redis, mail())
    other = click.model_copy(update={"choice": "edit", "form": {"subject": "", "body": ""}, "person": "U2"})
    assert await check_dialog(bot.ingress.cards, other) == {}
    mine = other.model_copy(update={"person": "U1"})
    assert await check_dialog(bot.ingress.cards, mine), "the control: one's own is looked at"
