"""Who approves is policy, not choice: who is accepted, who is refused and with what words, and what is flagged."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.i18n import render_value
from tests.harness.memory_store import MemoryStore
from tests.tools.company import CHOICE, LI, LIN, PEOPLE, SHORT, SICK, WANG, ZHANG, ZHAO, filled, refused
from tests.tools.office import decide, office
from tests.tools.office import refused as refusal
from tests.tools.workflow.trip import FORM, trip, user
from tools.cards.fields import build_form_card_fields
from tools.people.names import choose_name
from tools.spec import Person, ToolError
from tools.workflow.bpmn.graph import InvalidDefinitionError
from tools.workflow.engine.state import Decision, FilledForm
from tools.workflow.process.definition import load_shipped_processes, parse_form
from tools.workflow.process.policy import parse_policy

LEAVE, EXPENSE = load_shipped_processes()
FREE: dict[str, Any] = {"policy": CHOICE}
DIRECTOR = Person(id="U9", name="钱总", roles=frozenset({"director"}))


def test_only_whom_the_table_names_is_accepted_and_the_next_selector_counts_only_where_it_names_nobody() -> None:
    assert filled(LEAVE, SICK).exceptions == {}, "the manager"
    for friend in (LIN, ZHAO, WANG):
        error = refused(LEAVE, {**SICK, "approver": friend.id})
        assert (error.code, error.field, error.ask) == ("other_approver", "approver", True)
        assert "“李四” / “Li Si” (lisi@example.com, manager “王五” / “Wang Wu”) = U2" in error.text
        assert render_value(error.note, "zh") == f"按规则，审批人是李四，不能是{friend.name}。要由李四审批吗？"
        assert (
            render_value(error.note, "en")
            == f"Approver: the rules name Li Si, not {choose_name(friend, 'en')}. Shall it go to Li Si?"
        )
    people = (*PEOPLE, DIRECTOR)
    assert refused(LEAVE, {**SICK, "approver": "U9"}, people=people).code == "other_approver", "张三 has a manager"
    assert filled(LEAVE, {**SICK, "approver": "U9"}, WANG, people=people).exceptions == {}, "王五 has none: a director"
    assert refused(LEAVE, {**SICK, "approver": "U2"}, WANG, people=people).code == "other_approver"


def test_where_the_table_names_nobody_it_says_who_can_mend_that_instead_of_asking() -> None:
    for form in ({**SICK, "approver": "U2"}, {**SICK, "approver": ""}):
        error = refused(LEAVE, form, WANG)
        assert (error.code, error.field, error.ask) == ("no_approver", "approver", False)
        assert "manager in the directory" in error.text and 'others = "flagged"' in error.text
        assert "请管理员在通讯录里填写您的上级" in render_value(error.note, "zh")
    alone = tuple(p.model_copy(update={"active": False}) if p is LI else p for p in PEOPLE if p is not WANG)
    assert refused(LEAVE, {**SICK, "approver": "U5"}, people=alone).code == "no_approver", "a manager who has left"
    rules = FORM.replace('level = "reviewers"\nwho', 'level = "handover"\nwho')
    process = trip(user("first", "approver"), user("look", "reviewers"), form=rules)
    assert refused(process, {"approver": "U2", "reviewers": "U5"}).code == "no_approver", "a field without a row"


def test_every_one_is_judged_of_several_persons_and_of_whom_nobody_is_asked() -> None:
    form = FORM.replace('who = ["person lin@example.com"]\nothers = "flagged"\n[[policy]]\nlevel = "second"',
                        'who = ["role finance", "person lin@example.com"]\n[[policy]]\nlevel = "second"')  # fmt: skip
    process = trip(user("first", "approver"), user("look", "reviewers"), form=form)
    assert filled(process, {"approver": "U2", "reviewers": "U4,U5"}).exceptions == {}, "both selectors count"
    error = refused(process, {"approver": "U2", "reviewers": "U4,U3"})
    assert (error.code, error.field) == ("other_approver", "reviewers") and WANG.name in error.text
    assert filled(LEAVE, {**SHORT, "approver": "U2"}).exceptions == {}, (
        "a day passes by rule; a return may lead to them"
    )
    assert refused(LEAVE, {**SHORT, "approver": "U5"}).code == "other_approver"


async def test_a_row_that_permits_a_choice_flags_it_and_still_offers_whom_the_rules_name() -> None:
    for form, author, exceptions, zh, en in (
        ({**SICK, "approver": "U5"}, ZHANG, {"approver": ("U2",)}, "审批人不是规则指定的人，由申请人自选",
         "Approver: the requester’s choice, not named by the rules"),
        (SICK, WANG, {"approver": ()}, "审批人由申请人自选，规则没有指定任何人",
         "Approver: the requester’s choice; the rules name no one"),
    ):  # fmt: skip
        found = filled(LEAVE, form, author, more=FREE)
        assert found.exceptions == exceptions
        facts = await build_form_card_fields(office().people, LEAVE, found)
        for language, words in (("zh", zh), ("en", en)):
            assert words in [render_value(f.value, language) for f in facts]
    named = await build_form_card_fields(office().people, LEAVE, filled(LEAVE, SICK))
    assert not [f for f in named if f.label == "notice"]
    form = {name: value for name, value in SICK.items() if name != "approver"}
    strict, free = refused(LEAVE, form), refused(LEAVE, form, more=FREE)
    assert strict.text.endswith(
        "For approver you may offer “李四” / “Li Si” (lisi@example.com, manager “王五” / “Wang Wu”) as a suggestion; "
        "the person has to agree. Nobody else is accepted there."
    )
    assert free.text.endswith("the person has to agree.")


async def test_a_resubmission_is_judged_by_the_rules_as_they_are_then() -> None:
    store = MemoryStore()
    before = office(store, policy=CHOICE)
    await before.start({**SICK, "approver": "李文光"})
    await decide(before.engine, "L-0001-1", LIN.id, Decision.REJECT, "换个时间")
    after = office(store)
    work = decide(after.engine, "L-0001-2", ZHANG.id, Decision.RESUBMIT, "", {"reason": "头疼"})
    assert (await refusal(work)).code == "other_approver"
    moved = await decide(after.engine, "L-0001-2", ZHANG.id, Decision.RESUBMIT, "", {"approver": LI.id})
    assert moved.waits_for == (LI.id,)


def test_others_belong_to_person_fields_alone_and_a_form_of_the_version_before_is_read() -> None:
    rows = '[[policy]]\nlevel = "second_approver"\nwho = ["manager of manager"]\nothers = "flagged"\n'
    with pytest.raises(InvalidDefinitionError, match="others: 'second_approver' is no person field"):
        parse_form(LEAVE.toml + rows.encode())
    with pytest.raises(ValueError, match="others"):
        parse_policy(rows.replace('"flagged"', '"anybody"').replace("level", 'process = "leave"\nlevel'))
    stored = '{"values":{"amount":"86.50","approver":"U2"},"people":{"x":["U3"]},"numbers":{"threshold":"1000"}}'
    old = FilledForm.model_validate_json(stored)
    assert (old.exceptions, old.exceeded, old.content_hash) == (None, (), "85842dd051b4ac3c")
    assert len({old.content_hash, old.model_copy(update={"exceptions": {}}).content_hash,
                old.model_copy(update={"exceeded": ("recent",)}).content_hash}) == 3  # fmt: skip


ANYBODY = st.sampled_from([None, *(p.id for p in PEOPLE)])
FACTS = st.fixed_dictionaries(
    {"manager": ANYBODY, "roles": st.frozensets(st.sampled_from(["director", "finance"])), "active": st.booleans()}
)


def accepted(people: tuple[Person, ...], author: Person, approver: str, **more: Any) -> FilledForm | None:
    try:
        return filled(LEAVE, {**SICK, "approver": approver}, author, people=people, more=more)
    except ToolError as error:
        assert error.code in ("other_approver", "no_approver", "own_approver", "unknown_person")
        return None


def entitled(people: tuple[Person, ...], author: Person) -> set[str]:
    """By hand: the manager who is here; without one, the directors."""
    here = {p.id: p for p in people if p.active} | {author.id: author}
    manager = here.get(author.manager or "")
    if manager is not None and manager.id != author.id:
        return {manager.id}
    return {p.id for p in here.values() if "director" in p.roles} - {author.id}


@given(st.lists(FACTS, min_size=6, max_size=6), st.integers(0, 5), st.sampled_from([p.id for p in PEOPLE]))
def test_whatever_the_directory_says_nobody_else_is_accepted(
    facts: list[dict[str, Any]], number: int, approver: str
) -> None:
    people = tuple(p.model_copy(update=more) for p, more in zip(PEOPLE, facts, strict=True))
    author = people[number]
    found = accepted(people, author, approver)
    assert found is None or approver in entitled(people, author)
    chosen = accepted(people, author, approver, policy=CHOICE)
    if chosen and approver not in entitled(people, author):
        assert chosen.exceptions, "the control: with the rule off they are accepted, and flagged"
    chosen = accepted(PEOPLE, ZHANG, LIN.id, policy=CHOICE)
    assert chosen and LIN.id not in entitled(PEOPLE, ZHANG) and accepted(PEOPLE, ZHANG, LIN.id) is None
