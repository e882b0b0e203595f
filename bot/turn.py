"""One message through.

`Turns.message` is the whole way of a message, top to bottom: who is it → is it a plain command → the loop, step by
step, each step shown and stored → an answer with its receipt, or a card and a pause. `Turns.resume` goes on after a
button. Both return the writes of the one commit that pops the item; whatever dies before that is done again by
another process, from the last checkpoint.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from bot import folding, pictures
from bot.cards import describe_plan
from bot.commands import Commands
from bot.door import Door
from bot.duplicates import Duplicates
from bot.endings import Endings
from bot.entries import Waiting
from bot.errors import NEEDS_ADMINISTRATOR, ModelDown
from bot.events import Directory, Message, Post, Slot
from bot.logs import bind
from bot.memory import Memory
from bot.passage import Passage
from bot.react import prompt
from bot.react.grounding.sources import Grounds
from bot.react.guards import Budget
from bot.react.loop import Loop
from bot.react.recalling import list_sources, write_history
from bot.react.situation import Situation
from bot.react.steps import Final, Paused, Step, Stepped, Stopped
from bot.recent import Recent
from bot.records import Ask, Draw, Last, Proposal, Resume, Run, RunStatus
from bot.show import Steps, figures, receipt, stop
from bot.store.approvals import ask_for
from bot.store.history import History
from bot.store.journal import Journal
from bot.store.keys import Keys
from bot.store.lanes import Item, Kept, Later, Lease
from bot.store.runs import Runs
from bot.store.spending import Spending, Today
from bot.store.writes import Put, Write
from bot.telling import Telling, Told
from bot.texts import say
from tools.spec import Caller, Gate, Privacy
from tools.tool import Desk, Use

DOWN_MAX_MS = 300_000
"""The longest wait that a model may ask for."""
TEXT_MAX = 12_000
"""Characters of one message that are read."""


@dataclass(frozen=True, slots=True)
class Turns:
    telling: Telling
    endings: Endings
    memory: Memory
    directory: Directory
    desk: Desk
    loop: Loop
    commands: Commands
    steps: Steps
    keys: Keys
    runs: Runs
    history: History
    journal: Journal
    spending: Spending
    duplicates: Duplicates
    today: Callable[[], datetime]
    """Aware UTC: the day that people mean."""
    now: Callable[[], datetime]
    """Aware UTC."""
    house: str = ""
    """What the company adds to the rules (`prompt.house`)."""
    door: Door = field(default_factory=Door)
    budget: Budget = field(default_factory=Budget)
    down_ms: int = 5_000
    """How long a message waits before an unreachable model is tried again, unless that asks for longer."""
    ended: Callable[[Run], object] = field(default=lambda run: None)
    """Is told of every run that ends, a moment before that is kept: returns at once and raises nothing."""

    async def message(self, lease: Lease, message: Message) -> Sequence[Write]:
        """From what a person wrote to the writes that end it. Raises `Later` while the model is down."""
        await self.door.quiet()
        lease.work_for(message.person)
        caller = await self.directory.caller(message.person)
        if caller is None:
            return await self._not_served(lease, message)
        if (plain := await self._plain(lease, message, caller)) is not None:
            return plain
        passage = await self._opened(lease, message, caller)
        bind(run=passage.run.id)
        return await self._through(passage)

    async def resume(self, lease: Lease, resume: Resume) -> Sequence[Write]:
        """Goes on with a paused run: what became of its call is an observation now."""
        recalled = await self.runs.recall(lease.lane, self.history, resume.run)
        run = _going(recalled.run)
        if run is None:
            return []
        bind(run=run.id)
        lease.work_for(run.message.person)
        if today := self._today(run.message.person):
            recalled = replace(recalled, used=await self.spending.used(today))
        fresh = self._settled(run, resume)
        if resume.silent:
            return self._taken_back(run)
        caller = await self.directory.caller(run.message.person)
        if caller is None:
            noted = self._noted(run.message, "run.stopped", run=run.id, text="its person is not a member any more")
            return [*self._over(run, RunStatus.STOPPED), noted]
        await self.loop.starts.refresh(self.desk.engine)
        passage = Passage(lease, run, caller, recalled)
        if fresh:
            await self._checkpoint(passage, f"resume:{resume.uid}")
        return await self._through(passage)

    def _taken_back(self, run: Run) -> Sequence[Write]:
        """Its person has taken its card back in words and was answered by another run: this one ends without a word."""
        over, remembered = self._over(run, RunStatus.CANCELLED), self.memory.keep_taken_back(run)
        return [*over, *remembered, self._noted(run.message, "run.cancelled", run=run.id, **figures(run.trace))]

    async def give_up(self, item: Item, message: Message) -> Sequence[Write]:
        """A message that failed every time. A card that was proposed is still brought; otherwise its writer is told."""
        run = await self.runs.get(self._id(message))
        if run is not None and run.status is RunStatus.PAUSED:
            return self._waits(run)
        text, told = await self.endings.give_up(item, message, run)
        return self._left(run, text, told) if run else []

    async def give_up_resuming(self, item: Item, resume: Resume) -> Sequence[Write]:
        """The same after a button: what it changed is said, whatever else could not be."""
        run = _going(await self.runs.get(resume.run))
        if run is None:
            return []
        self._settled(run, resume)
        if run.status is RunStatus.PAUSED:
            return self._waits(run)
        return self._left(run, *await self.endings.give_up(item, run.message, run))

    def _left(self, run: Run, text: str, told: Told) -> Sequence[Write]:
        remembered, direct = self.memory.keep_answer(run, text, told)
        return [*self._over(run, RunStatus.STOPPED), remembered, *direct]

    def _over(self, run: Run, status: RunStatus) -> Sequence[Write]:
        """The run has ended, and whoever follows runs is told."""
        run.status, run.ended_ms = status, self._now_ms()
        self.ended(run)
        return self.runs.saved(run)

    def _id(self, message: Message) -> str:
        """The id of a message's run."""
        return self.keys.derived("R", self.keys.partition(message.place.conversation), message.id)

    def _settled(self, run: Run, resume: Resume) -> bool:
        """How the call ended is in the run; False if it was already. Whatever is away from here on is news again."""
        if not self.loop.settle(run.trace, resume.uid, resume.status, resume.observation, resume.privacy):
            return False
        run.status, run.ask, run.proposal, run.told_down = RunStatus.RUNNING, None, None, False
        run.effects += [resume.effect] if resume.effect else []
        return True

    async def _not_served(self, lease: Lease, message: Message) -> Sequence[Write]:
        """Guests are told so where it disturbs nobody else."""
        person = await self.directory.get(message.person)
        if person is not None and message.place.direct:
            await self._say(lease, message, say("turn.stranger", person.language), key="stranger")
        return [self._noted(message, "message.ignored", text="not a member who can be served")]

    async def _plain(self, lease: Lease, message: Message, caller: Caller) -> Sequence[Write] | None:
        """Commands, and messages that no model needs to see."""
        language = caller.person.language
        if (answer := await self.commands.answer(message, caller)) is not None:
            await self._say(lease, message, answer.text, key="command")
            return [*answer.writes, self._noted(message, "command", text=answer.command)]
        if message.unread:
            return await self._too_long(lease, message, message.unread, language)
        if not message.text.strip():
            await self._say(lease, message, say("turn.empty", language), key="empty")
            return [self._noted(message, "message.empty")]
        if len(message.text) > TEXT_MAX:
            return await self._too_long(lease, message, len(message.text), language)
        return None

    async def _too_long(self, lease: Lease, message: Message, length: int, language: str) -> Sequence[Write]:
        text = say("turn.too_long", language, length=length, most=TEXT_MAX)
        await self._say(lease, message, text, key="long")
        return [self._noted(message, "message.too_long")]

    async def _opened(self, lease: Lease, message: Message, caller: Caller) -> Passage:
        """The message's run: a new one, or, if the message was begun before, the one that was left."""
        run_id = self._id(message)
        today, again = self._today(message.person), lease.item.again
        recalled = await self.runs.recall(lease.lane, self.history, run_id if again else "", today)
        if recalled.run is not None:
            return Passage(lease, recalled.run, caller, recalled)
        person = caller.person
        run = Run(
            id=run_id,
            message=message,
            language=person.language,
            timezone=person.timezone,
            created_ms=self._now_ms(),
        )
        run.trace.privacy = Privacy.PUBLIC  # it has seen nothing but the conversation
        await self.loop.starts.refresh(self.desk.engine)
        run.trace.offered = self.loop.offers.choose(message.text, Recent(recalled.history))
        run.trace.add(prompt.message(caller, message.text, self._local(caller)))
        return Passage(lease, run, caller, recalled)

    async def _through(self, passage: Passage) -> Sequence[Write]:
        """The loop, event by event; before it, whatever a crash has left half done."""
        run, lease = passage.run, passage.lease
        if passage.again:
            await self.steps.flush(run, again=True)
        if run.status is RunStatus.PAUSED:
            return self._waits(run)
        if run.last is not None:
            return await self._ended(passage, run.last, None)
        use = Use(self.desk, passage.caller, self._local(passage.caller))
        head, grounds = await self._head(passage)
        share = self.budget.share(passage.recalled.used.tokens, passage.recalled.used.cost, run.trace)
        screen = partial(self.duplicates.refuse, passage.recalled.waiting, run)
        running = self.loop.run(run.id, head, run.trace, use, lease.stopped, grounds, share, screen)
        try:
            async with contextlib.aclosing(running) as events:
                async for event in events:
                    match event:
                        case Stepped(steps):
                            await self._step(passage, steps)
                        case Paused():
                            return await self._pause(passage, event)
                        case Final(text, unverified, overclaims):
                            last = Last(text=text, unverified=unverified, overclaims=overclaims)
                            return await self._end(passage, last)
                        case Stopped(reason, said):
                            text = stop(run, reason, self.spending.renewed().astimezone(passage.caller.person.zone))
                            return await self._end(passage, Last(text=text, stopped=reason.value, said=said))
        except ModelDown as down:
            await self._down(passage, down)
            wait_ms = min(max(self.down_ms, int(down.wait_s * 1000)), DOWN_MAX_MS)
            raise Later(wait_ms, str(down)) from down
        raise AssertionError("the loop ends with a final, a pause or a stop")

    async def _head(self, passage: Passage) -> tuple[list[str], Grounds]:
        """All that precedes this run's own messages, what changes last: as JSON, in few pieces, because that is what
        every step sends. And what of it an answer may rest on."""
        run, caller, recalled = passage.run, passage.caller, passage.recalled
        cards = [one for one in recalled.waiting if _is_theirs(one, run)]
        now = Situation(
            caller, self._local(caller), self._now_ms(), self.desk.calendar, run.message.place.direct, cards
        )
        manager = await self.directory.get(caller.person.manager) if caller.person.manager else None
        facts, style = prompt.facts(caller.person, manager), self.loop.style(run.trace)
        sent = recalled.history.unfolded(without=run.id)
        history = write_history(sent, style)
        theirs = [prompt.tools(cards_of)] if (cards_of := self.loop.told(run.trace)) else []
        rules = prompt.system(self.loop.manual(run.trace), self.house)
        before, behind = (prompt.write_all(some) for some in ([rules, *theirs, facts], now.messages))
        told = [self.house, *now.told, facts["content"]]
        grounds = Grounds(told, list_sources(sent), self.directory.everyone, has_card=bool(cards), days=now.days)
        return [*before, *([",".join(history)] if history else []), *behind], grounds

    async def _step(self, passage: Passage, steps: Sequence[Step]) -> None:
        """Kept before it is shown: after a crash in between nobody is asked, and nothing looked up, once more."""
        run = passage.run
        await self.door.quiet()
        self.steps.add(run, steps)
        told = [write for step in steps for write in self._told(run, step)]
        kept = await self._checkpoint(passage, f"step:{run.trace.steps}", *told, slot=self.steps.slot(run), most_ms=0)
        await self.steps.show(run, again=passage.again, wait_ms=kept.wait_ms)

    async def _pause(self, passage: Passage, event: Paused) -> Sequence[Write]:
        """The card is brought by its own lane, so that a crash right here cannot lose it."""
        run, place = passage.run, passage.run.message.place
        here = await self.telling.may_stand(place, Privacy.PRIVATE)
        run.ask = ask_for(self.keys, run, event.call, event.plan, event.gate, here=here)
        index = run.trace.calls.index(event.call)
        run.trace.calls[index] = replace(event.call, approval=run.ask.approval)
        run.status = RunStatus.PAUSED
        text = describe_plan(event.plan, passage.caller.person)
        run.proposal = Proposal(text=text, made_ms=self._now_ms())
        if not here and event.gate is Gate.CONFIRM:
            run.direct = await self.telling.chat.direct(run.message.person)
        await self._step(passage, event.steps)
        await self.steps.flush(run, again=passage.again)
        await self._say_whose(passage, run.ask)
        return self._waits(run)

    async def _say_whose(self, passage: Passage, ask: Ask) -> None:
        """Who asks is told where the card is, if it does not come to this very place and no step says so."""
        run, stand_ins = passage.run, self.desk.engine.stand_ins
        deputies = await stand_ins(ask.plan.subject, self.today()) if ask.gate is Gate.APPROVE else ()
        theirs, quiet = run.message.person in (*ask.plan.deciders, *deputies), self.steps.display == "quiet"
        await self.endings.say_whose(run, ask, theirs=theirs, quiet=quiet, again=passage.again)

    def _waits(self, run: Run) -> Sequence[Write]:
        """What ends the message of a paused run: the card's item, and what conversations remember meanwhile."""
        ask = run.ask
        if ask is None:
            return []
        remembered = self.memory.keep_waiting(run)
        put = Put(ask.approval, f"open:{run.id}:{len(run.trace.calls)}", ask.model_dump_json())
        return [*self.runs.saved(run), *remembered, put]

    async def _end(self, passage: Passage, last: Last) -> Sequence[Write]:
        """The last word is kept before it is said: after a crash in between the model is not asked for another one."""
        run = passage.run
        run.last = last
        kept = await self._checkpoint(passage, "end", slot=self.telling.chat.slot(run.message.place))
        return await self._ended(passage, last, kept.wait_ms)

    async def _ended(self, passage: Passage, last: Last, wait_ms: int | None) -> Sequence[Write]:
        run = passage.run
        await self.steps.flush(run, again=passage.again)
        told = await self.endings.say_last(run, last, again=passage.again, wait_ms=wait_ms)
        remembered, direct = self.memory.keep_answer(run, last.text, told)
        return [
            *self._over(run, RunStatus.STOPPED if last.stopped else RunStatus.DONE),
            remembered,
            *direct,
            *folding.wanted(self.history, passage.recalled.history, remembered, run),
            self._noted(
                run.message,
                "run.stopped" if last.stopped else "run.finished",
                run=run.id,
                text=receipt(run),
                **({"why": last.stopped} if last.stopped else {}),
                **({"said": last.said} if last.said else {}),
                **figures(run.trace),
            ),
        ]

    async def _down(self, passage: Passage, down: ModelDown) -> None:
        """The message stays queued; its writer is told, once, and so is the journal, which says why."""
        run, noted = passage.run, list[Write]()
        if not run.told_down:
            why = "model_unfit" if down.cause in NEEDS_ADMINISTRATOR else "model_down"
            text = say(f"turn.{why}", run.language)
            await self._say(passage.lease, run.message, text, key=f"down:{len(run.trace.calls)}")
            run.told_down = True
            noted = [self._noted(run.message, "model.down", run=run.id, why=down.cause.value, said=str(down))]
        await self._checkpoint(passage, f"down:{passage.lease.token}", *noted)

    async def _checkpoint(
        self, passage: Passage, seq: str, *more: Write, slot: Slot | None = None, most_ms: int | None = None
    ) -> Kept:
        """Keeps the run as it is, and counts in the same breath what it has cost since the last time."""
        run, lease = passage.run, passage.lease
        counted = self.spending.counts(lease.lane, run.message.person, run.trace.uncounted, begun=run.trace.begun)
        kept = await lease.checkpoint(seq, *self.runs.saved(run), *counted, *more, slot=slot, most_ms=most_ms)
        run.trace.uncounted.clear()
        run.stored = len(run.trace.messages) if run.status is RunStatus.RUNNING else 0
        return kept

    async def _say(self, lease: Lease, message: Message, text: str, *, key: str) -> None:
        """Words of our own, which tell nothing of anybody."""
        key = f"{message.id}:{key}"
        await self.telling.tell(message.place, message.person, Post(text), key=key, again=lease.item.again)

    def _told(self, run: Run, step: Step) -> list[Write]:
        """The journal's line; and the picture, if it is about one, in the same lane: it comes after the answer."""
        call, message = step.call, run.message
        failed = {"error": step.error, "why": step.why} if step.error else {}
        status = call.status.value
        noted = self._noted(message, "step", run=run.id, text=call.reason, tool=call.tool, status=status, **failed)
        if not pictures.wanted(call):
            return [noted]
        draw = Draw(person=message.person, place=message.place, name=str(call.args["name"]))
        return [noted, Put(message.place.conversation, f"draw:{call.uid}", draw.model_dump_json())]

    def _noted(self, message: Message, kind: str, *, run: str = "", text: str = "", **more: Any) -> Write:
        place = message.place
        return self.journal.entry(
            place.conversation, kind, run=run, person=message.person, channel=place.channel, text=text, **more
        )

    def _today(self, person: str) -> Today | None:
        """What somebody has used today, if that matters."""
        return self.spending.today(person, self.loop.prices.currency) if self.budget else None

    def _local(self, caller: Caller) -> datetime:
        return self.today().astimezone(ZoneInfo(caller.person.timezone))

    def _now_ms(self) -> int:
        return int(self.now().timestamp() * 1000)


def _is_theirs(one: Waiting, run: Run) -> bool:
    """True for a card that the run's person waits for, from another run."""
    theirs = one.person == run.message.person if one.person else run.message.place.direct
    return theirs and one.run != run.id


def _going(run: Run | None) -> Run | None:
    """A run, if it has not ended."""
    return run if run is not None and run.status in (RunStatus.RUNNING, RunStatus.PAUSED) else None
