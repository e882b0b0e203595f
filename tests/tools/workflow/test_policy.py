"""The table: what its words mean, which row is taken, and what is refused when it is read."""

import re
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from tests.harness.corpus import corpus
from tests.tools.company import LI, LIN, PEOPLE, WANG, ZHANG, ZHAO
from tests.tools.workflow.trip import FORM
from tools.spec import Person
from tools.workflow.bpmn.graph import InvalidDefinitionError
from tools.workflow.engine.assignment import find_dead_ends, find_unserved
from tools.workflow.process.checks import check_policy
from tools.workflow.process.definition import load_shipped_processes, parse_form
from tools.workflow.process.forms import Form
from tools.workflow.process.policy import AssigneeResolver, PeopleSelector, PolicyRow, parse_policy

ADMIN = Person(id="U9", name="管理员", roles=frozenset({"admin"}))
HELD = {"approver": ("U2",), "cc": ("U4", "U5")}


def resolve_held(name: str) -> tuple[str, ...]:
    return HELD.get(name, ())


SELECTED = {
    "manager": "李四", "manager of manager": "王五", "manager of approver": "王五", "manager of field approver": "王五",
    "manager of role finance": "王五", "role director": "王五", "role nobody": "", "person LISI@example.com": "李四",
    "person gone@example.com": "", "field cc": "赵六 李文光", "cc": "赵六 李文光", "manager of manager of manager": "",
}  # fmt: skip


@corpus("words", *SELECTED, "", "boss of me", "role", "role a b", "person", "manager of", "manager of  ", "李四")
def test_selectors(words: str) -> None:
    if words not in SELECTED:
        with pytest.raises(ValidationError, match="names nobody"):
            PeopleSelector.model_validate(words)
        return
    selector = PeopleSelector.model_validate(words)
    found = AssigneeResolver(PEOPLE, ZHANG).select_people(selector, resolve_held)
    assert [p.name for p in found] == SELECTED[words].split()


def deciders(*who: str, author: Person = ZHANG, people: tuple[Person, ...] = PEOPLE, taken: str = "") -> list[str]:
    selectors = [PeopleSelector.model_validate(one) for one in who]
    found = AssigneeResolver(people, author).choose_assignees(selectors, resolve_held, frozenset([taken]))
    return [p.name for p in found]


def test_what_would_be_the_authors_own_goes_up_to_the_next_manager_or_to_an_administrator() -> None:
    assert deciders("field approver", author=LI) == ["王五"]
    assert deciders("field approver", author=LI, taken=WANG.id) == []
    assert deciders("role finance", author=ZHAO) == ["王五"]
    assert deciders("manager of approver", "role finance", author=WANG) == ["赵六"], "nobody above: the next selector"
    people = (*PEOPLE, ADMIN)
    assert deciders("manager of approver", author=WANG, people=people) == ["管理员"]
    assert deciders("manager of approver", author=WANG) == []
    assert deciders("role unknown", author=WANG, people=people) == [], "nobody was named, not the author"
    assert deciders("role admin", author=ADMIN, people=people) == [], "not even an administrator decides their own"
    one, two = (Person(id=i, name=i, manager=m) for i, m in (("a", "b"), ("b", "a")))
    assert deciders("person x", "manager", author=one, people=(one, two), taken="b") == []
    assert deciders("manager of manager", author=one, people=(one, two)) == ["b"]


@corpus(
    ("department", "values", "applies"),
    ("Sales", {"days": 4, "kind": "sick"}, True),
    ("  sales ", {"days": 4, "kind": "sick"}, True),
    ("", {"days": 4, "kind": "sick"}, False),
    ("Sales", {"days": 3, "kind": "sick"}, False),
    ("Sales", {"kind": "sick"}, False),  # an old version of the form, without days
)
def test_a_row_is_for_a_department_and_a_condition(department: str, values: dict[str, Any], applies: bool) -> None:
    written = {"level": "x", "when": "${kind == 'sick' && days > 3}", "department": "SALES", "who": ["manager"]}
    row = PolicyRow.model_validate(written)
    known = {k: Decimal(v) if isinstance(v, int) else str(v) for k, v in values.items()}
    assert row.is_applicable("x", known, ZHANG.model_copy(update={"department": department})) is applies
    assert not row.is_applicable("y", known, ZHANG)


FILE = '[[policy]]\nprocess = "leave"\nlevel = "second_approver"\nwho = ["role hr"]\n'


def test_who_can_be_decided_for_is_told_of_fields_levels_and_roles_alike() -> None:
    leave, expense = load_shipped_processes()
    assert find_unserved(leave.form, leave.definition, (), (*PEOPLE, ADMIN)) == {}, "the control"
    nobody = (LI.model_copy(update={"manager": None}), LIN)
    unserved = find_unserved(leave.form, leave.definition, (), nobody)
    assert sorted(unserved) == ["approver", "second_approver", "third_approver"]
    assert find_unserved(expense.form, expense.definition, (), (LI, WANG))["finance_approvers"] == [LI, WANG]
    by_form = parse_policy('[[policy]]\nprocess = "leave"\nlevel = "second_approver"\nwho = ["manager of approver"]')
    assert "second_approver" not in find_unserved(leave.form, leave.definition, by_form, nobody), "only a form tells"


