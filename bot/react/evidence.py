"""What an answer claims, and whether anything that was seen says so. Pure.

Claims are numbers of requests and tasks, mail addresses, amounts, days and names of people in the directory, each in
its usual Chinese and English spellings, brought to one form. Counts and ordinals are no claims. A claim is supported
when a source (an observation, the history, the system's facts, the person's message) has it in any spelling. Where it
is not clear that something is claimed, it is not: a false alarm costs more trust than a miss, since whatever has
consequences stands on a card written by code.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

Spellings = tuple[str, ...]
"""The names of one person."""

_DASHES = dict.fromkeys(map(ord, "‐‑‒–—―−"), "-")
_ID = re.compile(
    r"(?<![A-Za-z0-9_-])(?!(?:ISO|IEC|GB|RFC|FY)-)[A-Z]{1,3}-[0-9]{3,6}(?:-[0-9]{1,3})*(?![0-9A-Za-z])", re.I
)
_MAIL = re.compile(r"(?<![a-z0-9._%+-])[a-z0-9._%+-]{1,64}@[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63})+", re.I)

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_HAN = "零〇一二两三四五六七八九十百千万亿"
_DIGITS = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_UNITS = {"十": 10, "百": 100, "千": 1_000, "万": 10_000, "亿": 100_000_000}
_FIGURE = r"(?<![0-9])(?<![0-9][.,])(?:[0-9]{1,3}(?:,[0-9]{3}){1,4}|[0-9]{1,15})(?:\.[0-9]{1,6})?(?![0-9])"


def _figure(name: str) -> str:
    return rf"(?P<{name}>{_FIGURE})(?:\s*(?P<{name}_unit>[十百千万亿]{{1,2}}|k(?![a-z])))?"


def _month(name: str) -> str:
    rest = ("uary", "ruary", "ch", "il", "", "e", "y", "ust", "t(?:ember)?", "ober", "ember", "ember")
    spelled = "|".join(f"{short}(?:{more})?" for short, more in zip(_MONTHS, rest, strict=True))
    return rf"(?P<{name}>{spelled})\.?(?![a-z])"


_CODES = "CNY|RMB|USD|EUR|GBP|JPY|HKD|TWD|SGD|KRW|AUD|CAD|CHF"
_MONEY = (
    "元(?![旦月件素])|块钱|人民币|美[元金]|欧元|英镑|日[元圆]|港[元币]|韩元|新台币|"
    rf"(?:{_CODES}|yuan|renminbi|dollars?|euros?|pounds?|yen)(?![a-z])"
)
_WORDS = rf"(?P<han>[一二两三四五六七八九十][{_HAN}]{{0,15}}+)"
_AMOUNT = re.compile(
    rf"(?:[¥$€£₩]|(?<![a-z])(?:{_CODES}))\s*{_figure('after')}|"
    rf"{_figure('before')}\s*(?:{_MONEY}|块)|{_WORDS}\s*(?:{_MONEY})",
    re.I,
)
_NUMBER = re.compile(rf"{_figure('before')}|{_WORDS}", re.I)
_TH = "(?:st|nd|rd|th)?"
_DAY = re.compile(
    r"(?<![0-9])(?P<y1>[0-9]{4})\s?[-/.年]\s?(?P<m1>[0-9]{1,2})\s?[-/.月]\s?(?P<d1>[0-9]{1,2})(?![0-9])\s?[日号]?|"
    r"(?<![0-9])(?P<m2>[0-9]{1,2})\s?月\s?(?P<d2>[0-9]{1,2})\s?[日号]|"
    r"(?P<m3>[一二三四五六七八九十]{1,2})月(?P<d3>[一二三四五六七八九十]{1,3})[日号]|"
    rf"(?<![A-Za-z]){_month('m4')}\s{{1,2}}(?P<d4>[0-9]{{1,2}}){_TH}(?![0-9A-Za-z])"
    r"(?:,?\s(?P<y4>[0-9]{4})(?![0-9]))?|"
    rf"(?<![0-9])(?P<d5>[0-9]{{1,2}}){_TH}\s(?:of\s)?{_month('m5')}(?:,?\s(?P<y5>[0-9]{{4}})(?![0-9]))?"
)
_RELATIVE = {
    "大后天": 3, "后天": 2, "明天": 1, "明日": 1, "明早": 1, "明晚": 1, "今天": 0, "今日": 0, "昨天": -1, "昨日": -1,
    "大前天": -3, "前天": -2, "day after tomorrow": 2, "day before yesterday": -2, "tomorrow": 1, "today": 0,
    "yesterday": -1,
}  # fmt: skip
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NEAR = re.compile(
    rf"(?P<day>{'|'.join(_RELATIVE)})|"
    r"(?P<zh>上|这|本|下)?个?(?:周|星期|礼拜)(?P<zh_day>[一二三四五六日天])|"
    r"(?:\b(?P<en>last|this|next)\s)?\b(?P<en_day>mon|tue|wed|thu|fri|sat|sun)(?:day|sday|nesday|rsday|urday)\b",
    re.I,
)
_OPEN = re.compile(
    r"[没未不尚等待]|(?<!申)请(?!假)|如果|要是|可以|可能|或|[再将会要吗呢?]|"
    r"\b(?:not|never|no|if|once|when|until|unless|(?<!day )(?:before|after)|will|would|can|could|may|"
    r"might|should|shall|please|again|waits?|waiting|needs?|want|let|do you|or)\b|n't\b",
    re.I,
)
_EXAMPLES = re.compile(
    r"(?:例如|比如|譬如|这样说|\bfor example\b|\bfor instance\b|\be\.g\.|\byou can say\b).*?(?=\n\s*\n|\Z)", re.I | re.S
)
"""What people could say is no claim, to the end of its paragraph."""
_CLAUSE = re.compile(r"(?<=[，,。;；!！?？\n])|(?<=\.)(?=\s)")


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that an answer says, as it says it."""

    said: str
    means: frozenset[str]
    """Its one form; several where the words leave more than one open: any of them will do."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What became of an answer's claims."""

    claimed: int = 0
    unsupported: tuple[str, ...] = ()
    """As the answer says them, in its order."""


