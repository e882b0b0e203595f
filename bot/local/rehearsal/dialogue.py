"""What a dialogue has come to: what is asked for now, and what was asked for before and is not done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bot.local.rehearsal import days, desk, reading, words
from bot.local.rehearsal.intents import LOOKUPS, classify_intent, split_message
from bot.local.rehearsal.reply import IntentFrame
from bot.local.rehearsal.scene import PersonTurn


@dataclass(frozen=True, slots=True)
class Dialogue:
    """Everything that the last message is about, in its order."""

    frames: tuple[IntentFrame, ...] = (IntentFrame("unknown", ()),)
    waiting: IntentFrame | None = None
    """What our question is still open about, while something else is looked up."""

    @property
    def current(self) -> IntentFrame:
        return self.frames[-1]


def read_dialogue(turns: Sequence[PersonTurn]) -> Dialogue:
    """Only whoever wrote last is listened to: nobody answers for somebody else."""
    speaker = turns[-1].name if turns else ""
    known = Dialogue()
    for turn in turns:
        if turn.name == speaker:
            known = add_turn(known, turn)
    return known


def add_turn(known: Dialogue, turn: PersonTurn) -> Dialogue:
    parts = split_message(turn.text)
    intent = classify_intent(turn.text)
    asked = known.waiting or find_asking(known) if turn.is_answer else None
    if asked and intent not in ("drop", "not_wanted"):
        if needs_free_text(asked) or is_answer_to(asked, parts, turn.text):
            return Dialogue((asked.add_answer(turn.text),))
        if all(name in LOOKUPS for name, _ in parts):
            return Dialogue(build_frames(parts), asked)
    if corrected := find_corrected(known, parts, turn):
        return Dialogue((corrected.add_correction(turn.text, is_late=turn.is_after_start),))
    return Dialogue(build_frames(parts))


def build_frames(parts: Sequence[tuple[str, str]]) -> tuple[IntentFrame, ...]:
    """One for each thing; what is only looked up comes first."""
    frames = [IntentFrame(intent, (text,)) for intent, text in parts]
    return tuple(sorted(frames, key=lambda frame: frame.intent not in LOOKUPS and frame.intent != "unknown"))


def find_asking(known: Dialogue) -> IntentFrame | None:
    """What our last question was about."""
    asking = [frame for frame in known.frames if frame.texts and frame.intent not in LOOKUPS]
    return asking[0] if asking else (known.frames[-1] if known.frames[-1].texts else None)


def is_answer_to(asked: IntentFrame, parts: Sequence[tuple[str, str]], text: str) -> bool:
    intents = {intent for intent, _ in parts}
    if intents <= {"unknown", asked.intent}:
        return True
    if asked.intent in ("leave", "expense"):
        # A reason or a name may hold any word; a question is a question.
        weak = {"unknown", "decide", "leave", "expense", "others", "absence", "dinner"}
        is_other = any(intent != asked.intent and is_whole_request(intent, said) for intent, said in parts)
        return intents <= weak and not is_other and not text.rstrip().endswith(("?", "？"))
    return False


def is_whole_request(intent: str, text: str) -> bool:
    """True where a message opens as a request of this kind and tells its days or its amount: it answers no question
    about another one. (An answer opens with what was asked for; what it goes on with may hold any word.)"""
    opening = words.CLAUSE.split(text.strip(), maxsplit=1)[0]
    if intent == "leave":
        return words.DAY_OFF.search(opening) is not None and days.has_day(text)
    return intent == "expense" and EXPENSE.search(opening) is not None and reading.parse_amount(text) is not None


EXPENSE = words.compile_alternatives(*words.EXPENSE_WORDS)


def needs_free_text(frame: IntentFrame) -> bool:
    """True when the answer is free text, in which words such as *approve* ask for nothing."""
    return frame.intent == "comment" or (frame.intent == "mail" and not desk.read_mail_fields(frame).body)


def find_corrected(known: Dialogue, parts: Sequence[tuple[str, str]], turn: PersonTurn) -> IntentFrame | None:
    """The request that a message corrects: it says so, or it tells nothing but another day, length or amount."""
    request = known.current
    if request.intent not in ("leave", "expense") or not request.texts:
        return None
    intents = {intent for intent, _ in parts}
    marked = words.CORRECTION.search(turn.text) is not None
    if not intents <= {"unknown", "leave", "expense", "decide", "thanks", "help", "drop"} - (
        set() if marked else {"leave", "expense", "decide"}
    ):
        return None
    if marked and has_value(request.intent, turn.text):
        return request
    return (
        request if not marked and intents == {"unknown"} and len(turn.text) <= BRIEF and has_fact(turn.text) else None
    )


BRIEF = 24
"""Characters of a message that tells nothing but another value."""


def has_fact(text: str) -> bool:
    tests: tuple[Callable[[str], object], ...] = (days.parse_length, reading.parse_amount, days.has_day)
    return any(test(text) for test in tests)


def has_value(intent: str, text: str) -> bool:
    """True when there is something that a request of this kind can be changed by."""
    kinds = words.LEAVE_NAMES if intent == "leave" else words.CATEGORIES
    return bool(
        has_fact(text)
        or reading.parse_approver(text, "manager")
        or reading.classify_text(text, kinds, "")
        or words.REASON.search(text)
        or (intent == "expense" and reading.parse_bare_amount(text))
    )
