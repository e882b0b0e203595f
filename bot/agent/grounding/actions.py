"""Finds what an answer claims was done, promises, or says can be pressed, and checks the evidence. Pure.

Only finished facts count: *已发送*, *sent*; not questions, refusals, conditions or advice. What this run did is
evidence. Earlier actions are evidence if the same request is named, or if the person only asked. Each action in a
sentence is judged separately, so that one true action hides no false one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from bot.agent.grounding import wording
from bot.agent.grounding.claims import compact_text, find_full_names, mentions_person
from bot.agent.grounding.name_index import Spellings
from bot.agent.grounding.sentences import IDENTIFIER, Clause, blank_examples, normalize_text, split_clauses
from bot.agent.grounding.wording import ActionKind

MAX_ACTIONS = 100
"""Most actions that are checked: nobody reads an answer with more."""


@dataclass(frozen=True, slots=True)
class PerformedAction:
    """Something this run did."""

    tool: str
    text: str
    """Its arguments and its result, as words and numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionEvidence:
    """The evidence that something was done."""

    effects: Sequence[PerformedAction] = ()
    results: Sequence[str] = ()
    """What results of this run say, one statement each."""
    load_earlier_lines: Callable[[], Sequence[str]] = tuple
    """Returns what receipts and results of earlier messages say. Called only if an action needs it."""
    question: str = ""
    """What the person wrote."""
    has_card: bool = False
    """A card waits for its button in this conversation."""
    people: Sequence[Spellings] = ()
    """The people in the directory."""


def find_false_actions(answer: str, record: ActionEvidence) -> tuple[str, ...]:
    """The clauses of an answer that claim, promise or point to something without evidence, each once."""
    parts = split_clauses(blank_examples(normalize_text(answer)))
    asks = any(one.is_question or wording.PLEASE.search(one.text) for one in parts)
    ledger, clauses = EvidenceIndex(record), dict[str, None]()
    for part in {one.text: one for one in parts if not one.is_question and not one.is_conditional}.values():
        if _is_false_clause(part, ledger, asks=asks):
            clauses[part.text.strip()] = None
            if len(clauses) >= MAX_ACTIONS:
                break
    return tuple(clauses)


def list_action_statements(text: str) -> list[str]:
    """The clauses that say something was done."""
    parts = split_clauses(normalize_text(text))
    return [one.text for one in parts if not one.is_question and next(_find_claimed_actions(one), None)]


def _is_false_clause(part: Clause, ledger: EvidenceIndex, *, asks: bool) -> bool:
    """`asks`: the answer needs something from the person before anything can be done."""
    if any(not _has_evidence(deed, part, ledger) for deed in islice(_find_claimed_actions(part), MAX_ACTIONS)):
        return True
    return (
        _is_empty_promise(part, ledger, asks=asks)
        or _is_announcement(part, ledger, asks=asks)
        or _refers_to_missing_card(part, ledger)
        or _is_false_completion(part, ledger)
    )


def _find_claimed_actions(part: Clause) -> Iterator[ActionKind]:
    """The finished actions in a clause, each once."""
    text = wording.CHATTY.sub(" ", part.text.lower())
    names = set[str]()
    for match in wording.WORD.finditer(text):
        deed = wording.BY_WORD[match[0]]
        if deed.name in names:
            continue
        prefix, suffix = text[max(0, match.start() - 60) : match.start()], text[match.end() : match.end() + 24]
        is_told = (
            _is_claimed_en(deed, match[0], prefix, suffix)
            if match[0].isascii()
            else _is_claimed_zh(match[0], prefix[-40:], suffix)
        )
        if is_told:
            names.add(deed.name)
            yield deed


def _is_claimed_zh(word: str, prefix: str, behind: str) -> bool:
    if word == "通过" and wording.OTHERS.match(word + behind):
        return False
    if wording.ATTRIBUTE.match(behind):
        return False
    done = max(prefix[-26:].rfind("已"), prefix[-26:].rfind("刚"))
    if done >= 0:
        head, between = prefix[: len(prefix) - len(prefix[-26:]) + done], prefix[-26:][done:]
        return not wording.BETWEEN_ZH.search(between) and not wording.COUNTERMANDED.search(head)
    if wording.NOUN.match(behind):
        return False
    finished = word[-1] in "了过好" or wording.DONE_BEHIND.match(behind) or prefix.rstrip().endswith("成功")
    return bool(finished) and not wording.NOT_ZH.search(prefix) and not behind.startswith(("吗", "没", "么"))


