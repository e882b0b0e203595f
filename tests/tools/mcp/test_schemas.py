"""A server's schema made plain: harmless whatever it is, and as strict as it was in what stays of it."""

import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from bot.agent.formats.native_format import build_function_schema as as_function
from bot.agent.formats.tool_descriptions import describe_tools
from tests.harness.corpus import corpus
from tests.linear.pace import measure_pace
from tests.tools.mcp.running import build_listed_tool
from tools.characters import has_invisible
from tools.mcp.schemas import NODES, UnusableToolError, describe_schema_errors, simplify_schema
from tools.mcp.server_text import clean_server_text
from tools.mcp.tool_adapter import build_mcp_tool
from tools.spec import ToolOutcome
from tools.tool import Tool


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def tool(schema: dict[str, Any]) -> Tool:
    async def never(*_: Any) -> ToolOutcome:
        raise AssertionError

    return build_mcp_tool(build_listed_tool("x", "y", schema=simplify_schema(schema)), never, never)


def test_references_are_written_out_and_a_schema_that_refers_to_itself_ends() -> None:
    schema = {**of(who={"$ref": "#/$defs/Who"}), "$defs": {"Who": of(name={"type": "string"}), "Odd": 5}}
    assert simplify_schema(schema)["properties"]["who"]["properties"] == {"name": {"type": "string"}}
    wrong = describe_schema_errors(simplify_schema(schema), {"who": {"name": 5}})
    assert wrong == "who.name: 5 is not of type 'string'"
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    made = tool({**of(first={"$ref": "#/$defs/Node"}), "$defs": {"Node": node}})
    assert "next" in describe_tools([made]) and "next" in str(as_function(made))


MULTIPLYING = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 9} for n in range(40)}


@corpus(
    "schema",
    {"type": "string"}, {}, {"$ref": "#"}, {"$ref": "http://127.0.0.1:9/secret.json"},
    {**of(a={"$ref": "https://example.com/x"})}, {**of(a={"$ref": "#/$defs/none"})}, of(a={"type": "banana"}),
    of(a={"minimum": "much"}), of(**{"a\u202eb": {}}), of(**{"a" * 61: {}}), of(aㅤ={}),
    of(a={"enum": ["yes\u200b", "yes"]}), of(a={"const": "\U000e0041"}), of(a={"enum": ["x" * 20_000]}),
    of(**{f"a{n}": {} for n in range(NODES + 1)}),
    {**of(a={"$ref": "#/$defs/d0"}), "$defs": {**MULTIPLYING, "d40": {"type": "string"}}},
)  # fmt: skip
def test_what_nothing_can_be_checked_with_is_refused_at_once(schema: dict[str, Any]) -> None:
    began = time.thread_time()
    with pytest.raises(UnusableToolError):
        simplify_schema(schema)
    assert time.thread_time() - began < 5 * measure_pace(), "also where references multiply"


def test_a_pattern_that_takes_for_ever_is_not_tried() -> None:
    """Control: it would have been, by the schema as it came."""
    schema = {**of(a={"type": "string", "pattern": "^(a+)+$"}), "patternProperties": {"^(b+)+$": {}}}
    assert "pattern" not in str(simplify_schema(schema))
    began = time.thread_time()
    assert describe_schema_errors(simplify_schema(schema), {"a": "a" * 60 + "!", "b" * 60 + "!": 1}) == ""
    assert time.thread_time() - began < 5 * measure_pace()
    assert list(Draft202012Validator(schema).iter_errors({"a": "aaa!"}))
    assert "pattern" in simplify_schema(of(pattern={"type": "string"}))["properties"]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
