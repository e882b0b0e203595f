"""What an answer claims, and whether anything that was seen says so. Pure.

Claims are numbers of requests and tasks, mail addresses, amounts, balances, counts, days and names of people in the
directory, each in its usual Chinese and English spellings, brought to one form. A claim is supported when a source has
it in any spelling, or when it follows from what sources have: an amount as a sum, a difference or a product, a day by
a length. A date beside a weekday that it does not have is never supported. Where it is not clear that something is
claimed, it is not: a false alarm costs more trust than a miss, since whatever has consequences stands on a card
written by code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from enum import Enum
from itertools import islice

from bot.react.grounding import numbers
from bot.react.grounding.dates import DAY, Calendar, Day, follows, is_told
from bot.react.grounding.sentences import IDENTIFIER, clauses, plain, stated, without_examples

Spellings = tuple[str, ...]
"""The names of one person."""
_MAIL = re.compile(r"(?<![a-z0-9._%+-])[a-z0-9._%+-]{1,64}@[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63})+", re.I)
_ABOUT = re.compile(r"(?:约|大约|大概|将近|近|左右|about|around|roughly|nearly|approximately)\s{0,2}$", re.I)
_OPEN = re.compile(
    r"[没未不尚等待]|(?<!申)请(?!假)|如果|要是|可以|可能|或|[再将会要吗呢?]|"
    r"\b(?:not|never|no|if|once|when|until|unless|(?<!day )(?:before|after)|will|would|can|could|may|"
    r"might|should|shall|please|again|waits?|waiting|needs?|want|let|do you|or)\b|n't\b",
    re.I,
)
MOST = 200
"""Claims of one kind that are looked at: nobody reads an answer that has more."""
OPERANDS, SUMS, DAYS, LENGTHS = 60, 2_000, 60, 40
"""What of the sources is reckoned with: so many amounts, sums of neighbours, days and lengths."""
SMALLEST = 20
"""An amount below it is no operand: small numbers are everywhere, and any figure could be made of them."""


class Kind(Enum):
    NAMED = "named"
    """A number of a request, an address, a person: it is there or it is not."""
    AMOUNT = "amount"
    BALANCE = "balance"
    COUNT = "count"
    DAY = "day"
    MISDATED = "misdated"


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that an answer says, as it says it."""

    said: str
    means: frozenset[str]
    """Its one form; several where the words leave more than one open: any of them will do."""
    kind: Kind = Kind.NAMED
    is_about: bool = False
    """An amount that is said to be rounded."""


@dataclass(frozen=True, slots=True)
class Source:
    """Something that an answer may rest on."""

    text: str
    is_wish: bool = False
    """The person's own words, or a call's arguments: what somebody asks for is no balance and no count."""
    counts: frozenset[int] = frozenset()
    """How many entries of a kind it has."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What became of an answer's claims."""

    claimed: int = 0
    unsupported: tuple[str, ...] = ()
    """As the answer says them, in its order."""


@dataclass(slots=True)
class SeenValues:
    """All that the sources have."""

    values: set[str] = field(default_factory=set)
    amounts: dict[int, None] = field(default_factory=dict)
    """In hundredths, in their order."""
    sums: set[int] = field(default_factory=set)
    """Of amounts that stand side by side."""
    factors: dict[int, None] = field(default_factory=dict)
    days: dict[str, None] = field(default_factory=dict)
    lengths: dict[Decimal, None] = field(default_factory=dict)
    """In days, of all sources;"""
    granted: set[Decimal] = field(default_factory=set)
    """and of those that are no wish."""
    figures: set[Decimal] = field(default_factory=set)
    """Any number that is no wish."""
    counts: set[int] = field(default_factory=set)


def check(answer: str, sources: Iterable[Source], today: date, people: Sequence[Spellings] = ()) -> Checked:
    """Which claims of `answer` nothing supports. `today`: the day that relative days are counted from; `people`: those
    of the directory. `sources` is not read if nothing is claimed."""
    calendar = Calendar(today)
    claims = list(_claimed(answer, calendar, people))
    if not claims:
        return Checked()
    meant, kinds = {value for one in claims for value in one.means}, {one.kind for one in claims}
    concerned = [names for names in people if who(names) in meant]
    known = SeenValues(days={today.isoformat(): None})
    for source in sources:
        _learn(known, source, calendar, concerned, kinds)
    known.values |= _equated(answer, calendar)
    missing = tuple(one.said for one in claims if not _supports(known, one))
    return Checked(len(claims), missing)


def claimed(answer: str, today: date, people: Sequence[Spellings] = (), *, whole: bool = False) -> Iterator[Claim]:
    """What an answer claims, each thing once. `whole`: what it asks or puts as an example, too."""
    return _claimed(answer, Calendar(today), people, whole=whole)


