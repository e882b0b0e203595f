"""Assigns the deciders of a form and the recipients of copies when it is filled in, so that the author sees them before
confirming.

The author never decides, and nobody decides twice. A person field that decides is never filled in automatically. The
field accepts only people whom the table names, unless the matching row lets the author choose."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tools.people.names import (
    CANDIDATES,
    describe_person,
    join_in_both_languages,
    list_names_by_language,
    resolve_person,
)
from tools.spec import Person, ToolError
from tools.workflow.bpmn.expressions import InvalidExpressionError, Value
from tools.workflow.bpmn.graph import INITIATOR, ProcessDefinition
from tools.workflow.engine.authority import MAX_PEOPLE
from tools.workflow.engine.paths import find_repeated_decider, list_approval_nodes, trace_happy_paths
from tools.workflow.engine.state import COPY_PREFIX, FilledForm, Request, Task, TaskKind
from tools.workflow.process.forms import PERSONS, FieldKind, Form, FormField, build_field_error, check_missing_fields
from tools.workflow.process.policy import AssigneeResolver, PeopleSelector, PolicyRow

if TYPE_CHECKING:
    from tools.workflow.process.definition import Process  # which assigns people when it fills in a form

ROLE_PREFIX = "role:"
"""Prefix of a role in `FlowNode.who`, which means all its holders."""
PERSON_SEPARATOR = re.compile(r"[,，、;；\n]|(?<=>)\s*(?=<@)")
"""Separators between persons."""


def assign_people(
    process: Process, filled: FilledForm, people: Sequence[Person], author: Person, rows: Sequence[PolicyRow]
) -> FilledForm:
    """The form with persons as ids and all deciders chosen. `rows` come before the form's own rows. Raises `ToolError`,
    which names the field and the fix."""
    decides = process.deciding_names
    persons = (f for f in process.form.fields if f.kind in PERSONS)
    values = {f.name: _resolve_ids(f, filled.values[f.name], people, author, f.name in decides) for f in persons}
    filled = filled.model_copy(update={"values": {**filled.values, **values}})
    seats = SeatAssignment(process, filled, AssigneeResolver(people, author), rows)
    seats.reject_missing_fields()
    seats.require_allowed_choices()
    seats.choose_people()
    seats.reject_duplicate_deciders()
    seats.choose_recipients()
    return filled.model_copy(update={"people": seats.assigned_people, "exceptions": seats.exceptions})


def preview_people(
    process: Process,
    filled: FilledForm,
    people: Sequence[Person],
    author: Person,
    rows: Sequence[PolicyRow],
    errors: list[ToolError],
) -> tuple[FilledForm, SeatAssignment | None]:
    """Preview `assign_people` for an incomplete form, which lacks the values that are still to come: the form with
    persons as ids, and its seats, or None while a value is missing on which the path depends. Where nobody is named,
    the people whom the rules name count as named. Errors are added to `errors`."""
    values = dict[str, str]()
    for field in (f for f in process.form.fields if f.kind in PERSONS):
        try:
            named = filled.values.get(field.name, "")
            values[field.name] = _resolve_ids(field, named, people, author, field.name in process.deciding_names)
        except ToolError as error:
            errors.append(error)
            values[field.name] = ""
    filled = filled.model_copy(update={"values": {**filled.values, **values}})
    try:
        seats = SeatAssignment(process, filled, AssigneeResolver(people, author), rows)
    except InvalidExpressionError:
        return filled, None
    wrong = {error.field for error in errors}
    errors += [error for error in seats.suggest_people() if error.field not in wrong]
    return filled, seats


def find_successors(
    process: Process, request: Request, task: Task, company: AssigneeResolver, rows: Sequence[PolicyRow]
) -> tuple[Person, ...] | None:
    """The people whom the rules now name in place of the task's assignee; None if the assignee may decide. `company`
    has the current people. Only assignees named by a rule are judged. Other assignees keep the task: a person chosen by
    the author by a row that permits it, or a person who got the task by transfer, add sign or escalation."""
    node = process.definition.nodes.get(task.node)
    asked_names = [name for name in node.who if task.assignee in request.filled.resolve_people(name)] if node else []
    if task.kind is not TaskKind.APPROVE or not asked_names:
        return None
    seats = SeatAssignment(process, request.filled, company, rows)
    if any(seats.can_decide(name, task.assignee) for name in asked_names):
        return None
    return tuple({p.id: p for name in asked_names for p in seats.list_candidates(name)}.values())


def _resolve_ids(field: FormField, text: str, people: Sequence[Person], author: Person, decides: bool) -> str:
    """The persons in a text, as ids separated by commas. Raises `ToolError`."""
    parts = PERSON_SEPARATOR.split(text) if field.kind is FieldKind.PEOPLE else [text]
    names = tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))
    if len(names) > MAX_PEOPLE:
        message = f"{len(names)} people are named, at most {MAX_PEOPLE}; ask for fewer"
        raise build_field_error("too_many", field, message, most=MAX_PEOPLE)
    ids = [resolve_person(people, part, field=field.name).id for part in names]
    if author.id in ids and decides:
        message = f"{field.name}: nobody approves their own request; ask for somebody else"
        raise ToolError("own_approver", message, needs_person=True, field=field.name)
    if author.id in ids:
        message = "the author cannot stand here; ask for somebody else or leave it out"
        raise build_field_error("own_person", field, message)
    return ",".join(dict.fromkeys(ids))


def find_unserved(
    form: Form, definition: ProcessDefinition, rows: Sequence[PolicyRow], people: Sequence[Person]
) -> dict[str, list[Person]]:
    """Field, level or role that decides → all authors for whom the rules name nobody there and permit no choice. Their
    requests cannot get that far. Conditions of rows are ignored, because there is no form yet. One row that may apply
    is enough, and so is one that names somebody by the form."""
    authors = [p for p in people if p.active]
    if not authors:
        return {}
    everybody = AssigneeResolver(people, authors[0])

    def is_served(author: Person, fitting: Sequence[PolicyRow]) -> bool:
        company = everybody.copy_for_author(author)
        return any(
            row.others == "flagged"
            or any(selector.variable_name for selector in row.who)
            or company.choose_assignees(row.who, lambda name: (), many=False)
            for row in fitting
            if row.is_for_department(author)
        )

    unserved = dict[str, list[Person]]()
    for name in sorted(definition.deciding_names - {INITIATOR}):
        fitting = _list_rows(name, form, rows)
        if lacking := [author for author in authors if not is_served(author, fitting)]:
            unserved[name] = lacking
    return unserved


def find_dead_ends(
    form: Form, definition: ProcessDefinition, rows: Sequence[PolicyRow], roles: Collection[str] | None
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield (user task, roles) for each task that nobody can ever decide: no row names anybody, or only holders of
    these roles, which nobody has. `roles` has the roles that somebody holds; None if they are unknown."""
    for task, name in ((node.id, name) for node in definition.nodes.values() for name in node.who):
        fitting = _list_rows(name, form, rows)
        needed = frozenset(selector.role_name for row in fitting for selector in row.who)
        if name == INITIATOR or "" in needed or any(row.others == "flagged" for row in fitting):
            continue
        if not needed or (roles is not None and needed.isdisjoint(roles)):
            yield task, needed


