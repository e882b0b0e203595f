"""Who a name means, attacked: colleagues who call themselves somebody else's address, name or the beginning of one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tools.company import CHOICE
from tests.tools.office import LI, SICK, WANG, ZHANG, ZHAO, Office, office, refused
from tools.spec import Person

MAIL = {"subject": "工资单", "body": "请看附件里的数字。"}
ADDRESS = Person(id="U66", name="lisi@example.com", names=("mallory",), email="mallory@example.com")
FULL_WIDTH = Person(id="U67", name="lisi＠example.com", names=("mallory",), email="mallory@example.com")
SHORT = Person(id="U68", name="Wang", names=("mallory",), email="mallory@example.com")
CYRILLIC = Person(id="U69", name="Lі Sі", names=("mallory",), email="mallory@example.com")
ZERO_WIDTH = Person(id="U70", name="Li\u200b Si", names=("mallory",), email="mallory@example.com")
CAPITAL = Person(id="U71", name="zhangsan", names=("lisi", "Iisi"), email="mallory@example.com")


def attacked(*impostors: Person) -> Office:
    there = office(policy=CHOICE)
    there.people.known += impostors
    return there


@pytest.fixture(params=[ADDRESS, FULL_WIDTH], ids=["address", "full width"])
def there(request: Any) -> Office:
    return attacked(request.param)


async def test_a_mail_to_an_address_goes_to_its_owner(there: Office) -> None:
    plan = await there.plan(ZHANG, "send_email", to="lisi@example.com", **MAIL)
    await there.press(ZHANG, "send_email", plan, "send")
    assert [mail.to for mail in there.mailer.mails] == [LI.id]


async def test_a_task_is_transferred_to_the_owner_of_the_address(there: Office) -> None:
    await there.start({**SICK, "approver": WANG.id})
    outcome = await there.do(WANG, "transfer_task", task_id="L-0001-1", person="LiSi@Example.com")
    assert outcome.data["waits_for"] == ["Li Si"]
    (task,) = (await there.engine.get_request("L-0001")).open_tasks
    assert task.assignee == LI.id


async def test_a_deputyship_goes_to_the_owner_of_the_address(there: Office) -> None:
    plan = await there.plan(
        ZHANG, "set_absence", first_day="2026-11-23", last_day="2026-12-22", deputy="lisi@example.com"
    )
    assert plan.args["deputy"] == LI.id


async def test_the_owner_of_the_address_approves_a_leave(there: Office) -> None:
    plan = await there.plan(ZHANG, "start_process", process="leave", form={**SICK, "approver": "lisi@example.com"})
    assert plan.args["form"]["approver"] == LI.id


async def test_a_copy_goes_to_the_owner_of_the_address(there: Office) -> None:
    await there.start({**SICK, "approver": WANG.id})
    plan = await there.plan(ZHANG, "cc_request", request_id="L-0001", people=["lisi@example.com"])
    assert plan.args["people"] == [LI.id]


async def test_the_owner_of_the_address_signs_as_well(there: Office) -> None:
    await there.start({**SICK, "approver": WANG.id})
    plan = await there.plan(
        WANG, "add_sign", task_id="L-0001-1", people=["lisi@example.com"], where="before", mode="all"
    )
    assert plan.args["people"] == [LI.id]


async def test_an_address_that_nobody_has_is_nobodys_however_people_call_themselves() -> None:
    there = attacked(Person(id="U72", name="boss@example.com", email="mallory@example.com"))
    for text in ("boss@example.com", "boss＠example.com", "boss﹫example.com", "boss@"):
        assert (await refused(there.plan(ZHANG, "send_email", to=text, **MAIL))).code == "unknown_person"


@pytest.mark.parametrize(
    ("impostor", "typed"),
    [
        (SHORT, "Wang"),
        (SHORT, "wang"),
        (CYRILLIC, "Li Si"),
        (CYRILLIC, "Lі Sі"),
        (ZERO_WIDTH, "Li Si"),
        (ZERO_WIDTH, "Li\u200b Si"),
        (CAPITAL, "zhangsan"),
        (CAPITAL, "Iisi"),
    ],
)
async def test_whoever_may_be_mistaken_is_asked_about(impostor: Person, typed: str) -> None:
    there = attacked(impostor)
    error = await refused(there.plan(ZHAO, "send_email", to=typed, **MAIL))
    assert (error.code, error.ask) == ("ambiguous_person", True)
    assert impostor.id in error.text, "what is asked shows everybody who may be meant"
