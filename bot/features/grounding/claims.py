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
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from itertools import accumulate, chain, combinations, islice
from types import MappingProxyType
from typing import Literal

from bot.agent.request_numbers import IDENTIFIER, find_requests, normalize_text
from bot.features.grounding import dates, numbers, sentences
from bot.features.grounding.names import NOBODY, NameIndex, find_mentioned

_NAMED = re.compile(
    rf"(?<![a-z0-9._%+-])[a-z0-9._%+-]{{1,64}}@[a-z0-9-]{{1,63}}(?:\.[a-z0-9-]{{1,63}})+|{IDENTIFIER.pattern}", re.I
)
"""A mail address, or the number of a request or a task."""
MAX_CLAIMS = 400
"""Most claims that are checked. Nobody reads an answer with more."""
MAX_OPERANDS, MAX_SUMMANDS, MAX_DAYS = 60, 13, 60
"""Most values from the sources used in calculations: amounts, neighbours in a sum, days."""
MIN_OPERAND = 20
"""Smallest amount used in calculations. Smaller numbers are everywhere and could produce any figure."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of an answer, in the answer's words."""

    text: str = field(compare=False)
    values: frozenset[str]
    """The claim's normalized forms. Ambiguous words have several, and support for any of them is enough."""
    kind: Literal["named", "amount", "balance", "day"] = "named"
    """A source must contain what is named; the others may follow from sources."""
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


