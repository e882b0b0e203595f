"""Checks a form, its policy rows and its graph. An error names the wrong row and the reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tools.workflow.bpmn.expressions import InvalidExpressionError, Type, infer_type, parse_expression
from tools.workflow.bpmn.graph import InvalidDefinitionError, ProcessDefinition, ServiceTopic, raise_definition_errors
from tools.workflow.process.forms import (
    DAYS,
    LENGTH,
    NUMBERS,
    PERIOD,
    PERSONS,
    BalanceRule,
    FieldKind,
    Form,
    LocalizedText,
    RollingLimit,
)
from tools.workflow.process.policy import ConditionalRow, PeopleSelector, PolicyRow

BRACES = re.compile(r"\{([^{}]*)\}|[{}]")
LIMIT = re.compile(r"(?!0+(?:\.0+)?$)\d{1,12}(?:\.\d{1,6})?")
FORM = "form"
"""The element named by errors about a form."""


def check_form(form: Form) -> None:
    """Check a form by itself. Raises `InvalidDefinitionError`."""
    raise_definition_errors(InvalidDefinitionError(FORM, problem) for problem in _find_form_problems(form))


def check_nodes(form: Form, definition: ProcessDefinition) -> None:
    """Check that rule, cc and mail rows match the nodes. Raises `InvalidDefinitionError`."""
    errors = [
        InvalidDefinitionError(FORM, f"rule {rule.node!r} is no node of the process")
        for rule in form.rules
        if rule.node not in definition.nodes
    ]
    errors += _find_topic_errors(definition, ServiceTopic.CC, [row.node for row in form.cc])
    errors += _find_topic_errors(definition, ServiceTopic.MAIL, [row.node for row in form.mails])
    raise_definition_errors(errors)


def check_policy(rows: Sequence[PolicyRow], forms: Iterable[Form]) -> None:
    """Check that the rows of a policy file fit the existing processes. Raises `ValueError`."""
    forms_by_key = {form.key: form for form in forms}
    for number, row in enumerate(rows, 1):
        if row.process not in forms_by_key:
            raise ValueError(
                f"policy row {number}: there is no process {row.process!r}; known: {_join_names(forms_by_key)}"
            )
        for problem in _find_row_problems(row, forms_by_key[row.process]):
            raise ValueError(f"policy row {number}: {problem}")


def _find_topic_errors(
    definition: ProcessDefinition, topic: ServiceTopic, rows: list[str]
) -> Iterator[InvalidDefinitionError]:
    table = topic.value  # a topic's rows are in the table of its name
    nodes = [n.id for n in definition.nodes.values() if n.topic is topic]
    for number, node in enumerate(rows, 1):
        if node not in nodes:
            yield InvalidDefinitionError(
                FORM, f"{table} row {number}: {node!r} is no {topic} service task of the process"
            )
        if node in rows[: number - 1]:
            yield InvalidDefinitionError(FORM, f"{table} row {number}: {node!r} has a row already")
    for node in nodes:
        if node not in rows:
            yield InvalidDefinitionError(node, f"a {topic} service task needs a [[{table}]] row in the form")


def _find_form_problems(form: Form) -> Iterator[str]:
    yield from _find_field_problems(form)
    for number, row in enumerate(form.policy, 1):
        if row.process not in ("", form.key):
            yield f"policy row {number}: the process is {form.key!r} here"
        yield from _prefix_problems("policy", number, _find_row_problems(row, form))
    for number, require in enumerate(form.requires, 1):
        yield from _prefix_problems("require", number, _find_unknown_field(require.field, form))
        yield from _prefix_problems("require", number, _find_condition_problems(require, form.variable_types))
    for number, cc in enumerate(form.cc, 1):
        yield from _prefix_problems("cc", number, _find_selector_problems(cc.who, form))
    for number, mail in enumerate(form.mails, 1):
        yield from _prefix_problems("mail", number, _find_selector_problems((mail.to,), form))
        yield from _prefix_problems("mail", number, _find_placeholder_problems((mail.subject, mail.body), form))
    yield from (f"summary: {problem}" for problem in _find_placeholder_problems((form.summary,), form))
    for number, bound in enumerate(form.bounds, 1):
        yield from _prefix_problems("bound", number, _find_bound_problems(bound, form))
    for name in form.identical:
        yield from (f"identical: {problem}" for problem in _find_unknown_field(name, form))
    if form.balance:
        yield from (f"balance: {problem}" for problem in _find_balance_problems(form.balance, form))


def _prefix_problems(table: str, number: int, problems: Iterable[str]) -> Iterator[str]:
    return (f"{table} row {number}: {problem}" for problem in problems)


def _find_field_problems(form: Form) -> Iterator[str]:
    names = [f.name for f in form.fields] + [level.name for level in form.levels] + list(form.numbers)
    names += [bound.name for bound in form.bounds]
    for name in {n for n in names if names.count(n) > 1}:
        yield f"{name!r} is the name of two fields, levels, numbers or bounds"
    for field in form.fields:
        for name, kind in ((field.half, FieldKind.HALF), (field.currency, FieldKind.CHOICE)):
            if name and ((found := form.find_field(name)) is None or found.kind is not kind):
                yield f"field {field.name!r}: {name!r} is no {kind} field"
    if form.days:
        days = form.days
        for name, kind in (
            (days.start, FieldKind.DATE),
            (days.start_half, FieldKind.HALF),
            (days.end, FieldKind.DATE),
            (days.end_half, FieldKind.HALF),
        ):
            found = form.find_field(name)
            if found is None or found.kind is not kind or not (found.required or found.default):
                yield f"days: {name!r} is no {kind} field that is always filled in"


def _find_row_problems(row: PolicyRow, form: Form) -> Iterator[str]:
    persons = [f.name for f in form.fields if f.kind in PERSONS]
    levels = [*persons, *(level.name for level in form.levels)]
    if row.level not in levels:
        yield f"{row.level!r} is no level and no person field; known: {_join_names(levels)}"
    elif row.others != "refused" and row.level not in persons:
        yield f"others: {row.level!r} is no person field; the table alone chooses there"
    yield from _find_condition_problems(row, form.variable_types)
    yield from _find_selector_problems(row.who, form)


def _find_condition_problems(row: ConditionalRow, variables: Mapping[str, Type]) -> Iterator[str]:
    if not row.when:
        return
    try:
        result_type = infer_type(parse_expression(row.when), variables)
    except InvalidExpressionError as wrong:
        yield f"when: {wrong}"
        return
    if result_type != "truth":
        yield f"when: gives {result_type}, not true or false"


def _find_selector_problems(who: Iterable[PeopleSelector], form: Form) -> Iterator[str]:
    for selector in who:
        if selector.variable_name and selector.variable_name not in form.people_variables:
            known = _join_names(form.people_variables)
            yield f"who: {selector.variable_name!r} is no person field and no level; known: {known}"


def _find_placeholder_problems(all_words: Iterable[LocalizedText], form: Form) -> Iterator[str]:
    placeholders = {f.name for f in form.fields} | ({DAYS, LENGTH, PERIOD} if form.days else set())
    for words in all_words:
        for found in BRACES.finditer(words.zh + words.en):
            if found[1] not in placeholders:
                yield f"{found[0]} is no field; known: {_join_names(placeholders)}"


def _find_bound_problems(bound: RollingLimit, form: Form) -> Iterator[str]:
    """Problems of a bound. A bound's own condition cannot use sums, because it is evaluated before they exist."""
    field = form.find_field(bound.field)
    if field is None or field.kind not in NUMBERS:
        yield f"{bound.field!r} is no field with an amount or a number"
    for name in bound.per:
        yield from _find_unknown_field(name, form)
    if bound.limit not in form.numbers and not LIMIT.fullmatch(bound.limit):
        yield f"limit: {bound.limit!r} is neither a number of the form nor a number above 0"
    sums = {one.name for one in form.bounds}
    yield from _find_condition_problems(
        bound, {name: kind for name, kind in form.variable_types.items() if name not in sums}
    )


def _find_balance_problems(balance: BalanceRule, form: Form) -> Iterator[str]:
    yield from _find_unknown_field(balance.field, form)
    field = form.find_field(balance.field)
    if field and not field.find_option(balance.value):
        yield f"{balance.field!r} has no choice {balance.value!r}"
    if balance.allowance not in form.numbers:
        yield f"{balance.allowance!r} is no number of the form"
    if form.days is None:
        yield "is counted in working days, and the form has no [days]"


def _find_unknown_field(name: str, form: Form) -> Iterator[str]:
    if form.find_field(name) is None:
        yield f"{name!r} is no field; known: {_join_names(f.name for f in form.fields)}"


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
