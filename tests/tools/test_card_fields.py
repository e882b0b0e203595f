"""What cards show of a form, in both languages."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from bot.core.i18n import render_value, translate_label
from tests.tools.company import PEOPLE, SHORT, SICK, filled
from tests.tools.workflow.trip import MAIL, TELL, trip, user
from tools.cards.fields import MailDraft, build_dialog_fields, build_form_card_fields, build_mail_draft
from tools.spec import Person
from tools.workflow.engine.state import FilledForm
from tools.workflow.process.definition import Process, load_shipped_processes

LEAVE, _ = load_shipped_processes()
TRIP = trip(user("first", "approver"), TELL, MAIL)
FULL = {"approver": "U2", "kind": "annual", "handover": "U5", "cc": "U5,U3"}


class Known:
    """A directory of the company."""

    async def find_person(self, person: str) -> Person | None:
        return next((p for p in PEOPLE if p.id == person), None)

    async def list_people(self) -> tuple[Person, ...]:
        return PEOPLE

    async def refresh_people(self, people: Iterable[str]) -> None:
        """Nothing is remembered here: it is as fresh as can be."""


async def shown(process: Process, found: FilledForm, language: str) -> dict[str, str]:
    return {
        translate_label(f.label, language): render_value(f.value, language)
        for f in await build_form_card_fields(Known(), process, found)
    }


async def test_the_balance_is_shown_with_the_days_in_both_languages() -> None:
    found = filled(LEAVE, {**SICK, "leave_type": "annual"})
    chinese, english = await shown(LEAVE, found, "zh"), await shown(LEAVE, found, "en")
    assert chinese["余额"] == "年假：2026 年批准后还剩 8 天 / 全年 10 天"
    assert english["Balance"] == "Annual leave: 8 of 10 days left in 2026 after this"
    assert "余额" not in await shown(LEAVE, filled(LEAVE, SICK), "zh"), "sick leave takes nothing from it"


async def test_everybody_who_decides_or_is_told_is_on_the_card() -> None:
    form = trip(user("first", "approver"), user("财务 Finance", "role:finance"), TELL, MAIL)
    facts = await shown(form, filled(form, FULL), "en")
    assert (facts["Approver"], facts["财务 Finance"], facts["Copies"]) == ("Li Si", "Zhao Liu", "Li Wenguang, Wang Wu")
    assert facts["Copies to"] == "Zhao Liu", "who is told beside those that the form itself names"


async def test_a_board_is_named_in_full() -> None:
    form = trip(user("first", "approver"), user("all", "board"))
    assert (await shown(form, filled(form, FULL), "zh"))["会签"] == "王五、赵六、李文光"


@pytest.mark.parametrize(
    ("language", "draft"),
    [
        ("zh", MailDraft(("U4",), "年假：李文光", "2 天，抄送 李文光、王五")),
        ("en", MailDraft(("U4",), "Annual leave: Li Wenguang", "2 days, copies to Li Wenguang, Wang Wu")),
    ],
)
async def test_a_mail_is_written_from_the_form(language: str, draft: MailDraft) -> None:
    assert await build_mail_draft(Known(), TRIP, filled(TRIP, FULL), "mail", language) == draft


async def test_what_people_wrote_is_never_a_placeholder() -> None:
    text = "{days} {0.__class__}"
    assert (await shown(LEAVE, filled(LEAVE, {**SHORT, "reason": text}), "zh"))["请假事由"] == text


def test_the_dialog_asks_for_people_and_numbers_as_such_and_needs_no_more_than_the_form() -> None:
    inputs = {f.name.removeprefix("field_"): f for f in build_dialog_fields(TRIP, {"cc": "U5,U3"})}
    assert {n: inputs[n].kind for n in ("approver", "cc", "travellers", "attachment", "kind", "start_date")} == {
        "approver": "person", "cc": "people", "travellers": "number", "attachment": "file", "kind": "choice",
        "start_date": "date",
    }  # fmt: skip
    assert inputs["cc"].value == "U5,U3"
    assert not inputs["approver"].required, "whether it is needed depends on the rest"
    assert inputs["kind"].required and not inputs["handover"].required
