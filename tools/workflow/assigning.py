"""Who decides on a form and who is told, found out when it is filled in, so that the author sees it before confirming.

Never the author; nobody twice. A person field that decides is never filled in for anybody, but only whom the table
names is accepted in it, unless the row that fits lets the author choose.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from tools.names import CANDIDATES, describe_person, listed, resolve_person
from tools.spec import Person, ToolError
from tools.workflow.authority import MOST_ADDED
from tools.workflow.expressions import Value
from tools.workflow.forms import PERSONS, FieldKind, Form, FormField, Level, find_missing
from tools.workflow.graph import Definition, Topic
from tools.workflow.paths import asked, happy_paths, twice
from tools.workflow.policy import Company, Row, Selector
from tools.workflow.state import Filled, Kind, Request, Task

ROLE = "role:"
"""Before a role's name in `Node.who`: every holder."""
SEVERAL = re.compile(r"[,，、;；\n]|(?<=>)\s*(?=<@)")
"""Between several persons."""


def deciding(definition: Definition) -> frozenset[str]:
    """The names that stand for those who decide somewhere."""
    return frozenset(name for node in definition.nodes.values() for name in node.who)


def with_people(
    form: Form, definition: Definition, filled: Filled, people: Sequence[Person], author: Person, rows: Sequence[Row]
) -> Filled:
    """The form with persons as ids and everybody chosen. `rows` come before the form's own.
    Raises `ToolError` naming the field and the fix."""
    decides = deciding(definition)
    persons = (f for f in form.fields if f.kind in PERSONS)
    values = {f.name: _ids(f, filled.values[f.name], people, author, f.name in decides) for f in persons}
    filled = filled.model_copy(update={"values": {**filled.values, **values}})
    seats = _Seats(form, definition, filled, Company(people, author), (*rows, *form.policy))
    seats.refuse_missing()
    seats.judge_choices()
    seats.choose()
    seats.refuse_twice()
    seats.tell()
    return filled.model_copy(update={"people": seats.chosen, "exceptions": seats.exceptions})


def find_successors(
    form: Form, definition: Definition, request: Request, task: Task, company: Company, rows: Sequence[Row]
) -> tuple[Person, ...] | None:
    """Whom the rules name now in place of the task's assignee; None if the assignee may decide. `company`: the people
    as they are now. Only who was asked by a rule is judged: somebody whom the author chose by a row that permits it,
    or to whom the task was transferred, added or escalated, has it from a person or a timer and keeps it."""
    node = definition.nodes.get(task.node)
    asked = [name for name in node.who if task.assignee in request.filled.holders(name)] if node else []
    if task.kind is not Kind.APPROVE or not asked:
        return None
    seats = _Seats(form, definition, request.filled, company, (*rows, *form.policy))
    if any(seats.lets_decide(name, task.assignee) for name in asked):
        return None
    return tuple({p.id: p for name in asked for p in seats.named(name)}.values())


def _ids(field: FormField, text: str, people: Sequence[Person], author: Person, decides: bool) -> str:
    """The persons that a text names, as ids with commas between."""
    parts = SEVERAL.split(text) if field.kind is FieldKind.PEOPLE else [text]
    named = tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))
    if len(named) > MOST_ADDED:
        message = f"{field.name}: {len(named)} people are named, at most {MOST_ADDED}; ask for fewer"
        raise ToolError("too_many", message, ask=True, field=field.name, label=field.label.both, most=MOST_ADDED)
    found = [resolve_person(people, part, field=field.name).id for part in named]
    if author.id in found and decides:
        message = f"{field.name}: nobody approves their own request; ask for somebody else"
        raise ToolError("own_approver", message, ask=True, field=field.name)
    if author.id in found:
        message = f"{field.name}: the author cannot stand here; ask for somebody else or leave it out"
        raise ToolError("own_person", message, ask=True, field=field.name, label=field.label.both)
    return ",".join(dict.fromkeys(found))


