"""Requests of small drawn processes, and what is done to them."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.tools.office import NOW
from tests.tools.workflow.flows import Asked, Both, Flow, drawn
from tools.spec import ToolError
from tools.workflow.bpmn.graph import VotingMode
from tools.workflow.engine.commands import DecideCommand, StartCommand
from tools.workflow.engine.reducer import apply_command
from tools.workflow.engine.state import Decision, Delegation, FilledForm, Request

AMOUNT = {"amount": Decimal(1)}
ONE = Asked(VotingMode.ALL, 1)
TWO_LEVELS = drawn([ONE, ONE])
BESIDE = drawn([Both(((ONE,), (ONE,)))])


def started(flow: Flow, **people: tuple[str, ...]) -> Request:
    """`people`: task → who is asked."""
    chosen = {f"who_{task}": found for task, found in people.items()}
    filled = FilledForm(values={}, people=chosen, numbers=AMOUNT)
    key, version = flow.definition.key, flow.definition.version
    start = StartCommand(request="L-1", process=key, definition=version, form="", initiator="A", filled=filled)
    return apply_command(flow.definition, None, start, NOW).request


def tasks(flow: Flow) -> list[str]:
    """In the order in which they are reached."""
    return sorted((n for n in flow.definition.nodes if n.startswith("task")), key=lambda n: -int(n[4:]))


def does(flow: Flow, request: Request, command: Any, at: datetime = NOW) -> Request:
    return apply_command(flow.definition, request, command, at).request


def refusal(flow: Flow, request: Request, command: Any, at: datetime = NOW) -> str:
    return refused(flow, request, command, at).code


def refused(flow: Flow, request: Request, command: Any, at: datetime = NOW) -> ToolError:
    with pytest.raises(ToolError) as error:
        does(flow, request, command, at)
    return error.value


def approve(task: str, actor: str, **more: Any) -> DecideCommand:
    return DecideCommand(task=task, actor=actor, decision=Decision.APPROVE, **more)


def away(person: str, deputy: str) -> Delegation:
    return Delegation(id="d", person=person, deputy=deputy, start=NOW, end=NOW.replace(year=NOW.year + 1))
