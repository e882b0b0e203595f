"""Who decides a user task, as its element in a BPMN file says."""

from __future__ import annotations

import re
from collections.abc import Collection
from decimal import Decimal
from xml.etree.ElementTree import Element

from tools.workflow.expressions import ExpressionRefused, Literally, Name, Pair, parse, variable
from tools.workflow.graph import DECISION, INITIATOR, DefinitionRefused, Mode
from tools.workflow.markup import BPMN, LOOP, extension, text

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")

UNTIL_REJECTED = Pair("==", Name(DECISION), Literally("reject"))
UNTIL_ONE = Pair(">=", Name("nrOfCompletedInstances"), Literally(Decimal(1)))
MODES = (
    ("false", UNTIL_REJECTED, Mode.ALL),
    ("true", UNTIL_REJECTED, Mode.ORDER),
    ("false", UNTIL_ONE, Mode.ANY),
)
"""`isSequential`, `completionCondition`, and what they mean together."""


def deciders(task: Element, people: frozenset[str], taken: Collection[str]) -> tuple[tuple[str, ...], Mode]:
    """The variables that hold a task's people, and how they decide together. `taken`: other variables' names.
    Raises `DefinitionRefused`."""
    name, assignee = task.attrib["id"], extension(task, "assignee")
    users, groups = extension(task, "candidateUsers"), extension(task, "candidateGroups")
    loop = task.find(f"{BPMN}{LOOP}")
    if not (assignee or users or groups):
        raise DefinitionRefused(name, "assignee: a task needs an assignee or candidates")
    if assignee and (users or groups):
        raise DefinitionRefused(name, "a task has either an assignee or candidates")
    if loop is not None:
        return _several(name, assignee, loop, people, taken)
    if assignee:
        return (_known(name, "assignee", assignee, people | {INITIATOR}),), Mode.ALL
    persons = [_known(name, "candidateUsers", part, people) for part in _split(users)]
    return _distinct(name, [*persons, *(_role(name, part) for part in _split(groups))]), Mode.ANY


def _several(
    task: str, assignee: str, loop: Element, people: frozenset[str], taken: Collection[str]
) -> tuple[tuple[str, ...], Mode]:
    """Everybody in a collection: all, one after another, or whoever is first."""
    each = extension(loop, "elementVariable")
    if not NAME.fullmatch(each) or each in {*taken, *people, INITIATOR}:
        raise DefinitionRefused(task, f"elementVariable: {each!r} should be a name of its own")
    if _variable(task, "assignee", assignee) != each:
        raise DefinitionRefused(task, f"assignee: a multi-instance task is assigned to ${{{each}}}")
    collection = extension(loop, "collection")
    named = collection if collection.startswith("${") else f"${{{collection}}}"
    return (_known(task, "collection", named, people),), _mode(task, loop)


def _mode(task: str, loop: Element) -> Mode:
    condition = loop.find(f"{BPMN}completionCondition")
    try:
        until = parse(text(condition)) if condition is not None else None
    except ExpressionRefused as wrong:
        raise DefinitionRefused(task, f"completionCondition: {wrong}") from None
    mode = next((m for s, u, m in MODES if (s, u) == (loop.get("isSequential", "false"), until)), None)
    if mode is None:
        known = "${decision == 'reject'}, or when not sequential ${nrOfCompletedInstances >= 1}"
        raise DefinitionRefused(task, f"completionCondition: should be {known}")
    return mode


def _known(task: str, what: str, written: str, people: frozenset[str]) -> str:
    name = _variable(task, what, written)
    if name not in people:
        known = ", ".join(sorted(people))
        raise DefinitionRefused(task, f"{what}: unknown person {name!r}; known: {known}")
    return name


def _variable(task: str, what: str, written: str) -> str:
    try:
        return variable(written)
    except ExpressionRefused as wrong:
        raise DefinitionRefused(task, f"{what}: {wrong}") from None


def _role(task: str, written: str) -> str:
    if not NAME.fullmatch(written):
        raise DefinitionRefused(task, f"candidateGroups: {written!r} is not the name of a role")
    return f"role:{written}"


def _split(written: str) -> list[str]:
    return [part.strip() for part in written.split(",")] if written else []


def _distinct(task: str, names: list[str]) -> tuple[str, ...]:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DefinitionRefused(task, f"candidates: {twice!r} is listed twice")
    return tuple(names)
