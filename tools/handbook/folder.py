"""The handbook on disk. The first access reads all files; later ones read only changed files.

The folder belongs to the company, but its content is not trusted: nothing outside the folder is read, hidden files are
skipped, and there are limits. A file that breaks a rule is refused by name, never left out silently."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from tools.file_stamps import FileStamp, build_stamp
from tools.handbook.ranking import Bm25Index, build_index
from tools.handbook.sections import Section, split_sections
from tools.people.names import fold_text

FILES = 200
MAX_FILE_BYTES = 256 * 1024
MAX_PATH_LENGTH = 120
"""Most characters of a file's path inside the folder."""
ENDING = ".md"


class HandbookError(ValueError):
    """An unusable file of the handbook. `file` is its path inside the folder, or the folder's own name."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file}: {reason}")
        self.file, self.why = file, reason


@dataclass(frozen=True, slots=True)
class HandbookSnapshot:
    """The handbook at one moment."""

    sections: Sequence[Section] = ()
    index: Bm25Index = field(default_factory=lambda: build_index(()))

    def search_sections(self, query: str) -> list[Section]:
        """The sections relevant to the query, best first; all sections in order for an empty query."""
        if not query.strip():
            return list(self.sections)
        return [self.sections[n] for n in self.index.rank_texts(query)]

    def find_section(self, name: str) -> Section | None:
        """The section with this id; case, width and spaces do not count."""
        wanted = fold_text(name)
        return next((one for one in self.sections if fold_text(one.id) == wanted), None)


class Handbook:
    """A folder of Markdown files; empty without a folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._cached_files: dict[str, tuple[FileStamp, tuple[Section, ...]]] = {}
        self._snapshot = HandbookSnapshot()

    def load_snapshot(self) -> HandbookSnapshot:
        """Return the current handbook, reading only changed files. Raises `HandbookError`."""
        if self.folder is None:
            return self._snapshot
        stamps = dict[str, FileStamp]()
        for file, path in sorted(_list_files(self.folder)):
            try:
                status = path.stat()
            except OSError as error:
                raise HandbookError(file, error.strerror or "cannot be read") from error
            if not stat.S_ISREG(status.st_mode):
                raise HandbookError(file, "is no plain file")
            if status.st_nlink > 1 and _PROGRAM not in path.parents:
                raise HandbookError(file, "has another name elsewhere (a hard link); copy it instead")
            if status.st_size > MAX_FILE_BYTES:
                raise HandbookError(file, f"{status.st_size} bytes, at most {MAX_FILE_BYTES}")
            stamps[file] = build_stamp(status)
        if stamps == {file: stamp for file, (stamp, _) in self._cached_files.items()}:
            return self._snapshot
        files = {
            file: self._cached_files[file]
            if self._cached_files.get(file, (None,))[0] == stamp
            else (stamp, _read_sections(self.folder, file))
            for file, stamp in stamps.items()
        }
        book = _build_snapshot(tuple(section for _, sections in files.values() for section in sections))
        self._cached_files, self._snapshot = files, book
        return book

    async def load_snapshot_in_thread(self) -> HandbookSnapshot:
        """Run `load_snapshot` in another thread. Raises `HandbookError`."""
        return await asyncio.to_thread(self.load_snapshot) if self.folder else self._snapshot

    async def quote_relevant_sections(self, text: str, max_chars: int) -> str:
        """The sections relevant to a text: whole sections, best first, at most `max_chars` characters in all. Raises
        `HandbookError`."""
        excerpts, room = [], max_chars
        for section in (await self.load_snapshot_in_thread()).search_sections(text) if text.strip() else []:
            told = f"[{section.file} | {section.heading}]\n{section.text.strip()}\n"
            if len(told) <= room:
                excerpts.append(told)
                room -= len(told) + 1
        return "\n".join(excerpts)


_PROGRAM = Path(__file__).parents[2] / "bot"
"""The folder that contains the demo's handbook. Hard links are allowed there, because an installer may link the files
it installs."""


@lru_cache(maxsize=2)
def _build_snapshot(sections: tuple[Section, ...]) -> HandbookSnapshot:
    """Build a snapshot. A heading without text under it can be read but is not found by a search. Snapshots are cached,
    because the many bots of an evaluation share one handbook in one process."""
    found = [f"{one.heading} {one.body}" if one.body.strip() else "" for one in sections]
    return HandbookSnapshot(sections, build_index(found))


def _list_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield every Markdown file that is not hidden, with its path inside the folder. Raises `HandbookError`."""

    def raise_handbook_error(error: OSError) -> None:
        raise HandbookError(Path(error.filename).name, error.strerror or "cannot be read")

    root, count = os.path.realpath(folder), 0
    for at, folders, files in os.walk(folder, onerror=raise_handbook_error):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        links = [name for name in folders if Path(at, name).is_symlink()]  # checked below, but not followed
        for entry in (Path(at, name) for name in (*links, *sorted(files)) if not name.startswith(".")):
            file = entry.relative_to(folder).as_posix()
            if not file.isprintable() or len(file) > MAX_PATH_LENGTH:
                message = f"its name should be printable, at most {MAX_PATH_LENGTH} characters"
                raise HandbookError(ascii(file)[:MAX_PATH_LENGTH], message)
            if not Path(os.path.realpath(entry)).is_relative_to(root):
                raise HandbookError(file, "a link that leads out of the folder")
            if entry.suffix.lower() != ENDING or entry.is_dir():
                continue
            count += 1
            if count > FILES:
                raise HandbookError(folder.name, f"more than {FILES} files")
            yield file, entry


def _read_sections(folder: Path, file: str) -> tuple[Section, ...]:
    try:
        with (folder / file).open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)  # the file may have grown since the check
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise HandbookError(file, error.strerror or "cannot be read") from error
    except UnicodeDecodeError:
        raise HandbookError(file, "is not UTF-8") from None
    if len(content) > MAX_FILE_BYTES:
        raise HandbookError(file, f"more than {MAX_FILE_BYTES} bytes")
    return split_sections(file, text)
