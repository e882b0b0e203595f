"""All data kept about one person: their content, their place, and the commands that erase them.

Requests and their records are listed and never erased: their hashes name people, and without them nothing could be
verified. Counters of use stay as numbers under a pseudonym."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from pydantic import ValidationError
from redis.asyncio import Redis

from bot.core.errors import UnreadableRecordError
from bot.core.records import Approval
from bot.ops.backup import stream_key_pages
from bot.queue.keys import Keys, split_stored_item
from bot.storage.approvals import ApprovalStore
from bot.storage.dead_letters import find_work_person
from bot.storage.history import TAB
from bot.storage.journal import Journal
from bot.storage.runs import RunStore
from tools.workflow.engine.port import Engine
from tools.workflow.engine.state import Request
from tools.workflow.engine.store import RedisStore

Command = tuple[str, ...]
KEPT_LISTS = ("mine", "told", "todo", "done", "decided_for")
"""Lists of a person in the embedded engine."""
RUN_KINDS = frozenset({"step", "run.finished", "run.stopped", "run.cancelled"})
"""Kinds of journal records whose person wrote the message."""
_KEY = re.compile(r"\{(q\d\d|people|files|sent)\}:(.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonalRecord:
    """One thing that is kept about a person."""

    kind: str
    """The kind: `run`, `card`, `history`, `calls`, `journal`, `file`, `request`, `item` …"""
    data: Any
    """The content as JSON."""
    erase: Sequence[Command] = ()
    """The commands that erase it; none if it is kept."""
    file: tuple[str, str] | None = None
    """The workspace, and the member by which its `FileStore.delete_file` knows the file; the bytes are deleted with
    it."""


@dataclass(slots=True)
class PersonalData:
    """The data kept about `person` (id). Every call may raise StoreUnavailableError."""

    redis: Redis
    keys: Keys
    person: str
    pseudonym: str = ""
    """The name under which counters stay."""
    other_engine: Engine | None = None
    """The engine that keeps the requests, if it is not the embedded one. Both are asked: it may have been changed."""
    _runs: set[str] = field(default_factory=set)
    """Ids of the runs that their messages began and that the journal names."""

    async def list_open_work(self) -> list[str]:
        """List open work that waits for them, or theirs that waits for others: tasks, requests, cards, and items in a
        lane."""
        store = RedisStore(self.redis)
        tasks = [name for name, _ in await store.list_members("todo", self.person)]
        own = await store.load_requests([name for name, _ in await store.list_members("mine", self.person)])
        if self.other_engine:
            todo = await self.other_engine.list_todo_tasks(self.person, datetime.now(UTC))
            tasks += [one.task.id for one in todo.tasks]
            own = (*own, *await self.other_engine.list_own_requests(self.person))
        cards = await ApprovalStore(self.redis, self.keys).list_open_approvals()
        return [
            *tasks,
            *(one.id for one in own if one.is_running),
            *(one.id for one in cards if self._is_concerned(one)),
            *[f"item {one.data['id']}" async for one in self.stream_records() if one.kind == "item"],
        ]

    async def stream_records(self) -> AsyncIterator[PersonalRecord]:
        """Yield every record once. One key at a time is in memory."""
        async for line in Journal(self.redis, self.keys).stream_records(kinds=RUN_KINDS, person=self.person):
            self._runs.add(line.run)
        self._runs.discard("")
        async for record in self._stream_journal():
            yield record
        async for record in self._stream_requests():
            yield record
        for kind, list_records in ((None, self._list_records), ("hash", self._list_fields)):
            seen: set[str] = set()
            async for page in stream_key_pages(self.redis, self.keys, kind):
                for key in page:
                    found = _KEY.fullmatch(key.removeprefix(f"{self.keys.prefix}:"))
                    if found is None or key in seen:
                        continue
                    for record in await list_records(key, found[1], found[2]):
                        seen.add(key)
                        yield record

    async def erase_records(self, delete_file: Callable[[str, str], Awaitable[None]]) -> Counter[str]:
        """Erase all data that may be erased. Returns the number of each kind; kept data count as `kept <kind>`."""
        counts: Counter[str] = Counter()
        async for record in self.stream_records():
            if record.file:
                await delete_file(*record.file)
            for command in record.erase:
                await cast("Awaitable[Any]", self.redis.execute_command(*command))  # type: ignore[no-untyped-call]
            counts[record.kind if record.erase or record.file else f"kept {record.kind}"] += 1
        return counts

    async def _stream_journal(self) -> AsyncIterator[PersonalRecord]:
        for partition in range(self.keys.partitions):
            key, start = self.keys.build_key(partition, "j"), "-"
            while True:
                entries: Any = await self.redis.xrange(key, start, "+", count=500)
                for id, fields in entries:
                    if fields.get("who") == self.person:
                        yield PersonalRecord(kind="journal", data={"id": id, **fields}, erase=[("XDEL", key, str(id))])
                if len(entries) < 500:
                    break
                start = f"({entries[-1][0]}"

    async def _stream_requests(self) -> AsyncIterator[PersonalRecord]:
        store = RedisStore(self.redis)
        names: dict[str, list[str]] = {}
        for name in KEPT_LISTS:
            for member, _ in await store.list_members(name, self.person):
                request = member if name in ("mine", "told") else member.rpartition("-")[0]
                names.setdefault(request, []).append(f"{name} {member}")
        for request, why in names.items():
            events = [json.loads(one) for one in await store.load_events(request)]
            yield _build_request_record(request, why, await store.load_request(request), events)
        if engine := self.other_engine:
            todo = await engine.list_todo_tasks(self.person, datetime.now(UTC))
            found_there: list[tuple[str, Request]] = [
                *((f"mine {one.id}", one) for one in await engine.list_own_requests(self.person)),
                *((f"told {one.id}", one) for one in await engine.list_cc_requests(self.person)),
                *((f"todo {one.task.id}", one.request) for one in todo.tasks),
                *((f"done {one.task.id}", one.request) for one in await engine.list_decided_tasks(self.person)),
            ]
            for one in {request.id: request for _, request in found_there}.values():
                events = [event.model_dump(mode="json") for event in await engine.list_events(one.id)]
                reasons = [why for why, request in found_there if request.id == one.id]
                yield _build_request_record(one.id, reasons, one, events)
        for delegation in (
            *await store.list_delegations_from(self.person),
            *await store.list_delegations_to(self.person),
        ):
            yield PersonalRecord(kind="delegation", data=delegation.model_dump(mode="json"))

    async def _list_records(self, key: str, tag: str, rest: str) -> list[PersonalRecord]:
        """List the records that a key holds about the person."""
        name, _, about = rest.partition(":")
        if tag == "people":  # their preferences, and Slack's data about them
            kind = rest.rpartition(":")[2]
            if kind not in ("preferences", "members"):
                return []
            stored: Any = await self.redis.hget(key, self.person)
            erase: list[Command] = [("HDEL", key, self.person)]
            if kind == "preferences":
                erase.append(("INCR", f"{key}_version"))
            return [PersonalRecord(kind=kind, data=_read_json(str(stored)), erase=erase)] if stored else []
        if tag == "sent":  # cards with buttons on Feishu
            is_card = rest.partition(":")[2].startswith("card:")
            shown: Any = await self.redis.get(key) if is_card else None
            card = PersonalRecord(kind="sent_card", data=_read_json(str(shown)), erase=[("DEL", key)])
            return [card] if shown and self.person in shown else []
        if tag == "files" and f":day:{self.person}:" in rest:
            sizes = await self.redis.hgetall(key)
            return [PersonalRecord(kind="files", data={"key": key, "value": sizes}, erase=[("DEL", key)])]
        if tag == "files":
            team, _, member = rest.partition(":file:")
            if not member.startswith(f"{self.person}:"):
                return []
            text = await self.redis.get(key)
            is_unused = await self.redis.zscore(f"{self.keys.prefix}:{{files}}:{team}:unused", member) is not None
            # A file that may be on a request is kept with it, as long as `FILES_DAYS` says.
            return [PersonalRecord(kind="file", data=_read_json(str(text)), file=(team, member) if is_unused else None)]
        if about.split(":", 1)[0] == self.person:
            value = await self.redis.get(key)
            return [PersonalRecord(kind=name, data={"key": key, "value": value}, erase=[("DEL", key)])]
        read = {
            "run": self._list_runs,
            "apr": self._list_cards,
            "in": self._list_items,
            "dead": self._list_dead_letters,
            "h": self._list_entries,
            "calls": self._list_entries,
        }.get(name)
        return await read(key, name, about) if read else []

    async def _list_runs(self, key: str, name: str, id: str) -> list[PersonalRecord]:
        run = await RunStore(self.redis, self.keys).load_run(id) if ":" not in id else None
        if run is None or run.message.person != self.person:
            return []
        erase = [("DEL", one) for one in (key, f"{key}:m", f"{key}:k")]
        return [PersonalRecord(kind="run", data=run.model_dump(mode="json"), erase=erase)]

    async def _list_cards(self, key: str, name: str, id: str) -> list[PersonalRecord]:
        """List cards. Cards about the person's own matters are erased; cards that they decided for others belong to
        those people and stay for 30 days."""
        try:
            approval = await ApprovalStore(self.redis, self.keys).load_approval(id)
        except (UnreadableRecordError, ValidationError):
            return []
        if approval is None or not self._is_concerned(approval):
            return []
        is_own = self.person in (approval.caller, approval.proposal.requester)
        erase = [("DEL", key)] if is_own else []
        return [PersonalRecord(kind="card", data=approval.model_dump(mode="json"), erase=erase)]

    async def _list_items(self, key: str, name: str, lane: str) -> list[PersonalRecord]:
        """List items that the person wrote or pressed, or that are for them, while these wait to be handled."""
        items = [split_stored_item(str(one)) for one in await self.redis.lrange(key, 0, -1)]
        return [
            PersonalRecord(kind="item", data={"lane": lane, "id": id, "body": _read_json(body)})
            for id, body in items
            if find_work_person(body) == self.person
        ]

    async def _list_dead_letters(self, key: str, name: str, about: str) -> list[PersonalRecord]:
        """List dead letters: given-up items that the person wrote or pressed, or that are for them."""
        if about:  # the mark of a letter that was retried
            return []
        letters: Any = await self.redis.xrange(key)
        return [
            PersonalRecord(kind="dead letter", data={"at": at, **fields}, erase=[("XDEL", key, at)])
            for at, fields in letters
            if find_work_person(fields["body"]) == self.person
        ]

    def _is_concerned(self, approval: Approval) -> bool:
        named = {approval.caller, approval.decided_by, approval.proposal.requester, *approval.proposal.deciders}
        return self.person in named or self.person in dict(approval.copies)

    async def _list_entries(self, key: str, name: str, conversation: str) -> list[PersonalRecord]:
        """List entries of a conversation's history: all of the person's DM, in others those of runs that their messages
        began."""
        values = [str(one) for one in await self.redis.lrange(key, 0, -1)]
        runs = [(value.partition("|")[2] if name == "h" else value).split(TAB, 1)[0] for value in values]
        # The key of every other conversation names a thread, too.
        is_direct = conversation.count(":") == 2 and not self._runs.isdisjoint(runs)
        kind = "history" if name == "h" else "calls"
        return [
            PersonalRecord(
                kind=kind,
                data={"conversation": conversation, "entry": value.rpartition(TAB)[2]},
                erase=[("LREM", key, "0", value)],
            )
            for value, run in zip(values, runs, strict=True)
            if is_direct or run in self._runs
        ]

    async def _list_fields(self, key: str, tag: str, rest: str) -> list[PersonalRecord]:
        """List the fields of a hash of a partition that begin with the person."""
        found, name = list[PersonalRecord](), rest.partition(":")[0]
        if tag in ("people", "files", "sent") or name == "apr":
            return found
        fields: Mapping[str, str] = await self.redis.hgetall(key)  # type: ignore[assignment]
        for one, text in fields.items():
            if one != self.person and not one.startswith((f"{self.person}:", f"{self.person}{TAB}")):
                continue
            erase: list[Command] = [("HDEL", key, one)]
            if name == "spent":
                erase.insert(0, ("HINCRBY", key, self.pseudonym + one.removeprefix(self.person), text))
            found.append(PersonalRecord(kind=name, data={"key": key, "field": one, "value": text}, erase=erase))
        return found


def _build_request_record(id: str, why: list[str], request: Request | None, events: list[Any]) -> PersonalRecord:
    shown = request.model_dump(mode="json") if request else None
    return PersonalRecord(kind="request", data={"id": id, "why": why, "request": shown, "events": events})


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
