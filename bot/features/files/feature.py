"""Builds the feature of this folder."""

from __future__ import annotations

from functools import partial

from bot.core.work_items import ShowFiles
from bot.features.contract import Core, Feature, Work
from bot.features.files.file_bytes import FileBytes, open_file_bytes
from bot.features.files.file_copies import FileCleaner, show_files, tell_reader
from bot.features.files.file_intake import FileIntake
from bot.features.files.file_store import FileStore
from bot.features.files.same_files import notify_of_same_files

JOURNAL_KINDS = ("files.shown",)


def build(core: Core, file_bytes: FileBytes | None = None) -> Feature:
    """Build the feature. `file_bytes`: the store of the bytes; otherwise the one in the settings. Raises
    `SettingsError`."""
    if file_bytes is None:
        file_bytes = open_file_bytes(core.settings)
        core.on_close(file_bytes.close)
    files = FileStore(core.stores.redis, core.stores.keys, core.platform.team, file_bytes)
    return Feature(
        work=(Work(model=ShowFiles, handle=partial(show_files, core, files), give_up=tell_reader),),
        files=FileIntake(core, files),
        follow_event=partial(notify_of_same_files, core),
        jobs=(FileCleaner(core, files).delete_old_files,),
    )
