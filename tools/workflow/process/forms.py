"""What a process asks for, as data (`definitions/*.toml`).

A form has fields; levels, further approvers that a table chooses (`tools.workflow.process.policy`); rows that say who
is told and which mails are proposed; rows that ask for a field only sometimes; what a balance is kept of; and bounds on
what one person asks for in some days.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from enum import StrEnum
from typing import Any

from pydantic import Field, field_validator

from tools.characters import clean_value
from tools.spec import FrozenModel, ToolError
from tools.workflow.bpmn.expressions import Type
from tools.workflow.process.policy import ConditionalRow, PeopleSelector, PolicyRow

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


class LocalizedText(FrozenModel):
    zh: str
    en: str

    @property
    def by_language(self) -> dict[str, str]:
        return {"zh": self.zh, "en": self.en}


class ChoiceOption(LocalizedText):
    """One possible answer."""

    value: str
    also: tuple[str, ...] = ()
    """Further words people use for it."""
    decimals: int = 2
    """Of a currency."""
    private: bool = False
    """Whoever chooses it has a request that is nobody else's business."""


HALVES = (
    ChoiceOption(value="am", zh="上午", en="AM", also=("morning", "早上", "first half")),
    ChoiceOption(value="pm", zh="下午", en="PM", also=("afternoon", "second half")),
)


class FormField(FrozenModel):
    name: str = Field(pattern=NAME)
    kind: FieldKind
    label: LocalizedText
    help: LocalizedText
    required: bool = True
    default: str = ""
    choices: tuple[ChoiceOption, ...] = ()
    max_length: int = 500
    half: str = ""
    """Of a date: the field that says which half of the day."""
    currency: str = ""
    """Of money: the field that names the currency."""

    @property
    def options(self) -> tuple[ChoiceOption, ...]:
        return HALVES if self.kind is FieldKind.HALF else self.choices

    def find_option(self, value: str) -> ChoiceOption | None:
        return next((o for o in self.options if o.value == value), None)


class DaySpan(FrozenModel):
    """The fields that a length in working days is counted from."""

    start: str
    start_half: str
    end: str
    end_half: str


class BalanceRule(FrozenModel):
    """What is taken from a yearly allowance: the working days of requests whose `field` is `value`."""

    field: str
    value: str
    allowance: str
    """The number of the form that says how many days there are a year; a person's own number goes before it."""


class ApprovalLevel(FrozenModel):
    """A further approver, chosen by the policy table when the graph asks for one."""

    name: str = Field(pattern=NAME)
    label: LocalizedText
    many: bool = False
    """True: everybody that the table names, not only the first."""


class RuleText(FrozenModel):
    node: str
    words: LocalizedText


class FieldRequirement(ConditionalRow):
    """A field that is needed only for some forms."""

    field: str


class RollingLimit(ConditionalRow):
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
    def _convert_to_text(cls, limit: Any) -> Any:
        return str(limit) if isinstance(limit, int | float) else limit


class CcRow(FrozenModel):
    """Who is told when a `cc` service task is reached."""

    node: str
    who: tuple[PeopleSelector, ...] = Field(min_length=1)


class MailRow(FrozenModel):
    """The mail that a `mail` service task proposes; subject and body may hold `{field}` and `{days}`."""

    node: str
    to: PeopleSelector
    subject: LocalizedText
    body: LocalizedText


class Form(FrozenModel):
    key: str
    number: str = Field(pattern=r"^[A-Z]{1,3}$")
    """What request numbers begin with."""
    name: LocalizedText
    purpose: LocalizedText
    summary: LocalizedText
    """With `{field}` placeholders."""
    fields: tuple[FormField, ...] = Field(alias="field")
    levels: tuple[ApprovalLevel, ...] = Field((), alias="level")
    policy: tuple[PolicyRow, ...] = ()
    rules: tuple[RuleText, ...] = Field((), alias="rule")
    requires: tuple[FieldRequirement, ...] = Field((), alias="require")
    cc: tuple[CcRow, ...] = ()
    mails: tuple[MailRow, ...] = Field((), alias="mail")
    numbers: dict[str, Decimal] = Field(default_factory=dict)
    days: DaySpan | None = None
    balance: BalanceRule | None = None
    private: bool = False
    """Every request of this form is nobody else's business: none of it is shown in a channel."""
    bounds: tuple[RollingLimit, ...] = Field((), alias="bound")

    again_minutes: int = Field(10, ge=0, le=24 * 60)
    """Who starts the same, value by value, within so many minutes is asked whether they want it twice; 0: never."""
    identical: tuple[str, ...] = ()
    """The fields in which requests of one author are the same claim, if they were also started on the same day or a
    date is among these: whoever decides is told. An attachment among them is told of on any day."""

    @property
    def needs_earlier_requests(self) -> bool:
        """True if what its author asked for before counts: free days, a balance, a bound, the same
        thing asked for twice."""
        return self.days is not None or bool(self.bounds) or self.again_minutes > 0

    @property
    def title(self) -> dict[str, str]:
        """The name as a heading."""
        return {"zh": self.name.zh, "en": self.name.en[:1].upper() + self.name.en[1:]}

    @property
    def variable_types(self) -> dict[str, Type]:
        """What conditions may use: the fields (never people), the numbers and the days."""
        types: dict[str, Type] = {name: "number" for name in (*self.numbers, *(one.name for one in self.bounds))}
        for field in self.fields:
            if field.kind not in PERSONS:
                types[field.name] = "number" if field.kind in NUMBERS else "text"
        return types | ({"days": "number"} if self.days else {})

    @property
    def can_take_days(self) -> bool:
        """Whether it can be given its length in the place of its last day, as a value called `DAYS`: it has both days,
        and no field of that name."""
        return self.days is not None and self.find_field(DAYS) is None

    @property
    def people_variables(self) -> frozenset[str]:
        """The names that stand for people: fields and levels."""
        return frozenset([f.name for f in self.fields if f.kind in PERSONS] + [level.name for level in self.levels])

    def find_field(self, name: str) -> FormField | None:
        return next((f for f in self.fields if f.name == name), None)

    def get_rule_text(self, node: str) -> dict[str, str]:
        """The words of a rule; empty words for none."""
        return next((r.words.by_language for r in self.rules if r.node == node), {"zh": "", "en": ""})


def check_missing_fields(fields: Iterable[FormField], hint: str = "") -> ToolError | None:
    """`missing_field` naming every field; None if there is none."""
    missing = tuple(fields)
    if not missing:
        return None
    names = ", ".join(f.name for f in missing)
    label = {"zh": "、".join(f.label.zh for f in missing), "en": ", ".join(f.label.en for f in missing)}
    text = f"missing: {names}. Ask the person; never invent it.{hint}"
    return ToolError("missing_field", text, needs_person=True, field=missing[0].name, label=label)


def clean_form_text(text: str, limit: int, field: str, label: dict[str, str]) -> str:
    """Trimmed text of at most `limit` characters that can all be seen. Raises `ToolError`."""
    text = clean_value(text).strip()
    if len(text) > limit:
        message = f"{field} has {len(text)} characters, at most {limit}"
        raise ToolError("too_long", message, field=field, label=label, limit=limit)
    return text
