"""What must be true of a form, of its policy rows and of the graph they go with. Says which row is wrong, and why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tools.workflow.expressions import ExpressionRefused, Type, check, parse
from tools.workflow.forms import NUMBERS, PERSONS, Balance, Bound, FieldKind, Form, FormField, Words
from tools.workflow.graph import Definition, DefinitionRefused, Topic
from tools.workflow.policy import Conditional, Row, Selector

BRACES = re.compile(r"\{([^{}]*)\}|[{}]")
DAYS = "days"
LIMIT = re.compile(r"(?!0+(?:\.0+)?$)\d{1,12}(?:\.\d{1,6})?")
ROW_OF = {Topic.CC: "cc", Topic.MAIL: "mail"}
"""Topic of a service task → the table of the form that has its row."""


def check_form(form: Form) -> None:
    """Raises `DefinitionRefused`."""
    for problem in _problems(form):
        raise DefinitionRefused("form", problem)


def check_nodes(form: Form, definition: Definition) -> None:
    """Rules, cc and mail rows belong to nodes, and the other way round. Raises `DefinitionRefused`."""
    for rule in form.rules:
        if rule.node not in definition.nodes:
            raise DefinitionRefused("form", f"rule {rule.node!r} is no node of the process")
    _check_rows(definition, Topic.CC, [row.node for row in form.cc])
    _check_rows(definition, Topic.MAIL, [row.node for row in form.mails])


def check_policy(rows: Sequence[Row], forms: Iterable[Form]) -> None:
    """The rows of a policy file fit the processes that are there. Raises `ValueError`."""
    known = {form.key: form for form in forms}
    for number, row in enumerate(rows, 1):
        if row.process not in known:
            raise ValueError(f"policy row {number}: there is no process {row.process!r}; known: {_listed(known)}")
        for problem in _of_row(row, known[row.process]):
            raise ValueError(f"policy row {number}: {problem}")


def _check_rows(definition: Definition, topic: Topic, rows: list[str]) -> None:
    table = ROW_OF[topic]
    nodes = [n.id for n in definition.nodes.values() if n.topic is topic]
    for number, node in enumerate(rows, 1):
        if node not in nodes:
            raise DefinitionRefused("form", f"{table} row {number}: {node!r} is no {topic} service task of the process")
        if node in rows[: number - 1]:
            raise DefinitionRefused("form", f"{table} row {number}: {node!r} has a row already")
    for node in nodes:
        if node not in rows:
            raise DefinitionRefused(node, f"a {topic} service task needs a [[{table}]] row in the form")


def _problems(form: Form) -> Iterator[str]:
    yield from _of_names(form)
    yield from _of_fields(form)
    for number, row in enumerate(form.policy, 1):
        if row.process not in ("", form.key):
            yield f"policy row {number}: the process is {form.key!r} here"
        yield from _numbered("policy", number, _of_row(row, form))
    for number, require in enumerate(form.requires, 1):
        yield from _numbered("require", number, _unknown_field(require.field, form))
        yield from _numbered("require", number, _of_condition(require, form.variables))
    for number, cc in enumerate(form.cc, 1):
        yield from _numbered("cc", number, _of_selectors(cc.who, form))
    for number, mail in enumerate(form.mails, 1):
        yield from _numbered("mail", number, _of_selectors((mail.to,), form))
        yield from _numbered("mail", number, _of_words((mail.subject, mail.body), form))
    yield from (f"summary: {problem}" for problem in _of_words((form.summary,), form))
    for number, bound in enumerate(form.bounds, 1):
        yield from _numbered("bound", number, _of_bound(bound, form))
    for name in form.identical:
        yield from (f"identical: {problem}" for problem in _unknown_field(name, form))
    if form.balance:
        yield from (f"balance: {problem}" for problem in _of_balance(form.balance, form))


def _numbered(table: str, number: int, problems: Iterable[str]) -> Iterator[str]:
    return (f"{table} row {number}: {problem}" for problem in problems)


def _of_names(form: Form) -> Iterator[str]:
    names = [f.name for f in form.fields] + [level.name for level in form.levels] + list(form.numbers)
    names += [bound.name for bound in form.bounds]
    for name in {n for n in names if names.count(n) > 1}:
        yield f"{name!r} is the name of two fields, levels, numbers or bounds"


def _of_fields(form: Form) -> Iterator[str]:
    for field in form.fields:
        for name, kind in ((field.half, FieldKind.HALF), (field.currency, FieldKind.CHOICE)):
            if name and not _is(form, name, kind):
                yield f"field {field.name!r}: {name!r} is no {kind} field"
    if form.days:
        days = form.days
        for name, kind in (
            (days.start, FieldKind.DATE),
            (days.start_half, FieldKind.HALF),
            (days.end, FieldKind.DATE),
            (days.end_half, FieldKind.HALF),
        ):
            if not _is(form, name, kind) or _may_be_empty(form.field(name)):
                yield f"days: {name!r} is no {kind} field that is always filled in"


def _of_row(row: Row, form: Form) -> Iterator[str]:
    persons = [f.name for f in form.fields if f.kind in PERSONS]
    levels = [*persons, *(level.name for level in form.levels)]
    if row.level not in levels:
        yield f"{row.level!r} is no level and no person field; known: {_listed(levels)}"
    elif row.others != "refused" and row.level not in persons:
        yield f"others: {row.level!r} is no person field; the table alone chooses there"
    yield from _of_condition(row, form.variables)
    yield from _of_selectors(row.who, form)


def _of_condition(row: Conditional, variables: Mapping[str, Type]) -> Iterator[str]:
    if not row.when:
        return
    try:
        found = check(parse(row.when), variables)
    except ExpressionRefused as wrong:
        yield f"when: {wrong}"
        return
    if found != "truth":
        yield f"when: gives {found}, not true or false"


def _of_selectors(who: Iterable[Selector], form: Form) -> Iterator[str]:
    for selector in who:
        if selector.names and selector.names not in form.people:
            yield f"who: {selector.names!r} is no person field and no level; known: {_listed(form.people)}"


def _of_words(all_words: Iterable[Words], form: Form) -> Iterator[str]:
    known = {f.name for f in form.fields} | ({DAYS} if form.days else set())
    for words in all_words:
        for found in BRACES.finditer(words.zh + words.en):
            if found[1] not in known:
                yield f"{found[0]} is no field; known: {_listed(known)}"


def _of_bound(bound: Bound, form: Form) -> Iterator[str]:
    """Its own condition is asked before there are sums."""
    field = form.field(bound.field)
    if field is None or field.kind not in NUMBERS:
        yield f"{bound.field!r} is no field with an amount or a number"
    for name in bound.per:
        yield from _unknown_field(name, form)
    if bound.limit not in form.numbers and not LIMIT.fullmatch(bound.limit):
        yield f"limit: {bound.limit!r} is neither a number of the form nor a number above 0"
    sums = {one.name for one in form.bounds}
    yield from _of_condition(bound, {name: kind for name, kind in form.variables.items() if name not in sums})


def _of_balance(balance: Balance, form: Form) -> Iterator[str]:
    yield from _unknown_field(balance.field, form)
    field = form.field(balance.field)
    if field and not field.option(balance.value):
        yield f"{balance.field!r} has no choice {balance.value!r}"
    if balance.allowance not in form.numbers:
        yield f"{balance.allowance!r} is no number of the form"
    if form.days is None:
        yield "is counted in working days, and the form has no [days]"


def _unknown_field(name: str, form: Form) -> Iterator[str]:
    if form.field(name) is None:
        yield f"{name!r} is no field; known: {_listed(f.name for f in form.fields)}"


def _is(form: Form, name: str, kind: FieldKind) -> bool:
    field = form.field(name)
    return field is not None and field.kind is kind


def _may_be_empty(field: FormField | None) -> bool:
    return field is None or not (field.required or field.default)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
