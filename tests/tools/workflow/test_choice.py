"""Who approves is policy, not choice: who is accepted, who is refused and with what words, and what is flagged."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.i18n import render_value
from tests.harness.corpus import corpus
from tests.harness.memory_store import MemoryStore
from tests.tools.company import CHOICE, LI, LIN, PEOPLE, SHORT, SICK, WANG, ZHANG, ZHAO, filled, refused
from tests.tools.office import decide, office
from tests.tools.office import refused as refusal
from tests.tools.workflow.trip import FORM, MAIL, TELL, TOLD, line, trip, user
from tools.cards.fields import build_form_card_fields
from tools.people.names import choose_name
from tools.spec import Person, ToolError
from tools.workflow.bpmn.graph import FlowNode, InvalidDefinitionError
from tools.workflow.engine.authority import MAX_PEOPLE
from tools.workflow.engine.state import Decision, FilledForm
from tools.workflow.process.checks import check_nodes
from tools.workflow.process.definition import find_passing_rule, load_shipped_processes, parse_form
from tools.workflow.process.policy import parse_policy

LEAVE, EXPENSE = load_shipped_processes()
FREE: dict[str, Any] = {"policy": CHOICE}


def test_only_whom_the_table_names_is_accepted_and_the_next_selector_counts_only_where_it_names_nobody() -> None:
    assert filled(LEAVE, SICK).exceptions == {}, "the manager"
    for friend in (LIN, ZHAO, WANG):
        error = refused(LEAVE, {**SICK, "approver": friend.id})
        assert (error.code, error.field, error.ask) == ("other_approver", "approver", True)
        assert "“李四” / “Li Si” (lisi@example.com, manager “王五” / “Wang Wu”) = U2" in error.text
        assert render_value(error.note, "zh") == f"按规则，审批人是李四，不能是{friend.name}。要由李四审批吗？"
        told = f"Approver: the rules name Li Si, not {choose_name(friend, 'en')}. Shall it go to Li Si?"
        assert render_value(error.note, "en") == told
    people = (*PEOPLE, Person(id="U9", name="钱总", roles=frozenset({"director"})))
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
    rules = FORM.replace('level = "reviewers", who', 'level = "handover", who')
    process = trip(user("first", "approver"), user("look", "reviewers"), form=rules)
    assert refused(process, {"approver": "U2", "reviewers": "U5"}).code == "no_approver", "a field without a row"


def test_every_one_is_judged_of_several_persons_and_of_whom_nobody_is_asked() -> None:
    row = '{ level = "reviewers", who = ["person lin@example.com"], others = "flagged" }'
    assert row in FORM
    form = FORM.replace(row, '{ level = "reviewers", who = ["role finance", "person lin@example.com"] }')
    process = trip(user("first", "approver"), user("look", "reviewers"), form=form)
    assert filled(process, {"approver": "U2", "reviewers": "U4,U5"}).exceptions == {}, "both selectors count"
    error = refused(process, {"approver": "U2", "reviewers": "U4,U3"})
    assert (error.code, error.field) == ("other_approver", "reviewers") and WANG.name in error.text
    passing = filled(LEAVE, {**SHORT, "approver": "U2"})
    assert passing.exceptions == {}, "a day passes by rule; a return may lead to them"
    assert refused(LEAVE, {**SHORT, "approver": "U5"}).code == "other_approver"


async def test_a_row_that_permits_a_choice_flags_it_and_still_offers_whom_the_rules_name() -> None:
    for form, author, exceptions, zh, en in (
        ({**SICK, "approver": "U5"}, ZHANG, {"approver": ("U2",)}, "审批人不是规则指定的人，由申请人自选",
         "Approver: the requester’s choice, not named by the rules"),
        (SICK, WANG, {"approver": ()}, "审批人由申请人自选，规则没有指定任何人",
         "Approver: the requester’s choice; the rules name nobody"),
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
    offered = (
        "For approver you may offer “李四” / “Li Si” (lisi@example.com, manager “王五” / “Wang Wu”) as a suggestion; "
    )
    assert strict.text.endswith(f"{offered}the person has to agree. Nobody else is accepted there.")
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


def companies(*roles: str) -> st.SearchStrategy[tuple[Person, ...]]:
    """Managers in circles, roles anywhere, anybody inactive."""
    facts = st.fixed_dictionaries({
        "manager": st.sampled_from([None, *(p.id for p in PEOPLE)]),
        "roles": st.frozensets(st.sampled_from(roles)), "active": st.booleans(),
    })  # fmt: skip
    return st.tuples(*(facts.map(lambda more, p=p: p.model_copy(update=more)) for p in PEOPLE))


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


@given(companies("director", "finance"), st.integers(0, 5), st.sampled_from([p.id for p in PEOPLE]))
def test_whatever_the_directory_says_nobody_else_is_accepted(
    people: tuple[Person, ...], number: int, approver: str
) -> None:
    author = people[number]
    found = accepted(people, author, approver)
    assert found is None or approver in entitled(people, author)
    chosen = accepted(people, author, approver, policy=CHOICE)
    if chosen and approver not in entitled(people, author):
        assert chosen.exceptions, "the control: with the rule off they are accepted, and flagged"
    chosen = accepted(PEOPLE, ZHANG, LIN.id, policy=CHOICE)
    assert chosen and LIN.id not in entitled(PEOPLE, ZHANG) and accepted(PEOPLE, ZHANG, LIN.id) is None


ONE = trip(user("first", "approver"))
TWO = trip(user("first", "approver"), user("next", "second"))
BOARD = trip(user("first", "approver"), user("all", "board"))
GROUP = trip(user("first", "approver"), user("desk", "role:finance"))
CHOSEN = trip(user("first", "approver"), user("look", "reviewers"))
COPIES = trip(user("first", "approver"), TELL, MAIL)
LED = {"approver": "U2"}
ADMIN = Person(id="U9", name="管理员", roles=frozenset({"admin", "finance"}))


def test_a_level_is_the_first_that_the_table_names_and_is_free() -> None:
    assert filled(TWO, LED).people == {"second": ("U3",)}
    assert filled(TWO, {"approver": "U3"}).people == {"second": ("U4",)}, "王五 has no manager: finance"
    assert filled(TWO, LED, WANG).people == {"second": ("U4",)}, "李四's manager is the author"
    error = refused(TWO, {"approver": "U4"}, WANG)
    assert (error.code, error.params["label"]) == ("no_level", {"zh": "二级", "en": "Second approver"})
    row = '[[policy]]\nprocess = "trip"\nlevel = "second"\nwho = ["role director", "person lin@example.com"]'
    assert filled(TWO, LED, more={"policy": parse_policy(row)}).people == {"second": ("U3",)}
    other = parse_policy('[[policy]]\nprocess = "leave"\nlevel = "second"\nwho = ["person lin@example.com"]')
    assert filled(TWO, LED, WANG, more={"policy": other}).people == {"second": ("U4",)}, "of another process"
    assert refused(trip(user("first", "second"), user("next", "second")), LED).code == "own_level"


def test_a_board_or_a_role_is_everybody_named_but_the_author_and_who_decides_already() -> None:
    assert filled(BOARD, LED).people == {"board": ("U3", "U4", "U5")}
    assert filled(BOARD, {"approver": "U4"}).people == {"board": ("U3", "U5")}
    assert filled(BOARD, LED, LIN, people=(*PEOPLE, ADMIN)).people == {"board": ("U3", "U4", "U9")}
    people = (*PEOPLE, ADMIN)
    assert filled(GROUP, LED, people=people).people == {"role:finance": ("U4", "U9")}
    assert filled(GROUP, LED, ZHAO, people=people).people == {"role:finance": ("U9",)}
    gone = tuple(p.model_copy(update={"active": p.id != "U4"}) for p in people)
    assert filled(GROUP, LED, people=gone).people == {"role:finance": ("U9",)}
    assert refused(GROUP, LED, people=tuple(p for p in PEOPLE if p is not ZHAO)).code == "no_level"


def test_several_persons_are_read_as_people_write_them_and_so_many_and_no_more() -> None:
    for text in ("李文光、赵六", "U5, U4", "<@U5> <@U4>", "lin@example.com；Zhao Liu", "U5,U4,U5,"):
        found = filled(CHOSEN, {**LED, "reviewers": text})
        assert found.values["reviewers"] == "U5,U4"
        assert found.resolve_people("reviewers") == ("U5", "U4")
    crowd = tuple(Person(id=f"V{n}", name=f"员工{n}") for n in range(MAX_PEOPLE + 1))
    most = ",".join(p.id for p in crowd[:-1])
    assert filled(COPIES, {**LED, "cc": f"{most},V0"}, people=(*PEOPLE, *crowd)).values["cc"] == most
    error = refused(COPIES, {**LED, "cc": ",".join(p.id for p in crowd)}, people=(*PEOPLE, *crowd))
    assert (error.code, error.field, error.params["most"]) == ("too_many", "cc", 20)


@corpus(
    ("form", "author", "offered"),
    ({}, ZHANG, "李四"),
    ({}, ZHANG.model_copy(update={"department": "sales"}), "李文光"),
    ({"travellers": "6"}, ZHANG, "王五"),
    ({"travellers": "5"}, ZHANG, "李四"),
    ({"travellers": "6"}, WANG, ""),
)
def test_the_table_suggests_an_approver_and_fills_none_in(form: dict[str, str], author: Person, offered: str) -> None:
    error = refused(ONE, form, author)
    assert (error.code, error.field, error.ask) == ("missing_field", "approver", True)
    assert f"you may offer “{offered}”" in error.text if offered else "offer" not in error.text
    assert offered not in str(error.params) or not offered, "people are asked, the model is told"


def test_an_attachment_is_asked_for_where_the_form_requires_one() -> None:
    long = {"approver": "U2", "end_date": "2026-11-26"}
    unnamed = {"end_date": "2026-11-26"}
    for form, missing in (({**long, "end_half": "am"}, "attachment"), (unnamed, "attachment, approver")):
        error = refused(ONE, form)
        assert (error.code, error.field, error.ask) == ("missing_field", "attachment", True)
        assert f"missing: {missing}." in error.text
    for fine in ({**long, "kind": "annual"}, {**long, "end_date": "2026-11-25"}, {**long, "attachment": "F0123ABCD"}):
        assert filled(ONE, fine).resolve_people("approver") == ("U2",)


def test_copies_and_mails_have_their_people_and_let_nothing_pass() -> None:
    found = filled(COPIES, {**LED, "cc": "U5,U3", "handover": "U5"})
    assert found.people == {"tell": ("U5", "U3", "U4"), "mail": ("U4",)}
    assert filled(COPIES, LED, ZHAO).people == {}, "the author needs no copy"
    assert find_passing_rule(COPIES, filled(COPIES, LED)) == ""


@corpus(
    ("nodes", "text", "element", "reason"),
    ((TELL, MAIL), "", "tell", "needs a [[cc]] row"),
    ((TELL,), TOLD, "form", "mail row 1: 'mail' is no mail service task"),
    ((), TOLD, "form", "cc row 1: 'tell' is no cc service task"),
    ((TELL, MAIL), TOLD + '[[cc]]\nnode = "tell"\nwho = ["manager"]', "form", "cc row 2: 'tell' has a row already"),
)
def test_copies_and_mails_need_rows_and_nodes(nodes: list[FlowNode], text: str, element: str, reason: str) -> None:
    with pytest.raises(InvalidDefinitionError) as wrong:
        check_nodes(parse_form((FORM + text).encode()), line(*nodes))
    assert (wrong.value.element, reason in wrong.value.reason) == (element, True), wrong.value


FOUR = trip(user("a", "approver"), user("b", "second"), user("c", "board", "role:finance"), user("d", "reviewers"))


@given(
    companies("finance", "director", "admin"),
    st.integers(0, 5),
    st.sampled_from(["U1", "U2", "U3"]),
    st.sampled_from(["U4", "U5,U6"]),
)
def test_nobody_decides_their_own_or_twice(people: list[Person], author: int, approver: str, reviewers: str) -> None:
    """I3, I5: whatever the directory says, and whoever is the author."""
    try:
        found = filled(FOUR, {"approver": approver, "reviewers": reviewers}, people[author], people=people)
    except ToolError as error:
        assert error.code in ("own_approver", "own_level", "no_level", "unknown_person")
        return
    may = {p.id for p in people if p.active} - {people[author].id}
    tasks = [[p for name in FOUR.definition.nodes[node].who for p in found.resolve_people(name)] for node in "abcd"]
    assert all(task and set(task) <= may for task in tasks)
    assert len({p for task in tasks for p in task}) == sum(len(set(task)) for task in tasks)
