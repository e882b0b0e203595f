"""How a card that is over reads: what became of it, who and when; what came of that; and what it was about, as a
statement. Nothing of it looks like an open question."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from bot.parts import tell_parts
from bot.records import Approval, ApprovalState, EffectState
from bot.texts import literal, say, sentences, tell_effect
from tools.names import standing_in
from tools.spec import Note, Person, Plan

Names = Mapping[str, str]
"""Person id → name."""


def say_outcome(approval: Approval, reader: Person, names: Names) -> str:
    """What became of a card, who did it and when: one line."""
    language, at = reader.language, moment(approval.decided_ms, reader)
    if approval.state is not ApprovalState.DECIDED:
        by = names.get(approval.by) or say("card.system", language)
        return say(_ending(approval), language, by=by, at=at)
    by = names.get(approval.by, approval.by)
    if approval.on_behalf:
        by = standing_in(by, names.get(approval.on_behalf, approval.on_behalf))[language]
    return say(_deed(approval), language, by=by, at=at, choice=say(f"choice.{approval.choice}", language))


def _ending(approval: Approval) -> str:
    """How a card ended that nobody decided: if its matter ended elsewhere, how."""
    if approval.state is ApprovalState.CLOSED and f"outcome.closed_{approval.choice}" in sentences():
        return f"outcome.closed_{approval.choice}"
    return f"outcome.{approval.state.value}"


def _deed(approval: Approval) -> str:
    """What was done; as long as it is not, which button was pressed."""
    if approval.effect in (EffectState.FAILED, EffectState.UNKNOWN):
        return f"outcome.{approval.effect.value}"
    revoked = "_revoke" if approval.plan.title.key == "title.revoke" else ""
    key = f"outcome.{approval.choice}{revoked}"
    return key if approval.effect is EffectState.DONE and key in sentences() else "outcome.pressed"


def say_consequence(approval: Approval, language: str) -> str:
    """What came of it, and with which words it was decided: a line each."""
    if approval.state is ApprovalState.DECIDED:
        removed = [say("card.removed", language, n=approval.removed)] if approval.removed else []
        parts = filter(None, [tell_parts(approval, language)])
        return "\n".join([_result(approval, language), *parts, *_opinion(approval, language), *removed])
    key = f"card.{approval.state.value}"
    return say(key, language) if key in sentences() else ""


def _result(approval: Approval, language: str) -> str:
    if approval.effect is EffectState.DONE and approval.outcome is not None:
        effect, note = approval.outcome.effect, approval.outcome.note
        return say("card.done", language, result=tell_effect(effect, language) if effect else literal(note, language))
    if approval.effect is EffectState.FAILED:
        return say("card.failed", language, problem=literal(approval.problem or Note(key="error.gone"), language))
    return say(f"card.effect_{approval.effect.value or 'none'}", language)


def _opinion(approval: Approval, language: str) -> list[str]:
    """On one line: what somebody writes begins no line of ours."""
    opinion = " ".join(approval.form.get("opinion", "").split())
    return [say("card.opinion", language, opinion=opinion)] if opinion else []


def say_matter(plan: Plan, reader: Person) -> str:
    """What a card is about, as a statement: *leave request L-0001 of 张三*. Cards of tools without words for it keep
    their title."""
    title = plan.title_for(reader.id)
    key = title.key.replace("title.", "matter.", 1)
    known = Note(key=key, params=title.params) if key in sentences() else title
    return literal(known, reader.language)


def moment(ms: int, reader: Person) -> str:
    """A time as this reader's clock shows it."""
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone(ZoneInfo(reader.timezone)).strftime("%Y-%m-%d %H:%M")
