"""Finds the claims in an answer and checks them against what was seen. Pure.

Claims are numbers of requests and tasks, mail addresses, amounts, balances, counts, days and names of people in the
directory, each in its usual Chinese and English spellings, normalized to one form. A claim is supported if a source has
it in any spelling, or if it follows from the sources: an amount as a sum, a difference or a product, a day by a
duration. A date with a wrong weekday is never supported. If it is unclear whether something is a claim, it is none: a
false alarm costs more trust than a miss, because everything with consequences is on a card that code has written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from enum import Enum
from itertools import islice

from bot.agent.grounding import numbers
from bot.agent.grounding.dates import DAY, DayMention, DayParser, is_definite_day, is_derived_day
from bot.agent.grounding.name_index import Spellings, format_person_value, index_names, is_full_name
from bot.agent.grounding.sentences import IDENTIFIER, blank_examples, blank_unstated, normalize_text, split_clauses

_MAIL = re.compile(r"(?<![a-z0-9._%+-])[a-z0-9._%+-]{1,64}@[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63})+", re.I)
_ABOUT = re.compile(r"(?:约|大约|大概|将近|近|左右|about|around|roughly|nearly|approximately)\s{0,2}$", re.I)
_OPEN = re.compile(
    r"[没未不尚等待]|(?<!申)请(?!假)|如果|要是|可以|可能|或|[再将会要吗呢?]|"
    r"\b(?:not|never|no|if|once|when|until|unless|(?<!day )(?:before|after)|will|would|can|could|may|"
    r"might|should|shall|please|again|waits?|waiting|needs?|want|let|do you|or)\b|n't\b",
    re.I,
)
MAX_CLAIMS = 200
"""Most claims of one kind that are checked: nobody reads an answer with more."""
MAX_OPERANDS, MAX_SUMS, MAX_DAYS, MAX_DURATIONS = 60, 2_000, 60, 40
"""What is used from the sources in calculations: amounts, sums of neighbours, days, durations."""
MIN_OPERAND = 20
"""A smaller amount is no operand: small numbers are everywhere, and could produce any figure."""


class ClaimKind(Enum):
    NAMED = "named"
    """A request number, an address, a person: it is there or not."""
    AMOUNT = "amount"
    BALANCE = "balance"
    COUNT = "count"
    DAY = "day"
    MISDATED = "misdated"


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of an answer, in the answer's words."""

    text: str
    values: frozenset[str]
    """Its normalized form; several if the words are ambiguous, and any of them is enough."""
    kind: ClaimKind = ClaimKind.NAMED
    is_about: bool = False
    """An amount that is said to be rounded."""


@dataclass(frozen=True, slots=True)
class ClaimSource:
    """Something that may support an answer."""

    text: str
    is_wish: bool = False
    """The person's own words, or a call's arguments. A wish supports no balance and no count."""
    counts: frozenset[int] = frozenset()
    """Numbers of entries of a kind in it."""


@dataclass(frozen=True, slots=True)
class ClaimCheckResult:
    """The result of checking an answer's claims."""

    claim_count: int = 0
    unsupported: tuple[str, ...] = ()
    """In the answer's words and order."""


@dataclass(slots=True, kw_only=True)
class SourceValues:
    """All values in the sources."""

    values: set[str] = field(default_factory=set)
    amounts: dict[int, None] = field(default_factory=dict)
    """In hundredths, in order."""
    sums: set[int] = field(default_factory=set)
    """Of neighbouring amounts."""
    factors: dict[int, None] = field(default_factory=dict)
    days: dict[str, None] = field(default_factory=dict)
    lengths: dict[Decimal, None] = field(default_factory=dict)
    """In days, of all sources;"""
    balances: set[Decimal] = field(default_factory=set)
    """and of those that are no wish."""
    figures: set[Decimal] = field(default_factory=set)
    """Any number that is no wish."""
    counts: set[int] = field(default_factory=set)


