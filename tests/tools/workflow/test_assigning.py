"""Who decides and who is told: examples, and what must never happen whatever the form says."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.corpus import corpus
from tests.tools.company import LIN, PEOPLE, WANG, ZHANG, ZHAO, filled, refused
from tests.tools.workflow.trip import FORM, MAIL, TELL, TOLD, line, trip, user
from tools.spec import Person, ToolError
from tools.workflow.bpmn.graph import FlowNode, InvalidDefinitionError
from tools.workflow.engine.authority import MAX_PEOPLE
from tools.workflow.process.checks import check_nodes
from tools.workflow.process.definition import find_passing_rule, parse_form
from tools.workflow.process.policy import parse_policy

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
    rows = parse_policy(
        '[[policy]]\nprocess = "trip"\nlevel = "second"\nwho = ["role director", "person lin@example.com"]'
    )
    assert filled(TWO, LED, more={"policy": rows}).people == {"second": ("U3",)}
    other = parse_policy('[[policy]]\nprocess = "leave"\nlevel = "second"\nwho = ["person lin@example.com"]')
    assert filled(TWO, LED, WANG, more={"policy": other}).people == {"second": ("U4",)}, "of another process"
    twice = trip(user("first", "second"), user("next", "second"))
    assert refused(twice, LED).code == "own_level"


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
    ("form", "code", "field"),
    [
        ({"approver": "U2"}, "missing_field", "reviewers"),
        ({"approver": "U2", "reviewers": "U5、钱七"}, "unknown_person", "reviewers"),
        ({"approver": "U2", "reviewers": "U5,U1"}, "own_approver", "reviewers"),
        ({"approver": "U2", "reviewers": "U5,U2"}, "own_level", "reviewers"),
        ({"approver": "U2", "reviewers": "U5", "handover": "张三"}, "own_person", "handover"),
        ({"approver": "U2", "reviewers": "U5", "cc": "U4,张三"}, "own_person", "cc"),
    ],
)
def test_what_is_wrong_with_people_names_the_field(form: dict[str, str], code: str, field: str) -> None:
    error = refused(CHOSEN, form)
    assert (error.code, error.field) == (code, field)


@corpus(
    ("form", "author", "offered"),
    [
        ({}, ZHANG, "李四"),
        ({}, ZHANG.model_copy(update={"department": "sales"}), "李文光"),
        ({"travellers": "6"}, ZHANG, "王五"),
        ({"travellers": "5"}, ZHANG, "李四"),
        ({"travellers": "6"}, WANG, ""),
    ],
)
def test_the_table_suggests_an_approver_and_never_fills_one_in(
    form: dict[str, str], author: Person, offered: str
) -> None:
    error = refused(ONE, form, author)
    assert (error.code, error.field, error.ask) == ("missing_field", "approver", True)
    assert f"you may offer “{offered}”" in error.text if offered else "offer" not in error.text
    assert offered not in str(error.params) or not offered, "people are asked, the model is told"


def test_an_attachment_is_asked_for_where_the_form_requires_one() -> None:
    long = {"approver": "U2", "end_date": "2026-11-26"}
    for form, missing in (
        ({**long, "end_half": "am"}, "attachment"),
        ({"end_date": "2026-11-26"}, "attachment, approver"),
    ):
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
    [
        ((TELL, MAIL), "", "tell", "needs a [[cc]] row"),
        ((TELL,), TOLD, "form", "mail row 1: 'mail' is no mail service task"),
        ((), TOLD, "form", "cc row 1: 'tell' is no cc service task"),
        ((TELL, MAIL), TOLD + '[[cc]]\nnode = "tell"\nwho = ["manager"]', "form", "cc row 2: 'tell' has a row already"),
    ],
)
def test_copies_and_mails_need_a_row_and_a_node(
    nodes: tuple[FlowNode, ...], text: str, element: str, reason: str
) -> None:
    with pytest.raises(InvalidDefinitionError) as wrong:
        check_nodes(parse_form((FORM + text).encode()), line(*nodes))
    assert (wrong.value.element, reason in wrong.value.reason) == (element, True), wrong.value


ANYBODY = st.sampled_from([None, "U1", "U2", "U3", "U4", "U5", "U6"])
ROLES = st.frozensets(st.sampled_from(["finance", "director", "admin"]))
FACTS = st.fixed_dictionaries({"manager": ANYBODY, "roles": ROLES, "active": st.booleans()})
FOUR = trip(user("a", "approver"), user("b", "second"), user("c", "board", "role:finance"), user("d", "reviewers"))


@given(
    st.lists(FACTS, min_size=6, max_size=6),
    st.integers(0, 5),
    st.sampled_from(["U1", "U2", "U3"]),
    st.sampled_from(["U4", "U5,U6"]),
)
def test_whatever_the_directory_says_nobody_decides_their_own_or_twice(
    facts: list[dict[str, Any]], author: int, approver: str, reviewers: str
) -> None:
    """I3, I5: managers in circles, roles anywhere, anybody inactive, anybody the author."""
    people = tuple(p.model_copy(update=more) for p, more in zip(PEOPLE, facts, strict=True))
    try:
        found = filled(FOUR, {"approver": approver, "reviewers": reviewers}, people[author], people=people)
    except ToolError as error:
        assert error.code in ("own_approver", "own_level", "no_level", "unknown_person")
        return
    may = {p.id for p in people if p.active} - {people[author].id}
    tasks = [[p for name in FOUR.definition.nodes[node].who for p in found.resolve_people(name)] for node in "abcd"]
    assert all(task and set(task) <= may for task in tasks)
    assert len({p for task in tasks for p in task}) == sum(len(set(task)) for task in tasks)
