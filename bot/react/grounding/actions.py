"""What an answer says was done, or promises to do, or says is there to be pressed, and whether anything bears it out.
Pure.

Only what is put as a finished fact counts: *已发送*, *sent*; no question, refusal, condition or advice. What this run
has done bears it out; what was done before does where the same request is named, or where the person has only asked.
Each deed of a sentence is judged by itself, so that one true effect hides no other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from bot.react.grounding import wording
from bot.react.grounding.claims import Spellings, dense, mentions, names_in
from bot.react.grounding.sentences import IDENTIFIER, Clause, clauses, plain, without_examples
from bot.react.grounding.wording import Deed

MOST = 100
"""Deeds that are looked at: nobody reads an answer that has more."""


@dataclass(frozen=True, slots=True)
class Effect:
    """Something that this run has done."""

    tool: str
    text: str
    """Its arguments and its result, as words and numbers."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What bears out that something was done."""

    effects: Sequence[Effect] = ()
    told: Sequence[str] = ()
    """What results of this run say, one thing each;"""
    older: Sequence[str] = ()
    """what receipts and results of earlier messages say."""
    asked: str = ""
    """What the person wrote."""
    has_card: bool = False
    """Something waits for a button in this conversation."""
    people: Sequence[Spellings] = ()
    """Those of the directory."""


def false_deeds(answer: str, record: Proof) -> tuple[str, ...]:
    """The clauses of an answer that tell of something done, promised, or there to be pressed, which nothing bears out;
    each once."""
    parts = clauses(without_examples(plain(answer)))
    asks = any(one.asked or wording.PLEASE.search(one.text) for one in parts)
    ledger, found = Ledger(record), dict[str, None]()
    for part in {one.text: one for one in parts if not one.asked and not one.is_conditional}.values():
        if _is_false(part, ledger, asks=asks):
            found[part.text.strip()] = None
            if len(found) >= MOST:
                break
    return tuple(found)


def told_as_fact(text: str) -> list[str]:
    """The clauses that say of something that it was done."""
    parts = clauses(plain(text))
    return [one.text for one in parts if not one.asked and next(_claimed(one), None)]


def _is_false(part: Clause, ledger: Ledger, *, asks: bool) -> bool:
    """`asks`: the answer wants something from the person before anything can be done."""
    if any(not _borne_out(deed, part, ledger) for deed in islice(_claimed(part), MOST)):
        return True
    return (
        _promises_in_vain(part, ledger, asks=asks)
        or _announces(part, ledger, asks=asks)
        or _points_nowhere(part, ledger)
        or _finishes_nothing(part, ledger)
    )


def _claimed(part: Clause) -> Iterator[Deed]:
    """The deeds that a clause tells as finished, each once."""
    text = wording.CHATTY.sub(" ", part.text.lower())
    known = set[str]()
    for found in wording.WORD.finditer(text):
        deed = wording.BY_WORD[found[0]]
        if deed.name in known:
            continue
        before, behind = text[max(0, found.start() - 60) : found.start()], text[found.end() : found.end() + 24]
        is_told = (
            _told_en(deed, found[0], before, behind) if found[0].isascii() else _told_zh(found[0], before[-40:], behind)
        )
        if is_told:
            known.add(deed.name)
            yield deed


def _told_zh(word: str, before: str, behind: str) -> bool:
    if word == "通过" and wording.OTHERS.match(word + behind):
        return False
    if wording.ATTRIBUTE.match(behind):
        return False
    done = max(before[-26:].rfind("已"), before[-26:].rfind("刚"))
    if done >= 0:
        head, between = before[: len(before) - len(before[-26:]) + done], before[-26:][done:]
        return not wording.BETWEEN_ZH.search(between) and not wording.COUNTERMANDED.search(head)
    if wording.NOUN.match(behind):
        return False
    finished = word[-1] in "了过好" or wording.DONE_BEHIND.match(behind) or before.rstrip().endswith("成功")
    return bool(finished) and not wording.NOT_ZH.search(before) and not behind.startswith(("吗", "没", "么"))


