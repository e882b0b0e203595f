"""Answers a message that only agrees while a card of its author is open. Such a message is no press: code answers where
the card is and what its button does."""

from __future__ import annotations

import re
from functools import partial

from bot.chat.messages import Message
from bot.conversation.turn_context import CommandReply, LoadConversation, load_open_cards
from bot.core.i18n import render_value, translate
from bot.features.contract import Core, Feature
from tools.languages import choose_words
from tools.people.names import format_people_names
from tools.spec import Caller, Privacy

JOURNAL_KINDS = ("message.agreed",)
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


def build(core: Core) -> Feature:
    return Feature(answer_command=partial(answer_agreement, core))


def is_agreement(text: str) -> bool:
    """Whether the message says yes, and nothing else."""
    return len(text) <= MAX_LENGTH and _AGREEMENT.fullmatch(text) is not None and _HAS_YES.search(text) is not None


async def answer_agreement(core: Core, message: Message, caller: Caller, load: LoadConversation) -> CommandReply | None:
    """Answer a message that only agrees. Returns None for any other message, and if no card of its author is open."""
    if message.files or not is_agreement(message.text):
        return None
    conversation = await load()
    if conversation.run is not None and conversation.run.state.calls:  # its run has gone on already
        return None
    opened, language = await load_open_cards(core.stores, message, conversation.waiting), caller.person.language
    if not opened:
        return None
    lines = list[str]()
    for one in opened:
        title = render_value(one.proposal.get_title_for(caller.id), language)
        if caller.id not in one.proposal.deciders:
            who = choose_words(await format_people_names(core.platform.directory, one.proposal.deciders), language)
            lines.append(translate("agreed.theirs", language, title=title, who=who))
            continue
        key = "agreed.here" if one.place == message.place else "agreed.direct"
        button = translate(f"choice.{one.proposal.choices[0].name}", language)
        lines.append(translate(key, language, title=title, button=button))
    place, last = message.place, opened[-1].id
    journal_write = core.stores.journal.build_record_write(
        place.conversation, "message.agreed", person=caller.id, channel=place.channel, approval=last
    )
    return CommandReply("", "\n".join(lines), (journal_write,), Privacy.OWN_TEXT)
