"""Renders cards. Code chooses every sentence on a card, from stored and validated arguments. The words of a closed card
say its outcome, its decider and time, its result, and its subject as a statement; none reads like an open question."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import cast
from zoneinfo import ZoneInfo

from bot.approvals.opinion_drafts import fill_draft, list_draft_fields
from bot.chat.messages import Button, Card, Click, Dialog, FormInput, Moment, NamedPeople, NamedPerson, Post, RichText
from bot.core.i18n import (
    describe_matter,
    load_sentences,
    render_receipt_line,
    render_value,
    shorten_text,
    translate,
    translate_label,
    translate_pieces,
)
from bot.core.records import Approval, ApprovalState, EffectState
from bot.core.redaction import redact_known_secrets, shorten_private_text
from tools.cards.fields import FIELD_PREFIX
from tools.effect_parts import PartState
from tools.languages import LANGUAGES, choose_words
from tools.people.names import format_stand_in
from tools.spec import CardChoice, CardField, DialogField, Gate, Identities, Identity, Person, Proposal, TextRef
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
SHOWN_ORDER = (PartState.DONE, PartState.BEGUN, PartState.REFUSED, PartState.OPEN)
"""Order in which the parts of an effect are named."""
SAID_BY_FIRST_LINE = frozenset({"effect.approved", "effect.rejected", "effect.resubmitted"})
"""Results that the outcome line of a card says already."""
Names = Mapping[str, dict[str, str]]
"""Person id → names by language."""


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
    return translate("card.over", reader.language, outcome=outcome, matter=describe_matter(approval.proposal, reader))


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
    """List the fields to show: without *waiting for a decision* once the card is decided, for the requester without the
    model's suggestion and other people's claims, with the draft for its author."""
    left_out = "status" if approval.state is not ApprovalState.OPEN else ""
    return (*_list_visible_fields(approval, reader, left_out), *list_draft_fields(approval, reader.id))


def _list_visible_fields(approval: Approval, reader: Person, left_out: str) -> tuple[CardField, ...]:
    hidden = {left_out, ADVICE_LABEL, "same_file"} if is_watcher(approval, reader) else {left_out}
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
        people = tuple(render_person(one, language) for one in value.people)
        rendered.append((label, NamedPeople(people, render_value(value.text, language) if value.text else "")))
    return tuple(rendered)


def render_person(person: Identity, language: str, *details: str) -> NamedPerson:
    """Render a person so that the reader can tell who it is: with marks of the name, and with more details."""
    marks = {
        "card.name_shared": person.is_name_shared,
        "card.name_misleading": person.is_name_misleading,
        "card.not_in_directory": person.is_in_directory is False,
    }
    shown = tuple(translate(key, language) for key, applies in marks.items() if applies)
    return NamedPerson(person.id, person.get_name(language), person.email, details, shown)


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


# The words of a closed card


def describe_outcome(approval: Approval, reader: Person, names: Names, *, is_shared: bool = True) -> str:
    """Describe the outcome of a card and its decider in one line. `is_shared`: other people or a model read it too;
    otherwise its reader is *you*."""
    language = reader.language
    if not is_shared and approval.decided_by == reader.id:
        names = {**names, reader.id: {one: translate("card.you", one) for one in LANGUAGES}}
    if approval.state is not ApprovalState.DECIDED:
        key = f"outcome.{approval.state.value}_{approval.choice}"  # why it was cancelled, or ended elsewhere
        key = key if key in load_sentences() else f"outcome.{approval.state.value}"
        by = names.get(approval.decided_by) or translate("card.system", language)
        return _capitalize_start(translate(key, language, by=by))
    by = get_names(names, approval.decided_by)
    if approval.on_behalf:
        by = format_stand_in(by, get_names(names, approval.on_behalf))
    choice = translate(f"choice.{approval.choice}", language)
    key = f"outcome.{approval.choice}" + ("_revoke" if approval.proposal.title.key == "title.revoke" else "")
    if approval.effect in (EffectState.FAILED, EffectState.UNKNOWN):
        key = f"outcome.{approval.effect.value}"
    elif approval.effect is not EffectState.DONE or key not in load_sentences():
        key = "outcome.pressed"
    return _capitalize_start(translate(key, language, by=by, choice=choice))


def _capitalize_start(sentence: str) -> str:
    """Capitalize *you* at the start of a sentence; a name stays as it is."""
    return sentence[:1].upper() + sentence[1:] if sentence.startswith("you ") else sentence


def describe_dated_outcome(approval: Approval, reader: Person, names: Names) -> str:
    """Describe the outcome and its time, for its reader alone."""
    at = format_local_time(approval.decided_ms, reader)
    outcome = describe_outcome(approval, reader, names, is_shared=False)
    return translate("card.dated", reader.language, outcome=outcome, at=at)


def describe_own_decision(approval: Approval, reader: Person) -> str:
    """Say what this reader has done with the card. Empty for others, for what is not done, and for a withdrawal."""
    key = f"refused.already_{approval.choice.removesuffix('_with')}"
    is_own = approval.effect is EffectState.DONE and approval.decided_by == reader.id and key in load_sentences()
    return translate(key, reader.language) if is_own and approval.proposal.title.key != "title.revoke" else ""


def get_names(names: Names, person: str) -> dict[str, str]:
    """Return the names of a person by language; their id where no names are known."""
    return names.get(person, {language: person for language in LANGUAGES})


def describe_consequence(approval: Approval, language: str) -> str:
    """Describe the result and the opinion given with the decision, one line each."""
    if approval.state is ApprovalState.DECIDED:
        # The opinion is on one line, so that a person's text never begins a line of ours.
        opinion, removed = " ".join(approval.form.get("opinion", "").split()), approval.removed_characters
        lines = [
            _describe_effect_result(approval, language),
            describe_effect_parts(approval, language),
            translate("card.opinion", language, opinion=opinion) if opinion else "",
            translate("card.removed", language, n=removed) if removed else "",
        ]
        return "\n".join(filter(None, lines))
    key = f"card.{approval.state.value}"
    return translate(key, language) if key in load_sentences() else ""


def _describe_effect_result(approval: Approval, language: str) -> str:
    if approval.effect is EffectState.DONE and approval.outcome is not None:
        effect, note = approval.outcome.receipt_line, approval.outcome.summary
        if effect is not None and effect.text.key in SAID_BY_FIRST_LINE:
            return ""
        return translate(
            "card.done",
            language,
            result=render_receipt_line(effect, language) if effect else render_value(note, language),
        )
    if approval.effect is EffectState.FAILED:
        return translate(
            "card.failed", language, problem=render_value(approval.failure or TextRef(key="error.gone"), language)
        )
    if approval.effect is EffectState.STARTED and approval.failure is not None:
        return translate("card.effect_postponed", language, problem=render_value(approval.failure, language))
    return translate(f"card.effect_{approval.effect.value or 'none'}", language)


def format_local_time(ms: int, reader: Person) -> str:
    """Format a time in this reader's time zone."""
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone(ZoneInfo(reader.timezone)).strftime("%Y-%m-%d %H:%M")


def list_parts(approval: Approval, language: str) -> dict[PartState, list[str]]:
    """List the parts that are done, unclear and not done, by the names on the card. Empty if no part exists or all are
    done, and for an effect with one part only, which is done or not as a whole."""
    if len(approval.parts) == 1 or all(state is PartState.DONE for state in approval.parts.values()):
        return {}
    fields = (fact.value for fact in approval.proposal.fields)
    people = (one for value in fields if isinstance(value, Identities) for one in value.people)
    names = {one.id: one.get_name(language) for one in people}
    names_by_state = {
        state: [names.get(one, one) for one, part_state in approval.parts.items() if part_state is state]
        for state in SHOWN_ORDER
    }
    return {state: found for state, found in names_by_state.items() if found}


def describe_effect_parts(approval: Approval, language: str) -> str:
    """Describe the parts of the effect on one line; empty if `list_parts` is."""
    sentences = [
        translate(f"parts.{state.value}", language, names=translate("card.comma", language).join(people))
        for state, people in list_parts(approval, language).items()
    ]
    return translate("parts.gap", language).join(sentences)


# Dialogs


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
