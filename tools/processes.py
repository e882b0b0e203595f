"""Requests as their author makes them: what can be asked for, asking, changing, taking back."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from tools.advice import FORM, advice
from tools.facts import form_facts, form_inputs, list_levels, request_facts
from tools.filling import fill_in
from tools.identical import identical_facts
from tools.identities import identify_people
from tools.names import name_of, names_of
from tools.plans import changed, gathered, own_card, passed
from tools.privacy import privacy_of_card, privacy_of_form, privacy_of_request
from tools.requests import find_process, readable
from tools.spec import (
    AsksAgain,
    Choice,
    Fact,
    Frozen,
    Gate,
    Note,
    Outcome,
    Plan,
    Privacy,
    ToolError,
    most_private,
)
from tools.tool import Tool, Use
from tools.workflow.authority import refuse_ended, refuse_stranger
from tools.workflow.commands import Decide, Withdraw
from tools.workflow.engine import Moved
from tools.workflow.forms import FormField, clear_text
from tools.workflow.process import Process
from tools.workflow.state import Decision, Kind, Request, Status, Task

MAX_REASON = 500
MAX_VALUE = 4000
START_ANOTHER = Choice(name="start_another", style="primary")


def _without_nothing(form: Any) -> Any:
    """Models write null for what they leave out, numbers for amounts, and lists of people."""
    if not isinstance(form, dict):
        return form
    given = {name: value for name, value in form.items() if value is not None}
    return {name: ", ".join(map(str, one)) if isinstance(one, list) else one for name, one in given.items()}


Form = Annotated[
    dict[str, Annotated[str, Field(max_length=MAX_VALUE)]],
    BeforeValidator(_without_nothing),
]


class ListProcesses(Frozen):
    pass


class WithForm(Frozen):
    """Arguments with a form, which a dialog may fill in as well."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, values: Any) -> Any:
        """Fields that were written beside the form belong into it."""
        values = gathered(values)
        if not isinstance(values, dict) or not isinstance(form := values.get("form", {}), dict):
            return values
        beside = {name: one for name, one in values.items() if name not in cls.model_fields}
        return {**{name: one for name, one in values.items() if name not in beside}, "form": {**beside, **form}}


class StartProcess(WithForm):
    process: str = Field(max_length=60, description="Key of the process, from list_processes.")
    form: Form = Field(description="Field → value, as list_processes says; without what the person did not say.")
    seen: SkipJsonSchema[str] = Field("", description="Set by the program: names what the card shows.")
    again: SkipJsonSchema[str] = Field("", description="Set by the program: the request that is knowingly repeated.")


class ResubmitRequest(WithForm):
    request_id: str = Field(max_length=40, description="Like L-0012.")
    form: Form = Field(
        default={}, description="Only what changes, field → value; fields as of start_…, also `days` for end_date."
    )
    seen: SkipJsonSchema[str] = Field("", description="Set by the program: names what the card shows.")


class WithdrawRequest(Frozen):
    request_id: str = Field(max_length=40, description="Like L-0012.")
    because: str = Field("", max_length=MAX_VALUE, description="Why, if they said so.")


async def run_list_processes(use: Use, args: ListProcesses) -> Outcome:
    processes = [_described(p) for p in await use.desk.engine.processes()]
    return Outcome(data={"processes": processes}, note=Note(key="result.processes", params={"n": len(processes)}))


async def prepare_start(use: Use, args: StartProcess) -> Plan:
    process = await _process(use, args.process)
    filled = await fill_in(use, process, args.form)
    return own_card(
        use,
        args={"process": process.key, "form": filled.values, "seen": filled.sha},
        title=Note(key="title.start", params={"process": process.form.name.both}),
        facts=(
            *await form_facts(use.desk.directory, process, filled),
            *await identical_facts(use, process, filled, use.caller.id, use.now),
        ),
        inputs=form_inputs(process, filled.values),
        privacy=privacy_of_form(process, filled),
    )


async def _prepare_another(use: Use, args: StartProcess, earlier: Request) -> Plan:
    """The same card once more, which says that the same was started a moment ago and starts another knowingly."""
    plan = await prepare_start(use, args)
    process = await _process(use, args.process)
    params: dict[str, Any] = {"process": process.form.name.both, "request": earlier.id}
    at = earlier.started.astimezone(use.now.tzinfo).strftime("%Y-%m-%d %H:%M")
    already = Fact(label="started_already", value=Note(key="fact.started_at", params={"request": earlier.id, "at": at}))
    return plan.model_copy(
        update={
            "args": {**plan.args, "again": earlier.id},
            "title": Note(key="title.start_another", params=params),
            "facts": (already, *plan.facts),
            "choices": (START_ANOTHER, *plan.choices[1:]),
        }
    )


