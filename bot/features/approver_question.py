"""Buttons for the question *Who shall approve?* If an answer in a DM ends with it, the person's manager stands under
the answer as a button and everybody else behind a picker. A press says the name in the person's place, as a mention. A
press decides nothing, and the card still shows who was meant."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from bot.chat.messages import Button, ChatDirectory, Click, PersonPicker, Post
from bot.core.errors import ChatError
from bot.core.i18n import translate
from bot.core.records import Run, RunResult
from bot.core.work_items import MessageReceived
from bot.features.contract import Core, Feature
from bot.queue.lanes import Lease
from bot.queue.writes import EnqueueItem, Write
from tools.people.names import choose_name
from tools.spec import Person

MANAGER_CHOICE, PICKER_CHOICE = "approver_manager", "approver_person"
_ASKED = re.compile(r"审批人|谁(?:来)?审批|approver|who (?:should|will|can|is to) approve", re.IGNORECASE)
_END_CHARACTERS = 160
"""How far from the end of an answer its question stands."""
_QUESTION_ENDS = ("?", "？", ")", "）")


def build(core: Core) -> Feature:
    presses = dict.fromkeys((MANAGER_CHOICE, PICKER_CHOICE), partial(answer_question, core))
    return Feature(presses=presses, complete_answer=partial(add_choices, core.directory))


def asks_for_approver(run: Run, result: RunResult) -> bool:
    """Whether an answer ends with the question who shall approve."""
    said = result.text.rstrip()
    is_question = said.endswith(_QUESTION_ENDS) and any(mark in said[-_END_CHARACTERS:] for mark in "?？")
    is_here = run.message.place.direct and not result.stop_reason and not run.receipt_lines
    return is_here and is_question and _ASKED.search(said[-_END_CHARACTERS:]) is not None


async def add_choices(directory: ChatDirectory, run: Run, result: RunResult, post: Post, is_here: bool) -> Post:
    if not is_here or not asks_for_approver(run, result):
        return post
    picker = PersonPicker(
        label=translate("approver.somebody_else", run.language), choice=PICKER_CHOICE, approval=run.id, version=1
    )
    manager = await _find_manager(directory, run.message.person)
    if manager is None:
        return replace(post, picker=picker)
    label = translate("approver.manager", run.language, name=choose_name(manager, run.language))
    button = Button(label=label, choice=MANAGER_CHOICE, approval=run.id, version=1, style="primary")
    return replace(post, buttons=(*post.buttons, button), picker=picker)


async def _find_manager(directory: ChatDirectory, person: str) -> Person | None:
    """The manager, if they can be asked and are not the person themselves."""
    found = await directory.find_person(person)
    manager = await directory.find_person(found.manager) if found and found.manager else None
    return manager if manager and manager.active and manager.id != person else None


async def answer_question(core: Core, lease: Lease, click: Click) -> Sequence[Write]:
    """Puts the pressed name into the conversation as a message of its person, once."""
    run = await core.load_answered_run(click)
    chosen = await _find_chosen_person(core, run, click)
    if run is None or isinstance(chosen, str):
        return await core.refuse_run_press(click, str(chosen))
    run.retry_press = click.id
    message = run.message.model_copy(update={"id": f"approver:{run.id}", "text": f"<@{chosen.id}>", "unread": 0})
    if click.card is not None and run.result is not None:  # the question keeps no button that has done its work
        answered = translate("approver.answered", run.language, name=choose_name(chosen, run.language))
        with contextlib.suppress(ChatError):
            await core.chat.update_message(click.card, Post(f"{run.result.text}\n\n{answered}"))
    lane, channel = message.place.conversation, message.place.channel
    return [
        *core.runs.build_save_writes(run),
        EnqueueItem(lane, message.id, MessageReceived(message=message).model_dump_json()),
        core.journal.build_record_write(
            lane, "run.answered", run=run.id, person=click.person, channel=channel, text=chosen.id
        ),
    ]


async def _find_chosen_person(core: Core, run: Run | None, click: Click) -> Person | str:
    """The person whom a press names, or the code of the refusal."""
    if await core.directory.find_caller(click.person) is None:
        return "stranger"
    if run is None or run.result is None or not asks_for_approver(run, run.result):
        return "gone"
    if click.person != run.message.person:
        return "not_writer"
    if run.retry_press or await core.history.load_latest_run(run.message.place.conversation) != run.id:
        return "anew_stale"
    found = (
        await _find_manager(core.directory, click.person)
        if click.choice == MANAGER_CHOICE
        else await core.directory.find_person((click.form or {}).get("person", ""))
    )
    return found if found and found.active and found.id != click.person else "not_an_approver"