def _told_en(deed: Deed, word: str, before: str, behind: str) -> bool:
    if (before and (before[-1].isalnum() or before[-1] == "-")) or (behind and behind[0].isalpha()):
        return False
    if wording.NOT_EN.search(before) or _is_other_sense(word, before, behind):
        return False
    if wording.PRESENT.search(before) and wording.USUALLY.match(behind):
        return False
    if wording.MANY.search(before) and not wording.THESE.search(before):
        return False
    if wording.EN_SUBJECT.search(before):
        return True
    if wording.EN_HEAD.search(before):
        return not wording.EN_FINITE.search(behind) and (deed.is_state or not behind.startswith((" by", " on:")))
    if wording.EN_NOUN.search(before):
        return not wording.EN_FINITE.search(behind)
    if deed.is_state and wording.EN_OTHERS.search(before):
        return not before.rstrip().endswith(("you", "you have"))
    return wording.EN_AND.search(before) is not None and wording.EN_I.search(before) is not None


def _is_other_sense(word: str, before: str, behind: str) -> bool:
    """*The day has passed*, *it was passed on*, *the search returned two*."""
    if word == "passed":
        return behind.startswith((" on", " to", " along")) or not wording.OF_REQUEST.search(f"{before}{behind}")
    return word == "returned" and not wording.GIVEN_BACK.match(behind)


def _borne_out(deed: Deed, part: Clause, ledger: Ledger) -> bool:
    record = ledger.record
    if deed.name in ("sent", "notified") and wording.CARDS.search(part.text):
        return True  # whether a card is there is looked at by itself
    of_request = (
        deed.name == "sent" and wording.OF_REQUEST.search(part.text.lower()) and not wording.MAILS.search(part.text)
    )
    effects = ledger.effects(deed, wording.TELLS if of_request else deed.tools)
    if wording.YOU.search(part.text) and ledger.has_asked(deed):
        return True
    if effects and deed.takes_people and not _reached(part.text, effects, record.people):
        return False
    if ids := _ids(part.text) or _one_id(part.sentence):
        return all(ledger.has_of(one, deed, effects) for one in ids)
    if effects:
        return True
    if deed.name == "changed" and record.has_card:
        return True
    if deed.is_state and ledger.has_told(deed):
        return True
    return not ledger.is_order and ledger.has_ever(deed)


class Ledger:
    """A record in which nothing is looked for twice: an answer may have many deeds, and a record many lines."""

    def __init__(self, record: Proof) -> None:
        self.record = record
        self.is_order = is_order(record.asked)
        self._found: dict[tuple[str, str], bool] = {}
        self._of: dict[str, list[str]] | None = None

    def _once(self, what: str, deed: str, look: Callable[[], bool]) -> bool:
        if (what, deed) not in self._found:
            self._found[what, deed] = look()
        return self._found[what, deed]

    def effects(self, deed: Deed, tools: Collection[str]) -> list[Effect]:
        """What this run has done of this kind. What a server's tool does is told by its name, its arguments and its
        result alone."""
        return [one for one in self.record.effects if one.tool in tools or ("__" in one.tool and _may_be(deed, one))]

    def has_asked(self, deed: Deed) -> bool:
        return self._once("asked", deed.name, lambda: deed.known(self.record.asked))

    def has_told(self, deed: Deed) -> bool:
        """Results of this run speak of it."""
        return self._once("told", deed.name, lambda: any(map(deed.known, self.record.told)))

    def has_ever(self, deed: Deed) -> bool:
        """For somebody who has only asked, what was done before counts, and what results say of it."""
        older = self._once("older", deed.name, lambda: any(map(deed.known, self.record.older)))
        return older or self.has_told(deed) or (deed.name == "submitted" and (bool(self._lines()) or self.is_waiting))

    @property
    def is_waiting(self) -> bool:
        """Something is said to wait for a decision."""
        seen = (*self.record.told, *self.record.older)
        return self._once("waiting", "", lambda: any(map(wording.WAITING.search, seen)))

    @property
    def has_task(self) -> bool:
        """A task was seen: it has a card with whoever decides it."""
        seen = (*self.record.told, *self.record.older)
        return self._once("task", "", lambda: any(map(wording.TASK.search, seen)))

    def has_of(self, identifier: str, deed: Deed, effects: Sequence[Effect]) -> bool:
        """Whether this run, a result or a receipt tells the deed of one request."""
        if any(identifier in one.text.upper() or not IDENTIFIER.search(one.text) for one in effects):
            return True
        lines = self._lines().get(identifier, [])
        if deed.name in ("submitted", "booked") and lines:
            return True
        return self._once(identifier, deed.name, lambda: any(map(deed.known, lines)))

    def _lines(self) -> dict[str, list[str]]:
        """What is told of each request."""
        if self._of is None:
            self._of = {}
            for line in (*self.record.told, *self.record.older):
                for identifier in _ids(line):
                    self._of.setdefault(identifier, []).append(line)
        return self._of


