"""Takes the files of a message or a dialog: fetches them, finds their type from the content, and stores them by hash.

A taken file is known by its id from then on. The person is told the name of any other. A file that is taken twice is
stored once: the platform's id names the record, and the hash names the bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bot.agent.limits import DailyBudget
from bot.agent.picture_reader import ReceiptReader
from bot.agent.prices import PriceTable
from bot.chat.messages import ChatDirectory, FileSource, Message, SentFile
from bot.conversation.budgets import is_budget_used_up
from bot.core import logs
from bot.core.clock import Clock
from bot.core.errors import (
    ChatError,
    ChatUnavailableError,
    FileRefusedError,
    FilesUnavailableError,
    FilesUnreachableError,
)
from bot.core.i18n import translate
from bot.core.media import PICTURES, fit_file_name, judge_file
from bot.queue.lanes import Lease
from bot.storage.files import FileStore, WaitingFile, build_waiting_write, describe_sent_file
from bot.storage.spending import UsageStore
from tools.cards.files import describe_files
from tools.spec import AttachedFile, Caller

log = logs.get_logger(__name__)

MAX_SENT = 20
"""Most files that are fetched for one message; the person is told about the others."""
AT_ONCE = 3
"""Most simultaneous downloads for one message."""
PATIENCE_MS = 60_000
"""Longest wait of a message (ms) for a file that the platform does not deliver or the store does not accept."""


class PictureReader(Protocol):
    """Reads amount, date and merchant from a picture."""

    async def read_picture(self, person: str, content: bytes, media: str) -> tuple[dict[str, str], str]:
        """Return the values read, by name, and the reason why the model was not asked (`file.unread_<reason>`). The
        values are empty if the file is no picture, or nothing can be read."""


@dataclass(frozen=True, slots=True)
class TakenFile:
    """The outcome for one file. `refused`: reason of the refusal, empty for a kept file. `unread`: reason why the model
    has not seen it."""

    file: AttachedFile
    refused: str = ""
    unread: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIntake:
    source: FileSource
    directory: ChatDirectory
    files: FileStore
    clock: Clock
    max_bytes: int
    max_bytes_per_day: int
    """Limit for all files that one person sends on a day."""
    patience_ms: int = PATIENCE_MS
    reader: PictureReader | None = None
    """Reads pictures; None if no model sees them."""
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2 * AT_ONCE))
    """Limits the simultaneous downloads of this process, because each may fill the memory up to the size limit."""

    async def find_message_files(self, message: Message) -> Message:
        """Return the message with its files. If the payload did not list the files, they are looked up."""
        if not message.has_unlisted_files:
            return message
        try:
            found = await self.source.list_message_files(message.place, message.at)
        except ChatUnavailableError:
            raise
        except ChatError as failed:
            log.warning("a message is not looked up", code=failed.code, channel=message.place.channel)
            found = ()
        return message.model_copy(update={"files": found, "has_unlisted_files": False})

    async def take_message_files(self, lease: Lease, message: Message) -> list[TakenFile]:
        """Take the files of a message. From then on they wait in the conversation for their request."""
        taken = await self._take_files(lease, message.person, message.files)
        kept = [WaitingFile(file=one.file, person=message.person) for one in taken if not one.refused]
        if kept:
            await lease.checkpoint("files", *build_waiting_write(self.files.keys, message.place.conversation, kept))
        return taken

    async def _take_files(
        self, lease: Lease, person: str, sent: Sequence[SentFile], only_from: str = ""
    ) -> list[TakenFile]:
        """Take the files, and return their outcomes in order. `only_from`: as for `FileSource.fetch_file`. Raises
        `ChatUnavailableError` or `FilesUnreachableError` while the platform or the store of files cannot be reached."""
        age_ms = self.clock.now_ms() - lease.item.put_ms if lease.item.put_ms else 0
        at_once, is_last_try = asyncio.Semaphore(AT_ONCE), age_ms > self.patience_ms

        async def take(number: int, one: SentFile) -> TakenFile:
            async with at_once:
                return await self._take_file(person, one, number, only_from, is_last_try=is_last_try)

        tasks = [asyncio.ensure_future(take(number, one)) for number, one in enumerate(sent)]
        try:
            taken = list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
        refused = [one.refused for one in taken if one.refused]
        log.info("files.taken", person=person, count=len(taken), refused=",".join(sorted(set(refused))))
        return taken

    async def take_named_files(self, lease: Lease, person: str, ids: Sequence[str]) -> list[TakenFile]:
        """Take the files that this person has chosen in a dialog and that are not fetched yet. Only the person's own
        files are taken, because the ids come from their client and the bot sees more files than they do."""
        records = [await self.files.find_record(person, id) for id in ids]
        chosen = [one for one in records if one is not None and not one.file.sha256]
        sent = [SentFile(id=one.file.id, name=one.file.name, size=one.file.size) for one in chosen]
        return await self._take_files(lease, person, sent, only_from=person) if sent else []

    async def _take_file(
        self, person: str, sent: SentFile, number: int, only_from: str, *, is_last_try: bool
    ) -> TakenFile:
        file = describe_sent_file(sent)
        if number >= MAX_SENT:
            return await self._refuse_file(person, file, "too_many")
        known = await self.files.find_record(person, sent.id) if sent.id else None
        if known is not None and (known.file.sha256 or known.refused):
            return TakenFile(known.file, known.refused, known.unread)
        try:
            async with self.turns:
                fetched = await self.source.fetch_file(sent, self.max_bytes, only_from)
                content = fetched.content
                if not content:
                    raise FileRefusedError("empty")
                media = await asyncio.to_thread(judge_file, content)
                named, now_ms = fit_file_name(file.name, media), self.clock.now_ms()
                if not await self.files.count_file(person, file.id, len(content), self.max_bytes_per_day, now_ms):
                    raise FileRefusedError("too_much_today")
                if self.reader is not None:  # while the store is away, nobody pays for readings
                    await self.files.save_content(content)
                reading, unread = await self.reader.read_picture(person, content, media) if self.reader else ({}, "")
                if fetched.uploader not in ("", person):  # every card that shows the file names its owner
                    owner = await self.directory.find_person(fetched.uploader)
                    stem, dot, ending = named.rpartition(".")
                    by = owner.name if owner else fetched.uploader
                    named = f"{stem or ending} ({by}){dot}{ending if stem else ''}"
                taken = file.model_copy(update={"name": named, "media": media, "reading": reading})
                kept = await self.files.keep_file(person, taken, content, now_ms, unread=unread)
                return TakenFile(kept, unread=unread)
        except FileRefusedError as refused:
            return await self._refuse_file(person, file, refused.reason)
        except ChatUnavailableError:
            if not is_last_try:
                raise
            return TakenFile(file, "unreachable")
        except FilesUnavailableError as failed:
            if isinstance(failed, FilesUnreachableError) and not is_last_try:
                raise
            log.error("a file cannot be kept", reason=str(failed))
            return TakenFile(file, "not_kept")

    async def _refuse_file(self, person: str, file: AttachedFile, reason: str) -> TakenFile:
        if file.id:
            await self.files.refuse_file(person, file, reason)
        return TakenFile(file, reason)


async def take_chosen_files(intake: FileIntake, lease: Lease, caller: Caller, ids: Sequence[str]) -> str:
    """Fetch the files that a person has chosen in the dialog of a card. Returns a sentence about those that could not
    be taken."""
    taken = await intake.take_named_files(lease, caller.id, ids)
    refused = describe_refused_files(taken, caller.person.language)
    return translate("file.not_pressed", caller.person.language, files=refused) if refused else ""


def describe_refused_files(taken: Sequence[TakenFile], language: str) -> str:
    """Describe the refused files, by name, with the reasons; empty if there are none."""
    by_reason: dict[str, list[str]] = {}
    for one in taken:
        if one.refused:
            by_reason.setdefault(one.refused, []).append(one.file.name)
    comma = translate("card.comma", language)
    lines = [
        translate("file.line", language, names=comma.join(names), why=translate(f"file.{reason}", language))
        for reason, names in by_reason.items()
    ]
    return "\n".join([translate("file.refused", language), *lines]) if lines else ""


def describe_file_troubles(taken: Sequence[TakenFile], language: str) -> str:
    """Describe the files that were refused or not read; empty if there are none."""
    by_reason: dict[str, list[AttachedFile]] = {}
    for one in taken:
        if one.unread:  # a picture that was kept
            by_reason.setdefault(one.unread, []).append(one.file)
    unread = [
        translate(f"file.unread_{reason}", language, files=describe_files(files)[language])
        for reason, files in by_reason.items()
    ]
    return "\n".join(filter(None, [describe_refused_files(taken, language), *unread]))


def describe_kept_files(files: Sequence[AttachedFile], language: str) -> str:
    """Describe files that are kept and on no request yet; empty if there are none."""
    return translate("file.kept", language, files=describe_files(files)[language]) if files else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureReading:
    """Implements `bot.conversation.file_intake.PictureReader`."""

    reader: ReceiptReader
    spending: UsageStore
    prices: PriceTable = field(default_factory=PriceTable)
    budget: DailyBudget = field(default_factory=DailyBudget)

    async def read_picture(self, person: str, content: bytes, media: str) -> tuple[dict[str, str], str]:
        """Read a picture. Pictures that are read at the same time may each exceed the budget by one reading."""
        if media not in PICTURES:
            return {}, ""
        if await is_budget_used_up(self.budget, self.spending, person, self.prices.currency):
            return {}, "budget"
        reading, replies = await self.reader.read_picture(content, media)
        if replies:
            await self.spending.record_usage(person, [self.prices.compute_usage(reply) for reply in replies])
        return reading, ""
