"""One click through, and everything else that can happen to a card.

A press is judged by `policy`, decided once by one script, shown on the card (who, when) before anything runs, begun
under the lane's token, run with the stored arguments and no model in between, and its outcome is written together
with the pop of the click. A crash after *begun* is looked at, never repeated blindly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import ValidationError

from bot import cards, logs
from bot.errors import ChatFailed
from bot.events import Card, Channel, Click, Dialog, Directory, Place, Post, Ref
from bot.policy import RECOVERIES, RENEWALS, Refusal, may_press
from bot.records import (
    Approval,
    ApprovalState,
    Ask,
    CallStatus,
    Cancel,
    Close,
    EffectState,
    Resume,
    Waiter,
    fingerprint,
)
from bot.store.approvals import Approvals, Verdict
from bot.store.journal import Journal
from bot.store.lanes import Lease
from bot.store.writes import Put, Write
from bot.texts import literal, say
from tools.spec import (
    Caller,
    Choice,
    Desk,
    Effect,
    EffectUnknown,
    Note,
    Person,
    Plan,
    Tool,
    ToolError,
    Use,
)

log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Gates:
    chat: Channel
    directory: Directory
    desk: Desk
    tools: Mapping[str, Tool]
    approvals: Approvals
    journal: Journal
    today: Callable[[], datetime]
    """Aware UTC: the day that people mean."""
    now: Callable[[], datetime]
    """Aware UTC."""
    lasts: timedelta = timedelta(hours=72)
    """How long a card is open; people are reminded at half time."""

    async def press(self, lease: Lease, click: Click) -> Sequence[Write]:
        """One click through."""
        approval = await self.approvals.get(click.approval)
        person = await self.directory.caller(click.person)
        if approval is None or person is None:
            return await self._refuse(click, None, Refusal(code="gone" if person else "stranger"))
        if approval.press == click.id:  # ours, begun before a crash
            return await self._carry_out(lease, approval)
        refusal = may_press(approval, click.person, click.choice, click.version, self._now_ms())
        if refusal is not None:
            return await self._refuse(click, approval, refusal)
        if click.choice in RENEWALS:
            return await self._renew(approval, person)
        if click.choice in RECOVERIES:
            return await self._recover(lease, approval, click)
        choice = cards.choice_of(approval.plan, click.choice)
        if choice is not None and self._without_tool(approval, choice):
            return await self._refuse(click, approval, Refusal(code="no_tool"))
        if choice is None or (choice.fields and click.form is None):
            return await self._refuse(click, approval, Refusal(code="no_form"))
        if choice.replans:
            return await self._replan(approval, person, click)
        return await self._decide(lease, approval, choice, click)

    async def _decide(self, lease: Lease, approval: Approval, choice: Choice, click: Click) -> Sequence[Write]:
        ends = ApprovalState.DECIDED if choice.runs else ApprovalState.CANCELLED
        now_ms = self._now_ms()
        verdict = await self.approvals.decide(click, ends=ends, now_ms=now_ms)
        if verdict is not Verdict.OK:
            return await self._refuse(click, approval, Refusal(code=verdict.value))
        decided = approval.model_copy(
            update={
                "state": ends,
                "by": click.person,
                "choice": click.choice,
                "form": click.form or {},
                "press": click.id,
                "decided_ms": now_ms,
            }
        )
        return await self._carry_out(lease, decided)

    async def _carry_out(self, lease: Lease, approval: Approval) -> Sequence[Write]:
        """From decided to done, failed or unknown. Comes here again after a crash, with the stored record."""
        if approval.state is not ApprovalState.DECIDED:
            return await self._ended(approval)
        if approval.effect is EffectState.STARTED and not self._repeatable(approval):
            return await self._ended(approval.model_copy(update={"effect": EffectState.UNKNOWN}))
        if approval.effect is not EffectState.STARTED:
            approval = approval.model_copy(update={"effect": EffectState.STARTED, "tries": approval.tries + 1})
            await self._rewrite(approval)
            began = self._noted(approval, "effect.started", person=approval.by)
            await lease.checkpoint(f"begin:{approval.tries}", self.approvals.saved(approval), began)
        return await self._ended(await self._effect(approval))

    async def _effect(self, approval: Approval) -> Approval:
        """Runs exactly what was shown, plus what the pressed button and its dialog add."""
        tool, presser = self.tools.get(approval.tool), await self.directory.caller(approval.by)
        if tool is None or tool.stored is None or presser is None:
            return _failed(approval, Note(key="error.gone"), "The tool or the person is not here any more.")
        if fingerprint(approval.tool, approval.plan.args) != approval.sha:
            return _failed(
                approval,
                Note(key="error.altered"),
                "The stored arguments are not the shown ones; nothing was run.",
            )
        try:
            outcome = await tool.run(self._use(presser, approval.key), tool.stored.model_validate(_merged(approval)))
        except ToolError as error:
            return _failed(approval, error.note, error.text)
        except ValidationError as error:
            return _failed(approval, Note(key="error.bad_arguments"), str(error))
        except EffectUnknown:
            return approval.model_copy(update={"effect": EffectState.UNKNOWN})
        return approval.model_copy(update={"effect": EffectState.DONE, "outcome": outcome, "problem": None})

    async def _ended(self, approval: Approval) -> Sequence[Write]:
        """The card says how it ended; then, in one commit, waiting runs hear of it and the record is closed."""
        await self._rewrite(approval)
        kind = f"effect.{approval.effect.value}" if approval.effect else f"approval.{approval.state.value}"
        told = self._noted(
            approval,
            kind,
            person=approval.by,
            choice=approval.choice,
            opinion=approval.form.get("opinion", ""),
        )
        heard = approval.model_copy(update={"waiters": ()})
        return [
            *self.approvals.closed(heard),
            told,
            *(_resume(approval, waiter) for waiter in approval.waiters),
        ]

    def _without_tool(self, approval: Approval, choice: Choice) -> bool:
        """Nothing can be planned anew: a deploy has taken the tool away since the card was shown."""
        return choice.replans and approval.tool not in self.tools

    def _repeatable(self, approval: Approval) -> bool:
        tool = self.tools.get(approval.tool)
        return tool is not None and tool.repeatable

    async def _recover(self, lease: Lease, approval: Approval, click: Click) -> Sequence[Write]:
        """After *failed* or *unknown*: a person says that it happened, or has it done again."""
        pressed = approval.model_copy(update={"press": click.id})
        if click.choice != "happened":
            return await self._carry_out(lease, pressed.model_copy(update={"effect": EffectState.NONE}))
        return await self._ended(pressed.model_copy(update={"effect": EffectState.DONE}))

    async def _replan(self, approval: Approval, person: Caller, click: Click) -> Sequence[Write]:
        """Edited arguments are validated, shown and hashed anew; the buttons of the old card are stale from here on."""
        tool = self.tools[approval.tool]
        if tool.prepare is None:
            return []
        try:
            plan = await tool.prepare(self._use(person), tool.args.model_validate(_edited(approval, click)))
        except ToolError as error:
            await self.chat.whisper(click.place, click.person, literal(error.note, person.person.language))
            return []
        renewed = await self._again(approval, plan)
        await self._rewrite(renewed)
        return [
            *self.approvals.opened(renewed, self._remind_ms(renewed)),
            self._noted(renewed, "approval.edited", person=click.person),
        ]

    async def _renew(self, approval: Approval, person: Caller) -> Sequence[Write]:
        """Ask again after expiry: the same arguments, a fresh card in front of the same people."""
        renewed = await self._again(approval, approval.plan)
        await self._rewrite(renewed)
        renewed = await self._posted(renewed, "renewed", again=False)
        return [
            *self.approvals.opened(renewed, self._remind_ms(renewed)),
            self._noted(renewed, "approval.renewed", person=person.id),
        ]

    async def _again(self, approval: Approval, plan: Plan) -> Approval:
        return approval.model_copy(
            update={
                "version": approval.version + 1,
                "plan": plan,
                "sha": fingerprint(approval.tool, plan.args),
                "state": ApprovalState.OPEN,
                "created_ms": self._now_ms(),
                "expires_ms": self._expires_ms(),
            }
        )

    async def open(self, lease: Lease, ask: Ask) -> Sequence[Write]:
        """Brings a card to those who may press. Asked for again while it is open, it is shown again, not doubled."""
        approval = await self.approvals.get(ask.approval)
        if approval is None or approval.state is not ApprovalState.OPEN:
            approval = self._new(ask, approval.version + 1 if approval else 1)
        if ask.waiter and ask.waiter not in approval.waiters:
            approval = approval.model_copy(update={"waiters": (*approval.waiters, ask.waiter)})
        approval = await self._posted(approval, lease.item.id, again=lease.item.again)
        asked = self._noted(approval, "approval.requested", person=ask.caller, sha=approval.sha[:12])
        return [*self.approvals.opened(approval, self._remind_ms(approval)), asked]

    def _new(self, ask: Ask, version: int) -> Approval:
        return Approval(
            id=ask.approval,
            version=version,
            tool=ask.tool,
            gate=ask.gate,
            plan=ask.plan,
            sha=fingerprint(ask.tool, ask.plan.args),
            caller=ask.caller,
            place=ask.place,
            created_ms=self._now_ms(),
            expires_ms=self._expires_ms(),
        )

    async def remind(self, lease: Lease, approval_id: str, version: int) -> Sequence[Write]:
        """Half of the time is over: a word to those who have not decided."""
        approval = await self._still_open(approval_id, version)
        if approval is None:
            return []
        for reader, ref in await self._readers(approval):
            text = say(
                "card.reminder",
                reader.language,
                title=literal(approval.plan.title, reader.language),
                until=cards.moment(approval.expires_ms, reader),
            )
            place = Place(team="", channel=ref.channel, thread=ref.ts, direct=True)
            await self.chat.post(
                place,
                Post(text),
                key=f"{approval.id}:{version}:remind:{reader.id}",
                again=lease.item.again,
            )
        return [self._noted(approval, "approval.reminded")]

    async def expire(self, approval_id: str, version: int) -> Sequence[Write]:
        """Time is over. Silence is not a no, and says so in words of its own."""
        approval = await self._still_open(approval_id, version)
        if approval is None:
            return []
        expired = approval.model_copy(update={"state": ApprovalState.EXPIRED, "decided_ms": self._now_ms()})
        await self._tell_requester(expired)
        return await self._ended(expired)

    async def close(self, close: Close) -> Sequence[Write]:
        """The task behind a card ended elsewhere (withdrawn, decided by another way)."""
        approval = await self.approvals.get(close.approval)
        if approval is None or approval.state is not ApprovalState.OPEN:
            return []
        return await self._ended(
            approval.model_copy(update={"state": ApprovalState.CLOSED, "by": close.by, "decided_ms": self._now_ms()})
        )

    async def cancel(self, cancel: Cancel) -> Sequence[Write]:
        """Whoever proposed a card takes it back by saying so in chat."""
        approval = await self.approvals.get(cancel.approval)
        if approval is None or approval.state is not ApprovalState.OPEN or approval.caller != cancel.person:
            return []
        return await self._ended(
            approval.model_copy(
                update={"state": ApprovalState.CANCELLED, "by": cancel.person, "decided_ms": self._now_ms()}
            )
        )

    async def dialog(self, click: Click) -> Dialog | None:
        """The dialog that a press opens; None when it opens none or may not be pressed (then the click says why)."""
        approval, person = await self.approvals.get(click.approval), await self.directory.get(click.person)
        if approval is None or person is None:
            return None
        if may_press(approval, click.person, click.choice, click.version, self._now_ms()) is not None:
            return None
        choice = cards.choice_of(approval.plan, click.choice)
        if choice is None or not choice.fields or self._without_tool(approval, choice):
            return None
        return cards.dialog(approval, choice, person, click.place)

    async def problems(self, click: Click) -> dict[str, str]:
        """Field → sentence, for a submitted dialog that would not do."""
        approval, person = await self.approvals.get(click.approval), await self.directory.caller(click.person)
        choice = cards.choice_of(approval.plan, click.choice) if approval else None
        if approval is None or person is None or choice is None or approval.tool not in self.tools:
            return {}  # the click itself is answered with words
        try:
            await self._try(approval, choice, person, click)
        except ToolError as error:
            field = error.field if error.field in (click.form or {}) else choice.fields[0].name
            return {field: literal(error.note, person.person.language)}
        return {}

    async def _try(self, approval: Approval, choice: Choice, person: Caller, click: Click) -> None:
        """Validates what a dialog brought, without any effect. Raises `ToolError`."""
        tool = self.tools[approval.tool]
        if choice.replans and tool.prepare is not None:
            await tool.prepare(self._use(person), tool.args.model_validate(_edited(approval, click)))
        elif tool.check is not None and tool.stored is not None:
            args = {**approval.plan.args, **choice.fixed, **(click.form or {})}
            await tool.check(self._use(person), tool.stored.model_validate(args))

    async def _refuse(self, click: Click, approval: Approval | None, refusal: Refusal) -> Sequence[Write]:
        """Never silent: the person is told privately why, and who can."""
        person = await self.directory.get(click.person)
        language = person.language if person else "en"
        who = await self._names(approval.plan.deciders) if approval else {}
        what = cards.card(approval, person, await self._all_names(approval)).card if approval and person else None
        text = say(
            f"refused.{refusal.code}",
            language,
            who=say("card.comma", language).join(who.values()),
            what=what.footer.splitlines()[0] if what else "",
        )
        await self.chat.whisper(click.place, click.person, text)
        return [
            self.journal.entry(
                click.approval,
                "approval.refused",
                person=click.person,
                channel=click.place.channel,
                text=refusal.code,
                approval=click.approval,
                choice=click.choice,
            )
        ]

    async def _posted(self, approval: Approval, asked: str, *, again: bool) -> Approval:
        """The card in front of everybody it is for."""
        readers = [approval.caller] if approval.place else list(approval.plan.deciders)
        refs = list(approval.refs)
        for reader_id in readers:
            reader = await self.directory.get(reader_id)
            if reader is None:
                continue
            place = approval.place or await self.chat.direct(reader_id)
            post = cards.card(approval, reader, await self._all_names(approval))
            ref = await self.chat.post(
                place, post, key=f"{approval.id}:{approval.version}:{reader_id}:{asked}"[:200], again=again
            )
            refs.append((reader_id, ref))
        return approval.model_copy(update={"refs": tuple(dict.fromkeys(refs))})

    async def _rewrite(self, approval: Approval) -> None:
        """Every copy of the card says what is true now. A copy that is gone (deleted message) is no reason to stop."""
        names = await self._all_names(approval)
        for reader, ref in await self._readers(approval):
            try:
                await self.chat.edit(ref, cards.card(approval, reader, names))
            except ChatFailed as error:
                log.warning("card.not_rewritten", approval=approval.id, error=error.code)

    async def _tell_requester(self, approval: Approval) -> None:
        """A task's card expired: the person whose request it is hears of it and can ask again."""
        requester = await self.directory.get(approval.plan.requester or "")
        if requester is None or approval.waiters:
            return
        title = literal(approval.plan.title, requester.language)
        again = cards.card(approval, requester, await self._all_names(approval)).card
        text = say("card.nobody", requester.language, title=title)
        post = Post(text, card=Card(title=title, body="", footer=text, buttons=again.buttons if again else ()))
        await self.chat.post(await self.chat.direct(requester.id), post, key=f"{approval.id}:{approval.version}:nobody")

    async def _still_open(self, approval_id: str, version: int) -> Approval | None:
        approval = await self.approvals.get(approval_id)
        fits = approval is not None and approval.state is ApprovalState.OPEN and approval.version == version
        return approval if fits else None

    async def _readers(self, approval: Approval) -> list[tuple[Person, Ref]]:
        found = [(await self.directory.get(reader), ref) for reader, ref in approval.refs]
        return [(reader, ref) for reader, ref in found if reader is not None]

    async def _all_names(self, approval: Approval) -> dict[str, str]:
        return await self._names((*approval.plan.deciders, approval.by))

    async def _names(self, people: Sequence[str]) -> dict[str, str]:
        found = [await self.directory.get(one) for one in people if one]
        return {one.id: one.name for one in found if one is not None}

    def _use(self, caller: Caller, key: str = "") -> Use:
        return Use(self.desk, caller, self.today().astimezone(ZoneInfo(caller.person.timezone)), key)

    def _noted(self, approval: Approval, kind: str, *, person: str = "", **more: Any) -> Write:
        run = approval.waiters[0].run if approval.waiters else ""
        return self.journal.entry(
            approval.id,
            kind,
            run=run,
            person=person,
            text=approval.tool,
            approval=approval.id,
            subject=approval.plan.subject,
            **more,
        )

    def _now_ms(self) -> int:
        return int(self.now().timestamp() * 1000)

    def _expires_ms(self) -> int:
        return self._now_ms() + int(self.lasts.total_seconds() * 1000)

    def _remind_ms(self, approval: Approval) -> int:
        return (approval.created_ms + approval.expires_ms) // 2


