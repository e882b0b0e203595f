"""Somebody opens their DM with the bot: what they could write, and, the first time, a welcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.chat.messages import Channel, ChatDirectory, Post, SuggestedPrompt
from bot.core.clock import Clock
from bot.core.i18n import translate
from bot.core.work_items import WelcomePerson
from bot.queue.lanes import Lease
from bot.queue.writes import Write
from bot.storage.history import HistoryStore
from bot.storage.journal import Journal
from bot.storage.welcomes import WelcomeStore
from tools.tool import ToolServices

MAX_PROMPTS = 4
EMPLOYEE_PROMPTS = ("leave", "expense", "requests", "balance")
"""Most wanted first. Sentences `prompt.…`: the title, and `prompt.…_message`: what is written with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcomer:
    chat: Channel
    directory: ChatDirectory
    tool_services: ToolServices
    history: HistoryStore
    welcomes: WelcomeStore
    journal: Journal
    clock: Clock

    async def list_prompts(self, person: str) -> Sequence[SuggestedPrompt]:
        """By language and by what they are: who has something to decide begins with that, administrators see how the
        bot is set."""
        caller = await self.directory.find_caller(person)
        if caller is None:
            return ()
        todo = await self.tool_services.engine.list_todo_tasks(person, self.clock.today(), 1)
        names = [
            *(["tasks"] if todo.total_count else []),
            *(["settings"] if caller.person.is_administrator else []),
            *EMPLOYEE_PROMPTS,
        ]
        language = caller.person.language
        return [
            SuggestedPrompt(translate(f"prompt.{one}", language), translate(f"prompt.{one}_message", language))
            for one in names[:MAX_PROMPTS]
        ]

    async def is_welcome_due(self, lane: str, person: str) -> bool:
        return not await self.welcomes.was_welcomed(lane, person)

    async def welcome_person(self, lease: Lease, work: WelcomePerson) -> Sequence[Write]:
        """Says who this is and what can be asked for. Whoever has talked with the bot before knows."""
        caller = await self.directory.find_caller(work.person)
        if caller is None or await self.welcomes.was_welcomed(lease.lane, work.person):
            return []
        mark = self.welcomes.build_welcome_write(lease.lane, work.person, self.clock.now_ms())
        if any(entry.run for entry in (await self.history.load_history(work.place.conversation)).entries):
            return [mark]
        text = translate("command.welcome", caller.person.language, name=caller.person.name)
        again = lease.item.is_redelivery
        await self.chat.post_message(work.place, Post(text), key=f"welcome:{work.person}", again=again)
        return [
            mark,
            self.journal.build_record_write(
                lease.lane, "notice", person=work.person, channel=work.place.channel, text="command.welcome"
            ),
        ]
