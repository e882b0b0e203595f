"""What conversations remember of a run: the one in which it was asked, and, where something of it was brought to its
person's DM, that DM. What may not stand in a channel is not remembered there either: whoever writes next in a thread
has a model that reads its history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.records import Ask, Recollect, Run
from bot.show import receipt
from bot.store.history import Entry, History
from bot.store.runs import Runs
from bot.store.writes import Put, Remember, Write
from bot.telling import Told
from bot.texts import say


@dataclass(frozen=True, slots=True)
class Memory:
    history: History
    runs: Runs
    today: Callable[[], datetime]
    """Aware UTC: what is remembered is dated by the day that people mean."""

    def keep_answer(self, run: Run, text: str, told: Told) -> tuple[Remember, list[Write]]:
        """What was asked, what was said, what was changed: for the conversation, and for the DM if there is one."""
        answer = self._answer(run, f"{text}\n[{receipt(run)}]")
        here = answer if told.here else self._answer(run, f"{told.pointer}\n[{receipt(run, in_channel=True)}]")
        asked = [] if run.remembered else [self._asked(run)]
        known = run.direct is not None  # its card has been in the DM
        run.direct = told.direct or run.direct
        remembered = self.history.turn(run.message.place.conversation, [*asked, here])
        if run.direct is None:
            return remembered, []
        entries = [answer] if known else [self._asked(run), answer]
        return remembered, [self._recollect(run, "end", entries)]

    def keep_waiting(self, run: Run) -> list[Write]:
        """What is remembered while a card of the run waits. Where the card is in a DM, it is an open one there."""
        ask = run.ask
        if ask is None:
            return []
        waits = Entry.of("assistant", f"[waiting for a button: {ask.tool}]", run=run.id, said="", at_ms=self._at_ms())
        entries = [] if run.remembered else [self._asked(run), waits]
        run.remembered = True
        here = [self.history.turn(run.message.place.conversation, entries)] if entries else []
        if run.direct is None:
            return [*here]
        return [*here, self._recollect(run, str(len(run.trace.calls)), entries, ask)]

    def keep_taken_back(self, run: Run) -> list[Write]:
        """Of a run whose card its person has taken back in words: a run that says no more."""
        said = say("command.taken_back", run.language)
        content = "[the person took the card back: nothing was done]"
        answer = Entry.of("assistant", content, run=run.id, said=said, at_ms=self._at_ms())
        asked = [] if run.remembered else [self._asked(run)]
        here = self.history.turn(run.message.place.conversation, [*asked, answer])
        return [here, self._recollect(run, "end", [answer])] if run.direct else [here]

    def recollect(self, one: Recollect) -> Sequence[Write]:
        """The writes of an item in the DM's own lane."""
        conversation = one.place.conversation
        entries = [Entry(message, one.run, said, at_ms) for message, said, at_ms in one.entries]
        turn = [self.history.turn(conversation, entries)] if entries else []
        if one.approval:
            waits = self.runs.list_waiting(conversation, one.run, one.approval, one.tool, one.person, one.proposal)
            return [*turn, waits]
        return [*turn, self.runs.unlist_waiting(conversation, one.run)]

    def _recollect(self, run: Run, at: str, entries: Sequence[Entry], ask: Ask | None = None) -> Put:
        """Into the lane of the DM, once: what is remembered there is written by who holds it. `ask`: of the card that
        waits there."""
        assert run.direct is not None
        kept = tuple((one.message, one.said, one.at_ms) for one in entries)
        work = Recollect(
            run=run.id,
            place=run.direct,
            person=run.message.person,
            entries=kept,
            approval=ask.approval if ask else "",
            tool=ask.tool if ask else "",
            proposal=run.proposal if ask else None,
        )
        return Put(run.direct.conversation, f"recollect:{run.id}:{at}", work.model_dump_json())

    def _answer(self, run: Run, text: str) -> Entry:
        return Entry.of("assistant", text, run=run.id, at_ms=self._at_ms())

    def _asked(self, run: Run) -> Entry:
        """What the person wrote, and how a model reads it."""
        return Entry(run.trace.messages[0], run.id, run.message.text, self._at_ms())

    def _at_ms(self) -> int:
        return int(self.today().timestamp() * 1000)