def _merged(approval: Approval) -> dict[str, Any]:
    choice = cards.choice_of(approval.plan, approval.choice)
    return {**approval.plan.args, **(choice.fixed if choice else {}), **approval.form}


def _edited(approval: Approval, click: Click) -> dict[str, Any]:
    return {**approval.plan.args, **(click.form or {})}


def _failed(approval: Approval, problem: Note, why: str) -> Approval:
    return approval.model_copy(update={"effect": EffectState.FAILED, "problem": problem, "why": why})


def _resume(approval: Approval, waiter: Waiter) -> Write:
    """What a waiting run hears."""
    status, observation, effect = _heard(approval)
    resume = Resume(run=waiter.run, uid=waiter.uid, status=status, observation=observation, effect=effect)
    return Put(waiter.lane, f"resume:{waiter.uid}", resume.model_dump_json())


def _heard(approval: Approval) -> tuple[CallStatus, dict[str, Any], Effect | None]:
    if approval.effect is EffectState.DONE and approval.outcome is not None:
        return CallStatus.SUCCEEDED, approval.outcome.data, approval.outcome.effect
    if approval.effect is EffectState.FAILED:
        return CallStatus.FAILED, {"error": "failed", "message": approval.why}, None
    if approval.effect is EffectState.UNKNOWN:
        return (
            CallStatus.UNKNOWN,
            {"error": "unknown", "message": UNKNOWN},
            Effect(note=Note(key="effect.unknown")),
        )
    if approval.state is ApprovalState.EXPIRED:
        return CallStatus.EXPIRED, {"error": "expired", "message": EXPIRED}, None
    return CallStatus.DENIED, {"error": approval.state.value, "message": NOTHING}, None


UNKNOWN = (
    "It was begun and nobody can say whether it happened. The person is asked on the card. "
    "Do not propose it again; say honestly that it is unknown."
)
EXPIRED = "Nobody answered in time. That is not a no: nothing was decided. The card can be renewed with one press."
NOTHING = "The card was taken back or its matter ended elsewhere; nothing was done."