def _claimed(answer: str, calendar: Calendar, people: Sequence[Spellings], *, whole: bool = False) -> Iterator[Claim]:
    text, seen = plain(answer), set[tuple[Kind, frozenset[str]]]()
    text = text if whole else without_examples(text)
    facts = text if whole else stated(text)
    _, exact = _cut(text)
    rest, _ = _cut(facts)
    found: Sequence[Iterator[Claim]] = (
        iter(exact),
        _dates(rest, calendar),
        _near(facts, calendar),
        _figures(DAY.sub(" ", rest)),
        _people(facts, people),
        _misdated(rest, calendar),
    )
    for one in (claim for claims in found for claim in islice(claims, MOST)):
        if one.means and (one.kind, one.means) not in seen:
            seen.add((one.kind, one.means))
            yield one


def said(source: str, today: date, people: Sequence[Spellings] = ()) -> set[str]:
    """Everything in a source that a claim can rest on: of numbers also those without a currency, of days also those
    that may be meant, of people also their short names."""
    known = SeenValues()
    _learn(known, Source(source), Calendar(today), people, frozenset(Kind))
    return known.values | {today.isoformat()}


def open_ended(clause: str) -> bool:
    """True for a question, a condition, an advice, a refusal or a plan: it tells of no day that something is so."""
    return _OPEN.search(clause) is not None


def who(names: Spellings) -> str:
    """What a claim of a person means."""
    return "@" + "/".join(names)


def names_in(text: str, people: Sequence[Spellings]) -> list[Spellings]:
    """Those whose full name is there: two Chinese characters, or two words of a Latin name. A single Latin word may be
    any word."""
    flat = " ".join(text.split()).casefold()
    return [names for names in people if _found_name(names, flat)]


def mentions(text: str, names: Spellings) -> bool:
    """True where any name of the person stands, short ones too. `text` is dense (`dense`)."""
    return any(len(name) > 1 and dense(plain(name)) in text for name in names)


def dense(text: str) -> str:
    """Without blanks and capitals."""
    return "".join(text.split()).casefold()


def _learn(
    known: SeenValues, source: Source, calendar: Calendar, people: Sequence[Spellings], kinds: Iterable[Kind]
) -> None:
    """Takes in what the claims of these kinds could rest on."""
    text = plain(source.text)
    rest, exact = _cut(text)
    ids = {value for one in exact for value in one.means}
    known.values |= ids | {"-".join(value.split("-")[:2]) for value in ids if IDENTIFIER.fullmatch(value)}
    whole = dense(text)
    known.values |= {who(names) for names in people if mentions(whole, names)}
    wanted = set(kinds)
    if Kind.DAY in wanted:
        _learn_days(known, text, rest, calendar)
    wants_figures = bool(wanted & {Kind.AMOUNT, Kind.BALANCE, Kind.COUNT})
    figures = DAY.sub(" ", rest) if wants_figures or Kind.DAY in wanted else ""
    if wants_figures:
        _learn_figures(known, figures, source)
    if wanted & {Kind.BALANCE, Kind.DAY}:
        spans = {one.value: None for one in islice(numbers.spans(figures), LENGTHS)}
        known.lengths |= spans
        known.granted |= set() if source.is_wish else set(spans)
    known.counts |= source.counts


def _learn_days(known: SeenValues, text: str, rest: str, calendar: Calendar) -> None:
    days = {value for one in calendar.dated(rest) for value in one.means}
    days |= {value for one, _ in calendar.near(text) for value in one.means}
    known.values |= days | calendar.loose(DAY.sub(" ", rest)) | calendar.feasts(text)
    known.days |= dict.fromkeys(islice(sorted(days), DAYS))


def _learn_figures(known: SeenValues, text: str, source: Source) -> None:
    row = list[int]()
    for pattern in (numbers.numbers, numbers.amounts):
        for one in pattern(text):
            known.values.add(f"#{numbers.write_number(one.value)}")
            if not source.is_wish:
                known.figures.add(one.value)
            cents = one.value * 100
            if cents == int(cents) and one.value >= SMALLEST:
                known.amounts[int(cents)] = None
                row.append(int(cents))
            if one.value == int(one.value) and 2 <= one.value <= 400:
                known.factors[int(one.value)] = None
    for start in range(min(len(row), OPERANDS)):
        total = row[start]
        for value in row[start + 1 : start + 13]:
            total += value
            if len(known.sums) < SUMS:
                known.sums.add(total)


