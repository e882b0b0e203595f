"""Checks people's answers and turns free spellings into canonical text.

For example, `病假` becomes `sick`, `￥1,200.50` becomes `1200.50`, and `2026/11/21` becomes `2026-11-21`. An unreadable
answer is a `ToolError`, which names the field and the fix. Days are counted by the calendar, never taken from anybody's
words. The files of a form are those that its author has sent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from urllib.parse import urlsplit

from tools.characters import clean_value
from tools.languages import list_day_words
from tools.people.names import fold_text, remove_spaces
from tools.platform_ids import FILE_ID
from tools.spec import AttachedFile, ToolError, raise_errors
from tools.workflow.bpmn.expressions import Value
from tools.workflow.engine.state import FilledForm, format_decimal
from tools.workflow.process.calendar import MAX_SPAN, HalfDay, WorkCalendar, WorkingTime
from tools.workflow.process.forms import (
    DAYS,
    MAX_FILES,
    DaySpan,
    FieldKind,
    Form,
    FormField,
    build_field_error,
    check_missing_fields,
    clean_form_text,
    list_file_ids,
)

CNY = "CNY"
YEN_SIGN = "¥"
"""The sign of China's and Japan's currency; means yuan unless the currency says otherwise."""
LONGEST_PAST = timedelta(days=366)
LONGEST_AHEAD = timedelta(days=2 * 366)
DATE = re.compile(r"(\d{4})(?:-|/|\.|年)(\d{1,2})(?:-|/|\.|月)(\d{1,2})日?")
AMOUNT = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
NUMBER = re.compile(AMOUNT)
MONEY = re.compile(rf"(?P<before>[^\d.,+-]*)(?P<number>{AMOUNT})(?P<after>[^\d.,]*)")
MAX_NAMES = 5
"""Most unknown names in an error."""
MAX_DIGITS = 12
MAX_DECIMALS = 6
FILE_SEPARATOR = re.compile(rf"(?<![,，、\s])[,，、\s]++(?=(?:{FILE_ID.pattern})(?:[,，、\s]|$)|<?https://)")
"""The border between two files or addresses of one field."""
LINK = re.compile(r"https://[^\s<>\"'|\\^`{}@]+")
"""An address without blanks, quotes, or a user name and password."""


def parse_form_input(
    form: Form, values: Mapping[str, str], today: date, undetermined_fields: frozenset[str], calendar: WorkCalendar
) -> dict[str, str]:
    """All fields except people, in canonical text; empty for optional fields without an answer. `undetermined_fields`
    may or may not be needed. `calendar` counts a length given instead of the last day. Raises `ToolError`, or
    `InvalidFieldsError` for several errors at once."""
    errors = _check_unknown_fields(form, values)
    length = _clean_input(values.get(DAYS, "")) if form.can_take_days else ""
    answers: dict[str, str] = {}
    for field in form.fields:
        given = values.get(field.name, "")
        # An attachment with invisible characters is left unchanged and refused later: it leads elsewhere than it seems.
        cleaned = given.strip() if field.kind is FieldKind.ATTACHMENT else _clean_input(given)
        answers[field.name] = cleaned or field.default
    undetermined_fields = undetermined_fields | {form.days.end} if form.days and length else undetermined_fields
    missing = check_missing_fields(
        f for f in form.fields if f.required and f.name not in undetermined_fields and not answers[f.name]
    )
    errors += [missing] if missing else []
    currencies = {f.currency for f in form.fields if f.currency}
    stated_currencies = frozenset(name for name in currencies if _clean_input(values.get(name, "")))
    read_already = {name: "" for name in currencies}
    for field in sorted(form.fields, key=lambda f: f.kind is FieldKind.MONEY):
        try:
            if field.kind is not FieldKind.MONEY:
                read_already[field.name] = _parse_field(field, answers[field.name], today)
            elif answers[field.name]:
                read_already |= _parse_money_field(form, field, answers[field.name], read_already, stated_currencies)
        except ToolError as error:
            errors.append(error)
    parsed = {f.name: read_already.get(f.name, "") for f in form.fields}
    try:
        days = parse_days(length) if length else None
    except ToolError as error:
        errors.append(error)
    raise_errors(errors)
    span = form.days
    if days is None or span is None or not parsed[span.start]:
        return parsed
    if not _clean_input(values.get(span.end, "")):  # its default yields to a length
        parsed[span.end] = ""
    return fill_end_date(form, span, parsed, days, calendar)


def compute_length(days: DaySpan, first: HalfDay, last: HalfDay, calendar: WorkCalendar) -> WorkingTime:
    """Working days from one half day to another, both included. Raises `ToolError`."""
    field, start, end = days.end, first[0], last[0]
    first_words, last_words = list_day_words(start), list_day_words(end)
    if last < first:
        message = f"{field} is before {days.start}"
        raise ToolError("end_before_start", message, needs_person=True, field=field, start=first_words, end=last_words)
    if (end - start).days > MAX_SPAN:
        raise ToolError("span_too_long", f"at most {MAX_SPAN} days from first to last", field=field, days=MAX_SPAN)
    length = calendar.measure_working_time(first, last)
    if length.working_days <= 0:
        message = f"{start} to {end} has no working day: weekend or holiday"
        if length.is_estimated:
            raise ToolError("zero_days_estimated", message, field=field, start=first_words, end=last_words)
        raise ToolError("zero_days", message, field=field, start=first_words, end=last_words)
    return length


def _check_unknown_fields(form: Form, values: Mapping[str, str]) -> list[ToolError]:
    """One error for all names that the form does not have, if any."""
    field_names = [f.name for f in form.fields] + ([DAYS] if form.can_take_days else [])
    odd = [name[:60] for name in values if name not in field_names]
    if not odd:
        return []
    computed = "" if form.can_take_days or form.days is None else " Working days are computed."
    unknown = ", ".join(map(repr, odd[:MAX_NAMES]))
    text = f"{form.key} has no field {unknown}; its fields: {', '.join(field_names)}.{computed}"
    return [ToolError("unknown_field", text, field=odd[0], name=odd[0])]


def _clean_input(text: str) -> str:
    """The text without surrounding space and invisible characters."""
    return clean_value(text).strip()


def _parse_field(field: FormField, text: str, today: date) -> str:
    match field.kind:
        case _ if not text:
            return ""
        case FieldKind.CHOICE | FieldKind.HALF:
            return _parse_choice_field(field, text)
        case FieldKind.DATE:
            return _parse_date_field(field, text, today)
        case FieldKind.NUMBER:
            match = NUMBER.fullmatch(remove_spaces(text))
            number = Decimal(match[0].replace(",", "")) if match else Decimal(0)
            if match is None or number.adjusted() >= MAX_DIGITS or number != round(number, MAX_DECIMALS):
                message = f"{text[:60]!r} is no number of 0 or more; write it like 3 or 2.5"
                raise build_field_error("bad_number", field, message)
            return format_decimal(number)
        case FieldKind.ATTACHMENT:
            return _parse_attachment_field(field, text)
        case _:
            return clean_form_text(text, field.max_length, field.name, field.label.by_language)


def _parse_choice_field(field: FormField, text: str) -> str:
    wanted = fold_text(text)
    for option in field.options:
        if wanted in map(fold_text, (option.value, option.zh, option.en, *option.also)):
            return option.value
    values = ", ".join(f"{o.value} ({o.en})" if o.en != o.value else o.value for o in field.options)
    listed = {"zh": "、".join(o.zh for o in field.options), "en": ", ".join(o.en for o in field.options)}
    message = f"{field.name}: {text[:60]!r} is not one of {values}"
    raise ToolError("bad_choice", message, field=field.name, label=field.label.by_language, choices=listed)


def _parse_date_field(field: FormField, text: str, today: date) -> str:
    match = DATE.fullmatch(remove_spaces(text))
    try:
        day = date(*map(int, match.groups())) if match else None
    except ValueError:
        day = None
    if day is None:
        message = f"{field.name}: {text[:60]!r} is no date; write YYYY-MM-DD (today is {today})"
        raise ToolError("bad_date", message, field=field.name, label=field.label.by_language)
    if day < today - LONGEST_PAST:
        message = f"{day} is more than a year ago (today is {today}); check the year"
        raise build_field_error("in_the_past", field, message)
    if day > today + LONGEST_AHEAD:
        message = f"{day} is more than two years ahead (today is {today}); check the year"
        raise build_field_error("too_far_ahead", field, message)
    return day.isoformat()


def _parse_attachment_field(field: FormField, text: str) -> str:
    """Parse ids of files and https addresses; return them separated by commas. No address is fetched."""
    named: dict[str, None] = {}
    for part in filter(None, FILE_SEPARATOR.split(text.strip(" ,，、"))):
        address = part.removeprefix("<").removesuffix(">").partition("|")[0]
        try:
            host = urlsplit(address).hostname or ""
        except ValueError:
            host = ""
        is_link = LINK.fullmatch(address) and address.isprintable() and "." in host.strip(".")
        if not FILE_ID.fullmatch(address) and (len(address) > field.max_length or not is_link):
            message = "ask for the file itself, sent here, or for an https:// address"
            raise build_field_error("bad_attachment", field, message)
        named[address] = None
    if len(named) > MAX_FILES:
        raise build_field_error("too_many_files", field, f"{len(named)} files, at most {MAX_FILES}", most=MAX_FILES)
    return ",".join(named)


def _parse_money_field(
    form: Form, field: FormField, text: str, values: Mapping[str, str], stated_currencies: frozenset[str]
) -> dict[str, str]:
    """The amount, and the currency if only the amount names it."""
    match = MONEY.fullmatch(remove_spaces(text))
    if match is None:
        raise build_field_error("bad_amount", field, f"{text[:60]!r} is no positive amount; write it like 1200.50")
    currency = _choose_currency(form, field, match, values, stated_currencies)
    option = (form.find_field(field.currency) or field).find_option(currency)
    decimals = option.decimals if option else 2
    amount = Decimal(match["number"].replace(",", ""))
    exponent = amount.normalize().as_tuple().exponent
    if amount <= 0:
        raise build_field_error("bad_amount", field, "must be more than 0")
    if amount.adjusted() >= MAX_DIGITS:
        raise build_field_error("big_amount", field, f"must be below 10^{MAX_DIGITS}", digits=MAX_DIGITS)
    if isinstance(exponent, int) and -exponent > decimals:
        message = f"{currency} has at most {decimals} decimals"
        if not decimals:
            raise build_field_error("not_whole", field, message, currency=currency)
        raise build_field_error("too_precise", field, message, currency=currency, decimals=decimals)
    return {field.name: f"{amount:.{decimals}f}", **({field.currency: currency} if currency else {})}


def _choose_currency(
    form: Form, field: FormField, match: re.Match[str], values: Mapping[str, str], stated_currencies: frozenset[str]
) -> str:
    """The currency of an amount. If the form names two different ones, none is guessed."""
    currency_field = form.find_field(field.currency)
    unit = match["before"] or match["after"]
    if currency_field is None or (match["before"] and match["after"]):
        if unit:
            raise build_field_error("bad_amount", field, "write only the number")
        return ""
    field_value = values[currency_field.name]
    if not unit or (unit == YEN_SIGN and currency_field.name in stated_currencies):
        return field_value
    unit_currency = CNY if unit == YEN_SIGN else _parse_choice_field(currency_field, unit)
    if currency_field.name in stated_currencies and unit_currency != field_value:
        message = f"{field.name} is in {unit_currency} but {currency_field.name} says {field_value}; ask which"
        raise ToolError(
            "two_currencies",
            message,
            needs_person=True,
            field=currency_field.name,
            one=unit_currency,
            other=field_value,
        )
    return unit_currency


MAX_SEARCHED = 4_000
"""Characters of a value in which files are sought."""


def list_named_files(form: Form, values: Mapping[str, str]) -> tuple[str, ...]:
    """Ids of all files named in the attachment fields, as typed."""
    typed = [values.get(f.name, "")[:MAX_SEARCHED] for f in form.fields if f.kind is FieldKind.ATTACHMENT]
    return tuple(dict.fromkeys(id for text in typed for id in FILE_ID.findall(text)))


def remove_files(values: Mapping[str, str], ids: Sequence[str]) -> dict[str, str]:
    gone = {*ids}
    return {
        name: ",".join(part for part in text.split(",") if part not in gone) if any(id in text for id in gone) else text
        for name, text in values.items()
    }


def find_file_errors(
    form: Form, filled: FilledForm, files: Mapping[str, AttachedFile], *, is_complete: bool
) -> Iterator[ToolError]:
    """Yield errors about files that the author has not sent, and about fields that need a file and have none; an
    address proves nothing. `is_complete` tells that empty fields count as missing."""
    conditions: Mapping[str, Value] = {**filled.values, **filled.numbers}
    asked = {row.field for row in form.requires if row.is_condition_met(conditions)}
    for field in form.fields:
        if field.kind is FieldKind.ATTACHMENT:
            ids = list_file_ids(filled.values.get(field.name, ""))
            for id in ids:
                if id not in files:
                    message = f"{id} is no file that they have sent here; ask them to send it"
                    yield build_field_error("unknown_file", field, message)
            is_needed = field.name in asked or field.required
            if not ids and is_needed and (is_complete or filled.values.get(field.name)):
                message = "needs a file, not an address; ask them to send it here"
                yield build_field_error("file_needed", field, message)


def attach_files(form: Form, filled: FilledForm, files: Mapping[str, AttachedFile]) -> FilledForm:
    named = [
        id for f in form.fields if f.kind is FieldKind.ATTACHMENT for id in list_file_ids(filled.values.get(f.name, ""))
    ]
    return filled.model_copy(update={"files": tuple(files[id] for id in dict.fromkeys(named) if id in files)})


# A length instead of the last day: people say "ten days", and nobody has to count them.

DAY_COUNT = re.compile(r"(\d{1,4}(?:\.\d{1,6})?)(?:天|(?:working)?days?)?", re.IGNORECASE)


def parse_days(text: str) -> Decimal:
    """Parse working days, a multiple of 0.5. Raises `ToolError`."""
    match = DAY_COUNT.fullmatch(remove_spaces(text))
    days = Decimal(match[1]) if match else Decimal(0)
    if days <= 0 or days % Decimal("0.5"):
        message = f"{DAYS}: {text[:60]!r} is no number of working days above 0; write it like 3 or 2.5"
        raise ToolError("bad_days", message, needs_person=True, field=DAYS)
    return days


def fill_end_date(
    form: Form, span: DaySpan, values: Mapping[str, str], days: Decimal, calendar: WorkCalendar
) -> dict[str, str]:
    """Canonical values with the last day after this many working days. A last day that is already there must match.
    Raises `ToolError`: `span_too_long`, `days_differ`."""
    first = date.fromisoformat(values[span.start]), values[span.start_half]
    found = calendar.find_end(first, days)
    if found is None:
        raise ToolError("span_too_long", f"at most {MAX_SPAN} days from first to last", field=DAYS, days=MAX_SPAN)
    end, end_half = str(found[0]), found[1]
    last_day, named_half = values[span.end] or end, values[span.end_half]
    half_field = form.find_field(span.end_half)
    if named_half == (half_field.default if half_field else "") and last_day == end:
        named_half = end_half
    if (last_day, named_half) != (end, end_half):
        given = calendar.measure_working_time(first, (date.fromisoformat(last_day), named_half))
        length = format_decimal(given.working_days)
        if length != format_decimal(days):  # a weekend after the right day is accepted
            message = (
                f"{DAYS} is {format_decimal(days)}, but {first[0]} to {last_day} has {length} working days; "
                f"{format_decimal(days)} end on {end}. "
                "Give days without the last day, or the last day without days"
            )
            raise ToolError(
                "days_differ",
                message,
                needs_person=True,
                field=DAYS,
                days=format_decimal(days),
                start=list_day_words(first[0]),
                end=list_day_words(last_day),
                length=length,
            )
    return {**values, span.end: last_day, span.end_half: named_half}
