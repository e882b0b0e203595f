"""Finds the claims in an answer and checks them against what was seen. Pure.

Claims are numbers of requests and tasks, mail addresses, amounts, balances, days and names of people in the directory.
Each is found in its usual Chinese and English spellings and normalized to one form.

A claim is supported if a source has it in any spelling, or if it follows from the sources. An amount follows as a sum,
a difference or a product within one currency, a day by a duration. A sentence about one request is checked against what
is known of that request. A date with a wrong weekday is never supported.

Words that may not be a claim are not treated as one. A false alarm costs more trust than a miss, because everything
with consequences is on a card that code has written."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from enum import Enum
from itertools import accumulate, chain, combinations, islice

from bot.agent.grounding import numbers
from bot.agent.grounding.dates import DAY, DayParser, is_definite_day, is_derived_day
from bot.agent.grounding.name_index import Spellings, format_person_value, index_names, is_full_name
from bot.agent.grounding.sentences import (
    IDENTIFIER,
    blank_examples,
    blank_unstated,
    find_requests,
    normalize_text,
    split_clauses,
    split_sentences,
)

_MAIL = re.compile(r"(?<![a-z0-9._%+-])[a-z0-9._%+-]{1,64}@[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63})+", re.I)
_ABOUT = re.compile(r"(?:约|大约|大概|将近|近|左右|about|around|roughly|nearly|approximately)\s{0,2}$", re.I)
_OPEN = re.compile(
    r"[没未不尚等待]|(?<!申)请(?!假)|如果|要是|可以|可能|或|[再将会要吗呢?]|"
    r"\b(?:not|never|no|if|once|when|until|unless|(?<!day )(?:before|after)|will|would|can|could|may|"
    r"might|should|shall|please|again|waits?|waiting|needs?|want|let|do you|or)\b|n't\b",
    re.I,
)
MAX_CLAIMS = 200
"""Most claims of one kind that are checked. Nobody reads an answer with more."""
MAX_REQUESTS = 20
"""Most requests whose sentences are checked separately."""
MAX_OPERANDS, MAX_SUMMANDS, MAX_DAYS, MAX_DURATIONS = 60, 13, 60, 40
"""Most values from the sources used in calculations: amounts, neighbours in a sum, days, durations."""
MIN_OPERAND = 20
"""Smallest amount used in calculations. Smaller numbers are everywhere and could produce any figure."""


class ClaimKind(Enum):
    NAMED = "named"
    """A request number, an address or a person, which a source must contain."""
    AMOUNT = "amount"
    BALANCE = "balance"
    DAY = "day"
    MISDATED = "misdated"


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of an answer, in the answer's words."""

    text: str
    values: frozenset[str]
    """The claim's normalized forms. Ambiguous words have several, and support for any of them is enough."""
    kind: ClaimKind = ClaimKind.NAMED
    is_about: bool = False
    """Whether the answer says that the amount is rounded."""
    currencies: frozenset[str] = frozenset()
    """The currencies that an amount may be in. Empty if its words name none."""
    request: str = ""
    """Number of the one request that the claim's sentence is about, or empty."""


@dataclass(frozen=True, slots=True)
class ClaimSource:
    """A text that may support an answer."""

    text: str
    is_wish: bool = False
    """Whether the text is the person's own words or a call's arguments. A wish supports no balance."""


@dataclass(frozen=True, slots=True)
class ClaimCheckResult:
    claim_count: int = 0
    unsupported: tuple[str, ...] = ()
    """The unsupported claims, in the answer's words and order."""


@dataclass(slots=True, kw_only=True)
class SourceValues:
    """All values found in the sources."""

    values: set[str] = field(default_factory=set)
    is_complete: bool = False
    """Whether the values are all that is known of one request. If its amount has a currency, it counts in that currency
    only."""
    currencies: dict[int, set[str]] = field(default_factory=dict)
    """Amount in hundredths → the currencies that sources give it in. An empty text stands for a source that names
    none."""
    rows: dict[str, list[int]] = field(default_factory=dict)
    """Currency → amounts in hundredths, in their order. An empty text stands for amounts without a currency."""
    factors: dict[int, None] = field(default_factory=dict)
    days: dict[str, None] = field(default_factory=dict)
    lengths: dict[Decimal, None] = field(default_factory=dict)
    """Durations, in days."""
    balances: set[Decimal] = field(default_factory=set)
    """Balances of an allowance that sources state (days), wishes excluded."""


