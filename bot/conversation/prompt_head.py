"""The head of the prompt: everything that the model reads before the run's own messages."""

from __future__ import annotations

from dataclasses import replace

from bot.agent import prompt
from bot.agent.events import AnswerSources
from bot.agent.prompt import RunSituation
from bot.agent.recall import format_history, name_offered_call
from bot.conversation.turn_context import TurnContext, Turns
from bot.core.history_entries import PausedRun
from tools.requests.processes import START_PROCESS


async def build_prompt_head(turns: Turns, context: TurnContext) -> tuple[list[str], AnswerSources]:
    """Build rules, server tools, person, history and situation, with the most variable parts last. The head is JSON
    in few pieces, because every step sends it. Also returns the sources in it that may support an answer."""
    run, caller, person = context.run, context.caller, context.caller.person
    now, now_ms, cards = turns.stores.clock.today(person.zone), turns.stores.clock.now_ms(), list[PausedRun]()
    for card in context.conversation.waiting:
        if card.run == run.id or not card.is_of(run.message.person, direct=run.message.place.direct):
            continue
        waiting_run = await turns.stores.runs.load_run(card.run) if card.tool == START_PROCESS.name else None
        if waiting_run is not None and waiting_run.requested_card is not None:
            args = waiting_run.requested_card.proposal.args  # named by the call that models are offered
            card = replace(card, tool=name_offered_call(turns.loop.executor.find_tool, card.tool, args)[0])
        cards.append(card)
    calendar, direct = turns.tool_services.calendar, run.message.place.direct
    situation = RunSituation(caller=caller, now=now, now_ms=now_ms, calendar=calendar, direct=direct, cards=cards)
    manager = await turns.platform.directory.find_person(person.manager) if person.manager else None
    fields, reply_format = prompt.build_facts_message(person, manager), turns.loop.get_reply_format(run.state)
    run.state.style = reply_format.name
    messages = context.conversation.history.list_messages(without=run.id)
    history = format_history(messages, reply_format)
    sheet = turns.loop.get_tool_prompt(run.state)
    tools = [prompt.build_tools_message(sheet.server_tools)] if sheet.server_tools else []
    rules = prompt.dump_system_message(sheet.instructions, turns.company_rules)
    start, end = (prompt.dump_messages(some) for some in ([*tools, fields], situation.messages))
    facts = [turns.company_rules, *situation.fact_texts, fields["content"]]
    sources = AnswerSources(facts=facts, history=messages, days=situation.days)
    return [rules, *start, *([",".join(history)] if history else []), *end], sources
