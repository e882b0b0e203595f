"""The authority and state invariants, over random commands by random people on the real processes.

I: identity and authority. S: state machine.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.tools.office import LONG, PEOPLE, SHORT, SICK, TAXI, filled
from tools.spec import ToolError
from tools.workflow.machine import apply
from tools.workflow.process import shipped
from tools.workflow.state import (
    ALLOWED,
    RULE,
    Decide,
    Decision,
    Filled,
    Kind,
    Notice,
    Request,
    Start,
    Status,
    Withdraw,
)

LEAVE, EXPENSE = shipped()
FORMS = (
    (LEAVE, SICK),
    (LEAVE, LONG),
    (LEAVE, {**SICK, "end_half": "am"}),
    (EXPENSE, TAXI),
    (EXPENSE, {**TAXI, "amount": "5000"}),
)
CHANGES: tuple[dict[str, str], ...] = ({}, {"reason": "改一下"}, {"end_half": "am"}, {"amount": "20"})
AUTHORS = (PEOPLE[0], PEOPLE[4])
ANYBODY = st.sampled_from([p.id for p in PEOPLE])


class Approvals(RuleBasedStateMachine):
    @initialize(which=st.integers(0, len(FORMS) - 1), author=st.sampled_from(AUTHORS))
    def begin(self, which: int, author: Any) -> None:
        self.process, form = FORMS[which]
        self.author = author
        self.form = {**form, "approver": "U2"}
        self.now = datetime(2026, 11, 20, 2, tzinfo=UTC)
        self.notices: list[Notice] = []
        command = Start(
            request="L-0001",
            process=self.process.key,
            definition=self.process.definition.version,
            form=self.process.form_version,
            initiator=author.id,
            filled=self.filled({}),
        )
        self.commands: list[tuple[Any, datetime]] = [(command, self.now)]
        self.request, notices = apply(self.process.definition, None, command, self.now)
        self.notices += notices

    def filled(self, change: dict[str, str]) -> Filled:
        changed = {**self.form, **{k: v for k, v in change.items() if k in self.form}}
        return filled(self.process, changed, self.author)

    def attempt(self, command: Any) -> bool:
        """Carries a command out; a refusal changes nothing."""
        before = self.request.model_dump_json()
        self.now += timedelta(minutes=1)
        try:
            after, notices = apply(self.process.definition, self.request, command, self.now)
        except ToolError:
            assert self.request.model_dump_json() == before
            return False
        self.check_step(self.request, after, command)
        self.commands.append((command, self.now))
        self.request, self.notices = after, [*self.notices, *notices]
        return True

    def check_step(self, before: Request, after: Request, command: Any) -> None:
        if isinstance(command, Decide):
            task = before.task(command.task)
            assert task is not None
            assert task.assignee == command.actor, "I2: only the assignee decides"
            assert command.decision in ALLOWED[task.kind]
            assert task.kind is Kind.REVISE or command.actor != before.initiator, "I3: never on one's own request"
            assert task.open and before.running, "S1, S2: an open task of a running request, once"
            assert command.decision is not Decision.REJECT or command.opinion.strip(), "S6: a rejection has an opinion"
        if isinstance(command, Withdraw):
            assert command.actor == before.initiator and before.running, "I8: only the author, only while it runs"
        resubmits = isinstance(command, Decide) and command.decision is Decision.RESUBMIT
        assert resubmits or after.filled == before.filled, "S5: the form only changes by its author's resubmission"
        assert after.opinions[: len(before.opinions)] == before.opinions, "S5: opinions stay"
        assert after.events[: len(before.events)] == before.events, "the record is only appended to"
        assert len(after.events) > len(before.events), "every transition is recorded"
        assert after.definition == before.definition and after.form == before.form, "S2: pinned"

    @rule(
        actor=ANYBODY,
        decision=st.sampled_from(Decision),
        opinion=st.sampled_from(["", " ", "不同意", "ok"]),
        change=st.sampled_from(CHANGES),
        which=st.integers(0, 20),
    )
    def anybody_decides_anything(
        self, actor: str, decision: Decision, opinion: str, change: dict[str, str], which: int
    ) -> None:
        tasks = self.request.tasks
        task = tasks[which % len(tasks)].id if tasks else "L-0001-9"
        filled = self.filled(change) if decision is Decision.RESUBMIT else None
        self.attempt(Decide(task=task, actor=actor, decision=decision, opinion=opinion, filled=filled))

    @precondition(lambda self: self.request.open_tasks)
    @rule(data=st.data(), change=st.sampled_from(CHANGES))
    def the_assignee_decides(self, data: Any, change: dict[str, str]) -> None:
        task = self.request.open_tasks[0]
        decision = data.draw(st.sampled_from(sorted(ALLOWED[task.kind])))
        filled = self.filled(change) if decision is Decision.RESUBMIT else None
        command = Decide(task=task.id, actor=task.assignee, decision=decision, opinion="因为", filled=filled)
        assert self.attempt(command), "the assignee of an open task can always decide it"
        assert not self.attempt(command), "S1: and only once"

    @rule(actor=ANYBODY)
    def anybody_withdraws(self, actor: str) -> None:
        allowed = self.request.running and actor == self.request.initiator
        assert self.attempt(Withdraw(actor=actor, reason="x")) is allowed

    @invariant()
    def at_most_one_open_task(self) -> None:
        assert len(self.request.open_tasks) == (1 if self.request.running else 0), "S10: an ended request has none"

    @invariant()
    def i3_an_approval_never_belongs_to_the_author(self) -> None:
        for task in self.request.tasks:
            assert (task.kind is Kind.REVISE) == (task.assignee == self.request.initiator)

    @invariant()
    def i5_nobody_decides_two_levels_of_a_round(self) -> None:
        said = [(o.round, o.by) for o in self.request.opinions if o.decision in ALLOWED[Kind.APPROVE]]
        assert len(said) == len(set(said))

    @invariant()
    def s3_no_decision_is_left_over(self) -> None:
        assert self.request.decision == ""

    @invariant()
    def s4_a_rejection_leads_to_one_revision_by_the_author(self) -> None:
        if self.request.status is Status.REVISE:
            (task,) = self.request.open_tasks
            assert (task.kind, task.assignee) == (Kind.REVISE, self.request.initiator)
        last = next((t for t in reversed(self.request.tasks) if not t.open), None)
        if last is not None and last.outcome == Decision.REJECT and self.request.running:
            assert self.request.status is Status.REVISE

    @invariant()
    def s8_only_a_rule_or_every_level_approves(self) -> None:
        if self.request.status is Status.APPROVED and not self.request.rule:
            levels = {self.request.filled.values["approver"], *self.request.filled.people.values()}
            agreed = {
                o.by for o in self.request.opinions if o.round == self.request.round and o.decision is Decision.APPROVE
            }
            assert agreed == levels

    @invariant()
    def s11_replaying_the_commands_gives_the_stored_state(self) -> None:
        replayed: Request | None = None
        for command, at in self.commands:
            replayed, _ = apply(self.process.definition, replayed, command, at)
        assert replayed == self.request == Request.model_validate_json(self.request.model_dump_json())

    @invariant()
    def s18_each_task_is_announced_once_and_closed_once(self) -> None:
        announced = [n.data["task"] for n in self.notices if n.kind == "assigned"]
        closed = [n.data["task"] for n in self.notices if n.kind == "task_closed"]
        assert announced == [t.id for t in self.request.tasks]
        assert sorted(closed) == sorted(t.id for t in self.request.tasks if not t.open)

    @invariant()
    def the_end_is_told_once_and_not_to_the_one_who_did_it(self) -> None:
        ended = [n for n in self.notices if n.kind == "ended"]
        assert len(ended) == (0 if self.request.running or self.ended_by_author() else 1)

    def ended_by_author(self) -> bool:
        command, _ = self.commands[-1]
        return getattr(command, "actor", self.request.initiator) == self.request.initiator


Approvals.TestCase.settings = settings(max_examples=60, stateful_step_count=15, deadline=None)
TestApprovals = Approvals.TestCase


def test_s8_the_rule_acts_in_its_own_name() -> None:
    form = filled(LEAVE, SHORT)
    command = Start(request="L-0001", process="leave", definition="d", form="f", initiator="U1", filled=form)
    request, notices = apply(LEAVE.definition, None, command, datetime(2026, 11, 20, tzinfo=UTC))
    assert (request.status, request.rule, request.tasks, notices) == (Status.APPROVED, "short_leave", (), ())
    assert [(e.what, e.by) for e in request.events][-2:] == [("flow", RULE), ("end", RULE)]
    taken = [(e.flow, e.condition) for e in request.events if e.what == "flow"]
    assert taken == [("to_length", ""), ("short", "${days <= 1}"), ("passed", "")]
