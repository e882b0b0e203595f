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

from bot.agent.proposals import clean_form, count_removed_characters, propose_call
from bot.approvals import render
from bot.approvals.authorization import LOOKS, RECOVERIES, RENEWALS, PressRefusal, authorize_press
from bot.approvals.delivery import CardDelivery
from bot.approvals.events import (
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
from bot.approvals.lifecycle import ApprovalLifecycle
from bot.approvals.openings import CardOpener
from bot.approvals.opinion_drafts import read_form_answers
from bot.approvals.state import ENDED_EFFECTS, IllegalTransitionError, record_copies, to_ms, transition
from bot.chat.messages import ChatDirectory, Click, Dialog
from bot.core.effect_parts import is_resumable
from bot.core.i18n import render_value
from bot.core.records import Approval, ApprovalState, EffectState, RenderDiagram, compute_seal
from bot.core.run_state import validate_args
from bot.queue.lanes import Lease
from bot.queue.writes import EnqueueItem, Write
from bot.storage.approvals import ApprovalStore
from bot.storage.journal import Journal
from tools.effect_parts import EffectParts, PartState
from tools.spec import Caller, CardChoice, ConfirmAgainError, EffectUnknownError, Proposal, TextRef, ToolError
from tools.tool import Tool, ToolContext, ToolServices

UNAUTHORIZED = frozenset({"not_named", "nobody_named"})
"""What `Tool.authorize` says of somebody whom the rules no longer name. The effect tells anything else."""
SETTLED_MS = 60_000
"""So long after a change its card may still be on the way to people: a press on the old one is only late."""


@dataclass(frozen=True, slots=True)
class PressHandler:
    card_delivery: CardDelivery
    lifecycle: ApprovalLifecycle
    directory: ChatDirectory
    tool_services: ToolServices
    tools: Mapping[str, Tool]
    approvals: ApprovalStore
    journal: Journal
    today: Callable[[], datetime]
    """Aware UTC: the day that people mean."""
    now: Callable[[], datetime]
    """Aware UTC."""
    card_opener: CardOpener

    async def handle_press(self, lease: Lease, click: Click) -> Sequence[Write]:
        """One click through."""
        approval, standing = self.approvals.read_from_lease(lease), frozenset[str]()
        if approval is not None:
            standing = await self.card_delivery.list_represented(approval, click.person)
            approval = _add_pressed_copy(approval, click, standing)
        if approval is not None and approval.press == click.id:  # ours, begun before a crash
            if approval.effect in ENDED_EFFECTS:  # and committed: it is not carried out again, whoever brings it again
                return []
            return await self._carry_out_effect(lease, approval)
        await self.directory.refresh_people([click.person])
        person = await self.directory.find_caller(click.person)
        if approval is None or person is None:
            return await self._refuse_press(lease, click, None, PressRefusal(code="gone" if person else "stranger"))
        refusal = authorize_press(approval, click.person, click.choice, click.version, self._now_ms(), standing)
        if refusal is not None:
            return await self._refuse_press(lease, click, approval, refusal)
        choice = render.find_choice(approval.plan, click.choice)
        if click.form is not None and not (choice and choice.fields):  # a dialog that nobody was shown
            return await self._refuse_press(lease, click, approval, PressRefusal(code="no_form"))
        if click.choice in RENEWALS | LOOKS | RECOVERIES:
            return await self._handle_undecided_press(lease, approval, person, click)
        if choice is not None and self._is_tool_missing(approval, choice):
            return await self._refuse_press(lease, click, approval, PressRefusal(code="no_tool"))
        if choice is None or (choice.fields and click.form is None):
            return await self._refuse_press(lease, click, approval, PressRefusal(code="no_form"))
        click = click.with_form(read_form_answers(approval.plan, choice, click))
        if choice.replans:
            return await self._edit_card(lease, approval, person, click)
        if choice.runs and (refusal := await self._check_authorization(approval, person, choice, click)):
            return await self._refuse_press(lease, click, approval, refusal)
        return await self._decide_approval(lease, approval, choice, click)

    async def _handle_undecided_press(
        self, lease: Lease, approval: Approval, person: Caller, click: Click
    ) -> Sequence[Write]:
        """A press that decides nothing about an open card."""
        if click.choice in RENEWALS:
            return await self._renew_card(lease, approval, person)
        if click.choice in LOOKS:
            return await self._build_request_diagram(approval, click)
        return await self._recover_effect(lease, approval, click)

    async def _check_authorization(
        self, approval: Approval, person: Caller, choice: CardChoice, click: Click
    ) -> PressRefusal | None:
        """The rules no longer name who was asked. Nothing is decided: the card stays as it is, for whoever may."""
        tool = self.tools.get(approval.tool)
        if tool is None or tool.authorize is None or tool.stored_args is None:
            return None
        try:
            await tool.authorize(
                self._build_tool_context(person),
                validate_args(tool.stored_args, _merge_args(approval, choice, click.form or {})),
            )
        except ToolError as error:
            return PressRefusal(code=error.code, note=error.note) if error.code in UNAUTHORIZED else None
        return None

    async def _decide_approval(
        self, lease: Lease, approval: Approval, choice: CardChoice, click: Click
    ) -> Sequence[Write]:
        """Decided once, by one write. What may be repeated is begun in the same breath."""
        removed, click = count_removed_characters(click.form or {}), click.with_form(clean_form(click.form or {}))
        try:
            made = DecisionMade(click, removed, runs=choice.runs)
            decided, effects = transition(approval, made, self.now())
        except IllegalTransitionError as illegal:  # its time has run out since the look
            return await self._refuse_press(lease, click, approval, PressRefusal(code=illegal.code))
        writes = self.lifecycle.write_effects(decided, effects)
        begun = None
        if choice.runs and await self._is_repeatable(decided):
            begun, effects = transition(decided, EffectStarted(), self.now())
            writes += self.lifecycle.write_effects(begun, effects)
        kept = await lease.checkpoint("decide", *writes)
        if kept.refused:
            return await self._refuse_press(lease, click, approval, PressRefusal(code=kept.refused))
        if begun:
            return await self._run_begun_effect(lease, begun)
        return await self._carry_out_effect(lease, decided)

    async def _carry_out_effect(self, lease: Lease, approval: Approval) -> Sequence[Write]:
        """From decided to done, failed or unknown. Comes here again after a crash, with the stored record."""
        if approval.state is not ApprovalState.DECIDED:
            return await self.lifecycle.end_approval(lease.item, approval)
        if approval.effect is not EffectState.STARTED:
            begun, effects = transition(approval, EffectStarted(), self.now())
            presser = await self._find_presser(approval)
            await self.card_delivery.update_copies(begun)  # before it is begun: what dies here has surely not happened
            await lease.checkpoint(f"begin:{begun.tries}", *self.lifecycle.write_effects(begun, effects))
            return await self._finish_effect(lease, begun, presser)
        if not (is_resumable(approval) or await self._is_repeatable(approval)):
            return await self.lifecycle.end_approval(lease.item, self._end_effect(approval, EffectLost()))
        return await self._run_begun_effect(lease, approval)

    async def _run_begun_effect(self, lease: Lease, approval: Approval) -> Sequence[Write]:
        """Begun, and safe to repeat: who decided, and when, is on the card before anything runs."""
        await self.card_delivery.update_copies(approval)
        return await self._finish_effect(lease, approval, await self._find_presser(approval))

    async def _finish_effect(self, lease: Lease, approval: Approval, presser: Caller | None) -> Sequence[Write]:
        """What was begun comes to its end, or has to be confirmed once more."""
        try:
            return await self.lifecycle.end_approval(lease.item, await self._execute_tool(lease, approval, presser))
        except ConfirmAgainError as asked:
            return await self._reopen_card(lease, approval, asked.plan)

    async def _reopen_card(self, lease: Lease, approval: Approval, plan: Proposal) -> Sequence[Write]:
        """Nothing was done, and the card is open again: it says what the presser did not know, and takes another
        press. The pressed button is stale."""
        required = ConfirmationRequired(plan=plan, lasts=self.card_opener.open_for)
        reopened, effects = transition(approval, required, self.now())
        shown = await self.card_delivery.replace_card(
            approval, reopened, f"again:{approval.version}", again=lease.item.is_redelivery
        )
        return [
            *self.lifecycle.write_effects(shown.approval, effects),
            *self.lifecycle.build_refresh_request(lease.item, shown),
        ]

    async def _execute_tool(self, lease: Lease, approval: Approval, presser: Caller | None) -> Approval:
        """Runs exactly what was shown, plus what the pressed button and its dialog add; not if the lane was lost
        since it was begun."""
        tool = self.tools.get(approval.tool)
        if tool is None or tool.stored_args is None or presser is None:
            gone = EffectFailed(problem=TextRef(key="error.gone"), why="The tool or the person is not here any more.")
            return self._end_effect(approval, gone)
        if compute_seal(approval.tool, approval.plan) != approval.sha:
            why = "The stored arguments are not the shown ones; nothing was run."
            return self._end_effect(approval, EffectFailed(problem=TextRef(key="error.altered"), why=why))

        async def save_part(name: str, state: PartState) -> None:
            changed, effects = transition(approval, PartsChanged(parts.states), self.now())
            await lease.checkpoint(f"part:{name}:{state}", *self.lifecycle.write_effects(changed, effects))

        parts = EffectParts(dict(approval.parts), save_part)
        try:
            choice = render.find_choice(approval.plan, approval.choice)
            args = validate_args(tool.stored_args, _merge_args(approval, choice, approval.form))
            await lease.assert_held()
            outcome = await tool.run(
                replace(self._build_tool_context(presser, _choose_idempotency_key(tool, approval)), parts=parts), args
            )
        except ConfirmAgainError:
            raise
        except ToolError as error:
            failed = EffectFailed(problem=error.note, why=error.text, maybe=error.maybe, parts=parts.states)
            return self._end_effect(approval, failed)
        except EffectUnknownError:
            return self._end_effect(approval, EffectLost(parts.states))
        return self._end_effect(approval, EffectSucceeded(outcome, parts.states))

    def _end_effect(self, approval: Approval, end: EffectSucceeded | EffectFailed | EffectLost) -> Approval:
        """The approval with how its effect has ended. It is written when its copies say so."""
        return transition(approval, end, self.now())[0]

    def _is_tool_missing(self, approval: Approval, choice: CardChoice) -> bool:
        """Nothing can be planned anew: a deploy has taken the tool away since the card was shown."""
        return choice.replans and approval.tool not in self.tools

    async def _is_repeatable(self, approval: Approval) -> bool:
        """True when what was begun can be run again with its key, and comes to the same."""
        tool = self.tools.get(approval.tool)
        return tool is not None and tool.is_idempotent and await self._find_presser(approval) is not None

    async def _find_presser(self, approval: Approval) -> Caller | None:
        """Who pressed, as they are now: who has lost their membership since has nothing run in their name."""
        await self.directory.refresh_people([approval.by])
        return await self.directory.find_caller(approval.by)

    async def _recover_effect(self, lease: Lease, approval: Approval, click: Click) -> Sequence[Write]:
        """After *failed* or *unknown*: a person says that it happened, or has it done again. From here on the pressed
        buttons are stale: one press, hurried into two, does it again once."""
        if click.choice != "happened":
            retried, _ = transition(approval, EffectRetried(click), self.now())
            return await self._carry_out_effect(lease, retried)
        confirmed, _ = transition(approval, EffectConfirmed(click), self.now())
        return await self.lifecycle.end_approval(lease.item, confirmed)

    async def _build_request_diagram(self, approval: Approval, click: Click) -> Sequence[Write]:
        """The way of the request, in the DM of who wants to see it."""
        request = (await self.tool_services.engine.get_task(approval.plan.subject)).request.id
        draw = RenderDiagram(person=click.person, place=None, name=request)
        return [EnqueueItem(f"draw:{click.person}", f"draw:{click.id}", draw.model_dump_json())]

    async def _edit_card(self, lease: Lease, approval: Approval, person: Caller, click: Click) -> Sequence[Write]:
        """Edited arguments are validated, shown and hashed anew; the buttons of the old card are stale from here on."""
        tool = self.tools[approval.tool]
        if tool.prepare is None:
            return []
        try:
            plan = await propose_call(tool, self._build_tool_context(person), _edit_args(approval, click))
        except ToolError as error:
            await self.card_delivery.post_ephemeral(click, render_value(error.note, person.person.language))
            return []
        edit = CardEdited(plan=plan, lasts=self.card_opener.open_for, person=click.person)
        edited, effects = transition(approval, edit, self.now())
        shown = await self.card_delivery.replace_card(approval, edited, click.id, again=lease.item.is_redelivery)
        return [
            *self.lifecycle.write_effects(shown.approval, effects),
            *self.lifecycle.build_refresh_request(lease.item, shown),
        ]

    async def _renew_card(self, lease: Lease, approval: Approval, person: Caller) -> Sequence[Write]:
        """Ask again after expiry: the same arguments, a fresh card in front of the same people."""
        renewal = CardRenewed(plan=approval.plan, lasts=self.card_opener.open_for, person=person.id)
        renewed, effects = transition(approval, renewal, self.now())
        shown = await self.card_delivery.post_card(renewed, "renewed", again=lease.item.is_redelivery)
        return [
            *self.lifecycle.write_effects(shown.approval, effects),
            *self.lifecycle.build_refresh_request(lease.item, shown),
        ]

    async def build_dialog(self, click: Click) -> Dialog | None:
        """The dialog that a press opens; None when it opens none or may not be pressed (then the click says why)."""
        approval, person = (
            await self.approvals.load_approval(click.approval),
            await self.directory.find_person(click.person),
        )
        choice = render.find_choice(approval.plan, click.choice) if approval else None
        if approval is None or person is None or choice is None:
            return None
        if not choice.fields or self._is_tool_missing(approval, choice):
            return None
        standing = await self.card_delivery.list_represented(approval, click.person)
        if authorize_press(approval, click.person, click.choice, click.version, self._now_ms(), standing) is not None:
            return None
        return render.render_dialog(approval, choice, person, click)

    async def check_dialog(self, click: Click) -> dict[str, str]:
        """Field → sentence, for a submitted dialog that would not do."""
        approval, person = (
            await self.approvals.load_approval(click.approval),
            await self.directory.find_caller(click.person),
        )
        choice = render.find_choice(approval.plan, click.choice) if approval else None
        if approval is None or person is None or choice is None or approval.tool not in self.tools:
            return {}  # the click itself is answered with words
        standing = await self.card_delivery.list_represented(approval, click.person)
        if authorize_press(approval, click.person, click.choice, click.version, self._now_ms(), standing) is not None:
            return {}  # so is one that is not theirs, or too late: nothing is looked up for it
        if not choice.inputs:
            return {}  # and a dialog that asks for nothing
        click = click.with_form(read_form_answers(approval.plan, choice, click))
        try:
            await self._validate_form(approval, choice, person, click)
        except ToolError as error:
            field = error.field if error.field in (click.form or {}) else choice.inputs[0].name
            return {field: render_value(error.note, person.person.language)}
        return {}

    async def _validate_form(self, approval: Approval, choice: CardChoice, person: Caller, click: Click) -> None:
        """Validates what a dialog brought, without any effect. Raises `ToolError`."""
        tool = self.tools[approval.tool]
        if choice.replans and tool.prepare is not None:
            await propose_call(tool, self._build_tool_context(person), _edit_args(approval, click))
        elif tool.check is not None and tool.stored_args is not None:
            merged = _merge_args(approval, choice, clean_form(click.form or {}))
            await tool.check(self._build_tool_context(person), validate_args(tool.stored_args, merged))

    async def _refuse_press(
        self, lease: Lease, click: Click, approval: Approval | None, refusal: PressRefusal
    ) -> Sequence[Write]:
        """Never silent: the person is told privately why, and who can; and it is on record. If it is the card that is
        wrong, that ends here."""
        await self.card_delivery.post_refusal(click, approval, refusal)
        noted = self.journal.build_record_write(
            click.approval,
            "approval.refused",
            person=click.person,
            channel=click.place.channel,
            text=refusal.code,
            approval=click.approval,
            choice=click.choice,
        )
        return [noted, *await self._correct_pressed_copy(lease, click, approval)]

    async def _correct_pressed_copy(self, lease: Lease, click: Click, approval: Approval | None) -> Sequence[Write]:
        """A copy that nobody knew of, and one that was never brought up to date, say from now on what is true."""
        if approval is None or click.card is None:
            return []
        known, settled = (
            self.approvals.read_from_lease(lease),
            max(approval.created_ms, approval.decided_ms) + SETTLED_MS,
        )
        outdated = approval.state is not ApprovalState.OPEN or click.version != approval.version
        if approval == known and not (outdated and self._now_ms() > settled):
            return []
        shown = await self.card_delivery.update_copies(approval, [click.card])
        return [
            self.approvals.build_delivery_write(shown.approval),
            *self.lifecycle.build_refresh_request(lease.item, shown),
        ]

    def _build_tool_context(self, caller: Caller, key: str = "") -> ToolContext:
        return ToolContext(self.tool_services, caller, self.today().astimezone(ZoneInfo(caller.person.timezone)), key)

    def _now_ms(self) -> int:
        return to_ms(self.now())


def _add_pressed_copy(approval: Approval, click: Click, standing: frozenset[str]) -> Approval:
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


def _choose_idempotency_key(tool: Tool, approval: Approval) -> str:
    """The idempotency key. What may be repeated is, done again, the same effect; what may not is another one."""
    return approval.effect_key if tool.is_idempotent else approval.attempt_key


def _merge_args(approval: Approval, choice: CardChoice | None, form: Mapping[str, str]) -> dict[str, Any]:
    """What was shown, plus what the pressed button and its dialog add: the same when it is checked and when it runs."""
    return {**approval.plan.args, **(choice.fixed if choice else {}), **form}


def _edit_args(approval: Approval, click: Click) -> dict[str, Any]:
    return {**approval.plan.args, **(click.form or {})}
