"""Absences of the caller: a deputy from a first to a last day, both included, in the caller's time zone."""

from __future__ import annotations

import hashlib
from datetime import date, datetime, time, timedelta
from typing import Any

from pydantic import Field

from tools.cards.builders import build_effect_outcome, build_own_proposal
from tools.error_advice import select_advice
from tools.languages import list_day_words
from tools.people.identities import identify_people
from tools.people.names import get_names_by_language, list_names_by_language, load_person, resolve_person
from tools.spec import (
    CardField,
    DialogField,
    EffectPlace,
    Gate,
    Offer,
    Person,
    Privacy,
    Proposal,
    TextRef,
    ToolError,
    ToolOutcome,
)
from tools.tool import Tool, ToolArgs, ToolContext
from tools.workflow.engine.authority import reject_bad_delegation
from tools.workflow.engine.state import Delegation
from tools.working_days.tool import reject_bad_span

FIRST, LAST = {"zh": "第一天", "en": "The first day"}, {"zh": "最后一天", "en": "The last day"}


class SetAbsenceArgs(ToolArgs):
    start_date: str = Field(max_length=40, description="YYYY-MM-DD.")
    end_date: str = Field(max_length=40, description="YYYY-MM-DD, included.")
    deputy: str = Field(max_length=100, description="Name or id of who stands in.")


class EndAbsenceArgs(ToolArgs):
    absence: str = Field("", max_length=40, description="From list_absences; empty if there is only one.")


async def prepare_set_absence(context: ToolContext, args: SetAbsenceArgs) -> Proposal:
    deputy = resolve_person(await context.services.directory.list_people(), args.deputy, field="deputy")
    absence = _build_delegation(context, args, deputy)
    engine, directory = context.services.engine, context.services.directory
    reject_bad_delegation(absence, await engine.list_delegations(context.caller.id, context.now), context.now)
    first, last = _to_day_range(context, absence)
    fields = [*await _build_absence_fields(context, first, last, deputy.id)]
    # The deputy may be away at that time too, or the caller may be somebody's deputy then.
    theirs = [("deputy_away", d, d.deputy) for d in await engine.list_delegations(deputy.id, context.now)]
    own = [("is_deputy", d, d.person) for d in await engine.list_delegations_to(context.caller.id, context.now)]
    for key, other, person in (*theirs, *own):
        if other.start < absence.end and absence.start < other.end:
            other_first, other_last = _to_day_range(context, other)
            params: dict[str, Any] = {
                "deputy": await get_names_by_language(directory, deputy.id),
                "name": await get_names_by_language(directory, person),
                "first": list_day_words(other_first),
                "last": list_day_words(other_last),
            }
            fields.append(CardField(label="notice", value=TextRef(key=f"fact.{key}", params=params)))
    return build_own_proposal(
        context,
        args={"first_day": first, "last_day": last, "deputy": deputy.id},
        title=TextRef(key="title.absence", params={"name": list_names_by_language(deputy)}),
        fields=tuple(fields),
        subject=deputy.id,
        inputs=(
            DialogField(name="first_day", label="first_day", kind="date", value=first),
            DialogField(name="last_day", label="last_day", kind="date", value=last),
            DialogField(name="deputy", label="deputy", kind="person", value=deputy.id),
        ),
    )


async def run_set_absence(context: ToolContext, args: SetAbsenceArgs) -> ToolOutcome:
    deputy = await load_person(context.services.directory, args.deputy, field="deputy")
    absence = _build_delegation(context, args, deputy)
    await context.services.engine.add_delegation(absence, context.now)
    first, last = _to_day_range(context, absence)
    data = {
        "absence": absence.id,
        "start_date": first,
        "end_date": last,
        "deputy": await context.get_person_name(deputy.id),
    }
    params: dict[str, Any] = {
        "first": list_day_words(first),
        "last": list_day_words(last),
        "name": list_names_by_language(deputy),
    }
    return build_effect_outcome(data, "result.absent", "effect.absent", deputy.id, params, Privacy.OWN)


async def prepare_end_absence(context: ToolContext, args: EndAbsenceArgs) -> Proposal:
    delegations = await context.services.engine.list_delegations(context.caller.id, context.now)
    chosen = [d for d in delegations if d.id == args.absence.strip()] if args.absence.strip() else delegations
    if len(chosen) != 1:
        listed = ", ".join(d.id for d in delegations) or "none"
        raise ToolError("no_delegation", f"which absence? There are: {listed}", needs_person=bool(delegations))
    first, last = _to_day_range(context, chosen[0])
    name = await get_names_by_language(context.services.directory, chosen[0].deputy)
    title = TextRef(key="title.end_absence", params={"name": name})
    fields = await _build_absence_fields(context, first, last, chosen[0].deputy)
    return build_own_proposal(context, {"absence_id": chosen[0].id}, title, fields, subject=chosen[0].deputy)


