"""Files between a message and the request that they belong to: the files that a run may put on a request, and their
fate with its card. They wait in a hash of the conversation, `<person>:<id>` → `WaitingFile` as JSON, for a week."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import ValidationError

from bot.core.records import OpenCard, Run, RunStatus
from bot.queue.keys import Keys
from bot.queue.writes import HDel, HSet, Write
from bot.storage.runs import build_waiting_files_key
from tools.requests.processes import RESUBMIT_REQUEST, START_PROCESS
from tools.spec import AttachedFile, StoredModel
from tools.workflow.process.forms import list_file_ids

WAITING_MS = 7 * 24 * 3_600_000
REQUESTING = frozenset({START_PROCESS.name, RESUBMIT_REQUEST.name})
"""The tools whose cards put files on a request."""


class WaitingFile(StoredModel):
    """A file that was sent in a conversation and is on no request yet."""

    file: AttachedFile
    person: str
    run: str = ""
    """The run whose card has the file; the file is free again if that card is not confirmed."""


def list_usable_files(run: Run, waiting: Mapping[str, str]) -> tuple[AttachedFile, ...]:
    """List the files that the run's person has sent here and that are neither on a request nor on the card of another
    run."""
    return tuple(
        one.file
        for one in _parse_own_files(run, waiting)
        if one.run in ("", run.id) and one.file.id not in run.used_files
    )


def list_card_files(card: OpenCard) -> tuple[str, ...]:
    form = card.proposal.args.get("form")
    if card.tool not in REQUESTING or not isinstance(form, dict):
        return ()
    return tuple(id for value in form.values() if isinstance(value, str) for id in list_file_ids(value))


def build_waiting_write(keys: Keys, conversation: str, files: Iterable[WaitingFile]) -> list[Write]:
    fields = {f"{one.person}:{one.file.id}": one.model_dump_json() for one in files}
    return [HSet(build_waiting_files_key(keys, conversation), fields, ttl_ms=WAITING_MS)] if fields else []


def build_file_writes(keys: Keys, run: Run, waiting: Mapping[str, str]) -> list[Write]:
    """See `bot.storage.file_keeper.FileKeeper`."""
    lane, card = run.message.place.conversation, run.requested_card
    held = list_card_files(card) if card and run.status is RunStatus.PAUSED else ()
    removed, changed = list[Write](), list[WaitingFile]()
    for one in _parse_own_files(run, waiting):
        owner = run.id if one.file.id in held else ""
        if one.file.id in run.used_files:
            removed.append(HDel(build_waiting_files_key(keys, lane), f"{one.person}:{one.file.id}"))
        elif one.run in ("", run.id) and one.run != owner:
            changed.append(one.model_copy(update={"run": owner}))
    return [*removed, *build_waiting_write(keys, lane, changed)]


def _parse_own_files(run: Run, waiting: Mapping[str, str]) -> list[WaitingFile]:
    """Parse the waiting files of the run's person, in the order of sending as far as the platform's ids show it."""
    found = list[WaitingFile]()
    for text in waiting.values():
        try:
            found.append(WaitingFile.model_validate_json(text))
        except ValidationError:  # of a newer version
            continue
    return [one for one in found if one.person == run.message.person]
