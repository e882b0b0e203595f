"""What conversations remember of a run: the one in which it was asked, and, where something of it was brought to its
person's DM, that DM; and of a DM, what has happened there besides. What may not stand in a channel is not remembered
there either: whoever writes next in a thread has a model that reads its history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from zoneinfo import ZoneInfo

from bot.entries import Entry, Kind, PastCall
from bot.events import Place
from bot.react.past_calls import fold_call, keep_call, list_calls
from bot.react.recalling import NOT_VERIFIED, write_calls, write_event
from bot.records import Ask, Recollect, Run
from bot.show import receipt
from bot.store.history import History
from bot.store.runs import Runs
from bot.store.writes import Put, Remember, Write
from bot.telling import Told
from bot.texts import say
from bot.trace import Call, CallStatus
from tools.spec import Person, Privacy

WAITS = "a card was brought and waits for its button: {tool}"
TAKEN_BACK = "the person took the card back: nothing was done"


@dataclass(slots=True)
class Part:
    """What is remembered of a run now, oldest first."""

    entries: list[Entry] = field(default_factory=list)
    calls: Sequence[PastCall] = ()
    """Of the entry with calls, if there is one."""


@dataclass(frozen=True, slots=True)
class Memory:
    history: History
    runs: Runs
    today: Callable[[], datetime]
    """Aware UTC: what is remembered is dated by the day that people mean."""

    def keep_answer(self, run: Run, text: str, told: Told) -> tuple[Remember, list[Write]]:
        """What was asked, called, said and changed: for the conversation, and for the DM if there is one."""
        place = run.message.place
        asked = [] if run.remembered else [self._asked(run)]
        known = run.direct is not None  # its card has been in the DM
        run.direct = told.direct or run.direct
        answer = [self._answer(run, text), *self._record(run)]
        if told.here:
            calls = self._called(run, place) if self._may_stand(run, told) else Part()
            here = Part([*asked, *calls.entries, *answer], calls.calls)
        else:
            here = Part([*asked, self._answer(run, told.pointer), *self._record(run, in_channel=True)])
        remembered, *more = self._writes(place, here)
        assert isinstance(remembered, Remember)
        if run.direct is None:
            return remembered, more
        calls = self._called(run, run.direct)
        entries = [*calls.entries, *answer] if known else [self._asked(run), *calls.entries, *answer]
        return remembered, [*more, self._recollect(run, "end", Part(entries, calls.calls))]

    def keep_waiting(self, run: Run) -> list[Write]:
        """What is remembered while a card of the run waits. Where the card is in a DM, it is an open one there."""
        ask, place = run.ask, run.message.place
        if ask is None:
            return []
        asked, first = [] if run.remembered else [self._asked(run)], not run.remembered
        run.remembered = True
        if place.direct:
            calls = self._called(run, place)
            return self._writes(place, Part([*asked, *calls.entries], calls.calls))
        waits = [write_event(WAITS.format(tool=ask.tool), self._at_ms(), _zone(run), run=run.id, said="")]
        here = self._writes(place, Part([*asked, *waits])) if first else []
        if run.direct is None:
            return here
        calls = self._called(run, run.direct)
        part = Part([*asked, *calls.entries], calls.calls)
        return [*here, self._recollect(run, str(len(run.trace.calls)), part, ask)]

    def keep_taken_back(self, run: Run) -> list[Write]:
        """Of a run whose card its person has taken back in words: a run that says no more."""
        said = say("command.taken_back", run.language)
        event = write_event(TAKEN_BACK, self._at_ms(), _zone(run), run=run.id, said=said)
        asked = [] if run.remembered else [self._asked(run)]
        here = self._writes(run.message.place, Part([*asked, event]))
        return [*here, self._recollect(run, "end", Part([event]))] if run.direct else here

    def keep_event(self, place: Place, person: Person, text: str, id: str) -> Put:
        """Something that has happened in a DM, into its lane; `id`: of what has happened, so that it is there once."""
        event = write_event(text, self._at_ms(), person.zone)
        kept = ((event.message, event.said, event.at_ms, event.kind.value),)
        work = Recollect(run="", place=place, person=person.id, entries=kept)
        return Put(place.conversation, f"happened:{id}", work.model_dump_json())

    def recollect(self, one: Recollect) -> Sequence[Write]:
        """The writes of an item in the DM's own lane."""
        conversation = one.place.conversation
        entries = [
            Entry(message, one.run, said, at_ms, Kind("".join(kind))) for message, said, at_ms, *kind in one.entries
        ]
        kept = self._writes(one.place, Part(entries, [PastCall(*row) for row in one.calls])) if entries else []
        if not one.run:
            return kept
        if one.approval:
            waits = self.runs.list_waiting(conversation, one.run, one.approval, one.tool, one.person, one.proposal)
            return [*kept, waits]
        return [*kept, self.runs.unlist_waiting(conversation, one.run)]

    def _writes(self, place: Place, part: Part) -> list[Write]:
        """Of a conversation in its own lane. The first adds the entries."""
        conversation = place.conversation
        of_calls = [one for one in part.entries if one.kind is Kind.CALLS] if part.calls else []
        kept = [self.history.calls(conversation, one, part.calls) for one in of_calls]
        return [self.history.turn(conversation, part.entries), *kept]

    def _recollect(self, run: Run, at: str, part: Part, ask: Ask | None = None) -> Put:
        """Into the lane of the DM, once: what is remembered there is written by who holds it. `ask`: of the card that
        waits there."""
        assert run.direct is not None
        work = Recollect(
            run=run.id,
            place=run.direct,
            person=run.message.person,
            entries=tuple((one.message, one.said, one.at_ms, one.kind.value) for one in part.entries),
            calls=tuple(one.row for one in part.calls),
            approval=ask.approval if ask else "",
            tool=ask.tool if ask else "",
            proposal=run.proposal if ask else None,
        )
        return Put(run.direct.conversation, f"recollect:{run.id}:{at}", work.model_dump_json())

    def _called(self, run: Run, place: Place) -> Part:
        """What the run has called and no entry tells of yet. In a channel nothing of what was on a card in the DM but
        how that ended."""
        known = run.recalled if place.direct else ()
        found = [(call, keep_call(call, result), result) for call, result in list_calls(run.trace, known)]
        if not found:
            return Part()
        if place.direct:
            run.recalled += [call.uid for call, _, _ in found if call.status is not CallStatus.AWAITING]
        shown = [one for one in found if place.direct or not one[0].approval]
        lines = [
            fold_call(past, result) if place.direct or not call.approval else _told_of_card(call)
            for call, past, result in found
        ]
        waits = any(call.status is CallStatus.AWAITING for call, _, _ in found)
        entry = write_calls(lines, self._at_ms(), _zone(run), run=run.id, said="" if waits else None)
        return Part([entry], [past for _, past, _ in shown])

    def _may_stand(self, run: Run, told: Told) -> bool:
        """Whether what the run has seen may stand where its last word does, and not only words of our own."""
        own_words = run.last is None or bool(run.last.stopped)
        return run.message.place.direct or run.trace.privacy is Privacy.PUBLIC or (told.here and not own_words)

    def _record(self, run: Run, *, in_channel: bool = False) -> list[Entry]:
        """What the run has changed, and what of its answer was not borne out; nothing where there is neither."""
        last = run.last
        lines = [receipt(run, in_channel=in_channel)] if run.effects or (last and last.overclaims) else []
        said = "\n".join(lines)
        if last and last.unverified and not in_channel:
            lines.append(NOT_VERIFIED + " · ".join(last.unverified))
        event = write_event("\n".join(lines), self._at_ms(), _zone(run), run=run.id, said=said)
        return [event] if lines else []

    def _answer(self, run: Run, text: str) -> Entry:
        return Entry.of("assistant", text, run=run.id, at_ms=self._at_ms())

    def _asked(self, run: Run) -> Entry:
        """What the person wrote, and how a model reads it."""
        return Entry(run.trace.messages[0], run.id, run.message.text, self._at_ms())

    def _at_ms(self) -> int:
        return int(self.today().timestamp() * 1000)


def _zone(run: Run) -> tzinfo:
    return ZoneInfo(run.timezone)


def _told_of_card(call: Call) -> str:
    """A call whose card was in a DM, for everybody who reads the channel."""
    return f"{call.tool} → {call.status.value}"
