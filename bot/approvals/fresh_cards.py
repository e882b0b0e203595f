"""Replaces a task's card whose record cannot be read, left by an earlier version or edited by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.approvals.delivery import CardDelivery
from bot.chat.messages import ChatDirectory, Click
from bot.core.clock import Clock
from bot.core.i18n import translate
from bot.core.records import OpenCard
from bot.queue.keys import Keys
from bot.queue.lanes import Lease
from bot.queue.writes import Delete, EnqueueItem, Write
from bot.storage.approvals import ApprovalStore, derive_task_card_id
from bot.storage.journal import Journal
from tools.people.names import get_person_language
from tools.spec import Caller, Gate, TextRef
from tools.tasks.todo import DECIDE_TASK, propose_decision
from tools.tool import ToolContext, ToolServices
from tools.workflow.engine.state import TaskKind


async def build_task_card(
    tool_services: ToolServices, keys: Keys, reader: Caller, task: str, clock: Clock, follow_up: TextRef | None = None
) -> OpenCard:
    """Build the card of a task in its current state. Raises ToolError if the task has no card any more."""
    kind = (await tool_services.engine.get_task(task)).task.kind
    return OpenCard(
        approval=derive_task_card_id(keys, task),
        tool=DECIDE_TASK.name,
        gate=Gate.CONFIRM if kind is TaskKind.REVISE else Gate.APPROVE,
        proposal=await propose_decision(ToolContext(tool_services, reader, clock.today()), task),
        caller="",
        place=None,
        follow_up=follow_up,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CardReplacer:
    approvals: ApprovalStore
    card_delivery: CardDelivery
    directory: ChatDirectory
    tool_services: ToolServices
    journal: Journal
    keys: Keys
    clock: Clock

    async def replace_unreadable_card(self, lease: Lease, click: Click) -> Sequence[Write]:
        """Replace a pressed card whose record cannot be read. The press does nothing; the presser is told, and the
        pressed card says so and loses its buttons. A card in a channel keeps them, because somebody else may need them.
        If the card's task waits for the presser, they get a fresh card, and the same commit deletes the old record."""
        presser = await self.directory.find_caller(click.person)
        card = None
        if presser is not None:
            todo = await self.tool_services.engine.list_todo_tasks(presser.id, self.clock.today())
            ids = [one.task.id for one in todo.tasks]
            task = next((one for one in ids if derive_task_card_id(self.keys, one) == click.approval), None)
            card = await build_task_card(self.tool_services, self.keys, presser, task, self.clock) if task else None
        code = "unreadable" if card else "unreadable_gone"
        text = translate(f"refused.{code}", await get_person_language(self.directory, click.person))
        await self.card_delivery.post_ephemeral(click, text)
        if click.card is not None and (card is not None or click.place.direct):
            await self.card_delivery.void_copy(click.card, text)
        journal_write = self.journal.build_record_write(
            click.approval,
            "approval.refused",
            person=click.person,
            channel=click.place.channel,
            text=code,
            approval=click.approval,
            choice=click.choice,
        )
        if card is None:
            return [journal_write]
        body = card.model_dump_json()
        return [
            journal_write,
            Delete(self.approvals.build_approval_key(click.approval)),
            EnqueueItem(click.approval, f"{click.id}:fresh", body),
        ]
