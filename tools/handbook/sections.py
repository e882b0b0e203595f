"""Splits a Markdown file at its headings into sections that can be found, read and cited.

Headings of the file itself count (`# …` and underlined ones). Lines inside a code block, a list or a quotation that
look like headings do not; `markdown-it-py` (CommonMark) tells them apart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise

from markdown_it import MarkdownIt

from tools.people.names import fold_text

HEADING, HEADINGS = 80, 160
"""Most characters of one heading, and of a heading with those above it, kept for search and citation."""
BETWEEN = " › "
_NEWLINE, _LINE = re.compile(r"\r\n?"), re.compile(r"[^\n]*\n|[^\n]+")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f]")
"""Characters that do not belong in a text and that JSON would write as six characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The text from one heading to the next, of any level."""

    file: str
    """Path inside the folder, separated by `/`."""
    id: str
    """File and heading, e.g. `leave.en.md#Carry-over`; the file alone for the part before the first heading."""
    heading: str
    """The heading with those above it: `Leave › Annual leave › Carry-over`."""
    text: str
    """The section's text in the file, with its heading."""
    body: str
    """The section's text without its heading."""


@lru_cache(maxsize=8)
def split_sections(file: str, content: str) -> tuple[Section, ...]:
    """Split a file into its sections, in order; together their texts are the whole file."""
    content = _CONTROLS.sub("\ufffd", _NEWLINE.sub("\n", content))
    lines = _LINE.findall(content)
    starts = list[_Heading]()
    for token, inside in pairwise(_build_parser().parse(content)):
        if token.type == "heading_open" and token.level == 0 and token.map:
            title = " ".join(inside.content.split())[:HEADING]
            first, end = token.map
            starts.append(_Heading(first_line=first, end_line=end, level=int(token.tag[1:]), title=title))
    if not starts or starts[0].first_line > 0:
        starts.insert(0, _Heading(first_line=0, end_line=0, level=0, title=""))
    ends = [*(h.first_line for h in starts[1:]), len(lines)]
    above: list[_Heading] = []
    id_counts: dict[str, int] = {}
    sections = []
    for heading, end in zip(starts, ends, strict=True):
        above = [*(h for h in above if h.level < heading.level), heading]
        text, body = "".join(lines[heading.first_line : end]), "".join(lines[heading.end_line : end])
        if text.strip():
            id = _assign_section_id(file, heading.title, id_counts)
            path = BETWEEN.join(h.title for h in above if h.title)
            path = path if len(path) <= HEADINGS else "…" + path[1 - HEADINGS :]
            sections.append(Section(file=file, id=id, heading=path, text=text, body=body))
    return tuple(sections)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heading:
    first_line: int
    """The heading's first line, counted from 0."""
    end_line: int
    """The line after the heading."""
    level: int
    title: str


@cache
def _build_parser() -> MarkdownIt:
    """A Markdown parser for blocks only; inline syntax is not parsed."""
    parser = MarkdownIt("commonmark")
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


def _assign_section_id(file: str, title: str, id_counts: dict[str, int]) -> str:
    """An id that is unique in the file: a repeated heading gets a number. `id_counts` has the last number tried for
    each id, so that many equal headings cost no more than many different ones."""
    plain = f"{file}#{title}" if title else file
    name, key = plain, fold_text(plain)
    while fold_text(name) in id_counts:
        id_counts[key] = id_counts.get(key, 1) + 1
        name = f"{plain} ({id_counts[key]})"
    id_counts.setdefault(fold_text(name), 1)
    return name
