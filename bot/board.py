"""Cards in front of people: posted, rewritten, reminded of; and presses refused with words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot import cards, logs
from bot.errors import ChatFailed
from bot.events import Card, Channel, Click, Directory, Place, Post, Ref
from bot.policy import Refusal
from bot.records import Approval
from bot.texts import literal, say
from tools.spec import Gate, Person

log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Board:
    chat: Channel
    directory: Directory

    async def post(self, approval: Approval, asked: str, *, again: bool) -> Approval:
        """The card in front of everybody it is for."""
        readers = [approval.caller] if approval.place else list(approval.plan.deciders)
        refs = list(approval.refs)
        for reader_id in readers:
            reader = await self.directory.get(reader_id)
            if reader is None:
                continue
            place = approval.place or await self.chat.direct(reader_id)
            post = cards.card(approval, reader, await self.names_on(approval))
            ref = await self.chat.post(
                place, post, key=f"{approval.id}:{approval.version}:{reader_id}:{asked}"[:200], again=again
            )
            refs.append((reader_id, ref))
        return approval.model_copy(update={"refs": tuple(dict.fromkeys(refs))})

    async def rewrite(self, approval: Approval) -> None:
        """Every copy of the card says what is true now. A copy that is gone (deleted message) is no reason to stop."""
        names = await self.names_on(approval)
        for reader, ref in await self._readers(approval):
            try:
                await self.chat.edit(ref, cards.card(approval, reader, names))
            except ChatFailed as error:
                log.warning("card.not_rewritten", approval=approval.id, error=error.code)

    async def remind(self, approval: Approval, *, again: bool) -> None:
        """A word, under the newest copy of the card, to each of those who have not decided."""
        for reader, ref in {reader.id: (reader, ref) for reader, ref in await self._readers(approval)}.values():
            text = say(
                "card.reminder",
                reader.language,
                title=literal(approval.plan.title, reader.language),
                until=cards.moment(approval.expires_ms, reader),
            )
            place = approval.place or Place(team="", channel=ref.channel, thread=ref.ts, direct=True)
            key = f"{approval.id}:{approval.version}:remind:{reader.id}"
            await self.chat.post(place, Post(text), key=key, again=again)

    async def nobody(self, approval: Approval, *, again: bool) -> None:
        """A task's card expired: the person whose request it is hears of it and can ask again. (Who sees the
        expired card itself needs no further word.)"""
        requester = await self.directory.get(approval.plan.requester or "")
        if requester is None or approval.gate is not Gate.APPROVE:
            return
        title = literal(approval.plan.title, requester.language)
        shown = cards.card(approval, requester, await self.names_on(approval)).card
        text = say("card.nobody", requester.language, title=title)
        post = Post(text, card=Card(title=title, body="", footer=text, buttons=shown.buttons if shown else ()))
        place, key = await self.chat.direct(requester.id), f"{approval.id}:{approval.version}:nobody"
        await self.chat.post(place, post, key=key, again=again)

    async def refuse(self, click: Click, approval: Approval | None, refusal: Refusal) -> None:
        """Tells one person privately why their press does nothing, and who can."""
        person = await self.directory.get(click.person)
        language = person.language if person else "en"
        who = await self.names(approval.plan.deciders) if approval else {}
        shown = cards.card(approval, person, await self.names_on(approval)).card if approval and person else None
        text = say(
            f"refused.{refusal.code}",
            language,
            who=say("card.comma", language).join(who.values()),
            what=shown.footer.splitlines()[0] if shown else "",
        )
        await self.whisper(click, text)

    async def whisper(self, click: Click, text: str) -> None:
        await self.chat.whisper(click.place, click.person, text)

    async def _readers(self, approval: Approval) -> list[tuple[Person, Ref]]:
        found = [(await self.directory.get(reader), ref) for reader, ref in approval.refs]
        return [(reader, ref) for reader, ref in found if reader is not None]

    async def names_on(self, approval: Approval) -> dict[str, str]:
        return await self.names((*approval.plan.deciders, approval.by))

    async def names(self, people: Sequence[str]) -> dict[str, str]:
        found = [await self.directory.get(one) for one in people if one]
        return {one.id: one.name for one in found if one is not None}
