"""Takes the files of a message or a dialog: fetches them, finds their type from the content, and stores them by hash.

A taken file is known by its id from then on. The person is told the name of any other. A file that is taken twice is
stored once: the platform's id names the record, and the hash names the bytes.

Between a message and the request that they belong to, files wait in a hash of the conversation, `<person>:<id>` →
`WaitingFile` as JSON, for a week."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from bot.chat.messages import Message, SentFile
from bot.core import logs
from bot.core.errors import ChatUnavailableError, FileRefusedError, FilesUnavailableError, FilesUnreachableError
from bot.core.i18n import translate
from bot.core.records import OpenCard, Run, RunStatus
from bot.features.contract import Core
from bot.features.files.file_store import FileRecord, FileStore, describe_sent_file
from bot.features.files.media import fit_file_name, judge_file
from bot.features.files.picture_reader import read_picture
from bot.queue.lanes import Lease
from bot.queue.writes import HDel, HSet, Write
from bot.storage.file_keeper import FileKeeper, TakenFiles
from bot.storage.runs import build_waiting_files_key
from tools.cards.fields import describe_files
from tools.languages import LANGUAGES, choose_words
from tools.requests.processes import RESUBMIT_REQUEST, START_PROCESS
from tools.spec import AttachedFile, StoredModel
from tools.workflow.process.forms import list_file_ids

log = logs.get_logger(__name__)

MAX_SENT = 20
"""Most files that are fetched for one message; the person is told about the others."""
AT_ONCE = 3
"""Most simultaneous downloads for one message."""
WAITING_MS = 7 * 24 * 3_600_000
REQUESTING = frozenset({START_PROCESS.name, RESUBMIT_REQUEST.name})
"""The tools whose cards put files on a request."""


class WaitingFile(StoredModel):
    """A file that was sent in a conversation and is on no request yet."""

    file: AttachedFile
    person: str
    run: str = ""
    """The run whose card has the file; the file is free again if that card is not confirmed."""


@dataclass(frozen=True, slots=True)
class FileIntake(FileKeeper):
    core: Core
    files: FileStore
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2 * AT_ONCE))
    """Limits the simultaneous downloads of this process, because each may fill the memory up to the size limit."""

    async def announce_files(self, person: str, files: Sequence[SentFile]) -> None:
        await self.files.announce_files(person, files)

    async def find_files(self, person: str, ids: Sequence[str]) -> Mapping[str, AttachedFile]:
        return await self.files.find_files(person, ids)

    async def take_message_files(self, lease: Lease, message: Message) -> TakenFiles:
        taken = await self._take_files(lease, message.person, message.files)
        kept = [WaitingFile(file=one.file, person=message.person) for one in taken if not one.refused]
        if kept:
            await lease.checkpoint("files", *self._build_waiting_writes(message.place.conversation, kept))
        return sum_up_files(taken)

    async def take_chosen_files(self, lease: Lease, person: str, ids: Sequence[str]) -> TakenFiles:
        """Take the files that this person has chosen in a dialog and that are not fetched yet. Only the person's own
        files are taken, because the ids come from their client and the bot sees more files than they do."""
        records = [await self.files.find_record(person, id) for id in ids]
        chosen = [one for one in records if one is not None and not one.file.sha256]
        sent = [SentFile(id=one.file.id, name=one.file.name, size=one.file.size) for one in chosen]
        return sum_up_files(await self._take_files(lease, person, sent, only_from=person) if sent else [])

    def list_usable_files(self, run: Run, waiting: Mapping[str, str]) -> tuple[AttachedFile, ...]:
        return tuple(
            one.file
            for one in _parse_own_files(run, waiting)
            if one.run in ("", run.id) and one.file.id not in run.used_files
        )

    def note_used_files(self, run: Run) -> None:
        if run.requested_card is not None:
            run.used_files = tuple(dict.fromkeys([*run.used_files, *_list_card_files(run.requested_card)]))

    def build_file_writes(self, run: Run, waiting: Mapping[str, str]) -> Sequence[Write]:
        lane, card = run.message.place.conversation, run.requested_card
        held = _list_card_files(card) if card and run.status is RunStatus.PAUSED else ()
        removed, changed = list[Write](), list[WaitingFile]()
        for one in _parse_own_files(run, waiting):
            owner = run.id if one.file.id in held else ""
            if one.file.id in run.used_files:
                removed.append(HDel(build_waiting_files_key(self.files.keys, lane), f"{one.person}:{one.file.id}"))
            elif one.run in ("", run.id) and one.run != owner:
                changed.append(one.model_copy(update={"run": owner}))
        return [*removed, *self._build_waiting_writes(lane, changed)]

    def _build_waiting_writes(self, conversation: str, files: Iterable[WaitingFile]) -> list[Write]:
        fields = {f"{one.person}:{one.file.id}": one.model_dump_json() for one in files}
        key = build_waiting_files_key(self.files.keys, conversation)
        return [HSet(key, fields, ttl_ms=WAITING_MS)] if fields else []

    async def _take_files(
        self, lease: Lease, person: str, sent: Sequence[SentFile], only_from: str = ""
    ) -> list[FileRecord]:
        """Take the files, and return their outcomes in order. `only_from`: as for `FileSource.fetch_file`. Raises
        `ChatUnavailableError` or `FilesUnreachableError` while the platform or the store of files cannot be reached."""
        core = self.core
        age_ms = core.stores.clock.now_ms() - lease.item.put_ms if lease.item.put_ms else 0
        at_once, is_last_try = asyncio.Semaphore(AT_ONCE), age_ms > core.timing.file_patience_s * 1000

        async def take(number: int, one: SentFile) -> FileRecord:
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

    async def _take_file(
        self, person: str, sent: SentFile, number: int, only_from: str, *, is_last_try: bool
    ) -> FileRecord:
        core, file = self.core, describe_sent_file(sent)
        if number >= MAX_SENT:
            return await self._refuse_file(person, file, "too_many")
        known = await self.files.find_record(person, sent.id) if sent.id else None
        if known is not None and (known.file.sha256 or known.refused):
            return known
        try:
            async with self.turns:
                fetched = await core.platform.file_source.fetch_file(
                    sent, int(core.settings.files_mb * 1_000_000), only_from
                )
                content = fetched.content
                if not content:
                    raise FileRefusedError("empty")
                media = await asyncio.to_thread(judge_file, content)
                named, now_ms = fit_file_name(file.name, media), core.stores.clock.now_ms()
                most = int(core.settings.files_mb_per_day * 1_000_000)
                if not await self.files.count_file(person, file.id, len(content), most, now_ms):
                    raise FileRefusedError("too_much_today")
                reading, unread = dict[str, str](), ""
                if core.model.has_vision:
                    await self.files.save_content(content)  # while the store is away, nobody pays for readings
                    reading, unread = await read_picture(core, person, content, media)
                if fetched.uploader not in ("", person):  # every card that shows the file names its owner
                    owner = await core.platform.directory.find_person(fetched.uploader)
                    stem, dot, ending = named.rpartition(".")
                    by = owner.name if owner else fetched.uploader
                    named = f"{stem or ending} ({by}){dot}{ending if stem else ''}"
                taken = file.model_copy(update={"name": named, "media": media, "reading": reading})
                kept = await self.files.keep_file(person, taken, content, now_ms, unread=unread)
                return FileRecord(file=kept, unread=unread)
        except FileRefusedError as refused:
            return await self._refuse_file(person, file, refused.reason)
        except ChatUnavailableError:
            if not is_last_try:
                raise
            return FileRecord(file=file, refused="unreachable")
        except FilesUnavailableError as failed:
            if isinstance(failed, FilesUnreachableError) and not is_last_try:
                raise
            log.error("a file cannot be kept", reason=str(failed))
            return FileRecord(file=file, refused="not_kept")

    async def _refuse_file(self, person: str, file: AttachedFile, reason: str) -> FileRecord:
        if file.id:
            await self.files.refuse_file(person, file, reason)
        return FileRecord(file=file, refused=reason)


def sum_up_files(taken: Sequence[FileRecord]) -> TakenFiles:
    """Name the refused files and those that no model has read, with the reasons."""
    refused, unread = dict[str, list[AttachedFile]](), dict[str, list[AttachedFile]]()
    for one in taken:
        if one.refused:
            refused.setdefault(one.refused, []).append(one.file)
        elif one.unread:
            unread.setdefault(one.unread, []).append(one.file)
    refusals, troubles = dict[str, str](), dict[str, str]()
    for language in LANGUAGES:
        comma, lines = translate("card.comma", language), list[str]()
        for reason, files in refused.items():
            names, why = comma.join(file.name for file in files), translate(f"file.{reason}", language)
            lines.append(translate("file.line", language, names=names, why=why))
        if lines:
            lines.insert(0, translate("file.refused", language))
            refusals[language] = translate("file.not_pressed", language, files="\n".join(lines))
        for reason, files in unread.items():
            lines.append(
                translate(f"file.unread_{reason}", language, files=choose_words(describe_files(files), language))
            )
        if lines:
            troubles[language] = "\n".join(lines)
    return TakenFiles(
        kept=tuple(one.file for one in taken if not one.refused),
        refused=tuple(one.file.id for one in taken if one.refused),
        refusals=refusals,
        troubles=troubles,
    )


def _list_card_files(card: OpenCard) -> tuple[str, ...]:
    form = card.proposal.args.get("form")
    if card.tool not in REQUESTING or not isinstance(form, dict):
        return ()
    return tuple(id for value in form.values() if isinstance(value, str) for id in list_file_ids(value))


def _parse_own_files(run: Run, waiting: Mapping[str, str]) -> list[WaitingFile]:
    """Parse the waiting files of the run's person, in the order of sending as far as the platform's ids show it."""
    found = list[WaitingFile]()
    for text in waiting.values():
        try:
            found.append(WaitingFile.model_validate_json(text))
        except ValidationError:  # of a newer version
            continue
    return [one for one in found if one.person == run.message.person]
