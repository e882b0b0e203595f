"""Cards in words: every sentence on a card is chosen here, by code, from stored and validated arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bot.drafting import fill_draft, shown_draft
from bot.events import Button, Card, Click, Dialog, Directory, NamedPeople, NamedPerson, Post
from bot.outcomes import Names, moment, say_consequence, say_matter, say_outcome
from bot.records import Approval, ApprovalState, EffectState
from bot.redaction import redact_known
from bot.texts import label, literal, say, shorten
from tools.identities import identify_people
from tools.names import name_of
from tools.spec import Choice, Fact, Field, Gate, Identities, Identity, Person, Plan
from tools.tasks import DECIDE_TASK

HOPELESS = frozenset(
    {"error.altered", "error.request_changed", "error.task_closed", "error.own_level", "error.tool_changed"}
)
"""Problems that no second try mends: the card has no *Try Again* then."""

LINE, PART = 400, 80
"""Characters of what a model is told of a card, and of one of its facts."""
VALUE_MAX = 60
"""Characters of a fact in an event."""
ADVICE = "advice"
"""Label of what a model thinks of it."""


def card(approval: Approval, reader: Person, names: Names) -> Post:
    """The card as it stands now, for one reader. Once it is over it leads with what became of it; what it asked for is
    below, as a fact."""
    language = reader.language
    is_open = approval.state is ApprovalState.OPEN
    facts = show_facts(_current(approval, reader), language)
    shown = Card(
        title=title_of(approval, reader) if is_open else say_outcome(approval, reader, names),
        lead="" if is_open else say_consequence(approval, language),
        facts=facts if is_open else (_matter(approval, reader), *facts),
        body=approval.plan.body,
        buttons=_buttons(approval, reader, language),
        footer=_footer(approval, reader, names) if is_open else "",
    )
    return Post(notify(approval, reader, names), card=shown)


def moved(approval: Approval, reader: Person) -> Post:
    """A copy that a newer one has taken the place of: what it was about, and nothing of how that stands."""
    facts = (_matter(approval, reader), *show_facts(_facts(approval, reader, "status"), reader.language))
    title = say("card.moved", reader.language)
    return Post(f"{title} {say_matter(approval.plan, reader)}", card=Card(title, facts, body=approval.plan.body))


def _matter(approval: Approval, reader: Person) -> tuple[str, str]:
    return label("matter", reader.language), say_matter(approval.plan, reader)


def tell_event(approval: Approval, reader: Person, names: Names) -> str:
    """How the card stands now, for what its reader's DM remembers: what it is about while it is open, and with which
    words it was decided. Both may be what somebody wrote, so they are quoted."""
    opinion = " ".join(approval.form.get("opinion", "").split())
    said = say("notice.opinion", reader.language, opinion=opinion) if opinion else ""
    if approval.state is ApprovalState.OPEN:
        facts = [one for one in _facts(approval, reader, "status") if one.label != "request"]
        facts.sort(key=lambda one: one.label != "opinion")  # what was said before comes first: the end may be cut
        said = f"“{'; '.join(f'{name}: {shorten(value, VALUE_MAX)}' for name, value in told(facts, reader.language))}”"
    return f"{notify(approval, reader, names)} {said}".strip()


def notify(approval: Approval, reader: Person, names: Names) -> str:
    """The card in one line."""
    language = reader.language
    if approval.state is ApprovalState.OPEN:
        return say("card.notification", language, title=title_of(approval, reader))
    matter = say_matter(approval.plan, reader)
    if approval.state is ApprovalState.EXPIRED and watches(approval, reader):
        return say("card.nobody", language, title=matter, who=_listed(approval.plan.deciders, names, language))
    return say("card.over", language, outcome=say_outcome(approval, reader, names), matter=matter)


def title_of(approval: Approval, reader: Person) -> str:
    """What the card is called for this reader."""
    return literal(approval.plan.title_for(reader.id), reader.language)


def watches(approval: Approval, reader: Person) -> bool:
    """True for the requester of what somebody else decides: sees how it stands and has nothing to press."""
    return approval.gate is Gate.APPROVE and reader.id == approval.plan.requester


def stands_in(approval: Approval, reader: Person) -> bool:
    """True for who has the card because they stand in for who decides."""
    mine = (*approval.plan.deciders, approval.plan.requester)
    return approval.gate is Gate.APPROVE and reader.id not in mine


def _current(approval: Approval, reader: Person) -> tuple[Fact, ...]:
    """The facts: without *waiting for a decision* on a card that has been decided; without the model's suggestion for
    whose request it is; with the draft of who has one."""
    left_out = "status" if approval.state is not ApprovalState.OPEN else ""
    return (*_facts(approval, reader, left_out), *shown_draft(approval, reader.id))


def _facts(approval: Approval, reader: Person, left_out: str) -> tuple[Fact, ...]:
    hidden = {left_out, ADVICE} if watches(approval, reader) else {left_out}
    return tuple(fact for fact in approval.plan.facts if not isinstance(fact.label, str) or fact.label not in hidden)


def show_facts(facts: Iterable[Fact], language: str) -> tuple[tuple[str, str | NamedPeople], ...]:
    """Labels and values as a card has them: persons so that the reader can check who they are."""
    return tuple((label(fact.label, language), _show_value(fact.value, language)) for fact in facts)


def _show_value(value: object, language: str) -> str | NamedPeople:
    if not isinstance(value, Identities):
        return literal(value, language)
    people = tuple(NamedPerson(p.id, p.name, p.email, marks=tuple(_marks(p, language))) for p in value.people)
    return NamedPeople(people, literal(value.note, language) if value.note else "")


async def show_candidates(directory: Directory, people: Sequence[str], language: str) -> NamedPeople | None:
    """Those whom a name may mean, with what they cannot choose themselves; None for nobody."""
    if not people:
        return None
    shown = []
    for one in (await identify_people(directory, people)).people:
        found = await directory.get(one.id)
        manager = await name_of(directory, found.manager) if found and found.manager else ""
        more = [found.department if found else "", say("card.manager_is", language, name=manager) if manager else ""]
        marks = tuple(_marks(one, language))
        shown.append(NamedPerson(one.id, one.name, one.email, tuple(filter(None, more)), marks))
    return NamedPeople(tuple(shown), say("card.candidates", language))


def _marks(person: Identity, language: str) -> Iterator[str]:
    if person.is_name_shared:
        yield say("card.name_shared", language)
    if person.is_name_misleading:
        yield say("card.name_misleading", language)
    if person.is_in_directory is False:
        yield say("card.not_in_directory", language)


def told(facts: Iterable[Fact], language: str) -> tuple[tuple[str, str], ...]:
    """Labels and values in words."""
    return tuple((label(fact.label, language), literal(fact.value, language)) for fact in facts)


def describe_plan(plan: Plan, reader: Person) -> str:
    """What a card asks for, in one bounded line for a model: what it is called, its facts, how its text begins. Data:
    people's words are in it."""
    title = literal(plan.title_for(reader.id), reader.language)
    facts = [f"{name}: {shorten(redact_known(value), PART)}" for name, value in told(plan.facts, reader.language)]
    body = [shorten(redact_known(plan.body), PART)] if plan.body else []
    return redact_known(" · ".join([shorten(title, LINE), *facts, *body]))[:LINE]


