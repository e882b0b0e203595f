"""Tools for requests from their author's side: list processes, start, change, withdraw."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from tools.cards.builders import build_effect_outcome, build_own_proposal, build_rule_outcome, gather_form_answers
from tools.cards.fields import (
    build_change_fields,
    build_dialog_fields,
    build_form_card_fields,
    build_request_card_fields,
    build_scope,
    build_stand_in_field,
    build_status_field,
    list_approval_levels,
)
from tools.error_advice import FORM, select_advice
from tools.people.identities import identify_people
from tools.people.names import format_people_names
from tools.privacy import classify_card, classify_form, classify_request
from tools.requests.duplicates import build_identical_fields, build_returned_fields, build_same_bytes_fields
from tools.requests.form_filling import complete_form
from tools.requests.status import find_process, require_readable_request
from tools.spec import (
    CardChoice,
    CardField,
    ConfirmAgainError,
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
from tools.tool import Tool, ToolArgs, ToolContext, name_arguments
from tools.workflow.engine.assignment import MissingApproverError
from tools.workflow.engine.authority import require_author, require_running
from tools.workflow.engine.commands import DecideCommand, WithdrawCommand
from tools.workflow.engine.paths import list_approval_nodes, trace_happy_path
from tools.workflow.engine.port import CommandResult
from tools.workflow.engine.state import Decision, Request, Status, TaskKind
from tools.workflow.process.definition import Process
from tools.workflow.process.forms import clean_form_text

MAX_REASON = 500
MAX_VALUE = 4000
START_ANOTHER = CardChoice(name="start_another", style="primary")


def _normalize_form(form: Any) -> Any:
    """Normalize a form: models write null for omitted fields, numbers for amounts, and lists of people."""
    if not isinstance(form, dict):
        return form
    given = {name: value for name, value in form.items() if value is not None}
    return {name: ", ".join(map(str, one)) if isinstance(one, list) else one for name, one in given.items()}


Form = Annotated[dict[str, Annotated[str, Field(max_length=MAX_VALUE)]], BeforeValidator(_normalize_form)]


class FormArgs(FrozenModel):
    """Arguments with a form, which a dialog may fill in as well."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    @model_validator(mode="before")
    @classmethod
    def _gather_form(cls, values: Any) -> Any:
        """Move fields that were written beside the form into it."""
        values = gather_form_answers(values)
        if not isinstance(values, dict) or not isinstance(form := values.get("form", {}), dict):
            return values
        values = name_arguments(cls.model_fields, values)
        beside = {name: one for name, one in values.items() if name not in cls.model_fields}
        return {**{name: one for name, one in values.items() if name not in beside}, "form": {**beside, **form}}


class StartProcessArgs(FormArgs):
    process: str = Field(max_length=60, description="Key of the process, from list_processes.")
    form: Form = Field(description="Field → value, as list_processes says; without what the person did not say.")
    seen: SkipJsonSchema[str] = Field("", description="Set by the program: names what the card shows.")
    again: SkipJsonSchema[str] = Field("", description="Set by the program: the request that is knowingly repeated.")


class ResubmitRequestArgs(FormArgs):
    request: str = Field(max_length=40, description="Like L-0012.")
    form: Form = Field(
        default={}, description="Only what changes, field → value; fields as of start_…, also `days` for end_date."
    )
    seen: SkipJsonSchema[str] = Field("", description="Set by the program: names what the card shows.")


class WithdrawRequestArgs(ToolArgs):
    request: str = Field(max_length=40, description="Like L-0012.")
    because: str = Field("", max_length=MAX_VALUE, description="Why, if they said so.")


async def run_list_processes(context: ToolContext, args: ToolArgs) -> ToolOutcome:
    processes = [
        {
            "key": process.key,
            "name": f"{process.form.title['en']} / {process.form.title['zh']}",
            "purpose": process.form.purpose.en,
            "fields": [
                {
                    "name": field.name,
                    "type": field.kind.value,
                    "required": field.required and not field.default,
                    "help": field.help.en,
                    **({"choices": [option.value for option in field.options]} if field.options else {}),
                }
                for field in process.form.fields
            ],
            "rules": [rule.words.en for rule in process.form.rules],
        }
        for process in await context.services.engine.list_processes()
    ]
    return ToolOutcome(
        data={"processes": processes}, summary=TextRef(key="result.processes", params={"n": len(processes)})
    )


