"""Handles messages that need no model: messages from strangers, commands, empty and overlong messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.chat.messages import ChatDirectory, Message
from bot.conversation.commands import CommandHandler
from bot.conversation.endings import RunReplies
from bot.conversation.run_recorder import RunRecorder
from bot.core.i18n import translate
from bot.queue.lanes import Lease
from bot.queue.writes import Write
from bot.storage.file_keeper import TakenFiles
from tools.cards.files import describe_files
from tools.languages import choose_words
from tools.spec import Caller, Privacy

TEXT_MAX = 12_000
"""Longest message, in characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTriage:
    directory: ChatDirectory
    commands: CommandHandler
    replies: RunReplies
    run_recorder: RunRecorder

    async def refuse_stranger(self, lease: Lease, message: Message) -> Sequence[Write]:
        """Tell guests that they are not served, where that disturbs nobody else."""
        person = await self.directory.find_person(message.person)
        if person is not None and message.place.direct:
            text = translate("turn.stranger", person.language)
            await self.replies.post_notice(lease, message, text, key="stranger")
        why = "not a member who can be served"
        return [self.run_recorder.build_journal_write(message, "message.ignored", text=why)]

    async def answer_without_model(
        self, lease: Lease, message: Message, caller: Caller, files: TakenFiles
    ) -> Sequence[Write] | None:
        """Answer a message by code alone. Returns None if the message needs the model. `files`: outcomes of the
        message's files; the kept ones are named here too."""
        language = caller.person.language
        if files.refused and not files.kept and not message.text.strip():  # the person was told why
            return [self.run_recorder.build_journal_write(message, "message.empty")]
        writes: Sequence[Write] | None = None
        if (answer := await self.commands.answer_command(message, caller)) is not None:
            await self.replies.post_notice(lease, message, answer.text, key="command")
            writes = [*answer.writes, self.run_recorder.build_journal_write(message, "command", text=answer.command)]
        elif message.unread:
            writes = await self._refuse_long_message(lease, message, message.unread, language)
        elif not message.text.strip() and not files.kept:
            await self.replies.post_notice(lease, message, translate("turn.empty", language), key="empty")
            writes = [self.run_recorder.build_journal_write(message, "message.empty")]
        elif len(message.text) > TEXT_MAX:
            writes = await self._refuse_long_message(lease, message, len(message.text), language)
        if writes is not None and files.kept:
            text = translate("file.kept", language, files=choose_words(describe_files(files.kept), language))
            await self.replies.post_notice(lease, message, text, key="kept", privacy=Privacy.OWN_TEXT)
        return writes

    async def _refuse_long_message(self, lease: Lease, message: Message, length: int, language: str) -> Sequence[Write]:
        text = translate("turn.too_long", language, length=length, most=TEXT_MAX)
        await self.replies.post_notice(lease, message, text, key="long")
        return [self.run_recorder.build_journal_write(message, "message.too_long")]
