"""Dialogs that nobody was shown: a view that somebody has put together is refused in words, and is no error."""

from __future__ import annotations

from itertools import product

import pytest
from redis.asyncio import Redis

from bot.chat.messages import Click
from bot.core.records import ApprovalState
from tests.harness.lab import DM, Lab
from tests.stories.script import DONE, calls, mail
from tests.tools.office import SICK

LEAVE = calls(("start_process", {"process": "leave", "form": SICK}))
FORMS: tuple[dict[str, str], ...] = (
    {}, {"subject": "x"}, {"nothing of the kind": "x"}, {"body": "y" * 60_000}, {"recipient": "eve@example.com"},
    {"by": "U3", "requester": "U3", "person": "U3"}, {"opinion": "\ud800".encode("utf-16", "surrogatepass").hex()},
)  # fmt: skip
CHOICES = (
    "send",
    "confirm",
    "edit",
    "cancel",
    "approve",
    "reject",
    "again",
    "show",
    "redo",
    "retry",
    "happened",
    "",
    "x",
)


async def put_card(redis: Redis, *script: object) -> tuple[Lab, Click]:
    """A card, and a press on it that nothing is said of yet."""
    lab = Lab(redis, [*script, DONE, DONE])  # type: ignore[list-item]
    await lab.says("请办理")
    await lab.work()
    button = lab.wall.cards()[0].buttons[0]
    return lab, Click(
        id="forged", approval=button.approval, version=button.version, choice=button.choice, person="U1", place=DM
    )


@pytest.mark.parametrize("card", ["mail", "leave"])
async def test_a_forged_dialog_is_never_an_error(redis: Redis, card: str) -> None:
    lab, click = await put_card(redis, mail() if card == "mail" else LEAVE)
    people, versions = ("U1", "U2", "U404"), (1, 2)
    for number, (choice, form, person, version) in enumerate(product(CHOICES, FORMS, people, versions)):
        forged = click.model_copy(
            update={"id": f"v{number}", "choice": choice, "form": form, "person": person, "version": version}
        )
        problems = await lab.dialogs.check_dialog(forged)
        assert all(isinstance(sentence, str) and sentence for sentence in problems.values())
    assert not await lab.dialogs.check_dialog(click.model_copy(update={"approval": "A00000000000000", "form": {}}))


@pytest.mark.parametrize("form", FORMS[:3])
async def test_a_dialog_of_a_button_that_has_none_is_refused_in_words(redis: Redis, form: dict[str, str]) -> None:
    lab, click = await put_card(redis, mail())
    forged = click.model_copy(update={"choice": "send", "form": form})
    assert await lab.dialogs.check_dialog(forged) == {}
    await lab.presses(lab.wall.cards()[0], "send", form=form)
    await lab.work()
    assert lab.mailer.mails == [] and (await lab.approval()).state is ApprovalState.OPEN
    assert "窗口" in lab.wall.whispers[-1][1] and "approval.refused" in await lab.kinds()


async def test_the_button_itself_works(redis: Redis) -> None:
    """The control."""
    lab, _ = await put_card(redis, mail())
    await lab.presses(lab.wall.cards()[0], "send")
    await lab.work()
    assert len(lab.mailer.mails) == 1


async def test_who_may_not_press_has_nothing_looked_up_for_them(redis: Redis) -> None:
    """A plan costs look-ups: somebody else's forged dialog does not begin one."""
    lab, click = await put_card(redis, mail())
    other = click.model_copy(update={"choice": "edit", "form": {"subject": "", "body": ""}, "person": "U2"})
    assert await lab.dialogs.check_dialog(other) == {}
    mine = other.model_copy(update={"person": "U1"})
    assert await lab.dialogs.check_dialog(mine), "the control: one's own is looked at"
