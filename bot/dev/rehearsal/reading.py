"""Readers of everyday words: numbers, names, kinds, amounts, reasons. The result is empty if nothing is found."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from bot.dev.rehearsal import words


def parse_number(word: str) -> float:
    """Parse `3`, `3.5`, `十二` or `twelve` as a number."""
    if word.lower() in words.ENGLISH:
        return float(words.ENGLISH[word.lower()])
    if word[0].isdigit():
        return min(float(word), 10_000.0)
    tens, ten, ones = word.rpartition("十")
    one = words.DIGITS.get(ones[-1:], 0)
    return float(10 * words.DIGITS.get(tens[-1:], 1) + one if ten else one)


def classify_text(text: str, kinds: Mapping[str, re.Pattern[str]], otherwise: str = "") -> str:
    return next((name for name, pattern in kinds.items() if pattern.search(text)), otherwise)


def find_first_group(pattern: re.Pattern[str], text: str) -> str:
    """Return the first non-empty group of the first match, or an empty text."""
    match = pattern.search(text)
    return next((g.strip() for g in match.groups() if g), "") if match else ""


def find_newest(texts: Iterable[str], reader: Callable[[str], str]) -> str:
    """Return what `reader` finds in the newest text in which it finds something."""
    return next((found for text in reversed([*texts]) if (found := reader(text))), "")


def parse_bare_name(text: str) -> str:
    """Return the name in an answer such as `找李四吧` or `Li Si, please`. An answer over 60 characters is no name."""
    name = words.NAME_NOISE.sub("", text.strip())
    return name if len(name) <= 60 else ""


def split_names(text: str) -> list[str]:
    return [name for one in words.AND.split(text)[:20] if (name := parse_bare_name(one))]


def spell_amounts(text: str) -> str:
    """Write amounts in words as figures: *两百欧* → *200欧*, *thirty dollars* → *30 dollars*."""

    def write_figure(found: re.Match[str]) -> str:
        if han := found["zh"]:
            total = 0.0
            for unit, worth in (("千", 1000), ("百", 100)):
                before, mark, han = han.rpartition(unit) if unit in han else ("", "", han)
                total += worth * parse_number(before) if mark else 0
            return str(int(total + (parse_number(han.strip("零")) if han.strip("零") else 0)))
        if found["tens"]:
            return str(words.TENS[found["tens"].lower()])
        first, _, hundred = (found["en"] or "").lower().partition(" ")
        return str(int(parse_number(first)) * (100 if hundred else 1)) if first else found[0]

    return words.SPELLED.sub(write_figure, text)


def list_amounts(text: str) -> list[tuple[str, str]]:
    """List the amounts: `1,500 元` → (`1500`, `CNY`), `45块5` → (`45.5`, `CNY`), `$30.50` → (`30.50`, `USD`)."""
    text = spell_amounts(text)
    if split := words.TENTHS.search(text):
        return [(f"{split[1]}.{split[2]}", "CNY")]
    amounts = list[tuple[str, str]]()
    for found in words.AMOUNT.finditer(text):
        unit = (found["sign"] or found["unit"]).lower()
        amounts.append(((found["after"] or found["before"]).replace(",", ""), words.CURRENCIES.get(unit, unit.upper())))
    return list(dict.fromkeys(amounts))


def read_amount(texts: Iterable[str]) -> tuple[str, str]:
    """Return the newest amount and its currency; a correction may leave the currency out. Empty if a text has none or
    several."""
    money = ("", "")
    for number, text in enumerate(texts):
        plain = words.NOT_THIS.sub(" ", text) if number else text
        found, bare = list_amounts(plain), words.BARE_AMOUNT.findall(plain)
        if found:
            money = found[0] if len(found) == 1 else ("", "")
        elif number and len(bare) == 1 and money[0]:
            money = (bare[0].replace(",", ""), money[1])
    return money


def parse_purpose(text: str) -> str:
    """Return the purpose of spending in the person's own words: `报销出差高铁票 358 元` → `出差高铁票`."""
    clauses = words.CLAUSE.split(words.AMOUNT.sub(" ", words.TENTHS.sub(" ", remove_approver(text))))
    return next((left for c in clauses if (left := words.SPENDING_NOISE.sub("", c.strip()))), "")


def parse_task_owner(text: str) -> str:
    """Return the name of the person whose tasks are asked for, or "" for one's own."""
    found = find_first_group(words.TODO_OF, text)
    return "" if words.NOBODY.search(found) else found


def parse_request_id(text: str) -> str:
    found = words.REQUEST_ID.search(text)
    return f"{found[1].upper()}-{found[2].zfill(4)}" if found else ""


def parse_motive(text: str, is_about: Callable[[str], bool]) -> str:
    """Return the person's own reason: the words they call so, or else the clauses that `is_about` does not cover."""
    whole = remove_approver(text)
    if said := find_first_group(words.REASON, whole):
        return said.strip(" ，,。.")
    clauses = [words.CLAUSE_NOISE.sub("", one).strip() for one in words.CLAUSE.split(whole)]
    kept = [one for one in clauses if one and not words.THANKING.search(one) and not is_about(one)]
    return ("，" if words.HANZI.search("".join(kept)) else ", ").join(kept)


def parse_approver(text: str, manager: str, *, is_answer: bool) -> str:
    """Return the named approver; for *my manager*, the directory's name of the manager. An answer may be a bare
    name."""
    found = next(filter(None, (find_first_group(one, text) for one in words.APPROVERS)), "")
    name = words.NAME_NOISE.sub("", words.APPROVER_NOISE.sub("", found))
    if is_answer and not name and words.BARE_NAME.fullmatch(first := words.ASIDE.split(text.strip(), maxsplit=1)[0]):
        name = parse_bare_name(first)
    return manager if words.MANAGER.fullmatch(name) else name


def remove_approver(text: str) -> str:
    """Replace the words that name the approver by a comma."""
    for pattern in words.APPROVERS:
        text = pattern.sub("，", text)
    return text