def test_a_task_is_a_dead_end_if_no_row_or_only_roles_without_holders_are_named() -> None:
    expense = load_shipped_processes()[1]
    (step,) = [node.id for node in expense.definition.nodes.values() if "finance_approvers" in node.who]

    def ends(roles: frozenset[str] | None, form: Form = expense.form) -> list[tuple[str, frozenset[str]]]:
        return list(find_dead_ends(form, expense.definition, (), roles))

    assert ends(frozenset()) == [(step, frozenset({"finance"}))], "the approver can also be a manager"
    assert ends(frozenset({"finance"})) == ends(None) == []
    bare = expense.form.model_copy(update={"policy": expense.form.policy[:1]})
    assert ends(frozenset({"finance"}), bare) == ends(None, bare) == [(step, frozenset())]


def test_a_policy_file_is_read_and_fits_its_process() -> None:
    check_policy(parse_policy(FILE), [p.form for p in load_shipped_processes()])
    assert parse_policy("") == ()


@corpus(
    ("text", "reason"),
    (FILE.replace("role hr", "boss of me"), "policy row 1, who 1: 'boss of me' names nobody"),
    (FILE + FILE.replace('who = ["role hr"]', "who = []"), "policy row 2, who:"),
    (FILE.replace('process = "leave"\n', ""), "policy row 1: process is missing"),
    (FILE + 'when = "${__import__(1)}"', "policy row 1, when: unexpected"),
    (FILE + 'when = "days > 3"', "policy row 1, when: 'days > 3' should be written as"),
    (FILE + 'wen = "x"', "policy row 1, wen: Extra inputs"),
    ("[policies]", "policies: Extra inputs"),
    ("policy = 3", "policy:"),
    ("[[policy", "at end of document"),
    # well-formed, and it does not fit
    (FILE.replace('"leave"', '"party"'), "policy row 1: there is no process 'party'; known: expense, leave"),
    (FILE.replace("second_approver", "third"), "policy row 1: 'third' is no level"),
    (FILE + 'when = "${amount > 3}"', "policy row 1: when: unknown variable 'amount'"),
    (FILE + 'when = "${days}"', "policy row 1: when: gives number, not true or false"),
    (FILE.replace("role hr", "manager of boss"), "policy row 1: who: 'boss' is no person field and no level"),
)
def test_a_policy_file_that_is_malformed_or_does_not_fit_is_refused_with_its_row(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        check_policy(parse_policy(text), [p.form for p in load_shipped_processes()])


OF_TRIP = [
    ('level = "second", who', 'level = "secund", who', "policy row 5: 'secund' is no level and no person field"),
    ('who = ["manager of approver"', 'who = ["manager of kind"', "policy row 5: who: 'kind' is no person field"),
    ("${travellers > 5}", "${travellers == 'many'}", "policy row 1: when: == needs number, not text"),
    ("${travellers > 5}", "${approver == 'U1'}", "policy row 1: when: unknown variable 'approver'"),
    ('department = "Sales"', 'process = "leave"', "policy row 2: the process is 'trip' here"),
    ('field = "attachment"', 'field = "attach"', "require row 1: 'attach' is no field"),
    ("&& days > 3", "&& day > 3", "require row 1: when: unknown variable 'day'"),
    ('value = "annual", allowance', 'value = "yearly", allowance', "balance: 'kind' has no choice 'yearly'"),
    ('allowance = "annual_days"', 'allowance = "yearly"', "balance: 'yearly' is no number of the form"),
    ("{kind} from {start_date}", "{kind.__class__} from", "summary: {kind.__class__} is no field"),
    ("{kind} from {start_date}", "{0} from", "summary: {0} is no field"),
    ("{kind} from {start_date}", "{kind} { from", "summary: { is no field"),
    ('name = "second"', 'name = "cc"', "'cc' is the name of two fields, levels, numbers or bounds"),
    ('half = "end_half"', 'half = "kind"', "field 'end_date': 'kind' is no half field"),
    ('start = "start_date"', 'start = "started"', "days: 'started' is no date field that is always filled in"),
    ('name = "handover"\nkind = "person"', 'name = "handover"\nkind = "persona"', "field row 10, kind: Input"),
    ('who = ["manager"]', 'who = "manager"', "policy row 3, who: Input should be a valid tuple"),
]
OF_EXPENSE = [
    ('field = "amount"', 'field = "reason"', "bound row 1: 'reason' is no field with an amount or a number"),
    ('per = ["category"]', 'per = ["colour"]', "bound row 1: 'colour' is no field"),
    ('limit = "threshold"', 'limit = "much"', "bound row 1: limit: 'much' is neither"),
    ('limit = "threshold"', "limit = 0", "bound row 1: limit: '0' is neither"),
    ('limit = "threshold"', "limit = -5", "bound row 1: limit: '-5' is neither"),
    ("days = 30", "days = 0", "bound row 1, days"),
    ("currency == 'CNY'", "recent > 5", "bound row 1: when: unknown variable 'recent'"),
    ('name = "recent"', 'name = "threshold"', "'threshold' is the name of two fields, levels, numbers or bounds"),
    ("again_minutes = 10", "again_minutes = -1", "again_minutes"),
    ("again_minutes = 10", "again_minutes = 2000", "again_minutes"),
    ('identical = ["amount"', 'identical = ["sum"', "identical: 'sum' is no field"),
]
EXPENSE_FORM = load_shipped_processes()[1].toml.decode()


@corpus(
    ("form", "before", "after", "reason"),
    *((FORM, *row) for row in OF_TRIP),
    *((EXPENSE_FORM, *row) for row in OF_EXPENSE),
)
def test_a_form_that_contradicts_itself_is_refused(form: str, before: str, after: str, reason: str) -> None:
    assert before in form
    with pytest.raises(InvalidDefinitionError) as wrong:
        parse_form(form.replace(before, after).encode())
    assert wrong.value.element == "form"
    assert reason in wrong.value.reason
