"""The *Try again* button on a stop message: runs the same message once more, in a new run, once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from bot.chat.messages import Button, Click, Post
from bot.core.i18n import translate
from bot.core.records import Run, RunResult, RunStatus
from bot.features.answer_presses import enqueue_message, load_answered_run, refuse_run_press
from bot.features.contract import Core, Feature
from bot.queue.lanes import Lease
from bot.queue.writes import Write

CHOICE = "anew"
JOURNAL_KINDS = ("run.anew",)


def build(core: Core) -> Feature:
    return Feature(presses={CHOICE: partial(retry_message, core)}, complete_answer=add_button)


async def add_button(_: object, run: Run, result: RunResult, post: Post, is_here: bool) -> Post:
    if not result.stop_reason:
        return post
    button = Button(label=translate("choice.retry", run.language), choice=CHOICE, approval=run.id, version=1)
    return replace(post, buttons=(*post.buttons, button))


async def retry_message(core: Core, lease: Lease, click: Click) -> Sequence[Write]:
    """Runs the message again. Refuses everybody but its author, and refuses once the conversation has gone on."""
    run = await load_answered_run(core, click)
    if await core.platform.directory.find_caller(click.person) is None:
        return await refuse_run_press(core, click, "stranger")
    latest = await core.stores.history.load_latest_run(run.message.place.conversation) if run else ""
    refusal = find_refusal(run, click.person, latest)
    if run is None or refusal:
        return await refuse_run_press(core, click, refusal)
    message = run.message.model_copy(update={"id": f"anew:{run.id}"})
    return await enqueue_message(core, run, click, message, translate("stopped.anew", run.language), "run.anew")


def find_refusal(run: Run | None, person: str, latest: str) -> str:
    """Why this person may not retry the message of this run; empty: they may. `latest`: the last run of the
    conversation. A person who has written something since then has moved on and gets no retry."""
    if run is None or run.status is not RunStatus.STOPPED:
        return "gone"
    if run.retry_press:
        return "anew_already"
    if latest != run.id:
        return "anew_stale"
    return "" if person == run.message.person else "not_writer"
