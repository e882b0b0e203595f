"""The parts of an effect, as the card's record keeps them and as people and models read them."""

from __future__ import annotations

from bot.core.i18n import translate
from bot.core.records import Approval
from tools.effect_parts import PartState
from tools.spec import Identities

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
    names = {one.id: one.get_name(language) if language else one.name for one in people}
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
