"""A company as a state machine of hypothesis: starts, decisions, absences, timers, commands repeated. Every list of its
store says what the requests say, and nothing more; a repeated command has no second effect."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.harness.memory_store import MemoryStore
from tests.tools.office import LONG, NOW, SHORT, SICK, TAXI, People
from tools.spec import Person, ToolError
from tools.workflow.bpmn.graph import VotingMode
from tools.workflow.engine.commands import (
    AddSignCommand,
    CcCommand,
    CommentCommand,
    DecideCommand,
    RequestEvent,
    SignPosition,
    TransferCommand,
    UrgeCommand,
    WithdrawCommand,
)
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.paths import list_task_timers
from tools.workflow.engine.port import CommandResult
from tools.workflow.engine.reducer import replay_events
from tools.workflow.engine.state import APPROVAL_DECISIONS, Decision, Delegation, Request, Status, Task, TaskKind
from tools.workflow.engine.store import to_milliseconds
from tools.workflow.process.definition import load_shipped_processes

PROCESSES = load_shipped_processes()
DEFINITIONS = {p.definition.version: p.definition for p in PROCESSES}
IDS = tuple(f"U{n}" for n in range(1, 8))
PICK = st.integers(0, 10_000)
KEYS = st.sampled_from([f"k{n}" for n in range(12)]) | st.uuids().map(str)
"""Some come again and again."""
FORMS = (("leave", SICK), ("leave", LONG), ("leave", SHORT), ("expense", TAXI), ("expense", {**TAXI, "amount": "9000"}))


class Company(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.now, self.store = NOW, MemoryStore()
        self.answered: dict[str, CommandResult] = {}
        self.told: list[str] = []

    def teardown(self) -> None:
        self.runner.close()

    @initialize(managers=st.lists(st.none() | st.sampled_from(IDS), min_size=len(IDS), max_size=len(IDS)), admins=PICK)
    def founded(self, managers: list[str | None], admins: int) -> None:
        """Managers may be their own, or each other's."""
        roles = {"U3": frozenset({"director"}), "U4": frozenset({"finance"}), "U5": frozenset({"finance", "director"})}
        above = zip(IDS, managers, strict=True)
        people = [Person(id=p, name=p, manager=m, roles=roles.get(p, frozenset())) for p, m in above]
        if admins % 2:
            people.append(Person(id="U9", name="U9", roles=frozenset({"admin"})))
        directory = People(people)
        self.engine = EmbeddedEngine(self.store, PROCESSES, directory)

    def during(self, away: Delegation) -> bool:
        return away.start <= self.now < away.end

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    @property
    def requests(self) -> list[Request]:
        return [Request.model_validate_json(body) for body in self.store.requests.values()]

    @property
    def tasks(self) -> list[tuple[Request, Task]]:
        return [(r, t) for r in self.requests for t in r.tasks]

    def one(self, pick: int) -> Task:
        """Open ones more often than others."""
        tasks = [t for _, t in self.tasks]
        likely = tasks + [t for t in tasks if t.is_open] * 3
        return likely[pick % len(likely)]

    def attempt(self, key: str, work: Coroutine[Any, Any, CommandResult]) -> CommandResult | None:
        """A command; if its key was used, nothing may come of it but the answer of then."""
        before = self.held() if key in self.answered else None
        try:
            moved: CommandResult = self.wait(work)
        except ToolError:
            assert key not in self.answered, "S13: a repeated command gets its answer"
            return None
        assert self.answered.setdefault(key, moved) == moved, "S13: the same answer"
        assert before is None or before == self.held(), "S13: and no second effect"
        return moved

    def held(self) -> str:
        """Everything that is kept."""
        return repr(
            (
                self.store.requests,
                self.store.records,
                self.store.lists,
                self.store.outbox_events,
                self.store.last_numbers,
            )
        )

    # What happens

    @rule(form=st.sampled_from(FORMS), author=st.sampled_from(IDS), approver=st.sampled_from(IDS), key=KEYS)
    def somebody_asks(self, form: tuple[str, dict[str, str]], author: str, approver: str, key: str) -> None:
        process, values = form
        self.attempt(
            f"start {key}",
            self.engine.start_request(process, {**values, "approver": approver}, author, f"start {key}", self.now),
        )

    def act(self, key: str, command: Any) -> CommandResult | None:
        return self.attempt(key, self.engine.execute_command(command, key, self.now))

    @precondition(lambda self: self.tasks)
    @rule(task=PICK, actor=PICK, decision=st.sampled_from(Decision), key=KEYS)
    def somebody_decides(self, task: int, actor: int, decision: Decision, key: str) -> None:
        one = self.one(task)
        deputies = [d.deputy for d in self.store.delegations.values() if d.person == one.assignee]
        likely = [one.assignee] * 6 + deputies * 6 + list(IDS)
        who = likely[actor % len(likely)]
        away = [d for d in self.store.delegations.values() if d.person == one.assignee and d.deputy == who]
        known = key in self.answered
        moved = self.act(key, DecideCommand(task=one.id, actor=who, decision=decision, opinion="因为"))
        if moved and not known:
            assert who == one.assignee or any(self.during(d) for d in away), "I6: no cascade, and only meanwhile"
            assert moved.on_behalf == ("" if who == one.assignee else one.assignee), "I6: both are named"

    @precondition(lambda self: self.tasks)
    @rule(
        task=PICK,
        people=st.lists(st.sampled_from(IDS), min_size=1, max_size=2),
        how=st.sampled_from([None, *SignPosition]),
        key=KEYS,
    )
    def somebody_asks_others(self, task: int, people: list[str], how: SignPosition | None, key: str) -> None:
        one = self.one(task)
        if how is None:
            self.act(key, TransferCommand(task=one.id, actor=one.assignee, person=people[0]))
        else:
            self.act(
                key,
                AddSignCommand(task=one.id, actor=one.assignee, where=how, mode=VotingMode.ANY, people=tuple(people)),
            )

    @precondition(lambda self: self.requests)
    @rule(request=PICK, actor=st.none() | st.sampled_from(IDS), person=st.sampled_from(IDS), what=PICK, key=KEYS)
    def somebody_says_something(self, request: int, actor: str | None, person: str, what: int, key: str) -> None:
        one = self.requests[request % len(self.requests)]
        who = actor or one.initiator
        commands = [
            WithdrawCommand(request=one.id, actor=who),
            CommentCommand(request=one.id, actor=who, text="好"),
            CcCommand(request=one.id, actor=who, people=(person,)),
            *(UrgeCommand(task=t.id, actor=who) for t in one.open_tasks),
        ]
        self.act(key, commands[what % len(commands)])

    @rule(person=st.sampled_from(IDS), deputy=st.sampled_from(IDS), days=st.integers(-2, 5), long=st.integers(1, 5))
    def somebody_is_away(self, person: str, deputy: str, days: int, long: int) -> None:
        start = self.now + timedelta(days=days)
        name = f"{person} {deputy} {start:%d%H%M}"
        away = Delegation(id=name, person=person, deputy=deputy, start=start, end=start + timedelta(days=long))
        try:
            self.wait(self.engine.add_delegation(away, self.now))
        except ToolError:
            return
        assert person != deputy, "I6: nobody stands in for themselves"

    @precondition(lambda self: self.store.delegations)
    @rule(which=PICK)
    def somebody_is_back(self, which: int) -> None:
        one = list(self.store.delegations.values())[which % len(self.store.delegations)]
        if one.end > self.now:
            self.wait(self.engine.end_delegation(one.person, one.id, self.now))

    @rule(hours=st.integers(1, 60))
    def time_passes(self, hours: int) -> None:
        self.now += timedelta(hours=hours)
        before = {t.id: t for _, t in self.tasks}
        self.wait(self.engine.run_due_jobs(self.now))
        decided = [
            t for _, t in self.tasks if t.id in before and before[t.id].is_open and t.outcome in APPROVAL_DECISIONS
        ]
        assert not decided, "S14: time decides nothing"
        assert not self.wait(self.store.list_due_timers(to_milliseconds(self.now), 100)), (
            "S14: what was due has gone off, once"
        )

    @rule()
    def everything_is_told(self) -> None:
        sent = [e.id for e in self.wait(self.engine.list_outbox(1000))]
        assert not set(sent) & set(self.told), "S18: nothing is told twice"
        self.told += sent
        self.wait(self.engine.mark_sent(sent))

    # What has to be so

    @invariant()
    def s12_the_lists_say_what_the_requests_say(self) -> None:
        held = {(name, person, member) for (name, person), members in self.store.lists.items() for member in members}
        assert held == set(self.expected()), "S12: lists and requests are one"

    def expected(self) -> Iterator[tuple[str, str, str]]:
        for request, task in self.tasks:
            if task.is_open:
                yield "todo", task.assignee, task.id
                for timer in list_task_timers(DEFINITIONS[request.definition], task):
                    if timer.id not in task.fired:
                        yield "timers", "", f"{task.id}|{timer.id}"
            elif task.outcome in APPROVAL_DECISIONS:
                yield "done", task.by, task.id
        for request in self.requests:
            yield from (("changed", "", request.id), ("mine", request.initiator, request.id))
            yield from (("told", person, request.id) for person in request.cc)
            if request.status not in (Status.REJECTED, Status.WITHDRAWN):
                days = [value for name, value in request.filled.values.items() if "date" in name]
                years = {day[:4] for day in days if day}
                yield from (("in_year", f"{request.initiator}:{request.process}:{year}", request.id) for year in years)
        for one in self.store.delegations.values():
            if one.start > self.now or self.unheard(one):
                yield "timers", "", f"away|{one.person}|{one.id}"

    def unheard(self, one: Delegation) -> bool:
        """It has begun, and the clock has not struck since."""
        return f"away|{one.person}|{one.id}" in self.store.lists.get(("timers", ""), {})

    @invariant()
    def s11_the_record_gives_what_is_kept(self) -> None:
        for request in self.requests:
            events = [RequestEvent.model_validate_json(text) for text in self.store.records[request.id]]
            assert replay_events(DEFINITIONS, events) == request, "S11: replayed, it is what is kept"
            assert all(e.add_hash() == e for e in events), "S11: with its seals"

    @invariant()
    def a_to_do_list_is_ones_own_and_of_those_who_are_away(self) -> None:
        for person in IDS:
            away = {d.person for d in self.store.delegations.values() if d.deputy == person and self.during(d)}
            wanted = {t.id for _, t in self.tasks if t.is_open and t.assignee == person}
            wanted |= {t.id for _, t in self.tasks if t.is_open and t.assignee in away and self.could(person, t)}
            found = {a.task.id for a in self.wait(self.engine.list_todo_tasks(person, self.now)).tasks}
            assert found == wanted, "S12, I6: a to-do list"

    def could(self, person: str, task: Task) -> bool:
        """Decide it: whoever stands in and has no say of their own."""
        command = DecideCommand(task=task.id, actor=person, decision=Decision.APPROVE)
        try:
            self.wait(self.engine.preview_command(command, self.now))
        except ToolError:
            return False
        return True

    @invariant()
    def i3_nothing_to_approve_is_its_authors(self) -> None:
        for request, task in self.tasks:
            assert task.kind is TaskKind.REVISE or task.assignee != request.initiator, "I3: not even by escalation"

    @invariant()
    def numbers_have_no_gaps(self) -> None:
        for prefix, last in self.store.last_numbers.items():
            assert {f"{prefix}-{n:04d}" for n in range(1, last + 1)} == {
                r.id for r in self.requests if r.id[0] == prefix
            }
