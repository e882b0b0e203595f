"""Relays the engine's events to the lanes of the people they concern, and runs the engine's timers."""

from __future__ import annotations

from bot.approvals.cards import Cards
from bot.approvals.openings import build_task_card
from bot.core import logs
from bot.core.errors import CountersignError
from bot.core.i18n import translate
from bot.core.records import OpenCard
from bot.core.work_items import CloseCard, NotifyPerson, RelayEngineEvent
from bot.queue.writes import EnqueueItem
from bot.storage.approvals import derive_task_card_id
from tools.cards.fields import build_mail_draft
from tools.languages import LANGUAGES
from tools.mail.send_email import SEND_EMAIL, SendEmailArgs, prepare_send_email
from tools.people.names import PERSON, format_stand_in, get_names_by_language
from tools.spec import Gate, TextRef, ToolError
from tools.tool import ToolContext
from tools.workflow.engine.state import SYSTEM, Decision, TaskKind
from tools.workflow.engine.store import OutboxEvent
from tools.workflow.process.definition import format_request_line

log = logs.get_logger(__name__)

PAGE_SIZE = 50
MAX_DECISIONS = 12
"""Most decisions that a notice names, the last ones."""
NEXT = frozenset({"approved", "rejected"})
"""Ends of a request after which something can be done."""


NoticeParams = dict[str, str | int | dict[str, str]]


async def relay_events(cards: Cards) -> None:
    """Relay all events announced so far. Every event is sent at least once and arrives once, because lanes drop
    duplicates. An event that fails does not block the others: it moves to a lane of its own for retries, and becomes a
    dead letter if it fails every time."""
    while events := await cards.tool_services.engine.list_outbox(PAGE_SIZE):
        for event in events:
            try:
                await relay_event(cards, event)
            except CountersignError:  # an outage concerns all events
                raise
            except Exception:  # one unreadable event must not stop the others
                log.exception("outbox.set_aside", kind=event.kind, id=event.id)
                lane = f"engine_event:{event.id}"
                await _enqueue_work(cards, lane, lane, RelayEngineEvent(event=event))
        await cards.tool_services.engine.mark_sent([event.id for event in events])


async def relay_event(cards: Cards, event: OutboxEvent) -> None:
    """Relay one event to the lanes of the people whom it concerns."""
    match event.kind:
        case "assigned" | "deputy":
            await _enqueue_task_card(cards, event)
        case "urged":
            asker = await _name_person(cards, event.data["by"])
            await _enqueue_task_card(cards, event, TextRef(key="card.urged", params={"by": asker}))
        case "reminded":
            await _enqueue_task_card(cards, event, TextRef(key="card.waits"))
        case "task_closed":
            by, card = event.data.get("by", ""), derive_task_card_id(cards.stores.approvals.keys, event.data["task"])
            person, why = "" if by.startswith(SYSTEM) else by, event.data.get("why", "")
            await _enqueue_work(cards, card, event.id, CloseCard(approval=card, by=person, why=why))
        case "ended":
            await _notify_request_ended(cards, event)
        case "mail":
            await _enqueue_mail_cards(cards, event)
        case "told" | "commented" | "escalated" | "unattended" | "stepped_up":
            await _enqueue_notice(
                cards, event, TextRef(key=f"notice.{event.kind}", params=await _build_notice_params(cards, event))
            )
        case _:
            log.warning("outbox.unknown", kind=event.kind, id=event.id)
    await cards.features.follow_event(event)


# Cards


async def _enqueue_task_card(cards: Cards, event: OutboxEvent, follow_up: TextRef | None = None) -> None:
    """Send a task's card to its assignee and their deputies. No model is involved."""
    task, engine = event.data["task"], cards.tool_services.engine
    reader = await cards.platform.directory.find_caller(event.data["person"])
    if reader is None:  # the assignee has left
        deputies = await engine.list_task_deputies(task, cards.stores.clock.today())
        found = [await cards.platform.directory.find_caller(one) for one in deputies]
        reader = next((one for one in found if one), None)
    if reader is None:  # the requester is told, instead of waiting for nobody
        log.warning("outbox.assignee_gone", task=task, person=event.data["person"])
        requester = (await engine.get_task(task)).request.initiator
        await _enqueue_notice(cards, event, TextRef(key="notice.undelivered", params={"task": task}), requester)
        return
    card = await build_task_card(cards, reader, task, follow_up)
    if card is None:  # closed before its card was delivered
        log.info("outbox.no_card", task=task)
        return
    await _enqueue_work(cards, card.approval, event.id, card)


