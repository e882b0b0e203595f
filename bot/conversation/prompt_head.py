"""The head of the prompt: everything the model reads before the run's own messages."""

from __future__ import annotations

from dataclasses import dataclass

from bot.agent import prompt
from bot.agent.grounding.sources import GroundingSources
from bot.agent.loop import AgentLoop
from bot.agent.recall import format_history
from bot.agent.situation import RunSituation
from bot.chat.messages import ChatDirectory
from bot.conversation.turn_context import TurnContext
from bot.core.clock import Clock
from bot.core.history_entries import PausedRun
from bot.core.records import Run
from tools.tool import ToolServices


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptHeadBuilder:
    directory: ChatDirectory
    tool_services: ToolServices
    loop: AgentLoop
    clock: Clock
    company_rules: str = ""
    """The company's additions to the rules (`prompt.render_company_rules`)."""

    async def build_prompt_head(self, context: TurnContext) -> tuple[list[str], GroundingSources]:
        """Rules, server tools, person, history, situation: the parts that change last come last. As JSON in few pieces,
        because every step sends it. Also returns what of it may support an answer."""
        run, person, situation = context.run, context.caller.person, self._build_situation(context)
        manager = await self.directory.find_person(person.manager) if person.manager else None
        fields, reply_format = prompt.build_facts_message(person, manager), self.loop.get_reply_format(run.state)
        run.state.style = reply_format.name
        messages = context.conversation.history.list_messages_with_calls(without=run.id)
        history = format_history(messages, reply_format)
        server_tools = self.loop.describe_server_tools(run.state)
        tools = [prompt.build_tools_message(server_tools)] if server_tools else []
        rules = prompt.dump_system_message(self.loop.render_instructions(run.state), self.company_rules)
        start, end = (prompt.dump_messages(some) for some in ([*tools, fields], situation.messages))
        sources = GroundingSources(
            [self.company_rules, *situation.grounding_texts, fields["content"]],
            messages,
            self.directory.list_people,
            has_card=bool(situation.cards),
            days=situation.days,
        )
        return [rules, *start, *([",".join(history)] if history else []), *end], sources

    def _build_situation(self, context: TurnContext) -> RunSituation:
        run, caller = context.run, context.caller
        return RunSituation(
            caller=caller,
            now=self.clock.today(caller.person.zone),
            now_ms=self.clock.now_ms(),
            calendar=self.tool_services.calendar,
            direct=run.message.place.direct,
            cards=[one for one in context.conversation.waiting if _is_own_card(one, run)],
        )


def _is_own_card(one: PausedRun, run: Run) -> bool:
    """True for a card from another run that this run's person waits for."""
    is_own = one.person == run.message.person if one.person else run.message.place.direct
    return is_own and one.run != run.id
