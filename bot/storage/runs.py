"""Runs: a short record and an append-only list of messages, so a step writes only new data. A run that waits or has
ended is one packed value; most runs of an installation are."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline

from bot.chat.messages import Message
from bot.core.history_entries import PausedRun
from bot.core.records import CardSummary, Run, RunStatus
from bot.queue.keys import Keys
from bot.queue.writes import Delete, HDel, HSet, RPush, Set, Write
from bot.storage.history import ConversationHistory, HistoryStore

RETENTION_MS = 7 * 24 * 3_600_000
"""Time for which a run and its messages are kept after the last change (ms)."""
PAUSED_RETENTION_MS = 60 * 24 * 3_600_000
"""Time for which a paused run is kept (ms): longer than every approval that it can wait for."""
_PACKED = "z:"
_SINCE_THE_FIRST = ("changed_message", "change_notices")
"""Fields that a process of the previous version does not know, written only if they have a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationState:
    """Everything a conversation knows when its next item is handled."""

    run: Run | None
    waiting: tuple[PausedRun, ...]
    history: ConversationHistory
    waiting_files: Mapping[str, str] = field(default_factory=dict)
    """Files that were sent in it and are on no request yet, as stored: see `bot.features.files`."""


@dataclass(frozen=True, slots=True)
class RunStore:
    redis: Redis
    keys: Keys
    kept_ms: int = RETENTION_MS
    """Time for which a run is kept after its end (ms)."""

    def _build_run_key(self, run: str, *more: str) -> str:
        """Build the key of the record; with `m`, of the messages while it runs; with `k`, of the details that its
        endpoint may want back."""
        return self.keys.build_key(self.keys.get_partition(run), "run", run, *more)

    def _build_paused_key(self, conversation: str) -> str:
        return self.keys.build_key(self.keys.get_partition(conversation), "paused", conversation)

    async def load_run(self, run: str) -> Run | None:
        async with self.redis.pipeline(transaction=True) as pipe:
            self._queue_run_reads(pipe, run)
            return _parse_run(*await pipe.execute())

    def _queue_run_reads(self, pipe: Pipeline, run: str) -> None:
        pipe.get(self._build_run_key(run))
        pipe.lrange(self._build_run_key(run, "m"), 0, -1)
        pipe.lrange(self._build_run_key(run, "k"), 0, -1)

    async def load_conversation(self, conversation: str, history: HistoryStore, run: str = "") -> ConversationState:
        """Load history, paused runs and the run to resume, if any, in one round trip. Raises StoreUnavailableError."""
        async with self.redis.pipeline(transaction=False) as all_of_it:
            history.queue_reads(all_of_it, conversation)
            all_of_it.hgetall(self._build_paused_key(conversation))
            all_of_it.hgetall(build_waiting_files_key(self.keys, conversation))
            if run:
                self._queue_run_reads(all_of_it, run)
            entries, calls, waiting, files, *stored_run = await all_of_it.execute()
        return ConversationState(
            run=_parse_run(*stored_run) if run else None,
            waiting=tuple(_parse_paused_run(id, *about.split(" ", 4)) for id, about in waiting.items()),
            history=history.parse_reads(entries, calls),
            waiting_files=files,
        )

    def build_save_writes(self, run: Run) -> tuple[Write, ...]:
        """Build the writes of a run. While it runs, these are the record and the messages that Redis does not have yet;
        otherwise everything as one value."""
        unset = {name: True for name in _SINCE_THE_FIRST if not getattr(run, name)}
        record = run.model_dump_json(exclude={"state": {"messages"}, **unset})
        if run.status is RunStatus.RUNNING:
            fresh = run.state.messages[run.stored_messages :]
            messages = (RPush(self._build_run_key(run.id, "m"), fresh, ttl_ms=self.kept_ms),) if fresh else ()
            new_details = [f"{n} {text}" for n, text in run.state.provider_details.items() if n >= run.stored_messages]
            details_writes = (
                (RPush(self._build_run_key(run.id, "k"), new_details, ttl_ms=self.kept_ms),) if new_details else ()
            )
            return (Set(self._build_run_key(run.id), record, ttl_ms=self.kept_ms), *messages, *details_writes)
        is_paused, details = run.status is RunStatus.PAUSED, run.state.provider_details
        # The endpoint may want the details back. They come after everything that an earlier version reads.
        replayed = f',"provider_details":{json.dumps(details)}' if is_paused and details else ""
        whole = f'{{"record":{record},"messages":[{",".join(run.state.messages)}]{replayed}}}'
        packed_run = _PACKED + base64.b64encode(zlib.compress(whole.encode())).decode()  # Redis has only text
        ttl = PAUSED_RETENTION_MS if is_paused else self.kept_ms
        deletes = [Delete(self._build_run_key(run.id, one)) for one in (("m", "k") if details else ("m",))]
        conversation, call = run.message.place.conversation, run.awaiting_call
        paused_write: Write = self.build_remove_paused_write(conversation, run.id)
        if is_paused and call is not None:
            # The readers of a channel may not know the card's text.
            shown = run.card_summary if run.message.place.direct else None
            paused_write = self.build_add_paused_write(
                conversation, run.id, call.approval, call.tool, run.message.person, shown
            )
        return (Set(self._build_run_key(run.id), packed_run, ttl_ms=ttl), *deletes, paused_write)

    def build_add_paused_write(
        self, conversation: str, run: str, approval: str, tool: str, person: str, shown: CardSummary | None = None
    ) -> Write:
        """Build the write that records in a conversation that a run waits for a button. `shown`: the part of its card
        that the conversation may know."""
        about = f"{approval} {tool} {person}" + (f" {shown.made_ms} {shown.text}" if shown else "")
        return HSet(self._build_paused_key(conversation), {run: about}, ttl_ms=PAUSED_RETENTION_MS)

    def build_remove_paused_write(self, conversation: str, run: str) -> Write:
        """Build the write that records that the run no longer waits."""
        return HDel(self._build_paused_key(conversation), run)


def build_waiting_files_key(keys: Keys, conversation: str) -> str:
    return keys.build_key(keys.get_partition(conversation), "files", conversation)


def derive_run_id(keys: Keys, message: Message) -> str:
    """Derive the id of the run that a message begins: always the same for the same message."""
    return keys.derive_id("R", keys.get_partition(message.place.conversation), message.id)


def _parse_paused_run(
    run: str, approval: str, tool: str, person: str = "", made_ms: str = "0", text: str = ""
) -> PausedRun:
    return PausedRun(run=run, approval=approval, tool=tool, person=person, made_ms=int(made_ms), text=text)


def _parse_run(record: str | None, messages: Sequence[str], details: Sequence[str]) -> Run | None:
    if record is None:
        return None
    if not record.startswith(_PACKED):
        run = Run.model_validate_json(record)
        run.state.messages, run.stored_messages = list(messages), len(messages)
        run.state.provider_details = {int(n): text for n, _, text in (one.partition(" ") for one in details)}
        return run
    whole: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(record[len(_PACKED) :])))
    run = Run.model_validate(whole["record"])
    run.state.messages = [json.dumps(one, ensure_ascii=False) for one in whole["messages"]]
    run.state.provider_details = {int(n): text for n, text in whole.get("provider_details", {}).items()}
    return run
