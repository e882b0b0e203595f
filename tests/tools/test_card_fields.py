"""What cards show of a form, in both languages."""

from bot.core.i18n import render_value, translate_label
from tests.harness.corpus import corpus
from tests.tools.company import SHORT, SICK, filled
from tests.tools.office import People
from tests.tools.workflow.trip import MAIL, TELL, trip, user
from tools.cards.fields import (
    MailDraft,
    build_change_fields,
    build_dialog_fields,
    build_form_card_fields,
    build_mail_draft,
    build_reading_fields,
)
from tools.spec import AttachedFile, CardField, TextRef
from tools.workflow.engine.state import FilledForm
from tools.workflow.process.definition import Process, load_shipped_processes

LEAVE, EXPENSE = load_shipped_processes()
TRIP = trip(user("first", "approver"), TELL, MAIL)
FULL = {"approver": "U2", "kind": "annual", "handover": "U5", "cc": "U5,U3"}


async def shown(process: Process, found: FilledForm, language: str) -> dict[str, str]:
    fields = await build_form_card_fields(People(), process, found)
    return {translate_label(one.label, language): render_value(one.value, language) for one in fields}


async def test_the_balance_is_shown_and_everybody_who_decides_or_is_told_is_on_the_card() -> None:
    found = filled(LEAVE, {**SICK, "leave_type": "annual"})
    chinese, english = await shown(LEAVE, found, "zh"), await shown(LEAVE, found, "en")
    assert chinese["余额"] == "年假：2026 年共 10 天，通过后还剩 8 天"
    assert english["Balance"] == "Annual leave: 8 of 10 days left in 2026 after this request"
    assert "余额" not in await shown(LEAVE, filled(LEAVE, SICK), "zh"), "sick leave takes nothing from it"
    form = trip(user("first", "approver"), user("财务 Finance", "role:finance"), TELL, MAIL)
    facts = await shown(form, filled(form, FULL), "en")
    assert (facts["Approver"], facts["财务 Finance"], facts["Copies"]) == ("Li Si", "Zhao Liu", "Li Wenguang, Wang Wu")
    assert facts["Copies to"] == "Zhao Liu", "who is told beside those that the form itself names"
    form = trip(user("first", "approver"), user("all", "board"))
    assert (await shown(form, filled(form, FULL), "zh"))["会签"] == "王五、赵六、李文光"


@corpus(
    ("said", "amount", "is_same"),
    ("100.00", "100", True),
    ("100", "100.00", True),
    ("10", "1.0", False),
    ("100", "1", False),
    ("1.50", "1.5", True),
)
def test_an_amount_that_a_model_has_read_is_compared_as_a_number(said: str, amount: str, is_same: bool) -> None:
    receipt = AttachedFile(id="F1", name="r.png", reading={"amount": amount, "currency": "CNY"})
    values = {"amount": said, "currency": "CNY", "category": "travel", "reason": "上海", "approver": "U2"}
    found = filled(EXPENSE, values).model_copy(update={"files": (receipt,)})
    [field] = build_reading_fields(EXPENSE.form, found)
    assert isinstance(field.value, TextRef)
    assert (field.value.key == "fact.read_from_picture") == is_same


def test_no_change_is_passed_over_because_two_values_read_the_same() -> None:
    def list_changes(old: str, new: str, *, is_same: bool = False) -> list[str]:
        label = {"zh": "事由", "en": "Reason"}
        before, after = ([CardField(label=label, value=one)] if one else [] for one in (old, new))
        fields = build_change_fields(before, after, render_value, is_same=is_same)
        return [render_value(one.value, "zh") for one in fields]

    assert list_changes("甲", "乙") == ["事由：甲 → 乙"]
    assert list_changes("", "乙") == ["事由：（空） → 乙"] and list_changes("甲", "") == ["事由：甲 → （空）"]
    assert list_changes("a" * 200 + "b", "a" * 200 + "c") == ["事由：有改动，全文见本卡片"]
    assert list_changes("r.png", "r.png") == ["有改动，但看上去一样，例如换了同名的文件"]
    assert list_changes("r.png", "r.png", is_same=True) == ["没有改动，和上一次完全一样"]


async def test_a_mail_is_written_from_the_form_and_what_people_wrote_is_never_a_placeholder() -> None:
    for language, draft in (
        ("zh", MailDraft(("U4",), "年假：李文光", "2 天，抄送 李文光、王五")),
        ("en", MailDraft(("U4",), "Annual leave: Li Wenguang", "2 days, copies to Li Wenguang, Wang Wu")),
    ):
        assert await build_mail_draft(People(), TRIP, filled(TRIP, FULL), "mail", language) == draft
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