def _may_be(deed: Deed, effect: Effect) -> bool:
    if deed.name in ("changed", "booked", "paid"):
        return True
    return deed.known(effect.tool.replace("_", " ")) or deed.known(effect.text)


def _ids(text: str) -> list[str]:
    """The requests that are named, tasks as theirs."""
    return list(dict.fromkeys("-".join(one[0].upper().split("-")[:2]) for one in IDENTIFIER.finditer(text)))


def _one_id(sentence: str) -> list[str]:
    ids = _ids(sentence[:400])
    return ids if len(ids) == 1 else []


def _reached(text: str, effects: Sequence[Effect], people: Sequence[Spellings]) -> bool:
    """Whether everybody to whom it is said to be done is named by one of the effects. An effect that names nobody says
    nothing of it."""
    found = wording.RECIPIENT.search(plain(text).lower())
    wanted = names_in(text[found.end() : found.end() + 40], people) if found else []
    if not wanted:
        return True
    done = [dense(plain(one.text)) for one in effects]
    named = [one for one in done if any(mentions(one, names) for names in people)]
    return not named or all(any(mentions(one, names) for one in named) for names in wanted)


def _promises_in_vain(part: Clause, ledger: Ledger, *, asks: bool) -> bool:
    """Nothing is done between two messages of a person, except that decisions are told."""
    text, record = part.text.lower(), ledger.record
    found = wording.PROMISE_ZH.search(text) or wording.PROMISE_EN.search(text)
    if (
        not found
        or record.has_card
        or wording.WAITS.search(wording.CHATTY.sub(" ", part.sentence.lower()))
        or wording.NEVER.search(text)
    ):
        return False
    if asks and not wording.LATER.search(found[0]):
        return False
    if wording.TELLS_ZH.search(text) or wording.TELLS_EN.search(text):
        return not record.effects and not ledger.is_waiting
    done = {one.tool for one in record.effects}
    return not any(deed.tools & done for deed in wording.DEEDS if deed.known(found[0]))


def _announces(part: Clause, ledger: Ledger, *, asks: bool) -> bool:
    """Says what it is about to do, and has not done anything."""
    text, record = part.text.lower(), ledger.record
    if asks or record.told or record.effects or not wording.ANNOUNCED.search(text):
        return False
    return not (wording.NEVER.search(text) or wording.WAITS.search(wording.CHATTY.sub(" ", part.sentence.lower())))


def _points_nowhere(part: Clause, ledger: Ledger) -> bool:
    """Sends the person to a card, and none waits."""
    record = ledger.record
    if (
        record.has_card
        or not wording.CARD.search(part.text)
        or wording.NO_CARD.search(part.text)
        or wording.ONLY_ASKS.search(record.asked)
    ):
        return False
    return not ledger.has_task and not any(
        one.tool in wording.STARTS | {"transfer_task", "add_sign"} for one in record.effects
    )


def _finishes_nothing(part: Clause, ledger: Ledger) -> bool:
    if ledger.record.effects or not ledger.is_order or not wording.ALL_DONE.search(part.text):
        return False
    return not wording.NOT_EN.search(part.text.lower())


def is_order(asked: str) -> bool:
    """True where the person wants something done now, and does not only ask how things stand."""
    return wording.ORDER.search(asked) is not None and wording.ONLY_ASKS.search(asked) is None