LEAVES = st.sampled_from(
    [{"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "boolean"}, {"enum": ["a", 1]}, {"const": 2}, {}]
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(lambda one: {"type": "array", "items": one}, inner)
        | st.builds(lambda one, other: {"anyOf": [one, other]}, inner, inner)
        | st.builds(
            lambda fields, needed: {"type": "object", "properties": fields, "required": sorted(needed)},
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            st.sets(st.sampled_from("abc"), max_size=2),
        )
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from("abc"), SCHEMAS, max_size=3), st.dictionaries(st.sampled_from("abc"), VALUES))
def test_a_plain_schema_judges_as_it_did(fields: dict[str, Any], args: dict[str, Any]) -> None:
    schema = of(**fields)
    assert (describe_schema_errors(simplify_schema(schema), args) == "") == Draft202012Validator(schema).is_valid(args)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text() | st.just({"$ref": "#"}),
       lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
           st.sampled_from(["type", "properties", "items", "anyOf", "allOf", "enum", "required", "$ref", "description"])
           | st.text(max_size=4), inner, max_size=5), max_leaves=20))  # fmt: skip
def test_whatever_a_server_sends_is_a_card_or_is_refused(junk: Any) -> None:
    try:
        made = tool({"type": "object", "properties": {"a": junk, "b": {"anyOf": [junk]}}})
    except UnusableToolError:
        return
    assert as_function(made)["function"]["name"] == "x__y" and describe_tools([made])


@given(st.text())
def test_what_a_server_says_is_one_bounded_line_that_closes_nothing(text: str) -> None:
    line = clean_server_text(text, 40)
    assert len(line) <= 40 and len(line.splitlines()) <= 1
    assert not has_invisible(line) and not set("<>`") & set(line)


def test_what_endpoints_do_not_take_of_a_schema_is_checked_and_not_told() -> None:
    schema = {**of(a={"type": "array"}, b={}), "anyOf": [{"required": ["a"]}, {"required": ["b"]}], "required": []}
    made = tool(schema)
    assert made.schema == {"type": "object", "properties": {"a": {"type": "array", "items": {}}, "b": {}}}
    made.args.model_validate({"b": 1})
    with pytest.raises(ValidationError):
        made.args.model_validate({})
    by_id, by_name = of(id={"type": "string"}, of={"type": "string"}), of(name={"type": "string"}, of={"enum": [1]})
    alternatives = [{**by_id, "required": ["id"]}, {**by_name, "required": ["name"]}]
    for schema in ({"type": "object", "anyOf": alternatives}, {"oneOf": alternatives}):
        made = tool(schema)
        told = as_function(made)["function"]["parameters"]
        assert {"id", "name", "of"} <= told["properties"].keys() and "anyOf" not in told, "those of every alternative"
        assert told["properties"]["of"] == {"anyOf": [{"type": "string"}, {"enum": [1]}]}
        made.args.model_validate({"name": "x", "of": 1})
        for wrong in ({}, {"id": 1}, {"name": "x", "of": "y"}):
            with pytest.raises(ValidationError):
                made.args.model_validate(wrong)
    with pytest.raises(UnusableToolError, match="no object"):
        tool({"anyOf": [by_id, {"type": "string"}]})
    odd = {"日期": {"type": "string", "description": "first day"}, "$filter": {}, "user.id": {}, "note": {}}
    made = tool({**of(**odd), "required": ["日期", "gone"]})
    told = as_function(made)["function"]["parameters"]
    assert all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", one) for one in told["properties"])
    assert set(told["required"]) < told["properties"].keys() and "gone" in told["required"]
    [day] = [one for one in told["properties"] if told["properties"][one].get("description") == "日期: first day"]
    made.args.model_validate({day: "1 May", "gone": 1, "user.id": 2})
    made.args.model_validate({"日期": "1 May", "gone": 1})
    for wrong in ({day: 5, "gone": 1}, {day: "1 May"}):
        with pytest.raises(ValidationError):
            made.args.model_validate(wrong)
    pair = {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False}
    assert describe_schema_errors(simplify_schema(of(a=pair)), {"a": ["x", 1]}) == ""
