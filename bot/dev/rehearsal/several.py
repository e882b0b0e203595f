"""Handles many decisions at once: *approve everything under 200*, 把200元以下的都批了."""

from __future__ import annotations

import re

from bot.dev.rehearsal import reading, tell, words
from bot.dev.rehearsal.reply import IntentFrame, PlannedCall, PlannedReply, build_call_reply
from bot.dev.rehearsal.scene import Scene
from bot.dev.rehearsal.words import compile_alternatives

_ALL = r"(?:everything|all|every|each|them all|the rest|several|many)"
SEVERAL = compile_alternatives(
    "(?:都|全部?|一起|一次性?|批量)(?:给我)?(?:同意|批准?|通过|驳回|审批|处理|拒绝)(?!人)",
    "(?:同意|批准|通过|驳回|拒绝|批)(?:掉|了)?(?:所有|全部)",
    rf"\b(?:approve|reject|decide(?: on)?|sign(?: off)?)\b(?:\s(?:of|on))?\s(?:the\s)?{_ALL}\b",
)
"""Pattern of an order for more than one decision."""
NUMBER = r"(?<![\d.,])(\d{1,9}(?:,\d{3}){0,3}(?:\.\d{1,2})?)(?!\d|[.,]\d)"
UNIT = r"\s?(元|块钱?|人民币|美元|美金|欧元|英镑|CNY|RMB|USD|EUR|GBP|yuan|dollars?|bucks|euros?|pounds?)?"
SIGN = r"([¥￥$€£])?\s?"
_EN_BELOW, _EN_UP_TO = (
    r"(?:under|below|less than|cheaper than)\s",
    r"(?:up to|at most|no more than|not over|within|max)\s",
)
DAYS = r"\s?(?:天|days?\b|-day\b)"
DAYS_AT_MOST = compile_alternatives(
    rf"(?:不超过|最多|至多)\s?{NUMBER}\s?天", rf"{NUMBER}\s?天(?:以内|之内|及以下|以下)",
    rf"\b{_EN_UP_TO}{NUMBER}{DAYS}", rf"\b{NUMBER}{DAYS}\s(?:or (?:less|fewer|shorter))",
)  # fmt: skip
DAYS_BELOW = compile_alternatives(
    rf"(?:低于|少于|小于|不到|短于)\s?{NUMBER}\s?天",
    rf"\b{_EN_BELOW}{NUMBER}{DAYS}",
    rf"\b(?:fewer|shorter) than {NUMBER}{DAYS}",
)
AT_MOST = compile_alternatives(
    rf"(?:不超过|最多|至多)\s?{SIGN}{NUMBER}{UNIT}",
    rf"\b{_EN_UP_TO}{SIGN}{NUMBER}{UNIT}",
    rf"(?:[¥￥$€£]\s?|(?<![\d.,¥￥$€£])){NUMBER}{UNIT}(?:\s?(?:以内|之内|及以下|以下)|\sor (?:less|under|below))",
)
BELOW = compile_alternatives(rf"(?:低于|少于|小于|不到)\s?{SIGN}{NUMBER}{UNIT}", rf"\b{_EN_BELOW}{SIGN}{NUMBER}{UNIT}")
_FIGURE = re.compile(NUMBER)
OF_SOMEBODY = compile_alternatives(
    "把([\u4e00-\u9fff]{2,3}?)的(?:申请|请假|报销|单子?|假|都|全部?)",
    r"\b(?:from|of|by)\s((?-i:[A-Z][\w'-]{1,20}(?:\s[A-Z][\w'-]{1,20})?))",
)
"""Pattern of the person whose requests are meant."""
_ANYBODY = frozenset({"所有", "全部", "今天", "大家", "剩下", "其他", "我", "我们"})
LEAVE = compile_alternatives("请假|休假|[年病事]假|的假", r"\b(?:leaves?|vacations?|holidays?|time off|pto)\b")
EXPENSE = compile_alternatives("报销|费用", r"\b(?:expenses?|claims?)\b")
UNREAD = compile_alternatives(
    "(?:超过|高于|大于|多于)|以上|除了|之外|但是?|不要|别",
    r"\b(?:over|above|more than|except|but|without|unless|older|newer|since|before|after|today|yesterday|not)\b",
)
"""Pattern of conditions that these rules do not understand. Nothing is proposed on half of a wish."""


def handle_several(scene: Scene, frame: IntentFrame) -> PlannedReply:
    """Put the matching requests into one message. A condition that is not understood is not guessed."""
    if scene.last_observation:
        return tell.build_result_reply(scene)
    args = read_filters(frame.full_text)
    if args is None:
        return tell.build_phrase_reply(scene, "several_how")
    return build_call_reply(PlannedCall("decide_several", tell.describe_reason(scene, "several"), args))


def read_filters(text: str) -> dict[str, str] | None:
    """Read the arguments from the words; None if the words say more than the arguments can."""
    found: dict[str, str] = {}
    left = text
    if days := DAYS_AT_MOST.search(text):
        found["days_at_most"] = next(filter(None, days.groups()))
        left = text.replace(days[0], " ")
    elif DAYS_BELOW.search(text):
        return None
    for name, pattern in (("amount_below", BELOW), ("amount_at_most", AT_MOST)):
        if limit := pattern.search(left):
            found |= read_limit(name, limit[0])
            left = left.replace(limit[0], " ")
    if UNREAD.search(left) or any(sign.isdigit() for sign in left):
        return None
    if (name := reading.find_first_group(OF_SOMEBODY, left)) and name not in _ANYBODY:
        found["person"] = name
    kinds = [key for key, pattern in (("leave", LEAVE), ("expense", EXPENSE)) if pattern.search(left)]
    return found | ({"process": kinds[0]} if len(kinds) == 1 else {})


def read_limit(name: str, text: str) -> dict[str, str]:
    number, lowered = reading.find_first_group(_FIGURE, text), text.lower()
    named = [code for word, code in words.CURRENCIES.items() if word in lowered]
    codes = [code for code in ("CNY", "USD", "EUR", "GBP") if code.lower() in lowered]
    unit = next(iter([*codes, *named]), "")
    return {name: number.replace(",", ""), **({"currency": unit} if unit else {})}
