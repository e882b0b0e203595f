"""A request is rebuilt as the embedded engine has it, in whatever order an engine tells of what happened at once."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.corpus import corpus
from tests.harness.memory_store import MemoryStore
from tests.tools.office import LONG, NOW, People
from tests.tools.workflow.remote.company import BOSS, CAR, LI, PEOPLE, PROCESSES, QIAN, SOFA, SUN, WANG, ZHANG, describe
from tools.spec import ToolError
from tools.workflow.engine.commands import AssignCommand, CommentCommand, DecideCommand, StartCommand, TransferCommand
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.reducer import apply_command
from tools.workflow.engine.state import Decision, FilledForm, Request
from tools.workflow.process.definition import Process, get_process_by_key
from tools.workflow.remote import rebuild
from tools.workflow.remote.api import ActivityInstance, EngineTask, ProcessInstance
from tools.workflow.remote.rebuild import CommandRecord, RemoteRequest, build_record_variables, list_action_records

KEYS = ("leave", "expense", "pair", "turn", "turns", "any", "group")
TARGETS = ("", "approval", "first_level", "one")
WHAT = st.sampled_from(["transfer", "assign", *Decision])
MOVES = st.lists(st.tuples(WHAT, st.integers(0, 3), st.sampled_from(TARGETS)), max_size=14)


OfTask = DecideCommand | TransferCommand | AssignCommand


@cache
def fill(key: str) -> FilledForm:
    engine = EmbeddedEngine(MemoryStore(), PROCESSES, People([*PEOPLE, QIAN, SUN]))
    form = SOFA if key in ("pair", "turn") else {**(LONG if key == "leave" else CAR), "approver": LI.id}
    process = get_process_by_key(key, PROCESSES)
    return asyncio.run(engine.fill_form(process, form, ZHANG.id, NOW))


@dataclass
class Engine:
    """Does what it is told, and tells of each moment in any order: it takes some milliseconds."""

    process: Process
    choose: Callable[[int], int]
    """A number up to this one."""
    request: Request = field(init=False)
    items: dict[int, EngineTask] = field(default_factory=dict)
    """Seat → its task."""
    variables: dict[str, object] = field(default_factory=dict)
    seconds: int = 0

    def __post_init__(self) -> None:
        process = self.process
        version = {"process": process.key, "definition": process.definition.version, "form": process.form_version}
        self.do(StartCommand(request="L-0001", initiator=ZHANG.id, filled=fill(process.key), **version), None)

    def do(self, command: StartCommand | OfTask, item: EngineTask | None) -> None:
        """Execute a command whose task has the embedded engine's name. Raises `ToolError`."""
        at = NOW + timedelta(seconds=self.seconds)
        before = None if isinstance(command, StartCommand) else self.request
        self.request = apply_command(self.process.definition, before, command, at).request
        if item:
            command = command.model_copy(update={"task": f"L-0001-{item.id}"})
        record = CommandRecord(key=f"k{self.seconds}", at=at, command=command)
        is_decision = isinstance(command, DecideCommand)
        self.variables |= build_record_variables(record, item.id if item and is_decision else "")
        for task in self.request.tasks:
            known = self.items.get(task.seat)
            moment = at + timedelta(milliseconds=self.choose(3))
            if known is None:
                about = {"node": task.node, "assignee": task.assignee, "since": moment}
                self.items[task.seat] = EngineTask(id=f"i{task.seat}", instance="1", execution="1", **about)
            elif task.is_open:
                self.items[task.seat] = known.model_copy(update={"assignee": task.assignee})
            elif known.ended is None and not any(t.is_open and t.seat == task.seat for t in self.request.tasks):
                self.items[task.seat] = known.model_copy(update={"ended": moment})
        self.seconds += 10

    def rebuild(self) -> Request:
        ends = [node.id for node in self.process.definition.nodes.values() if node.end == self.request.status]
        over = None if self.request.is_running else NOW + timedelta(seconds=self.seconds)
        instance = ProcessInstance(id="1", business_key="L-0001", started=NOW, ended=over, variables=self.variables)
        path = [ActivityInstance(id=ends[0], at=over)] if over else []
        items = sorted(self.items.values(), key=lambda item: (item.since, self.choose(9)))
        return RemoteRequest(self.process, instance, items, {}, path).request


