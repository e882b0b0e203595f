"""An opinion that somebody has drafted in chat, on the card on which they decide.

The draft is part of what is shown and sealed, and it belongs to one person: only who has drafted it is shown it, finds
it in the dialogs, and has it recorded by their own press. The arguments of a task's card hold it as `draft`,
`drafted_by` (person id) and `meant` (`approve`, `reject`, `return`, or empty when they did not say).
"""

from __future__ import annotations

from collections.abc import Mapping

from bot.events import Click
from bot.records import Approval, ApprovalState
from tools.spec import Choice, Fact, Gate, Plan

OPINION = "opinion"
"""The field of a task's dialogs that asks for one."""
BACK = frozenset({"reject", "return"})


def draft_of(plan: Plan, person: str) -> str:
    """What this person has drafted for this card; empty for everybody else."""
    return str(plan.args.get("draft", "")) if person and plan.args.get("drafted_by") == person else ""


def takes_draft(plan: Plan, choice: Choice) -> bool:
    """True for the buttons that go with what the draft was meant for; one meant for nothing goes with all."""
    meant, decision = plan.args.get("meant", ""), choice.fixed.get("decision")
    return not meant or decision == meant or (decision in BACK and meant in BACK)


def fill_draft(plan: Plan, choice: Choice, person: str) -> Choice:
    """The button's dialog with this person's draft in it."""
    draft = draft_of(plan, person)
    if not draft or not takes_draft(plan, choice):
        return choice
    fields = tuple(
        field.model_copy(update={"value": draft}) if field.name == OPINION else field for field in choice.fields
    )
    return choice.model_copy(update={"fields": fields})


def shown_draft(approval: Approval, person: str) -> tuple[Fact, ...]:
    """The line of an open card that shows the draft to who has drafted it, and says what becomes of it."""
    draft = draft_of(approval.plan, person) if approval.state is ApprovalState.OPEN else ""
    meant = approval.plan.args.get("meant") or "approve"
    return (Fact(label=f"draft_{meant}", value=draft),) if draft else ()


def answer_of(plan: Plan, choice: Choice, click: Click) -> dict[str, str]:
    """What a press brings: the answers to the dialog's own fields and nothing else, so that a form never adds to, or
    overrides, what was shown; for *Approve*, which asks nothing, the draft that the presser was shown."""
    asked = {field.name for field in choice.inputs}
    form = {name: text for name, text in (click.form or {}).items() if name in asked}
    draft = draft_of(plan, click.person)
    if draft and not choice.fields and choice.fixed.get("decision") == "approve" and takes_draft(plan, choice):
        form[OPINION] = draft
    return form


def is_redrafted(before: Approval, plan: Plan, person: str) -> bool:
    """True when this person has drafted something for an open card that does not show it yet."""
    drafted: Mapping[str, object] = {name: plan.args.get(name) for name in ("draft", "drafted_by", "meant")}
    shows = all(before.plan.args.get(name) == value for name, value in drafted.items())
    return before.gate is Gate.APPROVE and bool(draft_of(plan, person)) and not shows
