"""Who decides on a form and who is told, found out when it is filled in, so that the author sees it before confirming.

Never the author; nobody twice. A person field that decides is never filled in for anybody: the table only suggests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from tools.names import described, the_one
from tools.spec import Person, ToolError
from tools.workflow.authority import MOST_ADDED
from tools.workflow.expressions import Value
from tools.workflow.forms import PERSONS, FieldKind, Form, FormField, Level, refuse_missing
from tools.workflow.graph import Definition, Node, Topic
from tools.workflow.paths import asked, happy_paths, twice
from tools.workflow.policy import Company, Row, Selector
from tools.workflow.state import Filled

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
    seats = _Seats(form, filled, Company(people, author), (*rows, *form.policy), happy_paths(definition, filled))
    seats.refuse_missing()
    seats.choose()
    seats.refuse_twice()
    seats.tell(definition)
    return filled.model_copy(update={"people": seats.chosen})


def _ids(field: FormField, text: str, people: Sequence[Person], author: Person, decides: bool) -> str:
    """The persons that a text names, as ids with commas between."""
    parts = SEVERAL.split(text) if field.kind is FieldKind.PEOPLE else [text]
    named = tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))
    if len(named) > MOST_ADDED:
        message = f"{field.name}: {len(named)} people are named, at most {MOST_ADDED}; ask for fewer"
        raise ToolError("too_many", message, ask=True, field=field.name, label=field.label.both, most=MOST_ADDED)
    found = [the_one(people, part, field=field.name).id for part in named]
    if author.id in found and decides:
        message = f"{field.name}: nobody approves their own request; ask for somebody else"
        raise ToolError("own_approver", message, ask=True, field=field.name)
    if author.id in found:
        message = f"{field.name}: the author cannot stand here; ask for somebody else or leave it out"
        raise ToolError("own_person", message, ask=True, field=field.name, label=field.label.both)
    return ",".join(dict.fromkeys(found))


class _Seats:
    """Everybody's place in one request, filled step by step."""

    def __init__(
        self,
        form: Form,
        filled: Filled,
        company: Company,
        rows: tuple[Row, ...],
        paths: tuple[tuple[Node, ...], ...],
    ) -> None:
        self._form, self._filled, self._company, self._rows = form, filled, company, rows
        self._paths = paths
        self._names = {name: node for node in asked(paths) for name in node.who}
        self._values: Mapping[str, Value] = {**filled.values, **filled.numbers}
        self.chosen: dict[str, tuple[str, ...]] = {}

    def held(self, name: str) -> tuple[str, ...]:
        return self.chosen.get(name) or self._filled.holders(name)

    def refuse_missing(self) -> None:
        """Every field that is needed for this very form, at once, and whom to suggest."""
        needed = {r.field for r in self._form.requires if r.holds(self._values)} | self._names.keys()
        missing = [f for f in self._form.fields if f.name in needed and not self._filled.values[f.name]]
        refuse_missing(missing, "".join(self._suggestion(f) for f in missing if f.kind in PERSONS))

    def choose(self) -> None:
        """The levels in the form's order, then the roles of candidate groups."""
        for level in self._form.levels:
            if level.name in self._names:
                self.chosen[level.name] = self._level(level)
        for name, node in self._names.items():
            if name.startswith(ROLE):
                holders = self._company.deciders([_role(name)], self.held, self._taken())
                self.chosen[name] = _ids_of(holders) or _nobody(name, {"zh": node.name, "en": node.name})

    def refuse_twice(self) -> None:
        """Nobody decides at two nodes of one way."""
        if name := next(filter(None, (twice(path, self.held) for path in self._paths)), ""):
            field = name if self._form.field(name) else ""
            message = f"{name}: the same person would decide two levels; ask for somebody else"
            raise ToolError("own_level", message, ask=True, field=field)

    def tell(self, definition: Definition) -> None:
        """Who gets copies and mails, wherever the request may go."""
        told = {row.node: row.who for row in self._form.cc} | {row.node: (row.to,) for row in self._form.mails}
        for node in definition.nodes.values():
            if node.topic in (Topic.CC, Topic.MAIL):
                people = [p for s in told.get(node.id, ()) for p in self._company.selected(s, self.held)]
                if others := _ids_of(p for p in people if p.id != self._company.author.id):
                    self.chosen[node.id] = others

    def _level(self, level: Level) -> tuple[str, ...]:
        able = self._company.deciders(self._who(level.name), self.held, self._taken())
        return _ids_of(able if level.many else able[:1]) or _nobody(level.name, level.label.both)

    def _who(self, name: str) -> tuple[Selector, ...]:
        """The first row that fits."""
        author = self._company.author
        return next((r.who for r in self._rows if r.applies(name, self._values, author)), ())

    def _taken(self) -> frozenset[str]:
        """Who decides already."""
        return frozenset(p for name in self._names for p in self.held(name))

    def _suggestion(self, field: FormField) -> str:
        able = self._company.deciders(self._who(field.name), self.held, self._taken())[:1]
        return "".join(
            f" For {field.name} you may offer {described(p)} as a suggestion; the person has to agree." for p in able
        )


def _role(name: str) -> Selector:
    return Selector(kind="role", name=name.removeprefix(ROLE))


def _ids_of(people: Iterable[Person]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(p.id for p in people))


def _nobody(name: str, label: dict[str, str]) -> NoReturn:
    message = f"nobody can be {name}: whoever the rules name is missing, the author, or decides already"
    raise ToolError("no_level", f"{message}. An administrator has to add somebody", label=label)
