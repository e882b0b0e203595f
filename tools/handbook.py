"""The company's handbook: find a section, read a section. What it says is data; answers cite file and heading."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from tools.advice import advice
from tools.library.folder import Book, HandbookWrong
from tools.library.ranking import terms
from tools.library.sections import Section
from tools.paging import page_of
from tools.spec import Frozen, Note, Outcome, Privacy, ToolError
from tools.tool import Tool, Use

FOUND = 5
"""Sections of one page."""
EXCERPT, LOOKED = 200, 8_000
"""Characters of an excerpt, and of a section in which it is looked for."""
READ = 2_400
"""Characters of one page of a section: JSON at worst doubles them."""


class SearchHandbook(Frozen):
    query: str = Field(max_length=300, description="The question or its key words; empty: everything.")
    page: int = Field(1, ge=1, le=1000, description=f"Of {FOUND} each.")


class ReadHandbook(Frozen):
    section: str = Field(max_length=300, description="As search_handbook gave it.")
    page: int = Field(1, ge=1, le=1000, description="Of a long section.")


async def run_search(use: Use, args: SearchHandbook) -> Outcome:
    found = (await _book(use)).find(args.query)
    shown, more = page_of(found, args.page, FOUND)
    results = [{**_cited(one), "excerpt": excerpt(one.body, args.query)} for one in shown]
    return Outcome(data={"results": results, "more": more}, note=Note(key="result.found", params={"n": len(found)}))


async def run_read(use: Use, args: ReadHandbook) -> Outcome:
    section = (await _book(use)).section(args.section)
    if section is None:
        short = args.section.strip()[:60]
        raise ToolError("no_section", f"the handbook has no section {short!r}", section=short)
    pages = paged(section.text)
    shown, more = page_of(pages, args.page, 1)
    data = {**_cited(section), "text": "".join(shown), "pages": len(pages), "more": more}
    params: dict[str, Any] = {"file": section.file, "heading": section.heading}
    return Outcome(data=data, note=Note(key="result.read", params=params))


async def _book(use: Use) -> Book:
    try:
        return await use.desk.handbook.now()
    except HandbookWrong as wrong:
        raise ToolError("bad_handbook", f"a file of the handbook cannot be used: {wrong}", file=wrong.file) from wrong


def _cited(section: Section) -> dict[str, str]:
    return {"section": section.id, "file": section.file, "heading": section.heading}


def excerpt(text: str, query: str) -> str:
    """The piece of a text that has most of the query's terms, on one line."""
    wanted = set(terms(query))
    text = text[:LOOKED]
    starts = [0, *(n for n, before in enumerate(text, 1) if before in "\n。.！!？?；;" or not n % EXCERPT)]
    pieces = (text[start : start + EXCERPT] for start in starts)
    best = max(pieces, key=lambda piece: (len(wanted.intersection(terms(piece))), bool(piece.strip())))
    return " ".join(best.split())


def paged(text: str) -> list[str]:
    """A text in pages, cut at the end of a line where there is one; together they are the whole text."""
    pages = []
    while len(text) > READ:
        end = text.rfind("\n", READ // 2, READ) + 1 or READ
        pages.append(text[:end])
        text = text[end:]
    return [*pages, text]


SEARCH_HANDBOOK = Tool(
    name="search_handbook",
    purpose="Search the company's handbook; read a section before you rely on it. No match: try other words.",
    use_when="They ask what is allowed, how much, by when, or how something is done here.",
    avoid_when="They want it done, or ask about their own requests.",
    args=SearchHandbook,
    returns='{"results": [{"section", "file", "heading", "excerpt"}], "more"}. No match: []; try other words. '
    "Read a section before you rely on it, and name file and heading in the answer.",
    errors=advice("bad_handbook"),
    example={"query": "年假可以结转吗"},
    run=run_search,
    privacy=Privacy.PUBLIC,
)
READ_HANDBOOK = Tool(
    name="read_handbook",
    purpose="Read one section of the handbook. Answer from its text alone, naming file and heading.",
    use_when="search_handbook found it.",
    avoid_when="You do not know which section.",
    args=ReadHandbook,
    returns='{"section", "file", "heading", "text", "pages", "more"}. Answer from the text alone, naming file and '
    "heading; if it does not say, say so.",
    errors=advice("no_section", "bad_handbook"),
    example={"section": "leave.zh.md#年假结转"},
    run=run_read,
    privacy=Privacy.PUBLIC,
)
