"""One message through.

`Turns.message` is the whole way of a message, top to bottom: who is it → is it a plain command → the loop, step by
step, each step shown and stored → an answer with its receipt, or a card and a pause. `Turns.resume` goes on after a
button. Both return the writes of the one commit that pops the item; whatever dies before that is done again by
another process, from the last checkpoint.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from bot.commands import Commands
from bot.errors import ChatFailed, ModelDown
from bot.events import Channel, Directory, Message, Post
from bot.logs import bind
from bot.react import prompt
from bot.react.loop import Final, Loop, Paused, Step, Stepped, Stopped, settle
from bot.records import Last, Resume, Run, RunStatus
from bot.show import Steps, receipt
from bot.store.approvals import ask_for
from bot.store.history import History
from bot.store.journal import Journal
from bot.store.keys import Keys
from bot.store.lanes import Item, Later, Lease
from bot.store.runs import Runs
from bot.store.writes import Put, Write
from bot.texts import say
from tools.names import language_of
from tools.spec import Caller
from tools.tool import Desk, Use

TEXT_MAX = 12_000
"""Characters of one message that are read."""


@dataclass(frozen=True, slots=True)
class Turns:
    chat: Channel
    directory: Directory
    desk: Desk
    loop: Loop
    commands: Commands
    steps: Steps
    keys: Keys
    runs: Runs
    history: History
    journal: Journal
    today: Callable[[], datetime]
    """Aware UTC: the day that people mean."""
    now: Callable[[], datetime]
    """Aware UTC."""
    down_ms: int = 5_000
    """How long a message waits before an unreachable model is tried again."""

    async def message(self, lease: Lease, message: Message) -> Sequence[Write]:
        """From what a person wrote to the writes that end it. Raises `Later` while the model is down."""
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
        run = await self._going(resume.run)
        if run is None:
            return []
        bind(run=run.id)
        stored, fresh = len(run.trace.messages), self._settled(run, resume)
        caller = await self.directory.caller(run.message.person)
        if caller is None:
            run.status = RunStatus.STOPPED
            noted = self._noted(run.message, "run.stopped", run=run.id, text="its person is not a member any more")
            return [*self.runs.saved(run, stored=stored), noted]
        passage = Passage(lease, run, caller, stored=stored)
        if fresh:
            await self._checkpoint(passage, f"resume:{resume.uid}")
        return await self._through(passage)

    async def give_up(self, item: Item, message: Message) -> Sequence[Write]:
        """A message that failed every time. A card that was proposed is still brought; otherwise its writer is told."""
        run = await self.runs.get(self._id(message))
        if run is not None and run.status is RunStatus.PAUSED:
            return self._waits(run, len(run.trace.messages))
        text = await self._given_up(item, message, run)
        return self._left(run, text, len(run.trace.messages)) if run else []

    async def give_up_resuming(self, item: Item, resume: Resume) -> Sequence[Write]:
        """The same after a button: what it changed is said, whatever else could not be."""
        run = await self._going(resume.run)
        if run is None:
            return []
        stored = len(run.trace.messages)
        self._settled(run, resume)
        if run.status is RunStatus.PAUSED:
            return self._waits(run, stored)
        return self._left(run, await self._given_up(item, run.message, run), stored)

    def _left(self, run: Run, text: str, stored: int) -> Sequence[Write]:
        run.status = RunStatus.STOPPED
        return [*self.runs.saved(run, stored=stored), self._remembered(run, text)]

    async def _given_up(self, item: Item, message: Message, run: Run | None) -> str:
        """What was said: where it was asked, or, if nothing can be said there, in their DM."""
        text = say("turn.given_up", await language_of(self.directory, message.person), id=item.id)
        text = run.last.text if run is not None and run.last is not None else text
        post, key = Post(text, receipt=receipt(run) if run else ""), f"dead:{item.id}"
        try:
            await self.chat.post(message.place, post, key=key, again=True)
        except ChatFailed:
            await self.chat.post(await self.chat.direct(message.person), post, key=key, again=True)
        return text

    def _id(self, message: Message) -> str:
        """The id of a message's run."""
        return self.keys.derived("R", self.keys.partition(message.place.conversation), message.id)

    async def _going(self, run_id: str) -> Run | None:
        """A run that has not ended."""
        run = await self.runs.get(run_id)
        return run if run is not None and run.status in (RunStatus.RUNNING, RunStatus.PAUSED) else None

    def _settled(self, run: Run, resume: Resume) -> bool:
        """How the call ended is in the run; False if it was already. Whatever is away from here on is news again."""
        if not settle(run.trace, resume.uid, resume.status, resume.observation):
            return False
        run.status, run.ask, run.told_down = RunStatus.RUNNING, None, False
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
        if not message.text.strip():
            await self._say(lease, message, say("turn.empty", language), key="empty")
            return [self._noted(message, "message.empty")]
        if len(message.text) > TEXT_MAX:
            text = say("turn.too_long", language, length=len(message.text), most=TEXT_MAX)
            await self._say(lease, message, text, key="long")
            return [self._noted(message, "message.too_long")]
        return None

    async def _opened(self, lease: Lease, message: Message, caller: Caller) -> Passage:
        """The message's run: a new one, or the one another process had begun."""
        run_id = self._id(message)
        if (run := await self.runs.get(run_id)) is not None:
            return Passage(lease, run, caller, stored=len(run.trace.messages))
        run = Run(id=run_id, message=message, language=caller.person.language, created_ms=self._now_ms())
        run.trace.messages.append(prompt.message(caller, message.text))
        return Passage(lease, run, caller, stored=0)

    async def _through(self, passage: Passage) -> Sequence[Write]:
        """The loop, event by event; before it, whatever a crash has left half done."""
        run, lease = passage.run, passage.lease
        if passage.again:
            await self.steps.flush(run, again=True)
        if run.status is RunStatus.PAUSED:
            return self._waits(run, passage.stored)
        if run.last is not None:
            return await self._ended(passage, run.last)
        use = Use(self.desk, passage.caller, self._local(passage.caller))
        head = await self._head(passage.caller, run)
        try:
            async with contextlib.aclosing(self.loop.run(run.id, head, run.trace, use, lease.stopped)) as events:
                async for event in events:
                    match event:
                        case Stepped(steps):
                            await self._step(passage, steps)
                        case Paused():
                            return await self._pause(passage, event)
                        case Final(text):
                            return await self._end(passage, Last(text=text))
                        case Stopped(reason):
                            text = say(f"stopped.{reason.value}", run.language)
                            return await self._end(passage, Last(text=text, stopped=reason.value))
        except ModelDown as down:
            await self._down(passage)
            raise Later(self.down_ms, str(down)) from down
        raise AssertionError("the loop ends with a final, a pause or a stop")

    async def _head(self, caller: Caller, run: Run) -> list[dict[str, Any]]:
        """Rules, day and person, then the conversation so far, without this run's own part of it."""
        conversation = run.message.place.conversation
        paused = [other for other in await self.runs.paused(conversation) if other.id != run.id]
        told = [
            {"role": entry["role"], "content": entry["content"]}
            for entry in await self.history.load(conversation)
            if entry.get("run") != run.id
        ]
        return [prompt.system(caller, self._local(caller), paused), *told]

    async def _step(self, passage: Passage, steps: Sequence[Step]) -> None:
        """Kept before it is shown: after a crash in between nobody is asked, and nothing looked up, once more."""
        run = passage.run
        self.steps.add(run, steps)
        await self._checkpoint(passage, f"step:{run.trace.steps}", *(self._journalled(run, step) for step in steps))
        await self.steps.show(run, again=passage.again)

    async def _pause(self, passage: Passage, event: Paused) -> Sequence[Write]:
        """The card is brought by its own lane, so that a crash right here cannot lose it."""
        run = passage.run
        run.ask = ask_for(self.keys, run, event.call, event.plan, event.gate)
        index = run.trace.calls.index(event.call)
        run.trace.calls[index] = event.call.model_copy(update={"approval": run.ask.approval})
        run.status = RunStatus.PAUSED
        await self._step(passage, event.steps)
        await self.steps.flush(run, again=passage.again)
        return self._waits(run, passage.stored)

    def _waits(self, run: Run, stored: int) -> Sequence[Write]:
        """What ends the message of a paused run: the card's item, and what the conversation remembers meanwhile."""
        ask = run.ask
        if ask is None:
            return []
        remembered = [] if run.remembered else [self._awaited(run, ask.tool)]
        run.remembered = True
        put = Put(ask.approval, f"open:{run.id}:{len(run.trace.calls)}", ask.model_dump_json())
        return [*self.runs.saved(run, stored=stored), *remembered, put]

    async def _end(self, passage: Passage, last: Last) -> Sequence[Write]:
        """The last word is kept before it is said: after a crash in between the model is not asked for another one."""
        passage.run.last = last
        await self._checkpoint(passage, "end")
        return await self._ended(passage, last)

    async def _ended(self, passage: Passage, last: Last) -> Sequence[Write]:
        run = passage.run
        await self.steps.flush(run, again=passage.again)
        post = Post(last.text, receipt=receipt(run))
        await self.chat.post(run.message.place, post, key=f"{run.id}:final", again=passage.again)
        run.status = RunStatus.STOPPED if last.stopped else RunStatus.DONE
        spent = {
            "steps": run.trace.steps,
            "ms": run.trace.active_ms,
            "tokens_in": run.trace.tokens_in,
            "tokens_out": run.trace.tokens_out,
            "malformed": run.trace.malformed,
        }
        return [
            *self.runs.saved(run, stored=passage.stored),
            self._remembered(run, last.text),
            self._noted(
                run.message,
                "run.stopped" if last.stopped else "run.finished",
                run=run.id,
                text=receipt(run),
                **({"why": last.stopped} if last.stopped else {}),
                **spent,
            ),
        ]

    def _remembered(self, run: Run, text: str) -> Write:
        """What the conversation keeps of a run that has ended: what was asked, what was said, what was changed."""
        told = [] if run.remembered else [self._asked(run)]
        turn = [*told, {"role": "assistant", "content": f"{text}\n[{receipt(run)}]", "run": run.id}]
        return self.history.turn(run.message.place.conversation, turn)

    async def _down(self, passage: Passage) -> None:
        """The message stays queued; its writer is told, once, and so is the journal."""
        run, noted = passage.run, list[Write]()
        if not run.told_down:
            text = say("turn.model_down", run.language)
            await self._say(passage.lease, run.message, text, key=f"down:{len(run.trace.calls)}")
            run.told_down = True
            noted = [self._noted(run.message, "model.down", run=run.id)]
        await self._checkpoint(passage, f"down:{passage.lease.token}", *noted)

    async def _checkpoint(self, passage: Passage, seq: str, *more: Write) -> None:
        run = passage.run
        await passage.lease.checkpoint(seq, *self.runs.saved(run, stored=passage.stored), *more)
        passage.stored = len(run.trace.messages)

    async def _say(self, lease: Lease, message: Message, text: str, *, key: str) -> None:
        await self.chat.post(message.place, Post(text), key=f"{message.id}:{key}", again=lease.item.again)

    def _awaited(self, run: Run, tool: str) -> Write:
        """What the conversation keeps of a run while its card waits."""
        waits = {"role": "assistant", "content": f"[waiting for a button: {tool}]", "run": run.id, "said": ""}
        return self.history.turn(run.message.place.conversation, [self._asked(run), waits])

    def _asked(self, run: Run) -> dict[str, Any]:
        """`content` is what the model reads, `said` what the person wrote."""
        return {**run.trace.messages[0], "run": run.id, "said": run.message.text}

    def _journalled(self, run: Run, step: Step) -> Write:
        call = step.call
        return self._noted(run.message, "step", run=run.id, text=call.reason, tool=call.tool, status=call.status.value)

    def _noted(self, message: Message, kind: str, *, run: str = "", text: str = "", **more: Any) -> Write:
        place = message.place
        return self.journal.entry(
            place.conversation, kind, run=run, person=message.person, channel=place.channel, text=text, **more
        )

    def _local(self, caller: Caller) -> datetime:
        return self.today().astimezone(ZoneInfo(caller.person.timezone))

    def _now_ms(self) -> int:
        return int(self.now().timestamp() * 1000)


@dataclass(slots=True)
class Passage:
    """One run on its way through this process."""

    lease: Lease
    run: Run
    caller: Caller
    stored: int
    """How many of the run's messages Redis has already."""

    @property
    def again(self) -> bool:
        """Another process may have posted some of this already."""
        return self.lease.item.again
