"""Files between a message and the request that they belong to: the files that a run may put on a request, and their
fate with its card."""

from __future__ import annotations

from collections.abc import Sequence

from bot.conversation.turn_context import TurnContext
from bot.core.records import OpenCard, Run
from bot.core.run_state import CallStatus
from bot.queue.keys import Keys
from bot.queue.writes import Write
from bot.storage.files import WaitingFile, build_done_writes, build_waiting_write
from tools.requests.processes import RESUBMIT_REQUEST, START_PROCESS
from tools.spec import AttachedFile
from tools.workflow.process.forms import list_file_ids

REQUESTING = frozenset({START_PROCESS.name, RESUBMIT_REQUEST.name})
"""The tools whose cards put files on a request."""


def list_usable_files(run: Run, files: Sequence[WaitingFile]) -> tuple[AttachedFile, ...]:
    """List the files that the run's person has sent here and that are neither on a request nor on the card of another
    run."""
    return tuple(
        one.file
        for one in files
        if one.person == run.message.person and one.run in ("", run.id) and one.file.id not in run.used_files
    )


def list_card_files(card: OpenCard) -> tuple[str, ...]:
    form = card.proposal.args.get("form")
    if card.tool not in REQUESTING or not isinstance(form, dict):
        return ()
    return tuple(id for value in form.values() if isinstance(value, str) for id in list_file_ids(value))


def note_used_files(run: Run, status: CallStatus) -> None:
    """Mark the files of the run's card as used if the card succeeded; otherwise they are free again."""
    if run.requested_card is not None and status is CallStatus.SUCCEEDED:
        run.used_files = tuple(dict.fromkeys([*run.used_files, *list_card_files(run.requested_card)]))


def build_hold_writes(keys: Keys, context: TurnContext) -> list[Write]:
    """Build the writes that reserve files for a waiting card, and remove the files that the run has used."""
    run = context.run
    held = list_card_files(run.requested_card) if run.requested_card else ()
    return _build_file_writes(keys, run, context.conversation.files, held)


def build_release_writes(keys: Keys, run: Run, files: Sequence[WaitingFile]) -> list[Write]:
    """Build the writes that free the unused files of a run that has ended."""
    return _build_file_writes(keys, run, files, ())


def list_left_files(context: TurnContext) -> list[AttachedFile]:
    """List the files that came with the run's message and are on no request."""
    sent = {one.id for one in context.run.message.files}
    return [one for one in list_usable_files(context.run, context.conversation.files) if one.id in sent]


def _build_file_writes(keys: Keys, run: Run, files: Sequence[WaitingFile], held: Sequence[str]) -> list[Write]:
    lane = run.message.place.conversation
    own = [one for one in files if one.person == run.message.person]
    done = [one for one in own if one.file.id in run.used_files]
    changed = list[WaitingFile]()
    for one in own:
        if one in done or one.run not in ("", run.id):
            continue
        owner = run.id if one.file.id in held else ""
        if owner != one.run:
            changed.append(one.model_copy(update={"run": owner}))
    return [*build_done_writes(keys, lane, done), *build_waiting_write(keys, lane, changed)]
