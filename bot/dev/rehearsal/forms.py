"""Fills forms from everyday words, and says whether they are sure enough for a card. Everything unsure stays empty."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bot.dev.rehearsal import days, words
from bot.dev.rehearsal.scene import CJK, Scene
from bot.dev.rehearsal.topics import Matter
from bot.dev.rehearsal.words import IS, WHO, compile_alternatives, find_first_group, remove_approver

Form = dict[str, str]
UNREAD_APPROVER = compile_alternatives(r"签(?!证|约|名|到)|批", r"\b(?:signs?|approv\w{1,4}|ok)\b")
REASON = compile_alternatives(rf"(?:原因|理由|事由){IS}(.+)", r"\breason(?:\sis)?:?\s+(.+)")
CLAUSE = compile_alternatives(
    r"(?<!\d)[，,]|[，,](?!\d)|[。;；！!？?\n]|\.(?:\s|$)|\sbecause\s|\sand\s(?!\d)|因为|由于"
)
POLITE = compile_alternatives(
    r"^\W*(?:请|麻烦|你好|您好|谢谢|hi|hello|hey|(?:good )?morning|please|thanks?|thank you)\b[\s,，!！.]*(?:there\b)?"
)
ASKS_FOR_LEAVE = compile_alternatives(
    "假|休|歇|半天|来不了|请.{0,3}[天日]", r"\b(?:off|leave|vacation|pto)\b|\bi(?:'m| am) (?:sick|ill|unwell)\b"
)
ASKS_FOR_MONEY = compile_alternatives(
    r"报|\bexpens|\breimburs|\brefund|\bi (?:paid|spent)\b|\bclaim\b|\bget\b.{0,12}\bback\b"
)
ABOUT_LEAVE = compile_alternatives(
    ASKS_FOR_LEAVE.pattern, words.CORRECTION.pattern, r"\d\s*(?:天|days?\b)|[一二两三四五]天|[从批]|\bapprov"
)
ABOUT_MONEY = compile_alternatives(ASKS_FOR_MONEY.pattern, words.CORRECTION.pattern, words.AMOUNT.pattern)
"""Words of clauses that give no reason."""
SPENDING_NOISE = compile_alternatives(
    r"^(?:[\s，,。.的:：]|请|帮我|给我|我|想|要|申请|报销|费用|一下|再|\b(?:i|we|want|need|would|like|please|can|could"
    r"|you|me|to|an?|the|my|of|for|on|claim|submit|paid|spent|expenses?|reimburse(?:ment)?)\b)+",
    r"(?:[\s，,。.的]|请|帮我|报销|\b(?:for|of|please|expenses?)\b)+$",
)
"""Words around the purpose of spending."""


def find_newest(texts: Sequence[str], *patterns: re.Pattern[str]) -> str:
    """Return what the first fitting pattern finds in the newest text that has it."""
    found = (find_first_group(pattern, text) for text in reversed(texts) for pattern in patterns)
    return next((one for one in found if one), "")


def name_person(scene: Scene, found: str) -> str:
    """Return a name as it was written; for *my manager*, the manager's."""
    return scene.manager if words.MANAGER.fullmatch(found) else found


def read_approver(scene: Scene, matter: Matter) -> str:
    """Return the named approver. Without one the rules name them, shown on the card and in the form."""
    answered = find_newest(matter.texts[1:], *words.APPROVERS, words.BARE_NAME)
    return name_person(scene, answered or find_newest(matter.texts[:1], *words.APPROVERS))


def split_corrections(texts: Sequence[str]) -> list[str]:
    """Return the texts without approver and reason. The first is split where it takes back what it has said, so that
    the later words count."""
    plain = [REASON.sub("", remove_approver(text)) for text in texts]
    found = words.CORRECTION.search(plain[0], 1)
    return [plain[0][: found.start()], plain[0][found.start() :], *plain[1:]] if found else plain


