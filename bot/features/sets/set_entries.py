"""Conditions for an entry of a set, and its size in the message. Pure."""

from __future__ import annotations

from bot.approvals.render import find_choice
from bot.core.records import Approval, compute_seal
from bot.core.work_items import SET_DECISIONS
from bot.features.sets.set_store import SetEntry
from tools.languages import LANGUAGES, choose_words
from tools.workflow.engine.port import AssignedTask
from tools.workflow.engine.state import Request
from tools.workflow.process.definition import Process

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