def check(answer: str, sources: Iterable[str], today: date, people: Sequence[Spellings] = ()) -> Checked:
    """Which claims of `answer` no source has. `today`: the day that relative days are counted from; `people`: those of
    the directory. `sources` is not read if nothing is claimed."""
    claims = list(claimed(answer, today, people))
    if not claims:
        return Checked()
    known, meant = set[str](), {value for one in claims for value in one.means}
    concerned = [names for names in people if who(names) in meant]
    for text in sources:
        known |= said(text, today, concerned)
    missing = tuple(one.said for one in claims if known.isdisjoint(one.means))
    return Checked(len(claims), missing)


def claimed(answer: str, today: date, people: Sequence[Spellings] = (), *, whole: bool = False) -> Iterator[Claim]:
    """What an answer claims, each thing once. `whole`: what it puts as an example, too."""
    text, seen = _plain(answer), set[frozenset[str]]()
    text = text if whole else _EXAMPLES.sub(";", text)
    rest, exact = _cut(text)
    dated = (*_days(rest, today), *_near(text, today))
    for one in (*exact, *dated, *_amounts(_DAY.sub(" ", rest)), *_people(text, people)):
        if one.means and one.means not in seen:
            seen.add(one.means)
            yield one


def said(source: str, today: date, people: Sequence[Spellings] = ()) -> set[str]:
    """Everything in a source that a claim can rest on: of numbers also those without a currency, of days also those
    that may be meant, of people also their short names."""
    text = _plain(source)
    rest, exact = _cut(text)
    known = {value for one in (*exact, *_days(rest, today)) for value in one.means}
    known |= {"-".join(value.split("-")[:2]) for value in known if _ID.fullmatch(value)}
    known |= {value for found in _NEAR.finditer(text) for value in _meant(found, today)} | {today.isoformat()}
    known |= {_value(found) for pattern in (_NUMBER, _AMOUNT) for found in pattern.finditer(_DAY.sub(" ", rest))}
    whole = _dense(text)
    known |= {who(names) for names in people if any(len(name) > 1 and _dense(_plain(name)) in whole for name in names)}
    return known


def relative(text: str) -> list[str]:
    """Days told by their distance (*tomorrow*, 下周一): what is read another day must not have them."""
    found = _NEAR.finditer(_plain(text))
    return [one[0].strip() for one in found if one["day"] or one["zh"] or one["en"]]


def clauses(text: str) -> list[str]:
    """The parts of a text that each say one thing, their closing marks included."""
    return _CLAUSE.split(_plain(text))


def open_ended(clause: str) -> bool:
    """True for a question, a condition, an advice, a refusal or a plan: it does not claim that anything is so."""
    return _OPEN.search(clause) is not None


def _plain(text: str) -> str:
    """Without full-width forms, invisible characters and fancy dashes."""
    normal = unicodedata.normalize("NFKC", text)
    return "".join(c for c in normal if unicodedata.category(c) != "Cf").translate(_DASHES)


def _dense(text: str) -> str:
    return "".join(text.split()).casefold()


