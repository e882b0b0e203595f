import ast
import re
import string
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from bot.core.i18n import load_sentences
from tests.harness.corpus import corpus
from tests.tools.office import ABOUT_THE_CALLER
from tools.catalog import TOOLS
from tools.error_advice import ADVICE, ENGINE
from tools.mcp.tool_adapter import ERRORS as OF_SERVERS
from tools.tasks.task_actions import WITHDRAWAL_WORDS, WORDS
from tools.tool import Tool
from tools.workflow.engine.commands import SignPosition
from tools.workflow.engine.state import ALLOWED, OPEN, Decision, Status, TaskKind

SOURCES = [*sorted(Path("tools").rglob("*.py")), Path("bot/core/held_lease.py")]
OF_COMMANDS = {"not_movable", "not_ready", "tool_failed"}
"""Errors of administrators' commands, which no tool raises; and that of a tool which is written wrongly."""


@corpus("tool", *TOOLS)
def test_an_example_fits_and_arguments_have_names_that_say_nothing_of_the_caller(tool: Tool) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", tool.name)
    for code, advice in tool.errors.items():
        assert advice.strip(), code
    tool.args.model_validate(tool.example)
    schema = tool.args.model_json_schema()
    assert {"seen", "form_sha", "draft"}.isdisjoint(schema.get("properties", {})), "what the program sets"
    for name in schema.get("properties", {}):
        assert not ABOUT_THE_CALLER.match(name), name
        assert name != "reason", "that is why the step is taken, and goes no further than the step"
    assert schema.get("additionalProperties") is False, "an unknown argument is refused"


def errors() -> Iterator[tuple[str, set[str]]]:
    """The code and the parameters of every `ToolError` that is made; also where a function that is given the code makes
    it."""
    trees = {source: ast.parse(source.read_text(encoding="utf-8")) for source in SOURCES}
    for source, tree in trees.items():
        for made in (one for one in list_calls(tree) if ast.unparse(one.func) == "ToolError"):
            if isinstance(made.args[0], ast.Constant):
                yield str(made.args[0].value), list_keywords(made)
                continue
            maker = [
                f for f in ast.walk(tree)
                if isinstance(f, ast.FunctionDef) and f.lineno <= made.lineno <= (f.end_lineno or 0)
            ][-1]  # fmt: skip
            assert ast.unparse(made.args[0]) == maker.args.args[0].arg
            places = [tree] if maker.name.startswith("_") else list(trees.values())
            calls = [one for place in places for one in list_calls(place) if ast.unparse(one.func) == maker.name]
            assert calls, f"{source}:{made.lineno}"
            for call in calls:
                assert isinstance(call.args[0], ast.Constant), f"{maker.name}:{call.lineno}"
                yield str(call.args[0].value), list_keywords(made) | list_keywords(call)


def list_calls(tree: ast.Module) -> list[ast.Call]:
    return [one for one in ast.walk(tree) if isinstance(one, ast.Call)]


def list_keywords(call: ast.Call) -> set[str]:
    return {one.arg for one in call.keywords if one.arg}


@cache
def raised() -> frozenset[str]:
    return frozenset(code for code, _ in errors())


def test_every_error_has_advice_a_card_and_words() -> None:
    named = {code for tool in TOOLS for code in tool.errors}
    assert set(OF_SERVERS) <= raised() and set(OF_SERVERS).isdisjoint(named)
    elsewhere = OF_COMMANDS | set(ENGINE) | set(OF_SERVERS)
    assert raised() - elsewhere <= named | {code for tool in TOOLS for code in tool.also}
    assert {code for tool in TOOLS for code in tool.also} <= set(ADVICE)
    assert set(ADVICE) <= raised(), "advice about errors that nothing raises"
    assert {f"error.{code}" for code in raised()} <= set(load_sentences())


def test_the_parameters_of_errors_fill_their_words() -> None:
    given: dict[str, set[str]] = {}
    for code, keywords in errors():
        names = keywords - {"ask", "field"}
        given[code] = given.get(code, names) & names
    for code, names in given.items():
        for text in load_sentences()[f"error.{code}"].values():
            assert {name for _, name, _, _ in string.Formatter().parse(text) if name} <= names, code


def test_every_key_that_code_puts_together_has_words() -> None:
    assert set(composed()) <= set(load_sentences())


def composed() -> Iterator[str]:
    yield from (f"status.{s}" for s in (*Status, "revise_reject", "revise_return"))
    yield from (f"title.{kind}" for kind in (*TaskKind, "revise_reject", "revise_return"))
    yield from (
        f"{topic}.{word}" for topic in ("result", "effect") for word in (*WORDS.values(), *WITHDRAWAL_WORDS.values())
    )
    yield from (f"choice.{doing}" for doing in WORDS)
    yield from (f"timeline.{decision}" for decision in Decision)
    yield from (f"timeline.revoke_{decision}" for decision in ALLOWED[TaskKind.REVOKE])
    yield from (f"{key}_{where}" for key in ("timeline.add_sign", "title.add_sign") for where in SignPosition)
    yield from (f"timeline.ended_{status}" for status in set(Status) - OPEN)
    yield from (f"fact.said_{word}" for word in (*Decision, "transfer", "add_sign", "comment"))
    yield from (f"fact.silent_{word}" for word in (Decision.APPROVE, "transfer", "add_sign"))


def test_no_schema_has_titles_which_only_say_the_names_again_and_names_are_unique() -> None:
    assert len({t.name for t in TOOLS}) == len(TOOLS)
    titled = [tool.name for tool in TOOLS if "title" in tool.schema]
    for tool in TOOLS:
        for parts in (tool.schema.get("properties", {}), tool.schema.get("$defs", {})):
            titled += [f"{tool.name}.{name}" for name, one in parts.items() if isinstance(one, dict) and "title" in one]
    assert titled == []
