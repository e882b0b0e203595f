"""Fills forms from everyday words, and says whether they are sure enough for a card. Everything unsure stays empty."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from bot.dev.rehearsal import days, reading, words
from bot.dev.rehearsal.scene import Scene
from bot.dev.rehearsal.topics import Matter

Form = dict[str, str]
ASKS_FOR_LEAVE, ASKS_FOR_MONEY = (words.compile_alternatives(*some) for some in (words.OFF_WORDS, words.EXPENSE_WORDS))


def fill_leave(scene: Scene, matter: Matter) -> tuple[Form, bool]:
    """Fill in a leave. Later words override earlier ones. The last day is the first one + N−1 calendar days."""
    first, text = matter.texts[0], matter.full_text
    stretch = days.parse_stretch(split_corrections(matter.texts), scene.today)
    kind = reading.find_newest(matter.texts, lambda one: reading.classify_text(one, words.LEAVE_NAMES))
    hint = reading.classify_text(text, words.LEAVE_TYPES)
    is_guessed = not kind and hint != "sick"
    if not kind and not (hint and hint != "bereavement" and words.OF_OTHERS.search(text)):
        kind = hint
    is_sure = bool(
        kind
        and not is_guessed
        and stretch.first
        and stretch.last
        and not stretch.is_doubtful
        and ASKS_FOR_LEAVE.search(text)
    )
    about = reading.remove_approver(words.REASON.sub("", first))
    is_sure = (
        is_sure
        and not words.DOUBT.search(about)
        and not words.UNREAD_APPROVER.search(about)
        and not days.has_leftover(about)
    )
    end = None if stretch.is_doubtful else stretch.last
    form = {"leave_type": kind, "start_date": format_day(stretch.first), "end_date": format_day(end)}
    form["reason"] = read_reason(scene, matter, words.ABOUT_LEAVE.search, "")
    if stretch.length and stretch.length.days % 1 and stretch.last:
        halves = ("am", "am") if stretch.length.days > 1 or not words.AFTERNOON.search(text) else ("pm", "pm")
        form |= {"start_half": halves[0], "end_half": halves[1]}
    return form | read_approver(scene, matter), is_sure


def fill_expense(scene: Scene, matter: Matter) -> tuple[Form, bool]:
    text = matter.full_text
    amount, currency = reading.read_amount(split_corrections(matter.texts))
    plain = reading.remove_approver(text)
    bare = words.BARE_AMOUNT.findall(text)
    newest = reading.find_newest(matter.texts, lambda one: reading.classify_text(one, words.CATEGORIES))
    category = reading.classify_text(matter.texts[0], words.CATEGORIES) if len(matter.texts) == 1 else newest
    is_sure = bool(amount and category and not amount.startswith("-"))
    is_sure = is_sure and (ASKS_FOR_MONEY.search(text) is not None or len(matter.texts) > 1 or is_spending(text))
    amount = amount or (bare[0].replace(",", "") if len(bare) == 1 and not reading.list_amounts(text) else "")
    form = {"amount": amount, "currency": currency, "category": category}
    form["reason"] = read_reason(scene, matter, words.ABOUT_EXPENSE.search, reading.parse_purpose(matter.texts[0]))
    files = ",".join(file for turn in scene.turns if turn.name == scene.speaker_name for file in turn.files)
    lead = {} if is_sure else {"receipt": files}
    return form | lead | read_approver(scene, matter), is_sure and not words.DOUBT.search(
        plain
    ) and not words.UNREAD_APPROVER.search(plain)


def split_corrections(texts: Sequence[str]) -> list[str]:
    """Split the first text where it takes back what it has said, so that the later words count."""
    found = words.CORRECTION.search(texts[0], 1)
    first = [texts[0][: found.start()], texts[0][found.start() :]] if found else [texts[0]]
    return [*first, *texts[1:]]


def is_spending(text: str) -> bool:
    return len(text) < 60 and "?" not in text and "？" not in text


def fill_absence(scene: Scene, matter: Matter) -> tuple[Form, bool]:
    stretch = days.parse_stretch(matter.texts, scene.today)
    is_open = stretch.last is None and days.FROM.search(matter.full_text) is not None
    last = None if stretch.is_doubtful or is_open else stretch.last or stretch.first
    deputy = reading.find_newest(matter.texts, lambda one: reading.find_first_group(words.DEPUTY, one))
    deputy = scene.manager if words.MANAGER.fullmatch(deputy) else reading.parse_bare_name(deputy)
    form = {"start_date": format_day(stretch.first), "end_date": format_day(last), "deputy": deputy}
    about = words.DEPUTY.sub(" ", matter.texts[0])
    return form, all(form.values()) and not words.DOUBT.search(about)


def read_mail(scene: Scene, matter: Matter) -> tuple[list[str], str, str]:
    """Return the recipients, the subject and the text. Nothing is made up."""
    text = matter.texts[0]
    subject = reading.find_newest(matter.texts, lambda one: reading.find_first_group(words.SUBJECT, one))
    plain = [words.SUBJECT.sub("", one) for one in matter.texts]
    body = reading.find_newest(plain, lambda one: reading.find_first_group(words.BODY, one))
    head = words.MAIL_HEAD.split(text, maxsplit=1)[0]
    if address := words.ADDRESS.search(text):
        return [address[0]], subject, body
    if words.SEVERAL_TO.search(head):
        return reading.split_names(reading.find_first_group(words.MAIL_ALL, head)), subject, body
    name = reading.parse_bare_name(reading.find_first_group(words.MAIL_TO, text))
    name = scene.manager if words.MANAGER.search(head) else name
    return ([name] if name else []), subject, body


def read_reason(scene: Scene, matter: Matter, is_about, rest: str) -> str:  # type: ignore[no-untyped-def]
    """Return the person's own reason; if they gave none, all they wrote, word for word. It is never made up."""

    def is_known(clause: str) -> bool:
        return bool(is_about(clause) or days.has_day(clause))

    first = reading.parse_motive(matter.texts[0], is_known) or rest
    later = (reading.parse_motive(read_aside(one), is_known) for one in matter.texts[1:])
    said = first or next((one for one in later if one), "")
    return said or reading.remove_approver(matter.texts[0]).strip(" ，,。.;；\n") or matter.texts[0]


def read_aside(text: str) -> str:
    """Return the reason in words that go on: what follows a name, or all of them."""
    name, *rest = words.ASIDE.split(text.strip(), maxsplit=1)
    if words.BARE_NAME.fullmatch(name):
        return rest[0] if rest else ""
    return "" if words.CORRECTION.search(text) else text


def read_approver(scene: Scene, matter: Matter) -> Form:
    """Return the named approver. Without one the rules name them, shown on the card and in the form."""
    named = (
        reading.parse_approver(one, scene.manager, is_answer=number > 0) for number, one in enumerate(matter.texts)
    )
    return {"approver": next((one for one in reversed([*named]) if one), "")}


def format_day(day: date | None) -> str:
    return day.isoformat() if day else ""