async def run_start(use: Use, args: StartProcess) -> Outcome:
    """Raises `AsksAgain` when the caller has started the very same a moment ago and did not know it."""
    engine, author = use.desk.engine, use.caller.id
    try:
        started = await engine.start(args.process, args.form, author, use.key, use.now, args.seen, again=args.again)
    except ToolError as error:
        if error.code != "started_already":
            raise
        earlier = await engine.request(str(error.params["request"]))
        raise AsksAgain(error, await _prepare_another(use, args, earlier)) from None
    request = await engine.request(started.request)
    process = await engine.process_of(request)
    data = await _describe_moved(use, process, request, started)
    if started.rule:
        return await passed(use, started, data)
    params: dict[str, Any] = {"process": process.form.name.both, "request": started.request}
    told = privacy_of_request(process, request, use.caller.id)  # the data has its length and who decides
    return changed(data, "result.started", "effect.started", started.request, params, Privacy.OWN, data_privacy=told)


async def prepare_resubmit(use: Use, args: ResubmitRequest) -> Plan:
    request = await _to_revise(use, args.request_id)
    process = await use.desk.engine.process_of(request)
    filled = await fill_in(use, process, args.form, request)
    facts = (Fact(label="request", value=request.id), *await form_facts(use.desk.directory, process, filled))
    return own_card(
        use,
        args={"request_id": request.id, "form": filled.values, "seen": filled.sha},
        title=Note(key="title.resubmit", params={"process": process.form.name.both, "request": request.id}),
        facts=facts,
        subject=request.id,
        inputs=form_inputs(process, filled.values),
        privacy=most_private(await privacy_of_card(use, request), privacy_of_form(process, filled)),
    )


async def run_resubmit(use: Use, args: ResubmitRequest) -> Outcome:
    task = await _revise_task(use, args.request_id)
    command = Decide(task=task.id, actor=use.caller.id, decision=Decision.RESUBMIT)
    decided = await use.desk.engine.act(command, use.key, use.now, form=args.form, seen=args.seen)
    request = await use.desk.engine.request(decided.request)
    process = await use.desk.engine.process_of(request)
    data = await _describe_moved(use, process, request, decided)
    if decided.rule:
        return await passed(use, decided, data)
    params, told = {"request": decided.request}, privacy_of_request(process, request, use.caller.id)
    subject = decided.request
    return changed(data, "result.resubmitted", "effect.resubmitted", subject, params, Privacy.OWN, data_privacy=told)


async def prepare_withdraw(use: Use, args: WithdrawRequest) -> Plan:
    request = await _own(use, args.request_id)
    because = clear_text(args.because, MAX_REASON, "because", {"zh": "撤回原因", "en": "The reason"})
    after = await use.desk.engine.check(Withdraw(request=request.id, actor=use.caller.id, reason=because), use.now)
    process = await use.desk.engine.process_of(request)
    facts = await request_facts(use.desk.directory, process, request)
    return own_card(
        use,
        args={"request_id": request.id, "because": because},
        title=Note(key="title.withdraw", params={"process": process.form.name.both, "request": request.id}),
        facts=(*facts, *await _agreement(use, after), *_because(because)),
        subject=request.id,
        privacy=most_private(await privacy_of_card(use, request), Privacy.OWN_TEXT),
    )


async def _agreement(use: Use, after: Moved) -> tuple[Fact, ...]:
    """What is approved is only withdrawn once others agree."""
    if after.status is not Status.REVOKING:
        return ()
    names = await names_of(use.desk.directory, after.waits_for)
    note = Note(key="fact.agreement", params={"names": names})
    return (Fact(label="agreement", value=await identify_people(use.desk.directory, after.waits_for, note)),)


def _because(because: str) -> tuple[Fact, ...]:
    return (Fact(label="withdraw_reason", value=because),) if because else ()


async def run_withdraw(use: Use, args: WithdrawRequest) -> Outcome:
    command = Withdraw(request=args.request_id, actor=use.caller.id, reason=args.because)
    moved = await use.desk.engine.act(command, use.key, use.now)
    data: dict[str, Any] = {"request": moved.request, "status": moved.status.value}
    if moved.status is not Status.REVOKING:
        params = {"request": moved.request}
        return changed(data, "result.withdrawn", "effect.withdrawn", moved.request, params, Privacy.OWN)
    names = await names_of(use.desk.directory, moved.waits_for)
    told: dict[str, Any] = {"request": moved.request, "names": names}
    data["waits_for"] = [await name_of(use.desk.directory, p) for p in moved.waits_for]
    return changed(data, "result.revoking", "effect.revoking", moved.request, told, Privacy.OWN)


async def _describe_moved(use: Use, process: Process, request: Request, moved: Moved) -> dict[str, Any]:
    """Where a request is after it was handed in: whom it waits for, and who comes after them."""
    people = use.desk.directory
    days = Decimal(moved.days or request.filled.days or 0)
    later = {
        label if isinstance(label, str) else label["en"]: [await name_of(people, p) for p in chosen]
        for label, chosen in list_levels(process, request.filled)
        if chosen and not set(chosen) <= set(moved.waits_for)
    }
    return {
        "request": moved.request,
        "status": moved.status.value,
        "waits_for": [await name_of(people, p) for p in moved.waits_for],
        **({"then": later} if later and moved.waits_for else {}),
        **({"days": int(days) if days == int(days) else float(days)} if days else {}),
    }