Records = Mapping[str, Sequence[str]]
"""Number of a request → what results say of that request."""


def check_claims(
    answer: str,
    sources: Iterable[ClaimSource],
    today: date,
    people: Sequence[Spellings] = (),
    records: Records | None = None,
) -> ClaimCheckResult:
    """Return the unsupported claims of `answer`. Relative days are counted from `today`. `people` are those of the
    directory. `sources` is not read if there are no claims. In a sentence about a request in `records`, only its
    records support amounts and days, if they have any."""
    calendar = DayParser(today)
    claims = list(_find_claims(answer, calendar, people))
    if not claims:
        return ClaimCheckResult()
    meant, kinds = {value for one in claims for value in one.values}, {one.kind for one in claims}
    concerned = list_people_meant(meant, people)
    # The calendar supports holidays, and days that the answer gives as a date and relative to today, in agreement.
    stated, _ = _extract_identifiers(blank_unstated(blank_examples(normalize_text(answer))))
    dates = islice(calendar.find_dates(stated), MAX_CLAIMS)
    agreeing = {value for one in dates if calendar.matches_relative_day(stated, one) for value in one.dates}
    agreeing |= calendar.find_holidays(stated)
    known = dict[str, SourceValues]()

    def load_values(request: str, sources: Iterable[ClaimSource]) -> SourceValues:
        if request not in known:
            days = {today.isoformat(): None}
            known[request] = SourceValues(values=set(agreeing), days=days, is_complete=bool(request))
            for source in sources:
                _add_source(known[request], source, calendar, concerned, kinds)
        return known[request]

    everything, missing = load_values("", sources), list[str]()
    for one in claims:
        lines = (records or {}).get(one.request, ())
        own = load_values(one.request, map(ClaimSource, lines)) if lines else everything
        has_amounts = one.kind is ClaimKind.AMOUNT and bool(own.currencies)
        has_days = one.kind is ClaimKind.DAY and len(own.days) > 1  # today is always one of them
        if not _is_supported(own if has_amounts or has_days else everything, one):
            missing.append(one.text)
    return ClaimCheckResult(len(claims), tuple(missing))


def list_claims(answer: str, today: date, people: Sequence[Spellings] = (), *, whole: bool = False) -> Iterator[Claim]:
    """Yield the claims of an answer, each once. With `whole`, questions and examples are searched too."""
    return _find_claims(answer, DayParser(today), people, whole=whole)


def _find_claims(
    answer: str, calendar: DayParser, people: Sequence[Spellings], *, whole: bool = False
) -> Iterator[Claim]:
    text, seen = normalize_text(answer), set[Claim]()
    text = text if whole else blank_examples(text)
    facts = text if whole else blank_unstated(text)
    # The sentences by the number of the one request that they are about. All others are under an empty text.
    parts = defaultdict[str, list[str]](list)
    for sentence in split_sentences(facts):
        requests = find_requests(sentence)
        parts[requests[0] if len(requests) == 1 and len(parts) < MAX_REQUESTS else ""].append(sentence)
    claim_streams: list[tuple[str, Iterable[Claim]]] = [("", islice(_extract_identifiers(text)[1], MAX_CLAIMS))]
    claim_streams += ((request, _find_part_claims("".join(some), calendar, people)) for request, some in parts.items())
    for request, claims in claim_streams:
        for claim in claims:
            key = replace(claim, request=request, text="", is_about=False)
            if claim.values and key not in seen:
                seen.add(key)
                yield replace(claim, request=request)


