"""SpiffWorkflow running the files that ours runs: the oracle of the differential test.
Conditions are evaluated by `tools.workflow.bpmn.expressions`; nothing is given to `eval`.

What its shipped parser does not know is told to it: who a task is assigned to, what a service task is, and in which
words a collection of deciders is written. Decisions are put into its data and taken out again as BPMN engines leave it
to their users: it has no idea of them.
"""

import io
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from lxml import etree
from SpiffWorkflow.bpmn.parser.BpmnParser import BpmnParser, full_tag
from SpiffWorkflow.bpmn.parser.TaskParser import TaskParser
from SpiffWorkflow.bpmn.specs.defaults import ServiceTask, UserTask
from SpiffWorkflow.bpmn.workflow import BpmnWorkflow
from SpiffWorkflow.util.task import TaskState

from tools.workflow.bpmn.expressions import Value, evaluate_condition, list_variables, parse_expression, parse_variable

BPMN = "{http://www.omg.org/spec/BPMN/20100524/MODEL}"
CAMUNDA = "{http://camunda.org/schema/1.0/bpmn}"
DECISION = "decision"
CHILD = " [child]"
"""Ends the name of one of several instances of a task."""


class Asked(UserTask):
    assignee = ""
    """`${name}`."""


class Told(ServiceTask):
    def _run_hook(self, task: Any) -> bool:
        return True


class AskedParser(TaskParser):
    def create_task(self) -> Any:
        task = super().create_task()
        task.assignee = self.node.get(f"{CAMUNDA}assignee")
        return task


class Parser(BpmnParser):
    ASKED, TOLD = {full_tag("userTask"): (AskedParser, Asked)}, {full_tag("serviceTask"): (TaskParser, Told)}
    OVERRIDE_PARSER_CLASSES: Mapping[str, Any] = ASKED | TOLD


class Conditions:
    """Evaluates what is between `${` and `}`, and leaves durations as they are."""

    def evaluate(self, task: Any, expression: str, external_context: Any = None) -> Any:
        if not expression.startswith("${"):
            return expression
        parsed = parse_expression(expression)
        return evaluate_condition(parsed, {name: self._value(task, name) for name in list_variables(parsed)})

    def _value(self, task: Any, name: str) -> Value:
        if name == "nrOfCompletedInstances":
            return Decimal(len(task.parent.internal_data["merged"]))
        value = task.data.get(name, "")
        return Decimal(value["of"]) if isinstance(value, dict) else value


CONDITIONS = Conditions()


def loaded(source: bytes) -> Any:
    root = etree.fromstring(source, etree.XMLParser(resolve_entities=False, no_network=True))
    for picture in root.findall("{http://www.omg.org/spec/BPMN/20100524/DI}BPMNDiagram"):
        root.remove(picture)  # it would order the flows of a gateway by their height
    for several in root.iter(f"{BPMN}multiInstanceLoopCharacteristics"):
        source_ref = etree.SubElement(several, f"{BPMN}loopDataInputRef")
        source_ref.text = several.get(f"{CAMUNDA}collection").removeprefix("${").removesuffix("}")
        etree.SubElement(several, f"{BPMN}inputDataItem", id=several.get(f"{CAMUNDA}elementVariable"))
    parser = Parser()
    parser.add_bpmn_io(io.BytesIO(etree.tostring(root)))
    return parser.get_spec(root.find(f"{BPMN}process").get("id"))


def begun(spec: Any, data: Mapping[str, Any]) -> Any:
    """A workflow at its first task. `data`: `number` gives what conditions compare."""
    workflow = BpmnWorkflow(spec, script_engine=CONDITIONS)
    workflow.get_tasks(state=TaskState.READY)[0].data.update(data)
    workflow.do_engine_steps()
    return workflow


def number(value: Decimal) -> dict[str, str]:
    return {"of": str(value)}


def open_tasks(workflow: Any) -> Iterator[tuple[str, str, Any]]:
    """(node, assignee, task)"""
    for task in workflow.get_tasks(state=TaskState.READY, manual=True):
        yield task.task_spec.name.removesuffix(CHILD), task.data[parse_variable(task.task_spec.assignee)], task


def decide(workflow: Any, node: str, assignee: str, decision: str, changes: Mapping[str, Any] | None = None) -> None:
    """`changes`: of a resubmission, what the form is now. It begins without what was decided before."""
    task = next(t for n, a, t in open_tasks(workflow) if (n, a) == (node, assignee))
    if changes is not None:
        for name in [name for name in task.data if name.startswith(DECISION)]:
            del task.data[name]
        task.data.update(changes)
    task.data.update({DECISION: decision, f"{DECISION}_{node}": decision})
    if task.task_spec.name.endswith(CHILD):  # it would go to the next one, which has "the input item already"
        del task.data[parse_variable(task.task_spec.assignee)]
    task.run()
    workflow.do_engine_steps()


def ended(workflow: Any) -> str:
    """Id of the end event that was reached; empty if none was."""
    reached = (task.task_spec for task in workflow.get_tasks(state=TaskState.COMPLETED))
    ends = [spec.name for spec in reached if type(spec).__name__ == "EndEvent"]
    return ends[-1] if workflow.completed else ""
