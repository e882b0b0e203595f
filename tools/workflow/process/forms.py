"""The form of a process, as data (`definitions/*.toml`).

A form has fields and levels, which are further approvers chosen by a table (`tools.workflow.process.policy`). Further
rows describe copies, proposed emails and conditional fields. A form may have a balance, and bounds on what one person
requests within some days."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Any

from pydantic import Field, field_validator

from tools.characters import clean_value
from tools.platform_ids import FILE_ID
from tools.spec import FrozenModel, ToolError
from tools.workflow.bpmn.expressions import Type
from tools.workflow.process.policy import ConditionalRow, PeopleSelector, PolicyRow

MAX_FILES = 10
"""Most files of one field."""
NAME = r"^[a-z][a-z_]{0,30}$"
DAYS = "days"
"""The name of a length in working days among the values of a form."""
PERIOD, LENGTH = "period", "length"
"""Placeholders of a form with days, besides its fields: *2026-11-24 to 2026-11-26*, *3 working days*."""


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
    """Files that the author has sent, or addresses, which are shown and never fetched."""


PERSONS = frozenset({FieldKind.PERSON, FieldKind.PEOPLE})
FREE_TEXT = frozenset({FieldKind.TEXT, FieldKind.ATTACHMENT})
"""Kinds whose values people write freely."""
NUMBERS = frozenset({FieldKind.MONEY, FieldKind.NUMBER})


class LocalizedText(FrozenModel):
    zh: str
    en: str

    @property
    def by_language(self) -> dict[str, str]:
        return {"zh": self.zh, "en": self.en}


class ChoiceOption(LocalizedText):
    value: str
    also: tuple[str, ...] = ()
    """Further words that people use for the option."""
    decimals: int = 2
    """Decimals of a currency."""
    private: bool = False
    """Whether a request with this option is private."""


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
    """For a date: the field with its half of the day."""
    currency: str = ""
    """For money: the field with its currency."""

    @property
    def options(self) -> tuple[ChoiceOption, ...]:
        return HALVES if self.kind is FieldKind.HALF else self.choices

    def find_option(self, value: str) -> ChoiceOption | None:
        return next((o for o in self.options if o.value == value), None)


class DaySpan(FrozenModel):
    """The fields from which a length in working days is counted."""

    start: str
    start_half: str
    end: str
    end_half: str
    gap: int = Field(1, ge=0, le=20)
    """Most working days between two requests of one author whose lengths count together. With 0, only adjacent requests
    count together, also over weekends and holidays."""


class BalanceRule(FrozenModel):
    """A yearly allowance: the working days of requests whose `field` is `value` count against it."""

    field: str
    value: str
    allowance: str
    """The number of the form with the days per year; a person's own number wins over it."""


class ApprovalLevel(FrozenModel):
    """A further approver whom the policy table chooses when the graph asks for one."""

    name: str = Field(pattern=NAME)
    label: LocalizedText
    many: bool = False
    """Whether everybody decides whom the table names, not only the first."""


class RuleText(FrozenModel):
    node: str
    words: LocalizedText


class FieldRequirement(ConditionalRow):
    """A field that is needed only for some forms."""

    field: str


class RollingLimit(ConditionalRow):
    """A limit on the sum of what one person requests within some days. The decider sees if several requests reach it
    together. Conditions of the process may use the sum and so change the path."""

    name: str = Field(pattern=NAME)
    """The name of the number for conditions: the sum with this request; 0 if the row does not apply."""
    field: str
    """The amount or number to sum. Money counts only in the same currency."""
    per: tuple[str, ...] = ()
    """Fields that must be equal for requests to be summed, e.g. the category."""
    days: int = Field(ge=1, le=366)
    """How many days back requests count, today included."""
    limit: str = Field(min_length=1)
    """The name of a number of the form, or a literal number. The bound is reached from this sum on."""

    @field_validator("limit", mode="before")
    @classmethod
    def _convert_to_text(cls, limit: Any) -> Any:
        return str(limit) if isinstance(limit, int | float) else limit


class CcRow(FrozenModel):
    """The people who get a copy when a `cc` service task is reached."""

    node: str
    who: tuple[PeopleSelector, ...] = Field(min_length=1)


class MailRow(FrozenModel):
    """The email that a `mail` service task proposes; subject and body may contain `{field}` and `{days}`."""

    node: str
    to: PeopleSelector
    subject: LocalizedText
    body: LocalizedText