async def prepare_start_process(context: ToolContext, args: StartProcessArgs) -> Proposal:
    process = await _require_process(context, args.process)
    filled = await complete_form(context, process, args.form)
    engine, directory = context.services.engine, context.services.directory
    fields = [*await build_form_card_fields(directory, process, filled)]
    nodes = list_approval_nodes([trace_happy_path(process.definition, filled)])
    for person in filled.list_people(name for node in nodes for name in node.who):
        if stand_ins := [one for one in await engine.list_deputies(person, context.now) if one != context.caller.id]:
            fields.append(await build_stand_in_field(directory, person, stand_ins))
    fields += await build_returned_fields(context, process, filled)
    fields += await build_identical_fields(context, process, filled, context.caller.id, context.now)
    fields += await build_same_bytes_fields(context, filled, context.caller.id, context.caller.id)
    return build_own_proposal(
        context,
        args={"process": process.key, "form": filled.values, "seen": filled.confirmed_hash},
        title=TextRef(key="title.start", params={"process": process.form.name.by_language}),
        fields=tuple(fields),
        inputs=build_dialog_fields(process, filled.values, filled.files),
        privacy=classify_form(process, filled),
        scope=build_scope(process, filled),
    )


async def run_start_process(context: ToolContext, args: StartProcessArgs) -> ToolOutcome:
    """Start a request. Raises `ConfirmAgainError` if the caller started an equal one a moment ago without being told.
    Also raised if requests started since then require an approver whom the card did not show."""
    engine, author = context.services.engine, context.caller.id
    try:
        result = await engine.start_request(
            args.process, args.form, author, context.idempotency_key, context.now, args.seen, again=args.again
        )
    except MissingApproverError as error:
        if not args.seen:
            raise
        raise ConfirmAgainError(error, await prepare_start_process(context, args)) from None
    except ToolError as error:
        if error.code != "started_already":
            raise
        # The new card says that an equal request was started a moment ago. A press starts another one knowingly.
        earlier = await engine.get_request(str(error.params["request"]))
        proposal = await prepare_start_process(context, args)
        name = (await _require_process(context, args.process)).form.name.by_language
        at = earlier.started.astimezone(context.now.tzinfo).strftime("%Y-%m-%d %H:%M")
        note = TextRef(key="fact.started_at", params={"request": earlier.id, "at": at})
        changes = {
            "args": {**proposal.args, "again": earlier.id},
            "title": TextRef(key="title.start_another", params={"process": name, "request": earlier.id}),
            "fields": (CardField(label="started_already", value=note), *proposal.fields),
            "choices": (START_ANOTHER, *proposal.choices[1:]),
        }
        raise ConfirmAgainError(error, proposal.model_copy(update=changes)) from None
    return await _build_handed_in_outcome(context, result, "result.started", "effect.started")


async def prepare_resubmit_request(context: ToolContext, args: ResubmitRequestArgs) -> Proposal:
    request = await _require_own_request(context, args.request)
    require_running(request)
    if request.status is not Status.REVISE:
        message = f"{request.id} is waiting for a decision and cannot be changed now; it can be withdrawn"
        raise ToolError("not_revise", message, request=request.id)
    process = await context.services.engine.get_process(request)
    filled = await complete_form(context, process, args.form, request)
    directory = context.services.directory
    before = await build_form_card_fields(directory, process, request.filled)
    fields = await build_form_card_fields(directory, process, filled)
    is_same, render_text = filled.values == request.filled.values, context.services.render_text
    return build_own_proposal(
        context,
        args={"request_id": request.id, "form": filled.values, "seen": filled.confirmed_hash},
        title=TextRef(key="title.resubmit", params={"process": process.form.name.by_language, "request": request.id}),
        fields=(*build_change_fields(before, fields, render_text, is_same=is_same), *fields),
        subject=request.id,
        inputs=build_dialog_fields(process, filled.values, filled.files),
        privacy=choose_most_private(await classify_card(context, request), classify_form(process, filled)),
        scope=build_scope(process, filled),
    )


