"""Which dialogs open, and what is said of what was filled in: each condition with the dialog that only it stops."""

from __future__ import annotations

from collections import ChainMap
from datetime import timedelta
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.chat.messages import Click
from bot.core.records import Approval
from bot.queue.writes import apply_writes
from tests.harness.lab import DM, TODAY, Lab
from tests.harness.presses import opened
from tests.stories.script import DONE, mail
from tests.tools.office import SICK
from tools.spec import CardChoice
from tools.workflow.engine.state import Delegation

EDIT = {"subject": "项目进度", "body": "李四你好，改过了。"}


async def ask(redis: Redis) -> tuple[Lab, Click]:
    """Li Si's card, and a press on *Transfer*."""
    lab = Lab(redis)
    await lab.engine.start_request("leave", SICK, "U1", "start", lab.today())
    await lab.work()
    return lab, press(await lab.approval(), "transfer", "U2")


async def propose(redis: Redis) -> tuple[Lab, Click]:
    """Zhang San's mail, and a press on *Edit*."""
    lab = await opened(Lab(redis, [mail(), DONE]))
    return lab, press(await lab.approval(), "edit", "U1")


def press(approval: Approval, choice: str, person: str) -> Click:
    return Click(id="p", approval=approval.id, version=approval.version, choice=choice, person=person, place=DM)


async def stand_in(lab: Lab, person: str) -> None:
    day = timedelta(days=1)
    away = Delegation(id="D1", person="U2", deputy=person, start=TODAY - day, end=TODAY + day)
    await lab.engine.add_delegation(away, lab.today())


def take_away(lab: Lab, tool: str) -> None:
    assert isinstance(lab.dialogs.tools, ChainMap)
    del lab.dialogs.tools[tool]


@pytest.mark.parametrize(
    ("changes", "opens"),
    [
        ({}, True),
        ({"choice": "reject"}, True),
        ({"choice": "approve"}, False),
        ({"choice": "show"}, False),
        ({"approval": "A00x"}, False),
        ({"person": "U3"}, False),
        ({"person": "U5"}, True),
        ({"person": "U9"}, False),
        ({"version": 0}, False),
    ],
)
async def test_a_dialog_opens_for_a_button_that_has_one_and_for_who_may_press_it(
    redis: Redis, changes: dict[str, Any], opens: bool
) -> None:
    lab, click = await ask(redis)
    await stand_in(lab, "U5")
    dialog = await lab.dialogs.build_dialog(click.model_copy(update=changes))
    assert (dialog is not None) is opens
    if dialog is not None:
        assert (dialog.approval, dialog.choice) == (click.approval, changes.get("choice", "transfer"))


async def test_without_its_tool_nothing_is_edited_and_all_else_is_asked(redis: Redis) -> None:
    lab, edit = await propose(redis)
    assert await lab.dialogs.build_dialog(edit) is not None
    take_away(lab, "send_email")
    assert await lab.dialogs.build_dialog(edit) is None
    assert await lab.dialogs.check_dialog(edit.with_form({"subject": "", "body": ""})) == {}
    await redis.flushall()
    lab, transfer = await ask(redis)
    take_away(lab, "decide_task")
    assert await lab.dialogs.build_dialog(transfer) is not None


@pytest.mark.parametrize(
    ("form", "wrong"),
    [
        (EDIT, set()),
        ({}, set()),
        (EDIT | {"body": "李四你好，[Your name]"}, {"body"}),
        (EDIT | {"subject": ""}, {"subject"}),
        (EDIT | {"to": "nobody", "first_line": "x"}, set()),
    ],
)
async def test_an_edit_is_judged_as_it_would_be_carried_out(
    redis: Redis, form: dict[str, str], wrong: set[str]
) -> None:
    lab, click = await propose(redis)
    before = await lab.approval()
    told = await lab.dialogs.check_dialog(click.with_form(form))
    assert set(told) == wrong and all(told.values())
    assert await lab.approval() == before and not lab.mailer.mails


@pytest.mark.parametrize(
    ("choice", "form", "wrong"),
    [
        ("transfer", {"person": "U3", "opinion": ""}, set()),
        ("transfer", {"person": "nobody", "opinion": ""}, {"person"}),
        ("transfer", {"person": "U1", "opinion": ""}, {"person"}),
        ("reject", {"opinion": "不行"}, set()),
        ("reject", {}, {"opinion"}),
        ("reject", {"opinion": "\u200b"}, {"opinion"}),
        ("approve", {}, set()),
    ],
)
async def test_what_a_decision_adds_is_judged_as_it_would_be_carried_out(
    redis: Redis, choice: str, form: dict[str, str], wrong: set[str]
) -> None:
    lab, click = await ask(redis)
    told = await lab.dialogs.check_dialog(click.model_copy(update={"choice": choice, "form": form}))
    assert set(told) == wrong and all(told.values())
    assert await lab.engine.list_todo_tasks("U2", lab.today())


@pytest.mark.parametrize(
    "changes", [{"approval": "A00x"}, {"person": "U9"}, {"person": "U3"}, {"choice": "show"}, {"version": 0}]
)
async def test_of_a_press_that_is_refused_nothing_is_said_beside_its_fields(
    redis: Redis, changes: dict[str, Any]
) -> None:
    """The click itself is answered with words."""
    lab, click = await ask(redis)
    wrong = click.with_form({"person": "nobody", "opinion": ""})
    assert await lab.dialogs.check_dialog(wrong), "control"
    assert await lab.dialogs.check_dialog(wrong.model_copy(update=changes)) == {}


async def test_a_button_that_asks_nothing_has_no_field_to_say_anything_beside(redis: Redis) -> None:
    """What is wrong with it, the effect tells."""
    lab, click = await ask(redis)
    approval = await lab.approval()
    silent = CardChoice(name="reject", fixed_args={"decision": "reject"})
    plan = approval.proposal.model_copy(update={"choices": (silent,)})
    writes = [lab.approvals.build_save_write(approval.model_copy(update={"proposal": plan}))]
    await apply_writes(redis, lab.keys, lab.keys.get_partition(approval.id), writes)
    assert await lab.dialogs.check_dialog(click.model_copy(update={"choice": "reject", "form": {}})) == {}
    assert await lab.dialogs.build_dialog(click.model_copy(update={"choice": "reject"})) is None
