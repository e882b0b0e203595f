"""Cards in words: every sentence on a card is chosen here, by code, from stored and validated arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from bot.events import Button, Card, Click, Dialog, Post
from bot.records import Approval, ApprovalState, EffectState
from bot.texts import label, literal, say, sentences
from tools.spec import Choice, Fact, Field, Gate, Note, Person, Plan

HOPELESS = frozenset(
    {"error.altered", "error.request_changed", "error.task_closed", "error.own_level", "error.tool_changed"}
)
"""Problems that no second try mends: the card has no *Try Again* then."""

TASK = "decide_task"
"""The tool whose cards are about a task: they can show the request's way."""
ADVICE = "advice"
"""Label of what a model thinks of it."""
Names = Mapping[str, str]
"""Person id → name."""


def card(approval: Approval, reader: Person, names: Names) -> Post:
    """The card as it stands now, for one reader."""
    language = reader.language
    shown = Card(
        title=title_of(approval, reader),
        facts=told(_current(approval, reader), language),
        body=approval.plan.body,
        buttons=_buttons(approval, reader, language),
        footer=_footer(approval, reader, names),
    )
    return Post(_notification(approval, reader, names), card=shown)


def moved(post: Post, language: str) -> Post:
    """A copy that a newer one has taken the place of."""
    shown = replace(post.card, buttons=(), footer=say("card.moved", language)) if post.card else None
    return replace(post, card=shown)


def _notification(approval: Approval, reader: Person, names: Names) -> str:
    language, title = reader.language, title_of(approval, reader)
    if approval.state is ApprovalState.EXPIRED and watches(approval, reader):
        return say("card.nobody", language, title=title, who=_listed(approval.plan.deciders, names, language))
    return say("card.notification", language, title=title)


def title_of(approval: Approval, reader: Person) -> str:
    """What the card is called for this reader."""
    own = approval.plan.own_title if reader.id == approval.plan.requester else None
    return literal(own or approval.plan.title, reader.language)


def watches(approval: Approval, reader: Person) -> bool:
    """True for the requester of what somebody else decides: sees how it stands and has nothing to press."""
    return approval.gate is Gate.APPROVE and reader.id == approval.plan.requester


def stands_in(approval: Approval, reader: Person) -> bool:
    """True for who has the card because they stand in for who decides."""
    mine = (*approval.plan.deciders, approval.plan.requester)
    return approval.gate is Gate.APPROVE and reader.id not in mine


def _current(approval: Approval, reader: Person) -> tuple[Fact, ...]:
    """The facts: without *waiting for a decision* on a card that has been decided; without the model's suggestion for
    whose request it is."""
    left_out = ["status"] if approval.state is not ApprovalState.OPEN else []
    left_out += [ADVICE] if watches(approval, reader) else []
    return tuple(fact for fact in approval.plan.facts if fact.label not in left_out)


def told(facts: Iterable[Fact], language: str) -> tuple[tuple[str, str], ...]:
    """Labels and values in words."""
    return tuple((label(fact.label, language), literal(fact.value, language)) for fact in facts)


def _buttons(approval: Approval, reader: Person, language: str) -> tuple[Button, ...]:
    """Only what this reader can press now; a decided card has no buttons."""
    if approval.state is ApprovalState.OPEN and watches(approval, reader):
        return ()
    if approval.state is ApprovalState.OPEN:
        choices = [_button(approval, one.name, language, one.style) for one in approval.plan.choices]
        return (*choices, *([_button(approval, "show", language)] if approval.tool == TASK else []))
    if approval.state is ApprovalState.EXPIRED:
        return (_button(approval, "again", language),)
    if reader.id == approval.by and approval.effect is EffectState.UNKNOWN:
        return (_button(approval, "happened", language), _button(approval, "redo", language))
    if reader.id == approval.by and approval.effect is EffectState.FAILED and not hopeless(approval):
        return (_button(approval, "retry", language),)
    return ()


def hopeless(approval: Approval) -> bool:
    """True when trying the same again can only fail the same way."""
    return approval.problem is not None and approval.problem.key in HOPELESS


def _button(approval: Approval, choice: str, language: str, style: str = "") -> Button:
    return Button(say(f"choice.{choice}", language), choice, approval.id, approval.version, style)


def _footer(approval: Approval, reader: Person, names: Names) -> str:
    """Who must act until when, or who did what and when, and what came of it."""
    language = reader.language
    if approval.state is ApprovalState.OPEN:
        who = _listed(approval.plan.deciders, names, language)
        key = "card.open_for" if stands_in(approval, reader) else "card.open"
        return say(key, language, who=who, until=moment(approval.expires_ms, reader))
    if approval.state is not ApprovalState.DECIDED:
        return _ended(approval, reader, names)
    decided = _decided(approval, reader, names)
    return "\n".join([decided, *_opinion(approval, language), *_result(approval, language)])


def _decided(approval: Approval, reader: Person, names: Names) -> str:
    """Who chose what and when, and for whom if they stood in."""
    return say(
        "card.decided_for" if approval.on_behalf else "card.decided",
        reader.language,
        choice=say(f"choice.{approval.choice}", reader.language),
        by=names.get(approval.by, approval.by),
        who=names.get(approval.on_behalf, approval.on_behalf),
        at=moment(approval.decided_ms, reader),
    )


def _ended(approval: Approval, reader: Person, names: Names) -> str:
    """How a card ended that nobody decided: if its matter ended elsewhere, how."""
    language, key = reader.language, f"card.{approval.state.value}"
    if approval.state is ApprovalState.CLOSED and f"card.closed_{approval.choice}" in sentences():
        key = f"card.closed_{approval.choice}"
    by = names.get(approval.by) or say("card.system", language)
    return say(key, language, by=by, at=moment(approval.decided_ms, reader))


def _opinion(approval: Approval, language: str) -> list[str]:
    """On one line: what somebody writes begins no line of ours."""
    opinion = " ".join(approval.form.get("opinion", "").split())
    return [say("card.opinion", language, opinion=opinion)] if opinion else []


def _result(approval: Approval, language: str) -> list[str]:
    if approval.effect is EffectState.DONE and approval.outcome is not None:
        changed = approval.outcome.effect or approval.outcome
        return [say("card.done", language, result=literal(changed.note, language))]
    if approval.effect is EffectState.FAILED:
        return [say("card.failed", language, problem=literal(approval.problem or Note(key="error.gone"), language))]
    return [say(f"card.effect_{approval.effect.value or 'none'}", language)]


def _listed(people: tuple[str, ...], names: Names, language: str) -> str:
    return say("card.comma", language).join(names.get(one, one) for one in people)


def moment(ms: int, reader: Person) -> str:
    """A time as this reader's clock shows it."""
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone(ZoneInfo(reader.timezone)).strftime("%Y-%m-%d %H:%M")


def dialog(approval: Approval, choice: Choice, reader: Person, click: Click) -> Dialog:
    """The form that a button opens."""
    language = reader.language
    return Dialog(
        title=say(f"choice.{choice.name}", language),
        submit=say("card.submit", language),
        cancel=say("card.close", language),
        approval=approval.id,
        version=approval.version,
        choice=choice.name,
        place=click.place,
        card=click.card,
        fields=choice.fields,
        labels=tuple(label(one.label, language) for one in choice.fields),
        options=tuple(_options(one, language) for one in choice.fields),
    )


def _options(field: Field, language: str) -> tuple[tuple[str, str], ...]:
    return tuple((value, words[language]) for value, words in field.choices)


def choice_of(plan: Plan, name: str) -> Choice | None:
    return next((one for one in plan.choices if one.name == name), None)
