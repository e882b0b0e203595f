"""Tools that say something about a request without deciding it: urge, comment, tell others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from pydantic import Field

from tools.cards.builders import build_effect_outcome, build_own_proposal, classify_own_request, resolve_people_ids
from tools.cards.fields import build_request_card_fields, build_scope, build_status_field
from tools.error_advice import select_advice
from tools.languages import choose_words
from tools.people.identities import identify_people
from tools.people.names import format_people_names
from tools.privacy import classify_card
from tools.requests.status import require_readable_request
from tools.spec import (
    CardField,
    EffectPlace,
    FrozenModel,
    Gate,
    Offer,
    Privacy,
    Proposal,
    TextRef,
    ToolError,
    ToolOutcome,
    choose_most_private,
)
from tools.tasks.task_actions import People
from tools.tool import Tool, ToolArgs, ToolContext
from tools.workflow.engine.commands import CcCommand, CommentCommand, UrgeCommand
from tools.workflow.engine.port import CommandResult
from tools.workflow.engine.reducer import COMMENT
from tools.workflow.engine.state import Request
from tools.workflow.process.forms import clean_form_text

MAX_COMMENT = 1000


class UrgeTaskArgs(ToolArgs):
    task: str = Field(max_length=60, description="Request (L-0012) or task (L-0012-1).")


class StoredUrge(FrozenModel):
    request_id: str
    tasks: tuple[str, ...]


class CommentRequestArgs(ToolArgs):
    request: str = Field(max_length=40, description="Like L-0012.")
    text: str = Field(max_length=4000, description="The comment, in the person's own words.")


class CcRequestArgs(ToolArgs):
    request: str = Field(max_length=40, description="Like L-0012.")
    people: People = Field(description="Names or ids of who is told.", min_length=1)


async def prepare_urge_task(context: ToolContext, args: UrgeTaskArgs) -> Proposal:
    try:
        assigned = await context.services.engine.get_task(args.task)
        request, tasks = assigned.request, [assigned.task.id]
    except ToolError:  # the number of a request means all its open tasks
        request = await require_readable_request(context, args.task)
        tasks = [t.id for t in request.open_tasks]
        if not tasks:
            raise ToolError("not_running", f"{request.id} waits for nobody", request=request.id) from None
    fine = await _try_each_task(
        tasks,
        lambda task: context.services.engine.preview_command(
            UrgeCommand(task=task, actor=context.caller.id), context.now
        ),
    )
    assignees = [t.assignee for t in request.tasks if t.id in fine]
    names = await format_people_names(context.services.directory, assignees)
    urged = CardField(label="urged", value=await identify_people(context.services.directory, assignees))
    return await _propose_on_request(context, request, "title.urge", {"tasks": fine}, urged, names=names)


async def run_urge_task(context: ToolContext, stored: StoredUrge) -> ToolOutcome:
    """Urge the assignees, with one command per task."""

    def urge_assignee(task: str) -> Awaitable[CommandResult]:
        return context.services.engine.execute_command(
            UrgeCommand(task=task, actor=context.caller.id), f"{context.idempotency_key}:{task}", context.now
        )

    urged = await _try_each_task(stored.tasks, urge_assignee)
    request = await context.services.engine.get_request(stored.request_id)
    who = [t.assignee for t in request.tasks if t.id in urged]
    names = await format_people_names(context.services.directory, who)
    data = {"request": request.id, "urged": choose_words(names, context.caller.person.language)}
    params: dict[str, Any] = {"request": request.id, "names": names}
    return build_effect_outcome(
        data, "result.urged", "effect.urged", request.id, params, await classify_own_request(context, request.id)
    )


async def _try_each_task(tasks: Iterable[str], work: Callable[[str], Awaitable[object]]) -> list[str]:
    """The tasks for which `work` succeeds. Raises the first task's error if it fails for all."""
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


async def prepare_comment_request(context: ToolContext, args: CommentRequestArgs) -> Proposal:
    request = await require_readable_request(context, args.request)
    text = clean_form_text(args.text, MAX_COMMENT, "text", COMMENT)
    await context.services.engine.preview_command(
        CommentCommand(request=request.id, actor=context.caller.id, text=text), context.now
    )
    return await _propose_on_request(context, request, "title.comment", {"text": text}, body=text)


async def run_comment_request(context: ToolContext, args: CommentRequestArgs) -> ToolOutcome:
    command = CommentCommand(request=args.request, actor=context.caller.id, text=args.text)
    result = await context.services.engine.execute_command(command, context.idempotency_key, context.now)
    data, params = {"request": result.request, "comment": args.text}, {"request": result.request}
    privacy = await classify_own_request(context, result.request)
    return build_effect_outcome(
        data, "result.commented", "effect.commented", result.request, params, privacy, data_privacy=Privacy.OWN_TEXT
    )


