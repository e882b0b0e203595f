"""Retries dead letters. The script that sets a letter's mark also enqueues the item and writes the journal. So a letter
comes back once, even if several administrators press Enter at once."""

from __future__ import annotations

import json
import secrets
from contextlib import suppress
from dataclasses import replace
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from bot.core.records import RunStatus
from bot.core.work_items import ButtonPressed, MessageReceived, ResumeRun
from bot.queue.writes import EnqueueItem, Set, Write, apply_writes
from bot.storage.dead_letters import RETENTION_MS, DeadLetter, DeadLetterStore
from bot.storage.journal import Journal, parse_stream_id
from bot.storage.runs import RunStore

_OF_PEOPLE: TypeAdapter[MessageReceived | ButtonPressed | ResumeRun] = TypeAdapter(
    Annotated[MessageReceived | ButtonPressed | ResumeRun, Field(discriminator="kind")]
)
"""Kinds of work whose letters are parsed; a letter of any other kind is enqueued again unchanged."""
MARK_TIMEOUT_MS = 60_000
"""Time (ms) for which a process that set the mark and died before finishing blocks a letter."""


async def find_dead_letter(letters: DeadLetterStore, id: str) -> DeadLetter | None:
    """Find the newest letter with an item's id; a waiting letter comes before a retried one. Raises
    StoreUnavailableError."""
    found = [letter for letter in await letters.load_all_letters() if letter.item.id == id]
    return max(found, key=lambda letter: (not letter.retried_as, parse_stream_id(letter.at)), default=None)


async def retry_dead_letter(letters: DeadLetterStore, letter: DeadLetter, by: str) -> DeadLetter | None:
    """Enqueue the item at the end of its lane, once; None if somebody else has just done so. A message starts a new
    run and a press is judged again, so nothing decided or begun before is repeated. A run that was stopped because
    of it continues. Raises StoreUnavailableError."""
    redis, keys, lane, mark = letters.redis, letters.keys, letter.item.lane, letters.build_mark_key(letter)
    mark_text = json.dumps([by, letter.retry_id, secrets.token_hex(8)], ensure_ascii=False)
    is_first = await redis.set(mark, mark_text, nx=True, px=MARK_TIMEOUT_MS) or await redis.get(mark) == mark_text
    if not is_first:
        return None
    journal_write = Journal(redis, keys).build_record_write(
        lane, "item.retried", person=letter.person, text=f"put back by {by}", item=letter.retry_id, was=letter.item.id
    )
    body, new_id = letter.item.body, {"id": letter.retry_id}
    work: MessageReceived | ButtonPressed | ResumeRun | None = None
    with suppress(ValidationError):  # a newer process may know unreadable work: it is enqueued unchanged
        work = _OF_PEOPLE.validate_json(body)
    if isinstance(work, MessageReceived):
        body = MessageReceived(message=work.message.model_copy(update=new_id)).model_dump_json()
    elif isinstance(work, ButtonPressed):
        body = ButtonPressed(click=work.click.model_copy(update=new_id)).model_dump_json()
    writes: list[Write] = [Set(mark, mark_text, RETENTION_MS), EnqueueItem(lane, letter.retry_id, body), journal_write]
    runs = RunStore(redis, keys)
    run = await runs.load_run(work.run) if isinstance(work, ResumeRun) else None
    if run is not None and run.status is RunStatus.STOPPED:  # the given-up *resume* had stopped it
        run.status = RunStatus.RUNNING
        writes += runs.build_save_writes(run)
    await apply_writes(redis, keys, keys.get_partition(lane), writes)
    return replace(letter, by=by, retried_as=letter.retry_id)