def _is_claimed_en(deed: ActionKind, word: str, prefix: str, behind: str) -> bool:
    if (prefix and (prefix[-1].isalnum() or prefix[-1] == "-")) or (behind and behind[0].isalpha()):
        return False
    if wording.NOT_EN.search(prefix) or _is_other_sense(word, prefix, behind):
        return False
    if wording.PRESENT.search(prefix) and wording.USUALLY.match(behind):
        return False
    if wording.MANY.search(prefix) and not wording.THESE.search(prefix):
        return False
    if wording.EN_SUBJECT.search(prefix):
        return True
    if wording.EN_HEAD.search(prefix):
        return not wording.EN_FINITE.search(behind) and (deed.is_state or not behind.startswith((" by", " on:")))
    if wording.EN_NOUN.search(prefix):
        return not wording.EN_FINITE.search(behind)
    if deed.is_state and wording.EN_OTHERS.search(prefix):
        return not prefix.rstrip().endswith(("you", "you have"))
    return wording.EN_AND.search(prefix) is not None and wording.EN_I.search(prefix) is not None


def _is_other_sense(word: str, before: str, behind: str) -> bool:
    """*The day has passed*, *it was passed on*, *the search returned two*."""
    if word == "passed":
        return behind.startswith((" on", " to", " along")) or not wording.OF_REQUEST.search(f"{before}{behind}")
    return word == "returned" and not wording.GIVEN_BACK.match(behind)


def _has_evidence(deed: ActionKind, part: Clause, ledger: EvidenceIndex) -> bool:
    record = ledger.record
    if deed.name in ("sent", "notified") and wording.CARDS.search(part.text):
        return True  # a separate check finds out whether there is a card
    of_request = (
        deed.name == "sent" and wording.OF_REQUEST.search(part.text.lower()) and not wording.MAILS.search(part.text)
    )
    effects = ledger.list_matching_actions(deed, wording.TELLS if of_request else deed.tools)
    if wording.YOU.search(part.text) and ledger.is_in_question(deed):
        return True
    if effects and deed.takes_people and not _has_reached_recipients(part.text, effects, record.people):
        return False
    if ids := _find_request_ids(part.text) or _find_single_id(part.sentence):
        return all(ledger.has_record_for(one, deed, effects) for one in ids)
    if effects:
        return True
    if deed.name == "changed" and record.has_card:
        return True
    if deed.is_state and ledger.has_result_about(deed):
        return True
    return not ledger.is_order and ledger.has_any_record_of(deed)


class EvidenceIndex:
    """An index that searches nothing twice: an answer may have many actions, and a record many lines."""

    def __init__(self, record: ActionEvidence) -> None:
        self.record = record
        self.is_order = is_order(record.question)
        self._found: dict[tuple[str, str], bool] = {}
        self._of: dict[str, list[str]] | None = None

    @cached_property
    def _earlier_lines(self) -> Sequence[str]:
        return self.record.load_earlier_lines()

    @property
    def _seen_lines(self) -> Sequence[str]:
        """What results of this run and of earlier ones say."""
        return (*self.record.results, *self._earlier_lines)

    def _look_up_once(self, what: str, deed: str, look: Callable[[], bool]) -> bool:
        if (what, deed) not in self._found:
            self._found[what, deed] = look()
        return self._found[what, deed]

    def list_matching_actions(self, deed: ActionKind, tools: Collection[str]) -> list[PerformedAction]:
        """What this run did of this kind. For a server's tool, only its name, arguments and result show the kind."""
        return [one for one in self.record.effects if one.tool in tools or ("__" in one.tool and _can_match(deed, one))]

    def is_in_question(self, deed: ActionKind) -> bool:
        return self._look_up_once("asked", deed.name, lambda: deed.is_mentioned_in(self.record.question))

    def has_result_about(self, deed: ActionKind) -> bool:
        """True if results of this run mention it."""
        return self._look_up_once("told", deed.name, lambda: any(map(deed.is_mentioned_in, self.record.results)))

    def has_any_record_of(self, deed: ActionKind) -> bool:
        """For a person who only asked, earlier actions count, and so do results that mention it."""
        older = self._look_up_once("older", deed.name, lambda: any(map(deed.is_mentioned_in, self._earlier_lines)))
        return (
            older
            or self.has_result_about(deed)
            or (deed.name == "submitted" and (bool(self._group_lines_by_id()) or self.has_waiting_decision))
        )

    @property
    def has_waiting_decision(self) -> bool:
        """True if something is said to wait for a decision."""
        return self._look_up_once("waiting", "", lambda: any(map(wording.WAITING.search, self._seen_lines)))

    @property
    def has_seen_task(self) -> bool:
        """True if a task was seen: its decider has a card."""
        return self._look_up_once("task", "", lambda: any(map(wording.TASK.search, self._seen_lines)))

    def has_record_for(self, identifier: str, deed: ActionKind, effects: Sequence[PerformedAction]) -> bool:
        """True if this run, a result or a receipt reports the action for this request."""
        if any(identifier in one.text.upper() or not IDENTIFIER.search(one.text) for one in effects):
            return True
        lines = self._group_lines_by_id().get(identifier, [])
        if deed.name in ("submitted", "booked") and lines:
            return True
        return self._look_up_once(identifier, deed.name, lambda: any(map(deed.is_mentioned_in, lines)))

    def _group_lines_by_id(self) -> dict[str, list[str]]:
        """The lines about each request."""
        if self._of is None:
            self._of = {}
            for line in self._seen_lines:
                for identifier in _find_request_ids(line):
                    self._of.setdefault(identifier, []).append(line)
        return self._of


