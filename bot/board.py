"""Cards in front of people: posted, rewritten, reminded of; and presses refused with words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot import cards, logs
from bot.errors import ChatFailed
from bot.events import Channel, Click, Directory, Place, Post, Ref
from bot.policy import Refusal
from bot.records import Approval
from bot.texts import say
from tools.spec import Person

log = logs.get(__name__)

LONG = 2_000
"""Characters of a body that one message holds on every platform, facts and title beside it."""


@dataclass(frozen=True, slots=True)
class Board:
    chat: Channel
    directory: Directory

    async def post(self, approval: Approval, asked: str, *, again: bool) -> Approval:
        """A fresh card in front of everybody it is for."""
        readers = [approval.caller] if approval.place else list(approval.plan.deciders)
        return await self._fresh(approval, readers, asked, again=again)

    async def replace(self, before: Approval, approval: Approval, asked: str, *, again: bool) -> Approval:
        """An edited card, where it stands. One that may take several messages is shown anew instead: of those only the
        last can be rewritten, and what is shown must be what will be done."""
        if max(len(before.plan.body), len(approval.plan.body)) > LONG:
            return await self.post(approval, asked, again=again)
        await self.rewrite(approval)
        return approval

    async def _fresh(self, approval: Approval, readers: Sequence[str], asked: str, *, again: bool) -> Approval:
        """A new copy for each of these readers, whose older copies then point to it; everybody else's copies say what
        is true now. However often a card is shown, there is one copy a person to keep up to date."""
        names, fresh = await self.names_on(approval), dict[str, Ref]()
        for reader in await self._people(readers):
            place = approval.place or await self.chat.direct(reader.id)
            key = f"{approval.id}:{approval.version}:{reader.id}:{asked}"[:200]
            fresh[reader.id] = await self.chat.post(place, cards.card(approval, reader, names), key=key, again=again)
        for reader, ref in await self._readers(approval):
            post = cards.card(approval, reader, names)
            await self._edit(approval, ref, cards.moved(post, reader.language) if reader.id in fresh else post)
        others = tuple(one for one in approval.refs if one[0] not in fresh)
        return approval.model_copy(update={"refs": (*others, *fresh.items())})

    async def rewrite(self, approval: Approval) -> None:
        """Every copy of the card says what is true now. A copy that is gone (deleted message) is no reason to stop."""
        names = await self.names_on(approval)
        for reader, ref in await self._readers(approval):
            await self._edit(approval, ref, cards.card(approval, reader, names))

    async def _edit(self, approval: Approval, ref: Ref, post: Post) -> None:
        try:
            await self.chat.edit(ref, post)
        except ChatFailed as error:
            log.warning("card.not_rewritten", approval=approval.id, error=error.code)

    async def remind(self, approval: Approval, *, again: bool) -> None:
        """A word, under the card, to those who have not decided."""
        for reader, ref in await self._readers(approval):
            if cards.watches(approval, reader):
                continue
            text = say(
                "card.reminder",
                reader.language,
                title=cards.title_of(approval, reader),
                until=cards.moment(approval.expires_ms, reader),
            )
            place = approval.place or Place(team="", channel=ref.channel, thread=ref.ts, direct=True)
            key = f"{approval.id}:{approval.version}:remind:{reader.id}"
            await self.chat.post(place, Post(text), key=key, again=again)

    async def nobody(self, approval: Approval, *, again: bool) -> Approval:
        """The card expired, and says so. The person whose request it is hears of it on a copy of their own, with
        which they can ask again. (Who confirms something themselves sees the expired card itself.)"""
        requester = await self.directory.get(approval.plan.requester or "")
        if requester is None or not cards.watches(approval, requester):
            await self.rewrite(approval)
            return approval
        return await self._fresh(approval, [requester.id], "nobody", again=again)

    async def refuse(self, click: Click, approval: Approval | None, refusal: Refusal) -> None:
        """Tells one person privately why their press does nothing, and who can."""
        person = await self.directory.get(click.person)
        language = person.language if person else "en"
        names = await self.names_on(approval) if approval else {}
        who = [names[one] for one in approval.plan.deciders if one in names] if approval else []
        shown = cards.card(approval, person, names).card if approval and person else None
        text = say(
            f"refused.{refusal.code}",
            language,
            who=say("card.comma", language).join(who),
            what=shown.footer.splitlines()[0] if shown else "",
        )
        await self.whisper(click, text)

    async def whisper(self, click: Click, text: str) -> None:
        await self.chat.whisper(click.place, click.person, text)

    async def _people(self, ids: Sequence[str]) -> list[Person]:
        found = [await self.directory.get(one) for one in ids]
        return [one for one in found if one is not None]

    async def _readers(self, approval: Approval) -> list[tuple[Person, Ref]]:
        found = [(await self.directory.get(reader), ref) for reader, ref in approval.refs]
        return [(reader, ref) for reader, ref in found if reader is not None]

    async def names_on(self, approval: Approval) -> dict[str, str]:
        concerned = (*approval.plan.deciders, approval.by)
        return {one.id: one.name for one in await self._people([one for one in concerned if one])}
