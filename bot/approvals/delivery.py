"""Delivers cards to people: posts, updates and reminders, and the words for a refused press."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from bot.approvals import render
from bot.approvals.cards import Cards
from bot.approvals.render import Names, format_local_time
from bot.approvals.state import keep_copies, record_delivery
from bot.chat.messages import Card, MessageRef, Place, Post
from bot.core import disclosure, logs
from bot.core.errors import ChatBusyError, ChatError, ChatRefusedError, ChatUnavailableError
from bot.core.i18n import translate
from bot.core.records import Approval
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


async def list_recipients(cards: Cards, approval: Approval) -> list[str]:
    """List the recipients: in a conversation the requester, otherwise the deciders and their deputies."""
    if approval.place:
        return [approval.caller]
    return list(dict.fromkeys((*approval.proposal.deciders, *await _list_deputies(cards, approval))))


async def _list_deputies(cards: Cards, approval: Approval) -> Sequence[str]:
    """List the deputies of the deciders now. Nobody is a deputy for a confirmation."""
    if approval.gate is not Gate.APPROVE:
        return ()
    return await cards.tool_services.engine.list_task_deputies(approval.proposal.subject, cards.stores.clock.today())


async def can_decide_card(cards: Cards, approval: Approval, person: str) -> bool:
    """Whether the person is a decider or a deputy of one."""
    return person in approval.proposal.deciders or bool(await list_represented(cards, approval, person))


async def list_represented(cards: Cards, approval: Approval, person: str) -> frozenset[str]:
    """List the deciders for whom this person is a deputy now."""
    deciders = approval.proposal.deciders
    is_deputy = person not in deciders and person in await _list_deputies(cards, approval)
    return frozenset(deciders if is_deputy else ())


async def post_card(cards: Cards, approval: Approval, key_part: str, *, again: bool) -> DeliveredCard:
    """Post a new card to all its recipients."""
    return await post_copies(cards, approval, await list_recipients(cards, approval), key_part, again=again)


async def replace_card(
    cards: Cards, previous: Approval, approval: Approval, key_part: str, *, again: bool
) -> DeliveredCard:
    """Update an edited card in place. A card that may need several messages gets new copies instead. Only the last of
    several messages can be updated, and the card must show what will be done."""
    is_long = max(len(previous.proposal.body), len(approval.proposal.body)) > MAX_BODY_LENGTH
    if is_long or not _can_show_in_full(approval.place):
        return await post_card(cards, approval, key_part, again=again)
    return await update_copies(cards, record_delivery(approval, {}))


async def post_copies(
    cards: Cards, approval: Approval, readers: Sequence[str], key_part: str, *, again: bool
) -> DeliveredCard:
    """Post a new copy for each of these readers, point their older copies to it, and update all other copies. However
    often a card is shown, each person has one copy to keep up to date. One unreachable reader does not stop the others.
    Raises ChatError if nobody can be reached."""
    names, copies, errors = await list_names_on_card(cards, approval), dict[str, MessageRef](), list[ChatError]()
    for reader in [one for id in readers if (one := await cards.platform.directory.find_person(id))]:
        key = f"{approval.id}:{approval.version}:{reader.id}:{key_part}"[:200]
        try:
            if not reader.active and reader.id != approval.proposal.requester:  # a guest by now
                raise ChatRefusedError("not_a_member")
            place = approval.place  # an older copy in a channel is updated there
            if place is None or not _can_show_in_full(place):  # a new copy shows everything
                place = await cards.platform.chat.open_dm(reader.id)
            post = render.render_card(approval, reader, names, is_shared=not place.direct)
            copies[reader.id] = await cards.platform.chat.post_message(place, post, key=key, again=again)
        except ChatRefusedError as error:
            log.warning("card.not_brought", approval=approval.id, person=reader.id, error=error.code)
            errors.append(error)
    if errors and not copies:
        raise errors[0]
    older_copies = [ref for _, ref in approval.copies if ref not in copies.values()]
    card = await update_copies(cards, record_delivery(approval, copies), older_copies)
    return replace(card, posted=tuple(copies.items()))


async def update_copies(
    cards: Cards, approval: Approval, copies: Collection[MessageRef] | None = None
) -> DeliveredCard:
    """Update every copy, or only these, if the platform accepts it now. Never fails and never waits. A deleted message
    is dropped, and every other copy that is not updated is listed as outdated."""
    if approval.copies and await cards.stores.lanes.is_companion_waiting(approval.id):
        return DeliveredCard(approval, tuple(ref for _, ref in approval.copies))
    return await rewrite_copies(cards, approval, copies)


async def rewrite_copies(
    cards: Cards, approval: Approval, copies: Collection[MessageRef] | None = None
) -> DeliveredCard:
    """Update copies like `update_copies`, for the item of its own that updates them."""
    newest, outdated, wait_ms = dict(approval.copies), list[tuple[str, MessageRef]](), 0
    for reader, ref in approval.copies:
        if copies is not None and ref not in copies:
            continue
        is_replaced, place = newest[reader] != ref, approval.place
        try:
            person = await cards.platform.directory.find_person(reader)
            if person is None:
                continue
            names = await list_names_on_card(cards, approval)
            post = (
                render.render_moved_card(approval, person)
                if is_replaced
                else render.render_card(approval, person, names, is_shared=_is_in_channel(approval, ref))
            )
            is_former = is_replaced and place is not None and ref.channel == place.channel
            if is_former and not _can_show_in_full(place):  # the channel sees no later edits
                title = post.card.title if post.card else ""
                post = Post(title, card=Card(title))
            await cards.platform.chat.update_message(ref, post)
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
    return DeliveredCard(keep_copies(approval, tuple(current)), refs, wait_ms)


async def shows_record(cards: Cards, approval: Approval, reader: Person) -> bool:
    """Whether the reader has no copy, or a copy with the buttons of the card on record."""
    ref = dict(approval.copies).get(reader.id)
    if ref is None:
        return True
    names, is_shared = await list_names_on_card(cards, approval), _is_in_channel(approval, ref)
    post = render.render_card(approval, reader, names, is_shared=is_shared)
    return await cards.platform.chat.has_buttons_of(ref, post)


async def list_card_events(cards: Cards, approval: Approval, excluded: Collection[str]) -> dict[str, str]:
    """Describe the card's current state by person, for every DM that has a copy, except the DMs of these people. Empty
    while the platform cannot be reached: DM history is worth less than the change itself."""
    try:
        names = await list_names_on_card(cards, approval)
        readers = [await cards.platform.directory.find_person(one) for one in dict(approval.copies)]
    except ChatError as error:
        log.warning("card.not_remembered", approval=approval.id, error=error.code)
        return {}
    told = [one for one in readers if one is not None and one.id not in excluded]
    return {one.id: render.describe_card_event(approval, one, names) for one in told}


async def post_note(cards: Cards, approval: Approval, note: TextRef, key_part: str, *, again: bool) -> dict[str, str]:
    """Post a note under the card for everybody who has not decided. Returns the sentences that they got, by person. One
    unreachable reader does not stop the others."""
    recipients, sentences = await list_recipients(cards, approval), dict[str, str]()
    for id, ref in dict(approval.copies).items():
        reader = await cards.platform.directory.find_person(id)
        if reader is None or not reader.active or id not in recipients:
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
            await cards.platform.chat.post_message(place, Post(text), key=key, again=again)
        except ChatRefusedError as error:
            log.warning("card.not_noted", approval=approval.id, person=reader.id, error=error.code)
            continue
        sentences[reader.id] = text
    return sentences


async def post_expiry(cards: Cards, approval: Approval, *, again: bool) -> DeliveredCard:
    """Show that the card expired. The requester of a task gets a copy of their own with a button to ask again. (A
    person who confirms for themselves already sees the expired card.)"""
    requester = await cards.platform.directory.find_person(approval.proposal.requester or "")
    if requester is None or not render.is_watcher(approval, requester):
        return await update_copies(cards, approval)
    return await post_copies(cards, approval, [requester.id], "nobody", again=again)


async def list_names_on_card(cards: Cards, approval: Approval) -> Names:
    people = [one for one in (*approval.proposal.deciders, approval.decided_by) if one]
    known = [person for one in people if (person := await cards.platform.directory.find_person(one))]
    return {one.id: list_names_by_language(one) for one in known}


def _is_in_channel(approval: Approval, ref: MessageRef) -> bool:
    """Whether others see the copy too."""
    place = approval.place
    return place is not None and not place.direct and ref.channel == place.channel


def _can_show_in_full(place: Place | None) -> bool:
    """Whether a card may be shown in full in this place. None is a DM."""
    in_channel = place is not None and not place.direct
    return not in_channel or disclosure.decide_channel_disclosure(Privacy.PRIVATE) is disclosure.Disclosure.HERE
