"""The history of a request in words, made from its record, and the people it waits for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

from tools.cards.node_labels import get_node_label
from tools.people.names import format_stand_in, join_in_both_languages, list_names_by_language
from tools.ports import TextRenderer
from tools.spec import TextRef
from tools.tool import ToolServices
from tools.workflow.bpmn.graph import ServiceTopic, TimerAction, VotingMode
from tools.workflow.engine.commands import (
    AddSignCommand,
    AssignCommand,
    CcCommand,
    CommentCommand,
    DecideCommand,
    FireTimerCommand,
    MigrateCommand,
    RequestEvent,
    StartCommand,
    TransferCommand,
    UrgeCommand,
    WithdrawCommand,
)
from tools.workflow.engine.paths import list_task_timers
from tools.workflow.engine.state import COPY_PREFIX, RULE, Decision, Request, Status, TaskKind
from tools.workflow.process.definition import Process

MAX_STEPS = 40
"""Most steps shown; the last ones of a longer record."""
MAX_OPINION_LENGTH = 80
"""Most characters shown of an opinion."""
MODES: Mapping[VotingMode, dict[str, str]] = {
    VotingMode.ALL: {"zh": "会签（都要同意）", "en": "all have to agree"},
    VotingMode.ANY: {"zh": "或签（一人即可）", "en": "any one decides"},
    VotingMode.ORDER: {"zh": "依次审批", "en": "one after another"},
}
Params = dict[str, str | int | dict[str, str]]
NOTHING_SAID = {"zh": "", "en": ""}
"""The parameter `said` in the note of a step without words."""


async def build_timeline(services: ToolServices, request: Request, zone: tzinfo | None) -> tuple[TextRef, ...]:
    """One note per step, oldest first, with times in `zone`; at the end, whom the request waits for or how it ended."""
    process = await services.engine.get_process(request)
    names = {p.id: list_names_by_language(p) for p in await services.directory.list_people()}
    teller = _TimelineWriter(process=process, request=request, names=names, zone=zone)
    told = [note for event in await services.engine.list_events(request.id) for note in teller.describe_event(event)]
    earlier = [TextRef(key="timeline.earlier", params={"n": len(told) - MAX_STEPS})] if len(told) > MAX_STEPS else []
    return (*earlier, *told[-MAX_STEPS:], *teller.describe_current_state())


def format_timeline(notes: Sequence[TextRef], words: TextRenderer, language: str) -> str:
    return " → ".join(words(note, language) for note in notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TimelineWriter:
    process: Process
    request: Request
    names: Mapping[str, dict[str, str]]
    """Person id → the person's names by language."""
    zone: tzinfo | None

    def describe_event(self, event: RequestEvent) -> Iterator[TextRef]:
        """Yield notes for the command, and for the steps that the process took by itself after it."""
        key, params = self._describe_command(event)
        yield TextRef(
            key=f"timeline.{key}",
            params={"name": self._format_actor(event), "at": self._format_moment(event.at), **params},
        )
        for node in (step.node for step in event.steps if not step.flow):
            yield from self._describe_service_task(node)

    def _describe_service_task(self, name: str) -> Iterator[TextRef]:
        node = self.process.definition.nodes.get(name)
        by_rule = node is not None and node.topic is ServiceTopic.RULE
        people = self.request.filled.resolve_people(f"{COPY_PREFIX}{name}" if by_rule else name)
        if by_rule:
            yield TextRef(key="timeline.rule", params={"rule": self.process.form.get_rule_text(name)})
        if node and node.topic in (ServiceTopic.RULE, ServiceTopic.CC) and people:
            yield TextRef(key="timeline.copied", params={"names": self._join_names_of(people)})

    def describe_current_state(self) -> Iterator[TextRef]:
        for task in self.request.open_tasks:
            node = get_node_label(self.process.definition, task.node)
            yield TextRef(key="timeline.waits", params={"name": self._get_name(task.assignee), "node": node})
        status = self.request.status
        yield TextRef(key="timeline.end" if self.request.is_running else f"timeline.ended_{status}")

    def _describe_command(self, event: RequestEvent) -> tuple[str, Params]:
        """The text key of a command and its parameters, except actor and time."""
        match event.command:
            case StartCommand():
                return "submitted", {}
            case DecideCommand(decision=Decision.RETURN, opinion=text, task=task):
                return "return", {"node": self._get_return_label(event, task), **_quote_opinion(text)}
            case DecideCommand(decision=decision, opinion=text, task=task):
                return self._get_decision_key(decision, task), _quote_opinion(text)
            case TransferCommand(person=person, opinion=text):
                return "transfer", {"names": self._get_name(person), **_quote_opinion(text)}
            case AddSignCommand(people=people, where=where, mode=mode, opinion=text):
                return f"add_sign_{where}", {
                    "names": self._join_names_of(people),
                    "mode": MODES[mode],
                    **_quote_opinion(text),
                }
            case WithdrawCommand(reason=text):
                return "revoking" if event.status is Status.REVOKING else "withdraw", _quote_opinion(text)
            case UrgeCommand(task=task):
                return "urged", {"names": self._get_assignee_name(task)}
            case CommentCommand(text=text):
                return "comment", _quote_opinion(text)
            case CcCommand(people=people):
                return "cc", {"names": self._join_names_of(people)}
            case FireTimerCommand():
                return self._describe_timer(event, event.command)
            case AssignCommand() | MigrateCommand():
                return self._describe_administration(event.command)

    def _describe_administration(self, command: AssignCommand | MigrateCommand) -> tuple[str, Params]:
        if isinstance(command, MigrateCommand):
            return "migrated", {}
        if command.actor == RULE:  # a remote engine's task, handed up because its assignee has left
            return "stepped_up", {
                "name": self._get_name(next(iter(command.gone), "")),
                "names": self._get_name(command.person),
            }
        return "assigned", {"names": self._get_name(command.person), **_quote_opinion(command.opinion)}

    def _get_decision_key(self, decision: Decision, task: str) -> str:
        found = self.request.find_task(task)
        revokes = found is not None and found.kind is TaskKind.REVOKE
        return f"revoke_{decision}" if revokes else decision.value

    def _describe_timer(self, event: RequestEvent, fire: FireTimerCommand) -> tuple[str, Params]:
        person = self._get_assignee_name(fire.task)
        if any(closed == f"{fire.task}=escalated" for closed in event.closed):
            return "escalated", {"name": person, "names": self._get_name(fire.manager)}
        task = self.request.find_task(fire.task)
        timers = list_task_timers(self.process.definition, task) if task else ()
        alarm = next((t.alarm for t in timers if t.id == fire.timer), TimerAction.REMIND)
        return ("reminded" if alarm is TimerAction.REMIND else "unattended"), {"name": person}

    def _get_return_label(self, event: RequestEvent, task: str) -> dict[str, str]:
        """The name of the step that a return opened again; if none is known, the returning task's own step."""
        opened = next((o.partition("=")[0] for o in event.opened), task)
        found = self.request.find_task(opened)
        return get_node_label(self.process.definition, found.node if found else "")

    def _format_actor(self, event: RequestEvent) -> dict[str, str]:
        by, other = self._get_name(event.by), event.on_behalf
        return format_stand_in(by, self._get_name(other)) if other else by

    def _get_assignee_name(self, task: str) -> str | dict[str, str]:
        found = self.request.find_task(task)
        return self._get_name(found.assignee) if found else task

    def _join_names_of(self, people: Sequence[str]) -> dict[str, str]:
        return join_in_both_languages(self._get_name(person) for person in people)

    def _get_name(self, person: str) -> dict[str, str]:
        return self.names.get(person, {"zh": person, "en": person})

    def _format_moment(self, moment: datetime) -> str:
        return moment.astimezone(self.zone).strftime("%m-%d %H:%M")


def _quote_opinion(text: str) -> Params:
    """An opinion, quoted as each language does; empty if there is none."""
    flat = " ".join(text.split())
    short = flat if len(flat) <= MAX_OPINION_LENGTH else flat[: MAX_OPINION_LENGTH - 1] + "…"
    return {"said": {"zh": f"「{short}」", "en": f" “{short}”"} if short else NOTHING_SAID}