async def _enqueue_mail_cards(cards: Cards, event: OutboxEvent) -> None:
    """Send the cards of the emails that a process proposes. Their author sends, edits or rejects each one."""
    author = await cards.platform.directory.find_caller(event.data["person"])
    if author is None:
        return
    request = await cards.tool_services.engine.get_request(event.data["request"])
    process = await cards.tool_services.engine.get_process(request)
    draft = await build_mail_draft(
        cards.platform.directory, process, request.filled, event.data["node"], author.person.language
    )
    for person in draft.to:
        mail = SendEmailArgs(to=person, subject=draft.subject, body=draft.body)
        try:
            context = ToolContext(cards.tool_services, author, cards.stores.clock.today())
            proposal = await prepare_send_email(context, mail)
        except ToolError as error:
            log.info("outbox.no_mail", request=event.data["request"], code=error.code)
            continue
        id = f"{event.id}:{mail.to}"
        card = cards.stores.approvals.keys.derive_id("A", cards.stores.approvals.keys.get_partition(id), id)
        requested_card = OpenCard(
            approval=card, tool=SEND_EMAIL.name, gate=Gate.CONFIRM, proposal=proposal, caller="", place=None
        )
        await _enqueue_work(cards, card, id, requested_card)


# Words


async def _notify_request_ended(cards: Cards, event: OutboxEvent) -> None:
    """Notify the event's person of a request's end: how it ended, everybody's decision and words, and possible next
    steps."""
    data, status = event.data, event.data["status"]
    request = await cards.tool_services.engine.get_request(data["request"])
    params = await _build_notice_params(cards, event)
    # The decisions since the last submission; for a withdrawal, those that ended it.
    revokes = {task.id for task in request.tasks if task.kind is TaskKind.REVOKE}
    opinions = [
        one
        for one in request.opinions
        if one.decision in (Decision.APPROVE, Decision.REJECT)
        and (one.task in revokes) is (status not in NEXT)
        and one.round == request.round
    ]
    decided = list[TextRef]()
    for one in opinions[-MAX_DECISIONS:] if status in NEXT else opinions[-1:]:
        by: dict[str, str] = await get_names_by_language(cards.platform.directory, one.by)
        if one.on_behalf:
            by = format_stand_in(by, await get_names_by_language(cards.platform.directory, one.on_behalf))
        said = "said" if one.text else "silent"
        words: NoticeParams = {"name": {**by, PERSON: one.by}, "text": _flatten_text(one.text)}
        decided.append(TextRef(key=f"fact.{said}_{one.decision}", params=words))
    by_rule = [TextRef(key="notice.rule")] if not decided and not data.get("by_name") else []
    can_go_on = status == "rejected" or (status in NEXT and "revoke" in cards.tool_services.engine.abilities)
    after = [TextRef(key=f"notice.next_{status}", params=params)] if can_go_on else []
    note = TextRef(key=f"notice.ended_{status}", params=params)
    await _enqueue_notice(cards, event, note, more=(*decided, *by_rule, *after))


async def _build_notice_params(cards: Cards, event: OutboxEvent) -> NoticeParams:
    """Build the parameters of a notice: facts of its request, and the actor."""
    engine, directory, data = cards.tool_services.engine, cards.platform.directory, event.data
    request = await engine.get_request(data["request"])
    process = await engine.get_process(request)
    return {
        "request": request.id,
        "process": process.form.name.by_language,
        "requester": await get_names_by_language(directory, request.initiator),
        "summary": {language: format_request_line(process, request.filled, language) for language in LANGUAGES},
        "by": await _name_person(cards, data["by"] if data.get("by_name") else ""),
        "to": await _name_person(cards, data["to"]) if "to" in data else "",
        "text": _flatten_text(data.get("text", "")),
    }


async def _name_person(cards: Cards, person: str) -> dict[str, str]:
    """Return a person's names by language, with their id for a mention; without a person, those of the system."""
    if not person:
        return {language: translate("card.system", language) for language in LANGUAGES}
    return {**await get_names_by_language(cards.platform.directory, person), PERSON: person}


async def _enqueue_notice(
    cards: Cards, event: OutboxEvent, note: TextRef, person: str = "", more: tuple[TextRef, ...] = ()
) -> None:
    notice = NotifyPerson(person=person or event.data["person"], text=note, more=more)
    await _enqueue_work(cards, f"notice:{notice.person}", event.id, notice)


async def _enqueue_work(
    cards: Cards, lane: str, id: str, work: OpenCard | CloseCard | NotifyPerson | RelayEngineEvent
) -> None:
    """Enqueue work once, confirmed: its event then counts as sent. Unlike a person's message, work is never refused
    because the lane is full."""
    await cards.stores.lanes.apply_until_confirmed(lane, EnqueueItem(lane, id, work.model_dump_json()))


def _flatten_text(text: str) -> str:
    """Put a person's text on one line, for use within a sentence."""
    return " ".join(text.split())


async def fire_timers(cards: Cards) -> None:
    """Fire the engine's due timers. Any number of processes may do so: each timer fires once."""
    await cards.tool_services.engine.run_due_jobs(cards.stores.clock.today())
