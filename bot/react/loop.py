"""Think → act → observe. Knows no platform and no Redis.

`Loop.run` yields `Stepped` after every reply that acted, and ends with exactly one of `Final`, `Paused`, `Stopped`.
Whatever it needs to go on in another process is in the `Trace`, which the caller stores after each event.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from bot import logs
from bot.cancel import Interrupted, Stop, interrupt
from bot.errors import CountersignError, ModelDown, ModelRefused
from bot.react.asking import ask
from bot.react.decision import REPLY_MAX, Act, Answer, Decision, Malformed, Withheld
from bot.react.grounding.correction import Wrong, asks_to_call, read_correction, request, shown
from bot.react.grounding.sources import Findings, Grounds
from bot.react.guards import Halt, Limits, Reason, Share
from bot.react.hands import Hands, Reads, Result, Screen, bounded, let_pass, written
from bot.react.imitations import cut_imitations
from bot.react.model import Model, Reply
from bot.react.prices import Prices
from bot.react.replaying import attach_all
from bot.react.selection import FIND, Offers
from bot.react.steps import Event, Final, Paused, Step, Stepped, Stopped, describe_step
from bot.react.style import Style
from bot.react.styles.native import Native
from bot.trace import DEEDS, Call, CallStatus, Trace, fingerprint
from tools.characters import show_invisible
from tools.privacy import privacy_of_result
from tools.spec import Outcome, Plan, Privacy, ToolError, most_private
from tools.starting import Starts
from tools.tool import Tool, Use

log = logs.get(__name__)

GUESSED = (
    "The call of {tool}, which has consequences, was not written as it should be. Write it again: "
    "the tool's exact name, its arguments as one valid JSON object, and nothing behind it."
)
IMITATED = "It was a record or an event, which only the system writes. Call the tool, or answer in your own words."
AGAIN = "You made this same call before, with this same result. Do something else or answer."
DOUBT = (
    "Part of that answer is not borne out, and the person has not got it yet. Call the tool that is missing, or answer "
    "without it. "
)


@dataclass(frozen=True, slots=True)
class Way:
    """What a run goes through the loop with."""

    run: str
    """Its id."""
    head: list[str]
    """Rules and history, as JSON: they precede the run's own messages."""
    trace: Trace
    use: Use
    grounds: Grounds
    share: Share = field(default_factory=Share)
    screen: Screen = let_pass
    reads: Reads = field(default_factory=Reads)


