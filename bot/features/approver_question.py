"""Buttons for the question *Who shall approve?* If an answer in a DM ends with it, the person's manager stands under
the answer as a button and everybody else behind a picker. A press says the name in the person's place, as a mention. A
press decides nothing, and the card still shows who was meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from bot.chat.messages import Button, ChatDirectory, Click, PersonPicker, Post
from bot.core.i18n import translate
from bot.core.records import Run, RunResult
from bot.features.answer_presses import find_press_refusal, load_answered_run, refuse_run_press, say_in_place
from bot.features.contract import Core, Feature
from bot.queue.lanes import Lease
from bot.queue.writes import Write
from tools.people.names import choose_name
from tools.spec import Person

MANAGER_CHOICE, PICKER_CHOICE = "approver_manager", "approver_person"
_ASKED = re.compile(r"审批人|谁(?:来)?审批|approver|who (?:should|will|can|is to) approve", re.IGNORECASE)
_END_CHARACTERS = 160
"""How far from the end of an answer its question stands."""
_QUESTION_ENDS = ("?", "？", ")", "）")


def build(core: Core) -> Feature:
    presses = dict.fromkeys((MANAGER_CHOICE, PICKER_CHOICE), partial(answer_question, core))
    return Feature(presses=presses, complete_answer=partial(add_choices, core.platform.directory))


def asks_for_approver(run: Run, result: RunResult) -> bool:
    """Whether an answer ends with the question who shall approve."""
    said = result.text.rstrip()
    is_question = said.endswith(_QUESTION_ENDS) and any(mark in said[-_END_CHARACTERS:] for mark in "?？")
    is_here = run.message.place.direct and not result.stop_reason and not run.receipt_lines
    return is_here and is_question and _ASKED.search(said[-_END_CHARACTERS:]) is not None


async def add_choices(
    directory: ChatDirectory, _: object, run: Run, result: RunResult, post: Post, is_here: bool
) -> Post:
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
    run = await load_answered_run(core, click)
    refusal = await find_press_refusal(core, run, click)
    if run is None or refusal or run.result is None or not asks_for_approver(run, run.result):
        return await refuse_run_press(core, click, refusal or "gone")
    found = (
        await _find_manager(core.platform.directory, click.person)
        if click.choice == MANAGER_CHOICE
        else await core.platform.directory.find_person((click.form or {}).get("person", ""))
    )
    if found is None or not found.active or found.id == click.person:
        return await refuse_run_press(core, click, "not_an_approver")
    name = choose_name(found, run.language)
    return await say_in_place(core, run, click, f"<@{found.id}>", name, "approver", found.id)