def _list_rows(name: str, form: Form, rows: Sequence[PolicyRow]) -> list[PolicyRow]:
    """The rows for a field, a level or a role. The graph itself names the holders of a role."""
    if name.startswith(ROLE_PREFIX):
        return [PolicyRow(level=name, who=(_build_role_selector(name),))]
    return [row for row in (*rows, *form.policy) if row.level == name]


class MissingApproverError(ToolError):
    """Fields that decide are empty, and the rules name one person for each. Nothing else is missing."""

    def __init__(self, error: ToolError, suggestions: Mapping[str, str]) -> None:
        super().__init__(error.code, error.text, needs_person=error.ask, field=error.field)
        self.params, self.named = error.params, suggestions
        """Field → person id."""


class SeatAssignment:
    """The step-by-step assignment of seats for one request."""

    def __init__(
        self, process: Process, filled: FilledForm, company: AssigneeResolver, rows: Sequence[PolicyRow]
    ) -> None:
        self._form, self._definition, self._filled = process.form, process.definition, filled
        self._company, self._rows = company, (*rows, *process.form.policy)
        self._paths = trace_happy_paths(process.definition, filled)
        self._nodes_by_name = {name: node for node in list_approval_nodes(self._paths) for name in node.who}
        self._values: Mapping[str, Value] = {**filled.values, **filled.numbers}
        self.assigned_people: dict[str, tuple[str, ...]] = {}
        self.exceptions: dict[str, tuple[str, ...]] = {}
        """Field → the people whom the rules name for it, where somebody else was chosen."""

    def resolve_people(self, name: str) -> tuple[str, ...]:
        return self.assigned_people.get(name) or self._filled.resolve_people(name)

    def list_needed_fields(self) -> frozenset[str]:
        """Fields that a row requires, or that decide on this form's path."""
        asked = {row.field for row in self._form.requires if row.is_condition_met(self._values)}
        return frozenset(f.name for f in self._form.fields if f.name in asked or f.name in self._nodes_by_name)

    def suggest_people(self) -> Iterator[ToolError]:
        """Give each empty seat to the person whom the rules clearly name; yield the errors that prevent an
        assignment."""
        for field in self._form.fields:
            if field.name not in self._nodes_by_name or self._filled.values.get(field.name):
                continue
            able = self.list_candidates(field.name)
            if len(able) == 1:
                self.assigned_people[field.name] = (able[0].id,)
            elif not able and not self._can_author_choose(field.name):
                yield _build_approver_error(field, able, self._company)
        for step in (self.require_allowed_choices, self.choose_people, self.reject_duplicate_deciders):
            try:
                step()
            except ToolError as error:
                yield error

    def list_deciders(self) -> Iterator[tuple[dict[str, str], tuple[str, ...]]]:
        """Yield (label, person ids) of everybody who would decide, in the order of the path."""
        shown = set[str]()
        for node in list_approval_nodes(self._paths[:1]):
            for name in node.who:
                if name not in shown and (people := self.resolve_people(name)):
                    shown.add(name)
                    level = next((one for one in self._form.levels if one.name == name), None)
                    known = self._form.find_field(name) or level
                    yield known.label.by_language if known else {"zh": node.name, "en": node.name}, people

    def reject_missing_fields(self) -> None:
        """Raise one error about all fields missing for this form, with suggestions to the model; or the error about a
        field for which there is nobody to suggest and nobody may be chosen, because asking would lead nowhere."""
        needed = self.list_needed_fields()
        missing = [f for f in self._form.fields if f.name in needed and not self._filled.values[f.name]]
        deciding_here = [f for f in missing if f.name in self._nodes_by_name]
        hint = ""
        for field in deciding_here:
            able, is_free = self.list_candidates(field.name), self._can_author_choose(field.name)
            if not able and not is_free:
                raise _build_approver_error(field, able, self._company)
            if offer := " or ".join(describe_person(p, self._company.people, "") for p in able[:CANDIDATES]):
                hint += f" For {field.name} you may offer {offer} as a suggestion; the person has to agree."
            hint += "" if is_free else " Nobody else is accepted there."
        if error := check_missing_fields(missing, hint):
            named = {f.name: self.list_candidates(f.name) for f in deciding_here}
            is_clear = len(named) == len(missing) and all(len(people) == 1 for people in named.values())
            if is_clear:
                raise MissingApproverError(error, {name: people[0].id for name, people in named.items()})
            raise error

    def require_allowed_choices(self) -> None:
        """Check that each person in a field that decides is named by the table, or that the row lets the author choose.
        A field that this form's path does not use is checked as well, because a return or a rejection may lead there.
        Raises `ToolError`."""
        decides = self._definition.deciding_names
        for field in self._form.fields:
            if field.kind not in PERSONS or field.name not in decides:
                continue
            candidates = self.list_candidates(field.name)
            beside = [p for p in self._filled.resolve_people(field.name) if p not in _list_ids(candidates)]
            if beside and not self._can_author_choose(field.name):
                raise _build_approver_error(field, candidates, self._company, beside)
            if beside:
                self.exceptions[field.name] = _list_ids(candidates)

    def choose_people(self) -> None:
        """Choose the people of the levels in the form's order, then those of the candidate groups' roles. Raises
        `ToolError`."""
        nodes = self._nodes_by_name
        seats = [(one.name, one.label.by_language, one.many) for one in self._form.levels if one.name in nodes]
        roles = [name for name in nodes if name.startswith(ROLE_PREFIX)]
        seats += [(role, {"zh": nodes[role].name, "en": nodes[role].name}, True) for role in roles]
        for name, label, is_for_several in seats:
            able = self.list_candidates(name)
            if not able:
                message = f"nobody can be {name}: whoever the rules name is missing, the author, or decides already"
                raise ToolError("no_level", f"{message}. An administrator has to add somebody", label=label)
            self.assigned_people[name] = _list_ids(able if is_for_several else able[:1])

    def reject_duplicate_deciders(self) -> None:
        """Refuse a person who would decide at two nodes of one path. Raises `ToolError` `own_level`."""
        if name := next(filter(None, (find_repeated_decider(path, self.resolve_people) for path in self._paths)), ""):
            field = name if self._form.find_field(name) else ""
            message = f"{name}: the same person would decide two levels; ask for somebody else"
            raise ToolError("own_level", message, needs_person=True, field=field)

    def choose_recipients(self) -> None:
        """Choose the recipients of copies and emails, wherever the request may go. The author's manager gets a copy of
        a request that passes by rule."""
        told = {row.node: row.who for row in self._form.cc} | {row.node: (row.to,) for row in self._form.mails}
        for node in self._definition.nodes.values():
            if node.topic is not None:
                who = (PeopleSelector(kind="manager"),) if node.is_rule else told.get(node.id, ())
                people = [p for s in who for p in self._company.select_people(s, self.resolve_people)]
                if others := _list_ids(p for p in people if p.id != self._company.author.id):
                    self.assigned_people[f"{COPY_PREFIX}{node.id}" if node.is_rule else node.id] = others

    def list_candidates(self, name: str) -> tuple[Person, ...]:
        """The people whom the table names for a field, a level or a role, in order, except those with an earlier
        place."""
        if name.startswith(ROLE_PREFIX):
            return self._company.choose_assignees(
                [_build_role_selector(name)], self.resolve_people, self._list_earlier_deciders(name)
            )
        row = self._find_row(name)
        who = row.who if row else ()
        field, level = self._form.find_field(name), next((one for one in self._form.levels if one.name == name), None)
        is_for_several = (field is not None and field.kind is FieldKind.PEOPLE) or (level is not None and level.many)
        return self._company.choose_assignees(
            who, self.resolve_people, self._list_earlier_deciders(name), many=is_for_several
        )

    def can_decide(self, name: str, person: str) -> bool:
        """Whether the rules now name this person by `name`, or leave the choice open. The choice is open if an earlier
        version without this check filled in the field, or if the author chose by a row that permits it. The choice is
        also open if the author has left and their superiors are unknown."""
        if self._form.find_field(name) and (self._filled.exceptions is None or name in self._filled.exceptions):
            return True
        row = self._find_row(name)
        if row and not self._company.author.active and any(s.kind == "manager" for s in row.who):
            return True
        return person in _list_ids(self.list_candidates(name))

    def _find_row(self, name: str) -> PolicyRow | None:
        """The first row that applies."""
        return next((row for row in self._rows if row.is_applicable(name, self._values, self._company.author)), None)

    def _can_author_choose(self, field: str) -> bool:
        row = self._find_row(field)
        return row is not None and row.others == "flagged"

    def _list_earlier_deciders(self, name: str) -> frozenset[str]:
        """Deciders on this form under an earlier name: the fields, then the levels, each in the form's order, then the
        roles."""
        fields_and_levels = [f.name for f in self._form.fields] + [level.name for level in self._form.levels]
        order = [one for one in fields_and_levels if one in self._nodes_by_name]
        order += [one for one in self._nodes_by_name if one.startswith(ROLE_PREFIX)]
        earlier = order[: order.index(name)] if name in order else []
        return frozenset(p for one in earlier for p in self.resolve_people(one))


