"""Searching and reading the handbook: bounded, paged, and whatever stands in it."""

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.tool_executor import OBSERVATION_MAX, format_observation
from tests.tools.office import NOW, ZHANG, Office, known, office, refused, seen
from tools.catalog import TOOLS, select_offered_tools
from tools.handbook.folder import Handbook
from tools.handbook.search import PAGE_LENGTH, extract_excerpt, split_text_pages
from tools.spec import Caller, ToolOutcome
from tools.tool import ToolContext, ToolServices

DEMO = Path("bot/dev/demo/handbook")


@dataclass
class Reader:
    """Somebody with a handbook."""

    folder: Path
    now: datetime = NOW
    there: Office = field(default_factory=office)

    async def look(self, tool: str, **args: Any) -> ToolOutcome:
        desk = ToolServices(
            directory=self.there.people,
            engine=self.there.engine,
            handbook=Handbook(self.folder),
        )
        card = known(tool)
        outcome: ToolOutcome = await seen(card, card.run(ToolContext(desk, Caller(ZHANG), self.now), card.args(**args)))
        assert len(format_observation(outcome)) <= OBSERVATION_MAX, "never cut"
        return outcome

    async def all(self, query: str) -> list[str]:
        """The ids of every page of results."""
        found, page = [], 1
        while page:
            data = (await self.look("search_handbook", query=query, page=page)).data
            found += [one["section"] for one in data["results"]]
            page = data["more"]
        return found

    async def read(self, section: str) -> str:
        """Every page of a section."""
        text, page = "", 1
        while page:
            data = (await self.look("read_handbook", section=section, page=page)).data
            text += data["text"]
            page = data["more"]
        return text


async def test_a_question_finds_a_section_that_is_read_and_cited() -> None:
    reader = Reader(DEMO)
    first = (await reader.look("search_handbook", query="年假可以结转吗")).data["results"][0]
    assert (first["file"], first["heading"]) == ("leave.zh.md", "请假制度 › 年假结转")
    assert "不能结转" in first["excerpt"]
    read = (await reader.look("read_handbook", section=first["section"])).data
    assert "12 月 31 日" in read["text"] and (read["file"], read["pages"], read["more"]) == ("leave.zh.md", 1, None)
    listed = await Reader(DEMO).all("")
    assert listed == [one.id for one in Handbook(DEMO).load_snapshot().sections] and len(set(listed)) == len(listed)


async def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    reader = Reader(DEMO)
    assert (await reader.look("search_handbook", query="xylophone")).data == {"results": [], "more": None}
    error = await refused(reader.look("read_handbook", section="leave.zh.md#年终奖"))
    assert error.code == "no_section"
    (tmp_path / "a.md").write_bytes(b"\xff")
    for tool, args in (("search_handbook", {"query": "x"}), ("read_handbook", {"section": "x"})):
        error = await refused(Reader(tmp_path).look(tool, **args))
        assert (error.code, error.params) == ("bad_handbook", {"file": "a.md"})


FILE = st.text() | st.lists(st.text(st.characters(codec="utf-8"), max_size=60), max_size=60).map("\n# ".join)


@given(content=FILE.filter(lambda text: text.encode("utf-8", "ignore").decode() == text), query=st.text(max_size=60))
async def test_pages_cover_everything_exactly_once(
    tmp_path_factory: pytest.TempPathFactory, content: str, query: str
) -> None:
    folder = tmp_path_factory.mktemp("book")
    (folder / "規則.md").write_bytes(content.encode())
    reader, sections = Reader(folder), Handbook(folder).load_snapshot().sections
    assert await reader.all("") == [one.id for one in sections]
    found = await reader.all(query)
    assert len(set(found)) == len(found) and set(found) <= {one.id for one in sections}
    for one in sections:
        assert await reader.read(one.id) == one.text


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
    reader = Reader(tmp_path)
    for page in (1, 2):
        assert (await reader.look("search_handbook", query="", page=page)).data["results"]
    assert len(await reader.read(Handbook(tmp_path).load_snapshot().sections[0].id)) == 40_000 + 203


def test_an_excerpt_is_the_piece_that_has_the_words_and_without_a_handbook_its_tools_are_not_offered() -> None:
    text = "年假十天。" * 100 + "结转不可以。" + "病假另算。" * 100
    assert "结转" in extract_excerpt(text, "能结转吗") and len(extract_excerpt(text, "能结转吗")) <= 200
    assert extract_excerpt("", "x") == ""
    names = {tool.name for tool in select_offered_tools(TOOLS, handbook=False, think=False)}
    assert names == {tool.name for tool in TOOLS} - {"search_handbook", "read_handbook", "think"}
    assert select_offered_tools(TOOLS, handbook=True, think=True) == TOOLS