def check_claims(
    answer: str, sources: Iterable[ClaimSource], today: date, people: Sequence[Spellings] = ()
) -> ClaimCheckResult:
    """The unsupported claims of `answer`. `today`: relative days are counted from it; `people`: those of the directory.
    `sources` is not read if there are no claims."""
    calendar = DayParser(today)
    claims = list(_find_claims(answer, calendar, people))
    if not claims:
        return ClaimCheckResult()
    meant, kinds = {value for one in claims for value in one.values}, {one.kind for one in claims}
    concerned = list_people_meant(meant, people)
    values = SourceValues(days={today.isoformat(): None})
    for source in sources:
        _add_source(values, source, calendar, concerned, kinds)
    values.values |= _list_agreeing_days(answer, calendar)
    missing = tuple(one.text for one in claims if not _is_supported(values, one))
    return ClaimCheckResult(len(claims), missing)


def list_claims(answer: str, today: date, people: Sequence[Spellings] = (), *, whole: bool = False) -> Iterator[Claim]:
    """The claims of an answer, each once. `whole`: also in questions and examples."""
    return _find_claims(answer, DayParser(today), people, whole=whole)


def _find_claims(
    answer: str, calendar: DayParser, people: Sequence[Spellings], *, whole: bool = False
) -> Iterator[Claim]:
    text, seen = normalize_text(answer), set[tuple[ClaimKind, frozenset[str]]]()
    text = text if whole else blank_examples(text)
    facts = text if whole else blank_unstated(text)
    _, exact = _extract_identifiers(text)
    plain_text, _ = _extract_identifiers(facts)
    claim_streams: Sequence[Iterator[Claim]] = (
        iter(exact),
        _find_date_claims(plain_text, calendar),
        _find_relative_day_claims(facts, calendar),
        _find_figure_claims(DAY.sub(" ", plain_text)),
        _find_person_claims(facts, people),
        _find_misdated_claims(plain_text, calendar),
    )
    for one in (claim for claims in claim_streams for claim in islice(claims, MAX_CLAIMS)):
        if one.values and (one.kind, one.values) not in seen:
            seen.add((one.kind, one.values))
            yield one


def collect_source_values(source: str, today: date, people: Sequence[Spellings] = ()) -> set[str]:
    """Everything in a source that can support a claim: also numbers without a currency, ambiguous days, and short names
    of people."""
    known = SourceValues()
    _add_source(known, ClaimSource(source), DayParser(today), people, frozenset(ClaimKind))
    return known.values | {today.isoformat()}


def is_open_ended(clause: str) -> bool:
    """True for a question, a condition, advice, a refusal or a plan: it states no day as a fact."""
    return _OPEN.search(clause) is not None


def find_full_names(text: str, people: Sequence[Spellings]) -> list[Spellings]:
    """People whose full name is in the text: two Chinese characters, or two words of a Latin name. A single Latin word
    may be any word."""
    flat = " ".join(text.split()).casefold()
    return [names for names in index_names(people).list_candidates(flat) if _find_full_name(names, flat)]


def list_people_meant(values: Iterable[str], people: Sequence[Spellings]) -> list[Spellings]:
    """The people whom claims with these values are about."""
    by_value = index_names(people).by_value
    return [by_value[value] for value in values if value in by_value]


def mentions_person(text: str, names: Spellings) -> bool:
    """True if the text has any name of the person, short ones too. `text` is dense (`compact_text`)."""
    return any(len(name) > 1 and compact_text(normalize_text(name)) in text for name in names)


def compact_text(text: str) -> str:
    """The text without blanks and in lower case."""
    return "".join(text.split()).casefold()


