"""Lines under an answer, beside its receipt: the cards that nobody has pressed, the present state of each request that
the answer names or the run has changed, the calls with consequences that were asked for and led to nothing, and the
people whom a name may mean."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from bot.agent.recall import list_call_results, parse_result_object
from bot.agent.request_numbers import find_requests, normalize_text
from bot.agent.tool_executor import CALL_MISTAKES
from bot.approvals.render import render_person
from bot.chat.messages import ChatDirectory, NamedPeople, Post
from bot.conversation.progress import SUBJECT_MAX, describe_action
from bot.conversation.turn_context import load_open_cards
from bot.core.disclosure import Disclosure, decide_channel_disclosure
from bot.core.history_entries import PausedRun
from bot.core.i18n import load_sentences, render_receipt_line, render_value, translate
from bot.core.records import Run, RunResult
from bot.core.run_state import CallRecord, CallStatus, RunState
from bot.features.contract import Core, Feature
from bot.features.greetings import is_small_talk
from tools.people.identities import identify_people
from tools.people.names import get_person_name
from tools.platform_ids import PERSON_ID
from tools.requests.status import describe_current_states, load_code_words
from tools.spec import Gate, Privacy
from tools.tool import ToolContext

UNDONE_SHOWN, SHORT_VALUE = 3, 30
"""Most undone calls that are named, and most characters of a value by which people recognize one."""
_CODE = re.compile(r"True|False|[a-z][a-z0-9_]*")
"""A value that only programs know, such as `sick` or `approve`."""


def build(core: Core) -> Feature:
    return Feature(complete_answer=partial(add_footnotes, core))


async def add_footnotes(
    core: Core, waiting: Sequence[PausedRun], run: Run, result: RunResult, post: Post, is_here: bool
) -> Post:
    caller, language = await core.platform.directory.find_caller(run.message.person), run.language
    if caller is None:
        return post
    place, lines = run.message.place, [post.receipt]
    is_in_channel = is_here and not place.direct
    if not (run.receipt_lines or is_small_talk(run, result)):  # an answer could say of such a card that it is done
        cards = await load_open_cards(core.stores, run.message, waiting)
        shown = [one.proposal.get_title_for(one.owner) for one in cards if one.place == place or not is_in_channel]
        if titles := " · ".join(render_value(one, language) for one in shown):
            lines.append(translate("receipt.open_cards", language, titles=titles))
    use = ToolContext(core.tool_services, caller, core.stores.clock.today(caller.person.zone))
    calls = zip(run.state.calls, list_call_results(run.state), strict=True)
    changed = [found for call, found in calls if call.approval and call.status is CallStatus.SUCCEEDED]
    states = await describe_current_states(use, find_requests("\n".join([normalize_text(result.text), *changed])))
    hidden = [one for one in Privacy if is_in_channel and decide_channel_disclosure(one) is not Disclosure.HERE]
    if told := " · ".join(render_receipt_line(one, language) for one in states if one.privacy not in hidden):
        lines.append(translate("receipt.now", language, states=told))
    gated_names = [name for name, tool in core.cards.tools.items() if tool.gate is not Gate.NONE]
    if undone := list_undone_calls(run.state, gated_names):
        words, actions = await load_code_words(use, language), list[str]()
        for one in undone[:UNDONE_SHOWN]:
            # Their values may come from anything that the run has seen, and a stop stands in the channel all the same.
            values = () if run.state.privacy in hidden else _list_short_values(one.args, words, language)
            subject = ", ".join(dict.fromkeys(values))[:SUBJECT_MAX]
            action = describe_action(one.tool, language)
            actions.append(translate("receipt.about", language, action=action, subject=subject) if subject else action)
        lines.append(translate("receipt.undone", language, what=" · ".join(actions)))
    asked = () if is_in_channel or result.stop_reason else run.candidates  # a mention in a channel would notify them
    candidates = await render_candidates(core.platform.directory, asked, language)
    return replace(post, receipt="\n".join(filter(None, lines)), people=candidates)


def list_undone_calls(state: RunState, gated_names: Collection[str]) -> list[CallRecord]:
    """Return gated calls that were asked for, and neither run nor asked for again. Calls that were only made wrongly or
    that wait for the person's words are left out."""
    undone = list[CallRecord]()
    for call, result in zip(state.calls, list_call_results(state), strict=True):
        if call.tool not in gated_names:
            continue
        if call.approval or call.status is not CallStatus.FAILED:
            alike = [one for one in undone if one.tool == call.tool]
            again = next((one for one in alike if one.args == call.args), next(iter(alike), None))
            undone = [one for one in undone if one is not again]
            continue
        error = parse_result_object(result)
        code = error.get("error")
        is_left = code == "one_at_a_time" or not (code in CALL_MISTAKES or error.get("ask_the_person"))
        if is_left and all((one.tool, one.args) != (call.tool, call.args) for one in undone):
            undone.append(call)
    return undone


def _list_short_values(value: Any, words: Mapping[str, str], language: str) -> Iterator[str]:
    """List the values by which people recognize a call: its days, figures and names, and codes that have words."""
    if isinstance(value, dict):
        for one in value.values():
            yield from _list_short_values(one, words, language)
    elif isinstance(value, str | int | float):
        text = " ".join(str(value).split())
        if text in words or f"choice.{text}" in load_sentences():
            yield words.get(text) or translate(f"choice.{text}", language)
        elif text and len(text) <= SHORT_VALUE and not (PERSON_ID.fullmatch(text) or _CODE.fullmatch(text)):
            yield text


async def render_candidates(directory: ChatDirectory, people: Sequence[str], language: str) -> NamedPeople | None:
    """Render the people whom a name may mean, with details that they cannot choose themselves. Returns None if there
    are none."""
    if not people:
        return None
    candidates = []
    for identity in (await identify_people(directory, people)).people:
        person = await directory.find_person(identity.id)
        manager = await get_person_name(directory, person.manager, language) if person and person.manager else ""
        led_by = translate("card.manager_is", language, name=manager) if manager else ""
        details = filter(None, [person.department if person else "", led_by])
        candidates.append(render_person(identity, language, *details))
    return NamedPeople(tuple(candidates), translate("card.candidates", language))
