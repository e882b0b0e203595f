"""One click through.

A press is judged by `policy`, decided once by one write under the lane's token (which also begins what may be
repeated), shown on the card (who, when) before anything runs, begun, run with the stored arguments and no model in
between, and its outcome is written together with the pop of the click. A crash after *begun* is looked at, never
repeated blindly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from bot import cards
from bot.approval_events import (
    CardEdited,
    CardRenewed,
    ConfirmationRequired,
    CopyFound,
    DecisionMade,
    EffectConfirmed,
    EffectFailed,
    EffectLost,
    EffectRetried,
    EffectStarted,
    EffectSucceeded,
    PartsChanged,
)
from bot.approval_state import ENDED_EFFECTS, IllegalTransition, record_copies, to_ms, transition
from bot.board import Board
from bot.drafting import answer_of
from bot.ends import Ends
from bot.events import Click, Dialog, Directory
from bot.openings import Openings
from bot.parts import is_resumable
from bot.policy import LOOKS, RECOVERIES, RENEWALS, Refusal, may_press
from bot.react.planning import clean_form, count_removed, plan_call
from bot.records import Approval, ApprovalState, Draw, EffectState, seal
from bot.store.approvals import Approvals
from bot.store.journal import Journal
from bot.store.lanes import Lease
from bot.store.writes import Put, Write
from bot.texts import literal
from bot.trace import fit
from tools.parts import Parts, PartState
from tools.spec import AsksAgain, Caller, Choice, EffectUnknown, Note, Plan, ToolError
from tools.tool import Desk, Tool, Use

UNAUTHORIZED = frozenset({"not_named", "nobody_named"})
"""What `Tool.authorize` says of somebody whom the rules no longer name. The effect tells anything else."""
SETTLED_MS = 60_000
"""So long after a change its card may still be on the way to people: a press on the old one is only late."""


@dataclass(frozen=True, slots=True)
class Gates:
    board: Board
    ends: Ends
    directory: Directory
    desk: Desk
    tools: Mapping[str, Tool]
    approvals: Approvals
    journal: Journal
    today: Callable[[], datetime]
    """Aware UTC: the day that people mean."""
    now: Callable[[], datetime]
    """Aware UTC."""
    openings: Openings

    async def press(self, lease: Lease, click: Click) -> Sequence[Write]:
        """One click through."""
        approval, standing = self.approvals.of(lease), frozenset[str]()
        if approval is not None:
            standing = await self.board.standing(approval, click.person)
            approval = _with_copy(approval, click, standing)
        if approval is not None and approval.press == click.id:  # ours, begun before a crash
            if approval.effect in ENDED_EFFECTS:  # and committed: it is not carried out again, whoever brings it again
                return []
            return await self._carry_out(lease, approval)
        await self.directory.refresh([click.person])
        person = await self.directory.caller(click.person)
        if approval is None or person is None:
            return await self._refuse(lease, click, None, Refusal(code="gone" if person else "stranger"))
        refusal = may_press(approval, click.person, click.choice, click.version, self._now_ms(), standing)
        if refusal is not None:
            return await self._refuse(lease, click, approval, refusal)
        choice = cards.choice_of(approval.plan, click.choice)
        if click.form is not None and not (choice and choice.fields):  # a dialog that nobody was shown
            return await self._refuse(lease, click, approval, Refusal(code="no_form"))
        if click.choice in RENEWALS | LOOKS | RECOVERIES:
            return await self._follow(lease, approval, person, click)
        if choice is not None and self._without_tool(approval, choice):
            return await self._refuse(lease, click, approval, Refusal(code="no_tool"))
        if choice is None or (choice.fields and click.form is None):
            return await self._refuse(lease, click, approval, Refusal(code="no_form"))
        click = click.with_form(answer_of(approval.plan, choice, click))
        if choice.replans:
            return await self._replan(lease, approval, person, click)
        if choice.runs and (refusal := await self._unauthorized(approval, person, choice, click)):
            return await self._refuse(lease, click, approval, refusal)
        return await self._decide(lease, approval, choice, click)

    async def _follow(self, lease: Lease, approval: Approval, person: Caller, click: Click) -> Sequence[Write]:
        """A press that decides nothing about an open card."""
        if click.choice in RENEWALS:
            return await self._renew(lease, approval, person)
        if click.choice in LOOKS:
            return await self._look(approval, click)
        return await self._recover(lease, approval, click)

    async def _unauthorized(self, approval: Approval, person: Caller, choice: Choice, click: Click) -> Refusal | None:
        """The rules no longer name who was asked. Nothing is decided: the card stays as it is, for whoever may."""
        tool = self.tools.get(approval.tool)
        if tool is None or tool.authorize is None or tool.stored is None:
            return None
        try:
            await tool.authorize(self._use(person), fit(tool.stored, _merged(approval, choice, click.form or {})))
        except ToolError as error:
            return Refusal(code=error.code, note=error.note) if error.code in UNAUTHORIZED else None
        return None

    async def _decide(self, lease: Lease, approval: Approval, choice: Choice, click: Click) -> Sequence[Write]:
        """Decided once, by one write. What may be repeated is begun in the same breath."""
        removed, click = count_removed(click.form or {}), click.with_form(clean_form(click.form or {}))
        try:
            made = DecisionMade(click, removed, runs=choice.runs)
            decided, effects = transition(approval, made, self.now())
        except IllegalTransition as illegal:  # its time has run out since the look
            return await self._refuse(lease, click, approval, Refusal(code=illegal.code))
        writes = self.ends.write_effects(decided, effects)
        begun = None
        if choice.runs and await self._repeatable(decided):
            begun, effects = transition(decided, EffectStarted(), self.now())
            writes += self.ends.write_effects(begun, effects)
        kept = await lease.checkpoint("decide", *writes)
        if kept.refused:
            return await self._refuse(lease, click, approval, Refusal(code=kept.refused))
        if begun:
            return await self._run(lease, begun)
        return await self._carry_out(lease, decided)

    async def _carry_out(self, lease: Lease, approval: Approval) -> Sequence[Write]:
        """From decided to done, failed or unknown. Comes here again after a crash, with the stored record."""
        if approval.state is not ApprovalState.DECIDED:
            return await self.ends.ended(lease.item, approval)
        if approval.effect is not EffectState.STARTED:
            begun, effects = transition(approval, EffectStarted(), self.now())
            presser = await self._presser(approval)
            await self.board.rewrite(begun)  # before it is begun: what dies here has surely not happened
            await lease.checkpoint(f"begin:{begun.tries}", *self.ends.write_effects(begun, effects))
            return await self._finish(lease, begun, presser)
        if not (is_resumable(approval) or await self._repeatable(approval)):
            return await self.ends.ended(lease.item, self._end_effect(approval, EffectLost()))
        return await self._run(lease, approval)

    async def _run(self, lease: Lease, approval: Approval) -> Sequence[Write]:
        """Begun, and safe to repeat: who decided, and when, is on the card before anything runs."""
        await self.board.rewrite(approval)
        return await self._finish(lease, approval, await self._presser(approval))

    async def _finish(self, lease: Lease, approval: Approval, presser: Caller | None) -> Sequence[Write]:
        """What was begun comes to its end, or has to be confirmed once more."""
        try:
            return await self.ends.ended(lease.item, await self._effect(lease, approval, presser))
        except AsksAgain as asked:
            return await self._ask_again(lease, approval, asked.plan)

    async def _ask_again(self, lease: Lease, approval: Approval, plan: Plan) -> Sequence[Write]:
        """Nothing was done, and the card is open again: it says what the presser did not know, and takes another
        press. The pressed button is stale."""
        required = ConfirmationRequired(plan=plan, lasts=self.openings.lasts)
        reopened, effects = transition(approval, required, self.now())
        shown = await self.board.replace(approval, reopened, f"again:{approval.version}", again=lease.item.again)
        return [*self.ends.write_effects(shown.approval, effects), *self.ends.behind(lease.item, shown)]

    async def _effect(self, lease: Lease, approval: Approval, presser: Caller | None) -> Approval:
        """Runs exactly what was shown, plus what the pressed button and its dialog add; not if the lane was lost
        since it was begun."""
        tool = self.tools.get(approval.tool)
        if tool is None or tool.stored is None or presser is None:
            gone = EffectFailed(problem=Note(key="error.gone"), why="The tool or the person is not here any more.")
            return self._end_effect(approval, gone)
        if seal(approval.tool, approval.plan) != approval.sha:
            why = "The stored arguments are not the shown ones; nothing was run."
            return self._end_effect(approval, EffectFailed(problem=Note(key="error.altered"), why=why))

        async def keep(name: str, state: PartState) -> None:
            changed, effects = transition(approval, PartsChanged(parts.states), self.now())
            await lease.checkpoint(f"part:{name}:{state}", *self.ends.write_effects(changed, effects))

        parts = Parts(dict(approval.parts), keep)
        try:
            choice = cards.choice_of(approval.plan, approval.choice)
            args = fit(tool.stored, _merged(approval, choice, approval.form))
            await lease.sure()
            outcome = await tool.run(replace(self._use(presser, _key(tool, approval)), parts=parts), args)
        except AsksAgain:
            raise
        except ToolError as error:
            failed = EffectFailed(problem=error.note, why=error.text, maybe=error.maybe, parts=parts.states)
            return self._end_effect(approval, failed)
        except EffectUnknown:
            return self._end_effect(approval, EffectLost(parts.states))
        return self._end_effect(approval, EffectSucceeded(outcome, parts.states))

    def _end_effect(self, approval: Approval, end: EffectSucceeded | EffectFailed | EffectLost) -> Approval:
        """The approval with how its effect has ended. It is written when its copies say so."""
        return transition(approval, end, self.now())[0]

    def _without_tool(self, approval: Approval, choice: Choice) -> bool:
        """Nothing can be planned anew: a deploy has taken the tool away since the card was shown."""
        return choice.replans and approval.tool not in self.tools

    async def _repeatable(self, approval: Approval) -> bool:
        """True when what was begun can be run again with its key, and comes to the same."""
        tool = self.tools.get(approval.tool)
        return tool is not None and tool.repeatable and await self._presser(approval) is not None

    async def _presser(self, approval: Approval) -> Caller | None:
        """Who pressed, as they are now: who has lost their membership since has nothing run in their name."""
        await self.directory.refresh([approval.by])
        return await self.directory.caller(approval.by)

    async def _recover(self, lease: Lease, approval: Approval, click: Click) -> Sequence[Write]:
        """After *failed* or *unknown*: a person says that it happened, or has it done again. From here on the pressed
        buttons are stale: one press, hurried into two, does it again once."""
        if click.choice != "happened":
            retried, _ = transition(approval, EffectRetried(click), self.now())
            return await self._carry_out(lease, retried)
        confirmed, _ = transition(approval, EffectConfirmed(click), self.now())
        return await self.ends.ended(lease.item, confirmed)

    async def _look(self, approval: Approval, click: Click) -> Sequence[Write]:
        """The way of the request, in the DM of who wants to see it."""
        request = (await self.desk.engine.task(approval.plan.subject)).request.id
        draw = Draw(person=click.person, place=None, name=request)
        return [Put(f"draw:{click.person}", f"draw:{click.id}", draw.model_dump_json())]

    async def _replan(self, lease: Lease, approval: Approval, person: Caller, click: Click) -> Sequence[Write]:
        """Edited arguments are validated, shown and hashed anew; the buttons of the old card are stale from here on."""
        tool = self.tools[approval.tool]
        if tool.prepare is None:
            return []
        try:
            plan = await plan_call(tool, self._use(person), _edited(approval, click))
        except ToolError as error:
            await self.board.whisper(click, literal(error.note, person.person.language))
            return []
        edit = CardEdited(plan=plan, lasts=self.openings.lasts, person=click.person)
        edited, effects = transition(approval, edit, self.now())
        shown = await self.board.replace(approval, edited, click.id, again=lease.item.again)
        return [*self.ends.write_effects(shown.approval, effects), *self.ends.behind(lease.item, shown)]

    async def _renew(self, lease: Lease, approval: Approval, person: Caller) -> Sequence[Write]:
        """Ask again after expiry: the same arguments, a fresh card in front of the same people."""
        renewal = CardRenewed(plan=approval.plan, lasts=self.openings.lasts, person=person.id)
        renewed, effects = transition(approval, renewal, self.now())
        shown = await self.board.post(renewed, "renewed", again=lease.item.again)
        return [*self.ends.write_effects(shown.approval, effects), *self.ends.behind(lease.item, shown)]

    async def dialog(self, click: Click) -> Dialog | None:
        """The dialog that a press opens; None when it opens none or may not be pressed (then the click says why)."""
        approval, person = await self.approvals.get(click.approval), await self.directory.get(click.person)
        choice = cards.choice_of(approval.plan, click.choice) if approval else None
        if approval is None or person is None or choice is None:
            return None
        if not choice.fields or self._without_tool(approval, choice):
            return None
        standing = await self.board.standing(approval, click.person)
        if may_press(approval, click.person, click.choice, click.version, self._now_ms(), standing) is not None:
            return None
        return cards.dialog(approval, choice, person, click)

    async def problems(self, click: Click) -> dict[str, str]:
        """Field → sentence, for a submitted dialog that would not do."""
        approval, person = await self.approvals.get(click.approval), await self.directory.caller(click.person)
        choice = cards.choice_of(approval.plan, click.choice) if approval else None
        if approval is None or person is None or choice is None or approval.tool not in self.tools:
            return {}  # the click itself is answered with words
        standing = await self.board.standing(approval, click.person)
        if may_press(approval, click.person, click.choice, click.version, self._now_ms(), standing) is not None:
            return {}  # so is one that is not theirs, or too late: nothing is looked up for it
        if not choice.inputs:
            return {}  # and a dialog that asks for nothing
        click = click.with_form(answer_of(approval.plan, choice, click))
        try:
            await self._try(approval, choice, person, click)
        except ToolError as error:
            field = error.field if error.field in (click.form or {}) else choice.inputs[0].name
            return {field: literal(error.note, person.person.language)}
        return {}

    async def _try(self, approval: Approval, choice: Choice, person: Caller, click: Click) -> None:
        """Validates what a dialog brought, without any effect. Raises `ToolError`."""
        tool = self.tools[approval.tool]
        if choice.replans and tool.prepare is not None:
            await plan_call(tool, self._use(person), _edited(approval, click))
        elif tool.check is not None and tool.stored is not None:
            merged = _merged(approval, choice, clean_form(click.form or {}))
            await tool.check(self._use(person), fit(tool.stored, merged))

    async def _refuse(self, lease: Lease, click: Click, approval: Approval | None, refusal: Refusal) -> Sequence[Write]:
        """Never silent: the person is told privately why, and who can; and it is on record. If it is the card that is
        wrong, that ends here."""
        await self.board.refuse(click, approval, refusal)
        noted = self.journal.entry(
            click.approval,
            "approval.refused",
            person=click.person,
            channel=click.place.channel,
            text=refusal.code,
            approval=click.approval,
            choice=click.choice,
        )
        return [noted, *await self._corrected(lease, click, approval)]

    async def _corrected(self, lease: Lease, click: Click, approval: Approval | None) -> Sequence[Write]:
        """A copy that nobody knew of, and one that was never brought up to date, say from now on what is true."""
        if approval is None or click.card is None:
            return []
        known, settled = self.approvals.of(lease), max(approval.created_ms, approval.decided_ms) + SETTLED_MS
        outdated = approval.state is not ApprovalState.OPEN or click.version != approval.version
        if approval == known and not (outdated and self._now_ms() > settled):
            return []
        shown = await self.board.rewrite(approval, [click.card])
        return [self.approvals.shown(shown.approval), *self.ends.behind(lease.item, shown)]

    def _use(self, caller: Caller, key: str = "") -> Use:
        return Use(self.desk, caller, self.today().astimezone(ZoneInfo(caller.person.timezone)), key)

    def _now_ms(self) -> int:
        return to_ms(self.now())


def _with_copy(approval: Approval, click: Click, standing: frozenset[str]) -> Approval:
    """The approval, with the pressed copy if nobody knew of it: two processes may have posted the card when one of them
    was held up. It comes first, so that it will point to the copy that is known. Only copies of people whom the card
    concerns, where they belong."""
    if click.card is None or click.card in [ref for _, ref in approval.refs]:
        return approval
    concerned = {*approval.plan.deciders, approval.plan.requester, approval.caller}
    concerned |= {click.person} if standing else set()
    reader = approval.caller if approval.place else click.person
    if reader not in concerned or click.card.channel != (approval.place or click.place).channel:
        return approval
    return record_copies(approval, CopyFound(reader, click.card))


def _key(tool: Tool, approval: Approval) -> str:
    """The idempotency key. What may be repeated is, done again, the same effect; what may not is another one."""
    return approval.key if tool.repeatable else approval.try_key


def _merged(approval: Approval, choice: Choice | None, form: Mapping[str, str]) -> dict[str, Any]:
    """What was shown, plus what the pressed button and its dialog add: the same when it is checked and when it runs."""
    return {**approval.plan.args, **(choice.fixed if choice else {}), **form}


def _edited(approval: Approval, click: Click) -> dict[str, Any]:
    return {**approval.plan.args, **(click.form or {})}
