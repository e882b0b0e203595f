"""The messages that end a run: the answer, the notice of a failure. Each is posted only where it may be
shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bot.approvals.render import render_candidates
from bot.chat.messages import Message, Post
from bot.conversation.progress import render_current_states, render_open_cards, render_receipt, render_run_result
from bot.conversation.reply import DeliveryResult, can_show_in, deliver_message
from bot.conversation.turn_context import Turns
from bot.core import logs
from bot.core.errors import ChatError, ChatRefusedError
from bot.core.i18n import translate
from bot.core.records import Approval, Run, RunResult
from bot.queue.lanes import LaneItem, Lease
from tools.people.names import get_person_language
from tools.spec import Privacy, ReceiptLine

log = logs.get_logger(__name__)


async def post_notice(
    turns: Turns, lease: Lease, message: Message, text: str, *, key: str, privacy: Privacy = Privacy.PUBLIC
) -> None:
    """Post a sentence of the bot's own. `key`: names the sentence among those about this message. `privacy`:
    privacy of its content."""
    again, key = lease.item.is_redelivery, f"{message.id}:{key}"
    post = Post(text, plain=privacy is not Privacy.PUBLIC)
    await deliver_message(turns.platform, message.place, message.person, post, privacy, key=key, again=again)


async def end_change_notices(turns: Turns, run: Run, code: str) -> None:
    """Remove the button from the notices about a changed or deleted message, after the run's card has ended."""
    for notice in run.change_notices:
        try:
            await turns.platform.chat.update_message(notice, Post(translate(f"changed.{code}", run.language)))
        except ChatRefusedError as gone:
            log.info("a notice cannot be changed", code=gone.code)


async def post_run_result(
    turns: Turns,
    run: Run,
    result: RunResult,
    *,
    again: bool,
    wait_ms: int | None,
    states: Sequence[ReceiptLine],
    cards: Sequence[Approval],
    notes: Sequence[str],
) -> DeliveryResult:
    """Post the answer, in the conversation if everything that the run has seen may be shown there. Under it stand
    the receipt, `states` (of requests, now), `cards` (those that nobody has pressed) and `notes` (sentences)."""
    place, privacy, key = run.message.place, get_result_privacy(run, result), f"{run.id}:final"
    here, aside = await can_show_in(turns.platform, place, privacy), render_receipt(run, in_channel=True)
    in_channel = here and not place.direct
    asked = () if in_channel or result.stop_reason else run.candidates  # a mention in a channel would notify them
    candidates = await render_candidates(turns.platform.directory, asked, run.language)
    post = render_run_result(run, result, candidates, in_channel=in_channel)
    post = await turns.features.complete_answer(run, result, post, here)
    now = render_current_states(states, run.language, in_channel=in_channel)
    opened = render_open_cards([one for one in cards if one.place == place or not in_channel], run.language)
    more = (post.receipt, now, opened, *notes)
    post = replace(post, receipt="\n".join(filter(None, more)))
    return await deliver_message(
        turns.platform, place, run.message.person, post, privacy, key=key, again=again, wait_ms=wait_ms, receipt=aside
    )


async def post_failure(turns: Turns, item: LaneItem, message: Message, run: Run | None) -> tuple[str, DeliveryResult]:
    """Post that the message failed every time. Returns the text and the result of its delivery. If the conversation
    takes nothing, the text goes to the DM."""
    text = translate("turn.given_up", await get_person_language(turns.platform.directory, message.person), id=item.id)
    privacy, key = Privacy.PUBLIC, f"dead:{item.id}"
    if run is not None and run.result is not None:
        text, privacy = run.result.text, get_result_privacy(run, run.result)
    post = Post(text, receipt=render_receipt(run, in_channel=not message.place.direct) if run else "")
    try:
        return text, await deliver_message(
            turns.platform, message.place, message.person, post, privacy, key=key, again=True
        )
    except ChatError:
        direct = await turns.platform.chat.open_dm(message.person)
        await turns.platform.chat.post_message(direct, post, key=key, again=True)
        return text, DeliveryResult(
            in_conversation=privacy is Privacy.PUBLIC, direct=None if message.place.direct else direct
        )


def get_result_privacy(run: Run, result: RunResult) -> Privacy:
    """Return the privacy of a result. A stop is in the bot's own words; an answer may be about everything that the run
    has seen."""
    return Privacy.PUBLIC if result.stop_reason else run.state.privacy
