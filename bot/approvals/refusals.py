"""Refuses a press: tells the person why, journals it, and corrects an outdated copy. Replaces a card whose record
cannot be read: an earlier version has left it, or somebody has edited it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from bot.approvals.authorization import shows_another_card
from bot.approvals.cards import Cards
from bot.approvals.delivery import list_names_on_card, update_copies
from bot.approvals.lifecycle import build_refresh_request, build_set_refresh
from bot.approvals.openings import build_task_card
from bot.approvals.render import describe_dated_outcome, describe_own_decision
from bot.chat.messages import Click, Post
from bot.core import logs, metrics
from bot.core.errors import ChatError
from bot.core.i18n import render_value, translate
from bot.core.records import Approval, ApprovalState, EffectState
from bot.queue.lanes import Lease
from bot.queue.writes import Delete, EnqueueItem, Write
from bot.storage.approvals import derive_task_card_id
from tools.languages import choose_words
from tools.people.names import get_person_language
from tools.spec import TextRef

log = logs.get_logger(__name__)

RECENT_MS = 24 * 3_600_000
"""Age up to which a card counts as recent (ms): far less than the time for which records of cards are kept."""
SETTLED_MS = 60_000
"""Time after a change in which an update may still be on its way to people (ms). A press in that time is only late."""


async def refuse_press(
    cards: Cards, lease: Lease, click: Click, approval: Approval | None, code: str, note: TextRef | None = None
) -> Sequence[Write]:
    """Tell the person privately why the press does nothing and who can press, and journal it. An outdated copy is
    corrected here. A press from a set is answered in the set. A double click is answered by the card alone: a person
    who decided with this very button gets no message, unless its effect failed. `note`: replaces the sentence
    `refused.<code>`."""
    metrics.PRESSES.labels(code).inc()
    is_repeated = (
        approval is not None
        and not shows_another_card(approval, click.version, click.seal)
        and approval.effect not in (EffectState.FAILED, EffectState.UNKNOWN)
        and (approval.decided_by, approval.choice, approval.version) == (click.person, click.choice, click.version)
    )
    if not click.in_set and not is_repeated:
        await post_refusal(cards, click, approval, code, note)
    try:
        posted_ms = float(click.card.ts) * 1000 if click.card else 0
    except ValueError:
        posted_ms = float("-inf")
    # If the store has no record of a recent card, another store has it.
    is_foreign = approval is None and cards.stores.clock.now_ms() - posted_ms < RECENT_MS
    more = ({"set": click.in_set} if click.in_set else {}) | ({"foreign": "yes"} if is_foreign else {})
    journal_write = _build_refusal_write(cards, click, code, **more)
    if click.in_set:
        told = {"approval": click.approval, "code": code, "note": note}
        return [journal_write, build_set_refresh(lease.item, click.in_set, **told)]
    if approval is None or click.card is None:
        return [journal_write]
    stored = cards.stores.approvals.read_from_lease(lease)
    settled_ms = max(approval.created_ms, approval.decided_ms) + SETTLED_MS
    is_other = shows_another_card(approval, click.version, click.seal)
    is_outdated = is_other or approval.state is not ApprovalState.OPEN or click.version != approval.version
    if approval == stored and not is_other and not (is_outdated and cards.stores.clock.now_ms() > settled_ms):
        return [journal_write]
    delivered_card = await update_copies(cards, approval, [click.card])
    refresh = build_refresh_request(lease.item, delivered_card)
    return [journal_write, cards.stores.approvals.build_delivery_write(delivered_card.approval), *refresh]


async def post_refusal(
    cards: Cards, click: Click, approval: Approval | None, code: str, note: TextRef | None = None
) -> None:
    """Tell one person privately why their press does nothing, and who can press."""
    person = await cards.platform.directory.find_person(click.person)
    language = person.language if person else "en"
    told = render_value(note, language) if note is not None else ""
    if approval and person and code == "already":
        told = told or describe_own_decision(approval, person)
    names = await list_names_on_card(cards, approval) if approval else {}
    shown = [one for one in approval.proposal.deciders if one in names] if approval else []
    deciders = [choose_words(names[one], language) for one in shown]
    is_over = approval is not None and approval.state is not ApprovalState.OPEN
    outcome = describe_dated_outcome(approval, person, names) if approval and person and is_over else ""
    who = translate("card.comma", language).join(deciders)
    told = told or translate(f"refused.{code}", language, who=who, what=outcome)
    request = approval.proposal.title.params.get("request") if approval else None
    await cards.platform.chat.post_ephemeral(click.place, click.person, name_request(told, request, language))


def name_request(text: str, request: object, language: str) -> str:
    """A refusal with its request's number in front, unless the number stands in it already."""
    is_named = not request or str(request) in text
    return text if is_named else translate("refused.of_request", language, request=request, text=text)


async def replace_unreadable_card(cards: Cards, lease: Lease, click: Click) -> Sequence[Write]:
    """Replace a pressed card whose record cannot be read. The press does nothing; the presser is told, and the pressed
    card says so and loses its buttons. A card in a channel keeps them, because somebody else may need them. If the
    card's task waits for the presser, they get a fresh card, and the same commit deletes the old record."""
    presser = await cards.platform.directory.find_caller(click.person)
    card = None
    if presser is not None:
        todo = await cards.tool_services.engine.list_todo_tasks(presser.id, cards.stores.clock.today())
        ids = [one.task.id for one in todo.tasks]
        task = next((one for one in ids if derive_task_card_id(cards.stores.keys, one) == click.approval), None)
        card = await build_task_card(cards, presser, task) if task else None
    code = "unreadable" if card else "unreadable_gone"
    text = translate(f"refused.{code}", await get_person_language(cards.platform.directory, click.person))
    await cards.platform.chat.post_ephemeral(click.place, click.person, text)
    if click.card is not None and (card is not None or click.place.direct):
        try:
            await cards.platform.chat.update_message(click.card, Post(text))
        except ChatError as error:
            log.warning("card.not_voided", error=error.code)
    journal_write = _build_refusal_write(cards, click, code)
    if card is None:
        return [journal_write]
    body = card.model_dump_json()
    return [
        journal_write,
        Delete(cards.stores.approvals.build_approval_key(click.approval)),
        EnqueueItem(click.approval, f"{click.id}:fresh", body),
    ]


def _build_refusal_write(cards: Cards, click: Click, code: str, **more: str) -> Write:
    return cards.stores.journal.build_record_write(
        click.approval,
        "approval.refused",
        person=click.person,
        channel=click.place.channel,
        text=code,
        approval=click.approval,
        choice=click.choice,
        **more,
    )
