"""A company as a state machine of hypothesis: starts, decisions, deputies, people who leave and come back, timers,
commands repeated. Every list of its store says what the requests say, and nothing more; a repeated command has no
second effect; who is away or has left is known from the machine's own book, not from the store."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.harness.memory_store import MemoryStore
from tests.tools.office import LONG, NOW, SHORT, SICK, TAXI, People
from tests.tools.workflow.invariants import replay_events
from tools.spec import Person, ToolError
from tools.workflow.bpmn.graph import VotingMode
from tools.workflow.engine.authority import can_be_asked
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
from tools.workflow.engine.state import APPROVAL_DECISIONS, Decision, Delegation, Request, Status, Task, TaskKind
from tools.workflow.engine.store import to_milliseconds
from tools.workflow.process.definition import load_shipped_processes

PROCESSES = load_shipped_processes()
DEFINITIONS = {p.definition.version: p.definition for p in PROCESSES}
IDS = tuple(f"U{n}" for n in range(1, 8))
MANAGERS = ["U2", "U3", None, "U3", "U2", "U5", "U6"]
PICK = st.integers(0, 10_000)
KEYS = st.sampled_from([f"k{n}" for n in range(12)]) | st.uuids().map(str)
"""Some come again and again."""
FORMS = (("leave", SICK), ("leave", LONG), ("leave", SHORT), ("expense", TAXI), ("expense", {**TAXI, "amount": "9000"}))
ASKED = st.tuples(st.sampled_from(FORMS), st.sampled_from(IDS), PICK)
"""Form, author, approver."""
AWAY = st.tuples(PICK, PICK, st.integers(-30, 30), st.integers(2, 8))
"""Person, deputy, the hour in which it begins, days."""
CHANGES = st.sampled_from(["deputy_decides"] * 2 + ["one_agrees", "one_returns", "one_leaves", "one_comes_again"])
COMMON = ("deputy_decides", "one_returns", "one_leaves")
"""These happen in every example, if they can: whoever decides is still named then, and whoever is away still there."""
FEWEST = 4
"""So many people are always there."""

T = TypeVar("T")


def list_managers(people: People, person: str) -> list[str]:
    """Manager, manager's manager …, each once, as far as the directory tells."""
    known, found = {p.id: p.manager for p in people.known}, list[str]()
    manager = known.get(person)
    while manager in known and manager not in found:
        found.append(manager)
        manager = known[manager]
    return found


@lru_cache(maxsize=2_000)
def read_request(body: str) -> Request:
    return Request.model_validate_json(body)


