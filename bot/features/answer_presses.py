"""Presses on the buttons under an answer: what several features need to handle them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from bot.chat.messages import Click, Message
from bot.conversation.endings import render_result
from bot.core.errors import ChatError
from bot.core.i18n import translate
from bot.core.records import Run, RunStatus
from bot.core.run_state import CallStatus
from bot.core.work_items import MessageReceived
from bot.features.contract import Core
from bot.features.footnotes.feature import add_footnotes
from bot.queue.lanes import RetryLater
from bot.queue.writes import EnqueueItem, Write
from tools.offer_steps.tool import MAX_STEPS, OFFER_STEPS, OfferedStep, OfferStepsArgs
from tools.people.names import get_person_language

END_WAIT_MS = 500
"""Wait of a press until the end of its run is stored (ms)."""


async def load_answered_run(core: Core, click: Click) -> Run | None:
    """Load the run whose answer was pressed. Raises `RetryLater` until the end of the run is stored."""
    run = await core.stores.runs.load_run(click.approval)
    if run is not None and run.status is RunStatus.RUNNING and run.result is not None:
        raise RetryLater(END_WAIT_MS, "the answer is posted and its end not yet stored")
    return run


async def find_press_refusal(core: Core, run: Run | None, click: Click) -> str:
    """Return the code of the refusal of a press that says something in the place of the run's person; empty if the
    press may. Only the latest answer can be pressed, once, and only by the person whom it answers."""
    if await core.platform.directory.find_caller(click.person) is None:
        return "stranger"
    if run is None or run.result is None:
        return "gone"
    if click.person != run.message.person:
        return "not_writer"
    latest = await core.stores.history.load_latest_run(run.message.place.conversation)
    return "anew_stale" if run.retry_press or latest != run.id else ""


async def say_in_place(
    core: Core, run: Run, click: Click, text: str, shown: str, prefix: str, note: str
) -> Sequence[Write]:
    """Put `text` into the conversation as a message of the run's person, once. The answer keeps no button, and
    shows what was chosen. `prefix`: of the message's id. `note`: what the journal keeps, never people's words."""
    message = run.message.model_copy(update={"id": f"{prefix}:{run.id}", "text": text, "unread": 0})
    answered = "\n" + translate("approver.answered", run.language, name=shown)
    return await enqueue_message(core, run, click, message, answered, "run.answered", text=note)


async def enqueue_message(
    core: Core, run: Run, click: Click, message: Message, line: str, kind: str, **about: str
) -> Sequence[Write]:
    """Put a message of the run's person into the conversation, once, without files that are on a request already. The
    pressed answer gets the line in place of its buttons. `kind` and `about`: of the journal record."""
    run.retry_press, place = click.id, message.place
    if click.card is not None and run.result is not None:
        in_channel = not place.direct and click.card.channel == place.channel
        post = render_result(run, run.result, in_channel=in_channel)
        waiting = (await core.stores.runs.load_conversation(place.conversation, core.stores.history)).waiting
        post = await add_footnotes(core, waiting, run, run.result, post, in_channel)
        with contextlib.suppress(ChatError):
            await core.platform.chat.update_message(click.card, replace(post, text=f"{post.text}\n{line}"))
    message = message.model_copy(update={"files": tuple(f for f in message.files if f.id not in run.used_files)})
    lane, about = place.conversation, {"person": click.person, "channel": place.channel, **about}
    return [
        *core.stores.runs.build_save_writes(run),
        EnqueueItem(lane, message.id, MessageReceived(message=message).model_dump_json()),
        core.stores.journal.build_record_write(lane, kind, run=run.id, **about),
    ]


async def tell_presser(core: Core, click: Click, key: str) -> None:
    """Tell the person who pressed a sentence that nobody else reads."""
    text = translate(key, await get_person_language(core.platform.directory, click.person))
    await core.platform.chat.post_ephemeral(click.place, click.person, text)


async def refuse_run_press(core: Core, click: Click, code: str) -> Sequence[Write]:
    """Tell the person privately why their press on an answer does nothing. `code`: of the sentence `refused.…`."""
    await tell_presser(core, click, f"refused.{code}")
    where = {"person": click.person, "channel": click.place.channel}
    return [
        core.stores.journal.build_record_write(click.approval, "run.refused", run=click.approval, text=code, **where)
    ]


def list_offered_steps(run: Run) -> list[OfferedStep]:
    """List the steps that the model has offered in a run, the earliest first."""
    calls = [call for call in run.state.calls if call.tool == OFFER_STEPS.name and call.status is CallStatus.SUCCEEDED]
    return [step for call in calls for step in OfferStepsArgs.model_validate(call.args).steps][:MAX_STEPS]
