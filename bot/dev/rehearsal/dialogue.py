"""State of a dialogue: the present requests, and an earlier request that is still open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bot.dev.rehearsal import days, desk, reading, words
from bot.dev.rehearsal.intents import LOOKUPS, classify_intent, split_message
from bot.dev.rehearsal.reply import IntentFrame
from bot.dev.rehearsal.scene import PersonTurn


@dataclass(frozen=True, slots=True)
class Dialogue:
    """Everything that the last message asks for, in order."""

    frames: tuple[IntentFrame, ...] = (IntentFrame("unknown", ()),)
    waiting: IntentFrame | None = None
    """Request that our open question is about, while something else is looked up."""

    @property
    def current(self) -> IntentFrame:
        return self.frames[-1]


def read_dialogue(turns: Sequence[PersonTurn]) -> Dialogue:
    """Read the turns of the last speaker only: nobody answers for somebody else."""
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
    """Build one frame for each request, with lookups first."""
    frames = [IntentFrame(intent, (text,)) for intent, text in parts]
    return tuple(sorted(frames, key=lambda frame: frame.intent not in LOOKUPS and frame.intent != "unknown"))


def find_asking(known: Dialogue) -> IntentFrame | None:
    """Return the request that our last question was about."""
    asking = [frame for frame in known.frames if frame.texts and frame.intent not in LOOKUPS]
    return asking[0] if asking else (known.frames[-1] if known.frames[-1].texts else None)


def is_answer_to(asked: IntentFrame, parts: Sequence[tuple[str, str]], text: str) -> bool:
    intents = {intent for intent, _ in parts}
    if intents <= {"unknown", asked.intent}:
        return True
    if asked.intent in ("leave", "expense"):
        # A reason or a name may contain any word, but a question is never an answer.
        weak = {"unknown", "decide", "leave", "expense", "others", "absence", "dinner"}
        is_other = any(intent != asked.intent and is_whole_request(intent, said) for intent, said in parts)
        return intents <= weak and not is_other and not text.rstrip().endswith(("?", "？"))
    return False


def is_whole_request(intent: str, text: str) -> bool:
    """Return whether a message opens as a request of this kind and tells its days or its amount.

    Such a message answers no question about another request. An answer opens with what was asked for; the rest of it
    may contain any word."""
    opening = words.CLAUSE.split(text.strip(), maxsplit=1)[0]
    if intent == "leave":
        return words.DAY_OFF.search(opening) is not None and days.has_day(text)
    return intent == "expense" and EXPENSE.search(opening) is not None and reading.parse_amount(text) is not None


EXPENSE = words.compile_alternatives(*words.EXPENSE_WORDS)


def needs_free_text(frame: IntentFrame) -> bool:
    """Return whether the answer is free text, in which words such as *approve* ask for nothing."""
    return frame.intent == "comment" or (frame.intent == "mail" and not desk.read_mail_fields(frame).body)


def find_corrected(known: Dialogue, parts: Sequence[tuple[str, str]], turn: PersonTurn) -> IntentFrame | None:
    """Return the request that a message corrects, by its words or by nothing but another day, length or amount."""
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
"""Maximum characters of a message that tells nothing but another value."""


def has_fact(text: str) -> bool:
    tests: tuple[Callable[[str], object], ...] = (days.parse_length, reading.parse_amount, days.has_day)
    return any(test(text) for test in tests)


def has_value(intent: str, text: str) -> bool:
    """Return whether a text has a value that can change a request of this kind."""
    kinds = words.LEAVE_NAMES if intent == "leave" else words.CATEGORIES
    return bool(
        has_fact(text)
        or reading.parse_approver(text, "manager")
        or reading.classify_text(text, kinds, "")
        or words.REASON.search(text)
        or (intent == "expense" and reading.parse_bare_amount(text))
    )