def find_unserved(form: Form, definition: Definition, rows: Sequence[Row], people: Sequence[Person]) -> list[Person]:
    """Everybody for whom the rules name nobody in a field that decides, and permit no choice: they can ask for nothing.
    Conditions of rows are left aside, since there is no form yet: who has a row that may hold is served."""
    decides = deciding(definition)
    fields = [f.name for f in form.fields if f.kind in PERSONS and f.name in decides]

    authors = [p for p in people if p.active]
    if not authors:
        return []
    everybody = Company(people, authors[0])

    def is_served(author: Person, field: str) -> bool:
        company = everybody.seen_by(author)
        fitting = [row for row in (*rows, *form.policy) if row.level == field and row.fits_department(author)]
        return any(row.others == "flagged" or company.deciders(row.who, lambda name: (), many=False) for row in fitting)

    return [author for author in authors if not all(is_served(author, one) for one in fields)]


class Unnamed(ToolError):
    """Nobody is named in fields that decide, and the rules name one person for each: nothing else is missing."""

    def __init__(self, error: ToolError, named: Mapping[str, str]) -> None:
        super().__init__(error.code, error.text, ask=error.ask, field=error.field)
        self.params, self.named = error.params, named
        """Field → person id."""


class _Seats:
    """Everybody's place in one request, filled step by step."""

    def __init__(
        self,
        form: Form,
        definition: Definition,
        filled: Filled,
        company: Company,
        rows: tuple[Row, ...],
    ) -> None:
        self._form, self._definition, self._filled = form, definition, filled
        self._company, self._rows = company, rows
        self._paths = happy_paths(definition, filled)
        self._names = {name: node for node in asked(self._paths) for name in node.who}
        self._values: Mapping[str, Value] = {**filled.values, **filled.numbers}
        self.chosen: dict[str, tuple[str, ...]] = {}
        self.exceptions: dict[str, tuple[str, ...]] = {}
        """Field → whom the rules name for it, where somebody else was chosen."""

    def held(self, name: str) -> tuple[str, ...]:
        return self.chosen.get(name) or self._filled.holders(name)

    def refuse_missing(self) -> None:
        """Every field that is needed for this very form, at once, and whom to suggest."""
        needed = {r.field for r in self._form.requires if r.holds(self._values)} | self._names.keys()
        missing = [f for f in self._form.fields if f.name in needed and not self._filled.values[f.name]]
        deciding_here = [f for f in missing if f.name in self._names]
        hint = "".join(map(self._suggest, deciding_here))
        if error := find_missing(missing, hint):
            named = {f.name: self.named(f.name) for f in deciding_here}
            is_clear = len(named) == len(missing) and all(len(people) == 1 for people in named.values())
            raise Unnamed(error, {name: people[0].id for name, people in named.items()}) if is_clear else error

    def judge_choices(self) -> None:
        """Who is named in a field that decides is one of those whom the table names, or the row lets the author
        choose. A field that nobody is asked by on the way of this form is judged as well: a return or a rejection may
        lead there."""
        decides = deciding(self._definition)
        for field in self._form.fields:
            if field.kind not in PERSONS or field.name not in decides:
                continue
            named = self.named(field.name)
            beside = [p for p in self._filled.holders(field.name) if p not in _ids_of(named)]
            if beside and not self._lets_choose(field.name):
                raise _refusal(field, named, self._company, beside)
            if beside:
                self.exceptions[field.name] = _ids_of(named)

    def choose(self) -> None:
        """The levels in the form's order, then the roles of candidate groups."""
        for level in self._form.levels:
            if level.name in self._names:
                self.chosen[level.name] = self._level(level)
        for name, node in self._names.items():
            if name.startswith(ROLE):
                self.chosen[name] = _ids_of(self.named(name)) or _nobody(name, {"zh": node.name, "en": node.name})

    def refuse_twice(self) -> None:
        """Nobody decides at two nodes of one way."""
        if name := next(filter(None, (twice(path, self.held) for path in self._paths)), ""):
            field = name if self._form.field(name) else ""
            message = f"{name}: the same person would decide two levels; ask for somebody else"
            raise ToolError("own_level", message, ask=True, field=field)

    def tell(self) -> None:
        """Who gets copies and mails, wherever the request may go."""
        told = {row.node: row.who for row in self._form.cc} | {row.node: (row.to,) for row in self._form.mails}
        for node in self._definition.nodes.values():
            if node.topic in (Topic.CC, Topic.MAIL):
                people = [p for s in told.get(node.id, ()) for p in self._company.selected(s, self.held)]
                if others := _ids_of(p for p in people if p.id != self._company.author.id):
                    self.chosen[node.id] = others

    def _level(self, level: Level) -> tuple[str, ...]:
        able = self.named(level.name)
        return _ids_of(able if level.many else able[:1]) or _nobody(level.name, level.label.both)

    def named(self, name: str) -> tuple[Person, ...]:
        """Whom the table names for a field, a level or a role, in their order; nobody who has a place before it."""
        if name.startswith(ROLE):
            return self._company.deciders([_role(name)], self.held, self._placed_before(name))
        row = self._row(name)
        who = row.who if row else ()
        return self._company.deciders(who, self.held, self._placed_before(name), many=self._is_for_several(name))

    def lets_decide(self, name: str, person: str) -> bool:
        """True if the rules name this person by `name` now, or do not say: the field was filled in by a version that
        did not ask them, the author chose by a row that permits it, or who is above an author who has left cannot be
        told any more."""
        if self._form.field(name) and (self._filled.exceptions is None or name in self._filled.exceptions):
            return True
        row = self._row(name)
        if row and not self._company.author.active and any(s.kind == "manager" for s in row.who):
            return True
        return person in _ids_of(self.named(name))

    def _row(self, name: str) -> Row | None:
        """The first one that fits."""
        author = self._company.author
        return next((row for row in self._rows if row.applies(name, self._values, author)), None)

    def _lets_choose(self, field: str) -> bool:
        row = self._row(field)
        return row is not None and row.others == "flagged"

    def _is_for_several(self, name: str) -> bool:
        field, level = self._form.field(name), next((one for one in self._form.levels if one.name == name), None)
        return (field is not None and field.kind is FieldKind.PEOPLE) or (level is not None and level.many)

    def _placed_before(self, name: str) -> frozenset[str]:
        """Who decides on this form by a name that has its place earlier: the fields, then the levels, each in the
        form's order, then the roles."""
        fields_and_levels = [f.name for f in self._form.fields] + [level.name for level in self._form.levels]
        order = [one for one in fields_and_levels if one in self._names]
        order += [one for one in self._names if one.startswith(ROLE)]
        earlier = order[: order.index(name)] if name in order else []
        return frozenset(p for one in earlier for p in self.held(one))

    def _suggest(self, field: FormField) -> str:
        """What the model may offer for a missing field. Raises `ToolError` where there is nobody to offer and nobody
        may be chosen: asking would lead nowhere."""
        able, free = self.named(field.name), self._lets_choose(field.name)
        if not able and not free:
            raise _refusal(field, able, self._company)
        offer = " or ".join(describe_person(p, self._company.people, "en") for p in able[:CANDIDATES])
        hint = f" For {field.name} you may offer {offer} as a suggestion; the person has to agree." if offer else ""
        return hint + ("" if free else " Nobody else is accepted there.")


