"""A person's Home page: their tasks, requests, deputies, recent decisions and settings.

Everything on the page is for this person alone, and is read from the store. Nothing waits for the list of people."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from bot.approvals import render
from bot.approvals.authorization import authorize_press
from bot.approvals.delivery import list_names_on_card, list_represented
from bot.approvals.render import format_local_time
from bot.chat.messages import Button, Card, HomeButton, HomeEntry, HomeSection, HomeView
from bot.core import logs
from bot.core.i18n import render_value, translate
from bot.core.records import ApprovalState
from bot.core.work_items import SEVERAL, build_set_id
from bot.features.contract import Core
from bot.features.home.open_pages import HomePlace, HomeStore, ListName
from bot.features.home.operations import OperationsReader
from bot.features.home.words import describe_absence, describe_balance, describe_decision, describe_preferences
from bot.features.request_lines import describe_holder, load_request_summary
from bot.storage.approvals import derive_task_card_id
from tools.people.names import get_person_name
from tools.spec import Caller, ToolError
from tools.workflow.bpmn.graph import InvalidDefinitionError
from tools.workflow.engine.commands import WithdrawCommand
from tools.workflow.engine.port import AssignedTask
from tools.workflow.engine.state import Request, Status, TaskKind

log = logs.get_logger(__name__)

PAGE = 5
"""Most tasks, and most requests, shown at once."""
DECISIONS = 3
"""Most decisions shown; the dialog has all of them."""
VALUE_BYTES, FACTS_BYTES, FACTS = 300, 1_500, 12
"""Limits for a card that is decided in place: bytes of one fact, bytes of all facts, number of facts. A longer card is
opened."""
REPEATED = frozenset({"request", "process", "status"})
"""Facts that the title of a task already states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeBuilder:
    core: Core
    pages: HomeStore
    operations: OperationsReader

    async def build_home(self, person_id: str) -> HomeView | None:
        """The page, or None for people who are not served."""
        caller = await self.core.platform.directory.find_caller(person_id)
        if caller is None:
            return None
        language, place = caller.person.language, await self.pages.load_place(person_id) or HomePlace()
        build: list[Callable[[Caller, HomePlace], Awaitable[HomeSection]]] = [
            self._build_tasks,
            self._build_requests,
            self._build_balances,
            self._build_absences,
            self._build_decisions,
            self._build_settings,
            *([self._build_operations] if caller.person.is_administrator else []),
        ]
        sections: list[HomeSection] = []
        for one in build:
            try:
                sections.append(await one(caller, place))
            except ToolError as error:  # a section that fails hides no other
                log.warning("home.section_failed", person=caller.id, code=error.code)
                title = translate(f"home.{one.__name__.removeprefix('_build_')}", language)
                sections.append(HomeSection(title, empty=render_value(error.note, language)))
        is_new = not any(one.entries for one in (sections[0], sections[1], sections[4]))
        at = format_local_time(self.core.stores.clock.now_ms(), caller.person)
        can_request = bool(await self.core.tool_services.engine.list_processes())
        return HomeView(
            translate("home.title", language),
            tuple(sections),
            request=translate("home.request", language) if can_request else "",
            freshness=translate("home.fresh", language, at=at),
            start=translate("home.start", language) if is_new else "",
        )

    # Tasks that wait for the person

    async def _build_tasks(self, caller: Caller, place: HomePlace) -> HomeSection:
        language, engine = caller.person.language, self.core.tool_services.engine
        todo = await engine.list_todo_tasks(caller.id, self.core.stores.clock.today(), place.tasks + PAGE)
        skip = place.tasks if len(todo.tasks) > place.tasks else 0
        entries = [await self._build_task_entry(one, caller) for one in todo.tasks[skip : skip + PAGE]]
        shown_count = len(entries)
        returned_count = sum(one.task.kind is TaskKind.REVISE for one in todo.tasks)  # to their author: in no set
        if skip == 0 and todo.total_count - returned_count > 1:
            # Asks for all of them in one message (`bot.features.sets`), once for each page.
            name = build_set_id(caller.id, f"home:{self.core.stores.clock.now_ms()}")
            button = Button(translate("set.several", language), SEVERAL, approval=name, version=1)
            title = translate("home.several", language, n=todo.total_count)
            entries.insert(0, HomeEntry(Card(title=title, buttons=(button,))))
        return HomeSection(
            translate("home.tasks", language),
            tuple(entries),
            empty=translate("home.no_tasks", language),
            note=_count_hidden(skip, shown_count, todo.total_count, language),
            buttons=_build_page_buttons("tasks", skip, todo.total_count, language),
        )

    async def _build_task_entry(self, assigned: AssignedTask, caller: Caller) -> HomeEntry:
        """Build the entry of a task from its card. The task can be decided in place only if the entry shows the whole
        card. In any case the card can be opened. If the card is on its way, was just pressed or has expired, the entry
        says so; one press asks again for an expired card."""
        language, request = caller.person.language, assigned.request
        approval = await self.core.stores.approvals.load_approval(
            derive_task_card_id(self.core.stores.keys, assigned.task.id)
        )
        if approval is None or approval.state is not ApprovalState.OPEN:
            requester = await get_person_name(self.core.tool_services.directory, request.initiator, language)
            summary = await load_request_summary(self.core.tool_services, request, language)
            is_expired = approval is not None and approval.state is ApprovalState.EXPIRED
            notes = [translate("home.expired" if is_expired else "home.in_hand", language)]
            if assigned.task.assignee != caller.id:
                assignee = await get_person_name(self.core.tool_services.directory, assigned.task.assignee, language)
                notes.append(translate("home.for", language, who=assignee))
            card = Card(f"{request.id} · {requester}", lead=summary, footer=" · ".join(notes))
            if approval is None or not is_expired:
                return HomeEntry(card)
            names = await list_names_on_card(self.core.cards, approval)
            expired = render.render_card(approval, caller.person, names).card
            return HomeEntry(replace(card, buttons=expired.buttons if expired else ()))
        names = await list_names_on_card(self.core.cards, approval)
        card = render.render_card(approval, caller.person, names).card or Card(title="")
        opening = HomeButton(translate("home.open", language), "open", f"{approval.id}.{approval.version}")
        facts = render.list_card_facts(approval, caller.person, REPEATED)
        standing = await list_represented(self.core.cards, approval, caller.id)
        who, clock = caller.id, self.core.stores.clock
        in_place = [
            one
            for one in card.buttons
            if one.style == "primary"
            and not authorize_press(approval, who, one.choice, one.version, clock.now_ms(), standing, one.seal)
        ]
        sizes = [len(f"{label}{value}".encode()) for label, value in facts]
        is_short = len(sizes) <= FACTS and sum(sizes) <= FACTS_BYTES and max(sizes, default=0) <= VALUE_BYTES
        if card.body or not is_short:  # it does not fit among the others
            summary = await load_request_summary(self.core.tool_services, request, language)
            short = Card(card.title, lead=f"{summary}\n{translate('home.too_long', language)}", footer=card.footer)
            return HomeEntry(short, (replace(opening, style="primary"),))
        return HomeEntry(replace(card, facts=facts, buttons=tuple(in_place)), (opening,))

    # The person's requests

    async def _build_requests(self, caller: Caller, place: HomePlace) -> HomeSection:
        language = caller.person.language
        found = await self.core.tool_services.engine.list_recent_requests(caller.id, PAGE, place.requests)
        skip = place.requests
        if not found.requests and skip:
            skip, found = 0, await self.core.tool_services.engine.list_recent_requests(caller.id, PAGE)
        entries: list[HomeEntry] = []
        for request in found.requests:
            status = translate(f"status.{request.display_status}", language)
            lines = [
                await load_request_summary(self.core.tool_services, request, language),
                await describe_holder(self.core.tool_services, request, caller.person),
            ]
            card = Card(f"{request.id} · {status}", lead="\n".join(filter(None, lines)))
            buttons: list[HomeButton] = []
            if any(task.assignee != caller.id for task in request.open_tasks):
                buttons.append(HomeButton(translate("home.urge", language), "urge", request.id))
            if await self._can_withdraw(request, caller):
                buttons.append(HomeButton(translate("home.withdraw", language), "withdraw", request.id))
            entries.append(HomeEntry(card, tuple(buttons)))
        return HomeSection(
            translate("home.requests", language),
            tuple(entries),
            empty=translate("home.no_requests", language),
            note=_count_hidden(skip, len(entries), found.total_count, language),
            buttons=_build_page_buttons("requests", skip, found.total_count, language),
        )

    async def _can_withdraw(self, request: Request, caller: Caller) -> bool:
        """Whether the request can be withdrawn. A returned request waits as a task, with its own buttons. An approved
        one can be withdrawn if the engine supports this and somebody can agree, as the tool itself finds out."""
        if request.status is Status.WAITING:
            return True
        if request.status not in (Status.APPROVED, Status.REVOKING):
            return False
        command = WithdrawCommand(request=request.id, actor=caller.id)
        try:
            await self.core.tool_services.engine.preview_command(
                command, self.core.stores.clock.today(caller.person.zone)
            )
        except (ToolError, InvalidDefinitionError):
            return False
        return True

    # The other sections

    async def _build_balances(self, caller: Caller, place: HomePlace) -> HomeSection:
        language, today = caller.person.language, self.core.stores.clock.today(caller.person.zone)
        balances = await self.core.tool_services.engine.list_balances(caller.id, today.year)
        entries = tuple(HomeEntry(Card("", lead=describe_balance(one, today.year, language))) for one in balances)
        return HomeSection(translate("home.balances", language), entries, empty=translate("home.no_balances", language))

    async def _build_absences(self, caller: Caller, place: HomePlace) -> HomeSection:
        language, now = caller.person.language, self.core.stores.clock.today(caller.person.zone)
        if "deputies" not in self.core.tool_services.engine.abilities:
            return HomeSection(translate("home.absences", language), empty=translate("home.no_deputies", language))
        entries = []
        for one in (await self.core.tool_services.engine.list_delegations(caller.id, now))[:PAGE]:
            card = Card("", lead=await describe_absence(self.core.tool_services, one, caller.person, now))
            entries.append(HomeEntry(card, (HomeButton(translate("home.end", language), "end_absence", one.id),)))
        return HomeSection(
            translate("home.absences", language),
            tuple(entries),
            empty=translate("home.no_absences", language),
            buttons=(HomeButton(translate("home.set_absence", language), "set_absence"),),
        )

    async def _build_decisions(self, caller: Caller, place: HomePlace) -> HomeSection:
        language = caller.person.language
        found = await self.core.tool_services.engine.list_recent_decisions(caller.id, DECISIONS)
        lines = [await describe_decision(self.core.tool_services, one, caller.person) for one in found.tasks]
        button = HomeButton(translate("home.all_decisions", language), "decisions", "0")
        return HomeSection(
            translate("home.decisions", language),
            tuple(HomeEntry(Card("", lead=line)) for line in lines),
            empty=translate("home.no_decisions", language),
            buttons=(button,) if lines else (),
        )

    async def _build_settings(self, caller: Caller, place: HomePlace) -> HomeSection:
        language = caller.person.language
        preferences = self.core.stores.preferences.get_preferences(caller.id)
        lines = [*describe_preferences(preferences, self.core.settings.steps, caller.person)]
        if at := self.core.settings.morning_list:
            name = "on" if await self.core.stores.preferences.wants_morning_list(caller.id) else "off"
            value = translate(f"home.morning_{name}", language, at=at)
            lines.append(translate("setting.morning_list", language, value=value))
        button = HomeButton(translate("home.change", language), "settings")
        entries = (HomeEntry(Card("", lead="\n".join(lines))),)
        return HomeSection(translate("home.settings", language), entries, buttons=(button,))

    async def _build_operations(self, caller: Caller, place: HomePlace) -> HomeSection:
        """Build the section of operations, for administrators only."""
        language = caller.person.language
        lines = await self.operations.describe_operations(language)
        button = HomeButton(translate("home.details", language), "operations")
        entries = (HomeEntry(Card("", lead="\n".join(lines))),)
        return HomeSection(translate("home.operations", language), entries, buttons=(button,))


def _count_hidden(skip: int, shown_count: int, total: int, language: str) -> str:
    if total <= shown_count:
        return ""
    return translate("home.range", language, first=skip + 1, last=skip + shown_count, total=total)


def _build_page_buttons(name: ListName, skip: int, total: int, language: str) -> tuple[HomeButton, ...]:
    earlier = [max(0, skip - PAGE)] if skip else []
    later = [skip + PAGE] if skip + PAGE < total else []
    return (
        *(HomeButton(translate("home.previous", language), "turn_back", f"{name}.{to}") for to in earlier),
        *(HomeButton(translate("home.next", language), "turn", f"{name}.{to}") for to in later),
    )
