"""Shows the files of a request to those who decide on it, and deletes files when their time is over.

A file lies in a DM between its author and the bot, where nobody else can open it. So each approver gets a copy, under
their card in their own DM, and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from bot.chat.messages import Post
from bot.core import logs
from bot.core.errors import CountersignError
from bot.core.i18n import translate
from bot.core.work_items import NotifyPerson, ShowFiles
from bot.features.contract import Core
from bot.features.files.file_store import DAY_MS, FileStore
from bot.queue.lanes import LaneItem, Lease
from bot.queue.writes import EnqueueItem, Write
from tools.cards.fields import describe_files
from tools.languages import choose_words
from tools.spec import TextRef

log = logs.get_logger(__name__)

UNUSED_DAYS = 30
"""Days for which a file on no request is kept."""
PAUSE_S = 3_600.0
ORPHAN_S = 3_600.0
"""Age at which bytes without a record are deleted (s); the record of younger bytes may be on its way."""


async def show_files(core: Core, files: FileStore, lease: Lease, work: ShowFiles) -> Sequence[Write]:
    """Post the files under the card, in its reader's DM. Under a card in any other place, nothing is posted."""
    caller = await core.platform.directory.find_caller(work.person)
    direct = await core.platform.chat.open_dm(work.person) if caller else None
    if caller is None or direct is None or direct.channel != work.card.channel:
        return []
    found = [(one, await files.load_content(one.sha256)) for one in work.files]
    there = [(one.name, content) for one, content in found if content is not None]
    deleted, language = [one for one, content in found if content is None], caller.person.language
    comment = translate("file.attached", language, request=_get_request(work))
    if deleted:
        comment += "\n" + translate("file.deleted", language, files=choose_words(describe_files(deleted), language))
    place = direct.model_copy(update={"thread": work.card.ts})
    key, again = f"files:{work.card.ts}", lease.item.is_redelivery
    if there:
        await core.platform.chat.upload_files(place, there, comment=comment, key=key, again=again)
    else:
        await core.platform.chat.post_message(place, Post(comment), key=key, again=again)
    about = {"person": work.person, "channel": direct.channel, "text": work.subject}
    return [core.stores.journal.build_record_write(lease.lane, "files.shown", **about)]


async def tell_reader(item: LaneItem, work: ShowFiles) -> Sequence[Write]:
    """Tell the reader of the card that they could not get its files."""
    text = TextRef(key="file.not_shown", params={"request": _get_request(work), "files": describe_files(work.files)})
    notice = NotifyPerson(person=work.person, text=text)
    return [EnqueueItem(f"notice:{work.person}", f"{item.id}:told", notice.model_dump_json())]


def _get_request(work: ShowFiles) -> str:
    return work.subject.rpartition("-")[0] or work.subject


@dataclass(frozen=True, slots=True)
class FileCleaner:
    """Deletes files whose time is over. Any number of processes may run this. While the store is paused, nothing is
    deleted: a restored store may not know which request a file belongs to."""

    core: Core
    files: FileStore

    async def delete_old_files(self) -> None:
        """Delete due files repeatedly until the process stops."""
        while True:
            try:
                if not self.core.stores.watch.is_paused:
                    await self.delete_due_files()
            except CountersignError as failed:
                log.warning("files.not_deleted", reason=str(failed))
            await asyncio.sleep(PAUSE_S)

    async def delete_due_files(self) -> int:
        """Delete files that are older than the setting, and files on no request that are older than `UNUSED_DAYS`.
        Returns their number."""
        now_ms, count = self.core.stores.clock.now_ms(), 0
        for member in await self.files.list_kept_before(now_ms - self.core.settings.files_days * DAY_MS):
            await self.files.delete_file(member)
            count += 1
        for member in await self.files.list_kept_before(now_ms - UNUSED_DAYS * DAY_MS, unused=True):
            person, _, id = member.partition(":")
            record = await self.files.find_record(person, id)
            if record is not None and await self.core.tool_services.engine.is_file_on_request(record.file.sha256):
                await self.files.note_used_file(member)
                continue
            await self.files.delete_file(member)
            count += 1
        return count + await self.files.delete_orphans(ORPHAN_S)
