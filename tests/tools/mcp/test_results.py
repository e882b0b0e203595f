"""What a server answers is data for the model, and what is long is read page by page."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.types import CallToolResult, TextContent, Tool, ToolAnnotations

from bot.agent.tool_executor import OBSERVATION_MAX, format_observation
from tests.tools.mcp.running import build_listed_tool
from tools.mcp.config import McpServer
from tools.mcp.results import (
    MAX_PAGES,
    MAX_READ_LENGTH,
    PAGE_JSON_LENGTH,
    PAGE_LENGTH,
    is_single_page,
    parse_read_result,
    split_result_pages,
)
from tools.mcp.tool_adapter import PAGE_ARGUMENT, McpTool, build_mcp_tool, parse_listed_tool
from tools.spec import Gate, ToolOutcome

SERVER = McpServer(name="crm", command=("crm",), env={"CRM_TOKEN": "tulip-secret"}, tools={"list": "none"})
READS, WRITES = build_listed_tool(name="list", is_read_only=True, gate=Gate.NONE), build_listed_tool(gate=Gate.NONE)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=400),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=10), inner, max_size=10),
    max_leaves=200,
)


def said(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)])


def test_json_in_a_text_is_data_and_a_long_text_is_told_in_pages_that_make_it_up() -> None:
    rows = {"customers": [{"name": '王五 "Wang"', "id": 7}]}
    found = parse_read_result(SERVER, READS, said(json.dumps(rows)))
    assert found.data == {"server": "crm", "result": rows}
    assert "\\\\" not in format_observation(found), "control: nothing is escaped twice"
    for text in ("{no json}", "[1, 2", "7 rows", '"7"', "", "[" * 3_000):
        assert parse_read_result(SERVER, READS, said(text)).data["result"] == text
    text = "\n".join(f'line {n} “quoted” "and" \\escaped' for n in range(700))
    pages = parse_read_result(SERVER, READS, said(text)).data["pages"]
    assert "".join(parse_read_result(SERVER, READS, said(text), n + 1).data["result"] for n in range(pages)) == text
    endless = parse_read_result(SERVER, READS, said("x" * 10 * MAX_READ_LENGTH)).data
    assert endless["pages"] == MAX_PAGES and f"of {10 * MAX_READ_LENGTH} characters" in endless["cut"]


def test_long_lists_are_told_in_pages_of_whole_elements() -> None:
    rows = [{"name": f"客户 {n}", "about": "x" * 300} for n in range(60)]
    whole = {"rows": rows, "total": 60}
    for result in (said(json.dumps(whole)), CallToolResult(content=[], structured_content=whole)):
        seen, page, pages = list[Any](), 1, 0
        while page:
            found = parse_read_result(SERVER, READS, result, page).data
            observation = format_observation(ToolOutcome.model_construct(data=found))
            assert found["result"]["total"] == 60 and len(observation) < OBSERVATION_MAX
            seen, pages = seen + found["result"]["rows"], found["pages"]
            assert (found.get("more") or "").endswith(str(page + 1)) or page == pages
            page = page + 1 if "more" in found else 0
        assert seen == rows and pages > 2
    assert parse_read_result(SERVER, READS, said(json.dumps(rows)), 99).data["result"] is None


@given(VALUES)
def test_no_page_is_longer_than_one_and_nothing_is_lost(value: Any) -> None:
    if is_single_page(value):
        return
    pages = split_result_pages(value)
    assert pages and all(is_single_page(page) for page in pages)
    if isinstance(value, str):
        assert "".join(pages) == value
    elif isinstance(value, list) and isinstance(pages[0], str) and "".join(pages)[:1] == "[":
        assert json.loads("".join(pages)) == value
    elif isinstance(value, list):
        assert [one for page in pages for one in page] == value


def test_no_half_of_a_secret_is_told_and_no_writing_tool_is_called_again_for_its_next_page() -> None:
    for before in (PAGE_LENGTH - 5, MAX_PAGES * PAGE_LENGTH - 5, MAX_READ_LENGTH - 5):
        text = "x" * before + "tulip-secret" + "y" * (MAX_READ_LENGTH + PAGE_LENGTH)
        told = [parse_read_result(SERVER, READS, said(text), n + 1).data["result"] or "" for n in range(MAX_PAGES)]
        assert "tulip" not in "".join(told), before
    found = parse_read_result(SERVER, WRITES, said("x" * 9_000)).data
    assert "more" not in found and "[cut: 4000 of 9000" in found["result"] and len(found["result"]) < PAGE_JSON_LENGTH


async def test_the_page_is_ours_and_does_not_reach_the_server() -> None:
    asked: list[tuple[dict[str, Any], int]] = []

    async def read(one: McpTool, arguments: Any, page: int) -> ToolOutcome:
        asked.append((dict(arguments), page))
        return parse_read_result(SERVER, one, said("x"), page)

    async def effect(name: str, sealed: Any) -> ToolOutcome:
        raise AssertionError("nothing is pressed")

    def listed(properties: dict[str, Any]) -> Any:
        schema = {"type": "object", "properties": properties, "additionalProperties": False}
        return Tool(name="list", input_schema=schema, annotations=ToolAnnotations(read_only_hint=True))

    plain = parse_listed_tool(SERVER, listed({"of": {"type": "string"}}))
    own = parse_listed_tool(SERVER, listed({PAGE_ARGUMENT: {"type": "integer"}}))
    assert plain is not None and own is not None
    for one, args in ((plain, {"of": "a", PAGE_ARGUMENT: 3}), (own, {PAGE_ARGUMENT: 3})):
        tool = build_mcp_tool(one, read, effect)
        await tool.run(None, tool.args.model_validate(args))  # type: ignore[arg-type]
    assert asked == [({"of": "a"}, 3), ({PAGE_ARGUMENT: 3}, 1)], "a server's own argument of that name stays its own"
    with pytest.raises(ValueError, match=PAGE_ARGUMENT):
        build_mcp_tool(plain, read, effect).args.model_validate({"of": "a", PAGE_ARGUMENT: "next"})
