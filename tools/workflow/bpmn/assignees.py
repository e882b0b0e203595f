"""Reads from a user task in a BPMN file who decides the task."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from decimal import Decimal
from xml.etree.ElementTree import Element

from tools.workflow.bpmn.expressions import (
    BinaryOperation,
    Constant,
    InvalidExpressionError,
    Variable,
    parse_expression,
    parse_variable,
)
from tools.workflow.bpmn.graph import DECISION, INITIATOR, InvalidDefinitionError, VotingMode
from tools.workflow.bpmn.xml import BPMN, LOOP, get_element_text, get_extension_attribute

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")

UNTIL_REJECTED = BinaryOperation("==", Variable(DECISION), Constant("reject"))
UNTIL_ONE = BinaryOperation(">=", Variable("nrOfCompletedInstances"), Constant(Decimal(1)))
MODES = (
    ("false", UNTIL_REJECTED, VotingMode.ALL),
    ("true", UNTIL_REJECTED, VotingMode.ORDER),
    ("false", UNTIL_ONE, VotingMode.ANY),
)
"""Triples of `isSequential`, `completionCondition` and their joint meaning."""
SEAT_COUNT = "${execution.getVariable('%s:%s:n')}"
SEAT_PERSON = "${execution.getVariable('%s:%s:'.concat(loopCounter))}"
"""How several deciders are written for an engine that takes no lists: how many there are, and each of them, by the task
and the names of its people."""
SEATS = re.compile(r"\$\{execution\.getVariable\('[^':]+:([^':]+(?::[^':]+)*):'\.concat\(loopCounter\)\)\}")


def format_seat_variables(task: str, who: Collection[str], people: Sequence[str]) -> dict[str, str]:
    """The variables of a task with several deciders that `SEAT_COUNT` and `SEAT_PERSON` read."""
    name = f"{task}:{','.join(who)}:"
    return {f"{name}n": str(len(people)), **{f"{name}{n}": person for n, person in enumerate(people)}}


def list_written_deciders(task: Element) -> tuple[str, ...]:
    """The names of the people of a step with several deciders, in a file that compiles. Empty for a step of one, and
    for one written with counted variables."""
    loop = task.find(f"{BPMN}{LOOP}")
    if loop is not None:
        return tuple(filter(None, [get_extension_attribute(loop, "collection").strip("${}")]))
    users, groups = get_extension_attribute(task, "candidateUsers"), get_extension_attribute(task, "candidateGroups")
    return (*map(parse_variable, _split_names(users)), *(f"role:{role}" for role in _split_names(groups)))


def parse_assignees(
    task: Element, people: frozenset[str], taken: Collection[str]
) -> tuple[tuple[str, ...], VotingMode]:
    """The variables that hold a task's people, and how these decide together. `taken` has the names of other variables.
    Raises `InvalidDefinitionError`."""
    name, assignee = task.attrib["id"], get_extension_attribute(task, "assignee")
    users, groups = get_extension_attribute(task, "candidateUsers"), get_extension_attribute(task, "candidateGroups")
    loop = task.find(f"{BPMN}{LOOP}")
    if not (assignee or users or groups):
        raise InvalidDefinitionError(name, "assignee: a task needs an assignee or candidates")
    if assignee and (users or groups):
        raise InvalidDefinitionError(name, "a task has either an assignee or candidates")
    if loop is not None:
        return _parse_multi_instance(name, assignee, loop, people, taken)
    if assignee:
        return (_parse_known_person(name, "assignee", assignee, people | {INITIATOR}),), VotingMode.ALL
    candidates = [_parse_known_person(name, "candidateUsers", part, people) for part in _split_names(users)]
    for role in _split_names(groups):
        if not NAME.fullmatch(role):
            raise InvalidDefinitionError(name, f"candidateGroups: {role!r} is not the name of a role")
        candidates.append(f"role:{role}")
    twice = next((one for one in candidates if candidates.count(one) > 1), None)
    if twice is not None:
        raise InvalidDefinitionError(name, f"candidates: {twice!r} is listed twice")
    return tuple(candidates), VotingMode.ANY


def _parse_multi_instance(
    task: str, assignee: str, loop: Element, people: frozenset[str], taken: Collection[str]
) -> tuple[tuple[str, ...], VotingMode]:
    """Parse a collection of people, or counted variables: all at once, one after another, or the first who decides."""
    element_variable = get_extension_attribute(loop, "elementVariable")
    if (count := loop.find(f"{BPMN}loopCardinality")) is not None:
        names = found[1] if (found := SEATS.fullmatch(assignee)) else ""
        if (get_element_text(count), assignee) != (SEAT_COUNT % (task, names), SEAT_PERSON % (task, names)):
            raise InvalidDefinitionError(task, "loopCardinality: only as `processes export` writes it")
        who = tuple(names.split(","))
        for name in who:
            if not name.startswith("role:"):
                _parse_known_person(task, "assignee", f"${{{name}}}", people)
    else:
        if not NAME.fullmatch(element_variable) or element_variable in {*taken, *people, INITIATOR}:
            raise InvalidDefinitionError(task, f"elementVariable: {element_variable!r} should be a name of its own")
        if _parse_variable(task, "assignee", assignee) != element_variable:
            reason = f"assignee: a multi-instance task is assigned to ${{{element_variable}}}"
            raise InvalidDefinitionError(task, reason)
        collection = get_extension_attribute(loop, "collection")
        named = collection if collection.startswith("${") else f"${{{collection}}}"
        who = (_parse_known_person(task, "collection", named, people),)
    condition = loop.find(f"{BPMN}completionCondition")
    try:
        until = parse_expression(get_element_text(condition)) if condition is not None else None
    except InvalidExpressionError as wrong:
        raise InvalidDefinitionError(task, f"completionCondition: {wrong}") from None
    mode = next((m for s, u, m in MODES if (s, u) == (loop.get("isSequential", "false"), until)), None)
    if mode is None:
        known = "${decision == 'reject'}, or when not sequential ${nrOfCompletedInstances >= 1}"
        raise InvalidDefinitionError(task, f"completionCondition: should be {known}")
    return who, mode


def _parse_known_person(task: str, attribute: str, written: str, people: frozenset[str]) -> str:
    name = _parse_variable(task, attribute, written)
    if name not in people:
        known = ", ".join(sorted(people))
        raise InvalidDefinitionError(task, f"{attribute}: unknown person {name!r}; known: {known}")
    return name


def _parse_variable(task: str, attribute: str, written: str) -> str:
    try:
        return parse_variable(written)
    except InvalidExpressionError as wrong:
        raise InvalidDefinitionError(task, f"{attribute}: {wrong}") from None


def _split_names(written: str) -> list[str]:
    return [part.strip() for part in written.split(",")] if written else []
