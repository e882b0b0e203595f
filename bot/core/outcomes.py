"""The words of a closed card: its outcome, its decider and time, its result, and its subject as a statement. None of
them reads like an open question."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from bot.core.i18n import load_sentences, render_receipt_line, render_value, translate
from bot.core.records import Approval, ApprovalState, EffectState
from tools.effect_parts import PartState
from tools.languages import LANGUAGES
from tools.people.names import format_stand_in
from tools.spec import Identities, Person, Proposal, TextRef

SAID_BY_FIRST_LINE = frozenset({"effect.approved", "effect.rejected", "effect.resubmitted"})
"""Results that the outcome line of a card says already."""
Names = Mapping[str, dict[str, str]]
"""Person id → names by language."""


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


def describe_matter(proposal: Proposal, reader: Person) -> str:
    """Describe the subject of a card as a statement: *leave request L-0001 of 张三*. Cards of tools without such a
    sentence keep their title."""
    title = proposal.get_title_for(reader.id)
    key = title.key.replace("title.", "matter.", 1)
    known = TextRef(key=key, params=title.params) if key in load_sentences() else title
    return render_value(known, reader.language)


def format_local_time(ms: int, reader: Person) -> str:
    """Format a time in this reader's time zone."""
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone(ZoneInfo(reader.timezone)).strftime("%Y-%m-%d %H:%M")


SHOWN_ORDER = (PartState.DONE, PartState.BEGUN, PartState.REFUSED, PartState.OPEN)


def is_resumable(approval: Approval) -> bool:
    """Whether an effect with parts can be resumed: for each part it is known whether it is done."""
    return bool(approval.parts) and PartState.BEGUN not in approval.parts.values()


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
