"""Finds numbers as people write them, in digits or Chinese words: amounts, balances, durations. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal

HAN = "零〇一二两三四五六七八九十百千万亿"
_DIGITS = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_UNITS = {"十": 10, "百": 100, "千": 1_000, "万": 10_000, "亿": 100_000_000}
_SHORT = {"k": 1_000, "w": 10_000}
_FIGURE = r"(?<![0-9])(?<![0-9][.,])(?:[0-9]{1,3}(?:,[0-9]{3}){1,4}|[0-9]{1,15})(?:\.[0-9]{1,6})?(?![0-9])"
_TIME = re.compile(r"(?<![0-9:])[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?(?![0-9])")


def _build_figure_pattern(name: str) -> str:
    rest = rf"(?P<{name}_rest>[1-9](?![0-9.,]))?"
    return rf"(?P<{name}>{_FIGURE})(?:\s*(?P<{name}_unit>[十百千万亿]{{1,2}}+|[kw](?![a-z])){rest})?+"


_CODES = "CNY|RMB|USD|EUR|GBP|JPY|HKD|TWD|SGD|KRW|AUD|CAD|CHF"
_CURRENCIES = {
    **{code.lower(): (code,) for code in _CODES.split("|")},
    **dict.fromkeys(("元", "人民币", "yuan", "renminbi", "rmb"), ("CNY",)),
    "¥": ("CNY", "JPY"),
    "yen": ("JPY",),
    "日元": ("JPY",),
    "日圆": ("JPY",),
    "美元": ("USD",),
    "美金": ("USD",),
    "欧元": ("EUR",),
    "€": ("EUR",),
    "euro": ("EUR",),
    "英镑": ("GBP",),
    "£": ("GBP",),
    "pound": ("GBP",),
    "港元": ("HKD",),
    "港币": ("HKD",),
    "韩元": ("KRW",),
    "₩": ("KRW",),
    **dict.fromkeys(("$", "dollar"), ("USD", "HKD", "TWD", "SGD", "AUD", "CAD")),
}
_CURRENCY = re.compile("|".join(sorted(map(re.escape, _CURRENCIES), key=len, reverse=True)))
_MONEY = (
    "元(?![旦月件素])|块钱|人民币|美[元金]|欧元|英镑|日[元圆]|港[元币]|韩元|新台币|"
    rf"(?:{_CODES}|yuan|renminbi|dollars?|euros?|pounds?|yen)(?![a-z])"
)
_WORDS = rf"(?P<han>[一二两三四五六七八九十][{HAN}]{{0,15}}+)"
AMOUNT = re.compile(
    rf"(?=[¥$€£₩a-z])(?:[¥$€£₩]|(?<![a-z])(?:{_CODES}))\s*+{_build_figure_pattern('after')}|"
    rf"(?=[0-9]){_build_figure_pattern('before')}\s*+(?:{_MONEY}|块)|{_WORDS}\s*+(?:{_MONEY})",
    re.I,
)
NUMBER = re.compile(rf"{_build_figure_pattern('before')}|{_WORDS}", re.I)
_SPELLED = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "eleven": 11, "twelve": 12,
}  # fmt: skip


def _build_small_number_pattern(name: str = "n") -> str:
    spelled = "|".join(_SPELLED)
    figure = r"(?<![0-9.])[0-9]{1,4}+(?:\.[0-9]{1,2}+)?+(?![0-9])"
    return rf"(?P<{name}>{figure}|[{HAN}]{{1,5}}+|(?<![a-z])(?:{spelled})(?![a-z]))"


_LEAVE = "年假|病假|事假|调休|假期|婚假|产假|陪产假|带薪假|休假"
BALANCE = re.compile(
    rf"(?:剩|余额?|可用|可休|能休|结余|尚有|余下)[^0-9{HAN},。;!?\n]{{0,12}}+{_build_small_number_pattern()}\s{{0,2}}(?:个)?(?:工作)?[天日]|"
    rf"有\s{{0,2}}{_build_small_number_pattern('n2')}\s{{0,2}}天(?:的)?(?:{_LEAVE})|"
    rf"{_build_small_number_pattern('n3')}\s{{0,2}}(?:[天日](?:可用|可休|余额|没休|未休|未用|没用)|"
    r"(?:[a-z]{1,10}\s){0,3}(?:days?|hours?)\s(?:[a-z-]{1,12}\s){0,4}(?:left|remaining|remain|available|unused)\b)|"
    rf"\b(?:balance|remaining|left)\b(?:\s[a-z]{{1,12}}){{0,5}}[\s:]{{1,2}}{_build_small_number_pattern('n4')}\s{{1,2}}"
    r"(?:working\s)?(?:days?|hours?)\b|"
    r"(?<![a-z])(?:[a-z]{1,16}_)?(?:left|remaining|balance|available|unused)[\s:=]{1,3}(?P<n5>[0-9]{1,4}(?:\.[0-9]{1,2})?)(?![0-9.])",
    re.I,
)
"""The rest of an allowance, also as a result states it: *left 5*."""
_KEYS = (
    r"left|allowance|(?:[a-z]{1,10}_)?days?|hours|used|balance|remaining|taken|carried[a-z_]{0,10}|entitle[a-z]{0,6}|"
    r"annual|sick|"
    rf"personal|comp[a-z_]{{0,12}}|vacation|pto|leave|剩余?|余额|余下|{_LEAVE}"
)
_SPAN = re.compile(
    rf"(?=[0-9a-z{HAN}])(?<![0-9.a-z{HAN}]){_build_small_number_pattern()}(?P<half>半)?+\s{{0,2}}+-?+(?:个|full\s|working\s|calendar\s|business\s|more\s|"
    rf"paid\s)?"
    r"(?:工作日|工作)?(?P<unit>天半?|工作日|日(?![期0-9])|周|星期|个?礼拜|days?|weeks?|hours?|小时)|"
    rf"(?=[a-z剩余年病事调假婚产陪带休])(?<![a-z])(?:{_KEYS})[\s:=(]{{0,4}}+{_build_small_number_pattern('n2')}|(?=[半h一])(?P<alone>半天|half(?:\sa|-)?\sday|半个月|一个月)",
    re.I,
)
_UNIT_DAYS = {"周": 7, "星期": 7, "礼拜": 7, "个礼拜": 7, "week": 7, "weeks": 7}
_ALONE = {"半个月": Decimal(15), "一个月": Decimal(30)}


@dataclass(frozen=True, slots=True)
class NumberMention:
    """One number in a text, as written."""

    text: str
    value: Decimal
    start: int = 0


def parse_han_number(text: str) -> Decimal:
    """Parse a number in Chinese words: 一千二百 = 1200, 三万 = 30000, 十五 = 15, 三千五 = 3500, 一万二 = 12000."""
    if not any(c in _UNITS for c in text):
        return Decimal("".join(str(_DIGITS[c]) for c in text) or "0")
    whole = part = digit = last = 0
    for c in text:
        if c in _DIGITS:
            digit, last = _DIGITS[c], last if _DIGITS[c] else 0
        elif _UNITS[c] < 10_000:
            part, digit, last = part + (digit or 1) * _UNITS[c], 0, _UNITS[c]
        else:
            whole, part, digit, last = (whole + part + digit) * _UNITS[c], 0, 0, _UNITS[c]
    return Decimal(whole + part + digit * (last // 10 if last >= 100 else 1))


def parse_number_match(found: re.Match[str]) -> Decimal:
    """Return the value of a match of `AMOUNT` or `NUMBER`."""
    groups = found.groupdict()
    if groups["han"]:
        return parse_han_number(groups["han"])
    name = "after" if groups.get("after") else "before"
    number, last = Decimal(groups[name].replace(",", "")), 1
    for unit in (groups[f"{name}_unit"] or "").lower():
        last = _UNITS.get(unit) or _SHORT[unit]
        number *= last
    return number + Decimal(groups[f"{name}_rest"] or 0) * last / 10


def _parse_small_number(text: str) -> Decimal:
    low = text.lower()
    if low in _SPELLED:
        return Decimal(_SPELLED[low])
    return Decimal(text) if text[0].isdecimal() and text.isascii() else parse_han_number(text)


def _find_matching_numbers(
    pattern: re.Pattern[str], text: str, read: Callable[[re.Match[str]], Decimal]
) -> Iterator[NumberMention]:
    """Yield each value, once for each spelling."""
    known = set[str]()
    for found in pattern.finditer(text):
        if found[0] not in known:
            known.add(found[0])
            yield NumberMention(found[0].strip(), read(found), found.start())


def find_amounts(text: str) -> Iterator[NumberMention]:
    return _find_matching_numbers(AMOUNT, text, parse_number_match)


def find_numbers(text: str) -> Iterator[NumberMention]:
    """Yield all numbers except times of day."""
    return _find_matching_numbers(NUMBER, _TIME.sub(" ", text), parse_number_match)


def find_currencies(text: str) -> set[str]:
    """Return the currencies that the words of an amount may mean. Return an empty set if the words name none (块)."""
    return {code for word in _CURRENCY.findall(text.lower()) for code in _CURRENCIES[word]}


def find_balances(text: str) -> Iterator[NumberMention]:
    return _find_matching_numbers(
        BALANCE,
        text,
        lambda found: _parse_small_number(
            next(value for name, value in found.groupdict().items() if value and name.startswith("n"))
        ),
    )


def find_durations(text: str) -> Iterator[NumberMention]:
    """Yield durations in days or hours, and rests or allowances of days. Weeks count as days too."""
    return _find_matching_numbers(_SPAN, text, _parse_duration_match)


def _parse_duration_match(found: re.Match[str]) -> Decimal:
    if found["alone"]:
        return _ALONE.get(found["alone"], Decimal("0.5"))
    unit = (found["unit"] or "").lower()
    half = Decimal("0.5") if found["half"] or unit == "天半" else Decimal(0)
    return _parse_small_number(found["n"] or found["n2"]) * _UNIT_DAYS.get(unit, 1) + half


def format_number(number: Decimal) -> str:
    """Return the normalized form of a number: no separators, no meaningless zeros."""
    return f"{number.normalize():f}"