class Company(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.now, self.store = NOW, MemoryStore()
        self.answered: dict[str, CommandResult] = {}
        self.sent: list[str] = []
        self.absences: dict[str, Delegation] = {}
        """Those that nobody has ended, whether they are over or not."""
        self.deputies: set[tuple[str, str]] = set()
        """(person, deputy) of every absence that there ever was."""
        self.announced: set[str] = set()
        """Absences whose beginning the clock has struck."""
        self.checked: dict[str, tuple[str, int]] = {}
        self.happened: Counter[str] = Counter()

    def teardown(self) -> None:
        self.runner.close()

    @initialize(
        managers=st.just(MANAGERS) | st.lists(st.none() | st.sampled_from(IDS), min_size=len(IDS), max_size=len(IDS)),
        asked=st.lists(ASKED, min_size=4, max_size=6, unique_by=lambda one: one[1]),
        away=st.lists(AWAY, min_size=3, max_size=5),
        before=st.lists(st.tuples(CHANGES, PICK), min_size=4, max_size=8),
        has_admin=st.booleans(),
    )
    def found(
        self,
        managers: list[str | None],
        asked: list[tuple[tuple[str, dict[str, str]], str, int]],
        away: list[tuple[int, int, int, int]],
        before: list[tuple[str, int]],
        has_admin: bool,
    ) -> None:
        """Managers may be their own, or each other's. Some people are asked already, some are away, and something has
        happened before: Hypothesis leaves rules out of an example, but never this."""
        roles = {"U3": frozenset({"director"}), "U4": frozenset({"finance"}), "U5": frozenset({"finance"})}
        above = zip(IDS, managers, strict=True)
        people = [Person(id=p, name=p, manager=m, roles=roles.get(p, frozenset())) for p, m in above]
        if has_admin:
            people.append(Person(id="U9", name="U9", roles=frozenset({"admin"})))
        self.people = People(people)
        self.engine = EmbeddedEngine(self.store, PROCESSES, self.people)
        for n, (form, author, _) in enumerate(asked):
            self.start(form if n else ("leave", SICK), author, 0, f"found {n}")
        for n, (person, deputy, hour, days) in enumerate(away):
            self.somebody_goes(person, deputy, hour if n else -abs(hour), days)
        for what, pick in [*zip(COMMON, range(len(COMMON)), strict=True), *before]:
            getattr(self, what)(pick)

    def add_absence(self, person: str, deputy: str, after: timedelta, days: int) -> None:
        start = self.now + after
        name = f"{person} {deputy} {start:%d%H%M}"
        away = Delegation(id=name, person=person, deputy=deputy, start=start, end=start + timedelta(days=days))
        try:
            self.wait(self.engine.add_delegation(away, self.now))
        except ToolError:
            return
        assert person != deputy, "I6: nobody stands in for themselves"
        self.absences.setdefault(name, away)
        self.deputies.add((person, deputy))

    def is_running(self, away: Delegation) -> bool:
        return away.start <= self.now < away.end

    def list_standing(self) -> set[tuple[str, str]]:
        """(person, deputy) now: of a deputy who is away, too, their own deputies."""
        direct = {(d.person, d.deputy) for d in self.absences.values() if self.is_running(d)}
        onward = {(person, after) for person, deputy in direct for before, after in direct if before == deputy}
        return direct | {(person, deputy) for person, deputy in onward if person != deputy}

    def has_left(self, person: str) -> bool:
        return any(p.id == person and not p.active for p in self.people.known)

    def set_active(self, person: str, active: bool) -> None:
        self.people.change(next(p for p in self.people.known if p.id == person), active=active)

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.get_loop().run_until_complete(work)

    @property
    def requests(self) -> list[Request]:
        return [read_request(body) for body in self.store.requests.values()]

    @property
    def tasks(self) -> list[tuple[Request, Task]]:
        return [(r, t) for r in self.requests for t in r.tasks]

    @property
    def open_tasks(self) -> list[Task]:
        return [t for r in self.requests for t in r.open_tasks]

    def choose_task(self, pick: int) -> Task:
        """Open ones more often than others, and those that a deputy has, too."""
        tasks = [t for _, t in self.tasks]
        likely = tasks + self.open_tasks * 3 + [t for t, _ in self.list_deputy_tasks()] * 4
        return likely[pick % len(likely)]

    def attempt(self, key: str, work: Coroutine[Any, Any, CommandResult]) -> CommandResult | None:
        """A command; if its key was used, nothing may come of it but the answer of then."""
        before = self.dump_store() if key in self.answered else None
        tasks = {t.id for t in self.open_tasks}
        try:
            result: CommandResult = self.wait(work)
        except ToolError:
            assert key not in self.answered, "S13: a repeated command gets its answer"
            return None
        assert self.answered.setdefault(key, result) == result, "S13: the same answer"
        assert before is None or before == self.dump_store(), "S13: and no second effect"
        self.check_opened(tasks)
        return result

    def check_opened(self, before: set[str]) -> None:
        """A task that is opened goes past who has left, up to the first person who may decide it."""
        for request in self.requests:
            for task in request.open_tasks:
                if task.id in before or task.kind is TaskKind.REVISE or not self.has_left(task.assignee):
                    continue
                definition = DEFINITIONS[request.definition]
                able = [p for p in self.list_superiors(task.assignee) if can_be_asked(definition, request, task, p)]
                assert not able, f"I9: {task.assignee} has left, and {able} could decide {task.id}"

    def list_superiors(self, person: str) -> list[str]:
        """Everybody above them who is here, and the administrator."""
        people = {p.id: p for p in self.people.known}
        return [
            p for p in dict.fromkeys([*list_managers(self.people, person), *people.keys() & {"U9"}]) if people[p].active
        ]

    def dump_store(self) -> str:
        store = self.store
        return repr((store.requests, store.records, store.lists, store.outbox_events, store.last_numbers))

    # What happens

    @rule(asked=ASKED, key=KEYS)
    def somebody_asks(self, asked: tuple[tuple[str, dict[str, str]], str, int], key: str) -> None:
        self.start(*asked, key)

    def start(self, form: tuple[str, dict[str, str]], author: str, approver: int, key: str) -> None:
        """Of whom the rules name more often than of others."""
        manager = next(p.manager for p in self.people.known if p.id == author)
        likely = [*[manager if manager not in (None, author) else "U3"] * 9, *IDS]
        process, values = form
        values = {**values, "approver": likely[approver % len(likely)]}
        key = f"start {key}"
        known = key in self.answered
        result = self.attempt(key, self.engine.start_request(process, values, author, key, self.now))
        assert not result or known or not self.has_left(author), "I9: who has left asks for nothing"

    def act(self, key: str, command: Any) -> CommandResult | None:
        return self.attempt(key, self.engine.execute_command(command, key, self.now))

    @precondition(lambda self: self.tasks)
    @rule(task=PICK, actor=PICK, decision=st.sampled_from(Decision), key=KEYS)
    def somebody_decides(self, task: int, actor: int, decision: Decision, key: str) -> None:
        one = self.choose_task(task)
        deputies = sorted(deputy for person, deputy in self.deputies if person == one.assignee)
        likely = [one.assignee] * 6 + deputies * 6 + list(IDS)
        self.decide(one, likely[actor % len(likely)], decision, key)

    def list_deputy_tasks(self) -> list[tuple[Task, str]]:
        """Open tasks of those who are away, and who stands in."""
        standing = sorted(self.list_standing())
        return [(task, deputy) for task in self.open_tasks for person, deputy in standing if person == task.assignee]

    def decide(self, task: Task, who: str, decision: Decision, key: str) -> None:
        known = key in self.answered
        result = self.act(key, DecideCommand(task=task.id, actor=who, decision=decision, opinion="因为"))
        if result is None or known:
            return
        stands_in = (task.assignee, who) in self.list_standing() and not self.has_left(who)
        assert who == task.assignee or stands_in, "I6: handed on once, only meanwhile"
        assert result.on_behalf == ("" if who == task.assignee else task.assignee), "I6: both are named"
        self.happened["a deputy decides"] += who != task.assignee

    @precondition(lambda self: self.tasks)
    @rule(
        task=PICK,
        people=st.lists(st.sampled_from(IDS), min_size=1, max_size=2),
        how=st.sampled_from([None, *SignPosition]),
        key=KEYS,
    )
    def somebody_asks_others(self, task: int, people: list[str], how: SignPosition | None, key: str) -> None:
        one = self.choose_task(task)
        if how is None:
            self.act(key, TransferCommand(task=one.id, actor=one.assignee, person=people[0]))
        else:
            asked = AddSignCommand(
                task=one.id, actor=one.assignee, where=how, mode=VotingMode.ANY, people=tuple(people)
            )
            self.act(key, asked)

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

    @rule(away=AWAY)
    def somebody_is_away(self, away: tuple[int, int, int, int]) -> None:
        self.somebody_goes(*away)

    def somebody_goes(self, person: int, deputy: int, hour: int, days: int) -> None:
        likely = [*[t.assignee for t in self.open_tasks] * 6, *IDS]  # who is asked is away more often than others
        who = next(p for p in likely[person % len(likely) :] if p in IDS)
        self.add_absence(who, IDS[(IDS.index(who) + 1 + deputy) % len(IDS)], timedelta(hours=hour), days)

    @rule(what=CHANGES, pick=PICK)
    def people_change(self, what: str, pick: int) -> None:
        getattr(self, what)(pick)

    def one_agrees(self, pick: int) -> None:
        for one in self.choose(pick, self.open_tasks):
            decision = Decision.RESUBMIT if one.kind is TaskKind.REVISE else Decision.APPROVE
            self.decide(one, one.assignee, decision, f"{one.id} {self.now}")

    def deputy_decides(self, pick: int) -> None:
        """If nobody could, somebody is away from now on."""
        able = [(task, deputy) for task, deputy in self.list_deputy_tasks() if self.could(deputy, task)]
        for one in () if able else self.choose(pick, self.open_tasks):
            request = next(r for r, t in self.tasks if t == one)
            named = {*self.list_named(request), request.initiator}
            for deputy in self.choose(pick, [p for p in IDS if p not in named]):
                self.add_absence(one.assignee, deputy, timedelta(), 3)
        for task, deputy in self.choose(pick, able or self.list_deputy_tasks()):
            decision = sorted(APPROVAL_DECISIONS)[pick % len(APPROVAL_DECISIONS)]
            self.decide(task, deputy, decision, f"{task.id} {deputy} {self.now}")

    def one_returns(self, pick: int) -> None:
        current = [one for one in self.absences.values() if one.end > self.now]
        for one in self.choose(pick, [d for d in current if self.is_running(d)] or current):
            self.happened["somebody returns"] += self.is_running(one)
            self.wait(self.engine.end_delegation(one.person, one.id, self.now))
            del self.absences[one.id]
            self.announced.discard(one.id)

    def one_leaves(self, pick: int) -> None:
        """Often one who is asked, or will be."""
        asked = [p for r in self.requests if r.is_running for p in self.list_named(r)]
        here = [p for p in [*asked * 3, *IDS] if not self.has_left(p)]
        if sum(not self.has_left(p) for p in IDS) > FEWEST:
            for who in self.choose(pick, here):
                self.happened["somebody leaves"] += 1
                self.set_active(who, False)

    def one_comes_again(self, pick: int) -> None:
        for who in self.choose(pick, [p for p in IDS if self.has_left(p)]):
            self.set_active(who, True)

    @staticmethod
    def list_named(request: Request) -> list[str]:
        """Who decides it, on any level."""
        return [p for names in request.filled.people.values() for p in names if p in IDS]

    @staticmethod
    def choose(pick: int, among: Sequence[T]) -> Sequence[T]:
        """One of them, if there is any."""
        return [among[pick % len(among)]] if among else []

    @rule(hours=st.integers(1, 60))
    def time_passes(self, hours: int) -> None:
        self.now += timedelta(hours=hours)
        before = {t.id: t for t in self.open_tasks}
        self.wait(self.engine.run_due_jobs(self.now))
        after = {t.id: t for _, t in self.tasks}
        assert not [t for t in before if after[t].outcome in APPROVAL_DECISIONS], "S14: time decides nothing"
        due = self.wait(self.store.list_due_timers(to_milliseconds(self.now), 100))
        assert not due, "S14: what was due has gone off, once"
        self.check_opened(set(before))
        self.check_announced([t for t in before.values() if after[t.id].is_open])

    def check_announced(self, waiting: list[Task]) -> None:
        """Whoever stands in from now on gets what waits for the one who is away; nobody gets anything a second time."""
        begun = {d.id: d.person for d in self.absences.values() if d.start <= self.now and d.id not in self.announced}
        outbox = self.store.outbox_events
        found = {(e.id, e.data["task"], e.data["person"]) for e in outbox.values() if e.kind == "deputy"}
        due = {
            (f"{id}:{t.id}", t.id, t.assignee)
            for id, person in begun.items()
            for t in waiting
            if t.assignee == person and self.is_running(self.absences[id])
        }
        assert due <= found, "I6: what waits goes to the deputy, too"
        self.happened["a deputy gets what waits"] += bool(due)
        self.announced |= set(begun)

    @rule()
    def everything_is_sent(self) -> None:
        sent = [e.id for e in self.wait(self.engine.list_outbox(1000))]
        assert not set(sent) & set(self.sent), "S18: nothing is sent twice"
        self.sent += sent
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
                if task.by != task.assignee:
                    yield "decided_for", task.assignee, task.id
        for request in self.requests:
            yield from (("changed", "", request.id), ("mine", request.initiator, request.id))
            yield from (("told", person, request.id) for person in request.cc)
            if request.status not in (Status.REJECTED, Status.WITHDRAWN):
                days = [value for name, value in request.filled.values.items() if "date" in name]
                years = {day[:4] for day in days if day}
                yield from (("in_year", f"{request.initiator}:{request.process}:{year}", request.id) for year in years)
        for one in self.absences.values():
            if one.id not in self.announced:
                yield "timers", "", f"away|{one.person}|{one.id}"

    @invariant()
    def i6_who_is_away_is_who_said_so(self) -> None:
        assert self.store.delegations == self.absences, "I6: absences are kept until somebody ends them"

    @invariant()
    def s11_the_record_gives_what_is_kept(self) -> None:
        for request, body in self.store.requests.items():
            texts = self.store.records[request]
            if self.checked.get(request) == (body, len(texts)):
                continue  # a record only grows
            events = [RequestEvent.model_validate_json(text) for text in texts]
            assert replay_events(DEFINITIONS, events) == read_request(body), "S11: replayed, it is what is kept"
            assert all(e.add_hash() == e for e in events), "S11: with its seals"
            self.checked[request] = body, len(texts)

    @invariant()
    def a_to_do_list_is_ones_own_and_of_those_who_are_away(self) -> None:
        tasks, standing = self.open_tasks, self.list_deputy_tasks()
        for person in IDS:
            wanted = {t.id for t in tasks if t.assignee == person}
            wanted |= {t.id for t, deputy in standing if deputy == person and self.could(person, t)}
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
            known = {one.id for one in self.requests if one.id[0] == prefix}
            assert known == {f"{prefix}-{n:04d}" for n in range(1, last + 1)}