def _build_role_selector(name: str) -> PeopleSelector:
    return PeopleSelector(kind="role", name=name.removeprefix(ROLE_PREFIX))


def _list_ids(people: Iterable[Person]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(p.id for p in people))


def _build_approver_error(
    field: FormField, named: Sequence[Person], company: AssigneeResolver, chosen: Sequence[str] = ()
) -> ToolError:
    """Build the error about a field that the rules decide, whose chosen person does not fit or is missing. `chosen` has
    person ids."""
    if not named:
        message = (
            f"{field.name}: the rules name nobody who could decide for this person. An administrator has to enter "
            f'their manager in the directory, or to permit a choice in the policy table (others = "flagged")'
        )
        return ToolError("no_approver", message, field=field.name, label=field.label.by_language)
    chosen_names = join_in_both_languages(map(company.get_person_names, chosen))
    offered = "; ".join(f"{describe_person(p, company.people, '')} = {p.id}" for p in named[:CANDIDATES])
    message = f"not {chosen_names['en'][:200]}, but by the rules: {offered}. Offer whom they name"
    names = join_in_both_languages(map(list_names_by_language, named[:CANDIDATES]))
    ids = tuple(p.id for p in named[:CANDIDATES])
    return build_field_error("other_approver", field, message, people=ids, names=names, chosen=chosen_names)