class Form(FrozenModel):
    key: str
    number: str = Field(pattern=r"^[A-Z]{1,3}$")
    """The prefix of request numbers."""
    name: LocalizedText
    purpose: LocalizedText
    summary: LocalizedText
    """One line about a request, with `{field}` placeholders."""
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
    """Whether every request of this form is private; no part of it is shown in a channel."""
    bounds: tuple[RollingLimit, ...] = Field((), alias="bound")

    again_minutes: int = Field(10, ge=0, le=24 * 60)
    """Minutes within which an author who starts an equal request, value by value, is asked whether they want it twice;
    0 for never."""
    identical: tuple[str, ...] = ()
    """Fields that identify a claim. Two requests of one author with equal values in all of them are reported to the
    decider, if they started on the same day or one of the fields is a date. An attachment among the fields is reported
    on any day."""

    @property
    def needs_earlier_requests(self) -> bool:
        """Whether the author's earlier requests count: for free days, a balance, a bound or duplicates."""
        return self.days is not None or bool(self.bounds) or self.again_minutes > 0

    @property
    def title(self) -> dict[str, str]:
        """The name as a heading."""
        return {"zh": self.name.zh, "en": self.name.en[:1].upper() + self.name.en[1:]}

    @property
    def variable_types(self) -> dict[str, Type]:
        """The variables for conditions: the fields (never people), the numbers and the days."""
        types: dict[str, Type] = {name: "number" for name in (*self.numbers, *(one.name for one in self.bounds))}
        for field in self.fields:
            if field.kind not in PERSONS:
                types[field.name] = "number" if field.kind in NUMBERS else "text"
        return types | ({"days": "number"} if self.days else {})

    @property
    def can_take_days(self) -> bool:
        """Whether a length, given as the value `DAYS`, can replace the last day: the form has both days, and no field
        of that name."""
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


def list_file_ids(value: str) -> tuple[str, ...]:
    """Ids of the files in the value of an attachment field."""
    return tuple(dict.fromkeys(part for part in value.split(",") if FILE_ID.fullmatch(part)))


def check_missing_fields(fields: Iterable[FormField], hint: str = "") -> ToolError | None:
    """The error `missing_field`, which names all of these fields; None without fields."""
    missing = tuple(fields)
    if not missing:
        return None
    names = ", ".join(f.name for f in missing)
    label = {"zh": "、".join(f.label.zh for f in missing), "en": ", ".join(f.label.en for f in missing)}
    text = f"missing: {names}. Ask the person; never invent it.{hint}"
    return ToolError("missing_field", text, needs_person=True, field=missing[0].name, label=label)


def build_field_error(code: str, field: FormField, message: str, **params: Any) -> ToolError:
    """Build an error of a field that its author has to mend."""
    text, label = f"{field.name}: {message}", field.label.by_language
    return ToolError(code, text, needs_person=True, field=field.name, label=label, **params)


def clean_form_text(text: str, limit: int, field: str, label: dict[str, str]) -> str:
    """The text trimmed, visible, and of at most `limit` characters. Raises `ToolError`."""
    text = clean_value(text).strip()
    if len(text) > limit:
        message = f"{field} has {len(text)} characters, at most {limit}"
        raise ToolError("too_long", message, field=field, label=label, limit=limit)
    return text


MAX_POLICY = 3_000
"""Longest text about who approves what, in characters. If rows are left out, the text says so."""


def describe_policies(forms: Iterable[Form], rows: Sequence[PolicyRow] = ()) -> str:
    """Describe the policy rows in one line each. `rows` are those of the policy file and come first. Return an empty
    text if no row says anything. The text is guidance only: the engine works out who decides a request, and the card
    shows that."""
    lines = list[str]()
    for form in forms:
        labels = {one.name: one.label.en for one in form.fields} | {one.name: one.label.en for one in form.levels}
        for row in (*(one for one in rows if one.process == form.key), *form.policy):
            case = [labels.get(row.level, row.level)]
            case += [f"for {row.department}"] if row.department else []
            case += [f"if {row.when}"] if row.when else []
            who = ", else ".join(one.words for one in row.who)
            choice = "; the author may choose somebody else, who is then flagged" if row.others == "flagged" else ""
            lines.append(f"- {form.key}, {' '.join(case)}: {who}{choice}")
    shown_lines = list[str]()
    for line in lines:
        if sum(map(len, shown_lines)) + len(line) > MAX_POLICY:
            return "\n".join([*shown_lines, "- (there are more rows than fit here)"])
        shown_lines.append(line)
    return "\n".join(shown_lines)
