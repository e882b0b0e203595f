"""How people see a run: its steps while it works, its receipt at the end.

Displays: `replies` (a threaded reply a step, merged while the platform's rate limit is near), `plan` (one live
message), `quiet` (nothing before the answer).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from bot.disclosure import Audience, decide_in_channel
from bot.events import Button, NamedPeople, Post, Slot
from bot.policy import ANEW
from bot.react.guards import Reason
from bot.react.steps import Step
from bot.records import Last, Run
from bot.telling import Telling
from bot.texts import literal, plain, say, sentences, tell_effect
from bot.trace import Trace
from tools.spec import Effect

Display = Literal["replies", "plan", "quiet"]

SUBJECT_MAX = 80
PLATFORM_ID = re.compile(r"[UW][A-Z0-9]{5,}")
"""Ids of people mean nothing to readers."""
REASON_MAX = 160
_GREETING = re.compile(
    r"(?:[\s,，.。!！~～、]|(?:你|您|大家)?好(?:的|呀|啊)?|早(?:上好|安)?|晚上好|下午好|在吗|嗨|谢+了?|多谢|辛苦了?|感谢|收到|明白了?|再见|拜拜"
    r"|hi|hello|hey|good (?:morning|afternoon|evening)|thanks?|thank you|thx|ok(?:ay)?|bye|there|so much|a lot"
    r"|[\U0001f300-\U0001faff\u2600-\u27bf\ufe0f])*+",
    re.IGNORECASE,
)
"""A message that wants nothing done."""
GREETING_MAX = 40
"""Characters of it."""


@dataclass(frozen=True, slots=True)
class Steps:
    telling: Telling
    display: Display = "replies"

    def add(self, run: Run, steps: Sequence[Step]) -> None:
        """Puts steps in words, as private as the conversation is; nothing is shown yet. What the model has only called
        in a wrong way is no step for people."""
        for step in steps:
            run.candidates = step.people
            if step.is_slip:
                continue
            audience = Audience.HERE if run.message.place.direct else decide_in_channel(step.privacy)
            run.lines.append(line(len(run.lines) + 1, step, run.language, audience))

    def slot(self, run: Run) -> Slot | None:
        """The rate that showing the next step keeps."""
        return self.telling.chat.slot(run.message.place) if self.display == "replies" else None

    async def show(self, run: Run, *, again: bool, wait_ms: int | None) -> None:
        """Shows what the display and the rate allow now. `wait_ms` None: no slot of the rate is free, so the lines wait
        for company."""
        if self.display == "plan":
            await self.flush(run, again=again)
        elif wait_ms is not None or self.slot(run) is None:
            await self.flush(run, again=again, wait_ms=wait_ms)

    async def flush(self, run: Run, *, again: bool, wait_ms: int | None = None) -> None:
        """Shows the lines that are held back: as one reply, or in the live message."""
        if self.display == "quiet" or run.posted == len(run.lines):
            return
        if not await self.telling.may_stand(run.message.place):
            run.posted = len(run.lines)
            return
        if self.display == "plan":
            await self._board(run, again=again)
            return
        text, key = "\n".join(run.lines[run.posted :]), f"{run.id}:line:{run.posted}"
        chat = self.telling.chat
        await chat.post(run.message.place, Post(text), key=key, again=again, wait_ms=wait_ms)
        run.posted = len(run.lines)

    async def _board(self, run: Run, *, again: bool) -> None:
        post, chat = Post("\n".join(run.lines)), self.telling.chat
        if run.board is None:
            run.board = await chat.post(run.message.place, post, key=f"{run.id}:board", again=again)
        else:
            await chat.edit(run.board, post)
        run.posted = len(run.lines)


def line(number: int, step: Step, language: str, audience: Audience = Audience.HERE) -> str:
    """One step in words: number, action, subject, result, and the model's stated reason. Where it may not stand, no
    more than the action; what is free text there is the reason."""
    result = literal(step.note, language)
    if audience is Audience.DM_WITH_POINTER:
        waits = f" {result}" if step.title is not None else ""
        action = _action(step.call.tool, language)
        return say("steps.line_private", language, number=number, action=action) + waits
    if step.title is not None:
        told = say("steps.line_waiting", language, number=number, title=literal(step.title, language), result=result)
    else:
        told = _read(number, step, result, language)
    reason = " ".join(step.call.reason.split())[:REASON_MAX] if audience is Audience.HERE else ""
    return f"{told}\n_{reason}_" if reason else told


def _read(number: int, step: Step, result: str, language: str) -> str:
    action = _action(step.call.tool, language)
    subject = _subject(step.call.args)
    key = "steps.line_about" if subject else "steps.line"
    return say(key, language, number=number, action=action, subject=subject, result=result)


def _action(tool: str, language: str) -> str:
    """What a call does, in words; of a server's tool, whose it is and what the server calls it."""
    if f"tool.{tool}" in sentences():
        return say(f"tool.{tool}", language)
    server, between, name = tool.partition("__")
    return say("steps.server", language, server=server, tool=name[:64]) if between else tool[:40]


