"""One request as a state machine of hypothesis: random commands by random people at random times, on the shipped
processes and on drawn ones."""

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from tests.tools.office import NOW
from tests.tools.workflow.invariants import NEW, Case, Invariants, of_file, of_nobody
from tools.spec import ToolError
from tools.workflow.bpmn.graph import VotingMode
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
    TransferCommand,
    UrgeCommand,
    WithdrawCommand,
)
from tools.workflow.engine.reducer import apply_command
from tools.workflow.engine.state import (
    ALLOWED,
    APPROVAL_DECISIONS,
    Decision,
    Delegation,
    FilledForm,
    Status,
    Task,
    TaskKind,
)
from tools.workflow.engine.transitions import TransitionResult

HOURS = timedelta(hours=1)
PICK = st.integers(0, 10_000)
"""One of however many there are."""


class Approvals(Invariants):
    """One request, and everybody who could want something of it."""

    @initialize(case=of_file() | of_nobody(), form=PICK)
    def begin(self, case: Case, form: int) -> None:
        self.case, self.definition = case, case.definition
        self.now, self.events, self.applied = NOW, list[RequestEvent](), list[TransitionResult]()
        start = StartCommand(
            request="L-0001",
            process=self.definition.key,
            definition=self.definition.version,
            form="form",
            initiator=case.author,
            filled=case.forms[form % len(case.forms)],
        )
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

    def standing(self, task: Task, deputy: str, days: int, whose: int) -> Delegation | None:
        """Right ones and wrong ones: of others, over already, not begun."""
        start = self.now + days * timedelta(days=1)
        if days > 2:
            return None
        person = task.assignee if whose % 4 else self.person(whose)
        return Delegation(id="d", person=person, deputy=deputy, start=start, end=start + timedelta(hours=30))

    @precondition(lambda self: self.held.tasks)
    @rule(
        task=PICK, actor=PICK, days=st.integers(-3, 5), whose=PICK, decision=st.sampled_from(Decision), form=PICK,
        opinion=st.sampled_from(["", " ", "不同意"]), to=PICK,
    )  # fmt: skip
    def anybody_decides(
        self, task: int, actor: int, days: int, whose: int, decision: Decision, form: int, opinion: str, to: int
    ) -> None:
        one, nodes = self.task(task), ["", "", *self.definition.nodes]
        self.attempt(
            DecideCommand(
                task=one.id,
                actor=self.person(actor),
                standing=self.standing(one, self.person(actor), days, whose),
                decision=decision,
                opinion=opinion,
                to=nodes[to % len(nodes)] if decision is Decision.RETURN else "",
                filled=self.form(form) if decision is Decision.RESUBMIT else None,
            )
        )

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
    @rule(task=PICK, deputy=PICK, decision=st.sampled_from(sorted(APPROVAL_DECISIONS)))
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
        done = self.attempt(
            WithdrawCommand(request="L-0001", actor=who, reason="x", agree=tuple(map(self.person, agree)))
        )
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