@pytest.mark.parametrize("key", KEYS)
@settings(max_examples=40)
@given(st.data(), MOVES)
def test_a_request_is_rebuilt_as_it_is(key: str, data: st.DataObject, moves: list[tuple[str, int, str]]) -> None:
    process = get_process_by_key(key, PROCESSES)
    engine = Engine(process, lambda most: data.draw(st.integers(0, most)))
    for what, n, to in moves:
        if not engine.request.is_running:
            break
        task = engine.request.open_tasks[n % len(engine.request.open_tasks)]
        command: OfTask
        about = {"task": task.id, "actor": task.assignee, "opinion": "看过了"}
        if what == "transfer":
            command = TransferCommand(**about, person=(WANG, BOSS)[n % 2].id)
        elif what == "assign":
            command = AssignCommand(**about, person=BOSS.id, gone={task.assignee: (BOSS.id,)})
        else:
            command = DecideCommand(**about, decision=Decision(what), to=to if what == "return" else "")
        if what == "return" and task.node not in process.definition.alone:
            continue  # refused for these engines
        with suppress(ToolError):
            engine.do(command, engine.items[task.seat])
        assert describe(engine.rebuild()) == describe(engine.request)


@pytest.mark.parametrize("time", [rebuild.SAME_STEP, timedelta()])
def test_what_a_decision_closes_may_be_closed_before_it(monkeypatch: pytest.MonkeyPatch, time: timedelta) -> None:
    """Without that moment, which is the negative control, they would have ended on the engine's own page."""
    monkeypatch.setattr(rebuild, "SAME_STEP", time)
    outcomes = set[str]()
    for seed in range(20):
        engine = Engine(get_process_by_key("expense", PROCESSES), partial(Random(seed).randint, 0))
        for decision in (Decision.APPROVE, Decision.RETURN):
            task = engine.request.open_tasks[0]
            command = DecideCommand(task=task.id, actor=task.assignee, decision=decision, opinion="看过了")
            engine.do(command, engine.items[task.seat])
        outcomes |= {task.outcome for task in engine.rebuild().tasks if not task.is_open}
    assert outcomes == {"approve", "return", "returned"} | (set() if time else {"settled"})


LETTERS, LENGTHS = st.sampled_from(["请", 'a"\\', "|", "😀 "]), st.integers(0, 2 * rebuild.PIECE_LENGTH)
TEXTS = st.builds(lambda letters, n: letters * n, LETTERS, LENGTHS)


def comment(text: str, key: str = "k") -> CommandRecord:
    return CommandRecord(key=key, at=NOW, command=CommentCommand(request="L-0001", actor="U1", text=text))


@given(TEXTS, TEXTS)
def test_a_record_of_any_length_is_read_back_also_over_a_longer_one(before: str, text: str) -> None:
    variables: dict[str, object] = {**build_record_variables(comment(before)), "days": 2.0, "reason": None}
    variables |= build_record_variables(comment(text))
    assert [r.command for r in list_action_records(variables)] == [comment(text).command]
    assert all(len(str(v)) <= rebuild.PIECE_LENGTH + 4 for v in variables.values())


def test_a_decision_belongs_to_its_task_and_a_record_that_is_no_start_starts_nothing() -> None:
    command = DecideCommand(task="L-0001-28", actor="U2", decision=Decision.APPROVE)
    variables = build_record_variables(CommandRecord(key="k", at=NOW, command=command), "28")
    assert list(variables) == ["countersign_task_28"]
    found = rebuild.find_decision_record(variables, "28")
    assert found and found.command == command and rebuild.find_decision_record(variables, "29") is None
    assert not list_action_records(variables)
    (text,) = build_record_variables(comment("x")).values()
    assert rebuild.find_start_record({"countersign_start": text}) is None
    assert rebuild.find_decision_record({"countersign_task_28": text}, "28") is None


@corpus("value", None, "", "x", "1|", "1|{}", "99999999999|x", "-1|x", 7, {"a": 1}, "²|x")
def test_what_others_wrote_is_no_record(value: object) -> None:
    variables = {"countersign_start": value, "countersign_task_28": value, "countersign_act_1": value}
    assert rebuild.find_start_record(variables) is rebuild.find_decision_record(variables, "28") is None
    assert list_action_records(variables) == ()
