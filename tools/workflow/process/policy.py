"""The policy table, which names the deciders: rows of selectors, read when the form or the policy file is loaded.

The first row that applies counts, and in it the first selector that names a possible decider. A person field accepts
only these people. With `others = "flagged"`, a row also accepts others, and the card says so.

`tools/README.md` lists the selectors."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Literal, TypeAlias

from pydantic import Field, ValidationError, field_validator, model_validator

from tools.people.names import fold_text, list_names_by_language
from tools.spec import FrozenModel, Person
from tools.workflow.bpmn.expressions import InvalidExpressionError, Value, evaluate_condition, parse_expression

ADMIN = "admin"
"""The role that decides what would otherwise be the author's own decision."""
NAME = re.compile(r"[a-z][a-z_]{0,30}")
SELECTORS = {
    "manager": "manager",
    "manager_of": "manager of NAME",
    "role": "role NAME",
    "person": "person E-MAIL",
    "field": "field NAME",
}
"""Kind of selector → its spelling."""
KINDS = ("manager", "role", "person", "field")

PeopleResolver: TypeAlias = Callable[[str], Sequence[str]]
"""Returns the person ids of a field or a level."""


class PeopleSelector(FrozenModel):
    """A selector, in one of the spellings of `SELECTORS`; the name of a field or a level alone means it too."""

    kind: Literal["manager", "role", "person", "field"]
    name: str = ""
    """Role, e-mail address, field or level."""
    of: PeopleSelector | None = None
    """For a manager: the person whose manager is meant, or None for the author."""

    @model_validator(mode="before")
    @classmethod
    def _parse_words(cls, given: Any) -> Any:
        if not isinstance(given, str):
            return given
        match given.split():
            case ["manager"]:
                return {"kind": "manager"}
            case ["manager", "of", _, *_] as words:
                return {"kind": "manager", "of": " ".join(words[2:])}
            case ["role" | "person" | "field" as kind, name]:
                return {"kind": kind, "name": name}
            case [name] if NAME.fullmatch(name) and name not in KINDS:
                return {"kind": "field", "name": name}
        raise ValueError(f"{given[:60]!r} names nobody; it can be: {', '.join(SELECTORS.values())}")

    @property
    def variable_name(self) -> str:
        """The field or level on which the selector depends, or empty."""
        return self.of.variable_name if self.of else self.name if self.kind == "field" else ""

    @property
    def role_name(self) -> str:
        """The role on which the selector depends, or empty."""
        return self.of.role_name if self.of else self.name if self.kind == "role" else ""

    @property
    def words(self) -> str:
        """The people in words, for a model."""
        match self.kind:
            case "manager":
                return f"the manager of {self.of.words}" if self.of else "the author's manager"
            case "role":
                return f"who has the role {self.name}"
            case "person":
                return self.name
            case "field":
                return f"whoever {self.name} names"


class ConditionalRow(FrozenModel):
    """A row that applies to some forms only."""

    when: str = ""
    """The condition `${…}` over the form's fields, numbers and days, or empty for always."""

    @field_validator("when")
    @classmethod
    def _require_valid_condition(cls, text: str) -> str:
        if text:
            parse_expression(text)
        return text

    def is_condition_met(self, values: Mapping[str, Value]) -> bool:
        """Whether the condition holds. False if an old version of the form lacks a value that the condition needs."""
        try:
            return not self.when or evaluate_condition(parse_expression(self.when), values)
        except InvalidExpressionError:
            return False


class PolicyRow(ConditionalRow):
    """The people for a level, or the people who may be named in a person field that decides."""

    process: str = ""
    """In a policy file: the process of the level."""
    level: str
    """Name of a level or of a person field."""
    department: str = ""
    """The author's department, or empty for any."""
    who: tuple[PeopleSelector, ...] = Field(min_length=1)
    others: Literal["refused", "flagged"] = "refused"
    """For a person field: what happens with a person whom the row does not name. With `flagged`, the author may choose
    them, and the decider and the record are told."""

    def is_applicable(self, level: str, values: Mapping[str, Value], author: Person) -> bool:
        return self.level == level and self.is_for_department(author) and self.is_condition_met(values)

    def is_for_department(self, author: Person) -> bool:
        return not self.department or fold_text(self.department) == fold_text(author.department)


class _PolicyFile(FrozenModel):
    policy: tuple[PolicyRow, ...] = ()


