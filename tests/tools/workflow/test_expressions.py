from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.corpus import corpus
from tools.workflow.bpmn.expressions import (
    InvalidExpressionError,
    Type,
    Value,
    evaluate_condition,
    evaluate_partially,
    infer_type,
    list_variables,
    parse_expression,
    parse_variable,
)

TYPES: dict[str, Type] = {"days": "number", "currency": "text", "urgent": "truth"}
VALUES: dict[str, Value] = {"days": Decimal("3.5"), "currency": "CNY", "urgent": False}


@corpus(
    ("text", "expected"),
    ("${days > 3}", True),
    ("${days <= 3}", False),
    ("${days == 3.50}", True),
    ("${days ge 3.5 and currency eq 'CNY'}", True),
    ('${days lt 1 || currency != "CNY"}', False),
    ("${!(days < 1) && !urgent}", True),
    ("${not urgent or days == 0}", True),
    ("${urgent == false}", True),
    ("${ 3 < days }", True),
    ("${days > 3 || days < 1 && urgent}", True),
)
def test_conditions(text: str, expected: bool) -> None:
    assert infer_type(parse_expression(text), TYPES) == "truth"
    assert evaluate_condition(parse_expression(text), VALUES) is expected


NO_CONDITIONS = (
    "${[x for x in days]}", "${days[0] > 1}", "${lambda: 1}", "${days + 1 > 2}", "${days = 3}", "${days > 3; days}",
    "${days > }", "${(days > 3}", "${days > 3)}", "${days > 0x10}", "${'it\\'s' == currency}", "${days > 1e9}",
    "${" + "!" * 400 + "urgent}", "${eval('1')}", "${(lambda: days)()}", "${'{0.__class__}'.format(days)}",
    "${days ? true : false}", "${days > 1}${days > 2}", "${${days} > 1}", "${da\u200bys > 1}",
    "${days > 1 \u202e|| urgent}", "${currency == \u2018CNY\u2019}", "${days >\x00 1}",
)  # fmt: skip


@corpus("text", *NO_CONDITIONS)
def test_what_is_not_a_condition_is_refused(text: str) -> None:
    with pytest.raises(InvalidExpressionError):
        parse_expression(text)


def test_names_and_types_are_checked() -> None:
    for text in ("${unknown > 1}", "${currency > 'A'}", "${days && urgent}", "${!days}", "${eval == 1}"):
        with pytest.raises(InvalidExpressionError):
            infer_type(parse_expression(text), TYPES)
    assert infer_type(parse_expression("${days}"), TYPES) == "number"
    assert evaluate_condition(parse_expression("${days}"), VALUES) is False, "a number alone is not a truth"
    tree = parse_expression("${!(days > 3) && (urgent || currency == 'CNY')}")
    assert list_variables(tree) == {"days", "urgent", "currency"}
    assert parse_variable("${approver}") == "approver"
    with pytest.raises(InvalidExpressionError):
        parse_variable("${approver == 'x'}")


def test_what_matters_must_have_a_value() -> None:
    with pytest.raises(InvalidExpressionError, match="no value for days"):
        evaluate_condition(parse_expression("${days > 3 && urgent}"), {"urgent": True})
    assert evaluate_condition(parse_expression("${days > 3 && urgent}"), {"urgent": False}) is False


@corpus(
    ("text", "expected"),
    ("${urgent && days > 1}", False),
    ("${!urgent || days > 1}", True),
    ("${days > 1 || days <= 1}", None),
    ("${!(days > 1)}", None),
    ("${'CNY' != currency}", None),
    ("${urgent == (1 > 2)}", True),
    ("${true}", True),
)
def test_what_can_be_foreseen(text: str, expected: bool | None) -> None:
    assert evaluate_partially(parse_expression(text), {"urgent": False}) is expected


LEAVES = ["days > 3", "days != 3.5", "currency == 'CNY'", "'USD' != currency", "urgent", "true", "urgent == false"]
TRUTHS = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        inner.map(lambda one: f"!({one})"),
        st.tuples(inner, st.sampled_from(["&&", "||", "=="]), inner).map(lambda it: f"(({it[0]}) {it[1]} ({it[2]}))"),
    ),
    max_leaves=6,
)
DAYS = st.sampled_from([Decimal(0), Decimal("3.5"), Decimal(9)])
KNOWN = st.fixed_dictionaries({"days": DAYS, "currency": st.sampled_from(["CNY", "USD"]), "urgent": st.booleans()})


@given(TRUTHS, KNOWN, st.sets(st.sampled_from(sorted(TYPES))))
def test_what_is_foreseen_holds_whatever_else_turns_out(text: str, values: dict[str, Value], known: set[str]) -> None:
    tree = parse_expression("${" + text + "}")
    found = evaluate_partially(tree, {name: values[name] for name in known})
    assert found is None or found is evaluate_condition(tree, values)
    assert known < set(TYPES) or found is not None


@given(st.text(max_size=80))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        tree = parse_expression("${" + text + "}")
        infer_type(tree, TYPES)
    except InvalidExpressionError:
        return
    assert isinstance(evaluate_condition(tree, VALUES), bool)


@given(st.decimals("-1000", "1000", places=2), st.decimals("0", "1000", places=2))
def test_numbers_are_compared_exactly(left: Decimal, right: Decimal) -> None:
    assert evaluate_condition(parse_expression(f"${{n >= {right}}}"), {"n": left}) is (left >= right)