async def run_end_absence(context: ToolContext, args: EndAbsenceArgs) -> ToolOutcome:
    """End an absence; repeating the call changes nothing."""
    try:
        await context.services.engine.end_delegation(context.caller.id, args.absence, context.now)
    except ToolError as error:
        if error.code != "no_delegation":
            raise
    data = {"absence": args.absence, "status": "ended"}
    return build_effect_outcome(data, "result.back", "effect.back", args.absence, {}, Privacy.OWN)


async def run_list_absences(context: ToolContext, args: ToolArgs) -> ToolOutcome:
    shown = list[dict[str, str]]()
    for one in await context.services.engine.list_delegations(context.caller.id, context.now):
        first, last = _to_day_range(context, one)
        deputy = await context.get_person_name(one.deputy)
        shown.append({"absence": one.id, "start_date": first, "end_date": last, "deputy": deputy})
    return ToolOutcome(data={"absences": shown}, summary=TextRef(key="result.absences", params={"n": len(shown)}))


def _build_delegation(context: ToolContext, args: SetAbsenceArgs, deputy: Person) -> Delegation:
    """Build the delegation. Its id comes from the idempotency key, so repeating one press creates no second absence."""
    first = _parse_absence_day(args.start_date, "first_day", FIRST)
    last = _parse_absence_day(args.end_date, "last_day", LAST)
    reject_bad_span(first, last, "last_day")
    return Delegation(
        id=hashlib.sha256(context.idempotency_key.encode()).hexdigest()[:12],
        person=context.caller.id,
        deputy=deputy.id,
        start=_to_midnight(context, first),
        end=_to_midnight(context, last + timedelta(days=1)),
    )


def _parse_absence_day(text: str, field: str, label: dict[str, str]) -> date:
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        message = f"{label['en']} should be YYYY-MM-DD"
        raise ToolError("bad_date", message, needs_person=True, field=field, label=label) from None


def _to_midnight(context: ToolContext, day: date) -> datetime:
    return datetime.combine(day, time(), context.now.tzinfo)


def _to_day_range(context: ToolContext, absence: Delegation) -> tuple[str, str]:
    """The first and the last day of an absence, in the caller's time zone."""
    first, end = (moment.astimezone(context.now.tzinfo) for moment in (absence.start, absence.end))
    return str(first.date()), str((end - timedelta(microseconds=1)).date())


async def _build_absence_fields(context: ToolContext, first: str, last: str, deputy: str) -> tuple[CardField, ...]:
    stands_in = CardField(label="deputy", value=await identify_people(context.services.directory, [deputy]))
    return (
        CardField(label="first_day", value=list_day_words(first)),
        CardField(label="last_day", value=list_day_words(last)),
        stands_in,
    )


SET_ABSENCE = Tool(
    name="set_absence",
    purpose="Let somebody decide the caller's tasks while they are away (委托).",
    use_when="They will be away and say who stands in, and from when to when.",
    avoid_when="They ask for leave. Only one task is meant: transfer_task.",
    args=SetAbsenceArgs,
    returns='{"absence": id, "start_date", "end_date", "deputy"}',
    errors=select_advice("bad_deputy", "bad_period", "overlapping"),
    also=frozenset({"unknown_person", "ambiguous_person", "bad_date", "end_before_start", "span_too_long"}),
    example={"start_date": "2026-11-23", "end_date": "2026-11-27", "deputy": "王五"},
    run=run_set_absence,
    gate=Gate.CONFIRM,
    effect_place=EffectPlace.ENGINE,
    effects={"confirm": "absent"},
    prepare=prepare_set_absence,
    stored_args=SetAbsenceArgs,
    privacy=Privacy.OWN,
    offer=Offer.RARE,
)
END_ABSENCE = Tool(
    name="end_absence",
    purpose="End an absence of the caller, also one that has not begun.",
    use_when="They are back, or do not go after all.",
    avoid_when="They want a request back: withdraw_request.",
    args=EndAbsenceArgs,
    returns='{"absence", "status": "ended"}',
    errors=select_advice("no_delegation"),
    example={},
    run=run_end_absence,
    gate=Gate.CONFIRM,
    effect_place=EffectPlace.ENGINE,
    effects={"confirm": "back"},
    prepare=prepare_end_absence,
    stored_args=EndAbsenceArgs,
    privacy=Privacy.OWN,
    offer=Offer.RARE,
)
LIST_ABSENCES = Tool(
    name="list_absences",
    purpose="List the caller's absences, present and future, and who stands in.",
    use_when="They ask who stands in, or you need an absence's id.",
    avoid_when="Leave requests: my_requests.",
    args=ToolArgs,
    returns='{"absences": [{"absence", "start_date", "end_date", "deputy"}]}',
    errors={},
    example={},
    run=run_list_absences,
    privacy=Privacy.OWN,
    offer=Offer.RARE,
)