def parse_policy(text: str) -> tuple[PolicyRow, ...]:
    """The rows of a policy file. Raises `ValueError` with the row's number and the error."""
    try:
        rows = _PolicyFile.model_validate(tomllib.loads(text)).policy
    except ValidationError as wrong:
        raise ValueError("; ".join(list_validation_problems(wrong))) from None
    for number, row in enumerate(rows, 1):
        if not row.process:
            raise ValueError(f"policy row {number}: process is missing")
    return rows


def list_validation_problems(wrong: ValidationError) -> list[str]:
    """The errors of a file, with rows counted from 1: `policy row 2, who 1: 'boss' names nobody …`."""
    problems: list[str] = []
    for one in wrong.errors():
        table, *rest = one["loc"] or ("file",)
        row = f" row {rest.pop(0) + 1}" if rest and isinstance(rest[0], int) else ""  # type: ignore[operator]
        part = " ".join(str(key + 1 if isinstance(key, int) else key) for key in rest)
        where = f"{table}{row}" + (f", {part}" if part else "")
        problems.append(f"{where}: {one['msg'].removeprefix('Value error, ')}")
    return problems


class AssigneeResolver:
    """The people as the rules see them, relative to a request's author."""

    def __init__(self, people: Iterable[Person], author: Person) -> None:
        self.author = author
        self._people_by_id = {p.id: p for p in people if p.active} | {author.id: author}
        self.consulted: set[str] = set()
        """Ids of the persons whose data has counted so far."""

    @property
    def people(self) -> tuple[Person, ...]:
        """All active people."""
        return tuple(self._people_by_id.values())

    def copy_for_author(self, author: Person) -> AssigneeResolver:
        """A resolver of these people for another author."""
        other = copy(self)
        other.author, other.consulted = author, set()
        return other

    def select_people(self, selector: PeopleSelector, resolve_people: PeopleResolver) -> tuple[Person, ...]:
        """All active people whom the selector names, the author included."""
        match selector.kind:
            case "manager":
                lower = self.select_people(selector.of, resolve_people) if selector.of else (self.author,)
                return tuple(m for p in lower if (m := self._find_manager(p)))
            case "role":
                return self.list_role_holders(selector.name)
            case "person":
                return tuple(p for p in self._people_by_id.values() if p.email.casefold() == selector.name.casefold())
            case "field":
                return tuple(self._people_by_id[p] for p in resolve_people(selector.name) if p in self._people_by_id)

    def list_role_holders(self, role: str) -> tuple[Person, ...]:
        return tuple(sorted((p for p in self._people_by_id.values() if role in p.roles), key=lambda p: p.id))

    def choose_assignees(
        self,
        selectors: Iterable[PeopleSelector],
        resolve_people: PeopleResolver,
        excluded: frozenset[str] = frozenset(),
        *,
        many: bool = True,
    ) -> tuple[Person, ...]:
        """The people named who may decide, in order: never the author, nobody in `excluded`. If only the author is
        named, the next person above them; if nobody is left then, the administrators. With `many`, everybody whom the
        selectors name; otherwise the people of the first selector that names anybody."""
        chosen: list[Person] = []
        own = False
        for selector in selectors:
            named = self.select_people(selector, resolve_people)
            able = [p for p in named if self._is_eligible(p, excluded)]
            self.consulted.update(p.id for p in able)
            if not able and self.author in named:
                own, able = True, [p for p in self._list_managers_above() if self._is_eligible(p, excluded)][:1]
            chosen += able
            if chosen and not many:
                break
        if own and not chosen:
            chosen = [p for p in self.list_role_holders(ADMIN) if self._is_eligible(p, excluded)]
        return tuple({p.id: p for p in chosen}.values())

    def _is_eligible(self, person: Person, taken: frozenset[str]) -> bool:
        return person.id != self.author.id and person.id not in taken

    def _find_manager(self, person: Person) -> Person | None:
        self.consulted.add(person.id)
        return self._people_by_id.get(person.manager or "")

    def get_person_names(self, person: str) -> dict[str, str]:
        """A person's names by language; the id of an unknown person."""
        found = self._people_by_id.get(person)
        return list_names_by_language(found) if found else {"zh": person, "en": person}

    def _list_managers_above(self) -> Iterator[Person]:
        """Yield the author's manager, that person's manager, and so on, each once."""
        seen = {self.author.id}
        person = self._find_manager(self.author)
        while person and person.id not in seen:
            seen.add(person.id)
            yield person
            person = self._find_manager(person)
