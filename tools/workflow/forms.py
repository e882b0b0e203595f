"""What a process asks for, and checking what people answer.

A form is data (`definitions/*.toml`). `read` turns free spellings into canonical text: `病假` → `sick`,
`￥1,200.50` → `1200.50`, `2026/11/21` → `2026-11-21`. Whatever cannot be read is a `ToolError` naming the
field and the fix. Days are counted by the calendar, never taken from anybody's words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from enum import StrEnum

from pydantic import Field

from tools.names import dense, folded
from tools.spec import Frozen, ToolError
from tools.workflow.calendar import MAX_SPAN, Calendar, Length

CNY = "CNY"
YEN_SIGN = "¥"
"""China's and Japan's: read as yuan unless the currency says otherwise."""
LONGEST_PAST = timedelta(days=366)
LONGEST_AHEAD = timedelta(days=2 * 366)
DATE = re.compile(r"(\d{4})(?:-|/|\.|年)(\d{1,2})(?:-|/|\.|月)(\d{1,2})日?")
MONEY = re.compile(r"(?P<before>[^\d.,+-]*)(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?P<after>[^\d.,]*)")
MAX_DIGITS = 12


class FieldKind(StrEnum):
    TEXT = "text"
    CHOICE = "choice"
    DATE = "date"
    HALF = "half"
    MONEY = "money"
    PERSON = "person"


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


HALVES = (
    Option(value="am", zh="上午", en="AM", also=("morning", "早上", "first half")),
    Option(value="pm", zh="下午", en="PM", also=("afternoon", "second half")),
)


class FormField(Frozen):
    name: str = Field(pattern=r"^[a-z][a-z_]{0,30}$")
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


class Level(Frozen):
    """A further approver, chosen by rule when the graph asks for one."""

    name: str
    label: Words
    manager_of: str = ""
    """Person field whose manager comes first."""
    role: str = ""
    """Then the first holder of this role."""


class Rule(Frozen):
    node: str
    words: Words


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
    rules: tuple[Rule, ...] = Field((), alias="rule")
    numbers: dict[str, Decimal] = Field(default_factory=dict)
    days: Span | None = None

    @property
    def title(self) -> dict[str, str]:
        """The name as a heading."""
        return {"zh": self.name.zh, "en": self.name.en[:1].upper() + self.name.en[1:]}

    def field(self, name: str) -> FormField | None:
        return next((f for f in self.fields if f.name == name), None)

    def rule(self, node: str) -> dict[str, str]:
        """The words of a rule; empty words for none."""
        return next((r.words.both for r in self.rules if r.node == node), {"zh": "", "en": ""})


def read(form: Form, values: Mapping[str, str], today: date) -> dict[str, str]:
    """Every field but the people in canonical text, empty where nothing was given and nothing is needed.
    Raises `ToolError`."""
    _refuse_unknown(form, values)
    given = {f.name: _clean(values.get(f.name, "")) or f.default for f in form.fields}
    refuse_missing(f for f in form.fields if f.required and f.kind is not FieldKind.PERSON and not given[f.name])
    currencies = {f.currency for f in form.fields if f.currency}
    said = frozenset(name for name in currencies if _clean(values.get(name, "")))
    read_already = {f.name: _read(f, given[f.name], today) for f in form.fields if f.kind is not FieldKind.MONEY}
    for field in form.fields:
        if field.kind is FieldKind.MONEY and given[field.name]:
            read_already |= _read_money(form, field, given[field.name], read_already, said)
    return {f.name: read_already.get(f.name, "") for f in form.fields}


def length_of(form: Form, values: Mapping[str, str], calendar: Calendar) -> Length | None:
    """Working days of canonical values; None for a process without days. Raises `ToolError`."""
    if form.days is None:
        return None
    start, end = values[form.days.start], values[form.days.end]
    start_half, end_half = values[form.days.start_half], values[form.days.end_half]
    last = form.days.end
    if (end, end_half) < (start, start_half):
        message = f"{last} is before {form.days.start}"
        raise ToolError("end_before_start", message, ask=True, field=last, start=start, end=end)
    if (date.fromisoformat(end) - date.fromisoformat(start)).days > MAX_SPAN:
        raise ToolError("span_too_long", f"at most {MAX_SPAN} days from first to last", field=last, days=MAX_SPAN)
    length = calendar.length(date.fromisoformat(start), start_half, date.fromisoformat(end), end_half)
    if length.days <= 0:
        message = f"{start} to {end} has no working day: weekend or holiday"
        raise ToolError("zero_days", message, field=last, start=start, end=end)
    return length


def refuse_missing(fields: Iterable[FormField], hint: str = "") -> None:
    """Raises `ToolError` `missing_field` naming every field, if there is any."""
    missing = tuple(fields)
    if not missing:
        return
    names = ", ".join(f.name for f in missing)
    label = {"zh": "、".join(f.label.zh for f in missing), "en": ", ".join(f.label.en for f in missing)}
    text = f"missing: {names}. Ask the person; never invent it.{hint}"
    raise ToolError("missing_field", text, ask=True, field=missing[0].name, label=label)


def clear_text(text: str, limit: int, field: str, label: dict[str, str]) -> str:
    """Trimmed text of at most `limit` characters. Raises `ToolError`."""
    text = text.strip()
    if len(text) > limit:
        message = f"{field} has {len(text)} characters, at most {limit}"
        raise ToolError("too_long", message, field=field, label=label, limit=limit)
    return text


def _refuse_unknown(form: Form, values: Mapping[str, str]) -> None:
    known = [f.name for f in form.fields]
    for name in values:
        if name not in known:
            text = f"{form.key} has no field {name!r}; its fields: {', '.join(known)}. Working days are computed."
            raise ToolError("unknown_field", text, field=name[:60], name=name[:60])


def _clean(text: str) -> str:
    """Without surrounding space and without control characters other than line breaks."""
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) != "Cc").strip()


def _read(field: FormField, text: str, today: date) -> str:
    match field.kind:
        case _ if not text:
            return ""
        case FieldKind.CHOICE | FieldKind.HALF:
            return _read_choice(field, text)
        case FieldKind.DATE:
            return _read_date(field, text, today)
        case _:
            return clear_text(text, field.max_length, field.name, field.label.both)


def _read_choice(field: FormField, text: str) -> str:
    wanted = folded(text)
    for option in field.options:
        if wanted in map(folded, (option.value, option.zh, option.en, *option.also)):
            return option.value
    values = ", ".join(f"{o.value} ({o.en})" if o.en != o.value else o.value for o in field.options)
    listed = {"zh": "、".join(o.zh for o in field.options), "en": ", ".join(o.en for o in field.options)}
    message = f"{field.name}: {text[:60]!r} is not one of {values}"
    raise ToolError("bad_choice", message, field=field.name, label=field.label.both, choices=listed)


def _read_date(field: FormField, text: str, today: date) -> str:
    match = DATE.fullmatch(dense(text))
    try:
        day = date(*map(int, match.groups())) if match else None
    except ValueError:
        day = None
    if day is None:
        message = f"{field.name}: {text[:60]!r} is no date; write YYYY-MM-DD (today is {today})"
        raise ToolError("bad_date", message, field=field.name, label=field.label.both)
    if day < today - LONGEST_PAST:
        message = f"{field.name}: {day} is more than a year ago (today is {today}); check the year"
        raise ToolError("in_the_past", message, ask=True, field=field.name, label=field.label.both)
    if day > today + LONGEST_AHEAD:
        message = f"{field.name}: {day} is more than two years ahead (today is {today}); check the year"
        raise ToolError("too_far_ahead", message, ask=True, field=field.name, label=field.label.both)
    return day.isoformat()


def _read_money(
    form: Form, field: FormField, text: str, values: Mapping[str, str], said: frozenset[str]
) -> dict[str, str]:
    """The amount, and the currency where only the amount names it."""
    match = MONEY.fullmatch(dense(text))
    if match is None:
        message = f"{field.name}: {text[:60]!r} is no positive amount; write it like 1200.50"
        raise ToolError("bad_amount", message, ask=True, field=field.name, label=field.label.both)
    currency = _currency(form, field, match, values, said)
    option = (form.field(field.currency) or field).option(currency)
    decimals = option.decimals if option else 2
    return {
        field.name: _amount(field, match["number"], decimals, currency),
        **({field.currency: currency} if currency else {}),
    }


def _amount(field: FormField, number: str, decimals: int, currency: str) -> str:
    amount = Decimal(number.replace(",", ""))
    exponent = amount.normalize().as_tuple().exponent
    if amount <= 0 or amount.adjusted() >= MAX_DIGITS:
        message = f"{field.name} must be more than 0 and below 10^{MAX_DIGITS}"
        raise ToolError("bad_amount", message, ask=True, field=field.name, label=field.label.both)
    if isinstance(exponent, int) and -exponent > decimals:
        message = f"{field.name}: {currency} has at most {decimals} decimals"
        raise ToolError("too_precise", message, ask=True, field=field.name, currency=currency, decimals=decimals)
    return f"{amount:.{decimals}f}"


def _currency(
    form: Form, field: FormField, match: re.Match[str], values: Mapping[str, str], said: frozenset[str]
) -> str:
    """The currency of an amount. Two different ones in the same form are never guessed between."""
    known = form.field(field.currency)
    unit = match["before"] or match["after"]
    if known is None or (match["before"] and match["after"]):
        if unit:
            message = f"{field.name}: write only the number"
            raise ToolError("bad_amount", message, ask=True, field=field.name, label=field.label.both)
        return ""
    stated = values[known.name]
    if not unit or (unit == YEN_SIGN and known.name in said):
        return stated
    named = CNY if unit == YEN_SIGN else _read_choice(known, unit)
    if known.name in said and named != stated:
        message = f"{field.name} is in {named} but {known.name} says {stated}; ask which"
        raise ToolError("two_currencies", message, ask=True, field=known.name, one=named, other=stated)
    return named
