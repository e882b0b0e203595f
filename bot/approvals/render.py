"""Renders cards. Code chooses every sentence on a card, from stored and validated arguments."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import cast

from bot.approvals.opinion_drafts import fill_draft, list_draft_fields
from bot.chat.messages import (
    Button,
    Card,
    Click,
    Dialog,
    FormInput,
    Moment,
    NamedPeople,
    NamedPerson,
    Post,
    RichText,
)
from bot.core.i18n import render_value, shorten_text, translate, translate_label, translate_pieces
from bot.core.outcomes import (
    Names,
    describe_consequence,
    describe_matter,
    describe_outcome,
    format_local_time,
    get_names,
)
from bot.core.records import Approval, ApprovalState, EffectState
from bot.core.redaction import redact_known_secrets, shorten_private_text
from tools.cards.fields import FIELD_PREFIX
from tools.languages import choose_words
from tools.spec import CardChoice, CardField, DialogField, Gate, Identities, Identity, Person, Proposal
from tools.tasks.todo import DECIDE_TASK

UNRECOVERABLE_ERRORS = frozenset(
    {"error.altered", "error.request_changed", "error.task_closed", "error.own_level", "error.tool_changed"}
)
"""Errors that no retry can fix; a card with one has no *Try Again*."""

MAX_LINE, MAX_FIELD = 400, 80
"""Most characters that a model gets of a whole card, and of one of its fields."""
VALUE_MAX = 60
"""Most characters of a field value in an event."""
FACTS_MAX, FACT_MAX = 8, 150
"""Most facts in a dialog, and most characters of one."""
NOT_IN_DIALOGS = frozenset({"request", "process", "status", "balance"})
"""Facts that a dialog's title states, or that no decision rests on."""
LIMIT_SAID = 1_000
"""Largest length limit of a text that people are told."""
TITLE_MAX = 24
"""Most characters of a dialog's title on every platform."""
ADVICE_LABEL = "advice"
"""Label of the model's suggestion."""


def render_card(approval: Approval, reader: Person, names: Names, *, is_shared: bool = False) -> Post:
    """Render the card in its current state, for one reader. A closed card leads with its outcome and lists what it
    asked for below. `is_shared`: others see this copy too, so it names its reader."""
    language = reader.language
    is_open = approval.state is ApprovalState.OPEN
    footer: str | RichText = ""
    if is_open:  # the people who can press the card are named, unless that is the reader alone
        who, until = _join_deciders(approval, names, language), build_moment(approval.expires_ms, reader)
        is_own = approval.proposal.deciders == (reader.id,)
        key = "card.open_own" if is_own else "card.open_for" if is_deputy(approval, reader) else "card.open"
        footer = cast(RichText, translate_pieces(key, language, who=who, until=until))
    # Only what this reader can press now. A decided card has no buttons, except to recover its effect.
    offered, is_theirs = list[tuple[str, str]](), reader.id == approval.decided_by
    if is_open:
        choices = [(one.name, one.style) for one in approval.proposal.choices]
        shows = [("show", "")] if approval.tool == DECIDE_TASK.name else []
        offered = [] if is_watcher(approval, reader) else [*choices, *shows]
    elif approval.state is ApprovalState.EXPIRED:
        offered = [("again", "")]
    elif is_theirs and approval.effect is EffectState.UNKNOWN:
        offered = [("happened", ""), ("redo", "")]
    elif is_theirs and approval.effect is EffectState.FAILED and not is_unrecoverable(approval):
        offered = [("retry", "")]
    id, version, seal = approval.id, approval.version, approval.shown_seal
    buttons = tuple(
        Button(translate(f"choice.{name}", language), name, id, version, style, seal) for name, style in offered
    )
    card = Card(
        title=render_first_line(approval, reader) if is_open else _render_last_line(approval, reader, names, is_shared),
        lead="" if is_open else describe_consequence(approval, language),
        facts=render_card_fields(_list_current_fields(approval, reader), language),
        body=approval.proposal.body,
        buttons=buttons,
        when=None if is_open else build_moment(approval.decided_ms, reader),
        footer=footer,
        is_void=approval.state is ApprovalState.CANCELLED,
    )
    return Post(render_notification(approval, reader, names, is_shared=is_shared), card=card)


def render_moved_card(approval: Approval, reader: Person) -> Post:
    """Render a copy that a newer one replaces: the subject of the card, and nothing about its state."""
    fields = render_card_fields(_list_visible_fields(approval, reader, "status"), reader.language)
    title, lead = translate("card.moved", reader.language), describe_matter(approval.proposal, reader)
    return Post(f"{title} {lead}", card=Card(title, fields, body=approval.proposal.body, lead=lead, is_void=True))


