"""Handles one click.

`PressHandler.handle_press` is the whole path of a press, top to bottom. Find the card → finish what a crash interrupted
→ identify and authorize the person → find the button's choice → decide once, with one write under the lane's token.
Last comes the effect: the stored arguments are carried out, with no model in between. The commit that pops the click
also writes the result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from bot.agent.proposals import clean_form, count_removed_characters
from bot.approvals import render
from bot.approvals.authorization import (
    RECOVERY_CHOICES,
    RENEWAL_CHOICES,
    PressRefusal,
    authorize_press,
)
from bot.approvals.card_editor import CardEditor
from bot.approvals.delivery import CardDelivery
from bot.approvals.effect_runner import EffectRunner
from bot.approvals.events import CopyFound, DecisionMade, EffectStarted
from bot.approvals.fresh_cards import CardReplacer
from bot.approvals.lifecycle import ApprovalLifecycle
from bot.approvals.opinion_drafts import read_form_answers
from bot.approvals.refusals import PressRefuser
from bot.approvals.state import ENDED_EFFECTS, IllegalTransitionError, merge_args, record_copies, transition
from bot.chat.messages import ChatDirectory, Click
from bot.core import metrics
from bot.core.clock import Clock
from bot.core.errors import UnreadableRecordError
from bot.core.records import Approval
from bot.core.run_state import validate_args
from bot.queue.lanes import Lease
from bot.queue.writes import Write
from bot.storage.approvals import ApprovalStore
from bot.storage.file_keeper import FileKeeper
from tools.spec import Caller, CardChoice, ToolError
from tools.tool import Tool, ToolContext, ToolServices
from tools.workflow.process.forms import list_file_ids

CHOICES_WITHOUT_DECISION = RENEWAL_CHOICES | RECOVERY_CHOICES
"""Presses that decide nothing about an open card."""
UNAUTHORIZED_CODES = frozenset({"not_named", "nobody_named"})
"""Codes of `Tool.authorize` for a person whom the rules no longer name. The effect reports any other code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PressHandler:
    approvals: ApprovalStore
    card_delivery: CardDelivery
    directory: ChatDirectory
    tool_services: ToolServices
    tools: Mapping[str, Tool]
    lifecycle: ApprovalLifecycle
    refuser: PressRefuser
    card_editor: CardEditor
    effect_runner: EffectRunner
    card_replacer: CardReplacer
    clock: Clock
    files: FileKeeper
    feature_presses: Mapping[str, Callable[[Approval, Click], Awaitable[Sequence[Write]]]]
    """By choice: buttons of features for everybody whom a card concerns."""

    async def handle_press(self, lease: Lease, click: Click) -> Sequence[Write]:
        """Handle a click. Returns the writes for its commit."""
        standing = frozenset[str]()  # the people for whom the presser is a deputy
        try:
            approval = self.approvals.read_from_lease(lease)
            if approval is not None:
                standing = await self.card_delivery.list_represented(approval, click.person)
                approval = _add_pressed_copy(approval, click, standing)
        except UnreadableRecordError:
            return await self.card_replacer.replace_unreadable_card(lease, click)
        if approval is not None and approval.press_id == click.id:  # this click decided the card before a crash
            return await self._go_on_with_press(lease, approval)
        await self.directory.refresh_people([click.person])
        person = await self.directory.find_caller(click.person)
        if approval is None or person is None:
            return await self._refuse_press(lease, click, None, "gone" if person else "stranger")
        now_ms = self.clock.now_ms()
        is_feature = click.choice in self.feature_presses
        refusal = authorize_press(
            approval, click.person, click.choice, click.version, now_ms, standing, click.seal, is_feature=is_feature
        )
        if refusal is not None:
            return await self.refuser.refuse_press(lease, click, approval, refusal)
        choice = render.find_choice(approval.proposal, click.choice)
        if click.form is not None and not (choice and choice.fields):  # a dialog that nobody was shown
            return await self._refuse_press(lease, click, approval, "no_form")
        if is_feature or click.choice in CHOICES_WITHOUT_DECISION:
            metrics.PRESSES.labels("changed").inc()
            if press := self.feature_presses.get(click.choice):
                return await press(approval, click)
            if click.choice in RENEWAL_CHOICES:
                return await self.card_editor.renew_card(lease, approval, person)
            return await self.effect_runner.recover_effect(lease, approval, click)
        assert choice is not None, "authorize_press refuses what the card does not offer"
        if choice.edits and approval.tool not in self.tools:  # a deploy has removed the tool
            return await self._refuse_press(lease, click, approval, "no_tool")
        if choice.fields and click.form is None:
            return await self._refuse_press(lease, click, approval, "no_form")
        click = click.with_form(read_form_answers(approval.proposal, choice, click))
        named = [(click.form or {}).get(field.name, "") for field in choice.inputs if field.kind == "file"]
        files = [id for text in named for id in list_file_ids(text)]
        taken = await self.files.take_chosen_files(lease, person.id, files)
        if taken.refused:
            await self.card_delivery.post_ephemeral(click, taken.refusals[person.person.language])
            return []
        if choice.edits:
            metrics.PRESSES.labels("changed").inc()
            return await self.card_editor.edit_card(lease, approval, person, click)
        if choice.executes and (refusal := await self._check_authorization(approval, person, choice, click)):
            return await self.refuser.refuse_press(lease, click, approval, refusal)
        return await self._decide_approval(lease, approval, choice, click)

    async def _go_on_with_press(self, lease: Lease, approval: Approval) -> Sequence[Write]:
        """Go on with the click that decided the card. If the effect has ended, the click is only committed: a
        redelivered click never runs the effect again."""
        if approval.effect in ENDED_EFFECTS:
            return []
        return await self.effect_runner.carry_out_effect(lease, approval)

    async def _refuse_press(self, lease: Lease, click: Click, approval: Approval | None, code: str) -> Sequence[Write]:
        return await self.refuser.refuse_press(lease, click, approval, PressRefusal(code=code))

    async def _check_authorization(
        self, approval: Approval, person: Caller, choice: CardChoice, click: Click
    ) -> PressRefusal | None:
        """Return a refusal if the rules no longer name this person. Nothing is decided: the card stays open for the
        others."""
        tool = self.tools.get(approval.tool)
        if tool is None or tool.authorize is None or tool.stored_args is None:
            return None
        context = ToolContext(self.tool_services, person, self.clock.today(person.person.zone))
        try:
            args = validate_args(tool.stored_args, merge_args(approval, choice, click.form or {}))
            await tool.authorize(context, args)
        except ToolError as error:
            return PressRefusal(code=error.code, text=error.note) if error.code in UNAUTHORIZED_CODES else None
        return None

    async def _decide_approval(
        self, lease: Lease, approval: Approval, choice: CardChoice, click: Click
    ) -> Sequence[Write]:
        """Decide once, with one write. A repeatable effect starts in the same write."""
        removed, click = count_removed_characters(click.form or {}), click.with_form(clean_form(click.form or {}))
        decision = DecisionMade(click, removed, runs=choice.executes)
        try:
            decided, effects = transition(approval, decision, self.clock.now())
        except IllegalTransitionError as illegal:  # its time ran out since the check
            return await self._refuse_press(lease, click, approval, illegal.code)
        writes, started = self.lifecycle.write_effects(decided, effects), None
        if choice.executes and await self.effect_runner.is_repeatable(decided):
            started, effects = transition(decided, EffectStarted(), self.clock.now())
            writes += self.lifecycle.write_effects(started, effects)
        result = await lease.checkpoint("decide", *writes)
        if result.refused:
            return await self._refuse_press(lease, click, approval, result.refused)
        metrics.PRESSES.labels("decided").inc()
        if started:
            return await self.effect_runner.run_started_effect(lease, started)
        return await self.effect_runner.carry_out_effect(lease, decided)


def _add_pressed_copy(approval: Approval, click: Click, standing: frozenset[str]) -> Approval:
    """Add the pressed copy to the record if it was missing. A process that was held up may have posted the card a
    second time. The copy goes first in the list, so that it will point to the recorded one. Only copies of people whom
    the card concerns count, and only in the right place."""
    if click.card is None or click.card in [ref for _, ref in approval.copies]:
        return approval
    concerned = {*approval.proposal.deciders, approval.proposal.requester, approval.caller}
    concerned |= {click.person} if standing else set()
    reader = approval.caller if approval.place else click.person
    if reader not in concerned or click.card.channel != (approval.place or click.place).channel:
        return approval
    return record_copies(approval, CopyFound(reader, click.card))