def _find_part_claims(text: str, calendar: DayParser, people: Sequence[Spellings]) -> Iterator[Claim]:
    """Yield the claims in a part of an answer: dates, days relative to today in clauses that state facts, figures,
    people, and dates with a wrong weekday. Of each, at most `MAX_CLAIMS`."""
    plain_text, _ = _extract_identifiers(text)
    dates = set[str]()
    for day in calendar.find_dates(plain_text):
        if len(dates) == MAX_CLAIMS:
            break
        if day.text not in dates:
            dates.add(day.text)
            yield Claim(day.text, day.dates, ClaimKind.DAY)
    relative = (
        Claim(day.text, day.dates, ClaimKind.DAY)
        for clause in split_clauses(text)
        if not is_open_ended(clause.text)
        for day, found in calendar.find_relative_days(clause.text)
        if is_definite_day(found)
    )
    yield from islice(relative, MAX_CLAIMS)
    figures = DAY.sub(" ", plain_text)
    amounts = (
        Claim(
            one.text,
            _build_number_values(one),
            ClaimKind.AMOUNT,
            is_about=_ABOUT.search(figures[max(0, one.start - 16) : one.start]) is not None,
            currencies=frozenset(numbers.find_currencies(one.text)),
        )
        for one in numbers.find_amounts(figures)
    )
    balances = (Claim(one.text, _build_number_values(one), ClaimKind.BALANCE) for one in numbers.find_balances(figures))
    yield from islice(chain(amounts, balances), MAX_CLAIMS)
    flat = " ".join(text.split()).casefold()
    named = (
        Claim(name, frozenset({format_person_value(names)}))
        for names in index_names(people).list_candidates(flat)
        if (name := _find_full_name(names, flat))
    )
    yield from islice(named, MAX_CLAIMS)
    misdated = calendar.find_misdated(plain_text, islice(calendar.find_dates(plain_text), MAX_CLAIMS))
    yield from (Claim(one, frozenset({one}), ClaimKind.MISDATED) for one in islice(misdated, MAX_CLAIMS))


def collect_source_values(source: str, today: date, people: Sequence[Spellings] = ()) -> set[str]:
    """Return everything in a source that can support a claim, including numbers without a currency, ambiguous days and
    short names of people."""
    known = SourceValues()
    _add_source(known, ClaimSource(source), DayParser(today), people, frozenset(ClaimKind))
    return known.values | {today.isoformat()}


def is_open_ended(clause: str) -> bool:
    """Return whether the clause is a question, a condition, advice, a refusal or a plan. Such a clause states no day as
    a fact."""
    return _OPEN.search(clause) is not None


def find_full_names(text: str, people: Sequence[Spellings]) -> list[Spellings]:
    """Return the people whose full name is in the text: two Chinese characters, or two words of a Latin name. A single
    Latin word may be any word."""
    flat = " ".join(text.split()).casefold()
    return [names for names in index_names(people).list_candidates(flat) if _find_full_name(names, flat)]


def list_people_meant(values: Iterable[str], people: Sequence[Spellings]) -> list[Spellings]:
    """Return the people that claims with these values are about."""
    by_value = index_names(people).by_value
    return [by_value[value] for value in values if value in by_value]


def mentions_person(text: str, names: Spellings) -> bool:
    """Return whether the text has any name of the person, short ones included. `text` has no blanks
    (`compact_text`)."""
    return any(len(name) > 1 and compact_text(normalize_text(name)) in text for name in names)


def compact_text(text: str) -> str:
    """Return the text without blanks and in lower case."""
    return "".join(text.split()).casefold()


def _add_source(
    values: SourceValues,
    source: ClaimSource,
    calendar: DayParser,
    people: Sequence[Spellings],
    kinds: Iterable[ClaimKind],
) -> None:
    """Add the values of a source that could support claims of these kinds."""
    text = normalize_text(source.text)
    plain_text, exact = _extract_identifiers(text)
    ids = {value for one in exact for value in one.values}
    values.values |= ids | {"-".join(value.split("-")[:2]) for value in ids if IDENTIFIER.fullmatch(value)}
    whole = compact_text(text)
    values.values |= {format_person_value(names) for names in people if mentions_person(whole, names)}
    wanted_kinds = set(kinds)
    figures = DAY.sub(" ", plain_text)
    if ClaimKind.DAY in wanted_kinds:
        days = {value for one in calendar.find_dates(plain_text) for value in one.dates}
        days |= {value for one, _ in calendar.find_relative_days(text) for value in one.dates}
        values.values |= days | calendar.find_shortened_days(figures) | calendar.find_holidays(text)
        values.days |= dict.fromkeys(islice(sorted(days), MAX_DAYS))
        values.lengths |= {one.value: None for one in islice(numbers.find_durations(figures), MAX_DURATIONS)}
    if ClaimKind.AMOUNT in wanted_kinds:
        _add_source_figures(values, figures)
    if ClaimKind.BALANCE in wanted_kinds and not source.is_wish:
        values.balances |= {one.value for one in islice(numbers.find_balances(figures), MAX_DURATIONS)}


