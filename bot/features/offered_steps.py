"""Buttons under an answer for the steps that the model has offered (`offer_steps`): a form that opens filled in, or a
sentence that a press says in its person's place. A press decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from bot.chat.messages import OPEN_FORM, Button, Click, Post
from bot.core.i18n import translate
from bot.core.records import Run, RunResult
from bot.features.answer_presses import (
    find_press_refusal,
    list_offered_steps,
    load_answered_run,
    refuse_run_press,
    say_in_place,
)
from bot.features.contract import Core, Feature
from bot.queue.lanes import Lease
from bot.queue.writes import Write
from tools.languages import choose_words
from tools.offer_steps.tool import MAX_STEPS, TOOL_FORMS

SAY = "say_"
"""Beginning of the choices that say a sentence; the step's number follows."""


def build(core: Core) -> Feature:
    presses = dict.fromkeys([f"{SAY}{number}" for number in range(MAX_STEPS)], partial(say_step, core))
    return Feature(presses=presses, complete_answer=partial(add_buttons, core))


async def add_buttons(core: Core, _: object, run: Run, result: RunResult, post: Post, is_here: bool) -> Post:
    steps = list_offered_steps(run)
    if not steps or result.stop_reason:
        return post
    processes = await core.tool_services.engine.list_processes()
    names = {one.key: choose_words(one.form.title, run.language) for one in processes}
    names = {**{one: translate(f"offer.{one}", run.language) for one in TOOL_FORMS}, **names}
    buttons = list[Button]()
    for number, step in enumerate(steps):
        if step.say and not is_here:
            continue
        choice = f"{SAY}{number}" if step.say else f"{OPEN_FORM}{number}"
        if label := step.say or (step.form in names and translate("offer.form", run.language, name=names[step.form])):
            buttons.append(Button(label=label, choice=choice, approval=run.id, version=1))
    return replace(post, buttons=(*post.buttons, *buttons))


async def say_step(core: Core, lease: Lease, click: Click) -> Sequence[Write]:
    """Puts the offered sentence into the conversation as a message of its person, once."""
    run = await load_answered_run(core, click)
    refusal = await find_press_refusal(core, run, click)
    steps, number = list_offered_steps(run) if run else [], int(click.choice.removeprefix(SAY))
    if run is None or refusal or number >= len(steps) or not steps[number].say:
        return await refuse_run_press(core, click, refusal or "gone")
    return await say_in_place(core, run, click, steps[number].say, steps[number].say, "said", click.choice)
