"""The hooks of all features together, as the bot calls them."""

from __future__ import annotations

from collections.abc import Sequence

from bot.agent.loop import accept_answer
from bot.agent.tool_executor import RunStep
from bot.chat.messages import Message, Place, Post, SuggestedPrompt
from bot.conversation.turn_context import CommandReply, LoadConversation
from bot.core.history_entries import PausedRun
from bot.core.records import Approval, Run, RunResult
from bot.features.contract import DialogPress, Feature
from bot.features.pages import Home
from bot.queue.writes import AppendHistory, EnqueueItem, Write
from bot.storage.file_keeper import FileKeeper
from bot.storage.history import ConversationHistory
from tools.spec import Caller, Proposal
from tools.workflow.engine.store import OutboxEvent


class Features:
    """All features, by what they add."""

    def __init__(self, features: Sequence[Feature] = ()) -> None:
        self.work = {work.model: work for one in features for work in one.work}
        presses = {choice: press for one in features for choice, press in one.presses.items()}
        self.dialogs = {choice: press for choice, press in presses.items() if isinstance(press, DialogPress)}
        self.presses = {
            choice: press.handle if isinstance(press, DialogPress) else press for choice, press in presses.items()
        }
        self.card_presses = {choice: press for one in features for choice, press in one.card_presses.items()}
        self._answerers = [one.answer_command for one in features if one.answer_command]
        self._complete = [one.complete_answer for one in features if one.complete_answer]
        self._step_writers = [one.build_step_writes for one in features if one.build_step_writes]
        self._followers = [one.follow_event for one in features if one.follow_event]
        self.home = next((one.home for one in features if one.home), Home())
        self.forms = next((one.forms for one in features if one.forms), None)
        self.files = next((one.files for one in features if one.files), FileKeeper())
        self.check_answer = next((one.check_answer for one in features if one.check_answer), accept_answer)
        self.jobs = [job for one in features for job in one.jobs]
        self._prompt_listers = [one.list_prompts for one in features if one.list_prompts]
        self._greeters = [one.greet for one in features if one.greet]
        self._checkers = [one.check_proposal for one in features if one.check_proposal]
        self._answer_writers = [one.build_answer_writes for one in features if one.build_answer_writes]
        self._card_writers = [one.build_card_writes for one in features if one.build_card_writes]

    async def answer_command(self, message: Message, caller: Caller, load: LoadConversation) -> CommandReply | None:
        for answer in self._answerers:
            if reply := await answer(message, caller, load):
                return reply
        return None

    async def complete_answer(
        self, waiting: Sequence[PausedRun], run: Run, result: RunResult, post: Post, is_here: bool
    ) -> Post:
        for complete in self._complete:
            post = await complete(waiting, run, result, post, is_here)
        return post

    def build_step_writes(self, run: Run, step: RunStep) -> list[Write]:
        return [write for build in self._step_writers for write in build(run, step)]

    async def check_proposal(self, waiting: Sequence[PausedRun], run: Run, tool: str, proposal: Proposal) -> None:
        """Raise `ToolError` for a card that is not to come."""
        for check in self._checkers:
            await check(waiting, run, tool, proposal)

    def build_answer_writes(self, run: Run, history: ConversationHistory, added: AppendHistory) -> list[Write]:
        return [write for build in self._answer_writers for write in build(run, history, added)]

    def build_card_writes(self, approval: Approval) -> list[Write]:
        return [write for build in self._card_writers for write in build(approval)]

    async def follow_event(self, event: OutboxEvent) -> None:
        for follow in self._followers:
            await follow(event)

    async def list_prompts(self, person: str) -> list[SuggestedPrompt]:
        return [prompt for list_some in self._prompt_listers for prompt in await list_some(person)]

    async def greet(self, person: str, place: Place) -> list[EnqueueItem]:
        return [item for greet in self._greeters for item in await greet(person, place)]
