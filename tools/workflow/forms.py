"""What a process asks for, as data (`definitions/*.toml`).

A form has fields; levels, further approvers that a table chooses (`tools.workflow.policy`); rows that say who is
told and which mails are proposed; rows that ask for a field only sometimes; what a balance is kept of; and bounds on
what one person asks for in some days.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from enum import StrEnum
from typing import Any

from pydantic import Field, field_validator

from tools.characters import clean_value
from tools.spec import Frozen, ToolError
from tools.workflow.expressions import Type
from tools.workflow.policy import Conditional, Row, Selector

NAME = r"^[a-z][a-z_]{0,30}$"
DAYS = "days"
"""A length in working days, and what it is called among the values of a form."""


class FieldKind(StrEnum):
    TEXT = "text"
    CHOICE = "choice"
    DATE = "date"
    HALF = "half"
    MONEY = "money"
    NUMBER = "number"
    PERSON = "person"
    PEOPLE = "people"
    """Several persons."""
    ATTACHMENT = "attachment"
    """A reference to a file: shown, never fetched."""


PERSONS = frozenset({FieldKind.PERSON, FieldKind.PEOPLE})
FREE_TEXT = frozenset({FieldKind.TEXT, FieldKind.ATTACHMENT})
"""Kinds whose values people write themselves."""
NUMBERS = frozenset({FieldKind.MONEY, FieldKind.NUMBER})


class Words(Frozen):
    zh: str
    en: str

    @property
    def both(self) -> dict[str, str]:
        return {"zh": self.zh, "en": self.en}


class Option(Words):
    """One possible answer."""

    value: str
    also: tuple[str, ...] = ()
    """Further words people use for it."""
    decimals: int = 2
    """Of a currency."""
    private: bool = False
    """Whoever chooses it has a request that is nobody else's business."""


HALVES = (
    Option(value="am", zh="上午", en="AM", also=("morning", "早上", "first half")),
    Option(value="pm", zh="下午", en="PM", also=("afternoon", "second half")),
)


class FormField(Frozen):
    name: str = Field(pattern=NAME)
    kind: FieldKind
    label: Words
    help: Words
    required: bool = True
    default: str = ""
    choices: tuple[Option, ...] = ()
    max_length: int = 500
    half: str = ""
    """Of a date: the field that says which half of the day."""
    currency: str = ""
    """Of money: the field that names the currency."""

    @property
    def options(self) -> tuple[Option, ...]:
        return HALVES if self.kind is FieldKind.HALF else self.choices

    def option(self, value: str) -> Option | None:
        return next((o for o in self.options if o.value == value), None)


class Span(Frozen):
    """The fields that a length in working days is counted from."""

    start: str
    start_half: str
    end: str
    end_half: str


class Balance(Frozen):
    """What is taken from a yearly allowance: the working days of requests whose `field` is `value`."""

    field: str
    value: str
    allowance: str
    """The number of the form that says how many days there are a year; a person's own number goes before it."""


class Level(Frozen):
    """A further approver, chosen by the policy table when the graph asks for one."""

    name: str = Field(pattern=NAME)
    label: Words
    many: bool = False
    """True: everybody that the table names, not only the first."""


class Rule(Frozen):
    node: str
    words: Words


class Require(Conditional):
    """A field that is needed only for some forms."""

    field: str


class Bound(Conditional):
    """A limit on the sum of what one person asks for in some days. Where several requests reach it together, whoever
    decides is shown so; conditions of the process may compare the sum, and so send the request on."""

    name: str = Field(pattern=NAME)
    """The number that conditions may use: the sum, this request included; 0 where the row does not hold."""
    field: str
    """The amount or number that is summed. Of money, only what is in the same currency."""
    per: tuple[str, ...] = ()
    """Fields in which requests have to agree to be summed, e.g. the category."""
    days: int = Field(ge=1, le=366)
    """How many days back requests count, today included."""
    limit: str = Field(min_length=1)
    """A number of the form by its name, or one written here. Reached from this sum on."""

    @field_validator("limit", mode="before")
    @classmethod
    def _as_text(cls, limit: Any) -> Any:
        return str(limit) if isinstance(limit, int | float) else limit