async def run_resubmit_request(context: ToolContext, args: ResubmitRequestArgs) -> ToolOutcome:
    request = await _require_own_request(context, args.request)
    revisions = [task for task in request.tasks if task.kind is TaskKind.REVISE]
    if not revisions:
        raise ToolError("not_revise", f"{request.id} has not come back to its author", request=request.id)
    # The last one is the open one, or the one by which this command was carried out before.
    command = DecideCommand(task=revisions[-1].id, actor=context.caller.id, decision=Decision.RESUBMIT)
    result = await context.services.engine.execute_command(
        command, context.idempotency_key, context.now, form=args.form, seen=args.seen
    )
    return await _build_handed_in_outcome(context, result, "result.resubmitted", "effect.resubmitted")


async def prepare_withdraw_request(context: ToolContext, args: WithdrawRequestArgs) -> Proposal:
    request = await _require_own_request(context, args.request)
    because = clean_form_text(args.because, MAX_REASON, "because", {"zh": "撤回原因", "en": "The reason"})
    preview = await context.services.engine.preview_command(
        WithdrawCommand(request=request.id, actor=context.caller.id, reason=because), context.now
    )
    process = await context.services.engine.get_process(request)
    directory = context.services.directory
    fields = [*await build_request_card_fields(directory, process, request), build_status_field(request)]
    if preview.status is Status.REVOKING:  # an approved request is withdrawn only once others agree
        names = await format_people_names(directory, preview.waits_for)
        note = TextRef(key="fact.agreement", params={"names": names})
        fields.append(CardField(label="agreement", value=await identify_people(directory, preview.waits_for, note)))
    if because:
        fields.append(CardField(label="withdraw_reason", value=because))
    return build_own_proposal(
        context,
        args={"request_id": request.id, "because": because},
        title=TextRef(key="title.withdraw", params={"process": process.form.name.by_language, "request": request.id}),
        fields=tuple(fields),
        subject=request.id,
        privacy=choose_most_private(await classify_card(context, request), Privacy.OWN_TEXT),
        scope=build_scope(process, request.filled),
    )


async def run_withdraw_request(context: ToolContext, args: WithdrawRequestArgs) -> ToolOutcome:
    command = WithdrawCommand(request=args.request, actor=context.caller.id, reason=args.because)
    result = await context.services.engine.execute_command(command, context.idempotency_key, context.now)
    data: dict[str, Any] = {"request": result.request, "status": result.status.value}
    if result.status is not Status.REVOKING:
        params = {"request": result.request}
        return build_effect_outcome(data, "result.withdrawn", "effect.withdrawn", result.request, params, Privacy.OWN)
    names = await format_people_names(context.services.directory, result.waits_for)
    told: dict[str, Any] = {"request": result.request, "names": names}
    data["waits_for"] = [await context.get_person_name(p) for p in result.waits_for]
    return build_effect_outcome(data, "result.revoking", "effect.revoking", result.request, told, Privacy.OWN)


async def _build_handed_in_outcome(
    context: ToolContext, result: CommandResult, summary: str, effect: str
) -> ToolOutcome:
    """The outcome of a request that was handed in, with the people it waits for, and the approvers after them."""
    request = await context.services.engine.get_request(result.request)
    process = await context.services.engine.get_process(request)
    days = Decimal(result.days or request.filled.days or 0)
    later = {
        label if isinstance(label, str) else label["en"]: [await context.get_person_name(p) for p in chosen]
        for label, chosen in list_approval_levels(process, request.filled)
        if chosen and not set(chosen) <= set(result.waits_for)
    }
    data = {
        "request": result.request,
        "status": result.status.value,
        "waits_for": [await context.get_person_name(p) for p in result.waits_for],
        **({"then": later} if later and result.waits_for else {}),
        **({"days": int(days) if days == int(days) else float(days)} if days else {}),
    }
    if result.rule:
        return await build_rule_outcome(context, result, data)
    params: dict[str, Any] = {"process": process.form.name.by_language, "request": result.request}
    told = classify_request(process, request, context.caller.id)  # the data has the request's length and approvers
    return build_effect_outcome(data, summary, effect, result.request, params, Privacy.OWN, data_privacy=told)


