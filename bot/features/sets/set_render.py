"""The words of a set of tasks. Code chooses every sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date

from bot.approvals.opinion_drafts import list_draft_fields
from bot.approvals.render import (
    ADVICE_LABEL,
    Names,
    describe_consequence,
    describe_dated_outcome,
    find_choice,
    get_names,
)
from bot.chat.messages import Button, Card, Dialog, FormInput, MessageRef, Place, Post, TickList, TickOption
from bot.core.i18n import render_value, shorten_text, translate, translate_label
from bot.core.records import Approval, ApprovalState, EffectState, compute_seal
from bot.core.redaction import redact_text
from bot.core.work_items import APPROVE_SET, REJECT_SET, SET_DECISIONS, TICKED
from bot.features.sets.day_facts import format_day
from bot.features.sets.set_store import ApprovalSet, SetEntry
from tools.languages import LANGUAGES, choose_words, drop_year, format_day_words
from tools.spec import CardField, DialogField, Identities, Person, TextRef
from tools.tasks.task_actions import MAX_OPINION
from tools.workflow.engine.port import AssignedTask
from tools.workflow.engine.state import Request
from tools.workflow.process.definition import Process

Approvals = Mapping[str, Approval]
"""Card id → its record as it is now."""
SAID_BY_SUMMARY = frozenset(
    {"request", "process", "requester", "status", "days", "balance", "rule", "copied", "cc", "stand_in", ADVICE_LABEL}
)
"""Labels of a card that its line in a set states already, or that no decision rests on."""
MAX_OPINION_SHOWN = 100
"""Most characters of an opinion behind an outcome; the card has all of it."""
ENDS = ("approve", "reject", "failed", "otherwise")
UNUSUAL = frozenset({"notice", "identical", "by_rules"})
"""Labels of facts that the reader has to know before deciding."""


def describe_details(
    approval: Approval, person: str, summary: Mapping[str, str], *, has_whole_days: bool
) -> dict[str, str]:
    """Describe by language the facts that are on the card but not in its line: what people wrote, everything unusual,
    and this person's draft, which *Approve* records. `has_whole_days`: the time begins with a morning and ends with an
    afternoon, so the line needs no word about halves."""
    fields, found = (*approval.proposal.fields, *list_draft_fields(approval, person)), dict[str, str]()
    for language in LANGUAGES:
        details = list[str]()
        for field in fields:
            value = " ".join(render_value(field.value, language).split())
            if isinstance(field.label, str) and field.label in UNUSUAL:
                details.append(translate("set.unusual", language, value=value))
            elif not _is_said(field, value, summary[language], language, has_whole_days):
                if isinstance(field.value, str):  # quoted, a person's text cannot pass for another fact of the line
                    value = "“" + value.replace("“", '"').replace("”", '"') + "”"
                label = translate_label(field.label, language)
                details.append(translate("set.detail", language, label=label, value=value))
        found[language] = " · ".join(details)
    return found if any(found.values()) else {}


def _is_said(field: CardField, value: str, summary: str, language: str, has_whole_days: bool) -> bool:
    if has_whole_days and isinstance(field.value, TextRef) and field.value.key == "fact.day":
        day = field.value.params["day"]
        words = choose_words(day, language) if isinstance(day, dict) else format_day_words(str(day), language)
        return drop_year(words) in summary
    is_level = isinstance(field.value, Identities) and field.value.text is None
    is_known = isinstance(field.label, str) and field.label in SAID_BY_SUMMARY
    amount, _, currency = value.partition(" ")  # the line states the currency's name instead of its code
    is_code = len(currency) == 3 and currency.isascii() and currency.isupper()
    is_amount = is_code and amount in summary.replace("，", " ").replace(",", " ").split()
    return is_known or is_level or value.casefold() in summary.casefold() or is_amount


def is_pressable(entry: SetEntry, approval: Approval | None, now_ms: int) -> bool:
    """Whether the card is open and as it was shown, and no press of the set on it has begun."""
    if approval is None or entry.is_pressed or approval.state is not ApprovalState.OPEN:
        return False
    return now_ms < approval.expires_ms and (entry.version, entry.seal) == (approval.version, approval.seal)


def list_pressable(approval_set: ApprovalSet, approvals: Approvals, now_ms: int) -> tuple[int, ...]:
    """List the numbers of the entries that can be decided here now."""
    return tuple(
        number
        for number, entry in enumerate(approval_set.entries)
        if is_pressable(entry, approvals.get(entry.approval), now_ms)
    )


def is_running(entry: SetEntry, approval: Approval | None) -> bool:
    """Whether a press of the set is on its way to the card, or the effect of such a press is running."""
    if approval is None or not entry.is_pressed or entry.refusal:
        return False
    open_yet = approval.state is ApprovalState.OPEN and (entry.version, entry.seal) == (approval.version, approval.seal)
    unfinished = approval.state is ApprovalState.DECIDED and approval.effect in (EffectState.NONE, EffectState.STARTED)
    return open_yet or unfinished


def render_set(
    approval_set: ApprovalSet,
    approvals: Approvals,
    names: Names,
    reader: Person,
    now_ms: int,
    facts: tuple[tuple[str, str], ...] = (),
) -> Post:
    """Render the set in its current state: boxes for the tasks that can be decided, and the outcome of all others.
    `facts`: the other sections of a morning list, as (heading, lines)."""
    language, pressable = reader.language, list_pressable(approval_set, approvals, now_ms)
    ticked = tuple(number for number in pressable if number in approval_set.ticked)
    title = _render_title(approval_set, approvals, len(pressable), language)
    if approval_set.day:
        day = format_day(date.fromisoformat(approval_set.day), language)
        title = translate("morning.title", language, day=day, what=title)
    outcomes = tuple(
        (choose_words(entry.about, language), _describe_entry(entry, approvals.get(entry.approval), names, reader))
        for number, entry in enumerate(approval_set.entries)
        if number not in pressable
    )
    id, version, entries = approval_set.id, approval_set.version, approval_set.entries
    left_out = approval_set.left_out if entries else 0  # otherwise the title says it
    footer = [translate("set.left_out", language, n=left_out)] if left_out else []
    footer += [translate("morning.how_off", language)] if approval_set.day else []
    ticks, buttons = None, tuple[Button, ...]()
    if pressable:
        options = tuple(
            TickOption(
                value=str(number),
                text=choose_words(entries[number].about, language),
                details=choose_words({"en": "", **entries[number].details}, language),
                is_ticked=number in ticked,
            )
            for number in pressable
        )
        count, total = len(ticked), len(pressable)
        key = "set.approve_one" if total == 1 else "set.approve_all" if count == total else "set.approve"
        approve = Button(translate(key, language, n=count, total=total), APPROVE_SET, id, version, "primary")
        ticks = TickList(id, version, options)
        buttons = (approve, Button(translate("set.reject", language), REJECT_SET, id, version))
    card = Card(
        title=title,
        lead=translate("set.lead", language) if len(pressable) > 1 else "",
        facts=(*outcomes, *facts),
        ticks=ticks,
        buttons=buttons,
        footer="\n".join(footer),
    )
    return Post(title, card=card)


def _render_title(approval_set: ApprovalSet, approvals: Approvals, open_count: int, language: str) -> str:
    running = sum(is_running(entry, approvals.get(entry.approval)) for entry in approval_set.entries)
    if running:
        return translate("set.busy", language, n=running)
    if not approval_set.entries:
        key = "morning.own_cards" if approval_set.left_out else "morning.nothing"
        return translate(key, language, n=approval_set.left_out)
    if open_count:
        return translate("set.waits", language, n=open_count)
    done = Counter[str]()
    for approval in (approvals.get(entry.approval) for entry in approval_set.entries):
        end = "otherwise"
        if approval and approval.decided_by == approval_set.person and approval.state is ApprovalState.DECIDED:
            end = approval.choice if approval.choice in ENDS else "otherwise"
            end = end if approval.effect is EffectState.DONE else "failed"
        done[end] += 1
    ends = [translate(f"set.ended_{end}", language, n=done[end]) for end in ENDS if done[end]]
    return translate("card.comma", language).join(ends)


def _describe_entry(entry: SetEntry, approval: Approval | None, names: Names, reader: Person) -> str:
    """Describe the state of an entry that can no longer be decided here."""
    language = reader.language
    if approval is None:
        return translate("set.changed", language)
    if is_running(entry, approval):
        return translate("set.running", language)
    if approval.state is not ApprovalState.OPEN:
        outcome = describe_dated_outcome(approval, reader, names)
        if approval.effect in (EffectState.FAILED, EffectState.UNKNOWN):
            why = describe_consequence(approval, language)
            return translate("set.failed", language, outcome=outcome, why=why)
        opinion = shorten_text(redact_text(approval.form.get("opinion", ""), addresses=False), MAX_OPINION_SHOWN)
        return f"{outcome}\n{translate('card.opinion', language, opinion=opinion)}" if opinion else outcome
    if not entry.refusal:
        return translate("set.changed", language)
    if entry.refusal_note is not None:
        why = render_value(entry.refusal_note, language)
    elif entry.refusal == "given_up":
        why = translate("set.given_up", language)
    else:
        deciders = [choose_words(get_names(names, one), language) for one in approval.proposal.deciders]
        who = translate("card.comma", language).join(deciders)
        why = translate(f"refused.{entry.refusal}", language, who=who, what="")
    return translate("set.skipped", language, why=why)


def render_reject_dialog(
    approval_set: ApprovalSet, ticked: Sequence[int], reader: Person, place: Place, card: MessageRef | None
) -> Dialog:
    """Render the dialog that asks for one reason for all ticked tasks. The dialog names them, and its submission
    returns them."""
    language = reader.language
    listed = "\n".join(choose_words(approval_set.entries[number].about, language) for number in ticked)
    title = translate("set.reject_title", language, n=len(ticked))
    fields = (
        DialogField(name="shown", label="matter", kind="shown", value=listed),
        DialogField(name="opinion", label="opinion", kind="long", max_length=MAX_OPINION),
    )
    return Dialog(
        title=title,
        submit=translate("set.reject_submit", language),
        cancel=translate("card.close", language),
        approval=approval_set.id,
        version=approval_set.version,
        choice=REJECT_SET,
        place=place,
        card=card,
        inputs=tuple(FormInput(one, translate_label(one.label, language)) for one in fields),
        kept=((TICKED, ",".join(map(str, ticked))),),
    )


CARD_CHOICES = tuple(SET_DECISIONS.values())
ENTRY_BYTES, ENTRY_TIMES = 110, 2
"""Bytes of a box besides its words, and number of times that all of it is sent: as a box, and as a ticked box."""
BOX_DETAILS = 75
"""Most characters of details that stand in the box itself; longer ones stand above it, once."""


def shows_request(approval: Approval, assigned: AssignedTask) -> bool:
    """Whether the card shows the request in its current state, sealed as it was shown."""
    is_current = approval.proposal.args.get("form_sha") == assigned.request.filled.content_hash
    has_choices = all(find_choice(approval.proposal, one) for one in CARD_CHOICES)
    return is_current and has_choices and compute_seal(approval.tool, approval.proposal) == approval.seal


def has_whole_days(process: Process, request: Request) -> bool:
    """Whether the request's time begins with a morning and ends with an afternoon."""
    span, values = process.form.days, request.filled.values
    return span is not None and (values.get(span.start_half, "am"), values.get(span.end_half, "pm")) == ("am", "pm")


def count_entry_bytes(entry: SetEntry) -> int:
    """Count the bytes of an entry in its message, in the language that needs more."""
    sizes = []
    for language in LANGUAGES:
        about, details = choose_words(entry.about, language), choose_words({"en": "", **entry.details}, language)
        in_box = details if len(details) <= BOX_DETAILS else ""
        above = 0 if in_box or not details else len((about + details).encode()) + ENTRY_BYTES
        sizes.append(ENTRY_TIMES * (len((about + in_box).encode()) + ENTRY_BYTES) + above)
    return max(sizes)
