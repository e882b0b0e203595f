"""Finds numbers as people write them, in digits or words: amounts, balances, durations. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

_HAN = "零〇一二两三四五六七八九十百千万亿"
_DIGITS = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_UNITS = {"十": 10, "百": 100, "千": 1_000, "万": 10_000, "亿": 100_000_000, "k": 1_000, "w": 10_000}
_SPELLED = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_DIGIT_NUMBER = (
    r"((?<![0-9])(?<![0-9][.,])(?:[0-9]{1,3}(?:,[0-9]{3}){1,4}|[0-9]{1,15})(?:\.[0-9]{1,6})?(?![0-9])"
    r"(?:\s*(?:[十百千万亿]{1,2}+|[kw](?![a-z]))(?:[1-9](?![0-9.,]))?)?+)"
)
_HAN_NUMBER = rf"([一二两三四五六七八九十][{_HAN}]{{0,15}}+)"
_SMALL_NUMBER = (
    rf"((?<![0-9.])[0-9]{{1,4}}+(?:\.[0-9]{{1,2}}+)?+(?![0-9])|[{_HAN}]{{1,5}}+|"
    rf"(?<![a-z])(?:{'|'.join(_SPELLED)})(?![a-z]))"
)
_PARTS = re.compile(r"([0-9.,]+)\s*([十百千万亿kw]*)([1-9]?)")
_CODES = "CNY|RMB|USD|EUR|GBP|JPY|HKD|TWD|SGD|KRW|AUD|CAD|CHF"
_CURRENCIES = {
    **{code.lower(): (code,) for code in _CODES.split("|")},
    **dict.fromkeys(("元", "人民币", "yuan", "renminbi", "rmb"), ("CNY",)),
    **dict.fromkeys(("yen", "日元", "日圆"), ("JPY",)),
    **dict.fromkeys(("美元", "美金"), ("USD",)),
    **dict.fromkeys(("欧元", "€", "euro"), ("EUR",)),
    **dict.fromkeys(("英镑", "£", "pound"), ("GBP",)),
    **dict.fromkeys(("港元", "港币"), ("HKD",)),
    **dict.fromkeys(("韩元", "₩"), ("KRW",)),
    **dict.fromkeys(("$", "dollar"), ("USD", "HKD", "TWD", "SGD", "AUD", "CAD")),
    "¥": ("CNY", "JPY"),
}
_CURRENCY = re.compile("|".join(sorted(map(re.escape, _CURRENCIES), key=len, reverse=True)))
_MONEY = (
    "元(?![旦月件素])|块钱|人民币|美[元金]|欧元|英镑|日[元圆]|港[元币]|韩元|新台币|"
    rf"(?:{_CODES}|yuan|renminbi|dollars?|euros?|pounds?|yen)(?![a-z])"
)
AMOUNT = re.compile(
    rf"(?=[¥$€£₩a-z])(?:[¥$€£₩]|(?<![a-z])(?:{_CODES}))\s*+{_DIGIT_NUMBER}|"
    rf"(?=[0-9]){_DIGIT_NUMBER}\s*+(?:{_MONEY}|块)|{_HAN_NUMBER}\s*+(?:{_MONEY})",
    re.I,
)
NUMBER = re.compile(rf"{_DIGIT_NUMBER}|{_HAN_NUMBER}", re.I)
_LEAVE = "年假|病假|事假|调休|假期|婚假|产假|陪产假|带薪假|休假"
BALANCE = re.compile(
    rf"(?:剩|余额?|可用|可休|能休|结余|尚有|余下)[^0-9{_HAN},。;!?\n]{{0,12}}+{_SMALL_NUMBER}\s{{0,2}}(?:个)?(?:工作)?[天日]|"
    rf"有\s{{0,2}}{_SMALL_NUMBER}\s{{0,2}}天(?:的)?(?:{_LEAVE})|"
    rf"{_SMALL_NUMBER}\s{{0,2}}(?:[天日](?:可用|可休|余额|没休|未休|未用|没用)|"
    r"(?:[a-z]{1,10}\s){0,3}(?:days?|hours?)\s(?:[a-z-]{1,12}\s){0,4}(?:left|remaining|remain|available|unused)\b)|"
    rf"\b(?:balance|remaining|left)\b(?:\s[a-z]{{1,12}}){{0,5}}[\s:]{{1,2}}{_SMALL_NUMBER}\s{{1,2}}"
    r"(?:working\s)?(?:days?|hours?)\b|"
    r"(?<![a-z])(?:[a-z]{1,16}_)?(?:left|remaining|balance|available|unused)[\s:=]{1,3}([0-9]{1,4}(?:\.[0-9]{1,2})?)(?![0-9.])",
    re.I,
)
"""The rest of an allowance, also as a result states it: *left 5*."""
_DURATION = re.compile(
    rf"(?=[0-9a-z{_HAN}])(?<![0-9.a-z{_HAN}]){_SMALL_NUMBER}\s{{0,2}}+-?+"
    r"(?:个|full\s|working\s|calendar\s|business\s|more\s|paid\s)?"
    r"(?:工作日|工作|天|日(?![期0-9])|days?|hours?|小时|(?P<week>周|星期|礼拜|weeks?))",
    re.I,
)


@dataclass(frozen=True, slots=True)
class NumberMention:
    """One number in a text. `text` holds its unit or currency too."""

    text: str
    value: Decimal

    @property
    def code(self) -> str:
        """The normalized form: no separators, no meaningless zeros."""
        return f"#{self.value.normalize():f}"


def find_numbers(pattern: re.Pattern[str], text: str) -> Iterator[NumberMention]:
    """Yield the matches of `AMOUNT`, `NUMBER` or `BALANCE`, each spelling once."""
    matches = {match[0]: match[match.lastindex or 0] for match in pattern.finditer(text)}
    return (NumberMention(words.strip(), parse_number(number)) for words, number in matches.items())


def find_durations(text: str) -> set[int]:
    """Return the durations in days, begun ones as whole days. Hours count as days too."""
    return {math.ceil(parse_number(one[1])) * (7 if one["week"] else 1) for one in _DURATION.finditer(text)}


def find_currencies(text: str) -> frozenset[str]:
    """Return the currencies that the words of an amount may mean. Return an empty set if the words name none (块)."""
    return frozenset(code for word in _CURRENCY.findall(text.lower()) for code in _CURRENCIES[word])


def parse_number(text: str) -> Decimal:
    """Parse a number with its units: 3.5万, 3万5 = 35000, 1.5k, 1,500.50, five, 一千二百."""
    text = text.lower()
    if text in _SPELLED:
        return Decimal(_SPELLED.index(text))
    if (parts := _PARTS.fullmatch(text)) is None:
        return parse_han_number(text)
    number, last = Decimal(parts[1].replace(",", "")), 1
    for last in map(_UNITS.__getitem__, parts[2]):
        number *= last
    return number + Decimal(parts[3] or 0) * last / 10


def parse_han_number(text: str) -> Decimal:
    """Parse a number in Chinese words: 一千二百 = 1200, 三万 = 30000, 十五 = 15, 三千五 = 3500, 一万二 = 12000."""
    for unit in "亿万千百十":
        head, found, tail = text.partition(unit)
        if found:
            tail_unit = _UNITS[unit] // 10 if len(tail) == 1 and unit != "十" else 1
            return (parse_han_number(head) or 1) * _UNITS[unit] + parse_han_number(tail) * tail_unit
    return Decimal("".join(str(_DIGITS[c]) for c in text) or "0")
