"""A word beside a request that decides nothing: urging, commenting, telling others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from pydantic import Field

from tools.advice import advice
from tools.deciding import People
from tools.facts import request_facts
from tools.identities import identify_people
from tools.names import names_of
from tools.plans import changed, ids_of, own_card, privacy_of_own
from tools.privacy import privacy_of_card
from tools.requests import readable
from tools.spec import Fact, Frozen, Gate, Note, Outcome, Plan, Privacy, ToolError, most_private
from tools.tool import Tool, Use
from tools.workflow.commands import Cc, Comment, Urge
from tools.workflow.engine import Moved
from tools.workflow.forms import clear_text
from tools.workflow.state import Request

MAX_COMMENT = 1000
LABEL = {"zh": "评论", "en": "The comment"}


class UrgeTask(Frozen):
    task_id: str = Field(max_length=60, description="Request (L-0012) or task (L-0012-1).")


class UrgeStored(Frozen):
    request_id: str
    tasks: tuple[str, ...]


class CommentRequest(Frozen):
    request_id: str = Field(max_length=40, description="Like L-0012.")
    text: str = Field(max_length=4000, description="The comment, in the person's own words.")


class CcRequest(Frozen):
    request_id: str = Field(max_length=40, description="Like L-0012.")
    people: People = Field(description="Names or ids of who is told.", min_length=1)


async def prepare_urge(use: Use, args: UrgeTask) -> Plan:
    request, tasks = await _to_urge(use, args.task_id)
    fine = await _each(tasks, lambda task: use.desk.engine.check(Urge(task=task, actor=use.caller.id), use.now))
    who = [t.assignee for t in request.tasks if t.id in fine]
    title = await _title(use, "title.urge", request, names=await names_of(use.desk.directory, who))
    urged = Fact(label="urged", value=await identify_people(use.desk.directory, who))
    return await _beside(use, request, {"request_id": request.id, "tasks": fine}, title, urged)


async def run_urge(use: Use, stored: UrgeStored) -> Outcome:
    """Each task by a command of its own."""

    def urge(task: str) -> Awaitable[Moved]:
        return use.desk.engine.act(Urge(task=task, actor=use.caller.id), f"{use.key}:{task}", use.now)

    urged = await _each(stored.tasks, urge)
    request = await use.desk.engine.request(stored.request_id)
    who = [t.assignee for t in request.tasks if t.id in urged]
    names = await names_of(use.desk.directory, who)
    data = {"request": request.id, "urged": names["en"]}
    params: dict[str, Any] = {"request": request.id, "names": names}
    return changed(data, "result.urged", "effect.urged", request.id, params, await privacy_of_own(use, request.id))


async def _each(tasks: Iterable[str], work: Callable[[str], Awaitable[object]]) -> list[str]:
    """The tasks that it can be done with. Raises what the first is refused with if there is none."""
    fine, errors = list[str](), list[ToolError]()
    for task in tasks:
        try:
            await work(task)
            fine.append(task)
        except ToolError as error:
            errors.append(error)
    if not fine:
        raise errors[0]
    return fine


async def _to_urge(use: Use, named: str) -> tuple[Request, list[str]]:
    """The request, and its tasks: the one that is named, or all that are open."""
    try:
        assigned = await use.desk.engine.task(named)
    except ToolError:
        request = await readable(use, named)
        if not request.open_tasks:
            raise ToolError("not_running", f"{request.id} waits for nobody", request=request.id) from None
        return request, [t.id for t in request.open_tasks]
    return assigned.request, [assigned.task.id]


async def prepare_comment(use: Use, args: CommentRequest) -> Plan:
    request = await readable(use, args.request_id)
    text = clear_text(args.text, MAX_COMMENT, "text", LABEL)
    await use.desk.engine.check(Comment(request=request.id, actor=use.caller.id, text=text), use.now)
    title = await _title(use, "title.comment", request)
    return await _beside(use, request, {"request_id": request.id, "text": text}, title, body=text)


async def run_comment(use: Use, args: CommentRequest) -> Outcome:
    command = Comment(request=args.request_id, actor=use.caller.id, text=args.text)
    moved = await use.desk.engine.act(command, use.key, use.now)
    data, params = {"request": moved.request, "comment": args.text}, {"request": moved.request}
    privacy = await privacy_of_own(use, moved.request)
    return changed(
        data, "result.commented", "effect.commented", moved.request, params, privacy, data_privacy=Privacy.OWN_TEXT
    )


async def prepare_cc(use: Use, args: CcRequest) -> Plan:
    request = await readable(use, args.request_id)
    people = await ids_of(use, args.people)
    await use.desk.engine.check(Cc(request=request.id, actor=use.caller.id, people=people), use.now)
    title = await _title(use, "title.cc", request, names=await names_of(use.desk.directory, people))
    copied = Fact(label="cc", value=await identify_people(use.desk.directory, people))
    return await _beside(use, request, {"request_id": request.id, "people": list(people)}, title, copied)


async def run_cc(use: Use, args: CcRequest) -> Outcome:
    command = Cc(request=args.request_id, actor=use.caller.id, people=args.people)
    moved = await use.desk.engine.act(command, use.key, use.now)
    names = await names_of(use.desk.directory, args.people)
    data = {"request": moved.request, "told": names["en"]}
    params: dict[str, Any] = {"request": moved.request, "names": names}
    privacy = await privacy_of_own(use, moved.request)
    return changed(data, "result.told", "effect.told", moved.request, params, privacy)


async def _title(use: Use, key: str, request: Request, **params: Any) -> Note:
    process = await use.desk.engine.process_of(request)
    return Note(key=key, params={"process": process.form.name.both, "request": request.id, **params})


async def _beside(use: Use, request: Request, args: dict[str, Any], title: Note, *facts: Fact, body: str = "") -> Plan:
    process = await use.desk.engine.process_of(request)
    shown = await request_facts(use.desk.directory, process, request)
    privacy = await privacy_of_card(use, request)
    if body:
        privacy = most_private(privacy, Privacy.OWN_TEXT)
    return own_card(use, args, title, (*facts, *shown), subject=request.id, body=body, privacy=privacy)


URGE_TASK = Tool(
    name="urge_task",
    purpose="Remind (催办) who has to decide on the caller's request; at most once in 4 hours.",
    use_when="They want it hurried.",
    avoid_when="Nobody asked for it, or it is not their request.",
    args=UrgeTask,
    returns='{"request", "urged": names}',
    errors=advice("urged_lately", "urged_late", "urged_enough", "own_task"),
    also=frozenset({"no_task", "no_request", "not_yours", "not_running", "task_closed", "busy"}),
    example={"task_id": "L-0012"},
    run=run_urge,
    gate=Gate.CONFIRM,
    prepare=prepare_urge,
    stored=UrgeStored,
    privacy=Privacy.PRIVATE,
)
COMMENT_REQUEST = Tool(
    name="comment_request",
    purpose="Leave a comment on a request (评论); its author and who decides are told.",
    use_when="They want to say something without deciding.",
    avoid_when="It goes with a decision: decide_task.",
    args=CommentRequest,
    returns='{"request", "comment"}',
    errors={},
    also=frozenset({"no_request", "not_concerned", "missing_field", "too_long", "busy"}),
    example={"request_id": "L-0012", "text": "发票已补"},
    run=run_comment,
    gate=Gate.CONFIRM,
    prepare=prepare_comment,
    stored=CommentRequest,
    privacy=Privacy.PRIVATE,
    is_rare=True,
)
CC_REQUEST = Tool(
    name="cc_request",
    purpose="Tell others about a request (抄送); they may read it from then on.",
    use_when="They want somebody to know of it.",
    avoid_when="That person is to decide: transfer_task, add_sign.",
    args=CcRequest,
    returns='{"request", "told": names}',
    errors=advice("told_already"),
    also=frozenset({"no_request", "not_concerned", "unknown_person", "ambiguous_person", "busy"}),
    example={"request_id": "L-0012", "people": ["李四"]},
    run=run_cc,
    gate=Gate.CONFIRM,
    prepare=prepare_cc,
    stored=CcRequest,
    privacy=Privacy.PRIVATE,
    is_rare=True,
)
