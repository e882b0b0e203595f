"""Handles messages that need no model: messages from strangers, commands, empty and overlong messages."""

from __future__ import annotations

from collections.abc import Sequence

from bot.chat.messages import Message
from bot.conversation.commands import answer_command
from bot.conversation.endings import post_notice
from bot.conversation.run_recorder import build_journal_write
from bot.conversation.turn_context import Turns
from bot.core.i18n import translate
from bot.queue.lanes import Lease
from bot.queue.writes import Write
from bot.storage.file_keeper import TakenFiles
from tools.cards.fields import describe_files
from tools.languages import choose_words
from tools.spec import Caller, Privacy

TEXT_MAX = 12_000
"""Longest message, in characters."""


async def refuse_stranger(turns: Turns, lease: Lease, message: Message) -> Sequence[Write]:
    """Tell guests that they are not served, where that disturbs nobody else."""
    person = await turns.platform.directory.find_person(message.person)
    if person is not None and message.place.direct:
        text = translate("turn.stranger", person.language)
        await post_notice(turns, lease, message, text, key="stranger")
    why = "not a member who can be served"
    return [build_journal_write(turns, message, "message.ignored", text=why)]


async def answer_without_model(
    turns: Turns, lease: Lease, message: Message, caller: Caller, files: TakenFiles
) -> Sequence[Write] | None:
    """Answer a message by code alone. Returns None if the message needs the model. `files`: outcomes of the
    message's files; the kept ones are named here too."""
    language = caller.person.language
    if files.refused and not files.kept and not message.text.strip():  # the person was told why
        return [build_journal_write(turns, message, "message.empty")]
    writes: Sequence[Write] | None = None
    if (answer := await answer_command(turns, message, caller)) is not None:
        await post_notice(turns, lease, message, answer.text, key="command")
        writes = [*answer.writes, build_journal_write(turns, message, "command", text=answer.command)]
    elif message.unread:
        writes = await _refuse_long_message(turns, lease, message, message.unread, language)
    elif not message.text.strip() and not files.kept:
        await post_notice(turns, lease, message, translate("turn.empty", language), key="empty")
        writes = [build_journal_write(turns, message, "message.empty")]
    elif len(message.text) > TEXT_MAX:
        writes = await _refuse_long_message(turns, lease, message, len(message.text), language)
    if writes is not None and files.kept:
        text = translate("file.kept", language, files=choose_words(describe_files(files.kept), language))
        await post_notice(turns, lease, message, text, key="kept", privacy=Privacy.OWN_TEXT)
    return writes


async def _refuse_long_message(
    turns: Turns, lease: Lease, message: Message, length: int, language: str
) -> Sequence[Write]:
    text = translate("turn.too_long", language, length=length, most=TEXT_MAX)
    await post_notice(turns, lease, message, text, key="long")
    return [build_journal_write(turns, message, "message.too_long")]
