"""What the plans and outcomes of several tools have in common."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tools.facts import CANCEL, CONFIRM, PREFIX
from tools.names import resolve_person
from tools.privacy import privacy_of_request
from tools.spec import Choice, Effect, Fact, Field, Note, Outcome, Plan, Privacy, ToolError, most_private
from tools.tool import Use
from tools.workflow.engine import Moved


def own_card(
    use: Use,
    args: dict[str, Any],
    title: Note,
    facts: tuple[Fact, ...],
    *,
    subject: str = "",
    body: str = "",
    inputs: tuple[Field, ...] = (),
    texts: tuple[Field, ...] = (),
    privacy: Privacy | None = None,
) -> Plan:
    """Of the caller's own doing: theirs to confirm or to cancel, and, with `inputs`, to edit; nobody else's. `texts`:
    what is too long for the card; then it is confirmed in a dialog that shows them."""
    confirm = CONFIRM.model_copy(update={"fields": texts})
    edit = (Choice(name="edit", runs=False, replans=True, fields=inputs),) if inputs else ()
    return Plan(
        args=args,
        title=title,
        facts=facts,
        deciders=(use.caller.id,),
        requester=use.caller.id,
        choices=(confirm, *edit, CANCEL),
        subject=subject,
        body=body,
        privacy=privacy,
    )


async def passed(use: Use, moved: Moved, data: dict[str, Any]) -> Outcome:
    """What a rule has passed says so, whenever it was handed in."""
    request = await use.desk.engine.request(moved.request)
    process = await use.desk.engine.process_of(request)
    rule = process.form.rule(moved.rule)
    params: dict[str, Any] = {"process": process.form.name.both, "request": moved.request, "rule": rule}
    told, privacy = {**data, "rule": rule["en"]}, privacy_of_request(process, request, use.caller.id)
    return changed(told, "result.passed", "effect.passed", moved.request, params, privacy)


def changed(
    data: dict[str, Any],
    result: str,
    effect: str,
    subject: str,
    params: Mapping[str, str | int | dict[str, str]],
    privacy: Privacy = Privacy.PRIVATE,
    *,
    data_privacy: Privacy = Privacy.PUBLIC,
) -> Outcome:
    """Something has changed: how it is told beside the step (`result`), and in the receipt (`effect`). `privacy`: of
    these two lines; `data_privacy`: of what the model reads, where that is more private."""
    note = Note(key=effect, params=dict(params))
    return Outcome(
        data=data,
        note=Note(key=result, params=dict(params)),
        effect=Effect(note=note, subject=subject, privacy=privacy),
        privacy=most_private(privacy, data_privacy),
    )


async def privacy_of_own(use: Use, request: str) -> Privacy:
    """Of a line about one request that tells no free text of it, for the caller."""
    found = await use.desk.engine.request(request)
    return privacy_of_request(await use.desk.engine.process_of(found), found, use.caller.id)


def gathered(values: Any) -> Any:
    """A dialog's `field_…` answers put into the form they belong to."""
    if not isinstance(values, dict) or not isinstance(values.get("form", {}), dict):
        return values
    answers = {k.removeprefix(PREFIX): v for k, v in values.items() if k.startswith(PREFIX)}
    rest = {k: v for k, v in values.items() if not k.startswith(PREFIX)}
    return {**rest, "form": {**rest.get("form", {}), **answers}} if answers else rest


@contextmanager
def named_as_in_dialog(fields: Collection[str]) -> Iterator[None]:
    """Errors about these fields of a form name them as its dialog does."""
    try:
        yield
    except ToolError as error:
        if error.field in fields:
            error.field = PREFIX + error.field
        raise


async def ids_of(use: Use, people: Iterable[str], field: str = "people") -> tuple[str, ...]:
    """Who is meant by names or ids, nobody twice."""
    everyone = await use.desk.directory.everyone()
    return tuple(dict.fromkeys(resolve_person(everyone, one, field=field).id for one in people))