def describe_card_event(approval: Approval, reader: Person, names: Names) -> str:
    """Describe the card's current state as an event for its reader's DM history: the fields while the card is open, the
    opinion once it is decided. Both may contain people's own text, so they are quoted."""
    opinion = " ".join(approval.form.get("opinion", "").split())
    details = translate("notice.opinion", reader.language, opinion=opinion) if opinion else ""
    if approval.state is ApprovalState.OPEN:
        facts = [one for one in _list_visible_fields(approval, reader, "status") if one.label != "request"]
        facts.sort(key=lambda one: one.label != "opinion")  # the opinion comes first: the end may be cut
        fields = describe_card_fields(facts, reader.language)
        details = f"“{'; '.join(f'{name}: {shorten_private_text(value, VALUE_MAX)}' for name, value in fields)}”"
    return f"{render_notification(approval, reader, names)} {details}".strip()


def render_notification(approval: Approval, reader: Person, names: Names, *, is_shared: bool = True) -> str:
    """Render the card in one line. `is_shared`: as in `describe_outcome`."""
    if approval.state is ApprovalState.OPEN:
        return render_first_line(approval, reader)
    if approval.state is ApprovalState.EXPIRED and is_watcher(approval, reader):
        subject, who = describe_matter(approval.proposal, reader), _join_deciders(approval, names, reader.language)
        return translate("card.nobody", reader.language, title=subject, who=who)
    return _render_last_line(approval, reader, names, is_shared)


def render_title(approval: Approval, reader: Person) -> str:
    return render_value(approval.proposal.get_title_for(reader.id), reader.language)


def render_first_line(approval: Approval, reader: Person) -> str:
    """Render the card's question, with its scope."""
    title, scope = render_title(approval, reader), choose_words({"en": "", **approval.proposal.scope}, reader.language)
    key = "card.question" if title.endswith(("?", "？")) else "card.title"
    return translate(key, reader.language, title=title, scope=scope) if scope else title


def _render_last_line(approval: Approval, reader: Person, names: Names, is_shared: bool) -> str:
    """Render the outcome of the card and its subject."""
    outcome = describe_outcome(approval, reader, names, is_shared=is_shared)
    matter = describe_matter(approval.proposal, reader)
    return translate("card.over", reader.language, outcome=outcome, matter=matter)


def is_watcher(approval: Approval, reader: Person) -> bool:
    """Whether the reader is the requester of a task that somebody else decides: they see the state and have no
    buttons."""
    return approval.gate is Gate.APPROVE and reader.id == approval.proposal.requester


def is_deputy(approval: Approval, reader: Person) -> bool:
    """Whether the reader has the card as a deputy of a decider."""
    mine = (*approval.proposal.deciders, approval.proposal.requester)
    return approval.gate is Gate.APPROVE and reader.id not in mine


def list_card_facts(
    approval: Approval, reader: Person, left_out: Collection[str] = ()
) -> tuple[tuple[str, str | NamedPeople], ...]:
    """List the facts on the card in its current state, without those with these labels."""
    fields = [one for one in _list_current_fields(approval, reader) if one.label not in tuple(left_out)]
    return render_card_fields(fields, reader.language)


def _list_current_fields(approval: Approval, reader: Person) -> tuple[CardField, ...]:
    """List the fields to show: without *waiting for a decision* once the card is decided, without the model's
    suggestion for the requester, with the draft for its author."""
    left_out = "status" if approval.state is not ApprovalState.OPEN else ""
    return (*_list_visible_fields(approval, reader, left_out), *list_draft_fields(approval, reader.id))


def _list_visible_fields(approval: Approval, reader: Person, left_out: str) -> tuple[CardField, ...]:
    hidden = {left_out, ADVICE_LABEL} if is_watcher(approval, reader) else {left_out}
    return tuple(
        field
        for field in approval.proposal.fields
        if not (isinstance(field.label, str) and field.label in hidden)
        and not (
            field.tells_others
            and isinstance(field.value, Identities)
            and [one.id for one in field.value.people] == [reader.id]
        )
    )


def render_card_fields(fields: Iterable[CardField], language: str) -> tuple[tuple[str, str | NamedPeople], ...]:
    """Render labels and values as on the card. Persons are rendered so that the reader can tell who they are."""
    rendered = list[tuple[str, str | NamedPeople]]()
    for label, value in ((translate_label(fact.label, language), fact.value) for fact in fields):
        if not isinstance(value, Identities):
            rendered.append((label, render_value(value, language)))
            continue
        people = tuple(
            NamedPerson(p.id, p.get_name(language), p.email, marks=tuple(list_identity_marks(p, language)))
            for p in value.people
        )
        rendered.append((label, NamedPeople(people, render_value(value.text, language) if value.text else "")))
    return tuple(rendered)


