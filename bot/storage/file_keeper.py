"""The files that people send, as the kernel sees them. The kernel keeps none and says so; a feature may keep them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bot.chat.messages import Message, SentFile
from bot.core.i18n import translate
from bot.core.records import Run
from bot.queue.lanes import Lease
from bot.queue.writes import Write
from tools.languages import LANGUAGES
from tools.spec import AttachedFile, ToolError


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenFiles:
    """The outcome for the files of a message or a dialog. Sentences stand by language; there are none if there is
    nothing to tell."""

    kept: tuple[AttachedFile, ...] = ()
    refused: tuple[str, ...] = ()
    """Ids of the refused files."""
    refusals: Mapping[str, str] = field(default_factory=dict)
    """The refused files with the reasons, for a press that therefore changes nothing."""
    troubles: Mapping[str, str] = field(default_factory=dict)
    """The refused files with the reasons, and the kept pictures that no model has read."""


class FileKeeper:
    """Keeps no file and says so. The feature that keeps files overrides all methods."""

    async def announce_files(self, person: str, files: Sequence[SentFile]) -> None:
        """Record files that somebody chose in a dialog: they may be named now, and are fetched later."""

    async def find_files(self, person: str, ids: Sequence[str]) -> Mapping[str, AttachedFile]:
        """See `tools.ports.AttachedFiles`. Raises `ToolError` if no files are kept."""
        if ids:
            raise ToolError("no_files", "no files are taken here: leave them out, and tell the person")
        return {}

    async def take_message_files(self, lease: Lease, message: Message) -> TakenFiles:
        """Take the files of a message. From then on they wait in the conversation for their request."""
        return await self.take_chosen_files(lease, message.person, [one.id for one in message.files])

    async def take_chosen_files(self, lease: Lease, person: str, ids: Sequence[str]) -> TakenFiles:
        """Take the files that this person has chosen in a dialog and that are not fetched yet."""
        told = {language: translate("error.no_files", language) for language in LANGUAGES}
        return TakenFiles(refused=tuple(ids), refusals=told, troubles=told)

    def list_usable_files(self, run: Run, waiting: Mapping[str, str]) -> tuple[AttachedFile, ...]:
        """List the files that the run may put on a request. `waiting`: the stored files of the conversation."""
        return ()

    def note_used_files(self, run: Run) -> None:
        """Mark the files of the run's card as used."""

    def build_file_writes(self, run: Run, waiting: Mapping[str, str]) -> Sequence[Write]:
        """Build the writes that reserve files for the card of a paused run, free its other files, and remove those that
        it has used."""
        return ()


@dataclass(slots=True)
class FileDesk:
    """The keeper of files for the engine and for features, which are built before it. Implements
    `tools.ports.AttachedFiles`."""

    keeper: FileKeeper = field(default_factory=FileKeeper)

    async def find_files(self, person: str, ids: Sequence[str]) -> Mapping[str, AttachedFile]:
        return await self.keeper.find_files(person, ids)