async def prepare_cc_request(context: ToolContext, args: CcRequestArgs) -> Proposal:
    request = await require_readable_request(context, args.request)
    people = await resolve_people_ids(context, args.people)
    await context.services.engine.preview_command(
        CcCommand(request=request.id, actor=context.caller.id, people=people), context.now
    )
    names = await format_people_names(context.services.directory, people)
    copied = CardField(label="cc", value=await identify_people(context.services.directory, people))
    return await _propose_on_request(context, request, "title.cc", {"people": list(people)}, copied, names=names)


async def run_cc_request(context: ToolContext, args: CcRequestArgs) -> ToolOutcome:
    command = CcCommand(request=args.request, actor=context.caller.id, people=args.people)
    result = await context.services.engine.execute_command(command, context.idempotency_key, context.now)
    names = await format_people_names(context.services.directory, args.people)
    data = {"request": result.request, "told": choose_words(names, context.caller.person.language)}
    params: dict[str, Any] = {"request": result.request, "names": names}
    privacy = await classify_own_request(context, result.request)
    return build_effect_outcome(data, "result.told", "effect.told", result.request, params, privacy)


async def _propose_on_request(
    context: ToolContext,
    request: Request,
    key: str,
    args: dict[str, Any],
    *facts: CardField,
    body: str = "",
    **who: Any,
) -> Proposal:
    process = await context.services.engine.get_process(request)
    title = TextRef(key=key, params={"process": process.form.name.by_language, "request": request.id, **who})
    fields = await build_request_card_fields(context.services.directory, process, request)
    privacy = await classify_card(context, request)
    if body:
        privacy = choose_most_private(privacy, Privacy.OWN_TEXT)
    fields = (*facts, *fields, build_status_field(request))
    args, scope = {"request_id": request.id, **args}, build_scope(process, request.filled)
    return build_own_proposal(context, args, title, fields, subject=request.id, body=body, privacy=privacy, scope=scope)


URGE_TASK = Tool(
    name="urge_task",
    purpose="Remind (催办) who has to decide on the caller's request; at most once in 4 hours.",
    use_when="They want it hurried.",
    avoid_when="Nobody asked for it, or it is not their request.",
    args=UrgeTaskArgs,
    returns='{"request", "urged": names}',
    errors=select_advice("urged_lately", "urged_late", "urged_enough", "own_task"),
    also=frozenset({"no_task", "no_request", "not_yours", "not_running", "task_closed", "record_full", "busy"}),
    example={"task": "L-0012"},
    run=run_urge_task,
    gate=Gate.CONFIRM,
    effect_place=EffectPlace.ENGINE,
    effects={"confirm": "urged"},
    prepare=prepare_urge_task,
    stored_args=StoredUrge,
    offer=Offer.COMMON,
)
COMMENT_REQUEST = Tool(
    name="comment_request",
    purpose="Leave a comment on a request (评论); its author and who decides are told.",
    use_when="They want to say something without deciding.",
    avoid_when="It goes with a decision: decide_task.",
    args=CommentRequestArgs,
    returns='{"request", "comment"}',
    errors={},
    also=frozenset({"no_request", "not_concerned", "missing_field", "too_long", "busy"}),
    example={"request": "L-0012", "text": "发票已补"},
    run=run_comment_request,
    gate=Gate.CONFIRM,
    effect_place=EffectPlace.ENGINE,
    effects={"confirm": "commented"},
    prepare=prepare_comment_request,
    stored_args=CommentRequestArgs,
    offer=Offer.RARE,
)
CC_REQUEST = Tool(
    name="cc_request",
    purpose="Tell others about a request (抄送); they may read it from then on.",
    use_when="They want somebody to know of it.",
    avoid_when="That person is to decide: transfer_task, add_sign.",
    args=CcRequestArgs,
    returns='{"request", "told": names}',
    errors=select_advice("told_already"),
    also=frozenset({"no_request", "not_concerned", "unknown_person", "ambiguous_person", "busy"}),
    example={"request": "L-0012", "people": ["李四"]},
    run=run_cc_request,
    gate=Gate.CONFIRM,
    effect_place=EffectPlace.ENGINE,
    effects={"confirm": "copied"},
    prepare=prepare_cc_request,
    stored_args=CcRequestArgs,
    offer=Offer.RARE,
)