def _buttons(approval: Approval, reader: Person, language: str) -> tuple[Button, ...]:
    """Only what this reader can press now; a decided card has no buttons."""
    if approval.state is ApprovalState.OPEN and watches(approval, reader):
        return ()
    if approval.state is ApprovalState.OPEN:
        choices = [_button(approval, one.name, language, one.style) for one in approval.plan.choices]
        return (*choices, *([_button(approval, "show", language)] if approval.tool == DECIDE_TASK.name else []))
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
    """Who must act until when."""
    language = reader.language
    who = _listed(approval.plan.deciders, names, language)
    key = "card.open_for" if stands_in(approval, reader) else "card.open"
    return say(key, language, who=who, until=moment(approval.expires_ms, reader))


def _listed(people: tuple[str, ...], names: Names, language: str) -> str:
    return say("card.comma", language).join(names.get(one, one) for one in people)


def dialog(approval: Approval, choice: Choice, reader: Person, click: Click) -> Dialog:
    """The form that a button opens, with what this reader has drafted for it."""
    language, choice = reader.language, fill_draft(approval.plan, choice, reader.id)
    name = say(f"choice.{choice.name}", language)
    return Dialog(
        title=name if choice.inputs else say("card.read_first", language),
        submit=say("card.submit", language) if choice.inputs else name,
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
