"""Builders of proposals and outcomes that several tools use."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tools.cards.fields import CANCEL, CONFIRM, FIELD_PREFIX
from tools.people.names import resolve_person
from tools.privacy import classify_request
from tools.spec import (
    CardChoice,
    CardField,
    DialogField,
    Privacy,
    Proposal,
    ReceiptLine,
    TextRef,
    ToolError,
    ToolOutcome,
    choose_most_private,
)
from tools.tool import ToolContext
from tools.workflow.engine.port import CommandResult


def build_own_proposal(
    context: ToolContext,
    args: dict[str, Any],
    title: TextRef,
    fields: tuple[CardField, ...],
    *,
    subject: str = "",
    body: str = "",
    inputs: tuple[DialogField, ...] = (),
    texts: tuple[DialogField, ...] = (),
    privacy: Privacy | None = None,
    scope: dict[str, str] | None = None,
) -> Proposal:
    """Build a proposal about the caller's own affairs. Only the caller may confirm it, cancel it and, with `inputs`,
    edit it. `texts` are texts too long for the card; a confirmation dialog shows them."""
    confirm = CONFIRM.model_copy(update={"fields": texts})
    edit = (CardChoice(name="edit", executes=False, edits=True, fields=inputs),) if inputs else ()
    return Proposal(
        args=args,
        title=title,
        fields=fields,
        deciders=(context.caller.id,),
        requester=context.caller.id,
        choices=(confirm, *edit, CANCEL),
        subject=subject,
        body=body,
        privacy=privacy,
        scope=scope or {},
    )


async def build_rule_outcome(context: ToolContext, result: CommandResult, data: dict[str, Any]) -> ToolOutcome:
    """Build the outcome of a command that a rule let pass; the outcome names the rule, whichever command handed the
    request in."""
    request = await context.services.engine.get_request(result.request)
    process = await context.services.engine.get_process(request)
    rule = process.form.get_rule_text(result.rule)
    params: dict[str, Any] = {"process": process.form.name.by_language, "request": result.request, "rule": rule}
    told, privacy = {**data, "rule": rule["en"]}, classify_request(process, request, context.caller.id)
    return build_effect_outcome(told, "result.passed", "effect.passed", result.request, params, privacy)


def build_effect_outcome(
    data: dict[str, Any],
    result: str,
    effect: str,
    subject: str,
    params: Mapping[str, str | int | dict[str, str]],
    privacy: Privacy = Privacy.PRIVATE,
    *,
    data_privacy: Privacy = Privacy.PUBLIC,
) -> ToolOutcome:
    """Build the outcome of a change. `result` is the text key for the step line, `effect` the one for the receipt.
    `privacy` applies to these two lines; `data_privacy` applies to the model's data, if that is more private."""
    note = TextRef(key=effect, params=dict(params))
    return ToolOutcome(
        data=data,
        summary=TextRef(key=result, params=dict(params)),
        receipt_line=ReceiptLine(text=note, subject=subject, privacy=privacy),
        privacy=choose_most_private(privacy, data_privacy),
    )


async def classify_own_request(context: ToolContext, request: str) -> Privacy:
    """The caller's privacy for a line about one request without free text from it."""
    found = await context.services.engine.get_request(request)
    return classify_request(await context.services.engine.get_process(found), found, context.caller.id)


def gather_form_answers(values: Any) -> Any:
    """Move a dialog's `field_…` answers into the form they belong to."""
    if not isinstance(values, dict) or not isinstance(values.get("form", {}), dict):
        return values
    answers = {k.removeprefix(FIELD_PREFIX): v for k, v in values.items() if k.startswith(FIELD_PREFIX)}
    rest = {k: v for k, v in values.items() if not k.startswith(FIELD_PREFIX)}
    return {**rest, "form": {**rest.get("form", {}), **answers}} if answers else rest


@contextmanager
def prefix_error_field(fields: Collection[str]) -> Iterator[None]:
    """Give form errors the field names that the dialog uses."""
    try:
        yield
    except ToolError as error:
        if error.field in fields:
            error.field = FIELD_PREFIX + error.field
        raise


async def resolve_people_ids(context: ToolContext, people: Iterable[str], field: str = "people") -> tuple[str, ...]:
    """The ids of the persons meant by names or ids, each once."""
    everyone = await context.services.directory.list_people()
    return tuple(dict.fromkeys(resolve_person(everyone, one, field=field).id for one in people))
