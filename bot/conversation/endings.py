"""The messages that end a run: the answer with its receipt, a stop, the notice of a failure. Each is posted only where
it may be shown: in the conversation, or in the person's DM with a pointer in the conversation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from bot.agent.limits import StopReason
from bot.chat.messages import Message, Place, Post
from bot.chat.platform import Platform
from bot.conversation.turn_context import TurnContext, Turns
from bot.core import logs
from bot.core.disclosure import Disclosure, can_show_in, decide_channel_disclosure
from bot.core.errors import ChatError, ChatRefusedError, PlaceClosedError
from bot.core.i18n import render_receipt_line, translate
from bot.core.records import Run, RunResult
from bot.queue.lanes import LaneItem, Lease
from tools.cards.fields import describe_files
from tools.languages import choose_words
from tools.people.names import get_person_language
from tools.spec import Privacy

log = logs.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryResult:
    """The places where a text was posted."""

    in_conversation: bool
    """Whether the text is in the conversation itself."""
    direct: Place | None = None
    """The DM that the text went to instead. None if the platform has no DM with the person."""
    pointer: str = ""
    """The text that was posted in the conversation instead."""


async def post_run_result(turns: Turns, context: TurnContext, result: RunResult, wait_ms: int | None) -> DeliveryResult:
    """Post the answer, in the conversation if everything that the run has seen may be shown there. Under it stand
    the receipt, the lines of features, and files that led to nothing yet."""
    run, language, keeper = context.run, context.run.language, turns.stores.files.keeper
    place = run.message.place
    here = await can_show_in(turns.platform, place, get_result_privacy(run, result))
    in_channel = here and not place.direct
    post = render_result(run, result, in_channel=in_channel)
    post = await turns.features.complete_answer(context.conversation.waiting, run, result, post, here)
    sent, waiting_files = {one.id for one in run.message.files}, context.conversation.waiting_files
    if left := [one for one in keeper.list_usable_files(run, waiting_files) if one.id in sent]:
        kept = translate("file.kept", language, files=choose_words(describe_files(left), language))
        post = replace(post, receipt="\n".join(filter(None, (post.receipt, kept))))
    where, key, again = (turns.platform, place, run.message.person), f"{run.id}:final", context.is_redelivery
    receipts = (render_receipt(run, in_channel=True), render_receipt(run))
    return await deliver_message(*where, post, is_here=here, key=key, again=again, wait_ms=wait_ms, receipts=receipts)


async def post_failure(turns: Turns, item: LaneItem, message: Message, run: Run | None) -> tuple[str, DeliveryResult]:
    """Post that the message failed every time. Returns the text and the result of its delivery. If the conversation
    takes nothing, the text goes to the DM."""
    text = translate("turn.given_up", await get_person_language(turns.platform.directory, message.person), id=item.id)
    where, key = (turns.platform, message.place, message.person), f"dead:{item.id}"
    privacy, post, is_here, receipts = Privacy.PUBLIC, Post(text), None, ("", "")
    if run is not None:
        result = run.result or RunResult(text=text, stop_reason="given_up")
        text, privacy = result.text, get_result_privacy(run, result)
        is_here = await can_show_in(turns.platform, message.place, privacy)
        post = render_result(run, result, in_channel=is_here and not message.place.direct)
        receipts = (render_receipt(run, in_channel=True), render_receipt(run))
    try:
        return text, await deliver_message(*where, post, is_here=is_here, key=key, again=True, receipts=receipts)
    except ChatError:
        post = replace(post, receipt=post.receipt.replace(*receipts))
        direct = await turns.platform.chat.open_dm(message.person)
        await turns.platform.chat.post_message(direct, post, key=key, again=True)
        elsewhere = None if message.place.direct else direct
        return text, DeliveryResult(in_conversation=privacy is Privacy.PUBLIC, direct=elsewhere)


async def post_notice(
    turns: Turns, lease: Lease, message: Message, text: str, *, key: str, privacy: Privacy = Privacy.PUBLIC
) -> None:
    """Post a sentence of the bot's own. `key`: names the sentence among those about this message. `privacy`:
    privacy of its content."""
    again, key = lease.item.is_redelivery, f"{message.id}:{key}"
    post = Post(text, plain=privacy is not Privacy.PUBLIC)
    is_here = await can_show_in(turns.platform, message.place, privacy)
    await deliver_message(turns.platform, message.place, message.person, post, is_here=is_here, key=key, again=again)


async def end_change_notices(turns: Turns, run: Run, code: str) -> None:
    """Remove the button from the notices about a changed or deleted message, after the run's card has ended."""
    for notice in run.change_notices:
        try:
            await turns.platform.chat.update_message(notice, Post(translate(f"changed.{code}", run.language)))
        except ChatRefusedError as gone:
            log.info("a notice cannot be changed", code=gone.code)


