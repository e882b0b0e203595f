"""Who a name means, attacked: colleagues who call themselves somebody else's address, name or the beginning of one."""

from tests.harness.corpus import corpus
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


@corpus("impostor", [ADDRESS, FULL_WIDTH])
async def test_an_address_means_its_owner_wherever_a_person_is_named(impostor: Person) -> None:
    there, address = attacked(impostor), "lisi@example.com"
    await there.do(ZHANG, "send_email", "send", to=address, **MAIL)
    assert [mail.to for mail in there.mailer.mails] == [LI.id]
    leave = await there.plan(ZHANG, "start_process", process="leave", form={**SICK, "approver": address})
    assert leave.args["form"]["approver"] == LI.id
    days = {"first_day": "2026-11-23", "last_day": "2026-12-22"}
    assert (await there.plan(ZHANG, "set_absence", deputy=address, **days)).args["deputy"] == LI.id
    await there.start({**SICK, "approver": WANG.id})
    assert (await there.plan(ZHANG, "cc_request", request_id="L-0001", people=[address])).args["people"] == [LI.id]
    sign = {"task_id": "L-0001-1", "where": "before", "mode": "all"}
    assert (await there.plan(WANG, "add_sign", people=[address], **sign)).args["people"] == [LI.id]
    outcome = await there.do(WANG, "transfer_task", task_id="L-0001-1", person="LiSi@Example.com")
    assert outcome.data["waits_for"] == ["Li Si"]
    (task,) = (await there.engine.get_request("L-0001")).open_tasks
    assert task.assignee == LI.id


@corpus(
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
