"""Delivers cards to people: posts, updates and reminders, and the words for a refused press."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace

from bot.approvals import render
from bot.approvals.authorization import PressRefusal
from bot.approvals.events import CardDelivered, CopiesUpdated
from bot.approvals.state import record_copies
from bot.chat.messages import Card, Channel, ChannelReaders, ChatDirectory, Click, MessageRef, Place, Post
from bot.core import disclosure, logs
from bot.core.errors import ChatBusyError, ChatError, ChatUnavailableError
from bot.core.i18n import render_value, translate
from bot.core.outcomes import Names, describe_dated_outcome, describe_own_decision, format_local_time
from bot.core.records import Approval, ApprovalState
from tools.languages import choose_words
from tools.people.names import list_names_by_language
from tools.spec import Gate, Person, Privacy, TextRef

log = logs.get_logger(__name__)

MAX_BODY_LENGTH = 2_000
"""Characters of a body that fit into one message on every platform, with fields and title."""


@dataclass(frozen=True, slots=True)
class DeliveredCard:
    approval: Approval
    """The approval with the copies to keep up to date."""
    outdated: tuple[MessageRef, ...] = ()
    """Copies that are out of date because the platform could not be reached, or took no more updates."""
    wait_ms: int = 0
    """Time until the platform takes more updates (ms); 0 if it could not be reached."""
    posted: tuple[tuple[str, MessageRef], ...] = ()
    """(reader, copy) for each copy that was posted by this delivery or by an earlier try of it."""

    @property
    def is_outdated(self) -> bool:
        return bool(self.outdated)


@dataclass(frozen=True, slots=True, kw_only=True)
class CardDelivery:
    chat: Channel
    directory: ChatDirectory
    list_deputies: Callable[[str], Awaitable[Sequence[str]]]
    """Lists the people who may decide a task now in place of its assignee, by task id."""
    is_catching_up: Callable[[str], Awaitable[bool]]
    """Tells whether an item of its own is updating a card's copies. Nobody else updates them then, or an older state
    might come last."""

    async def post_card(self, approval: Approval, key_part: str, *, again: bool) -> DeliveredCard:
        """Post a new card to all its recipients."""
        return await self._post_fresh_copies(approval, await self._list_recipients(approval), key_part, again=again)

    async def post_copy_again(self, approval: Approval, reader: str, key_part: str, *, again: bool) -> DeliveredCard:
        """Post a new copy for one reader, and update all other copies in place."""
        return await self._post_fresh_copies(approval, [reader], key_part, again=again)

    async def post_missing_copies(self, approval: Approval, key_part: str, *, again: bool) -> DeliveredCard:
        """Post an existing card to the recipients who have no copy yet."""
        copies = dict(approval.copies)
        readers = [one for one in await self._list_recipients(approval) if one not in copies]
        return await self._post_fresh_copies(approval, readers, key_part, again=again)

    async def _list_recipients(self, approval: Approval) -> list[str]:
        """List the recipients: in a conversation the requester, otherwise the deciders and their deputies."""
        if approval.place:
            return [approval.caller]
        return list(dict.fromkeys((*approval.proposal.deciders, *await self._list_deputies(approval))))

    async def can_decide_card(self, approval: Approval, person: str) -> bool:
        """Whether the person is a decider or a deputy of one."""
        return person in approval.proposal.deciders or bool(await self.list_represented(approval, person))

    async def _list_deputies(self, approval: Approval) -> Sequence[str]:
        """List the deputies of a task's card. Nobody is a deputy for a confirmation."""
        return await self.list_deputies(approval.proposal.subject) if approval.gate is Gate.APPROVE else ()

    async def list_represented(self, approval: Approval, person: str) -> frozenset[str]:
        """List the deciders for whom this person is a deputy now."""
        if approval.gate is not Gate.APPROVE or person in approval.proposal.deciders:
            return frozenset()
        return frozenset(approval.proposal.deciders if person in await self._list_deputies(approval) else ())

    async def replace_card(
        self, previous: Approval, approval: Approval, key_part: str, *, again: bool
    ) -> DeliveredCard:
        """Update an edited card in place. A card that may need several messages gets new copies instead. Only the last
        of several messages can be updated, and the card must show what will be done."""
        if max(len(previous.proposal.body), len(approval.proposal.body)) > MAX_BODY_LENGTH or not _can_show_in_full(
            approval.place
        ):
            return await self.post_card(approval, key_part, again=again)
        return await self.update_copies(record_copies(approval, CardDelivered()))

    async def _post_fresh_copies(
        self, approval: Approval, readers: Sequence[str], key_part: str, *, again: bool
    ) -> DeliveredCard:
        """Post a new copy for each of these readers, point their older copies to it, and update all other copies.
        However often a card is shown, each person has one copy to keep up to date. One unreachable reader does not stop
        the others. Raises ChatError if nobody can be reached."""
        names, copies, errors = await self.list_names_on_card(approval), dict[str, MessageRef](), list[ChatError]()
        for reader in await self._find_known_people(readers):
            key = f"{approval.id}:{approval.version}:{reader.id}:{key_part}"[:200]
            try:
                place = approval.place  # an older copy in a channel is updated there
                if place is None or not _can_show_in_full(place):  # a new copy shows everything
                    place = await self.chat.open_dm(reader.id)
                post = render.render_card(approval, reader, names, is_shared=not place.direct)
                copies[reader.id] = await self.chat.post_message(place, post, key=key, again=again)
            except ChatUnavailableError:
                raise
            except ChatError as error:
                log.warning("card.not_brought", approval=approval.id, person=reader.id, error=error.code)
                errors.append(error)
        if errors and not copies:
            raise errors[0]
        older_copies = [ref for _, ref in approval.copies if ref not in copies.values()]
        card = await self.update_copies(record_copies(approval, CardDelivered(copies)), older_copies)
        return replace(card, posted=tuple(copies.items()))

    async def update_copies(self, approval: Approval, copies: Collection[MessageRef] | None = None) -> DeliveredCard:
        """Update every copy, or only these, if the platform accepts it now. Never fails and never waits. A deleted
        message is dropped, and every other copy that is not updated is listed as outdated."""
        if approval.copies and await self.is_catching_up(approval.id):
            return DeliveredCard(approval, tuple(ref for _, ref in approval.copies))
        return await self.rewrite_copies(approval, copies)

    async def rewrite_copies(self, approval: Approval, copies: Collection[MessageRef] | None = None) -> DeliveredCard:
        """Update copies like `update_copies`, for the item of its own that updates them."""
        newest, outdated, wait_ms = dict(approval.copies), list[tuple[str, MessageRef]](), 0
        for reader, ref in approval.copies:
            if copies is not None and ref not in copies:
                continue
            is_replaced, place = newest[reader] != ref, approval.place
            try:
                person = await self.directory.find_person(reader)
                if person is None:
                    continue
                names = await self.list_names_on_card(approval)
                post = (
                    render.render_moved_card(approval, person)
                    if is_replaced
                    else render.render_card(approval, person, names, is_shared=_is_in_channel(approval, ref))
                )
                is_former = is_replaced and place is not None and ref.channel == place.channel
                if is_former and not _can_show_in_full(place):  # the channel sees no later edits
                    title = post.card.title if post.card else ""
                    post = Post(title, card=Card(title))
                await self.chat.update_message(ref, post)
            except ChatBusyError as busy:
                wait_ms = min(wait_ms or busy.wait_ms, busy.wait_ms)
                outdated.append((reader, ref))
            except ChatError as error:
                log.warning("card.not_rewritten", approval=approval.id, error=error.code)
                if isinstance(error, ChatUnavailableError):
                    outdated.append((reader, ref))
        other_copies = [] if copies is None else [one for one in approval.copies if one[1] not in copies]
        current = (one for one in approval.copies if newest[one[0]] == one[1] or one in outdated or one in other_copies)
        refs = tuple(ref for _, ref in outdated)
        return DeliveredCard(record_copies(approval, CopiesUpdated(tuple(current))), refs, wait_ms)

    async def shows_record(self, approval: Approval, reader: Person) -> bool:
        """Whether the reader has no copy, or a copy with the buttons of the card on record."""
        ref = dict(approval.copies).get(reader.id)
        if ref is None:
            return True
        names, is_shared = await self.list_names_on_card(approval), _is_in_channel(approval, ref)
        return await self.chat.has_buttons_of(ref, render.render_card(approval, reader, names, is_shared=is_shared))

    async def void_copy(self, ref: MessageRef, text: str) -> None:
        """Replace a card that has no readable record by this text, if the platform accepts it now."""
        try:
            await self.chat.update_message(ref, Post(text))
        except ChatError as error:
            log.warning("card.not_voided", error=error.code)

    async def list_card_events(self, approval: Approval, excluded: Collection[str]) -> dict[str, str]:
        """Describe the card's current state by person, for every DM that has a copy, except the DMs of these people.
        Empty while the platform cannot be reached: DM history is worth less than the change itself."""
        try:
            names, readers = await self.list_names_on_card(approval), await self._list_readers(approval)
        except ChatError as error:
            log.warning("card.not_remembered", approval=approval.id, error=error.code)
            return {}
        return {
            one.id: render.describe_card_event(approval, one, names) for one, _ in readers if one.id not in excluded
        }

    async def post_reminder(self, approval: Approval, *, again: bool) -> dict[str, str]:
        """Remind the deciders at half time. Returns the sentences that they got, by person."""
        return await self.post_note(approval, TextRef(key="card.reminder"), f"{approval.version}:remind", again=again)

    async def post_note(self, approval: Approval, note: TextRef, key_part: str, *, again: bool) -> dict[str, str]:
        """Post a note under the card for everybody who has not decided. Returns the sentences that they got, by person.
        One unreachable reader does not stop the others."""
        recipients, sentences = await self._list_recipients(approval), dict[str, str]()
        for reader, ref in await self._list_readers(approval):
            if reader.id not in recipients:
                continue
            text = translate(
                note.key,
                reader.language,
                title=render.render_title(approval, reader),
                until=format_local_time(approval.expires_ms, reader),
                **note.params,
            )
            shared_place = approval.place if approval.place and approval.place.channel == ref.channel else None
            place = shared_place or Place(team="", channel=ref.channel, thread=ref.ts, direct=True)
            key = f"{approval.id}:{key_part}:{reader.id}"[:200]
            try:
                await self.chat.post_message(place, Post(text), key=key, again=again)
            except ChatUnavailableError:
                raise
            except ChatError as error:
                log.warning("card.not_noted", approval=approval.id, person=reader.id, error=error.code)
                continue
            sentences[reader.id] = text
        return sentences

    async def post_expiry(self, approval: Approval, *, again: bool) -> DeliveredCard:
        """Show that the card expired. The requester of a task gets a copy of their own with a button to ask again. (A
        person who confirms for themselves already sees the expired card.)"""
        requester = await self.directory.find_person(approval.proposal.requester or "")
        if requester is None or not render.is_watcher(approval, requester):
            return await self.update_copies(approval)
        return await self._post_fresh_copies(approval, [requester.id], "nobody", again=again)

    async def post_refusal(self, click: Click, approval: Approval | None, refusal: PressRefusal) -> None:
        """Tell one person privately why their press does nothing, and who can press."""
        person = await self.directory.find_person(click.person)
        language = person.language if person else "en"
        if refusal.text is not None:
            await self.post_ephemeral(click, render_value(refusal.text, language))
            return
        own = describe_own_decision(approval, person) if approval and person and refusal.code == "already" else ""
        names = await self.list_names_on_card(approval) if approval else {}
        deciders = (
            [choose_words(names[one], language) for one in approval.proposal.deciders if one in names]
            if approval
            else []
        )
        is_over = approval is not None and approval.state is not ApprovalState.OPEN
        outcome = describe_dated_outcome(approval, person, names) if approval and person and is_over else ""
        text = translate(
            f"refused.{refusal.code}", language, who=translate("card.comma", language).join(deciders), what=outcome
        )
        await self.post_ephemeral(click, own or text)

    async def post_ephemeral(self, click: Click, text: str) -> None:
        await self.chat.post_ephemeral(click.place, click.person, text)

    async def _find_known_people(self, ids: Sequence[str]) -> list[Person]:
        people = [await self.directory.find_person(one) for one in ids]
        return [one for one in people if one is not None]

    async def _list_readers(self, approval: Approval) -> list[tuple[Person, MessageRef]]:
        """List each reader with their newest copy."""
        readers = [(await self.directory.find_person(reader), ref) for reader, ref in dict(approval.copies).items()]
        return [(reader, ref) for reader, ref in readers if reader is not None]

    async def list_names_on_card(self, approval: Approval) -> Names:
        ids = (*approval.proposal.deciders, approval.decided_by)
        return {
            one.id: list_names_by_language(one) for one in await self._find_known_people([one for one in ids if one])
        }


def _is_in_channel(approval: Approval, ref: MessageRef) -> bool:
    """Whether others see the copy too."""
    place = approval.place
    return place is not None and not place.direct and ref.channel == place.channel


def _can_show_in_full(place: Place | None) -> bool:
    """Whether a card may be shown in full in this place. None is a DM."""
    surroundings = ChannelReaders.DIRECT if place is None or place.direct else ChannelReaders.INSIDE
    return disclosure.decide_disclosure(Privacy.PRIVATE, surroundings) is disclosure.Disclosure.HERE
