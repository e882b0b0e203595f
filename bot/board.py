"""Cards in front of people: posted, rewritten, reminded of; and presses refused with words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from bot import cards, disclosure, logs
from bot.approval_events import CardDelivered, CopiesUpdated
from bot.approval_state import record_copies
from bot.errors import ChatDown, ChatFailed
from bot.events import Card, Channel, Click, Directory, Place, Post, Ref, Surroundings
from bot.outcomes import moment, say_outcome
from bot.policy import Refusal
from bot.records import Approval, ApprovalState
from bot.texts import literal, say
from tools.spec import Gate, Note, Person, Privacy

log = logs.get(__name__)

LONG = 2_000
"""Characters of a body that one message holds on every platform, facts and title beside it."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A card as people have it in front of them."""

    approval: Approval
    """With the copies that are to be kept up to date."""
    behind: bool = False
    """Some copy does not say what is true: the platform was away."""


@dataclass(frozen=True, slots=True)
class Board:
    chat: Channel
    directory: Directory
    stand_ins: Callable[[str], Awaitable[Sequence[str]]]
    """Who may decide a task now in place of its assignee."""

    async def post(self, approval: Approval, asked: str, *, again: bool) -> Shown:
        """A fresh card in front of everybody it is for."""
        return await self._fresh(approval, await self._for(approval), asked, again=again)

    async def show_again(self, approval: Approval, reader: str, asked: str, *, again: bool) -> Shown:
        """A fresh copy for one reader; everybody else's copies say where they stand what is true now."""
        return await self._fresh(approval, [reader], asked, again=again)

    async def complete(self, approval: Approval, asked: str, *, again: bool) -> Shown:
        """A card that is there already, in front of those who have no copy of it."""
        have = dict(approval.refs)
        readers = [one for one in await self._for(approval) if one not in have]
        return await self._fresh(approval, readers, asked, again=again)

    async def _for(self, approval: Approval) -> list[str]:
        """Who asked, where a card stands in a conversation; otherwise whoever decides, and who stands in for them."""
        if approval.place:
            return [approval.caller]
        return list(dict.fromkeys((*approval.plan.deciders, *await self._deputies(approval))))

    async def is_for(self, approval: Approval, person: str) -> bool:
        """True for who decides, and who stands in for them."""
        return person in approval.plan.deciders or bool(await self.standing(approval, person))

    async def _deputies(self, approval: Approval) -> Sequence[str]:
        """Nobody stands in for what people confirm themselves."""
        return await self.stand_ins(approval.plan.subject) if approval.gate is Gate.APPROVE else ()

    async def standing(self, approval: Approval, person: str) -> frozenset[str]:
        """The deciders whom this person stands in for now."""
        if approval.gate is not Gate.APPROVE or person in approval.plan.deciders:
            return frozenset()
        return frozenset(approval.plan.deciders if person in await self._deputies(approval) else ())

    async def replace(self, before: Approval, approval: Approval, asked: str, *, again: bool) -> Shown:
        """An edited card, where it stands. One that may take several messages is shown anew instead: of those only the
        last can be rewritten, and what is shown must be what will be done."""
        if max(len(before.plan.body), len(approval.plan.body)) > LONG or not _may_stand(approval.place):
            return await self.post(approval, asked, again=again)
        return await self.rewrite(record_copies(approval, CardDelivered()))

    async def _fresh(self, approval: Approval, readers: Sequence[str], asked: str, *, again: bool) -> Shown:
        """A new copy for each of these readers, whose older copies then point to it; everybody else's copies say what
        is true now. However often a card is shown, there is one copy a person to keep up to date."""
        fresh = await self._posted(approval, readers, asked, again=again)
        before = [ref for _, ref in approval.refs if ref not in fresh.values()]
        return await self.rewrite(record_copies(approval, CardDelivered(fresh)), before)

    async def _posted(self, approval: Approval, readers: Sequence[str], asked: str, *, again: bool) -> dict[str, Ref]:
        """Who cannot be reached at all keeps it from nobody else. Raises ChatFailed if nobody can."""
        names, fresh, failed = await self.names_on(approval), dict[str, Ref](), list[ChatFailed]()
        for reader in await self._people(readers):
            key = f"{approval.id}:{approval.version}:{reader.id}:{asked}"[:200]
            try:
                place, post = await self._place(approval, reader), cards.card(approval, reader, names)
                fresh[reader.id] = await self.chat.post(place, post, key=key, again=again)
            except ChatDown:
                raise
            except ChatFailed as error:
                log.warning("card.not_brought", approval=approval.id, person=reader.id, error=error.code)
                failed.append(error)
        if failed and not fresh:
            raise failed[0]
        return fresh

    async def _place(self, approval: Approval, reader: Person) -> Place:
        """A card shows all of its matter, so it belongs into a DM. What stood in a channel before that was so, stays
        there and is rewritten there; whatever is shown anew is not."""
        if approval.place is not None and _may_stand(approval.place):
            return approval.place
        return await self.chat.direct(reader.id)

    async def rewrite(self, approval: Approval, copies: Collection[Ref] | None = None) -> Shown:
        """Every copy (or each of these) says what is true now. Never fails: one that is gone (a deleted message) is no
        reason to stop, and one that cannot be reached now is told of."""
        newest = dict(approval.refs)
        behind = [
            (reader, ref)
            for reader, ref in approval.refs
            if (copies is None or ref in copies)
            and not await self._reached(approval, reader, ref, moved=newest[reader] != ref)
        ]
        untouched = [] if copies is None else [one for one in approval.refs if one[1] not in copies]
        kept = (one for one in approval.refs if newest[one[0]] == one[1] or one in behind or one in untouched)
        return Shown(record_copies(approval, CopiesUpdated(tuple(kept))), behind=bool(behind))

    async def _reached(self, approval: Approval, reader: str, ref: Ref, *, moved: bool) -> bool:
        """True when nothing is left to do about this copy."""
        try:
            person = await self.directory.get(reader)
            if person is not None:
                names = await self.names_on(approval)
                post = cards.moved(approval, person) if moved else cards.card(approval, person, names)
                left = moved and approval.place is not None and ref.channel == approval.place.channel
                await self.chat.edit(ref, _emptied(post) if left and not _may_stand(approval.place) else post)
        except ChatFailed as error:
            log.warning("card.not_rewritten", approval=approval.id, error=error.code)
            return not isinstance(error, ChatDown)
        return True

    async def list_events(self, approval: Approval, but: Collection[str]) -> dict[str, str]:
        """By person: how the card stands now, for the DMs that it is in; but not for these people. Nothing while the
        platform is away: what has happened does not hang on what is remembered of it."""
        try:
            names, readers = await self.names_on(approval), await self._readers(approval)
        except ChatFailed as error:
            log.warning("card.not_remembered", approval=approval.id, error=error.code)
            return {}
        return {one.id: cards.tell_event(approval, one, names) for one, _ in readers if one.id not in but}

    async def remind(self, approval: Approval, *, again: bool) -> dict[str, str]:
        """Half of a card's time is over. By person: what they were told."""
        return await self.word(approval, Note(key="card.reminder"), f"{approval.version}:remind", again=again)

    async def word(self, approval: Approval, note: Note, asked: str, *, again: bool) -> dict[str, str]:
        """A word, under the card, to those who have not decided. By person: what they were told."""
        mine, told = await self._for(approval), dict[str, str]()
        for reader, ref in await self._readers(approval):
            if reader.id not in mine:
                continue
            text = say(
                note.key,
                reader.language,
                title=cards.title_of(approval, reader),
                until=moment(approval.expires_ms, reader),
                **note.params,
            )
            here = approval.place if approval.place and approval.place.channel == ref.channel else None
            place = here or Place(team="", channel=ref.channel, thread=ref.ts, direct=True)
            key = f"{approval.id}:{asked}:{reader.id}"[:200]
            await self.chat.post(place, Post(text), key=key, again=again)
            told[reader.id] = text
        return told

    async def nobody(self, approval: Approval, *, again: bool) -> Shown:
        """The card expired, and says so. The person whose request it is hears of it on a copy of their own, with
        which they can ask again. (Who confirms something themselves sees the expired card itself.)"""
        requester = await self.directory.get(approval.plan.requester or "")
        if requester is None or not cards.watches(approval, requester):
            return await self.rewrite(approval)
        return await self._fresh(approval, [requester.id], "nobody", again=again)

    async def refuse(self, click: Click, approval: Approval | None, refusal: Refusal) -> None:
        """Tells one person privately why their press does nothing, and who can."""
        person = await self.directory.get(click.person)
        language = person.language if person else "en"
        if refusal.note is not None:
            await self.whisper(click, literal(refusal.note, language))
            return
        names = await self.names_on(approval) if approval else {}
        who = [names[one] for one in approval.plan.deciders if one in names] if approval else []
        over = approval is not None and approval.state is not ApprovalState.OPEN
        what = say_outcome(approval, person, names) if approval and person and over else ""
        text = say(f"refused.{refusal.code}", language, who=say("card.comma", language).join(who), what=what)
        await self.whisper(click, text)

    async def whisper(self, click: Click, text: str) -> None:
        await self.chat.whisper(click.place, click.person, text)

    async def _people(self, ids: Sequence[str]) -> list[Person]:
        found = [await self.directory.get(one) for one in ids]
        return [one for one in found if one is not None]

    async def _readers(self, approval: Approval) -> list[tuple[Person, Ref]]:
        """Each with the copy to use."""
        found = [(await self.directory.get(reader), ref) for reader, ref in dict(approval.refs).items()]
        return [(reader, ref) for reader, ref in found if reader is not None]

    async def names_on(self, approval: Approval) -> dict[str, str]:
        concerned = (*approval.plan.deciders, approval.by)
        return {one.id: one.name for one in await self._people([one for one in concerned if one])}


def _may_stand(place: Place | None) -> bool:
    """True where a card may be shown in full; None: in DMs."""
    surroundings = Surroundings.DIRECT if place is None or place.direct else Surroundings.INSIDE
    return disclosure.decide_audience(Privacy.PRIVATE, surroundings) is disclosure.Audience.HERE


def _emptied(post: Post) -> Post:
    """A copy in a channel that says no more than that it was sent again: what was edited since is not shown there."""
    title = post.card.title if post.card else ""
    return Post(title, card=Card(title))
