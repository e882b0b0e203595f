"""Turns a press on a task's card into a command of the engine; no other code reads the card's buttons and dialogs."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from tools.cards.builders import build_effect_outcome, build_rule_outcome, gather_form_answers, prefix_error_field
from tools.characters import Written
from tools.people.names import format_people_names, get_names_by_language
from tools.spec import FrozenModel, ToolError, ToolOutcome
from tools.tool import ToolContext
from tools.workflow.bpmn.graph import VotingMode
from tools.workflow.engine.authority import MAX_PEOPLE
from tools.workflow.engine.commands import AddSignCommand, DecideCommand, SignPosition, TransferCommand
from tools.workflow.engine.state import Decision, Task, TaskKind

MAX_OPINION = 1000
Doing = Decision | Literal["transfer", "add_sign"]
WORDS: dict[str, str] = {
    "approve": "approved",
    "reject": "rejected",
    "return": "returned",
    "resubmit": "resubmitted",
    "withdraw": "withdrawn",
    "transfer": "transferred",
    "add_sign": "added",
}
"""Decision → the word for it, for the model and in text keys."""
NEGATIVE_DECISIONS = frozenset({"reject", "return"})
"""Decisions that send a request back."""
WITHDRAWAL_WORDS = {"approve": "agreed", "reject": "kept"}
"""Decision on the withdrawal of an approved request → the word for it."""


PERSON_SEPARATOR = re.compile("[,，、;；]")


def _split_people(people: Any) -> Any:
    """Split ids separated by commas, as dialogs and sometimes models write them."""
    return [p.strip() for p in PERSON_SEPARATOR.split(people) if p.strip()] if isinstance(people, str) else people


People = Annotated[tuple[str, ...], Field(max_length=MAX_PEOPLE), BeforeValidator(_split_people)]


class StoredDecision(FrozenModel):
    """The arguments of a press on the card: the card's own, the button's and the dialog's answers."""

    task_id: str
    decision: Doing
    form_sha: str
    opinion: Written = Field("", max_length=MAX_OPINION)
    draft: Written = ""
    drafted_by: str = ""
    meant: str = ""
    """The draft's meaning, as the card showed it to its author (`bot.approvals.opinion_drafts`). Only `opinion`
    counts."""
    to: str = ""
    """The target node of a return."""
    person: str = ""
    """Id of the new assignee, for a transfer."""
    people: People = ()
    """Ids of the added people, for an add sign."""
    where: SignPosition = SignPosition.BEFORE
    mode: VotingMode = VotingMode.ALL
    form: dict[str, str] = Field(default_factory=dict)
    """The whole form, for a resubmission; from the dialog's `field_…` answers."""

    @model_validator(mode="before")
    @classmethod
    def _gather_form(cls, values: Any) -> Any:
        return gather_form_answers(values)


async def check_task_decision(context: ToolContext, stored: StoredDecision) -> None:
    """Refuse a decision that `run_task_decision` would refuse, without any effect. Raises `ToolError` with the field of
    the dialog."""
    assigned = await context.services.engine.get_task(stored.task_id)
    if assigned.request.filled.content_hash != stored.form_sha:
        raise ToolError("request_changed", "the request is not what the card shows; show it again")
    with prefix_error_field(stored.form):
        await context.services.engine.preview_command(build_command(context, stored), context.now, form=stored.form)


async def authorize_task_decision(context: ToolContext, stored: StoredDecision) -> None:
    """Check that the rules still let the assignee decide the task. Raises `ToolError`."""
    await context.services.engine.authorize_command(build_command(context, stored), context.now)


async def run_task_decision(context: ToolContext, stored: StoredDecision) -> ToolOutcome:
    # A resubmission brings its own form, which is not what the card showed.
    seen = "" if stored.decision is Decision.RESUBMIT else stored.form_sha
    engine, directory = context.services.engine, context.services.directory
    result = await engine.execute_command(
        build_command(context, stored), context.idempotency_key, context.now, form=stored.form, seen=seen
    )
    task = (await engine.get_task(result.task)).task
    done = str(stored.decision)
    word = WORDS[done]
    data = {
        "task": result.task,
        "request": result.request,
        "decision": word,
        "by": await context.get_person_name(result.by),
        "opinion": stored.opinion.strip(),
        "status": result.status.value,
        **({"for": await context.get_person_name(result.on_behalf)} if result.on_behalf else {}),
        "waits_for": [await context.get_person_name(p) for p in result.waits_for],
    }
    if result.rule and stored.decision is Decision.RESUBMIT:
        return await build_rule_outcome(context, result, data)
    params: dict[str, Any] = {
        "request": result.request,
        "names": await format_people_names(directory, stored.people or (stored.person,)),
        "by": await get_names_by_language(directory, result.by),
    }
    key = WITHDRAWAL_WORDS.get(done, word) if task.kind is TaskKind.REVOKE else word
    return build_effect_outcome(data, f"result.{key}", f"effect.{key}", result.request, params)


def find_decision_key(task: Task) -> str:
    """Find the key of the sentence for the decision of a task; empty for an open task."""
    word = WITHDRAWAL_WORDS.get(task.outcome, "") if task.kind is TaskKind.REVOKE else task.outcome
    return f"decision.{word}" if word else ""


def build_command(context: ToolContext, stored: StoredDecision) -> DecideCommand | TransferCommand | AddSignCommand:
    task, actor, opinion = stored.task_id, context.caller.id, stored.opinion
    match stored.decision:
        case "transfer":
            return TransferCommand(task=task, actor=actor, person=stored.person, opinion=opinion)
        case "add_sign":
            people, where, mode = stored.people, stored.where, stored.mode
            return AddSignCommand(task=task, actor=actor, where=where, mode=mode, people=people, opinion=opinion)
        case decision:
            return DecideCommand(task=task, actor=actor, decision=decision, opinion=opinion, to=stored.to)
