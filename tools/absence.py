"""Being away: who stands in for the caller, from a day to a day, both included, in the caller's own zone."""

from __future__ import annotations

import hashlib
from datetime import date, datetime, time, timedelta
from typing import Any

from pydantic import Field

from tools.advice import advice
from tools.identities import identify_people
from tools.names import load_person, name_of, resolve_person
from tools.plans import changed, own_card
from tools.spec import Fact, Frozen, Gate, Note, Outcome, Person, Plan, Privacy, ToolError
from tools.spec import Field as Input
from tools.tool import Tool, Use
from tools.workflow.authority import refuse_delegation
from tools.workflow.state import Delegation

FIRST, LAST = {"zh": "第一天", "en": "The first day"}, {"zh": "最后一天", "en": "The last day"}
LONGEST = timedelta(days=366)


class SetAbsence(Frozen):
    first_day: str = Field(max_length=40, description="YYYY-MM-DD.")
    last_day: str = Field(max_length=40, description="YYYY-MM-DD, included.")
    deputy: str = Field(max_length=100, description="Name or id of who stands in.")


class EndAbsence(Frozen):
    absence_id: str = Field("", max_length=40, description="From list_absences; empty if there is only one.")


class ListAbsences(Frozen):
    pass


async def prepare_set(use: Use, args: SetAbsence) -> Plan:
    deputy = resolve_person(await use.desk.directory.everyone(), args.deputy, field="deputy")
    absence = _absence(use, args, deputy)
    refuse_delegation(absence, await use.desk.engine.delegations(use.caller.id, use.now), use.now)
    first, last = _days(use, absence)
    return own_card(
        use,
        args={"first_day": first, "last_day": last, "deputy": deputy.id},
        title=Note(key="title.absence", params={"name": deputy.name}),
        facts=await _facts(use, first, last, deputy.id),
        subject=deputy.id,
        inputs=(
            Input(name="first_day", label="first_day", kind="date", value=first),
            Input(name="last_day", label="last_day", kind="date", value=last),
            Input(name="deputy", label="deputy", kind="person", value=deputy.id),
        ),
    )


async def run_set(use: Use, args: SetAbsence) -> Outcome:
    deputy = await load_person(use.desk.directory, args.deputy, field="deputy")
    absence = _absence(use, args, deputy)
    await use.desk.engine.delegate(absence, use.now)
    first, last = _days(use, absence)
    data = {"absence": absence.id, "first_day": first, "last_day": last, "deputy": deputy.name}
    params: dict[str, Any] = {"first": first, "last": last, "name": deputy.name}
    return changed(data, "result.absent", "effect.absent", deputy.id, params, Privacy.OWN)


async def prepare_end(use: Use, args: EndAbsence) -> Plan:
    known = await use.desk.engine.delegations(use.caller.id, use.now)
    named = [d for d in known if d.id == args.absence_id.strip()] if args.absence_id.strip() else known
    if len(named) != 1:
        listed = ", ".join(d.id for d in known) or "none"
        raise ToolError("no_delegation", f"which absence? There are: {listed}", ask=bool(known))
    first, last = _days(use, named[0])
    name = await name_of(use.desk.directory, named[0].deputy)
    title = Note(key="title.end_absence", params={"name": name})
    facts = await _facts(use, first, last, named[0].deputy)
    return own_card(use, {"absence_id": named[0].id}, title, facts, subject=named[0].deputy)


async def run_end(use: Use, args: EndAbsence) -> Outcome:
    """What has been ended before stays ended."""
    try:
        await use.desk.engine.undelegate(use.caller.id, args.absence_id, use.now)
    except ToolError as error:
        if error.code != "no_delegation":
            raise
    data = {"absence": args.absence_id, "status": "ended"}
    return changed(data, "result.back", "effect.back", args.absence_id, {}, Privacy.OWN)


