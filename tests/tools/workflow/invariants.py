"""One request as a state machine of hypothesis: random commands by random people at random times, on the shipped
processes and on drawn ones; and every invariant of it, after each command and in between.

I: identity and authority. S: state machine.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.tools.office import LONG, NOW, PEOPLE, SHORT, SICK, TAXI, filled
from tests.tools.workflow.flows import AMOUNTS, AUTHOR, CROWD, Flow, flows
from tools.spec import ToolError
from tools.workflow.bpmn.graph import ProcessDefinition, VotingMode
from tools.workflow.engine import state
from tools.workflow.engine.authority import list_return_targets
from tools.workflow.engine.commands import (
    AddSignCommand,
    CcCommand,
    CommentCommand,
    DecideCommand,
    FireTimerCommand,
    MigrateCommand,
    RequestEvent,
    SignPosition,
    StartCommand,
    TaskCommand,
    TransferCommand,
    UrgeCommand,
    WithdrawCommand,
)
from tools.workflow.engine.reducer import apply_command
from tools.workflow.engine.state import ALLOWED, OPEN, Decision, FilledForm, Request, Status, Task, TaskKind
from tools.workflow.engine.transitions import TransitionResult
from tools.workflow.engine.votes import compute_verdict, find_seat, list_seats, list_waiting_seats
from tools.workflow.process.definition import load_shipped_processes

HOURS = timedelta(hours=1)
PICK = st.integers(0, 10_000)
"""One of however many there are."""
NEW = "another version"
LEAVE, EXPENSE = load_shipped_processes()


def replay_events(definitions: Mapping[str, ProcessDefinition], events: Iterable[RequestEvent]) -> Request | None:
    """The request that results from its record. `definitions` maps versions to definitions."""
    request: Request | None = None
    for event in events:
        held = event.command if isinstance(event.command, StartCommand) else request
        request = apply_command(definitions[held.definition if held else ""], request, event.command, event.at).request
    return request


@dataclass(frozen=True, repr=False)
class Case:
    """A process, who asks, whom else there is, and the forms they may hand in."""

    definition: ProcessDefinition
    author: str
    crowd: tuple[str, ...]
    forms: tuple[FilledForm, ...]

    def __repr__(self) -> str:
        """What a failing example is told with."""
        nodes = self.definition.nodes.values()
        ways = "; ".join(f"{n.id}[{n.mode}] → {', '.join(r.to for r in n.routes)}" for n in nodes if n.routes)
        return f"<{ways}; {[(f.people, dict(f.numbers)) for f in self.forms]}>"


def of_file() -> st.SearchStrategy[Case]:
    author, crowd = PEOPLE[0], tuple(p.id for p in PEOPLE[1:])
    leaves = tuple(filled(LEAVE, {**SICK, **form}, author) for form in (SICK, LONG, SHORT, {"end_half": "am"}))
    costs = tuple(filled(EXPENSE, {**TAXI, "amount": amount}, author) for amount in ("86", "5000"))
    cases = [Case(LEAVE.definition, author.id, crowd, leaves), Case(EXPENSE.definition, author.id, crowd, costs)]
    return st.sampled_from(cases)


def of_nobody() -> st.SearchStrategy[Case]:
    def build(flow: Flow, first: int) -> Case:
        forms = tuple(flow.filled(amount, first) for amount in AMOUNTS)
        return Case(flow.definition, AUTHOR, (*CROWD, "S1", "S2"), forms)

    return st.builds(build, flows(), st.integers(0, len(CROWD) - 1))


class Approvals(RuleBasedStateMachine):
    """One request, everybody who could want something of it, and what may never be."""

    case: Case
    definition: ProcessDefinition
    now: datetime
    request: Request | None = None
    events: list[RequestEvent]
    """As they are read again."""
    applied: list[TransitionResult]

    @property
    def held(self) -> Request:
        assert self.request is not None
        return self.request

    def check_step(self, before: Request, applied: TransitionResult, command: Any) -> None:
        after, task = applied.request, before.find_task(getattr(command, "task", ""))
        if isinstance(command, TaskCommand):
            self.check_entitled(before, command)
        if isinstance(command, DecideCommand):
            assert task and command.decision in ALLOWED[task.kind], (
                "S4: the author resubmits or withdraws, others decide"
            )
            silent = command.decision in (Decision.REJECT, Decision.RETURN) and not command.opinion.strip()
            assert not silent, "S6: a rejection has an opinion"
        if isinstance(command, TransferCommand | AddSignCommand | FireTimerCommand):
            fresh = {t.assignee for t in after.open_tasks} - {t.assignee for t in before.open_tasks}
            assert before.initiator not in fresh, "I3, S17: never over to the author"
        if isinstance(command, CommentCommand | CcCommand | UrgeCommand | MigrateCommand):
            same = {"status": after.status, "visits": after.visits, "filled": after.filled}
            assert before.model_copy(update=same) == before, "I8: those who only speak change nothing"
        if isinstance(command, CommentCommand | CcCommand):
            assert command.actor in before.participants, "I8: read access is for those whom it concerns"
        if isinstance(command, FireTimerCommand):
            assert task and task.is_open and before.is_running, "S14: only while it is open"
            assert after.status is before.status and after.opinions == before.opinions, "S14: time decides nothing"
        if isinstance(command, UrgeCommand):
            assert task and command.actor == before.initiator, "I8: only the author urges"
            assert len(task.urged) < 5, "S15: five times in all"
            assert not task.urged or self.now - task.urged[-1] >= timedelta(hours=4), "S15: once in four hours"
            assert command.opens is None, "S15: never outside working hours"
        self.check_kept(before, applied, command)
        self.check_told(before, applied)

    def check_entitled(self, before: Request, command: TaskCommand) -> None:
        task, standing = before.find_task(command.task), command.standing
        assert task is not None and task.is_open and before.is_running, "S1, S2: an open task of a running request"
        assert task.kind is TaskKind.REVISE or command.actor != before.initiator, "I3: nobody decides for themselves"
        if command.actor == task.assignee:
            return
        assert standing is not None, "I2: only the assignee, or who stands in"
        assert (standing.person, standing.deputy) == (task.assignee, command.actor), "I2, I6: only for the one away"
        assert standing.start <= self.now < standing.end, "I6: only while they are away"
        assert task.kind is not TaskKind.REVISE, "I6: the author's own task is nobody else's"

    def check_kept(self, before: Request, applied: TransitionResult, command: Any) -> None:
        after = applied.request
        resubmits = isinstance(command, DecideCommand) and command.decision is Decision.RESUBMIT
        assert resubmits or after.filled == before.filled, "S5: the form only changes by its author's resubmission"
        assert after.opinions[: len(before.opinions)] == before.opinions, "S5: opinions stay"
        kept = isinstance(command, MigrateCommand) or after.definition == before.definition
        assert kept and after.form == before.form, "S2: the version is pinned"
        for task in before.tasks:
            assert task.is_open or after.find_task(task.id) == task, "S1: what is decided stays decided"
        for visit in after.visits:
            if visit.node not in {v.node for v in before.visits}:
                assert not any(s.vote for s in list_seats(visit.ballot)), "S7: on entering, nobody has voted"
                assert visit.node not in after.decisions, "S3: no decision is left over"
        if isinstance(command, DecideCommand | AddSignCommand):
            self.check_agreed(before, after, command)
        assert len(applied.event.steps) <= 3 * len(self.definition.nodes), "S9: steps are bounded"

    def check_agreed(self, before: Request, after: Request, command: DecideCommand | AddSignCommand) -> None:
        """Counted by hand: where all have to agree, everybody else had agreed before the last one did."""
        task = before.find_task(command.task)
        visit = next(v for v in before.visits if v.node == task.node)
        through = visit.node not in {v.node for v in after.visits} and command.kind == "decide"
        if through and command.decision is Decision.APPROVE and visit.ballot.mode is not VotingMode.ANY:
            others = [s for s in visit.ballot.seats if not find_seat(state.Ballot(seats=(s,)), task.seat)]
            assert all(s.vote == Decision.APPROVE for s in others), "S7: all have to agree"

    def check_told(self, before: Request, applied: TransitionResult) -> None:
        told = Counter((n.kind, n.data.get("task", n.data.get("node")), n.data["person"]) for n in applied.notices)
        assert all(times == 1 for times in told.values()), f"S18: one notice of a kind for one task and person: {told}"
        ends = told.keys() & {("ended", None, before.initiator)}
        over = before.is_running and not applied.request.is_running
        mine = applied.event.by == before.initiator
        kept = before.status is Status.REVOKING and applied.request.status is Status.APPROVED
        assert bool(ends) is ((over or kept) and not mine), "S18: the author is told of the end, unless it was theirs"

    def check_recorded(self, before: Request | None, event: RequestEvent, after: Request) -> None:
        again = apply_command(self.definition, before, event.command, event.at).request
        assert again == after == Request.model_validate_json(after.model_dump_json()), "S11: replayed, it is it"
        expected = (before.events, before.head) if before else (0, "")
        assert (event.n, event.previous) == expected, "S11: one after another"
        assert event.add_hash() == event, "S11: the seal is the content's"
        assert event.model_copy(update={"via": "else"}).add_hash().hash != event.hash, "S11: and of no other"
        assert (after.events, after.head) == (event.n + 1, event.hash), "S11: up to the last one"

    def teardown(self) -> None:
        """The whole record, once for each example."""
        definitions = {self.definition.version: self.definition, NEW: self.definition}
        assert replay_events(definitions, self.events) == self.request, "S11: the record tells everything"
        assert len({e.hash for e in self.events}) == len(self.events), "S11: each has a seal of its own"

    @invariant()
    def s3_s7_what_goes_on_has_no_verdict_and_nothing_left_over(self) -> None:
        for visit in self.held.visits:
            assert not compute_verdict(visit.ballot), "S7: with a verdict, it is through"
            assert visit.node not in self.held.decisions, "S3: no decision is left over"

    @invariant()
    def s7_exactly_those_whose_turn_it_is_have_a_task(self) -> None:
        turns = sorted((s.n, s.person) for v in self.held.visits for s in list_waiting_seats(v.ballot))
        assert sorted((t.seat, t.assignee) for t in self.held.open_tasks) == turns, "S7: a task for each turn"

    @invariant()
    def i3_what_is_to_be_approved_is_never_its_authors(self) -> None:
        for task in self.held.tasks:
            assert (task.kind is TaskKind.REVISE) == (task.assignee == self.held.initiator), "I3: never one's own"

    @invariant()
    def i5_nobody_approves_two_levels_of_a_round(self) -> None:
        where: dict[tuple[int, str], set[str]] = {}
        for said in self.held.opinions:
            if said.decision == Decision.APPROVE and said.node in self.definition.nodes:
                for person in filter(None, (said.by, said.on_behalf)):
                    where.setdefault((said.round, person), set()).add(said.node)
        assert all(len(nodes) == 1 for nodes in where.values()), f"I5: two levels by one person: {where}"

    @invariant()
    def i6_both_names_are_in_the_record(self) -> None:
        for said in self.held.opinions:
            task = self.held.find_task(said.task)
            if task is not None and said.by != task.assignee:
                assert said.on_behalf == task.assignee, "I6: the record names both"

    @invariant()
    def s4_a_rejection_gives_the_author_one_task_or_ends_it(self) -> None:
        revising = [t for t in self.held.open_tasks if t.kind is TaskKind.REVISE]
        assert (self.held.status is Status.REVISE) == (len(revising) == 1), "S4: one task of the author's"
        if revising:
            assert self.held.open_tasks == tuple(revising), "S4: and nothing else"

    @invariant()
    def s8_only_people_and_rules_approve(self) -> None:
        if self.held.status is Status.APPROVED and not self.held.rule:
            said = {o.decision for o in self.held.opinions if o.round == self.held.round}
            assert Decision.APPROVE in said, "S8: approval has somebody who approved"

    @invariant()
    def s9_the_author_can_end_it_from_anywhere(self) -> None:
        if self.held.status in (Status.WAITING, Status.REVISE):
            withdrawn = WithdrawCommand(request="L-0001", actor=self.held.initiator)
            ended = apply_command(self.definition, self.held, withdrawn, self.now).request
            assert (ended.status, ended.open_tasks) == (Status.WITHDRAWN, ()), "S9: the author can end it"

    @invariant()
    def s10_nothing_of_an_ended_request_is_open(self) -> None:
        request = self.held
        is_open = request.status in OPEN
        assert request.is_running == is_open == bool(request.open_tasks), "S10: it waits, or it has ended"
        assert request.is_running or not (request.visits or request.arrived), "S10: an ended request has nothing left"

    @invariant()
    def s18_each_task_is_announced_once_and_closed_once(self) -> None:
        told = [n for applied in self.applied for n in applied.notices]
        announced = [n.data["task"] for n in told if n.kind == "assigned"]
        closed = [n.data["task"] for n in told if n.kind == "task_closed"]
        assert announced == [t.id for t in self.held.tasks], "S18: each task is announced once"
        assert sorted(closed) == sorted(t.id for t in self.held.tasks if not t.is_open), "S18: and closed once"

    @initialize(case=of_file() | of_nobody(), form=PICK)
    def begin(self, case: Case, form: int) -> None:
        self.case, self.definition = case, case.definition
        self.now, self.events, self.applied = NOW, list[RequestEvent](), list[TransitionResult]()
        version = {"process": self.definition.key, "definition": self.definition.version, "form": "form"}
        start = StartCommand(request="L-0001", initiator=case.author, filled=self.form(form), **version)
        assert self.attempt(start), "what was filled in can be started"

    # What people try

    def attempt(self, command: Any) -> TransitionResult | None:
        """Carries a command out, or is refused."""
        self.now += timedelta(minutes=1)
        before = self.request
        try:
            applied = apply_command(self.definition, before, command, self.now)
        except ToolError:
            return None
        if before is not None:
            self.check_step(before, applied, command)
        self.request = applied.request
        self.events.append(RequestEvent.model_validate_json(applied.event.model_dump_json()))
        self.check_recorded(before, self.events[-1], applied.request)
        self.applied.append(applied)
        return applied

    def person(self, pick: int) -> str:
        everybody_ = (self.case.author, *self.case.crowd, *self.held.waits_for * 3)
        return everybody_[pick % len(everybody_)]

    def task(self, pick: int) -> Task:
        """Open ones more often than others."""
        tasks = (*self.held.tasks, *self.held.open_tasks * 3)
        return tasks[pick % len(tasks)]

    def standing(self, task: Task, deputy: str, days: int, whose: int) -> state.Delegation | None:
        """Right ones and wrong ones: of others, over already, not begun."""
        start = self.now + days * timedelta(days=1)
        if days > 2:
            return None
        person = task.assignee if whose % 4 else self.person(whose)
        return state.Delegation(id="d", person=person, deputy=deputy, start=start, end=start + timedelta(hours=30))

    @precondition(lambda self: self.held.tasks)
    @rule(
        task=PICK, actor=PICK, days=st.integers(-3, 5), whose=PICK, decision=st.sampled_from(Decision), form=PICK,
        opinion=st.sampled_from(["", " ", "不同意"]), to=PICK,
    )  # fmt: skip
    def anybody_decides(
        self, task: int, actor: int, days: int, whose: int, decision: Decision, form: int, opinion: str, to: int
    ) -> None:
        one, by, nodes = self.task(task), self.person(actor), ["", "", *self.definition.nodes]
        more = {
            "standing": self.standing(one, by, days, whose),
            "to": nodes[to % len(nodes)] if decision is Decision.RETURN else "",
            "filled": self.form(form) if decision is Decision.RESUBMIT else None,
        }
        self.attempt(DecideCommand(task=one.id, actor=by, decision=decision, opinion=opinion, **more))

    def form(self, pick: int) -> FilledForm:
        return self.case.forms[pick % len(self.case.forms)]

    @precondition(lambda self: self.held.open_tasks)
    @rule(task=PICK, decision=PICK, form=PICK)
    def the_assignee_decides(self, task: int, decision: int, form: int) -> None:
        one = self.held.open_tasks[task % len(self.held.open_tasks)]
        allowed = sorted(ALLOWED[one.kind] - {Decision.RETURN})
        command = self.decision(one, allowed[decision % len(allowed)], form)
        assert self.attempt(command), f"S9: whoever is asked can decide: {command}"
        assert not self.attempt(command), "S1: and only once"

    def decision(self, task: Task, decision: Decision, form: int) -> DecideCommand:
        changed = self.form(form) if decision is Decision.RESUBMIT else None
        return DecideCommand(task=task.id, actor=task.assignee, decision=decision, opinion="因为", filled=changed)

    @precondition(lambda self: self.held.open_tasks)
    @rule(task=PICK, to=PICK)
    def the_assignee_returns_it(self, task: int, to: int) -> None:
        self.returned(self.held.open_tasks[task % len(self.held.open_tasks)], to)

    @precondition(lambda self: self.held.open_tasks)
    @rule(form=PICK)
    def it_comes_back_and_is_handed_in_again(self, form: int) -> None:
        for one in self.held.open_tasks[:1]:
            self.returned(one, 0)
        for one in self.held.open_tasks[:1]:
            if one.kind is TaskKind.REVISE:
                self.attempt(self.decision(one, Decision.RESUBMIT, form))

    def returned(self, one: Task, to: int) -> None:
        possible = list_return_targets(self.definition, self.held, one)
        if possible and Decision.RETURN in ALLOWED[one.kind]:
            where = possible[to % len(possible)]
            command = DecideCommand(task=one.id, actor=one.assignee, decision=Decision.RETURN, opinion="因为", to=where)
            assert self.attempt(command), f"S4: {one.assignee} can return it to {where}"

    @precondition(lambda self: self.held.open_tasks)
    @rule(task=PICK, deputy=PICK, decision=st.sampled_from(sorted(state.APPROVAL_DECISIONS)))
    def a_deputy_decides(self, task: int, deputy: int, decision: Decision) -> None:
        one = self.held.open_tasks[task % len(self.held.open_tasks)]
        actor = self.person(deputy)
        standing = self.standing(one, actor, 0, 1)
        self.attempt(DecideCommand(task=one.id, actor=actor, standing=standing, decision=decision, opinion="代"))

    @precondition(lambda self: self.held.tasks)
    @rule(task=PICK, actor=PICK, person=PICK, days=st.integers(-3, 5), whose=PICK)
    def anybody_hands_over(self, task: int, actor: int, person: int, days: int, whose: int) -> None:
        one, by = self.task(task), self.entitled(task, actor)
        standing = self.standing(one, by, days, whose)
        self.attempt(TransferCommand(task=one.id, actor=by, standing=standing, person=self.person(person)))

    def entitled(self, task: int, pick: int) -> str:
        """The assignee, or, one time in three, anybody."""
        return self.task(task).assignee if pick % 3 else self.person(pick)

    @rule(who=st.integers(1, 2))
    def one_person_takes_over_whatever_comes(self, who: int) -> None:
        for _ in range(3):
            for one in self.held.open_tasks[:1]:
                self.attempt(TransferCommand(task=one.id, actor=one.assignee, person=self.case.crowd[-who]))
            for one in self.held.open_tasks[:1]:
                self.attempt(self.decision(one, Decision.APPROVE, 0))

    @precondition(lambda self: self.held.tasks)
    @rule(
        task=PICK, actor=PICK, where=st.sampled_from(SignPosition), mode=st.sampled_from(VotingMode),
        people=st.lists(PICK, max_size=3),
    )  # fmt: skip
    def anybody_adds(self, task: int, actor: int, where: SignPosition, mode: VotingMode, people: list[int]) -> None:
        asked = tuple(map(self.person, people))
        by = self.entitled(task, actor)
        self.attempt(AddSignCommand(task=self.task(task).id, actor=by, where=where, mode=mode, people=asked))

    @precondition(lambda self: any(t.kind is TaskKind.APPROVE for t in self.held.open_tasks))
    @rule(task=PICK, where=st.sampled_from(SignPosition), mode=st.sampled_from(VotingMode), people=st.integers(1, 3))
    def the_assignee_adds_people_who_are_not_asked_yet(
        self, task: int, where: SignPosition, mode: VotingMode, people: int
    ) -> None:
        one = self.held.open_tasks[task % len(self.held.open_tasks)]
        known = {p for names in self.held.filled.people.values() for p in names} | set(self.held.waits_for)
        fresh = tuple(p for p in self.case.crowd if p not in known)[:people]
        self.attempt(AddSignCommand(task=one.id, actor=one.assignee, where=where, mode=mode, people=fresh))

    @rule(actor=PICK, agree=st.lists(PICK, max_size=2))
    def anybody_withdraws(self, actor: int, agree: list[int]) -> None:
        who, before = self.person(actor), self.held
        by = tuple(map(self.person, agree))
        done = self.attempt(WithdrawCommand(request="L-0001", actor=who, reason="x", agree=by))
        if before.status in (Status.WAITING, Status.REVISE):
            assert bool(done) is (who == before.initiator), "I8: the author, and nobody else, withdraws what runs"

    @precondition(lambda self: self.held.tasks)
    @rule(task=PICK, actor=PICK, late=st.booleans())
    def anybody_urges(self, task: int, actor: int, late: bool) -> None:
        opens = self.now + 9 * HOURS if late else None
        who = self.case.author if actor % 3 else self.person(actor)
        self.attempt(UrgeCommand(task=self.task(task).id, actor=who, opens=opens))

    @precondition(lambda self: self.held.open_tasks)
    @rule(task=PICK, hours=st.lists(st.integers(1, 12), max_size=7))
    def the_author_urges_on_and_on(self, task: int, hours: list[int]) -> None:
        one = self.held.open_tasks[task % len(self.held.open_tasks)]
        for some in hours:
            self.now += some * HOURS
            self.attempt(UrgeCommand(task=one.id, actor=self.case.author))

    @rule(actor=PICK, text=st.sampled_from(["", " ", "好"]))
    def anybody_comments(self, actor: int, text: str) -> None:
        self.attempt(CommentCommand(request="L-0001", actor=self.person(actor), text=text))

    @rule(actor=PICK, people=st.lists(PICK, max_size=3))
    def anybody_tells(self, actor: int, people: list[int]) -> None:
        self.attempt(CcCommand(request="L-0001", actor=self.person(actor), people=tuple(map(self.person, people))))

    @precondition(lambda self: self.held.tasks)
    @rule(task=PICK, timer=st.sampled_from(["remind", "escalate", "other"]), manager=PICK)
    def a_timer_goes_off(self, task: int, timer: str, manager: int) -> None:
        above = self.person(manager) if manager % 5 else ""
        fire = FireTimerCommand(task=self.task(task).id, timer=timer, manager=above)
        assert not (self.attempt(fire) and self.attempt(fire)), "S14: a timer goes off once"

    @precondition(lambda self: self.held.definition != NEW)
    @rule()
    def the_process_changes(self) -> None:
        self.attempt(MigrateCommand(request="L-0001", actor="admin", definition=NEW, form="form"))

    @rule(hours=st.integers(1, 100))
    def time_passes(self, hours: int) -> None:
        self.now += hours * HOURS

    @precondition(lambda self: self.held.is_running)
    @rule()
    def everybody_agrees_from_here_on(self) -> None:
        for _ in range(200):
            if not self.held.open_tasks:
                break
            one = self.held.open_tasks[0]
            decision = Decision.RESUBMIT if one.kind is TaskKind.REVISE else Decision.APPROVE
            assert self.attempt(self.decision(one, decision, 0)), f"S9: {one.assignee} cannot decide {one.id}"
        assert not self.held.is_running, "S9: every request reaches an end, in so many steps"
