"""Decides several tasks with one press.

A set is one message with a box for each task. A press on a set decides nothing by itself: it becomes a press on each
ticked card, by the same person. Each of these presses goes through the usual checks in its card's own lane
(`bot.approvals.press`). So each task is decided once, however many sets show it and however often people press. Cards
that changed meanwhile are skipped, and the set says so."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.approvals.authorization import authorize_press
from bot.approvals.delivery import list_names_on_card, list_represented
from bot.approvals.opinion_drafts import is_refusal_drafted
from bot.approvals.refusals import SETTLED_MS
from bot.chat.messages import Card, Click, Dialog, MessageRef, Post
from bot.core import logs
from bot.core.errors import ChatRefusedError
from bot.core.i18n import translate
from bot.core.records import SHOWN_SEAL, Approval
from bot.core.work_items import (
    REJECT_SET,
    SET_DECISIONS,
    SEVERAL,
    TICK,
    TICKED,
    ButtonPressed,
    JoinSet,
    OpenSet,
    RefreshSet,
)
from bot.features.answer_presses import tell_presser
from bot.features.contract import Core
from bot.features.sets import set_render
from bot.features.sets.day_facts import DayFacts
from bot.features.sets.set_render import CARD_CHOICES, count_entry_bytes, has_whole_days, shows_request
from bot.features.sets.set_store import ApprovalSet, ApprovalSetStore, SetEntry
from bot.queue.lanes import LaneItem, Lease
from bot.queue.writes import EnqueueItem, SetTimer, Write
from bot.storage.approvals import derive_task_card_id
from tools.languages import LANGUAGES
from tools.people.identities import identify_people
from tools.people.names import get_names_by_language
from tools.spec import Gate, Person
from tools.workflow.engine.port import AssignedTask
from tools.workflow.engine.state import TaskKind
from tools.workflow.process.definition import format_request_line

log = logs.get_logger(__name__)

MAX_ENTRIES = 20
"""Most tasks in one set: two groups of boxes."""
MAX_BYTES = 10_500
"""Most bytes of the text in the boxes: a set is one message, so that it can be rewritten."""
DAY_BYTES = 4_000
"""Share of `MAX_BYTES` that a morning list needs for its other sections."""
MAX_DETAILS = 600
"""Most characters of details. A task with more to read is decided on its own card."""
REWRITE_MS = 3_000
"""Shortest time between two rewrites of a set while its cards are being decided (ms)."""
TICK_MS = 1_000
"""Shortest time between two rewrites of the numbers on the buttons after changed ticks (ms)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalSets:
    core: Core
    sets: ApprovalSetStore
    facts: DayFacts

    # A new set

    async def open_set(self, lease: Lease, work: OpenSet) -> Sequence[Write]:
        """Show the tasks to their person, in their DM. A set that exists is posted again, never doubled."""
        person = await self.core.platform.directory.find_person(work.person)
        if person is None or not person.active:
            return []
        approval_set = await self.sets.load_set(lease.lane) or await self._build_set(lease.lane, person, work.tasks)
        if not approval_set.entries:
            place = await self.core.platform.chat.open_dm(person.id)
            await self.core.platform.chat.post_ephemeral(place, person.id, translate("set.none", person.language))
            return []
        return await self._show_new_set(lease, approval_set, person)

    async def open_morning_list(self, lease: Lease, person: Person, day: str) -> Sequence[Write]:
        """Post the list of a day, once. Nothing is posted where there is nothing to say."""
        approval_set = await self.sets.load_set(lease.lane)
        if approval_set is not None and approval_set.copies:
            return []
        if approval_set is None:
            approval_set = await self._build_set(lease.lane, person, (), day=day)
            now = self.core.stores.clock.today(person.zone)
            if not (approval_set.entries or approval_set.left_out or await self.facts.has_news(person, now)):
                return []
        return await self._show_new_set(lease, approval_set, person)

    async def _show_new_set(self, lease: Lease, approval_set: ApprovalSet, person: Person) -> Sequence[Write]:
        """Post the set below everything said so far, and point older messages of it to the new one. The set is stored
        before it is shown, so that an immediate press finds it, also on a server that takes over."""
        await lease.checkpoint("open", self.sets.build_save_write(approval_set), confirm=True)
        place = approval_set.place or await self.core.platform.chat.open_dm(person.id)
        post = await self._render_set(approval_set, person)
        state = {"shown_ms": self.core.stores.clock.now_ms(), "shown_sha": _hash_post(post)}
        key, again = f"{approval_set.id}:{lease.item.id}"[:200], lease.item.is_redelivery
        ref = await self.core.platform.chat.post_message(place, post, key=key, again=again)
        for older in approval_set.copies:
            if older != ref:
                await self._replace_message(older, person)
        shown = approval_set.model_copy(update={"place": place, "copies": (ref,), **state})
        noted = self._build_journal_write(shown, "set.opened")
        return [self.sets.build_save_write(shown), *_build_joins(shown, shown.entries), noted]

    async def _build_set(self, set_id: str, person: Person, tasks: Sequence[str], *, day: str = "") -> ApprovalSet:
        """Build a set of the tasks that this person may decide now, oldest first, as many as one message holds."""
        now_ms = self.core.stores.clock.now_ms()
        empty = ApprovalSet(id=set_id, person=person.id, entries=(), ticked=(), day=day, made_ms=now_ms)
        return await self._add_tasks(empty, person, tasks)

    async def _add_tasks(self, approval_set: ApprovalSet, person: Person, tasks: Sequence[str] = ()) -> ApprovalSet:
        """Add the waiting tasks that are not in the set yet, ticked."""
        listed = (await self.core.tool_services.engine.list_todo_tasks(person.id, self.core.stores.clock.today())).tasks
        meant = [one for one in listed if one.task.kind is not TaskKind.REVISE and (not tasks or one.task.id in tasks)]
        entries, known = list(approval_set.entries), {one.approval for one in approval_set.entries}
        most = MAX_BYTES - DAY_BYTES if approval_set.day else MAX_BYTES
        room, left_out = most - sum(map(count_entry_bytes, entries)), 0
        for assigned in meant:
            if derive_task_card_id(self.core.stores.keys, assigned.task.id) in known:
                continue
            entry = await self._build_entry(assigned, person) if len(entries) < MAX_ENTRIES else None
            size = count_entry_bytes(entry) if entry else 0
            if entry is not None and size <= room:
                entries, room = [*entries, entry], room - size
            else:
                left_out += 1
        added = range(len(approval_set.entries), len(entries))
        return approval_set.model_copy(
            update={
                "entries": tuple(entries),
                "ticked": (*approval_set.ticked, *added),
                "left_out": left_out,
                "version": approval_set.version + bool(added and approval_set.entries),
            }
        )

    async def _build_entry(self, assigned: AssignedTask, person: Person) -> SetEntry | None:
        """Build the entry of a task. Returns None if the task needs its own card: it is not open, has too much to read,
        or is to be refused as somebody has said. Another reason is an author who may be mistaken for somebody else,
        which a name alone does not show."""
        request, now_ms = assigned.request, self.core.stores.clock.now_ms()
        card_id = derive_task_card_id(self.core.stores.keys, assigned.task.id)
        approval = await self.core.stores.approvals.load_approval(card_id)
        if approval is None or approval.gate is not Gate.APPROVE or not shows_request(approval, assigned):
            return None
        standing = await list_represented(self.core.cards, approval, person.id)
        may = [authorize_press(approval, person.id, c, approval.version, now_ms, standing) for c in CARD_CHOICES]
        if any(may) or is_refusal_drafted(approval.proposal):
            return None
        (author,) = (await identify_people(self.core.tool_services.directory, [request.initiator])).people
        if author.is_name_shared or author.is_name_misleading or author.is_in_directory is False:
            return None
        process = await self.core.tool_services.engine.get_process(request)
        summary = {one: format_request_line(process, request.filled, one) for one in LANGUAGES}
        whole = has_whole_days(process, request)
        details = set_render.describe_details(approval, person.id, summary, has_whole_days=whole)
        if any(len(text) > MAX_DETAILS for text in details.values()):
            return None
        directory = self.core.tool_services.directory
        named: dict[str, Any] = {
            "request": request.id,
            "requester": await get_names_by_language(directory, request.initiator),
        }
        key = "set.entry"
        if assigned.task.assignee != person.id:  # as a deputy
            key, named["who"] = "set.entry_for", await get_names_by_language(directory, assigned.task.assignee)
        return SetEntry(
            approval=approval.id,
            version=approval.version,
            seal=approval.seal,
            request=request.id,
            about={one: translate(key, one, **named, summary=summary[one]) for one in LANGUAGES},
            details=details,
        )

    # A press

    async def handle_press(self, lease: Lease, click: Click) -> Sequence[Write]:
        """Handle a press on a set, or a press that asks for a set."""
        approval_set = await self.sets.load_set(lease.lane)
        if click.choice == SEVERAL and approval_set is None and lease.lane.startswith(f"set:{click.person}:"):
            return await self.open_set(lease, OpenSet(person=click.person))
        if approval_set is None or approval_set.person != click.person:
            return await self._refuse_press(lease, click, "not_yours" if approval_set else "gone")
        if click.choice == SEVERAL:
            return await self._refuse_press(lease, click, "there")
        stored, card, place = approval_set, click.card, approval_set.place or click.place
        if card is not None and card not in stored.copies and card.channel == place.channel:
            # The pressed message was not on record. The newest message stays, and the others point to it.
            copies = sorted((*stored.copies, card), key=lambda one: (len(one.ts), one.ts))
            approval_set = stored.model_copy(update={"copies": tuple(copies)})
        if approval_set.press_id == click.id:  # delivered again after a crash
            return await self._rewrite_set(lease.item, approval_set)
        approvals = await self._load_approvals(approval_set)
        pressable = set_render.list_pressable(approval_set, approvals, self.core.stores.clock.now_ms())
        if click.version != approval_set.version or not pressable:  # everything in it was decided meanwhile
            refused = [] if click.choice == TICK else await self._refuse_press(lease, click, "stale")
            has_crossed = self.core.stores.clock.now_ms() <= approval_set.shown_ms + SETTLED_MS
            if approval_set.copies == stored.copies and has_crossed:  # the press and a change crossed
                return refused
            # A process that was held up may have posted or rewritten the message last.
            unsure = approval_set.model_copy(update={"shown_sha": ""})
            item, body = lease.item, RefreshSet().model_dump_json()
            correction = EnqueueItem(item.lane, f"{item.id}:{item.lane}:correct", body)
            return [*refused, self.sets.build_save_write(unsure), correction]
        ticked = tuple(number for number in _read_ticks(click, approval_set) if number in pressable)
        if click.choice == TICK:
            changed = approval_set.model_copy(update={"ticked": ticked})
            if changed.shown_ms + TICK_MS <= self.core.stores.clock.now_ms():
                return await self._rewrite_set(lease.item, changed)
            due_ms, body = self.core.stores.clock.now_ms() + TICK_MS, RefreshSet().model_dump_json()
            rewrite = SetTimer(id=f"ticks:{changed.id}", lane=changed.id, due_ms=due_ms, body=body)
            return [self.sets.build_save_write(changed), rewrite]
        return await self._press_cards(lease, click, approval_set, ticked, approvals)

    async def _press_cards(
        self,
        lease: Lease,
        click: Click,
        approval_set: ApprovalSet,
        ticked: tuple[int, ...],
        approvals: Mapping[str, Approval],
    ) -> Sequence[Write]:
        """Press each ticked card, in its lane: by the same person, on the version that the set has shown. The presses
        are durable before the message says so."""
        if not ticked:
            return await self._refuse_press(lease, click, "nothing_ticked")
        form = {"opinion": (click.form or {}).get("opinion", "")} if click.choice == REJECT_SET else None
        if form and not form["opinion"].strip():
            return await self._refuse_press(lease, click, "no_reason")
        pressed, presses = approval_set.press_entries(ticked).model_copy(update={"press_id": click.id}), list[Write]()
        for entry in (approval_set.entries[number] for number in ticked):
            press = Click(
                id=f"{click.id}:{entry.approval}",
                approval=entry.approval,
                version=entry.version,
                choice=SET_DECISIONS[click.choice],
                person=click.person,
                place=click.place,
                form=form,
                in_set=approval_set.id,
                seal=entry.seal[:SHOWN_SEAL],
            )
            presses.append(EnqueueItem(entry.approval, press.id, ButtonPressed(click=press).model_dump_json()))
        noted = self._build_journal_write(approval_set, "set.pressed", choice=click.choice, count=len(ticked))
        await lease.checkpoint("press", self.sets.build_save_write(pressed), *presses, noted)
        return await self._rewrite_set(lease.item, pressed, approvals)

    async def refresh_set(self, lease: Lease, work: RefreshSet) -> Sequence[Write]:
        """Rewrite a set after one of its cards has ended, or after a press on a card did nothing."""
        approval_set = await self.sets.load_set(lease.lane)
        if approval_set is None:
            return []
        if work.code:
            approval_set = approval_set.refuse_entry(work.approval, work.code, work.note)
        joins: tuple[Write, ...] = ()
        if approval_set.day and (caller := await self.core.platform.directory.find_caller(approval_set.person)):
            grown = await self._add_tasks(approval_set, caller.person)
            joins = _build_joins(grown, grown.entries[len(approval_set.entries) :])
            approval_set = grown
        approvals = await self._load_approvals(approval_set)
        is_busy = any(set_render.is_running(one, approvals.get(one.approval)) for one in approval_set.entries)
        if lease.item.is_redelivery:  # its message may show a state that was never stored
            approval_set = approval_set.model_copy(update={"shown_sha": ""})
        if is_busy and self.core.stores.clock.now_ms() < approval_set.shown_ms + REWRITE_MS:
            return [self.sets.build_save_write(approval_set), *joins]  # the last of them causes the rewrite
        return [*await self._rewrite_set(lease.item, approval_set, approvals), *joins]

    async def _refuse_press(self, lease: Lease, click: Click, code: str) -> Sequence[Write]:
        await tell_presser(self.core, click, f"set.{code}")
        about = {"person": click.person, "channel": click.place.channel, "text": code, "choice": click.choice}
        return [self.core.stores.journal.build_record_write(lease.lane, "set.refused", **about)]

    # The dialog of a rejection

    async def build_dialog(self, click: Click) -> Dialog | None:
        """Build the dialog that asks for the reason. Returns None if the press is refused; the refusal says why."""
        approval_set = await self.sets.load_set(click.approval)
        person = await self.core.platform.directory.find_person(click.person)
        if approval_set is None or person is None or approval_set.person != click.person:
            return None
        approvals = await self._load_approvals(approval_set)
        pressable = set_render.list_pressable(approval_set, approvals, self.core.stores.clock.now_ms())
        ticked = [number for number in _read_ticks(click, approval_set) if number in pressable]
        if not ticked or click.version != approval_set.version:
            return None
        return set_render.render_reject_dialog(approval_set, ticked, person, click.place, click.card)

    def check_dialog(self, click: Click) -> dict[str, str]:
        """Return problems by field (field → sentence) of a submitted dialog without a reason."""
        if (click.form or {}).get("opinion", "").strip():
            return {}
        known = self.core.platform.directory.find_known_person(click.person)
        return {"opinion": translate("set.no_reason", known.language if known else "en")}

    # The message

    async def _replace_message(self, ref: MessageRef, person: Person) -> None:
        """Close a message of the set that a newer one replaces."""
        title = translate("set.moved", person.language)
        try:
            await self.core.platform.chat.update_message(ref, Post(title, card=Card(title)))
        except ChatRefusedError as error:
            log.warning("set.not_replaced", error=error.code)

    async def _rewrite_set(
        self, item: LaneItem, approval_set: ApprovalSet, approvals: Mapping[str, Approval] | None = None
    ) -> Sequence[Write]:
        """Rewrite the set's message to its current state. Raises ChatUnavailableError: the item then comes again."""
        person = await self.core.platform.directory.find_person(approval_set.person)
        if person is None or not approval_set.copies:
            return [self.sets.build_save_write(approval_set)]
        post, (*older_copies, newest) = await self._render_set(approval_set, person, approvals), approval_set.copies
        if _hash_post(post) == approval_set.shown_sha and not (older_copies or item.is_redelivery):
            return [self.sets.build_save_write(approval_set)]
        try:
            await self.core.platform.chat.update_message(newest, post)
        except ChatRefusedError as error:  # the message is deleted; its cards are still there
            log.warning("set.not_rewritten", error=error.code)
        for older in older_copies:
            await self._replace_message(older, person)
        shown = {"shown_ms": self.core.stores.clock.now_ms(), "shown_sha": _hash_post(post), "copies": (newest,)}
        return [self.sets.build_save_write(approval_set.model_copy(update=shown))]

    async def _render_set(
        self, approval_set: ApprovalSet, person: Person, approvals: Mapping[str, Approval] | None = None
    ) -> Post:
        known = await self._load_approvals(approval_set) if approvals is None else approvals
        names: dict[str, dict[str, str]] = {}
        for approval in known.values():
            names |= await list_names_on_card(self.core.cards, approval)
        now = self.core.stores.clock.today(person.zone)
        facts = await self.facts.list_facts(person, now) if approval_set.day and person.active else ()
        return set_render.render_set(approval_set, known, names, person, self.core.stores.clock.now_ms(), facts)

    async def _load_approvals(self, approval_set: ApprovalSet) -> dict[str, Approval]:
        loaded = [await self.core.stores.approvals.load_approval(one.approval) for one in approval_set.entries]
        return {one.id: one for one in loaded if one is not None}

    def _build_journal_write(self, approval_set: ApprovalSet, kind: str, **more: Any) -> Write:
        channel = approval_set.place.channel if approval_set.place else ""
        about = {"person": approval_set.person, "channel": channel, "entries": len(approval_set.entries), **more}
        return self.core.stores.journal.build_record_write(approval_set.id, kind, **about)


def _build_joins(approval_set: ApprovalSet, entries: Iterable[SetEntry]) -> tuple[Write, ...]:
    """Ask these cards to tell the set how they end."""
    body = JoinSet(set=approval_set.id).model_dump_json()
    return tuple(EnqueueItem(one.approval, f"join:{one.approval}:{approval_set.id}", body) for one in entries)


def _hash_post(post: Post) -> str:
    return hashlib.sha256(repr(post).encode()).hexdigest()[:16]


def _read_ticks(click: Click, approval_set: ApprovalSet) -> tuple[int, ...]:
    """Return the ticked numbers that the platform sent, or the stored ones if it sent none."""
    said = (click.form or {}).get(TICKED)
    if said is None:
        return approval_set.ticked
    numbers = {int(one) for one in said.split(",") if one.isascii() and one.isdecimal() and len(one) <= 3}
    return tuple(sorted(numbers & set(range(len(approval_set.entries)))))