def _cut(text: str) -> tuple[str, list[Claim]]:
    """Numbers of requests and tasks and mail addresses; and the text without them."""
    found = list[Claim]()
    for pattern in (_MAIL, _ID):
        found += [Claim(one[0], frozenset({one[0].upper()})) for one in pattern.finditer(text)]
        text = pattern.sub(" ", text)
    return text, found


def _amounts(text: str) -> Iterator[Claim]:
    return (Claim(one[0].strip(), frozenset({_value(one)})) for one in _AMOUNT.finditer(text))


def _value(found: re.Match[str]) -> str:
    """A number in its one form: no separators, no zeros that mean nothing."""
    groups = found.groupdict()
    if groups["han"]:
        return f"#{_counted(groups['han'])}"
    name = "after" if groups.get("after") else "before"
    number = Decimal(groups[name].replace(",", ""))
    for unit in groups[f"{name}_unit"] or "":
        number *= _UNITS.get(unit, 1_000)
    return f"#{number.normalize():f}"


def _counted(text: str) -> int:
    """A number in Chinese words: 一千二百 = 1200, 三万 = 30000, 十五 = 15."""
    whole = part = digit = 0
    for c in text:
        if c in _DIGITS:
            digit = _DIGITS[c]
        elif _UNITS[c] < 10_000:
            part, digit = part + (digit or 1) * _UNITS[c], 0
        else:
            whole, part, digit = (whole + part + digit) * _UNITS[c], 0, 0
    return whole + part + digit


def _days(text: str, today: date) -> Iterator[Claim]:
    """Days by their date. Without a year any that is near may be meant."""
    for found in _DAY.finditer(text):
        if means := _dates(found, today):
            yield Claim(found[0].strip(), means)


def _dates(found: re.Match[str], today: date) -> frozenset[str]:
    group = found.groupdict()
    which = next(n for n in "12345" if group[f"d{n}"])
    month, day, year = group[f"m{which}"], group[f"d{which}"], group.get(f"y{which}")
    years = [int(year)] if year else [today.year - 1, today.year, today.year + 1]
    number = _MONTHS.index(month[:3]) + 1 if month[:3] in _MONTHS else _small(month)
    return frozenset(value for one in years if (value := _iso(one, number, _small(day))))


def _small(text: str) -> int:
    return int(text) if text.isdecimal() else _counted(text)


def _iso(year: int, month: int, day: int) -> str:
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return ""


def _near(text: str, today: date) -> Iterator[Claim]:
    """Days told by their distance, where a clause says how things are. *Today* is known to everybody, and a weekday
    alone goes with a date or with every week."""
    for clause in clauses(text):
        for found in _NEAR.finditer(clause) if not open_ended(clause) else ():
            group = found.groupdict()
            if group["zh"] or group["en"] or (group["day"] and _RELATIVE[group["day"].lower()]):
                yield Claim(found[0].strip(), _meant(found, today))


def _meant(found: re.Match[str], today: date) -> frozenset[str]:
    group = found.groupdict()
    if group["day"]:
        return _around(today, [_RELATIVE[group["day"].lower()]])
    day = "一二三四五六日天".index(group["zh_day"]) if group["zh_day"] else _WEEKDAYS.index(group["en_day"].lower())
    here = min(day, 6) - today.weekday()
    match (group["zh"] or group["en"] or "").lower():
        case "上" | "last":
            return _around(today, [here - 7, here if here < 0 else here - 7])
        case "下" | "next":
            return _around(today, [here + 7, here if here > 0 else here + 7])
        case _:
            return _around(today, [here, here if here >= 0 else here + 7])


def _around(today: date, days: Iterable[int]) -> frozenset[str]:
    try:
        return frozenset((today + timedelta(days=n)).isoformat() for n in days)
    except OverflowError:
        return frozenset()


def _people(text: str, people: Sequence[Spellings]) -> Iterator[Claim]:
    """Those whose full name is there: two Chinese characters, or two words of a Latin name. A single Latin word may be
    any word."""
    flat = " ".join(text.split()).casefold()
    for names in people:
        if name := next((name for name in names if _full(name) and _stands(name.casefold(), flat)), ""):
            yield Claim(name, frozenset({who(names)}))


def _full(name: str) -> bool:
    return " " in name.strip() if name.isascii() else len(name) > 1


def _stands(name: str, text: str) -> bool:
    """As words of their own, where words have ends."""
    if not name.isascii() or name not in text:
        return name in text
    return re.search(rf"(?<![a-z]){re.escape(name)}(?![a-z])", text) is not None


def who(names: Spellings) -> str:
    """What a claim of a person means."""
    return "@" + "/".join(names)