def _can_match(deed: ActionKind, effect: PerformedAction) -> bool:
    if deed.name in ("changed", "booked", "paid"):
        return True
    return deed.is_mentioned_in(effect.tool.replace("_", " ")) or deed.is_mentioned_in(effect.text)


def _find_request_ids(text: str) -> list[str]:
    """The requests in a text; a task counts as its request."""
    return list(dict.fromkeys("-".join(one[0].upper().split("-")[:2]) for one in IDENTIFIER.finditer(text)))


def _find_single_id(sentence: str) -> list[str]:
    ids = _find_request_ids(sentence[:400])
    return ids if len(ids) == 1 else []


def _has_reached_recipients(text: str, effects: Sequence[PerformedAction], people: Sequence[Spellings]) -> bool:
    """True if one of the effects names everybody to whom the action is said to be done. An effect without names proves
    nothing."""
    found = wording.RECIPIENT.search(normalize_text(text).lower())
    recipients = find_full_names(text[found.end() : found.end() + 40], people) if found else []
    if not recipients:
        return True
    done = [compact_text(normalize_text(one.text)) for one in effects]
    named = [one for one in done if any(mentions_person(one, names) for names in people)]
    return not named or all(any(mentions_person(one, names) for one in named) for names in recipients)


def _is_empty_promise(part: Clause, ledger: EvidenceIndex, *, asks: bool) -> bool:
    """Between two messages of a person nothing is done, except that decisions are announced."""
    text, record = part.text.lower(), ledger.record
    match = wording.PROMISE_ZH.search(text) or wording.PROMISE_EN.search(text)
    if (
        not match
        or record.has_card
        or wording.WAITS.search(wording.CHATTY.sub(" ", part.sentence.lower()))
        or wording.NEVER.search(text)
    ):
        return False
    if asks and not wording.LATER.search(match[0]):
        return False
    if wording.TELLS_ZH.search(text) or wording.TELLS_EN.search(text):
        return not record.effects and not ledger.has_waiting_decision
    done = {one.tool for one in record.effects}
    return not any(deed.tools & done for deed in wording.ACTION_KINDS if deed.is_mentioned_in(match[0]))


def _is_announcement(part: Clause, ledger: EvidenceIndex, *, asks: bool) -> bool:
    """Announces an action and has done nothing."""
    text, record = part.text.lower(), ledger.record
    if asks or record.results or record.effects or not wording.ANNOUNCED.search(text):
        return False
    return not (wording.NEVER.search(text) or wording.WAITS.search(wording.CHATTY.sub(" ", part.sentence.lower())))


def _refers_to_missing_card(part: Clause, ledger: EvidenceIndex) -> bool:
    """Sends the person to a card, and none waits."""
    record = ledger.record
    if (
        record.has_card
        or not wording.CARD.search(part.text)
        or wording.NO_CARD.search(part.text)
        or wording.ONLY_ASKS.search(record.question)
    ):
        return False
    return not ledger.has_seen_task and not any(
        one.tool in wording.STARTS | {"transfer_task", "add_sign"} for one in record.effects
    )


def _is_false_completion(part: Clause, ledger: EvidenceIndex) -> bool:
    if ledger.record.effects or not ledger.is_order or not wording.ALL_DONE.search(part.text):
        return False
    return not wording.NOT_EN.search(part.text.lower())


def is_order(asked: str) -> bool:
    """True if the person wants something done now, and does not only ask for the state."""
    return wording.ORDER.search(asked) is not None and wording.ONLY_ASKS.search(asked) is None
