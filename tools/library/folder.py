"""The handbook on disk: read when it is opened, and again what has changed since, whenever somebody looks.

The folder is the company's own, yet what somebody may have put into it is not trusted: nothing outside the folder is
read, hidden files are skipped, and there are limits. What breaks a rule is refused by name, never left out silently.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.library.ranking import Index, indexed
from tools.library.sections import Section, split
from tools.names import folded

FILES = 200
SIZE = 256 * 1024
"""Bytes of one file."""
NAME = 120
"""Characters of a file's path inside the folder."""
ENDING = ".md"

Stamp = tuple[int, int, int]
"""By which a file is known to be as it was: time of change (ns), size, number."""


class HandbookWrong(ValueError):
    """A file of the handbook cannot be used. `file`: its path inside the folder, or the folder's own name."""

    def __init__(self, file: str, why: str) -> None:
        super().__init__(f"{file}: {why}")
        self.file, self.why = file, why


@dataclass(frozen=True, slots=True)
class Book:
    """The handbook as it is at one moment."""

    sections: Sequence[Section] = ()
    index: Index = field(default_factory=lambda: indexed(()))

    def find(self, query: str) -> list[Section]:
        """Sections that have to do with the query, the best first; all of them, in order, for an empty one."""
        if not query.strip():
            return list(self.sections)
        return [self.sections[n] for n in self.index.ranked(query)]

    def section(self, name: str) -> Section | None:
        """By its id; case, width and spaces do not count."""
        wanted = folded(name)
        return next((one for one in self.sections if folded(one.id) == wanted), None)


class Handbook:
    """A folder of Markdown files. Without a folder it is empty."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._known: dict[str, tuple[Stamp, tuple[Section, ...]]] = {}
        self._book = Book()

    def open(self) -> Book:
        """As it is now; only files that have changed are read. Raises `HandbookWrong`."""
        if self.folder is None:
            return self._book
        stamps = {file: _stamp(path, file) for file, path in sorted(_files(self.folder))}
        if stamps == {file: stamp for file, (stamp, _) in self._known.items()}:
            return self._book
        known = {
            file: self._known[file] if self._known.get(file, (None,))[0] == stamp else (stamp, _read(self.folder, file))
            for file, stamp in stamps.items()
        }
        book = _book(tuple(section for _, sections in known.values() for section in sections))
        self._known, self._book = known, book
        return book

    async def now(self) -> Book:
        """The same beside everything else that runs. Raises `HandbookWrong`."""
        return await asyncio.to_thread(self.open) if self.folder else self._book

    async def about(self, text: str, most: int) -> str:
        """What it says on the matter of a text: whole sections, the best first, in at most so many characters. Raises
        `HandbookWrong`."""
        found, left = [], most
        for section in (await self.now()).find(text) if text.strip() else []:
            told = f"[{section.file} | {section.heading}]\n{section.text.strip()}\n"
            if len(told) <= left:
                found.append(told)
                left -= len(told) + 1
        return "\n".join(found)


def _book(sections: tuple[Section, ...]) -> Book:
    """A heading with nothing under it is read but never found: what stands below it is."""
    found = [f"{one.heading} {one.body}" if one.body.strip() else "" for one in sections]
    return Book(sections, indexed(found))


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Every Markdown file with its path inside the folder. Raises `HandbookWrong`."""
    root, count = os.path.realpath(folder), 0
    for found in _walk(folder):
        file = found.relative_to(folder).as_posix()
        if not file.isprintable() or len(file) > NAME:
            raise HandbookWrong(ascii(file)[:NAME], f"its name should be printable, at most {NAME} characters")
        if not Path(os.path.realpath(found)).is_relative_to(root):
            raise HandbookWrong(file, "a link that leads out of the folder")
        if found.suffix.lower() != ENDING or found.is_dir():
            continue
        count += 1
        if count > FILES:
            raise HandbookWrong(folder.name, f"more than {FILES} files")
        yield file, found


def _walk(folder: Path) -> Iterator[Path]:
    """Every file that is not hidden. Links to folders are named, not followed."""

    def refuse(error: OSError) -> None:
        raise HandbookWrong(Path(error.filename).name, error.strerror or "cannot be read")

    for at, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        links = [name for name in folders if Path(at, name).is_symlink()]
        yield from (Path(at, name) for name in (*links, *sorted(files)) if not name.startswith("."))


def _stamp(path: Path, file: str) -> Stamp:
    try:
        found = path.stat()
    except OSError as error:
        raise HandbookWrong(file, error.strerror or "cannot be read") from error
    if not stat.S_ISREG(found.st_mode):
        raise HandbookWrong(file, "is no plain file")
    if found.st_size > SIZE:
        raise HandbookWrong(file, f"{found.st_size} bytes, at most {SIZE}")
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(folder: Path, file: str) -> tuple[Section, ...]:
    try:
        with (folder / file).open("rb") as stream:
            content = stream.read(SIZE + 1)  # it may have grown since it was looked at
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise HandbookWrong(file, error.strerror or "cannot be read") from error
    except UnicodeDecodeError:
        raise HandbookWrong(file, "is not UTF-8") from None
    if len(content) > SIZE:
        raise HandbookWrong(file, f"more than {SIZE} bytes")
    return split(file, text)