def fill_leave(scene: Scene, matter: Matter) -> tuple[Form, bool]:
    """Fill in a leave. The last day is the first one + N−1 calendar days."""
    texts, text = split_corrections(matter.texts), matter.full_text
    kind = next((kind for one in reversed(texts) if (kind := words.classify_text(one, words.LEAVE_NAMES))), "")
    hint = words.classify_text(text, words.LEAVE_HINTS)
    is_of_others = words.OF_OTHERS.search(text) is not None
    stretch = days.read_stretch(texts, scene.today)
    noon = days.NOON.search(text)
    is_part = noon is not None or days.HALF.search(text) is not None
    is_sure = stretch.is_sure and (not is_part or bool(noon and stretch.first == stretch.last))
    form = {
        "leave_type": kind or (hint if hint == "bereavement" or not is_of_others else ""),
        "start_date": str(stretch.first or ""),
        "end_date": str((is_sure and stretch.last) or ""),
        "reason": read_reason(matter, ABOUT_LEAVE, ""),
        "approver": read_approver(scene, matter),
    }
    if noon and is_sure:
        form |= dict.fromkeys(("start_half", "end_half"), "pm" if noon["pm"] else "am")
    is_known = stretch.last and (kind or (hint == "sick" and not is_of_others)) and ASKS_FOR_LEAVE.search(text)
    return form, bool(is_known) and is_sure and not is_doubtful(matter)


def is_doubtful(matter: Matter) -> bool:
    """Return whether the words that began a wish are not sure enough for a card."""
    text = REASON.sub("", remove_approver(matter.texts[0]))
    return any(one.search(text) for one in (words.DOUBT, words.CORRECTION, UNREAD_APPROVER, days.UNEVEN))


def read_amount(texts: Sequence[str]) -> tuple[str, str]:
    """Return the newest amount and its currency: `1,500 元` is `1500` and `CNY`, `45块5` is `45.5`. A correction may
    leave the currency out. Empty if a text has several amounts."""
    amount = currency = ""
    for text in texts:
        found = words.AMOUNT.finditer(text)
        whole = {(one["sign"] or one["unit"], one["after"] or one["before"], one["tenth"]) for one in found}
        bare = words.BARE_AMOUNT.findall(text)
        if len(whole) == 1:
            unit, figure, tenth = whole.pop()
            amount = figure.replace(",", "") + (f".{tenth}" if tenth else "")
            currency = words.classify_text(unit, words.CURRENCIES)
        elif whole or len(bare) > 1:
            amount = currency = ""
        elif bare:
            amount = bare[0].replace(",", "")
    return amount, currency


def fill_expense(scene: Scene, matter: Matter) -> tuple[Form, bool]:
    texts = split_corrections(matter.texts)
    amount, currency = read_amount(texts)
    category = next((kind for one in reversed(texts) if (kind := words.classify_text(one, words.CATEGORIES))), "")
    purpose = (SPENDING_NOISE.sub("", words.AMOUNT.sub(" ", one).strip()) for one in CLAUSE.split(texts[0]))
    form = {"amount": amount, "currency": currency, "category": category}
    form["reason"] = read_reason(matter, ABOUT_MONEY, next((one for one in purpose if one), ""))
    form["approver"] = read_approver(scene, matter)
    if amount and currency and category and ASKS_FOR_MONEY.search(matter.full_text) and not is_doubtful(matter):
        return form, True
    files = [file for turn in scene.turns if turn.name == scene.turns[-1].name for file in turn.files]
    return form | {"receipt": ",".join(files)}, False


def read_reason(matter: Matter, asked: re.Pattern[str], otherwise: str) -> str:
    """Return the person's own reason: the words they call so, or else the clauses that say nothing else. Without any it
    is all they wrote. It is never made up."""
    if said := find_newest(matter.texts, REASON):
        return said.strip(" ，,。.")
    for number, text in enumerate(matter.texts):
        if number and words.CORRECTION.search(text):
            continue
        plain = words.BARE_NAME.sub("", text) if number else text
        clauses = [POLITE.sub("", one).strip() for one in CLAUSE.split(remove_approver(plain))]
        left = [one for one in clauses if one and not asked.search(one) and days.remove_days(one) == one]
        if left:
            return ("，" if CJK.search("".join(left)) else ", ").join(left)
    return otherwise or remove_approver(matter.texts[0]).strip(" ，,。.;；\n") or matter.texts[0]


