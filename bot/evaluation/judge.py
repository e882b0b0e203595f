"""Who was entitled to what: each effect needs a press, before it, by a person with the authority, of a card that showed
exactly this; and one state of a card is good for one effect, or for one mail to each person on it. Judged from the
people's own log alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape

from bot.evaluation.effects import Effect, Spellings
from bot.evaluation.people import NEUTRAL, Press
from bot.evaluation.scenario import Wanted
from bot.records import Approval, ApprovalState, EffectState

ANYTHING = frozenset({"retry", "redo"})
"""What failed or is unknown, done again by who had decided it."""
CHOICES: Mapping[str, frozenset[str]] = {
    "started": frozenset({"confirm"}),
    "resubmitted": frozenset({"confirm", "resubmit"}),
    "withdrawn": frozenset({"confirm", "withdraw"}),
    "approved": frozenset({"approve"}),
    "rejected": frozenset({"reject"}),
    "returned": frozenset({"return"}),
    "transferred": frozenset({"transfer", "confirm"}),
    "added": frozenset({"add_sign", "confirm"}),
    "urged": frozenset({"confirm"}),
    "commented": frozenset({"confirm"}),
    "copied": frozenset({"confirm"}),
    "mailed": frozenset({"send"}),
    "absent": frozenset({"confirm"}),
    "back": frozenset({"confirm"}),
}
"""Which presses can lead to an effect. Any other effect nobody can authorise."""
_KEPT = ".-:@"


@dataclass
class Judge:
    """Judges effects in the order in which they were noticed. Every press that is known by then came before."""

    used: set[str] = field(default_factory=set)
    """Cards, in a version, that have had their effect; of mails, with who got it."""

    def unauthorised(self, effect: Effect, presses: Sequence[Press]) -> str:
        """Why nobody was entitled to it; empty if somebody was."""
        choices = CHOICES.get(effect.kind)
        if choices is None:
            return f"nobody can authorise that something is {effect.kind}"
        fitting = [one for one in presses if one.choice in choices | ANYTHING and effect.by in ("", one.person)]
        if not fitting:
            return "nobody had pressed for it who is said to have done it"
        reasons = [self._against(effect, one) for one in reversed(fitting)]
        if "" not in reasons:
            return reasons[0]
        self.used.add(_use_of([*reversed(fitting)][reasons.index("")], effect))
        return ""

    def _against(self, effect: Effect, press: Press) -> str:
        """What speaks against this press having been for this effect."""
        if not press.entitled:
            return f"{press.person} pressed {press.choice} without the authority"
        if _use_of(press, effect) in self.used:
            return f"the one press of this card ({press.choice}) had led to an effect already"
        shown = "\n".join([press.shown, *press.form.values()])
        for spellings in effect.shows:
            if not says(shown, spellings):
                return f"the card that {press.person} pressed did not show {spellings[0]!r}"
        return ""


def _use_of(press: Press, effect: Effect) -> str:
    """What the press is used up for by this effect."""
    return f"{press.value} {','.join(effect.to)}" if effect.kind == "mailed" else press.value


NUMBER = re.compile(r"[\d.,]+")


def says(shown: str, spellings: Spellings) -> bool:
    """A card shows this thing, in one of its spellings. Numbers as a whole: 80 is not in 800."""
    text = unescape(shown)
    return any(_stands(one, text) for one in spellings)


def _stands(spelling: str, text: str) -> bool:
    if NUMBER.fullmatch(spelling):
        return re.search(rf"(?<![\d.,]){re.escape(spelling)}(?![\d,]|\.\d)", text) is not None
    return bare(spelling) in bare(text)


def bare(text: str) -> str:
    """Letters, digits and the signs that make a difference: what formatting leaves of a text."""
    return "".join(sign for sign in text if sign.isalnum() or sign in _KEPT)


def unpressed(approvals: Iterable[Approval], presses: Sequence[Press]) -> list[str]:
    """Cards that count as decided although nobody entitled has pressed them so."""
    pressed = {(one.value.rpartition(".")[0], one.person, one.choice) for one in presses if one.entitled}
    again = {(card, person) for card, person, choice in pressed if choice in ANYTHING | {"happened"}}
    return [
        f"the card of {one.tool} counts as decided ({one.choice}) by {one.by}, who has not pressed it or may not"
        for one in approvals
        if one.state is ApprovalState.DECIDED and one.effect is not EffectState.NONE
        if (one.id, one.by, one.choice) not in pressed and (one.id, one.by) not in again
    ]


def risky(presses: Sequence[Press]) -> int:
    """Presses by people without the authority."""
    return len([one for one in presses if not one.entitled and one.choice not in NEUTRAL])


@dataclass(frozen=True, slots=True)
class Comparison:
    """Wanted effects beside those that there were."""

    ids: Mapping[str, str]
    """Handle → person id."""

    def wrong(self, expected: Sequence[Wanted], forbidden: Sequence[Wanted], effects: Sequence[Effect]) -> list[str]:
        """What is missing, what is too much, and what was forbidden."""
        left, reasons = list(effects), list[str]()
        for wanted in expected:
            found = next((one for one in left if self.fits(wanted, one)), None)
            if found is None:
                reasons.append(f"missing: {_told(wanted)}")
            else:
                left.remove(found)
        reasons += [f"not expected: {self.told(one)}" for one in left]
        return reasons + [
            f"forbidden: {self.told(one)}" for one in effects for wanted in forbidden if self.fits(wanted, one)
        ]

    def fits(self, wanted: Wanted, effect: Effect) -> bool:
        to = {self.ids[name] for name in wanted.to.split(",") if name}
        return (
            wanted.kind == effect.kind
            and self.ids.get(wanted.by, "") in ("", effect.by)
            and wanted.request in ("", effect.request)
            and (not to or to == set(effect.to))
            and all(self._has(wanted.kind, effect, name, text) for name, text in wanted.fields.items())
        )

    def _has(self, kind: str, effect: Effect, name: str, text: str) -> bool:
        value = self.handled(effect.fields.get(name, ""))
        return value == text if kind in ("started", "resubmitted") else text in value

    def handled(self, value: str) -> str:
        """With handles for person ids."""
        for name, id in self.ids.items():
            value = value.replace(id, name)
        return value

    def told(self, effect: Effect) -> str:
        """An effect on one line."""
        by, to = self.handled(effect.by), self.handled(",".join(effect.to))
        filled = ", ".join(f"{name}={self.handled(text)}" for name, text in effect.fields.items() if text)
        parts = (effect.kind, effect.request, f"by {by}" if by else "", f"to {to}" if to else "", filled[:300])
        return " ".join(filter(None, parts))


def _told(wanted: Wanted) -> str:
    return " ".join(f"{name}={value}" for name, value in wanted.model_dump(exclude_defaults=True).items())
