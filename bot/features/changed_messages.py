"""A message that its writer has changed or deleted while its card is open: the card goes by what was written first, so
they are told under it, and one press has the message read again, or cancels the card."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bot.approvals.lifecycle import cancel_card
from bot.approvals.refusals import refuse_press
from bot.approvals.state import find_refusal
from bot.chat.messages import Button, Click, Message, Post
from bot.core.i18n import translate
from bot.core.records import Approval, ApprovalState, Run
from bot.core.work_items import CHANGED, CancelOpenCard, MessageChanged, MessageReceived
from bot.features.contract import Core, Feature, Work
from bot.queue.lanes import Lease
from bot.queue.writes import EnqueueItem, Write

READ_AGAIN, TAKE_BACK = "read_again", "take_back"
JOURNAL_KINDS = ("message.changed", "message.deleted")


def build(core: Core) -> Feature:
    return Feature(
        work=(Work(model=MessageChanged, handle=partial(notify_writer, core)),),
        presses=dict.fromkeys((READ_AGAIN, TAKE_BACK), partial(handle_press, core)),
    )


async def notify_writer(core: Core, lease: Lease, change: MessageChanged) -> Sequence[Write]:
    """In the lane of the conversation, which the run belongs to. Told once, however often the message is changed."""
    message = change.message
    run, approval = await _find_open_card(core, message)
    if run is None or approval is None:
        return []
    if not change.is_deleted and message.text == (run.changed_message or run.message).text:
        return []
    code, choice = ("deleted", TAKE_BACK) if change.is_deleted else ("changed", READ_AGAIN)
    if change.is_deleted or run.changed_message is None:
        button = Button(translate(f"choice.{choice}", run.language), choice, approval.id, approval.version)
        post = Post(translate(f"changed.{code}", run.language), buttons=(button,))
        place, card = run.message.thread_place, dict(approval.copies).get(run.message.person)
        if card is not None:  # under the card of the run's person
            place = run.dm_place if card.channel != place.channel and run.dm_place is not None else place
            place = place.model_copy(update={"thread": card.ts}) if place.direct else place
        notice = await core.platform.chat.post_message(
            place, post, key=f"{code}:{run.id}", again=lease.item.is_redelivery
        )
        run.change_notices = (*run.change_notices, notice)
    about = {"run": run.id, "person": run.message.person, "channel": message.place.channel}
    journal_write = core.stores.journal.build_record_write(lease.lane, f"message.{code}", **about)
    if not change.is_deleted:
        files = tuple(one for one in message.files if one.id not in run.used_files)  # others are on a request already
        now = {"text": message.text, "unread": message.unread, "files": files}
        run.changed_message = run.message.model_copy(update={"id": f"{CHANGED}{run.id}", **now})
    return [*core.stores.runs.build_save_writes(run), journal_write]


async def _find_open_card(core: Core, message: Message) -> tuple[Run | None, Approval | None]:
    """The paused run of this very message, and its card, while its writer may cancel that."""
    waiting = (await core.stores.runs.load_conversation(message.place.conversation, core.stores.history)).waiting
    for one in waiting:
        if one.person != message.person:
            continue
        run = await core.stores.runs.load_run(one.run)
        approval = await core.stores.approvals.load_approval(one.approval)
        is_open = approval is not None and approval.state is ApprovalState.OPEN and approval.owner == message.person
        if run is not None and run.message.at == message.at and is_open:
            return run, approval
    return None, None


async def handle_press(core: Core, lease: Lease, click: Click) -> Sequence[Write]:
    """In the lane of the card, so that it is decided once: by this press, or by one on the card. The commit that
    cancels the card also hands in the changed message."""
    approval = core.stores.approvals.read_from_lease(lease)
    run = await core.stores.runs.load_run(approval.run) if approval else None
    if approval is None or run is None or (click.choice == READ_AGAIN and run.changed_message is None):
        return await refuse_press(core.cards, lease, click, approval, "gone")
    if click.person != run.message.person or await core.platform.directory.find_caller(click.person) is None:
        return await refuse_press(core.cards, lease, click, approval, "not_writer")
    is_repeated = lease.item.is_redelivery  # then this very press may have cancelled it
    code = "" if is_repeated else find_refusal(approval, approval.version, core.stores.clock.now_ms())
    cancel = CancelOpenCard(approval=approval.id, person=click.person)
    cancelled = [] if code else await cancel_card(core.cards, lease.item, cancel)
    if not cancelled:
        return await refuse_press(core.cards, lease, click, approval, code or "already")
    message = run.changed_message
    if click.choice == TAKE_BACK or message is None:
        return cancelled
    body = MessageReceived(message=message).model_dump_json()
    return [*cancelled, EnqueueItem(message.place.conversation, message.id, body)]