def _subject(args: dict[str, Any]) -> str:
    """What the call is about, in the words of its own arguments."""
    for name in ("name", "person", "request_id", "task_id", "to"):
        value = args.get(name)
        if isinstance(value, str) and value.strip() and not PLATFORM_ID.fullmatch(value.strip()):
            return " ".join(value.split())[:SUBJECT_MAX]
    return ""


def ending(run: Run, last: Last, candidates: NamedPeople | None = None, *, in_channel: bool = False) -> Post:
    """The last word as people see it: what nothing supports is marked, and a stop can be tried again. `candidates`:
    those of whom the person is asked which one is meant. `in_channel`: its receipt is read by others too."""
    text = last.text
    if last.unverified:
        text += "\n\n" + say("evidence.unverified", run.language, what=" · ".join(last.unverified))
    anew = (Button(say("choice.retry", run.language), ANEW, run.id, 1),) if last.stopped else ()
    shown = "" if _is_small_talk(run, last) else receipt(run, in_channel=in_channel)
    return Post(text, receipt=shown, buttons=anew, people=candidates)


def _is_small_talk(run: Run, last: Last) -> bool:
    """True of an answer to a greeting for which nothing was looked up or done, and which does not say otherwise."""
    said = run.message.text.strip()
    nothing = not (run.trace.calls or run.effects or last.stopped or last.overclaims or last.unverified)
    return nothing and len(said) <= GREETING_MAX and _GREETING.fullmatch(said) is not None


def stop(run: Run, reason: Reason, renewed: datetime) -> str:
    """Why a run stops, what became of its matter, and what its person can do. `renewed`: when a day's budget begins
    anew, in their own time. Written by code: no model is asked for it."""
    undone = say("stopped.undone", run.language)
    if reason is Reason.BUDGET:
        until = renewed.strftime("%Y-%m-%d %H:%M")
        undone = say("share.anew", run.language, undone=_settled(run) or undone, until=until)
    return say(f"stopped.{reason.value}", run.language, undone=undone)


def _settled(run: Run) -> str:
    """What became of the button that a run has just been waiting for."""
    latest = [call for call in run.trace.calls if call.uid.startswith(f"{run.id}:{run.trace.steps}:")]
    status = next((call.status for call in latest if call.approval), None)
    return say(f"share.{status.value}", run.language) if status else ""


def figures(trace: Trace) -> dict[str, Any]:
    """What a run took, for the journal. Money as text, because it is exact; none where no price is known."""
    told: dict[str, Any] = {
        "steps": trace.steps,
        "ms": trace.active_ms,
        "tokens_in": trace.tokens_in,
        "cached": trace.tokens_cached,
        "tokens_out": trace.tokens_out,
        "malformed": trace.malformed,
        "model": trace.model,
    }
    told |= {"cost": plain(trace.cost), "currency": trace.currency} if trace.currency else {}
    told |= {"unpriced": trace.unpriced} if trace.unpriced else {}
    return told | ({"claimed": trace.claimed, "supported": trace.supported} if trace.claimed else {})


def receipt(run: Run, *, in_channel: bool = False) -> str:
    """What this run changed, written by code from what happened: it contradicts a model that claims more. `in_channel`:
    for everybody who reads there, so what is private is only said to have been done."""
    effects = list_effects(run.effects, run.language, in_channel=in_channel)
    more = "_though" if run.last is not None and run.last.overclaims else ""
    return say(f"receipt.{'changed' if effects else 'nothing'}{more}", run.language, effects=effects)


def list_effects(effects: Sequence[Effect], language: str, *, in_channel: bool = False) -> str:
    """Effects in words, on one line. `in_channel`: for everybody who reads there."""
    lines = [_effect_line(one, language, in_channel=in_channel) for one in effects]
    return " · ".join(dict.fromkeys(lines) if in_channel else lines)


def _effect_line(effect: Effect, language: str, *, in_channel: bool) -> str:
    hidden = in_channel and decide_in_channel(effect.privacy) is not Audience.HERE
    return say("receipt.private", language) if hidden else tell_effect(effect, language)
