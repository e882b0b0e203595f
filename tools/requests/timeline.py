"""The history of a request in words, made from its record, and the people it waits for; the names of a process's nodes,
and those that a request has passed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import TYPE_CHECKING

from tools.people.names import format_stand_in, get_names_by_language, join_in_both_languages, list_names_by_language
from tools.ports import TextRenderer
from tools.spec import TextRef
from tools.workflow.bpmn.graph import ProcessDefinition, ServiceTopic, TimerAction, VotingMode
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
from tools.workflow.engine.state import COPY_PREFIX, REVOKING, RULE, Decision, Request, Status, TaskKind
from tools.workflow.process.definition import Process

BORDER = re.compile(r"[\u3400-\u9fff][^A-Za-z\u3400-\u9fff]*+(?<=\s)(?=[A-Za-z])")
"""The border between two languages: from a Chinese character to the next Latin letter after a blank."""
WITHDRAWAL = {"zh": "撤回", "en": "withdrawal"}


def get_node_label(definition: ProcessDefinition, node: str) -> dict[str, str]:
    """The name of a node by language. A name in both languages (`审批 Approval`) is split."""
    if node == REVOKING:
        return WITHDRAWAL
    known = definition.nodes.get(node)
    name = " ".join(known.name.split()) if known and known.name else node
    *_, border = (0, *(found.end() for found in BORDER.finditer(name)))
    return {"zh": name[:border].rstrip(), "en": name[border:]} if border else {"zh": name, "en": name}


def list_visited_elements(definition: ProcessDefinition, events: Sequence[RequestEvent]) -> tuple[str, ...]:
    """Ids of the nodes and flows that a request has passed, as far as the definition has them."""
    element_ids = definition.nodes.keys() | {r.flow for n in definition.nodes.values() for r in n.routes}
    ends = {n.id for n in definition.nodes.values() if n.end}
    steps = [step for event in events for step in event.steps]
    passed = {name for step in steps for name in (step.node, step.flow, step.to if step.to in ends else "")}
    return tuple(sorted(passed & element_ids))


if TYPE_CHECKING:
    from tools.tool import ToolServices  # slow to import

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
    events = await services.engine.list_events(request.id)
    added = (getattr(event.command, "people", ()) for event in events)  # they may have no task yet
    for person in request.participants.union(*added) - names.keys():  # no list has who has left
        names[person] = await get_names_by_language(services.directory, person)
    teller = TimelineWriter(process=process, request=request, names=names, zone=zone)
    told = [note for event in events for note in teller.describe_event(event)]
    earlier = [TextRef(key="timeline.earlier", params={"n": len(told) - MAX_STEPS})] if len(told) > MAX_STEPS else []
    return (*earlier, *told[-MAX_STEPS:], *teller.describe_current_state())


def format_timeline(notes: Sequence[TextRef], words: TextRenderer, language: str) -> str:
    return " → ".join(words(note, language) for note in notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineWriter:
    process: Process
    request: Request
    names: Mapping[str, dict[str, str]]
    """Person id → the person's names by language."""
    zone: tzinfo | None

    def describe_event(self, event: RequestEvent) -> Iterator[TextRef]:
        """Yield notes for the command, and for the steps that the process took by itself after it."""
        key, params = self._describe_command(event)
        name = self._get_name(event.by)
        if event.on_behalf:
            name = format_stand_in(name, self._get_name(event.on_behalf))
        at = event.at.astimezone(self.zone).strftime("%m-%d %H:%M")
        yield TextRef(key=f"timeline.{key}", params={"name": name, "at": at, **params})
        for passed in (step.node for step in event.steps if not step.flow):
            node = self.process.definition.nodes.get(passed)
            by_rule = node is not None and node.topic is ServiceTopic.RULE
            people = self.request.filled.resolve_people(f"{COPY_PREFIX}{passed}" if by_rule else passed)
            if by_rule:
                yield TextRef(key="timeline.rule", params={"rule": self.process.form.get_rule_text(passed)})
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
                # the step that the return opened again; if none is known, the returning task's own step
                step = self.request.find_task(next((one.partition("=")[0] for one in event.opened), task))
                node = get_node_label(self.process.definition, step.node if step else "")
                return "return", {"node": node, **_quote_opinion(text)}
            case DecideCommand(decision=decision, opinion=text, task=task):
                decided = self.request.find_task(task)
                revokes = decided is not None and decided.kind is TaskKind.REVOKE
                return f"revoke_{decision}" if revokes else decision.value, _quote_opinion(text)
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
            case FireTimerCommand(task=task, timer=timer, manager=manager):
                who, fired = self._get_assignee_name(task), self.request.find_task(task)
                if f"{task}=escalated" in event.closed:
                    return "escalated", {"name": who, "names": self._get_name(manager)}
                timers = list_task_timers(self.process.definition, fired) if fired else ()
                alarm = next((one.alarm for one in timers if one.id == timer), TimerAction.REMIND)
                return ("reminded" if alarm is TimerAction.REMIND else "unattended"), {"name": who}
            case AssignCommand(actor=actor, gone=gone, person=person, opinion=text):
                if actor == RULE:  # a remote engine's task, handed up because its assignee has left
                    who = self._get_name(next(iter(gone), ""))
                    return "stepped_up", {"name": who, "names": self._get_name(person)}
                return "assigned", {"names": self._get_name(person), **_quote_opinion(text)}
            case MigrateCommand():
                return "migrated", {}

    def _get_assignee_name(self, task: str) -> str | dict[str, str]:
        found = self.request.find_task(task)
        return self._get_name(found.assignee) if found else task

    def _join_names_of(self, people: Sequence[str]) -> dict[str, str]:
        return join_in_both_languages(self._get_name(person) for person in people)

    def _get_name(self, person: str) -> dict[str, str]:
        return self.names.get(person, {"zh": person, "en": person})


def _quote_opinion(text: str) -> Params:
    """An opinion, quoted as each language does; empty if there is none."""
    flat = " ".join(text.split())
    short = flat if len(flat) <= MAX_OPINION_LENGTH else flat[: MAX_OPINION_LENGTH - 1] + "…"
    return {"said": {"zh": f"「{short}」", "en": f" “{short}”"} if short else NOTHING_SAID}