# Mail, and who stands in

ADDRESS = r"[\w.+-]{1,64}+@[\w-]{1,63}\.[\w.-]{1,63}\w"
_ALL = rf"(?:{ADDRESS}|{WHO})(?:\s?(?:[、,，&和与跟及]|\band\b)\s?(?:and\s)?(?:{WHO})){{0,19}}"
MAIL_TO = compile_alternatives(
    rf"(?:给|到)\s?({_ALL})(?=\s?[发写:：，,\s]|$)|[跟和]({WHO})(?=[说讲])|(?:告诉|通知)({WHO})",
    rf"\b(?:e-?mail|mail|write|tell|inform|let|send|drop|shoot)\s(?:an?\s(?:e-?mail|mail|note)\s)?(?:to\s)?({_ALL})",
)
BODY = compile_alternatives(rf"(?:内容|正文){IS}(.+)", r"\b(?:body|text):?\s+(.+)")
TOLD = re.compile(
    r"^\s*+(?:发|写)?(?:一?[封个])?(?:邮件|信)?(?:an?\s(?:e-?mail|mail|note|message)\b)?\s*+(?:[:：]"
    r"|[，,]?\s?就?[说讲](?:一声|一下)?[，,：:]?|[，,]|-\s|that\b|saying\b|know\b(?:\sthat\b)?)\s*+(.+)$",
    re.I | re.S,
)
"""Pattern of the text behind the recipients: `发邮件说…`, `: …`, `that …`."""
DEPUTY = compile_alternatives(
    rf"({WHO})(?:来)?[代替帮]我|代理人?{IS}({WHO})|委托给?({WHO})",
    rf"({WHO})\s(?:will\s)?(?:stands?\sin|covers?|fills?\sin|is\s(?:covering|my\s(?:deputy|stand-in)))",
    rf"\b(?:let|have|ask)\s({WHO})\s(?:to\s)?(?:handle|cover|take|look)|\b(?:delegate\s(?:it\s)?to|deputy:?)\s({WHO})",
)
_AND = compile_alternatives(r"\s?(?:[、,，&和与跟及]|\band\b)\s?")


def fill_mail(scene: Scene, matter: Matter) -> tuple[Form, bool]:
    """Fill in the recipients, with commas between them, the subject and the text. Nothing is made up."""
    text, form = matter.texts[0], {"to": ""}
    form |= {"subject": find_newest(matter.texts, words.SUBJECT), "body": find_newest(matter.texts, BODY)}
    if found := MAIL_TO.search(text):
        names = [name_person(scene, one.strip()) for one in _AND.split(find_first_group(MAIL_TO, text))]
        form["to"] = ",".join(filter(None, names))
        form["body"] = form["body"] or ("" if form["subject"] else find_first_group(TOLD, text[found.end() :]))
    return form, bool(form["to"] and form["body"])


def fill_absence(scene: Scene, matter: Matter) -> tuple[Form, bool]:
    stretch = days.read_stretch(matter.texts, scene.today)
    deputy = name_person(scene, find_newest(matter.texts, DEPUTY))
    last = str((stretch.is_sure and stretch.last) or "")
    form = {"start_date": str(stretch.first or ""), "end_date": last, "deputy": deputy}
    return form, all(form.values()) and not words.DOUBT.search(DEPUTY.sub(" ", matter.texts[0]))


FILLERS = {"leave": fill_leave, "expense": fill_expense, "mail": fill_mail, "absence": fill_absence}
"""Form → what fills it in from a matter, and says whether it is sure."""
