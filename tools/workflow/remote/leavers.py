"""Hands tasks of people who have left up to the people above them, in the remote engine too.

The engine opens a task for the person whom the form named, whether or not they have left. Before the task is announced,
it is handed up by the engine's REST API, and a record says so; the request's author is told. If nobody above may decide
or has a user of the engine, the task is announced as it is, and the author hears that nobody got it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from tools.workflow.engine.authority import can_be_asked
from tools.workflow.engine.commands import AssignCommand, RequestNotice
from tools.workflow.engine.state import RULE, TaskKind
from tools.workflow.remote.command_records import CommandRecord
from tools.workflow.remote.engine_users import EngineUsers
from tools.workflow.remote.rebuild import RemoteRequest


async def stream_hand_ups(
    found: RemoteRequest, gone: Mapping[str, Sequence[str]], users: EngineUsers
) -> AsyncIterator[CommandRecord]:
    """Yield the records of the tasks to hand up. `gone` maps people who have left to the people above them, nearest
    first. The author's own task goes to nobody else."""
    for task in found.request.open_tasks:
        for person in gone.get(task.assignee, ()) if task.kind is not TaskKind.REVISE else ():
            able = can_be_asked(found.process.definition, found.request, task, person)
            if able and await users.find_engine_user(person):
                command = AssignCommand(task=task.id, actor=RULE, person=person, gone={task.assignee: (person,)})
                # the leaver never had the task, so the person above has it since it was opened
                yield CommandRecord(
                    key=f"handed_up:{task.id}", at=task.since, command=command, round=found.request.round
                )
                break


def build_hand_up_notice(found: RemoteRequest, command: AssignCommand) -> RequestNotice:
    """The notice to the author, like that of the embedded engine."""
    request = found.request
    (leaver,) = command.gone
    data = {"request": request.id, "task": command.task, "person": request.initiator, "by": leaver}
    return RequestNotice(kind="stepped_up", data={**data, "to": command.person})
