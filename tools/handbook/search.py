"""Tools that find and read sections of the company's handbook. Its text is data; answers cite file and heading."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from tools.error_advice import select_advice
from tools.handbook.folder import HandbookError, HandbookSnapshot
from tools.handbook.ranking import extract_terms
from tools.handbook.sections import Section
from tools.spec import Privacy, TextRef, ToolError, ToolOutcome
from tools.tool import Tool, ToolArgs, ToolContext, slice_page

PAGE_SIZE = 5
"""Sections per page."""
MAX_EXCERPT, MAX_SEARCHED = 200, 8_000
"""Characters of an excerpt, and characters of a section in which an excerpt is sought."""
PAGE_LENGTH = 2_400
"""Characters of one page of a section; JSON at worst doubles them."""


class SearchHandbookArgs(ToolArgs):
    query: str = Field(max_length=300, description="The question or its key words; empty: everything.")
    page: int = Field(1, ge=1, le=1000, description=f"Of {PAGE_SIZE} each.")


class ReadHandbookArgs(ToolArgs):
    section: str = Field(max_length=300, description="As search_handbook gave it.")
    page: int = Field(1, ge=1, le=1000, description="Of a long section.")


async def run_search_handbook(context: ToolContext, args: SearchHandbookArgs) -> ToolOutcome:
    sections = (await _load_handbook(context)).search_sections(args.query)
    shown, more = slice_page(sections, args.page, PAGE_SIZE)
    results = [{**_build_citation(one), "excerpt": extract_excerpt(one.body, args.query)} for one in shown]
    return ToolOutcome(
        data={"results": results, "more": more}, summary=TextRef(key="result.found", params={"n": len(sections)})
    )


async def run_read_handbook(context: ToolContext, args: ReadHandbookArgs) -> ToolOutcome:
    section = (await _load_handbook(context)).find_section(args.section)
    if section is None:
        short = args.section.strip()[:60]
        raise ToolError("no_section", f"the handbook has no section {short!r}", section=short)
    pages = split_text_pages(section.text)
    shown, more = slice_page(pages, args.page, 1)
    data = {**_build_citation(section), "text": "".join(shown), "pages": len(pages), "more": more}
    params: dict[str, Any] = {"file": section.file, "heading": section.heading}
    return ToolOutcome(data=data, summary=TextRef(key="result.read", params=params))


async def _load_handbook(context: ToolContext) -> HandbookSnapshot:
    try:
        return await context.services.handbook.load_snapshot_in_thread()
    except HandbookError as wrong:
        raise ToolError("bad_handbook", f"a file of the handbook cannot be used: {wrong}", file=wrong.file) from wrong


def _build_citation(section: Section) -> dict[str, str]:
    return {"section": section.id, "file": section.file, "heading": section.heading}


def extract_excerpt(text: str, query: str) -> str:
    """The piece of a text that has most of the query's terms, on one line."""
    terms = set(extract_terms(query))
    text = text[:MAX_SEARCHED]
    starts = [0, *(n for n, before in enumerate(text, 1) if before in "\n。.！!？?；;" or not n % MAX_EXCERPT)]
    pieces = (text[start : start + MAX_EXCERPT] for start in starts)
    best = max(pieces, key=lambda piece: (len(terms.intersection(extract_terms(piece))), bool(piece.strip())))
    return " ".join(best.split())


def split_text_pages(text: str) -> list[str]:
    """Split a text into pages, at line ends where possible; together the pages are the whole text."""
    pages = []
    while len(text) > PAGE_LENGTH:
        end = text.rfind("\n", PAGE_LENGTH // 2, PAGE_LENGTH) + 1 or PAGE_LENGTH
        pages.append(text[:end])
        text = text[end:]
    return [*pages, text]


SEARCH_HANDBOOK = Tool(
    name="search_handbook",
    purpose="Search the company's handbook; read a section before you rely on it. No match: try other words.",
    use_when="They ask what is allowed, how much, by when, or how something is done here.",
    avoid_when="They want it done, or ask about their own requests.",
    args=SearchHandbookArgs,
    returns='{"results": [{"section", "file", "heading", "excerpt"}], "more"}. No match: []; try other words. '
    "Read a section before you rely on it, and name file and heading in the answer.",
    errors=select_advice("bad_handbook"),
    example={"query": "年假可以结转吗"},
    run=run_search_handbook,
    privacy=Privacy.PUBLIC,
    needs="handbook",
)
READ_HANDBOOK = Tool(
    name="read_handbook",
    purpose="Read one section of the handbook. Answer from its text alone, naming file and heading.",
    use_when="search_handbook found it.",
    avoid_when="You do not know which section.",
    args=ReadHandbookArgs,
    returns='{"section", "file", "heading", "text", "pages", "more"}. Answer from the text alone, naming file and '
    "heading; if it does not say, say so.",
    errors=select_advice("no_section", "bad_handbook"),
    example={"section": "leave.zh.md#年假结转"},
    run=run_read_handbook,
    privacy=Privacy.PUBLIC,
    needs="handbook",
)
