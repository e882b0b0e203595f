"""An opinion that a person drafted in chat, on the card they decide.

The draft is shown and sealed with the card, and it belongs to one person: only its author sees it, finds it in the
dialogs, and records it with their own press. The arguments of a task's card hold it as `draft`, `drafted_by` (person
id) and `meant` (`approve`, `reject`, `return`, or empty if the author did not say)."""

from __future__ import annotations

from bot.chat.messages import Click
from bot.core.records import Approval, ApprovalState
from tools.spec import CardChoice, CardField, Gate, Proposal
from tools.tasks.task_actions import NEGATIVE_DECISIONS

OPINION_FIELD = "opinion"
"""The field of a task's dialogs that asks for an opinion."""


def get_draft(proposal: Proposal, person: str) -> str:
    """Return this person's draft for this card; empty for everybody else."""
    return str(proposal.args.get("draft", "")) if person and proposal.args.get("drafted_by") == person else ""


def can_take_draft(proposal: Proposal, choice: CardChoice) -> bool:
    """Whether the button fits the draft's meaning. A draft without a meaning fits every button."""
    meant, decision = proposal.args.get("meant", ""), choice.fixed_args.get("decision")
    return not meant or decision == meant or (decision in NEGATIVE_DECISIONS and meant in NEGATIVE_DECISIONS)


def fill_draft(proposal: Proposal, choice: CardChoice, person: str) -> CardChoice:
    """Fill this person's draft into the button's dialog."""
    draft = get_draft(proposal, person)
    if not draft or not can_take_draft(proposal, choice):
        return choice
    fields = tuple(
        field.model_copy(update={"value": draft}) if field.name == OPINION_FIELD else field for field in choice.fields
    )
    return choice.model_copy(update={"fields": fields})


def list_draft_fields(approval: Approval, person: str) -> tuple[CardField, ...]:
    """Return the line of an open card that shows the draft to its author and says what becomes of it."""
    draft = get_draft(approval.proposal, person) if approval.state is ApprovalState.OPEN else ""
    meant = approval.proposal.args.get("meant") or "approve"
    return (CardField(label=f"draft_{meant}", value=draft),) if draft else ()


def read_form_answers(proposal: Proposal, choice: CardChoice, click: Click) -> dict[str, str]:
    """Read the answers to the dialog's own fields and nothing else: a form never adds to the shown card or overrides
    it. The *Approve* button has no dialog, so it takes the draft that the presser was shown."""
    names = {field.name for field in choice.inputs}
    form = {name: text for name, text in (click.form or {}).items() if name in names}
    draft = get_draft(proposal, click.person)
    is_plain_approval = not choice.fields and choice.fixed_args.get("decision") == "approve"
    if draft and is_plain_approval and can_take_draft(proposal, choice):
        form[OPINION_FIELD] = draft
    return form


def has_new_draft(approval: Approval, proposal: Proposal, person: str) -> bool:
    """Whether this person has a draft that the open card does not have yet."""
    shown, names = approval.proposal.args, ("draft", "drafted_by", "meant")
    is_shown = all(shown.get(name) == proposal.args.get(name) for name in names)
    return approval.gate is Gate.APPROVE and has_draft(proposal, person) and not is_shown


def has_draft(proposal: Proposal, person: str) -> bool:
    """Whether this person has said in chat how they decide: with an opinion, or only that they refuse."""
    is_author = bool(person) and proposal.args.get("drafted_by") == person
    return bool(get_draft(proposal, person)) or (is_author and is_refusal_drafted(proposal))


def is_refusal_drafted(proposal: Proposal) -> bool:
    """Whether a decider has said in chat that they reject or return the task."""
    return proposal.args.get("meant", "") in NEGATIVE_DECISIONS
