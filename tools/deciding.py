"""What a press on a task's card does: the one place where buttons and dialogs become commands of the engine."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from tools.characters import Written
from tools.names import name_of, names_of
from tools.plans import changed, gathered, named_as_in_dialog, passed
from tools.spec import Frozen, Outcome, ToolError
from tools.tool import Use
from tools.workflow.authority import MOST_ADDED
from tools.workflow.commands import AddSign, Decide, Transfer, Where
from tools.workflow.engine import Moved
from tools.workflow.graph import Mode
from tools.workflow.state import Decision, Kind

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
"""What was done, for the model and in the keys of texts."""
AGREED = {"approve": "agreed", "reject": "kept"}
"""The same of the withdrawal of an approved request."""


BETWEEN = re.compile("[,，、;；]")


def _several(people: Any) -> Any:
    """A dialog gives ids with commas between; models sometimes do likewise."""
    return [p.strip() for p in BETWEEN.split(people) if p.strip()] if isinstance(people, str) else people


People = Annotated[tuple[str, ...], Field(max_length=MOST_ADDED), BeforeValidator(_several)]


class DecideStored(Frozen):
    """What a press on the card runs: its own arguments, what the button does and the dialog's answers."""

    task_id: str
    decision: Doing
    form_sha: str
    opinion: Written = Field("", max_length=MAX_OPINION)
    draft: Written = ""
    drafted_by: str = ""
    meant: str = ""
    """What the card showed to who drafted it (`bot.drafting`); what counts is `opinion`."""
    to: str = ""
    """Of a return: the node to go back to."""
    person: str = ""
    """Of a transfer: an id."""
    people: People = ()
    """Of an add sign: ids."""
    where: Where = Where.BEFORE
    mode: Mode = Mode.ALL
    form: dict[str, str] = Field(default_factory=dict)
    """From the dialog's `field_…` answers: the whole form, for a resubmission."""

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, values: Any) -> Any:
        return gathered(values)


async def check_decide(use: Use, stored: DecideStored) -> None:
    """What `run_decide` would refuse is refused; nothing changes. Raises `ToolError` with the field of the dialog."""
    assigned = await use.desk.engine.task(stored.task_id)
    if assigned.request.filled.sha != stored.form_sha:
        raise ToolError("request_changed", "the request is not what the card shows; show it again")
    with named_as_in_dialog(stored.form):
        await use.desk.engine.check(command_of(use, stored), use.now, form=stored.form)


async def authorize_decide(use: Use, stored: DecideStored) -> None:
    """Whether the rules still let the task be decided by whom it is assigned to. Raises `ToolError`."""
    await use.desk.engine.authorize(command_of(use, stored), use.now)


async def run_decide(use: Use, stored: DecideStored) -> Outcome:
    # A resubmission brings its own form: what it becomes is not what the card showed.
    seen = "" if stored.decision is Decision.RESUBMIT else stored.form_sha
    moved = await use.desk.engine.act(command_of(use, stored), use.key, use.now, form=stored.form, seen=seen)
    return await _outcome(use, stored, moved)


def command_of(use: Use, stored: DecideStored) -> Decide | Transfer | AddSign:
    task, actor, opinion = stored.task_id, use.caller.id, stored.opinion
    match stored.decision:
        case "transfer":
            return Transfer(task=task, actor=actor, person=stored.person, opinion=opinion)
        case "add_sign":
            people, where, mode = stored.people, stored.where, stored.mode
            return AddSign(task=task, actor=actor, where=where, mode=mode, people=people, opinion=opinion)
        case decision:
            return Decide(task=task, actor=actor, decision=decision, opinion=opinion, to=stored.to)


async def _outcome(use: Use, stored: DecideStored, moved: Moved) -> Outcome:
    done, directory = str(stored.decision), use.desk.directory
    task = (await use.desk.engine.task(moved.task)).task
    word = WORDS[done]
    said = AGREED.get(done, word) if task.kind is Kind.REVOKE else word
    data = {
        "task": moved.task,
        "request": moved.request,
        "decision": word,
        "by": await name_of(directory, moved.by),
        "opinion": stored.opinion.strip(),
        "status": moved.status.value,
        **({"for": await name_of(directory, moved.on_behalf)} if moved.on_behalf else {}),
        "waits_for": [await name_of(directory, p) for p in moved.waits_for],
    }
    if moved.rule and stored.decision is Decision.RESUBMIT:
        return await passed(use, moved, data)
    names = await names_of(directory, stored.people or (stored.person,))
    params: dict[str, Any] = {"request": moved.request, "names": names, "by": data["by"]}
    return changed(data, f"result.{said}", f"effect.{said}", moved.request, params)