def get_result_privacy(run: Run, result: RunResult) -> Privacy:
    """Return the privacy of a result. A stop is in the bot's own words; an answer may be about everything that the run
    has seen."""
    return Privacy.PUBLIC if result.stop_reason else run.state.privacy


# Delivery


async def deliver_message(
    platform: Platform,
    place: Place,
    person: str,
    post: Post,
    *,
    is_here: bool | None = None,
    key: str,
    again: bool = False,
    wait_ms: int | None = None,
    receipts: tuple[str, str] = ("", ""),
) -> DeliveryResult:
    """Post in the place or in the person's DM. `is_here`: which of them, for a post that depends on it, because the
    readers of a place may change meanwhile; None for a post that everybody may read. `receipts`: for a channel, posted
    with the pointer if the place may show a receipt at all; and for the DM, if the post has to go there after all.
    `key`, `again`, `wait_ms`: as for `Channel.post_message`."""
    if is_here or (is_here is None and await can_show_in(platform, place)):
        try:
            await platform.chat.post_message(place, post, key=key, again=again, wait_ms=wait_ms)
        except PlaceClosedError as closed:
            if place.direct:
                raise
            log.warning("place.closed", channel=place.channel, error=closed.code)
            reason = translate("pointer.closed", await get_person_language(platform.directory, person))
            post = replace(post, text=f"{reason}\n\n{post.text}", receipt=post.receipt.replace(*receipts))
            direct = await _deliver_to_dm(platform, person, post, key, again=again)
            return DeliveryResult(in_conversation=False, direct=direct)
        return DeliveryResult(in_conversation=True)
    direct = await _deliver_to_dm(platform, person, post, key, again=again)
    language = await get_person_language(platform.directory, person)
    pointer = Post(translate("pointer.sent" if direct else "pointer.unreachable", language))
    if receipts[0] and await can_show_in(platform, place, Privacy.OWN):
        pointer = replace(pointer, receipt=receipts[0])
    await platform.chat.post_message(place, pointer, key=f"{key}:pointer", again=again, wait_ms=wait_ms)
    return DeliveryResult(in_conversation=False, direct=direct, pointer=pointer.text)


async def post_pointer(
    platform: Platform, place: Place, person: str, text: str, *, key: str, again: bool = False
) -> None:
    """Post where something is. `text`: the key of a sentence that reveals nothing else."""
    words = translate(text, await get_person_language(platform.directory, person))
    try:
        await platform.chat.post_message(place, Post(words), key=key, again=again)
    except PlaceClosedError as closed:
        log.warning("place.closed", channel=place.channel, error=closed.code)


async def _deliver_to_dm(platform: Platform, person: str, post: Post, key: str, *, again: bool) -> Place | None:
    """Post in the person's DM, and return the DM. None if the platform has no DM with this person."""
    try:
        direct = await platform.chat.open_dm(person)
        await platform.chat.post_message(direct, post, key=key, again=again)
    except ChatRefusedError as failed:
        log.warning("dm.not_reached", person=person, error=failed.code)
        return None
    return direct


# Words


def describe_stop(run: Run, reason: StopReason, renewal: datetime) -> str:
    """Describe why a run stopped, what became of its request, and what the person can do. `renewal`: begin of the next
    day's budget, in their time zone. The text comes from code, not from a model."""
    undone = translate("stopped.undone", run.language)
    if reason is StopReason.BUDGET:
        until = renewal.strftime("%Y-%m-%d %H:%M")
        latest = [call for call in run.state.calls if call.uid.startswith(f"{run.id}:{run.state.steps}:")]
        # Of the card that the run has just waited for, if there was one.
        settled = next((f"share.{call.status.value}" for call in latest if call.approval), "stopped.undone")
        undone = translate("share.anew", run.language, undone=translate(settled, run.language), until=until)
    return translate(f"stopped.{reason.value}", run.language, undone=undone)


def render_result(run: Run, result: RunResult, *, in_channel: bool) -> Post:
    """Render a result with its parts that nothing supports and the receipt. `in_channel`: as for `render_receipt`."""
    text = result.text
    if result.unverified:
        text += "\n\n" + translate("evidence.unverified", run.language, what=" · ".join(result.unverified))
    return Post(text, receipt=render_receipt(run, in_channel=in_channel))


def render_receipt(run: Run, *, in_channel: bool = False) -> str:
    """Render the run's changes, from what the code has recorded. `in_channel`: everybody there reads it, so a private
    change is only mentioned."""
    lines = list[str]()
    for one in run.receipt_lines:
        is_hidden = in_channel and decide_channel_disclosure(one.privacy) is not Disclosure.HERE
        words = translate("receipt.private", run.language) if is_hidden else render_receipt_line(one, run.language)
        lines.append(words)
    effects = " · ".join(dict.fromkeys(lines) if in_channel else lines)
    return translate(f"receipt.{'changed' if effects else 'nothing'}", run.language, effects=effects)