@dataclass(frozen=True, slots=True)
class Loop:
    model: Model
    tools: Sequence[Tool]
    """Our own."""
    limits: Limits = field(default_factory=Limits)
    clock: Callable[[], float] = field(default=lambda: asyncio.get_running_loop().time())
    """Seconds, monotonic."""
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    """Aware UTC: what replies and results are stamped with."""
    styles: Sequence[Style] = (Native(),)
    """The first is that of fresh runs; the others are known for runs that were begun in them."""
    passing: tuple[type[Exception], ...] = (CountersignError,)
    """What a tool may raise that ends the delivery and not the call: Redis is away, the lane is lost."""
    prices: Prices = field(default_factory=Prices)
    more: Mapping[str, Tool] = field(default_factory=dict)
    """Further tools by name, of servers: they come and go while we run."""
    most: int = 30
    """A run is offered so many of all; if there are more, those that go best with the conversation."""
    starts: Starts = field(default_factory=Starts)
    """The start tools of the processes: whoever begins a run has them refreshed."""
    hands: Hands = field(init=False, repr=False)
    offers: Offers = field(init=False, repr=False)

    def __post_init__(self) -> None:
        offers = Offers(self.tools, self.more, self.most, self.starts)
        object.__setattr__(self, "offers", offers)
        object.__setattr__(self, "hands", Hands((*self.tools, offers.finder), self.passing, self.more, self.starts))

    def style(self, trace: Trace) -> Style:
        """The style of a run: it ends in the one that it was begun in."""
        return next((style for style in self.styles if style.name == trace.style), self.styles[0])

    def manual(self, trace: Trace) -> str:
        """How a run's model is to reply."""
        return self.offers.sheet(self.style(trace), trace.offered).manual

    def told(self, trace: Trace) -> str:
        """What servers say of their tools, where the model is told it in a message."""
        return self.offers.sheet(self.style(trace), trace.offered).told

    async def run(
        self,
        run_id: str,
        head: Sequence[str],
        trace: Trace,
        use: Use,
        stopped: Stop,
        grounds: Grounds | None = None,
        share: Share | None = None,
        screen: Screen = let_pass,
    ) -> AsyncGenerator[Event, None]:
        """Goes on from `trace`; `head` (rules, history: as JSON) precedes the run's own messages; `grounds`: what an
        answer may rest on besides these; `share`: what is left of its person's day; `screen` looks at plans before
        they become cards. `ModelDown` passes through."""
        way = Way(run_id, list(head), trace, use, grounds or Grounds(), share or Share(), screen)
        try:
            while True:
                event = await self._step(way, stopped)
                yield event
                if not isinstance(event, Stepped):
                    return
        except Halt as halt:
            yield Stopped(halt.reason)
        except ModelRefused as error:
            log.warning("model.refused", error=str(error))
            yield Stopped(Reason.REFUSED, str(error))

    async def _step(self, way: Way, stopped: Stop) -> Event:
        trace = way.trace
        if stopped.is_set():
            raise Halt(Reason.USER)
        self.limits.check(trace)
        began, left = self.clock(), self.limits.left_s(trace)
        try:
            with _unless(stopped, left):
                decision = await self._think(way)
                grounded = decision if isinstance(decision, Act) else await self._grounded(way, decision)
                if isinstance(grounded, Act):
                    return await self._act(way, grounded)
            trace.add({"role": "assistant", "content": grounded.text})
            return grounded
        except ModelDown as down:
            began = self.clock()  # waiting for an endpoint that is away is not running time
            self.limits.count_late(trace, down.cause)
            raise
        finally:
            trace.active_ms += int((self.clock() - began) * 1000)

    async def _think(self, way: Way, *more: str) -> Act | Answer:
        """One usable decision. A malformed reply and what was wrong with it are told in this request only, never
        stored; so is `more`."""
        wrong: list[str] = []
        for _ in range(self.limits.format_retries + 1):
            decision = await self._ask(way, [*more, *wrong])
            if isinstance(decision, Withheld):
                raise Halt(Reason.FILTERED)
            if not isinstance(decision, Malformed):
                return decision
            if wrong and decision.prose:  # told once how to answer, and words again: they are the answer
                return Answer(decision.prose)
            way.trace.malformed += 1
            wrong = [_told(f"Your last reply could not be used: {decision.problem}")]
            if decision.reply:
                wrong.insert(0, json.dumps({"role": "assistant", "content": decision.reply}, ensure_ascii=False))
        raise Halt(Reason.MALFORMED)

    async def _grounded(self, way: Way, answer: Answer) -> Act | Final:
        """An answer, once it was seen what it rests on. The model is told once a run what rests on nothing, and once
        what was not done; what it then still says goes out marked. If it can say no more, its first answer does."""
        trace, today = way.trace, way.use.now.date()
        answer = Answer(show_invisible(answer.text))
        found = await way.grounds.check(answer.text, trace, today)
        if _is_held_up(trace, found):
            trace.doubted = True
            if found.deeds:
                trace.seen[DEEDS] = 1
            with suppress(Halt, ModelRefused):
                better = await self._corrected(way, answer, Wrong(found.figures.unsupported, found.deeds))
                if isinstance(better, Act):
                    return better
                answer = Answer(show_invisible(better.text))
                found = await way.grounds.check(answer.text, trace, today)
        return self._final(trace, answer, found)

    def _final(self, trace: Trace, answer: Answer, found: Findings) -> Final:
        figures = found.figures
        trace.claimed, trace.supported = figures.claimed, figures.claimed - len(figures.unsupported)
        return Final(answer.text, tuple(shown(figures.unsupported)), bool(found.deeds))

    async def _corrected(self, way: Way, answer: Answer, wrong: Wrong) -> Act | Answer:
        """The answer as the model corrects it. It is asked in a short request without tools; if it wants to call one,
        in a whole one. Raises `Halt`, `ModelRefused`."""
        trace, style = way.trace, self.style(way.trace)
        reply, at_ms, ms = await self._reply(way, [], request(answer.text, wrong, way.grounds.receipts(trace)), "")
        trace.heard(self.prices.spent(reply), at_ms, ms, "correction")
        sheet = self.offers.sheet(style, trace.offered)
        decision = style.decide(reply, sheet.known, most=self.limits.calls_per_reply)
        text = cut_imitations(read_correction(decision))
        if isinstance(decision, Act) or asks_to_call(text):
            doubted = _doubted(answer, wrong)
            better = await self._think(way, *doubted)
            if isinstance(better, Act) or not (deeds := await self._false_deeds(way, better)):
                return better
            # It wanted to call, and has only said so again.
            return await self._think(way, *doubted, *_doubted(better, Wrong(deeds=deeds)))
        return Answer(text) if text else answer

    async def _false_deeds(self, way: Way, answer: Answer) -> Sequence[str]:
        return (await way.grounds.check(answer.text, way.trace, way.use.now.date())).deeds

    async def _ask(self, way: Way, more: Sequence[str]) -> Decision:
        """What the next reply asks for, given `more` behind all that the run has come to."""
        trace = way.trace
        style = self.style(trace)
        sheet = self.offers.sheet(style, trace.offered)
        own = [*attach_all(trace.messages, trace.kept), *more]
        reply, at_ms, ms = await self._reply(way, way.head, own, sheet.body)
        trace.style = style.name
        decision = _own_words(self._sure(style.decide(reply, sheet.known, most=self.limits.calls_per_reply)))
        if isinstance(decision, Malformed):
            decision = replace(decision, reply=_repeat(reply))
        trace.heard(self.prices.spent(reply), at_ms, ms, decision.did)
        return replace(decision, kept=reply.kept) if isinstance(decision, Act) and reply.kept else decision

    async def _reply(self, way: Way, head: list[str], own: Sequence[str], body: str) -> tuple[Reply, int, int]:
        """A reply, when it was asked for (epoch ms), and how long it took (ms). Raises `Halt`."""
        left = min(self.limits.reply_s, self.limits.left_s(way.trace))
        self.limits.check_tokens(way.trace)
        way.share.check(way.trace)
        at_ms, began = self._now_ms(), self.clock()
        reply = await ask(self.model, head, own, body, timeout_s=max(left, 1.0))
        return reply, at_ms, int((self.clock() - began) * 1000)

    def _sure(self, decision: Decision) -> Decision:
        """What had to be guessed may look things up; nobody is asked to confirm it."""
        if isinstance(decision, Act):
            for call in decision.proposed:
                if call.repaired and self.hands.gated(call.tool):
                    return Malformed(GUESSED.format(tool=call.tool))
        return decision

    async def _act(self, way: Way, act: Act) -> Event:
        """Runs what only reads, all at once; holds the first gated call for its button; refuses further ones."""
        trace = way.trace
        if trace.called + len(act.proposed) > self.limits.calls:
            raise Halt(Reason.CALLS)
        trace.steps += 1
        uids = [f"{way.run}:{trace.steps}:{index}" for index in range(len(act.proposed))]
        gated = next((i for i, one in enumerate(act.proposed) if self.hands.gated(one.tool)), None)
        offered = self.offers.names(trace.offered)
        calls = [
            self._timed(
                self.hands.call(
                    way.use, way.reads, uid, one, held=gated not in (None, i), offered=offered, screen=way.screen
                )
            )
            for i, (uid, one) in enumerate(zip(uids, act.proposed, strict=True))
        ]
        results = await asyncio.gather(*calls) if len(calls) > 1 else [await calls[0]]
        return self._observed(trace, act, results, way.use.caller.id)

    async def _timed(self, calling: Awaitable[tuple[Call, Result]]) -> tuple[Call, Result]:
        call, result = await calling
        return (call if isinstance(result, Plan) else replace(call, ended_ms=self._now_ms())), result

    def _now_ms(self) -> int:
        return int(self.now().timestamp() * 1000)

    def _observed(self, trace: Trace, act: Act, results: Sequence[tuple[Call, Result]], caller: str) -> Event:
        """The reply and every result of it go into the trace together, also when one of them ends the run."""
        trace.add(self.style(trace).asked(act), act.kept)
        self._bring(trace, results)
        steps = tuple(self._step_of(trace, call, one, caller) for call, one in results)
        paused, halt, made = list[Paused](), list[Halt](), list[str]()
        for call, result in results:
            trace.called += 1
            trace.calls.append(call)
            tool = self.hands.tool(call.tool)
            if isinstance(result, Plan) and tool is not None:
                paused.append(Paused(call, result, tool.gate, steps))
            elif not isinstance(result, Plan):
                observation = written(result, self.hands.advise(tool, result))
                made.append(fingerprint(call.tool, {"args": call.args, "result": observation})[:16])
                halt += self._observe(trace, call, result, observation, made[-1])
        halt += _halted(lambda: self.limits.circling(trace, "" if paused else " ".join(made)))
        if not halt and not paused and any(trace.seen[one] == self.limits.same - 1 for one in made):
            trace.add({"role": "system", "content": AGAIN})
        if halt:
            for one in paused:
                self.settle(trace, one.call.uid, CallStatus.DENIED, {"error": "stopped"})
            raise halt[0]
        return paused[0] if paused else Stepped(steps)

    def _step_of(self, trace: Trace, call: Call, result: Result, caller: str) -> Step:
        """A call for people. The run has seen what it has come to, so what it says from now on is as private."""
        privacy = most_private(trace.privacy, privacy_of_result(self.hands.tool(call.tool), result))
        step = replace(describe_step(call, result, caller), privacy=privacy)
        trace.privacy = privacy
        return step

    def _bring(self, trace: Trace, results: Sequence[tuple[Call, Result]]) -> None:
        """What was found is offered from now on, and what was called without having been."""
        if names := [name for call, result in results for name in _brought(call, result)]:
            trace.offered = self.offers.brought(names, trace.offered)

    def _observe(
        self, trace: Trace, call: Call, result: Outcome | ToolError, observation: str, made: str
    ) -> list[Halt]:
        """Writes the observation down and counts failures and repetition; what ends the run is given back. `made`:
        fingerprint of call and result."""
        trace.failures = trace.failures + 1 if isinstance(result, ToolError) else 0
        trace.add(self.style(trace).observed(call.model_id, observation))
        return _halted(lambda: self.limits.count(trace, made))

    def settle(
        self,
        trace: Trace,
        uid: str,
        status: CallStatus,
        observation: dict[str, Any],
        privacy: Privacy = Privacy.PUBLIC,
    ) -> bool:
        """Writes down how a gated call ended; False if it does not wait (any more). `privacy`: of the observation."""
        for index, call in enumerate(trace.calls):
            if call.uid == uid and call.status is CallStatus.AWAITING:
                trace.calls[index] = replace(call, status=status, ended_ms=self._now_ms())
                trace.add(self.style(trace).observed(call.model_id, bounded(observation)))
                trace.privacy = most_private(trace.privacy, privacy)
                trace.failures = 0
                return True
        return False


