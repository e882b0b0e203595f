"""What has happened to a request, in words, from its record; and what it waits for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

from tools.names import listed, standing_in
from tools.nodes import node_words
from tools.ports import Words
from tools.spec import Note
from tools.tool import Desk
from tools.workflow.commands import (
    AddSign,
    Cc,
    Comment,
    Decide,
    Event,
    Fire,
    Migrate,
    Start,
    Transfer,
    Urge,
    Withdraw,
)
from tools.workflow.graph import Alarm, Mode, Topic
from tools.workflow.paths import timers_of
from tools.workflow.process import Process
from tools.workflow.state import Decision, Kind, Request, Status

MOST = 40
"""Steps shown; of a longer record the last ones."""
LONGEST = 80
"""Characters shown of what somebody said."""
MODES: Mapping[Mode, dict[str, str]] = {
    Mode.ALL: {"zh": "会签（都要同意）", "en": "all have to agree"},
    Mode.ANY: {"zh": "或签（一人即可）", "en": "any one decides"},
    Mode.ORDER: {"zh": "依次审批", "en": "one after another"},
}
Params = dict[str, str | int | dict[str, str]]
NOTHING_SAID = {"zh": "", "en": ""}
"""`said` of a note whose step came without words."""


async def timeline_of(desk: Desk, request: Request, zone: tzinfo | None) -> tuple[Note, ...]:
    """A note a step, oldest first, times in `zone`; then what it waits for, or how it ended."""
    process = await desk.engine.process_of(request)
    names = {p.id: p.name for p in await desk.directory.everyone()}
    teller = _Teller(process, request, names, zone)
    told = [note for event in await desk.engine.events(request.id) for note in teller.told(event)]
    earlier = [Note(key="timeline.earlier", params={"n": len(told) - MOST})] if len(told) > MOST else []
    return (*earlier, *told[-MOST:], *teller.rest())


def line(notes: Sequence[Note], words: Words, language: str) -> str:
    return " → ".join(words(note, language) for note in notes)


@dataclass(frozen=True, slots=True)
class _Teller:
    process: Process
    request: Request
    names: Mapping[str, str]
    zone: tzinfo | None

    def told(self, event: Event) -> Iterator[Note]:
        """The command itself, then what the process did by itself after it."""
        key, params = self._command(event)
        yield Note(key=f"timeline.{key}", params={"name": self._actor(event), "at": self._at(event.at), **params})
        for node in (step.node for step in event.steps if not step.flow):
            yield from self._served(node)

    def _served(self, name: str) -> Iterator[Note]:
        node = self.process.definition.nodes.get(name)
        people = self.request.filled.holders(name)
        if node and node.topic is Topic.RULE:
            yield Note(key="timeline.rule", params={"rule": self.process.form.rule(name)})
        elif node and node.topic is Topic.CC and people:
            yield Note(key="timeline.copied", params={"names": self._several(people)})

    def rest(self) -> Iterator[Note]:
        for task in self.request.open_tasks:
            node = node_words(self.process.definition, task.node)
            yield Note(key="timeline.waits", params={"name": self._name(task.assignee), "node": node})
        status = self.request.status
        yield Note(key="timeline.end" if self.request.running else f"timeline.ended_{status}")

    def _command(self, event: Event) -> tuple[str, Params]:
        """Key and what to fill in, besides who and when."""
        match event.command:
            case Start():
                return "submitted", {}
            case Decide(decision=Decision.RETURN, opinion=text, task=task):
                return "return", {"node": self._target(event, task), **_said(text)}
            case Decide(decision=decision, opinion=text, task=task):
                return self._verdict(decision, task), _said(text)
            case Transfer(person=person, opinion=text):
                return "transfer", {"names": self._name(person), **_said(text)}
            case AddSign(people=people, where=where, mode=mode, opinion=text):
                return f"add_sign_{where}", {"names": self._several(people), "mode": MODES[mode], **_said(text)}
            case Withdraw(reason=text):
                return "revoking" if event.status is Status.REVOKING else "withdraw", _said(text)
            case Urge(task=task):
                return "urged", {"names": self._assignee(task)}
            case Comment(text=text):
                return "comment", _said(text)
            case Cc(people=people):
                return "cc", {"names": self._several(people)}
            case Fire():
                return self._fired(event, event.command)
            case Migrate():
                return "migrated", {}

    def _verdict(self, decision: Decision, task: str) -> str:
        found = self.request.task(task)
        revokes = found is not None and found.kind is Kind.REVOKE
        return f"revoke_{decision}" if revokes else decision.value

    def _fired(self, event: Event, fire: Fire) -> tuple[str, Params]:
        person = self._assignee(fire.task)
        if any(closed == f"{fire.task}=escalated" for closed in event.closed):
            return "escalated", {"name": person, "names": self._name(fire.manager)}
        task = self.request.task(fire.task)
        timers = timers_of(self.process.definition, task) if task else ()
        alarm = next((t.alarm for t in timers if t.id == fire.timer), Alarm.REMIND)
        return ("reminded" if alarm is Alarm.REMIND else "unattended"), {"name": person}

    def _target(self, event: Event, task: str) -> dict[str, str]:
        """The step that a return opened again; the author's, if nothing else is known."""
        opened = next((o.partition("=")[0] for o in event.opened), task)
        found = self.request.task(opened)
        return node_words(self.process.definition, found.node if found else "")

    def _actor(self, event: Event) -> str | dict[str, str]:
        by, other = self._name(event.by), event.on_behalf
        return standing_in(by, self._name(other)) if other else by

    def _assignee(self, task: str) -> str:
        found = self.request.task(task)
        return self._name(found.assignee) if found else task

    def _several(self, people: Sequence[str]) -> dict[str, str]:
        return listed(self._name(person) for person in people)

    def _name(self, person: str) -> str:
        return self.names.get(person, person)

    def _at(self, moment: datetime) -> str:
        return moment.astimezone(self.zone).strftime("%m-%d %H:%M")


def _said(text: str) -> Params:
    """What somebody said, quoted as each language does, or nothing."""
    flat = " ".join(text.split())
    short = flat if len(flat) <= LONGEST else flat[: LONGEST - 1] + "…"
    return {"said": {"zh": f"「{short}」", "en": f" “{short}”"} if short else NOTHING_SAID}