async def run_list(use: Use, args: ListAbsences) -> Outcome:
    absences = await use.desk.engine.delegations(use.caller.id, use.now)
    shown = [await _listed(use, one) for one in absences]
    return Outcome(data={"absences": shown}, note=Note(key="result.absences", params={"n": len(shown)}))


async def _listed(use: Use, absence: Delegation) -> dict[str, str]:
    first, last = _days(use, absence)
    deputy = await name_of(use.desk.directory, absence.deputy)
    return {"absence": absence.id, "first_day": first, "last_day": last, "deputy": deputy}


def _absence(use: Use, args: SetAbsence, deputy: Person) -> Delegation:
    """Named by the key of its use: the same press is the same absence."""
    first, last = _day(args.first_day, "first_day", FIRST), _day(args.last_day, "last_day", LAST)
    if last < first:
        message = "the last day is before the first"
        raise ToolError("end_before_start", message, field="last_day", start=str(first), end=str(last))
    if last - first > LONGEST:
        raise ToolError("span_too_long", f"at most {LONGEST.days} days", field="last_day", days=LONGEST.days)
    return Delegation(
        id=hashlib.sha256(use.key.encode()).hexdigest()[:12],
        person=use.caller.id,
        deputy=deputy.id,
        start=_midnight(use, first),
        end=_midnight(use, last + timedelta(days=1)),
    )


def _day(text: str, field: str, label: dict[str, str]) -> date:
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        raise ToolError("bad_date", f"{field} should be YYYY-MM-DD", ask=True, field=field, label=label) from None


def _midnight(use: Use, day: date) -> datetime:
    return datetime.combine(day, time(), use.now.tzinfo)


def _days(use: Use, absence: Delegation) -> tuple[str, str]:
    """First and last day, as the caller counts them."""
    first, end = (moment.astimezone(use.now.tzinfo) for moment in (absence.start, absence.end))
    return str(first.date()), str((end - timedelta(microseconds=1)).date())


async def _facts(use: Use, first: str, last: str, deputy: str) -> tuple[Fact, ...]:
    stands_in = Fact(label="deputy", value=await identify_people(use.desk.directory, [deputy]))
    return Fact(label="first_day", value=first), Fact(label="last_day", value=last), stands_in


SET_ABSENCE = Tool(
    name="set_absence",
    purpose="Let somebody decide the caller's tasks while they are away (委托).",
    use_when="They will be away and say who stands in, and from when to when.",
    avoid_when="They ask for leave. Only one task is meant: transfer_task.",
    args=SetAbsence,
    returns='{"absence": id, "first_day", "last_day", "deputy"}',
    errors=advice("bad_deputy", "bad_period", "overlapping"),
    also=frozenset({"unknown_person", "ambiguous_person", "bad_date", "end_before_start", "span_too_long"}),
    example={"first_day": "2026-11-23", "last_day": "2026-11-27", "deputy": "王五"},
    run=run_set,
    gate=Gate.CONFIRM,
    prepare=prepare_set,
    stored=SetAbsence,
    privacy=Privacy.OWN,
    is_rare=True,
)
END_ABSENCE = Tool(
    name="end_absence",
    purpose="End an absence of the caller, also one that has not begun.",
    use_when="They are back, or do not go after all.",
    avoid_when="They want a request back: withdraw_request.",
    args=EndAbsence,
    returns='{"absence", "status": "ended"}',
    errors=advice("no_delegation"),
    example={},
    run=run_end,
    gate=Gate.CONFIRM,
    prepare=prepare_end,
    stored=EndAbsence,
    privacy=Privacy.OWN,
    is_rare=True,
)
LIST_ABSENCES = Tool(
    name="list_absences",
    purpose="List the caller's absences, present and future, and who stands in.",
    use_when="They ask who stands in, or you need an absence's id.",
    avoid_when="Leave requests: my_requests.",
    args=ListAbsences,
    returns='{"absences": [{"absence", "first_day", "last_day", "deputy"}]}',
    errors={},
    example={},
    run=run_list,
    privacy=Privacy.OWN,
    is_rare=True,
)
