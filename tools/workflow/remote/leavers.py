"""Hands tasks of people who have left up to the people above them, in the remote engine too.

The engine opens a task for the person whom the form named, whether or not they have left. Before the task is announced,
it is handed up by the engine's REST API, and a record says so; the request's author is told. If nobody above may decide
or has a user of the engine, the task is announced as it is, and the author hears that nobody got it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tools.workflow.engine.authority import can_be_asked
from tools.workflow.engine.commands import AssignCommand, RequestNotice
from tools.workflow.engine.state import RULE, TaskKind
from tools.workflow.remote.command_records import CommandRecord
from tools.workflow.remote.engine_users import EngineUsers
from tools.workflow.remote.rebuild import RemoteRequest


async def find_hand_up(
    found: RemoteRequest, gone: Mapping[str, Sequence[str]], users: EngineUsers
) -> tuple[CommandRecord, RequestNotice] | None:
    """The record of the first task to hand up, and the notice to the author. `gone` maps people who have left to the
    people above them, nearest first. The author's own task goes to nobody else."""
    for task in found.request.open_tasks:
        for person in gone.get(task.assignee, ()) if task.kind is not TaskKind.REVISE else ():
            able = can_be_asked(found.process.definition, found.request, task, person)
            if able and await users.find_engine_user(person):
                command = AssignCommand(task=task.id, actor=RULE, person=person, gone={task.assignee: (person,)})
                # the leaver never had the task, so the person above has it since it was opened
                key, round_ = f"handed_up:{task.id}", found.request.round
                data = {"request": found.request.id, "task": task.id, "person": found.request.initiator}
                return (
                    CommandRecord(key=key, at=task.since, command=command, round=round_),
                    RequestNotice(kind="stepped_up", data={**data, "by": task.assignee, "to": person}),
                )
    return None