def _role(name: str) -> Selector:
    return Selector(kind="role", name=name.removeprefix(ROLE))


def _ids_of(people: Iterable[Person]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(p.id for p in people))


def _refusal(field: FormField, named: Sequence[Person], company: Company, chosen: Sequence[str] = ()) -> ToolError:
    """Somebody was chosen, or has to be, where the rules decide. `chosen`: person ids."""
    label = field.label.both
    if not named:
        message = (
            f"{field.name}: the rules name nobody who could decide for this person. An administrator has to enter "
            f'their manager in the directory, or to permit a choice in the policy table (others = "flagged")'
        )
        return ToolError("no_approver", message, field=field.name, label=label)
    others = [company.name_of(person) for person in chosen]
    offered = "; ".join(f"{describe_person(p, company.people, 'en')} = {p.id}" for p in named[:CANDIDATES])
    message = f"{field.name}: not {', '.join(others)[:200]}, but by the rules: {offered}. Offer whom they name"
    names = listed([p.name for p in named[:CANDIDATES]])
    return ToolError(
        "other_approver",
        message,
        ask=True,
        field=field.name,
        people=tuple(p.id for p in named[:CANDIDATES]),
        label=label,
        names=names,
        chosen=listed(others),
    )


def _nobody(name: str, label: dict[str, str]) -> NoReturn:
    message = f"nobody can be {name}: whoever the rules name is missing, the author, or decides already"
    raise ToolError("no_level", f"{message}. An administrator has to add somebody", label=label)
