"""Handles messages that need no model: messages from strangers, commands, empty and overlong messages, and messages
that only agree. Such a message is no press: while a card of its author is open, code answers where the card is and what
its button does."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bot.chat.messages import Message
from bot.conversation.endings import post_notice
from bot.conversation.run_recorder import build_journal_write
from bot.conversation.stops import answer_written_stop, is_stop
from bot.conversation.turn_context import CommandReply, TurnContext, Turns, load_open_cards
from bot.core.i18n import render_value, translate
from bot.queue.lanes import Lease
from bot.queue.writes import Write
from bot.storage.file_keeper import TakenFiles
from tools.cards.fields import describe_files
from tools.languages import choose_words
from tools.people.names import format_people_names
from tools.spec import Caller, Privacy

TEXT_MAX = 12_000
"""Longest message, in characters."""
MAX_LENGTH = 60
"""Longest message that only agrees, in characters."""
_YES_WORDS = (
    "yes|yeah|yep|yup|ok|okay|sure|fine|correct|right|confirm|confirmed|agree|agreed|approve|approved|submit|proceed|"
    "go ahead|do it|send it|lgtm|sounds good|looks good|of course|absolutely|definitely"
)
_YES_SIGNS = (
    "好|行|可以|没问题|没错|对|是|嗯|确认|同意|批准|提交|发送|发吧|发出去|办吧|就这样|当然|通过吧|"
    r":\+1:|:thumbsup:|:ok_hand:|:ok:|:white_check_mark:|:heavy_check_mark:|[👍👌✅🆗✔]"
)
_WORDS = "please|it|that|this|them|all|both|now|i|do|very|thanks|thank you|great|perfect|good|go|send"
_SIGNS = (
    "的|吧|了|啊|呀|哦|就|那|请|麻烦|您|你|帮我|一下|谢谢|直接|现在|都|它|这个|发|办|去|"
    r":skin-tone-[2-6]:|[\U0001f3fb-\U0001f3ff\ufe0f\s,，.。!！~～、]++"
)
_YES = rf"(?<![a-z])(?:{_YES_WORDS})(?![a-z])|{_YES_SIGNS}"
_AGREEMENT = re.compile(rf"(?:{_YES}|(?<![a-z])(?:{_WORDS})(?![a-z])|{_SIGNS})++", re.IGNORECASE)
_HAS_YES = re.compile(_YES, re.IGNORECASE)


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
    answer = await turns.features.answer_command(message, caller)
    if is_stop(message.text):
        answer = CommandReply("stop", await answer_written_stop(turns, message.place, caller, message.at))
    if answer is not None:
        await post_notice(turns, lease, message, answer.text, key="command")
        writes = [*answer.writes, build_journal_write(turns, message, "command", text=answer.command)]
    elif message.unread or len(message.text) > TEXT_MAX:
        length = message.unread or len(message.text)
        text = translate("turn.too_long", language, length=length, most=TEXT_MAX)
        await post_notice(turns, lease, message, text, key="long")
        writes = [build_journal_write(turns, message, "message.too_long")]
    elif not message.text.strip() and not files.kept:
        await post_notice(turns, lease, message, translate("turn.empty", language), key="empty")
        writes = [build_journal_write(turns, message, "message.empty")]
    if writes is not None and files.kept:
        text = translate("file.kept", language, files=choose_words(describe_files(files.kept), language))
        await post_notice(turns, lease, message, text, key="kept", privacy=Privacy.OWN_TEXT)
    return writes


def is_agreement(text: str) -> bool:
    """Whether the message says yes, and nothing else."""
    return len(text) <= MAX_LENGTH and _AGREEMENT.fullmatch(text) is not None and _HAS_YES.search(text) is not None


async def answer_agreement(turns: Turns, context: TurnContext) -> Sequence[Write] | None:
    """Answer a message that only agrees, and return its writes. Returns None for any other message, and if no card
    of its author is open."""
    message, run, language = context.run.message, context.run, context.run.language
    if run.state.calls or message.files or not is_agreement(message.text):
        return None
    opened = await load_open_cards(turns, context)
    if not opened:
        return None
    lines = list[str]()
    for one in opened:
        title = render_value(one.proposal.get_title_for(context.caller.id), language)
        if context.caller.id not in one.proposal.deciders:
            who = choose_words(await format_people_names(turns.platform.directory, one.proposal.deciders), language)
            lines.append(translate("agreed.theirs", language, title=title, who=who))
            continue
        key = "agreed.here" if one.place == message.place else "agreed.direct"
        button = translate(f"choice.{one.proposal.choices[0].name}", language)
        lines.append(translate(key, language, title=title, button=button))
    text = "\n".join(lines)
    await post_notice(turns, context.lease, message, text, key="agreed", privacy=Privacy.OWN_TEXT)
    return [build_journal_write(turns, message, "message.agreed", approval=opened[-1].id)]