@dataclass(slots=True, kw_only=True)
class SourceValues:
    """All values found in the sources."""

    today: date
    people: Iterable[str] = ()
    """Values of the people that are looked for."""
    values: set[str] = field(default_factory=set)
    amounts: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Currency → amounts in hundredths, in their order. An empty text stands for amounts without a currency."""
    factors: dict[int, None] = field(default_factory=dict)
    days: dict[str, None] = field(default_factory=dict)
    durations: set[int] = field(default_factory=set)
    balances: set[Decimal] = field(default_factory=set)
    """Balances of an allowance that sources state, wishes excluded."""

    def add_source(self, source: ClaimSource) -> None:
        text = normalize_text(source.text)
        plain = _NAMED.sub(" ", text)
        figures = dates.DAY.sub(" ", plain)
        ids = {one.upper() for one in _NAMED.findall(text)}
        days = {value for one in dates.find_days(plain, self.today) for value in one.dates}
        self.values |= ids | {"-".join(value.split("-")[:2]) for value in ids} | days
        self.values |= dates.find_shortened_days(figures, self.today) | dates.find_holidays(text, self.today)
        self.values |= find_mentioned(text, self.people)
        self.days |= dict.fromkeys(sorted(days)[:MAX_DAYS])
        self.durations |= numbers.find_durations(figures)
        self.balances |= (
            set() if source.is_wish else {one.value for one in numbers.find_numbers(numbers.BALANCE, figures)}
        )
        for pattern, some in ((numbers.NUMBER, numbers.AMOUNT.sub(" ", figures)), (numbers.AMOUNT, figures)):
            for number in numbers.find_numbers(pattern, some):
                self.values.add(number.code)
                for currency in numbers.find_currencies(number.text) or {""}:
                    self.amounts[currency].append(int(number.value * 100))
                if number.value == int(number.value) and 2 <= number.value <= 400:
                    self.factors[int(number.value)] = None

    def keep_to_one_request(self) -> None:
        """Drop amounts without a currency that are also given with one: these count in that currency only. Drop the
        factors: the hours and numbers in a record multiply nothing."""
        self.factors.clear()
        given = {one for currency, row in self.amounts.items() if currency for one in row}
        self.amounts[""] = [one for one in self.amounts[""] if one not in given]

    def supports(self, claim: Claim) -> bool:
        if claim.kind == "amount":
            return any(self._supports_amount(int(Decimal(one[1:]) * 100), claim.currencies) for one in claim.values)
        if claim.kind == "balance":  # seen, or the sum of two that were
            said = [Decimal(one[1:]) for one in claim.values]
            return any(one in self.balances or any(one - n in self.balances for n in self.balances) for one in said)
        if not self.values.isdisjoint(claim.values):
            return True
        days = list(self.days)[:MAX_DAYS]
        return claim.kind == "day" and any(dates.is_derived_day(one, days, self.durations) for one in claim.values)

    def _supports_amount(self, amount: int, currencies: frozenset[str]) -> bool:
        """Return whether a source has the amount (in hundredths), or it follows from amounts of sources, in the claim's
        currency or without one. It follows as a sum of neighbours, the sum or difference of two, a product or a
        share."""
        for currency, row in list(self.amounts.items()):
            if currency and currencies and currency not in currencies:
                continue
            seen = [*self.amounts[""], *row] if currency else row
            some = [one for one in seen if one >= MIN_OPERAND * 100][:MAX_OPERANDS]
            if (
                amount in seen
                or any(amount in accumulate(some[start : start + MAX_SUMMANDS]) for start in range(len(some)))
                or any(amount in (one + other, abs(one - other)) for one, other in combinations(some, 2))
                or any(one * n in (amount, amount * 100) or amount * n == one for one in some for n in self.factors)
            ):
                return True
        return False


def check_claims(
    answer: str,
    sources: Iterable[ClaimSource],
    today: date,
    people: NameIndex = NOBODY,
    records: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> dict[Claim, bool]:
    """Return each claim of `answer` → whether it is supported. Relative days are counted from `today`. `people` are
    those of the directory. `sources` is not read if there are no claims. In a sentence about a request in `records`,
    only its records (number of a request → what results say of it) support amounts and days, if they have any."""
    claims = list(list_claims(answer, today, people))
    if not claims:
        return {}
    about = {one.request for one in claims}
    named = {value for one in claims for value in one.values if value.startswith("@")}
    # The calendar supports holidays, and days that the answer gives as a date and relative to today, in agreement.
    stated = _NAMED.sub(" ", sentences.blank_unstated(sentences.blank_examples(normalize_text(answer))))
    certain = dates.compare_days(stated, today)[0] | dates.find_holidays(stated, today)

    def collect_values(some: Iterable[ClaimSource]) -> SourceValues:
        known = SourceValues(today=today, people=named, values=set(certain), days={today.isoformat(): None})
        for source in some:
            known.add_source(source)
        return known

    everything = collect_values(sources)
    own = {request: collect_values(map(ClaimSource, lines)) for request, lines in records.items() if request in about}
    for known in own.values():
        known.keep_to_one_request()

    def is_supported(claim: Claim) -> bool:
        known = own.get(claim.request, everything)
        has_days = claim.kind == "day" and len(known.days) > 1  # today is always one of them
        has_amounts = claim.kind == "amount" and bool(known.amounts)
        return (known if has_days or has_amounts else everything).supports(claim)

    return {one: is_supported(one) for one in claims}


def list_claims(answer: str, today: date, people: NameIndex = NOBODY, *, whole: bool = False) -> Iterator[Claim]:
    """Yield the claims of an answer, each once, at most `MAX_CLAIMS`. With `whole`, questions and examples are searched
    too."""
    text = normalize_text(answer)
    text = text if whole else sentences.blank_examples(text)
    # The sentences by the number of the one request that they are about. All others are under an empty text.
    parts = defaultdict[str, list[str]](list)
    for sentence in sentences.split_sentences(text if whole else sentences.blank_unstated(text)):
        requests = find_requests(sentence)
        parts[requests[0] if len(requests) == 1 else ""].append(sentence)
    claims = chain(
        (Claim(one, frozenset({one.upper()})) for one in _NAMED.findall(text)),
        *(_find_claims("".join(some), request, today, people) for request, some in parts.items()),
    )
    yield from dict.fromkeys(islice(claims, MAX_CLAIMS))


def _find_claims(text: str, request: str, today: date, people: NameIndex) -> Iterator[Claim]:
    """Yield the claims in sentences about one request: dates, days relative to today in clauses that state facts,
    figures, people, and dates with a wrong weekday."""
    plain = _NAMED.sub(" ", text)
    figures = dates.DAY.sub(" ", plain)
    clauses = (one.text for one in sentences.split_clauses(text) if not sentences.OPEN.search(one.text))
    near = (day for clause in clauses for day in dates.find_relative_days(clause, today) if day.is_definite)
    for day in chain(dates.find_dates(plain, today), (one for one in near if today.isoformat() not in one.dates)):
        yield Claim(day.text, day.dates, "day", request=request)
    for number in numbers.find_numbers(numbers.AMOUNT, figures):
        yield Claim(number.text, frozenset({number.code}), "amount", numbers.find_currencies(number.text), request)
    for number in numbers.find_numbers(numbers.BALANCE, figures):
        yield Claim(number.text, frozenset({number.code}), "balance", request=request)
    for value, name in (
        *people.find_people(text).items(),
        *((one, one) for one in dates.compare_days(plain, today)[1]),
    ):
        yield Claim(name, frozenset({value}), request=request)