def _brought(call: Call, result: Result) -> Sequence[str]:
    if call.tool == FIND and isinstance(result, Outcome):
        return [one["name"] for one in result.data["tools"]]
    return [call.tool] if isinstance(result, ToolError) and result.code in ("not_offered", "bad_arguments") else []


def _halted(check: Callable[[], None]) -> list[Halt]:
    """What a check ends the run for: everything that the reply brought is written down first."""
    try:
        check()
    except Halt as halt:
        return [halt]
    return []


def _is_held_up(trace: Trace, found: Findings) -> bool:
    """Whether the model is told: once of figures, and once of deeds also after those."""
    return bool(found) and (not trace.doubted or (bool(found.deeds) and DEEDS not in trace.seen))


def _own_words(decision: Decision) -> Decision:
    """An answer without what only code writes. One that is nothing else is none."""
    if isinstance(decision, Malformed) and decision.prose:
        return replace(decision, prose=cut_imitations(decision.prose))
    if not isinstance(decision, Answer):
        return decision
    text = cut_imitations(decision.text)
    return Answer(text) if text.strip() else Malformed(IMITATED)


def _repeat(reply: Reply) -> str:
    """What the model wrote, for it to see again: its words, and its calls as text, which no endpoint checks."""
    calls = (f"{call.name}({call.arguments})" for call in reply.calls)
    return show_invisible("\n".join(filter(None, (reply.text.strip(), *calls)))[:REPLY_MAX])


def _told(text: str) -> str:
    """A note of the loop itself."""
    return json.dumps({"role": "system", "content": text}, ensure_ascii=False)


def _doubted(answer: Answer, wrong: Wrong) -> tuple[str, str]:
    """What the model has said, and what of it is not borne out."""
    said = json.dumps({"role": "assistant", "content": answer.text}, ensure_ascii=False)
    return said, _told(DOUBT + wrong.told())


@contextmanager
def _unless(stopped: Stop, left_s: float) -> Iterator[None]:
    """Raises `Halt` within as soon as somebody says stop or the time is up."""
    try:
        with interrupt(stopped, left_s):
            yield
    except Interrupted:
        raise Halt(Reason.USER if stopped.is_set() else Reason.TIME) from None
