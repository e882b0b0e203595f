"""Persons as cards name them: what is stored with a card, and who may be mistaken."""

from tests.harness.corpus import corpus
from tests.tools.office import LI, PEOPLE, SICK, WANG, ZHANG, ZHAO, office
from tools.people.identities import identify_people
from tools.spec import CardField, Identities, Person, Proposal, TextRef


def people_of(plan: Proposal) -> dict[str, list[str]]:
    """Label → ids of the persons named there."""
    named = [fact for fact in plan.fields if isinstance(fact.value, Identities)]
    labels = [fact.label if isinstance(fact.label, str) else fact.label["en"] for fact in named]
    return {label: [one.id for one in fact.value.people] for label, fact in zip(labels, named, strict=True)}  # type: ignore[union-attr]


async def test_every_person_that_a_card_names_can_be_checked() -> None:
    """Beside those that the golden files show."""
    there = office()
    await there.start({**SICK, "end_date": "2026-11-27"})
    card = await there.card("L-0001-1")
    assert people_of(card) == {"requester": [ZHANG.id], "Approver": [LI.id], "Second approver": [WANG.id]}
    await there.do(LI, "set_absence", first_day="2026-11-20", last_day="2026-11-27", deputy=ZHAO.id)
    assert people_of(await there.plan(LI, "end_absence"))["deputy"] == [ZHAO.id]
    await there.decide(ZHAO, "L-0001-1", "approve", {"opinion": "好"})
    assert people_of(await there.card("L-0001-2"))["opinion"] == [ZHAO.id, LI.id], "who stood in, and for whom"
    form = {"amount": "2000", "category": "transport", "reason": "去客户现场", "approver": LI.id}
    plan = await there.plan(ZHANG, "start_process", process="expense", form=form)
    assert [ZHAO.id] in people_of(plan).values(), "everybody of finance"


@corpus(
    ("other", "shared", "misleading"),
    [
        ({"name": "Bob"}, False, False),
        ({"name": "李四"}, True, False),
        ({"name": "Bob", "names": ("Lі Sі",)}, True, False),
        ({"name": "Bob", "names": ("L\u200bi Si",)}, True, True),
        ({"name": "lisi@example.com"}, True, True),
        ({"name": "Bob", "names": ("U02LISI00",)}, False, True),
        ({"name": "李四", "active": False}, True, False),
    ],
)
async def test_who_may_be_mistaken_for_somebody_else_is_marked(
    other: dict[str, object], shared: bool, misleading: bool
) -> None:
    there = office()
    there.people.known = [*PEOPLE, Person.model_validate({"id": "U9", **other})]
    [one] = (await identify_people(there.people, ["U9"])).people
    assert (one.is_name_shared, one.is_name_misleading) == (shared, misleading)
    [li] = (await identify_people(there.people, [LI.id])).people
    taken = shared and other.get("active", True) and "@" not in str(other["name"])
    assert li.is_name_shared == taken, "nobody is mistaken for who has left, nor the owner of an address for who poses"


def test_what_was_shown_is_stored_and_what_an_older_version_stored_is_read() -> None:
    value = Identities(people=(), text=TextRef(key="fact.agreement", params={"names": "李四"}))
    for stored in ("李四", {"zh": "李四", "en": "Li Si"}, TextRef(key="fact.days", params={"days": 1}), value):
        fact = CardField(label="to", value=stored)
        assert CardField.model_validate_json(fact.model_dump_json()) == fact
    assert CardField.model_validate_json('{"label": "to", "value": "李四"}').value == "李四"