class CcRow(Frozen):
    """Who is told when a `cc` service task is reached."""

    node: str
    who: tuple[Selector, ...] = Field(min_length=1)


class MailRow(Frozen):
    """The mail that a `mail` service task proposes; subject and body may hold `{field}` and `{days}`."""

    node: str
    to: Selector
    subject: Words
    body: Words


class Form(Frozen):
    key: str
    number: str = Field(pattern=r"^[A-Z]{1,3}$")
    """What request numbers begin with."""
    name: Words
    purpose: Words
    summary: Words
    """With `{field}` placeholders."""
    fields: tuple[FormField, ...] = Field(alias="field")
    levels: tuple[Level, ...] = Field((), alias="level")
    policy: tuple[Row, ...] = ()
    rules: tuple[Rule, ...] = Field((), alias="rule")
    requires: tuple[Require, ...] = Field((), alias="require")
    cc: tuple[CcRow, ...] = ()
    mails: tuple[MailRow, ...] = Field((), alias="mail")
    numbers: dict[str, Decimal] = Field(default_factory=dict)
    days: Span | None = None
    balance: Balance | None = None
    private: bool = False
    """Every request of this form is nobody else's business: none of it is shown in a channel."""
    bounds: tuple[Bound, ...] = Field((), alias="bound")

    again_minutes: int = Field(10, ge=0, le=24 * 60)
    """Who starts the same, value by value, within so many minutes is asked whether they want it twice; 0: never."""
    identical: tuple[str, ...] = ()
    """The fields in which requests of one author are the same claim, if they were also started on the same day or a
    date is among these: whoever decides is told. An attachment among them is told of on any day."""

    @property
    def is_compared(self) -> bool:
        """True if what its author asked for before counts: free days, a balance, a bound, the same
        thing asked for twice."""
        return self.days is not None or bool(self.bounds) or self.again_minutes > 0

    @property
    def title(self) -> dict[str, str]:
        """The name as a heading."""
        return {"zh": self.name.zh, "en": self.name.en[:1].upper() + self.name.en[1:]}

    @property
    def variables(self) -> dict[str, Type]:
        """What conditions may use: the fields (never people), the numbers and the days."""
        types: dict[str, Type] = {name: "number" for name in (*self.numbers, *(one.name for one in self.bounds))}
        for field in self.fields:
            if field.kind not in PERSONS:
                types[field.name] = "number" if field.kind in NUMBERS else "text"
        return types | ({"days": "number"} if self.days else {})

    @property
    def takes_days(self) -> bool:
        """Whether it can be given its length in the place of its last day, as a value called `DAYS`: it has both days,
        and no field of that name."""
        return self.days is not None and self.field(DAYS) is None

    @property
    def people(self) -> frozenset[str]:
        """The names that stand for people: fields and levels."""
        return frozenset([f.name for f in self.fields if f.kind in PERSONS] + [level.name for level in self.levels])

    def field(self, name: str) -> FormField | None:
        return next((f for f in self.fields if f.name == name), None)

    def rule(self, node: str) -> dict[str, str]:
        """The words of a rule; empty words for none."""
        return next((r.words.both for r in self.rules if r.node == node), {"zh": "", "en": ""})


def find_missing(fields: Iterable[FormField], hint: str = "") -> ToolError | None:
    """`missing_field` naming every field; None if there is none."""
    missing = tuple(fields)
    if not missing:
        return None
    names = ", ".join(f.name for f in missing)
    label = {"zh": "、".join(f.label.zh for f in missing), "en": ", ".join(f.label.en for f in missing)}
    text = f"missing: {names}. Ask the person; never invent it.{hint}"
    return ToolError("missing_field", text, ask=True, field=missing[0].name, label=label)


def clear_text(text: str, limit: int, field: str, label: dict[str, str]) -> str:
    """Trimmed text of at most `limit` characters that can all be seen. Raises `ToolError`."""
    text = clean_value(text).strip()
    if len(text) > limit:
        message = f"{field} has {len(text)} characters, at most {limit}"
        raise ToolError("too_long", message, field=field, label=label, limit=limit)
    return text
