"""Searching and reading the handbook: bounded, paged, and whatever stands in it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.tool_executor import OBSERVATION_MAX, format_observation
from tests.tools.office import ZHANG, office, refused
from tools.catalog import TOOLS, select_offered_tools
from tools.handbook.folder import Handbook
from tools.handbook.search import PAGE_LENGTH, extract_excerpt, split_text_pages

DEMO = Path("bot/dev/demo/handbook")


async def look(folder: Path, tool: str, **args: Any) -> dict[str, Any]:
    there = office()
    there.services["handbook"] = Handbook(folder)
    outcome = await there.read(ZHANG, tool, **args)
    assert len(format_observation(outcome)) <= OBSERVATION_MAX, "never cut"
    return outcome.data


async def turn_pages(folder: Path, tool: str, **args: Any) -> AsyncIterator[dict[str, Any]]:
    page = 1
    while page:
        yield (data := await look(folder, tool, **args, page=page))
        page = data["more"]


async def search(folder: Path, query: str) -> list[str]:
    """The ids of every page of results."""
    pages = turn_pages(folder, "search_handbook", query=query)
    return [one["section"] async for page in pages for one in page["results"]]


async def read(folder: Path, section: str) -> str:
    """Every page of a section."""
    return "".join([page["text"] async for page in turn_pages(folder, "read_handbook", section=section)])


async def test_a_question_finds_a_section_that_is_read_and_cited() -> None:
    first = (await look(DEMO, "search_handbook", query="年假可以结转吗"))["results"][0]
    assert (first["file"], first["heading"]) == ("leave.zh.md", "请假制度 › 年假结转")
    assert "不能结转" in first["excerpt"]
    found = await look(DEMO, "read_handbook", section=first["section"])
    assert "12 月 31 日" in found["text"] and (found["file"], found["pages"], found["more"]) == ("leave.zh.md", 1, None)


async def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    assert await look(DEMO, "search_handbook", query="xylophone") == {"results": [], "more": None}
    assert (await refused(look(DEMO, "read_handbook", section="leave.zh.md#年终奖"))).code == "no_section"
    (tmp_path / "a.md").write_bytes(b"\xff")
    for tool, args in (("search_handbook", {"query": "x"}), ("read_handbook", {"section": "x"})):
        error = await refused(look(tmp_path, tool, **args))
        assert (error.code, error.params) == ("bad_handbook", {"file": "a.md"})


FILE = st.text() | st.lists(st.text(st.characters(codec="utf-8"), max_size=60), max_size=60).map("\n# ".join)


@given(content=FILE.filter(lambda text: text.encode("utf-8", "ignore").decode() == text), query=st.text(max_size=60))
async def test_pages_cover_everything_exactly_once(
    tmp_path_factory: pytest.TempPathFactory, content: str, query: str
) -> None:
    folder = tmp_path_factory.mktemp("book")
    (folder / "規則.md").write_bytes(content.encode())
    texts = {one.id: one.text for one in Handbook(folder).load_snapshot().sections}
    assert await search(folder, "") == list(texts)
    found = await search(folder, query)
    assert len(set(found)) == len(found) and set(found) <= set(texts)
    assert {one: await read(folder, one) for one in texts} == texts


@given(st.text(max_size=12_000) | st.lists(st.text(max_size=3000), max_size=8).map("\n".join))
def test_pages_are_the_text(text: str) -> None:
    pages = split_text_pages(text)
    assert "".join(pages) == text and all(0 < len(page) <= PAGE_LENGTH for page in pages[:-1])


async def test_the_worst_page_is_not_cut(tmp_path: Path) -> None:
    """Everything that JSON writes as two characters, in the longest names."""
    folder = tmp_path / ("d" * 50)
    folder.mkdir()
    for n in range(6):
        (folder / f"{n}{'f' * 60}.md").write_text("# " + '"' * 200 + "\n" + '"\\' * 20_000)
    for page in (1, 2):
        assert (await look(tmp_path, "search_handbook", query="", page=page))["results"]
    assert len(await read(tmp_path, Handbook(tmp_path).load_snapshot().sections[0].id)) == 40_000 + 203


def test_an_excerpt_is_the_piece_that_has_the_words_and_without_a_handbook_its_tools_are_not_offered() -> None:
    text = "年假十天。" * 100 + "结转不可以。" + "病假另算。" * 100
    assert "结转" in extract_excerpt(text, "能结转吗") and len(extract_excerpt(text, "能结转吗")) <= 200
    assert extract_excerpt("", "x") == ""
    names = {tool.name for tool in select_offered_tools(TOOLS, handbook=False, think=False)}
    assert names == {tool.name for tool in TOOLS} - {"search_handbook", "read_handbook", "think"}
    assert select_offered_tools(TOOLS, handbook=True, think=True) == TOOLS