async def _process(use: Use, key: str) -> Process:
    if found := await find_process(use, key):
        return found
    known = ", ".join(p.key for p in await use.desk.engine.processes())
    raise ToolError("unknown_process", f"there is no process {key[:60]!r}; there are: {known}", name=key[:60])


async def _own(use: Use, request_id: str) -> Request:
    request = await readable(use, request_id)
    refuse_stranger(request, use.caller.id)
    return request


async def _to_revise(use: Use, request_id: str) -> Request:
    """The caller's own request, which came back to them."""
    request = await _own(use, request_id)
    refuse_ended(request)
    if request.status is not Status.REVISE:
        message = f"{request.id} is waiting for a decision and cannot be changed now; it can be withdrawn"
        raise ToolError("not_revise", message, request=request.id)
    return request


async def _revise_task(use: Use, request_id: str) -> Task:
    """The task to resubmit by: the open one, or, when this very command has been carried out before, the last."""
    request = await _own(use, request_id)
    revisions = [t for t in request.tasks if t.kind is Kind.REVISE]
    if not revisions:
        raise ToolError("not_revise", f"{request.id} has not come back to its author", request=request.id)
    return revisions[-1]


def _described(process: Process) -> dict[str, Any]:
    form = process.form
    return {
        "key": process.key,
        "name": f"{form.title['en']} / {form.title['zh']}",
        "purpose": form.purpose.en,
        "fields": [_described_field(f) for f in form.fields],
        "rules": [r.words.en for r in form.rules],
    }


def _described_field(field: FormField) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": field.name,
        "type": field.kind.value,
        "required": field.required and not field.default,
        "help": field.help.en,
    }
    if field.options:
        shown["choices"] = [o.value for o in field.options]
    return shown


LIST_PROCESSES = Tool(
    name="list_processes",
    purpose="List what can be asked for, with the fields and rules of each.",
    use_when="They ask what they can do here, or no start tool fits.",
    avoid_when="A start tool fits.",
    args=ListProcesses,
    returns='{"processes": [{"key", "name", "purpose", "fields": [{"name", "type", "required", "help", "choices"?}], '
    '"rules"}]}',
    errors=advice(),
    example={},
    run=run_list_processes,
    privacy=Privacy.PUBLIC,
)
START_PROCESS = Tool(
    name="start_process",
    purpose="Start a request for the caller, of any process.",
    use_when="No start tool of its own fits, and what is required is known.",
    avoid_when="Something required is unknown: ask. Never start the same twice.",
    args=StartProcess,
    also=frozenset({"started_already"}),
    returns='{"request", "status": "waiting" | "approved", "waits_for": [names], "days", "rule"?: why it passed}',
    errors=advice("unknown_process", "request_changed", "busy", *FORM),
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
    run=run_start,
    gate=Gate.CONFIRM,
    prepare=prepare_start,
    stored=StartProcess,
    privacy=Privacy.PRIVATE,
)
RESUBMIT_REQUEST = Tool(
    name="resubmit_request",
    purpose="Send the caller's request that came back to them off again, changed or as it was.",
    use_when="Its status is revise and they want to try again.",
    avoid_when="It still waits for somebody, or has ended.",
    args=ResubmitRequest,
    returns='{"request", "status"}',
    errors=advice("not_revise"),
    also=frozenset({"no_request", "not_yours", "not_running", "task_closed", "request_changed", "busy", *FORM}),
    example={"request_id": "L-0012", "form": {"end_date": "2026-11-25"}},
    run=run_resubmit,
    gate=Gate.CONFIRM,
    prepare=prepare_resubmit,
    stored=ResubmitRequest,
    privacy=Privacy.PRIVATE,
)
WITHDRAW_REQUEST = Tool(
    name="withdraw_request",
    purpose="Take back (撤回) a request of the caller's; an approved one needs agreement.",
    use_when="They no longer want it, or want it otherwise while it waits.",
    avoid_when="It came to its end, or is somebody else's.",
    args=WithdrawRequest,
    returns='{"request", "status": "withdrawn" | "revoking", "waits_for"?: who has to agree}',
    errors=advice("withdrawing", "kept_lately", "kept_enough", "not_yours", "not_running"),
    also=frozenset({"no_request", "too_long", "no_level", "busy"}),
    example={"request_id": "L-0012", "because": "计划变了"},
    run=run_withdraw,
    gate=Gate.CONFIRM,
    prepare=prepare_withdraw,
    stored=WithdrawRequest,
    privacy=Privacy.PRIVATE,
)
