"""Runs the effect of a decided card with the stored arguments: start, execute, end.

After a crash, a started effect is never repeated blindly. If it is not safe to repeat, it ends as unknown, and a person
says on the card what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bot.approvals import render
from bot.approvals.card_editor import CardEditor
from bot.approvals.events import (
    EffectConfirmed,
    EffectFailed,
    EffectLost,
    EffectRetried,
    EffectStarted,
    EffectSucceeded,
    PartsChanged,
)
from bot.approvals.lifecycle import ApprovalLifecycle
from bot.approvals.state import merge_args, transition
from bot.chat.messages import ChatDirectory, Click
from bot.core import metrics
from bot.core.cancellation import cancel_and_wait
from bot.core.clock import Clock
from bot.core.outcomes import is_resumable
from bot.core.records import Approval, ApprovalState, EffectState, compute_seal
from bot.core.run_state import validate_args
from bot.queue.lanes import Lease, RetryLater
from bot.queue.writes import Write
from tools.catalog import TOOLS
from tools.effect_parts import EffectParts, PartState
from tools.outside import Outside
from tools.spec import Caller, ConfirmAgainError, EffectPlace, EffectUnknownError, Gate, TextRef, ToolError
from tools.tool import Tool, ToolContext, ToolServices

_TOOL_NAMES = frozenset(tool.name for tool in TOOLS)
"""Names of the bot's own tools; tools of servers are counted together."""
for _name in (*sorted(tool.name for tool in TOOLS if tool.gate is not Gate.NONE), metrics.OTHER):
    metrics.EFFECTS.labels(_name, EffectState.UNKNOWN.value)  # at zero: the first one is an increase


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRunner:
    card_editor: CardEditor
    lifecycle: ApprovalLifecycle
    directory: ChatDirectory
    tool_services: ToolServices
    outside: Outside
    tools: Mapping[str, Tool]
    clock: Clock
    shown_after_s: float = 1.0
    """Time after which a running effect is shown on its card as begun (s)."""
    try_again_s: Sequence[float] = (60.0, 360.0)
    """Delays before the retries after a temporary refusal (s). Mail servers that put strangers off do so for five
    minutes at most."""

    async def carry_out_effect(self, lease: Lease, approval: Approval) -> Sequence[Write]:
        """Take the effect from decided to done, failed or unknown. After a crash, the effect continues from the stored
        record."""
        if approval.state is not ApprovalState.DECIDED:
            return await self.lifecycle.end_approval(lease.item, approval)
        if approval.effect is not EffectState.STARTED:
            return await self._start_effect(lease, approval)
        if is_resumable(approval) or await self.is_repeatable(approval):
            return await self.run_started_effect(lease, approval)
        return await self.lifecycle.end_approval(lease.item, self._end_effect(approval, EffectLost()))

    async def is_repeatable(self, approval: Approval) -> bool:
        """Whether a started effect can run again with its key and give the same result."""
        tool = self.tools.get(approval.tool)
        return tool is not None and tool.is_idempotent and await self._find_presser(approval) is not None

    async def _start_effect(self, lease: Lease, approval: Approval) -> Sequence[Write]:
        """Checkpoint the start of an effect that must not be repeated. A process that dies before this has not run
        it."""
        started, effects = transition(approval, EffectStarted(), self.clock.now())
        presser = await self._find_presser(approval)
        writes = self.lifecycle.write_effects(started, effects)
        await lease.checkpoint(f"begin:{started.attempts}", *writes, confirm=True)
        return await self._finish_effect(lease, started, presser)

    async def run_started_effect(self, lease: Lease, approval: Approval) -> Sequence[Write]:
        """Run an effect that is started and safe to repeat."""
        return await self._finish_effect(lease, approval, await self._find_presser(approval))

    async def _find_presser(self, approval: Approval) -> Caller | None:
        """Find the presser as they are now. Nothing runs in the name of a person who is no longer a member."""
        await self.directory.refresh_people([approval.decided_by])
        return await self.directory.find_caller(approval.decided_by)

    async def _finish_effect(self, lease: Lease, approval: Approval, presser: Caller | None) -> Sequence[Write]:
        """End a started effect, or reopen the card for another confirmation. While the effect runs for longer than a
        moment, the card shows who decided and when. The card of a shorter effect is rewritten once, at its end, because
        the platform allows few rewrites. An item of its own does the rewrite, so no effect waits for the platform."""

        async def show_later() -> None:
            await asyncio.sleep(self.shown_after_s)
            shown = self.lifecycle.request_refresh(approval, f"started:{approval.attempt_key}")
            await lease.checkpoint(f"show:{approval.attempts}", shown)

        try:
            with metrics.EFFECT_TIMES.labels(self._get_tool_label(approval)).time():
                showing = asyncio.create_task(show_later())
                try:
                    ended = await self._execute_until_kept(lease, approval, presser)
                finally:
                    await cancel_and_wait([showing])
            return await self.lifecycle.end_approval(lease.item, ended)
        except ConfirmAgainError as asked:
            return await self.card_editor.reopen_card(lease, approval, asked.plan)

    async def _execute_until_kept(self, lease: Lease, approval: Approval, presser: Caller | None) -> Approval:
        """Execute the tool until one server has confirmed the writes before and after it. Another Redis server may take
        over while the engine works, and may lack the decision or the engine's result. A command of the engine can be
        repeated."""
        tool = self.tools.get(approval.tool)
        if tool is None or tool.effect_place is not EffectPlace.ENGINE or not lease.is_confirmation_needed:
            return await self._execute_tool(lease, approval, presser)
        seq, started = f"kept:{approval.attempts}", self.lifecycle.approvals.build_save_write(approval)
        before = (await lease.checkpoint(seq, started, confirm=True)).server
        while True:
            ended = await self._execute_tool(lease, approval, presser)
            after = (await lease.checkpoint(seq, started, confirm=True)).server
            if after == before:
                return ended
            before = after

    async def _execute_tool(self, lease: Lease, approval: Approval, presser: Caller | None) -> Approval:
        """Run exactly what the card showed, with the values that the pressed button and its dialog add. Nothing runs if
        the lease was lost since the start."""
        tool = self.tools.get(approval.tool)
        if tool is None or tool.stored_args is None or presser is None:
            gone = EffectFailed(failure=TextRef(key="error.gone"), why="The tool or the person is not here any more.")
            return self._end_effect(approval, gone)
        if compute_seal(approval.tool, approval.proposal) != approval.seal:
            why = "The stored arguments are not the shown ones; nothing was run."
            return self._end_effect(approval, EffectFailed(failure=TextRef(key="error.altered"), why=why))

        async def save_part(name: str, state: PartState) -> None:
            changed, effects = transition(approval, PartsChanged(parts.states), self.clock.now())
            await lease.checkpoint(f"part:{name}:{state}", *self.lifecycle.write_effects(changed, effects))

        parts = EffectParts(dict(approval.parts), save_part)  # each part is saved before the tool goes on
        try:
            choice = render.find_choice(approval.proposal, approval.choice)
            args = validate_args(tool.stored_args, merge_args(approval, choice, approval.form))
            await lease.assert_held()
            today = self.clock.today(presser.person.zone)
            # Only a repeatable effect keeps its key when it is done again.
            key = approval.effect_key if tool.is_idempotent else approval.attempt_key
            outside = self.outside if tool.effect_place is EffectPlace.OUTSIDE else None
            context = ToolContext(self.tool_services, presser, today, idempotency_key=key, parts=parts, outside=outside)
            outcome = await tool.run(context, args)
        except ConfirmAgainError:
            raise
        except ToolError as error:
            if error.is_temporary and parts.states and lease.item.tries <= len(self.try_again_s):
                # The card says why. The press comes again by itself and does the parts that are left.
                postponed, effects = transition(approval, PartsChanged(parts.states, error.note), self.clock.now())
                id = f"postponed:{approval.attempt_key}:{lease.item.tries}"
                shown = self.lifecycle.request_refresh(postponed, id)
                await lease.checkpoint("postponed", *self.lifecycle.write_effects(postponed, effects), shown)
                delay_s = self.try_again_s[lease.item.tries - 1]
                raise RetryLater(int(delay_s * 1000), error.text, counts_try=True) from None
            failed = EffectFailed(failure=error.note, why=error.text, possible_change=error.maybe, parts=parts.states)
            return self._end_effect(approval, failed)
        except EffectUnknownError:
            return self._end_effect(approval, EffectLost(parts.states))
        return self._end_effect(approval, EffectSucceeded(outcome, parts.states))

    def _end_effect(self, approval: Approval, end: EffectSucceeded | EffectFailed | EffectLost) -> Approval:
        """Return the approval with the end of its effect. The end is stored once the copies show it."""
        ended = transition(approval, end, self.clock.now())[0]
        metrics.EFFECTS.labels(self._get_tool_label(approval), ended.effect.value).inc()
        return ended

    def _get_tool_label(self, approval: Approval) -> str:
        return approval.tool if approval.tool in _TOOL_NAMES else metrics.OTHER

    async def recover_effect(self, lease: Lease, approval: Approval, click: Click) -> Sequence[Write]:
        """Recover an effect after *failed* or *unknown*: a person confirms that it happened, or has it done again. Both
        make the pressed buttons stale, so that a double press runs the effect only once."""
        if click.choice != "happened":
            retried, _ = transition(approval, EffectRetried(click), self.clock.now())
            return await self.carry_out_effect(lease, retried)
        confirmed, _ = transition(approval, EffectConfirmed(click), self.clock.now())
        return await self.lifecycle.end_approval(lease.item, confirmed)