async def _require_process(context: ToolContext, key: str) -> Process:
    if found := await find_process(context, key):
        return found
    known = ", ".join(p.key for p in await context.services.engine.list_processes())
    raise ToolError("unknown_process", f"there is no process {key[:60]!r}; there are: {known}", name=key[:60])


async def _require_own_request(context: ToolContext, request_id: str) -> Request:
    request = await require_readable_request(context, request_id)
    require_author(request, context.caller.id)
    return request


LIST_PROCESSES = Tool(
    name="list_processes",
    purpose="List what can be asked for, with the fields and rules of each.",
    use_when="They ask what they can do here, or no start tool fits.",
    avoid_when="A start tool fits.",
    args=ToolArgs,
    returns='{"processes": [{"key", "name", "purpose", "fields": [{"name", "type", "required", "help", "choices"?}], '
    '"rules"}]}',
    errors=select_advice(),
    example={},
    run=run_list_processes,
    privacy=Privacy.PUBLIC,
)
START_PROCESS = Tool(
    name="start_process",
    purpose="Start a request for the caller, of any process.",
    use_when="No start tool of its own fits, and what is required is known.",
    avoid_when="Something required is unknown: ask. Never start the same twice.",
    args=StartProcessArgs,
    also=frozenset({"started_already"}),
    returns='{"request", "status": "waiting" | "approved", "waits_for": [names], "days", "rule"?: why it passed}',
    errors=select_advice("unknown_process", "request_changed", "busy", *FORM),
    example={
        "process": "leave",
        "form": {
            "leave_type": "sick",
            "start_date": "2026-11-23",
            "end_date": "2026-11-24",
            "reason": "胃疼",
            "approver": "李四",
        },
    },
    run=run_start_process,
    gate=Gate.CONFIRM,
    effect_place=EffectPlace.ENGINE,
    effects={"confirm": "started"},
    prepare=prepare_start_process,
    stored_args=StartProcessArgs,
)
RESUBMIT_REQUEST = Tool(
    name="resubmit_request",
    purpose="Send the caller's request that came back to them off again, changed or as it was.",
    use_when="Its status is revise and they still want it: never start it anew.",
    avoid_when="It still waits for somebody, or has ended.",
    args=ResubmitRequestArgs,
    returns='{"request", "status"}',
    errors=select_advice("not_revise"),
    also=frozenset(
        {"no_request", "not_yours", "not_running", "task_closed", "request_changed", "record_full", "busy", *FORM}
    ),
    example={"request": "L-0012", "form": {"end_date": "2026-11-25"}},
    run=run_resubmit_request,
    gate=Gate.CONFIRM,
    effect_place=EffectPlace.ENGINE,
    effects={"confirm": "resubmitted"},
    prepare=prepare_resubmit_request,
    stored_args=ResubmitRequestArgs,
    offer=Offer.COMMON,
)
WITHDRAW_REQUEST = Tool(
    name="withdraw_request",
    purpose="Take back (撤回) a request of the caller's; an approved one needs agreement.",
    use_when="They no longer want it, or want it otherwise while it waits.",
    avoid_when="It is rejected or withdrawn already, or somebody else's.",
    args=WithdrawRequestArgs,
    returns='{"request", "status": "withdrawn" | "revoking", "waits_for"?: who has to agree}',
    errors=select_advice("withdrawing", "kept_lately", "kept_enough", "not_yours", "not_running"),
    also=frozenset({"no_request", "too_long", "no_level", "busy"}),
    example={"request": "L-0012", "because": "计划变了"},
    run=run_withdraw_request,
    gate=Gate.CONFIRM,
    effect_place=EffectPlace.ENGINE,
    effects={"confirm": "withdrawn"},
    prepare=prepare_withdraw_request,
    stored_args=WithdrawRequestArgs,
    offer=Offer.COMMON,
)