def list_identity_marks(person: Identity, language: str) -> Iterator[str]:
    if person.is_name_shared:
        yield translate("card.name_shared", language)
    if person.is_name_misleading:
        yield translate("card.name_misleading", language)
    if person.is_in_directory is False:
        yield translate("card.not_in_directory", language)


def describe_card_fields(fields: Iterable[CardField], language: str) -> tuple[tuple[str, str], ...]:
    """Describe labels and values in words."""
    return tuple((translate_label(fact.label, language), render_value(fact.value, language)) for fact in fields)


def describe_proposal(proposal: Proposal, reader: Person) -> str:
    """Describe a card's question in one bounded line for a model: title, fields, beginning of the text. The line is
    data, because it contains people's words."""
    title = render_value(proposal.get_title_for(reader.id), reader.language)
    fields = [
        f"{name}: {shorten_private_text(redact_known_secrets(value), MAX_FIELD)}"
        for name, value in describe_card_fields(proposal.fields, reader.language)
    ]
    body = [shorten_private_text(redact_known_secrets(proposal.body), MAX_FIELD)] if proposal.body else []
    return redact_known_secrets(" · ".join([shorten_text(title, MAX_LINE), *fields, *body]))[:MAX_LINE]


def is_unrecoverable(approval: Approval) -> bool:
    """Whether every retry must fail in the same way."""
    return approval.failure is not None and approval.failure.key in UNRECOVERABLE_ERRORS


def build_moment(ms: int, reader: Person) -> Moment:
    return Moment(ms, format_local_time(ms, reader))


def _join_deciders(approval: Approval, names: Names, language: str) -> str:
    people = (choose_words(get_names(names, one), language) for one in approval.proposal.deciders)
    return translate("card.comma", language).join(people)


def render_dialog(approval: Approval, choice: CardChoice, reader: Person, click: Click) -> Dialog:
    """Render the form that a button opens, filled with this reader's draft. The form shows what it decides on: the last
    objection first, then the subject with its facts, unless the fields themselves are these."""
    language, choice = reader.language, fill_draft(approval.proposal, choice, reader.id)
    is_form = choice.edits or any(field.name.startswith(FIELD_PREFIX) for field in choice.fields)
    facts = () if is_form or not choice.inputs else list_card_facts(approval, reader, NOT_IN_DIALOGS)
    keys = (f"dialog.{choice.name}_{approval.tool}", f"dialog.{choice.name}") if choice.inputs else ()
    titles = (_translate_known(key, language, **approval.proposal.title.params) for key in keys)
    title = next((one for one in titles if one and len(one) <= TITLE_MAX), "")  # a title is never cut
    said = [field.value for field in approval.proposal.fields if field.label == "opinion"]
    lead = ""
    if said and is_form and not choice.edits:  # the opinion with which the request was last sent back
        opinion = said[-1]
        lead = render_value(opinion.text if isinstance(opinion, Identities) and opinion.text else opinion, language)
    about = list[tuple[str, str | NamedPeople]]()
    for label, value in facts[:FACTS_MAX]:
        if isinstance(value, str) and len(value) > FACT_MAX:  # the card itself shows all of it
            value = shorten_private_text(value, FACT_MAX)
        about.append((label, value))
    inputs = list[FormInput]()
    for field in choice.fields:
        rule = _translate_known(f"hint.{field.label}", language) if field.label and isinstance(field.label, str) else ""
        hint = " ".join(filter(None, (rule, render_limit(field, language))))
        label = _translate_known(f"ask.{field.label}", language) or translate_label(field.label, language)
        options = tuple((value, choose_words(words, language)) for value, words in field.choices)
        inputs.append(FormInput(field, label, options, hint))
    return Dialog(
        title=title or translate(f"choice.{choice.name}" if choice.inputs else "card.read_first", language),
        submit=_translate_known(f"dialog.submit_{choice.name}", language)
        or translate(f"choice.{choice.name}", language),
        cancel=translate("card.close", language),
        approval=approval.id,
        version=approval.version,
        choice=choice.name,
        place=click.place,
        card=click.card,
        inputs=tuple(inputs),
        lead=lead,
        matter=describe_matter(approval.proposal, reader),
        about=tuple(about),
        more=translate("form.more", language),
        seal=approval.shown_seal,
    )


def _translate_known(key: str, language: str, /, **params: object) -> str:
    """Translate a sentence; empty if the key or one of its parameters is missing."""
    try:
        return translate(key, language, **params)
    except KeyError:
        return ""


def render_limit(field: DialogField, language: str) -> str:
    """Describe the largest length of a text, where people may come near it."""
    is_limited = field.kind in ("text", "long") and field.max_length <= LIMIT_SAID
    return translate("hint.at_most", language, n=field.max_length) if is_limited else ""


def find_choice(proposal: Proposal, name: str) -> CardChoice | None:
    return next((one for one in proposal.choices if one.name == name), None)