def _add_source_figures(values: SourceValues, text: str) -> None:
    amounts = [(one, numbers.find_currencies(one.text) or {""}) for one in numbers.find_amounts(text)]
    bare = [(one, {""}) for one in numbers.find_numbers(numbers.AMOUNT.sub(" ", text))]
    for mention, currencies in (*bare, *amounts):
        values.values.add(f"#{numbers.format_number(mention.value)}")
        cents = mention.value * 100
        if cents == int(cents):
            values.currencies.setdefault(int(cents), set()).update(currencies)
            if mention.value >= MIN_OPERAND:
                for currency in currencies:
                    values.rows.setdefault(currency, []).append(int(cents))
        if mention.value == int(mention.value) and 2 <= mention.value <= 400:
            values.factors[int(mention.value)] = None


def _is_supported(values: SourceValues, claim: Claim) -> bool:
    match claim.kind:
        case ClaimKind.MISDATED:
            return False
        case ClaimKind.AMOUNT:
            return any(_is_supported_amount(values, Decimal(one[1:]) * 100, claim) for one in claim.values)
        case ClaimKind.BALANCE:  # seen, or the sum of two that were
            seen, said = values.balances, [Decimal(one[1:]) for one in claim.values]
            return any(one in seen or any(one - other in seen for other in seen) for one in said)
        case ClaimKind.DAY:
            lengths = list(islice(values.lengths, MAX_DURATIONS))
            days = list(islice(values.days, MAX_DAYS))
            return not values.values.isdisjoint(claim.values) or any(
                is_derived_day(one, days, lengths) for one in claim.values
            )
        case _:
            return not values.values.isdisjoint(claim.values)


def _is_supported_amount(values: SourceValues, amount: Decimal, claim: Claim) -> bool:
    """Return whether a source has the amount (in hundredths), or it follows from amounts of sources, in the claim's
    currency or without one. It follows as a sum of neighbours, the sum or difference of two, a product or a share. A
    rounded amount may also be within 5 % of one of them."""
    cents = int(amount)
    if amount != cents:
        return False
    seen = values.currencies.get(cents, set())
    seen = (seen - {""}) or seen if values.is_complete else seen
    if seen and (not claim.currencies or "" in seen or not claim.currencies.isdisjoint(seen)):
        return True
    rows, factors = dict(values.rows), list(islice(values.factors, MAX_OPERANDS))
    bare = rows.pop("", []) if values.is_complete and len(rows) > 1 else rows.get("", [])
    for currency, row in rows.items():
        if currency and claim.currencies and currency not in claim.currencies:
            continue
        operands = (row if not currency else [*bare, *row])[:MAX_OPERANDS]
        if (
            any(cents in accumulate(operands[start : start + MAX_SUMMANDS]) for start in range(len(operands)))
            or any(cents in (one + other, abs(one - other)) for one, other in combinations(operands, 2))
            or any(one * n in (cents, cents * 100) or cents * n == one for one in operands for n in factors)
            or (claim.is_about and any(abs(one - cents) * 20 <= one for one in operands))
        ):
            return True
    return False


def _extract_identifiers(text: str) -> tuple[str, list[Claim]]:
    """Return the text without numbers of requests and tasks and mail addresses, and these as claims."""
    claims = list[Claim]()
    for pattern in (_MAIL, IDENTIFIER):
        values = dict.fromkeys(one[0] for one in pattern.finditer(text))
        claims += [Claim(one, frozenset({one.upper()})) for one in values]
        text = pattern.sub(" ", text)
    return text, claims


def _build_number_values(number: numbers.NumberMention) -> frozenset[str]:
    return frozenset({f"#{numbers.format_number(number.value)}"})


def _find_full_name(names: Spellings, flat: str) -> str:
    """Return the full name that is in the text, as separate words in scripts that separate words."""
    for name in filter(is_full_name, names):
        lower = name.casefold()
        if lower in flat and (not lower.isascii() or re.search(rf"(?<![a-z]){re.escape(lower)}(?![a-z])", flat)):
            return name
    return ""