def _add_source(
    values: SourceValues,
    source: ClaimSource,
    calendar: DayParser,
    people: Sequence[Spellings],
    kinds: Iterable[ClaimKind],
) -> None:
    """Adds what could support claims of these kinds."""
    text = normalize_text(source.text)
    plain_text, exact = _extract_identifiers(text)
    ids = {value for one in exact for value in one.values}
    values.values |= ids | {"-".join(value.split("-")[:2]) for value in ids if IDENTIFIER.fullmatch(value)}
    whole = compact_text(text)
    values.values |= {format_person_value(names) for names in people if mentions_person(whole, names)}
    wanted_kinds = set(kinds)
    if ClaimKind.DAY in wanted_kinds:
        _add_source_days(values, text, plain_text, calendar)
    wants_figures = bool(wanted_kinds & {ClaimKind.AMOUNT, ClaimKind.BALANCE, ClaimKind.COUNT})
    figures = DAY.sub(" ", plain_text) if wants_figures or ClaimKind.DAY in wanted_kinds else ""
    if wants_figures:
        _add_source_figures(values, figures, source)
    if wanted_kinds & {ClaimKind.BALANCE, ClaimKind.DAY}:
        spans = {one.value: None for one in islice(numbers.find_durations(figures), MAX_DURATIONS)}
        values.lengths |= spans
        values.balances |= set() if source.is_wish else set(spans)
    values.counts |= source.counts


def _add_source_days(values: SourceValues, text: str, rest: str, calendar: DayParser) -> None:
    days = {value for one in calendar.find_dates(rest) for value in one.dates}
    days |= {value for one, _ in calendar.find_relative_days(text) for value in one.dates}
    values.values |= days | calendar.find_shortened_days(DAY.sub(" ", rest)) | calendar.find_holidays(text)
    values.days |= dict.fromkeys(islice(sorted(days), MAX_DAYS))


def _add_source_figures(values: SourceValues, text: str, source: ClaimSource) -> None:
    row = list[int]()
    for pattern in (numbers.find_numbers, numbers.find_amounts):
        for mention in pattern(text):
            values.values.add(f"#{numbers.format_number(mention.value)}")
            if not source.is_wish:
                values.figures.add(mention.value)
            cents = mention.value * 100
            if cents == int(cents) and mention.value >= MIN_OPERAND:
                values.amounts[int(cents)] = None
                row.append(int(cents))
            if mention.value == int(mention.value) and 2 <= mention.value <= 400:
                values.factors[int(mention.value)] = None
    for start in range(min(len(row), MAX_OPERANDS)):
        total = row[start]
        for value in row[start + 1 : start + 13]:
            total += value
            if len(values.sums) < MAX_SUMS:
                values.sums.add(total)


def _is_supported(values: SourceValues, claim: Claim) -> bool:
    match claim.kind:
        case ClaimKind.MISDATED:
            return False
        case ClaimKind.AMOUNT:
            return not values.values.isdisjoint(claim.values) or any(
                _is_computable_amount(values, one, claim) for one in claim.values
            )
        case ClaimKind.BALANCE:
            return any(_is_supported_balance(values, Decimal(one[1:])) for one in claim.values)
        case ClaimKind.COUNT:
            return any(_is_supported_count(values, Decimal(one[1:])) for one in claim.values)
        case ClaimKind.DAY:
            lengths = list(islice(values.lengths, MAX_DURATIONS))
            days = list(islice(values.days, MAX_DAYS))
            return not values.values.isdisjoint(claim.values) or any(
                is_derived_day(one, days, lengths) for one in claim.values
            )
        case _:
            return not values.values.isdisjoint(claim.values)


def _is_computable_amount(values: SourceValues, value: str, claim: Claim) -> bool:
    """True for an amount that is a sum, a difference, a product or a share of amounts that were seen."""
    exact = Decimal(value[1:]) * 100
    if exact != int(exact):
        return False
    cents, amounts, factors = (
        int(exact),
        list(islice(values.amounts, MAX_OPERANDS)),
        list(islice(values.factors, MAX_OPERANDS)),
    )
    seen = set(amounts)
    if claim.is_about and any(abs(one - cents) * 20 <= one for one in amounts):
        return True
    if cents in values.sums or any(cents - one in seen or cents + one in seen for one in amounts):
        return True
    if any(one * factor in (cents, cents * 100) or cents * factor == one for one in amounts for factor in factors):
        return True
    return any(cents - one - other in seen for one in amounts for other in amounts if one + other < cents)


