from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.texts import LANGUAGES, say, sentences
from tools.advice import ADVICE
from tools.catalog import TOOLS
from tools.spec import Gate
from tools.tool import Tool
from tools.workflow.state import Status

SOURCES = sorted(Path("tools").rglob("*.py"))
ABOUT_THE_CALLER = re.compile(
    r"^(user|caller|actor|sender|initiator|requester|employee|my|from|who)(_?(id|name|user))?$"
)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda t: t.name)
def test_a_card_has_every_part(tool: Tool) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", tool.name)
    for part in ("purpose", "use_when", "avoid_when", "returns"):
        assert getattr(tool, part).strip(), part
    for code, advice in tool.errors.items():
        assert advice.strip(), code
    tool.args.model_validate(tool.example)
    if tool.gate is Gate.NONE:
        assert tool.prepare is None and tool.stored is None
    else:
        assert tool.prepare is not None and tool.stored is not None


@pytest.mark.parametrize("tool", TOOLS, ids=lambda t: t.name)
def test_every_argument_is_described_and_none_says_who_is_asking(tool: Tool) -> None:
    schema = tool.args.model_json_schema()
    for name, described in schema.get("properties", {}).items():
        assert described.get("description", "").strip(), name
        assert not ABOUT_THE_CALLER.match(name), name
        assert name != "reason", "that is why the step is taken, and goes no further than the step"
    assert schema.get("additionalProperties") is False, "an unknown argument is refused"


def test_what_the_program_sets_is_not_offered_to_the_model() -> None:
    for tool in TOOLS:
        assert {"seen", "form_sha", "draft"}.isdisjoint(tool.args.model_json_schema().get("properties", {}))


def test_names_are_unique() -> None:
    assert len({t.name for t in TOOLS}) == len(TOOLS)


def errors() -> Iterator[tuple[str, ast.Call]]:
    """Every place where a `ToolError` is made, and its code."""
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ToolError":
                assert isinstance(node.args[0], ast.Constant), f"{source}:{node.lineno}"
                yield str(node.args[0].value), node


def raised() -> set[str]:
    return {code for code, _ in errors()}


def test_every_error_has_advice_a_card_and_words() -> None:
    named = {code for tool in TOOLS for code in tool.errors}
    assert raised() <= named
    assert set(ADVICE) <= raised(), "advice about errors that nothing raises"
    assert {f"error.{code}" for code in raised()} <= set(sentences())


def test_the_parameters_of_errors_fill_their_words() -> None:
    given: dict[str, set[str]] = {}
    for code, node in errors():
        names = {k.arg for k in node.keywords if k.arg} - {"ask", "field"}
        given[code] = given.get(code, names) & names
    for code, names in given.items():
        for language in LANGUAGES:
            assert placeholders(sentences()[f"error.{code}"][language]) <= names, code


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_every_key_in_the_code_has_words() -> None:
    topics = ("title", "fact", "result", "effect")
    pattern = re.compile(rf"\"((?:{'|'.join(topics)})\.[a-z_]+)\"")
    used = {key for source in SOURCES for key in pattern.findall(source.read_text(encoding="utf-8"))}
    assert len(used) > 15
    missing = used - set(sentences())
    assert not missing
    for key in (*(f"status.{s}" for s in Status), *(f"tool.{t.name}" for t in TOOLS), "title.approve", "title.revise"):
        assert key in sentences()


def test_both_languages_ask_for_the_same_parameters() -> None:
    for key, words in sentences().items():
        if key.split(".")[0] in ("title", "fact", "result", "effect", "error", "status", "label", "choice", "tool"):
            assert set(words) == set(LANGUAGES), key
            assert placeholders(words["zh"]) == placeholders(words["en"]), key


def test_words_are_said() -> None:
    params: dict[str, Any] = {"process": {"zh": "请假", "en": "leave"}, "request": "L-0012"}
    assert say("effect.started", "zh", **params) == "发起了请假申请 L-0012"
    assert say("effect.started", "en", **params) == "started leave request L-0012"
