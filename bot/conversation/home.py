"""A person's Home page: their tasks, and the state of their requests."""

from __future__ import annotations

from dataclasses import dataclass

from bot.chat.messages import Button, Card, ChatDirectory, HomeView
from bot.core.approval_sets import SEVERAL, build_set_id
from bot.core.clock import Clock
from bot.core.i18n import translate
from tools.people.names import get_person_name
from tools.tool import ToolServices
from tools.workflow.engine.port import AssignedTask
from tools.workflow.engine.state import Request
from tools.workflow.process.definition import format_request_line

MAX_TASKS = 20
"""Tasks on the page. Further ones are only counted."""


@dataclass(frozen=True, slots=True)
class HomeBuilder:
    tool_services: ToolServices
    directory: ChatDirectory
    clock: Clock

    async def build_home(self, person_id: str) -> HomeView | None:
        """The page, or None for people who are not served."""
        caller = await self.directory.find_caller(person_id)
        if caller is None:
            return None
        language = caller.person.language
        todo = await self.tool_services.engine.list_todo_tasks(person_id, self.clock.today(), MAX_TASKS)
        tasks = [await self._build_task_card(one, person_id, language) for one in todo.tasks]
        if todo.total_count > 1:
            tasks.insert(0, self._build_set_card(person_id, todo.total_count, language))
        if hidden_count := todo.total_count - len(todo.tasks):
            tasks.append(Card(title=translate("home.more", language, n=hidden_count)))
        requests = [
            await self._build_request_card(one, language)
            for one in await self.tool_services.engine.list_own_requests(person_id)
        ]
        can_request = bool(await self.tool_services.engine.list_processes())
        return HomeView(
            translate("home.title", language),
            (
                (translate("home.tasks", language), tuple(tasks), translate("home.no_tasks", language)),
                (translate("home.requests", language), tuple(requests), translate("home.no_requests", language)),
            ),
            request=translate("home.request", language) if can_request else "",
        )

    def _build_set_card(self, person: str, count: int, language: str) -> Card:
        """Asks for all of them in one message (`bot.approvals.approval_sets`), once for each page."""
        name = build_set_id(person, f"home:{self.clock.now_ms()}")
        button = Button(translate("set.several", language), SEVERAL, approval=name, version=1)
        return Card(title=translate("set.waits", language, n=count), buttons=(button,))

    async def _build_task_card(self, assigned: AssignedTask, person: str, language: str) -> Card:
        requester = await get_person_name(self.tool_services.directory, assigned.request.initiator)
        body = await load_request_summary(self.tool_services, assigned.request, language)
        if assigned.task.assignee == person:
            return Card(title=f"{assigned.request.id} · {requester}", body=body)
        who = await get_person_name(self.tool_services.directory, assigned.task.assignee)
        return Card(
            title=f"{assigned.request.id} · {requester}", body=body, footer=translate("home.for", language, who=who)
        )

    async def _build_request_card(self, request: Request, language: str) -> Card:
        status = translate(f"status.{request.display_status}", language)
        return Card(
            title=f"{request.id} · {status}", body=await load_request_summary(self.tool_services, request, language)
        )


async def load_request_summary(services: ToolServices, request: Request, language: str) -> str:
    """A request in one line, e.g. *Sick leave, 8 days, 2026-11-21 – 2026-11-30*."""
    return format_request_line(await services.engine.get_process(request), request.filled, language)