def _supports(known: SeenValues, claim: Claim) -> bool:
    match claim.kind:
        case Kind.MISDATED:
            return False
        case Kind.AMOUNT:
            return not known.values.isdisjoint(claim.means) or any(_reckoned(known, one, claim) for one in claim.means)
        case Kind.BALANCE:
            return any(_is_left(known, Decimal(one[1:])) for one in claim.means)
        case Kind.COUNT:
            return any(_is_counted(known, Decimal(one[1:])) for one in claim.means)
        case Kind.DAY:
            lengths = list(islice(known.lengths, LENGTHS))
            days = list(islice(known.days, DAYS))
            return not known.values.isdisjoint(claim.means) or any(follows(one, days, lengths) for one in claim.means)
        case _:
            return not known.values.isdisjoint(claim.means)


def _reckoned(known: SeenValues, value: str, claim: Claim) -> bool:
    """True for an amount that is a sum, a difference, a product or a share of amounts that were seen."""
    exact = Decimal(value[1:]) * 100
    if exact != int(exact):
        return False
    cents, amounts, factors = int(exact), list(islice(known.amounts, OPERANDS)), list(islice(known.factors, OPERANDS))
    seen = set(amounts)
    if claim.is_about and any(abs(one - cents) * 20 <= one for one in amounts):
        return True
    if cents in known.sums or any(cents - one in seen or cents + one in seen for one in amounts):
        return True
    if any(one * factor in (cents, cents * 100) or cents * factor == one for one in amounts for factor in factors):
        return True
    return any(cents - one - other in seen for one in amounts for other in amounts if one + other < cents)


def _is_left(known: SeenValues, value: Decimal) -> bool:
    """True for a balance that was told, or is what is left of one, or what several come to."""
    if value in known.granted:
        return True
    lengths = list(islice(known.lengths, LENGTHS))
    return any(abs(value - one) in lengths or value + one in lengths for one in known.granted)


def _is_counted(known: SeenValues, value: Decimal) -> bool:
    return value in known.figures or (value == int(value) and int(value) in known.counts)


def _cut(text: str) -> tuple[str, list[Claim]]:
    """Numbers of requests and tasks and mail addresses; and the text without them."""
    found = list[Claim]()
    for pattern in (_MAIL, IDENTIFIER):
        values = dict.fromkeys(one[0] for one in pattern.finditer(text))
        found += [Claim(one, frozenset({one.upper()})) for one in values]
        text = pattern.sub(" ", text)
    return text, found


def _figures(text: str) -> Iterator[Claim]:
    """Amounts, balances and counts."""
    for one in numbers.amounts(text):
        is_about = _ABOUT.search(text[max(0, one.start - 16) : one.start]) is not None
        yield Claim(one.said, _means(one), Kind.AMOUNT, is_about)
    yield from (Claim(one.said, _means(one), Kind.BALANCE) for one in numbers.balances(text))
    yield from (Claim(one.said, _means(one), Kind.COUNT) for one in numbers.counts(text) if one.value > 1)


def _means(number: numbers.Number) -> frozenset[str]:
    return frozenset({f"#{numbers.write_number(number.value)}"})


def _dates(text: str, calendar: Calendar) -> Iterator[Claim]:
    """Days by their date."""
    known = set[str]()
    for day in calendar.dated(text):
        if day.said not in known:
            known.add(day.said)
            yield Claim(day.said, day.means, Kind.DAY)


def _misdated(text: str, calendar: Calendar) -> Iterator[Claim]:
    return (
        Claim(one, frozenset({one}), Kind.MISDATED)
        for one in calendar.misdated(text, islice(calendar.dated(text), MOST))
    )


def _near(text: str, calendar: Calendar) -> Iterator[Claim]:
    """Days told by their distance, where a clause says how things are."""
    for clause in clauses(text):
        for day, found in calendar.near(clause.text) if not open_ended(clause.text) else ():
            if is_told(found):
                yield Claim(day.said, day.means, Kind.DAY)


def _equated(answer: str, calendar: Calendar) -> set[str]:
    """Days that the answer tells by date and by distance, and both agree: the calendar supports them."""
    text, _ = _cut(stated(without_examples(plain(answer))))
    days: list[Day] = [one for one in islice(calendar.dated(text), MOST) if calendar.equated(text, one)]
    return {value for one in days for value in one.means} | calendar.feasts(text)


def _people(text: str, people: Sequence[Spellings]) -> Iterator[Claim]:
    flat = " ".join(text.split()).casefold()
    for names in people:
        if name := _found_name(names, flat):
            yield Claim(name, frozenset({who(names)}))


def _found_name(names: Spellings, flat: str) -> str:
    return next((name for name in names if _full(name) and _stands(name.casefold(), flat)), "")


def _full(name: str) -> bool:
    return " " in name.strip() if name.isascii() else len(name) > 1


def _stands(name: str, text: str) -> bool:
    """As words of their own, where words have ends."""
    if not name.isascii() or name not in text:
        return name in text
    return re.search(rf"(?<![a-z]){re.escape(name)}(?![a-z])", text) is not None