def _is_supported_balance(values: SourceValues, value: Decimal) -> bool:
    """True for a balance that was seen, is the rest of one, or the sum of several."""
    if value in values.balances:
        return True
    lengths = list(islice(values.lengths, MAX_DURATIONS))
    return any(abs(value - one) in lengths or value + one in lengths for one in values.balances)


def _is_supported_count(known: SourceValues, value: Decimal) -> bool:
    return value in known.figures or (value == int(value) and int(value) in known.counts)


def _extract_identifiers(text: str) -> tuple[str, list[Claim]]:
    """Numbers of requests and tasks, and mail addresses; and the text without them."""
    claims = list[Claim]()
    for pattern in (_MAIL, IDENTIFIER):
        values = dict.fromkeys(one[0] for one in pattern.finditer(text))
        claims += [Claim(one, frozenset({one.upper()})) for one in values]
        text = pattern.sub(" ", text)
    return text, claims


def _find_figure_claims(text: str) -> Iterator[Claim]:
    """Amounts, balances and counts."""
    for mention in numbers.find_amounts(text):
        is_about = _ABOUT.search(text[max(0, mention.start - 16) : mention.start]) is not None
        yield Claim(mention.text, _build_number_values(mention), ClaimKind.AMOUNT, is_about)
    yield from (
        Claim(mention.text, _build_number_values(mention), ClaimKind.BALANCE) for mention in numbers.find_balances(text)
    )
    yield from (
        Claim(mention.text, _build_number_values(mention), ClaimKind.COUNT)
        for mention in numbers.find_counts(text)
        if mention.value > 1
    )


def _build_number_values(number: numbers.NumberMention) -> frozenset[str]:
    return frozenset({f"#{numbers.format_number(number.value)}"})


def _find_date_claims(text: str, calendar: DayParser) -> Iterator[Claim]:
    """Days given as dates."""
    known = set[str]()
    for day in calendar.find_dates(text):
        if day.text not in known:
            known.add(day.text)
            yield Claim(day.text, day.dates, ClaimKind.DAY)


def _find_misdated_claims(text: str, calendar: DayParser) -> Iterator[Claim]:
    return (
        Claim(one, frozenset({one}), ClaimKind.MISDATED)
        for one in calendar.find_misdated(text, islice(calendar.find_dates(text), MAX_CLAIMS))
    )


def _find_relative_day_claims(text: str, calendar: DayParser) -> Iterator[Claim]:
    """Days given relative to today, in clauses that state facts."""
    for clause in split_clauses(text):
        for day, found in calendar.find_relative_days(clause.text) if not is_open_ended(clause.text) else ():
            if is_definite_day(found):
                yield Claim(day.text, day.dates, ClaimKind.DAY)


def _list_agreeing_days(answer: str, calendar: DayParser) -> set[str]:
    """Days that the answer gives both as a date and relative to today, in agreement: the calendar supports them."""
    text, _ = _extract_identifiers(blank_unstated(blank_examples(normalize_text(answer))))
    days: list[DayMention] = [
        one for one in islice(calendar.find_dates(text), MAX_CLAIMS) if calendar.matches_relative_day(text, one)
    ]
    return {value for one in days for value in one.dates} | calendar.find_holidays(text)


def _find_person_claims(text: str, people: Sequence[Spellings]) -> Iterator[Claim]:
    flat = " ".join(text.split()).casefold()
    for names in index_names(people).list_candidates(flat):
        if name := _find_full_name(names, flat):
            yield Claim(name, frozenset({format_person_value(names)}))


def _find_full_name(names: Spellings, flat: str) -> str:
    return next((name for name in names if is_full_name(name) and _has_whole_name(name.casefold(), flat)), "")


def _has_whole_name(name: str, text: str) -> bool:
    """As separate words, in scripts that separate words."""
    if not name.isascii() or name not in text:
        return name in text
    return re.search(rf"(?<![a-z]){re.escape(name)}(?![a-z])", text) is not None
