"""Readers of everyday words: numbers, names, kinds, amounts. The result is `None` or "" if nothing is found."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from bot.dev.rehearsal import words


@dataclass(frozen=True, slots=True)
class LeaveLength:
    """Length of a leave: `days` counts halves, `working` leaves Saturdays and Sundays out."""

    days: float
    working: bool = False


def parse_number(word: str) -> float:
    """Parse `3`, `3.5`, `十二` or `twelve` as a number, at most 10,000."""
    if word.lower() in words.ENGLISH:
        return float(words.ENGLISH[word.lower()])
    if word[0].isdigit():
        return min(float(word), 10_000.0)
    tens, ten, ones = word.rpartition("十")
    one = words.DIGITS.get(ones[-1:], 0)
    return float(10 * words.DIGITS.get(tens[-1:], 1) + one if ten else one)


def classify_text(text: str, kinds: Mapping[str, re.Pattern[str]], otherwise: str) -> str:
    return next((name for name, pattern in kinds.items() if pattern.search(text)), otherwise)


def find_first_group(pattern: re.Pattern[str], text: str) -> str:
    """Return the first non-empty group of the first match, or an empty text."""
    match = pattern.search(text)
    return next((g.strip() for g in match.groups() if g), "") if match else ""


def parse_bare_name(text: str) -> str:
    """Return the name in an answer such as `找李四吧` or `Li Si, please`. An answer over 60 characters is no name."""
    name = words.NAME_NOISE.sub("", text.strip())
    return name if len(name) <= 60 else ""


def parse_amount(text: str) -> tuple[str, str] | None:
    """Parse an amount: `1,500 元` → (`1500`, `CNY`), `$30.50` → (`30.50`, `USD`). Separators are dropped."""
    if split := words.TENTHS.search(text):
        return f"{split[1]}.{split[2]}", "CNY"
    found = words.AMOUNT.search(text)
    if not found:
        return None
    unit = (found["sign"] or found["unit"]).lower()
    return (found["after"] or found["before"]).replace(",", ""), words.CURRENCIES.get(unit, unit.upper())


def list_amounts(text: str) -> set[tuple[str, str]]:
    """List every named amount once."""
    found = (parse_amount(match[0]) for match in words.AMOUNT.finditer(text))
    return {one for one in found if one}


def parse_bare_amount(text: str) -> str:
    """Parse the amount of a correction without a currency: `320 not 230`, `不是230是320` → `320`."""
    figures = words.BARE_AMOUNT.findall(words.NOT_THIS.sub(" ", text))
    return figures[0].replace(",", "") if len(figures) == 1 else ""


def parse_purpose(text: str) -> str:
    """Return the purpose of spending in the person's own words: `报销出差高铁票 358 元` → `出差高铁票`."""
    clauses = words.CLAUSE.split(words.AMOUNT.sub(" ", remove_approver(text)))
    return next((left for c in clauses if (left := words.SPENDING_NOISE.sub("", c.strip()))), "")


def parse_name_and_aside(answer: str) -> tuple[str, str]:
    """Split `李四，回家看父母` into the name and the rest, which is the reason that was asked for together with it."""
    name, *rest = words.ASIDE.split(answer.strip(), maxsplit=1)
    aside = "".join(rest).strip(" ，,。.")
    if not aside or words.THANKING.search(aside):
        return parse_bare_name(answer), ""
    return parse_bare_name(name), aside


def parse_task_owner(text: str) -> str:
    """Return the name of the person whose tasks are asked for, or "" for one's own."""
    found = words.LOOKING.sub("", find_first_group(words.TODO_OF, text))
    return "" if words.NOBODY.search(found) else found


def parse_request_id(text: str) -> str:
    found = words.REQUEST_ID.search(text)
    return f"{found[1].upper()}-{found[2].zfill(4)}" if found else ""


def parse_motive(texts: Iterable[str], spoken_for: Callable[[str], bool]) -> str:
    """Return the person's own reason: the words they call so, or else the clauses that `spoken_for` does not cover."""
    whole = remove_approver("\n".join(texts))
    said = find_first_group(words.REASON, whole)
    if said:
        return said.strip(" ，,。.")
    clauses = [words.CLAUSE_NOISE.sub("", one).strip() for one in words.CLAUSE.split(whole)]
    kept = [one for one in clauses if one and not words.THANKING.search(one) and not spoken_for(one)]
    return ("，" if words.HANZI.search("".join(kept)) else ", ").join(kept)


def parse_approver(text: str, manager: str = "") -> str:
    """Return the named approver; for *my manager*, the directory's name of the manager, or an empty text."""
    name = words.NAME_NOISE.sub(
        "",
        words.APPROVER_NOISE.sub("", next(filter(None, (find_first_group(one, text) for one in words.APPROVERS)), "")),
    )
    if words.MANAGER.fullmatch(name) or (not name and words.MANAGER_DECIDES.search(text)):
        return manager
    return name


def remove_approver(text: str) -> str:
    """Replace the words that name the approver by a comma."""
    text = words.MANAGER_DECIDES.sub("，", text)
    for pattern in words.APPROVERS:
        text = pattern.sub("，", text)
    return text
