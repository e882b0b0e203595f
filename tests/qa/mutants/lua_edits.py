"""What is changed in Lua: calls, returns and flags of commands dropped, conditions dropped and turned, comparisons
moved."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lupa import lua51

from tests.qa.mutants.mutant import Edit

_TOKEN = re.compile(
    r"""(?P<blank>\s+|--[^\n]*)
      | (?P<string>'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")
      | (?P<name>[A-Za-z_]\w*)
      | (?P<number>\d+(?:\.\d+)?)
      | (?P<sign>\.\.\.|\.\.|==|~=|<=|>=|.)""",
    re.VERBOSE,
)
_MOVED = {"==": "~=", "~=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_REPLACED = {**_MOVED, "min": "max", "max": "min", "not": ""}
_EQUALS = frozenset({"==", "~="})
_OPENERS, _CLOSERS = frozenset("([{"), frozenset(")]}")
_BLOCK_ENDS = frozenset({"end", "else", "elseif", "until"})
_UNFINISHED = frozenset({"and", "or", "not", "return", "=", ",", "(", "{", "[", "..", "+", "-", "*", "/", *_MOVED})
"""After one of these comes an expression, no statement."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


def list_lua_edits(source: str) -> list[Edit]:
    """Every edit that leaves valid Lua."""
    finder = _EditFinder(source)
    return [edit for edit in finder.find_edits() if is_valid_lua(source[: edit.start] + edit.text + source[edit.end :])]


def is_valid_lua(source: str) -> bool:
    """As the language of a Redis server: Lua 5.1."""
    try:
        lua51.LuaRuntime().compile(f"return function() {source}\nend")
    except lua51.LuaSyntaxError:
        return False
    return True


class _EditFinder:
    def __init__(self, source: str) -> None:
        self._source = source
        found = (one for one in _TOKEN.finditer(source) if one.lastgroup != "blank")
        self._tokens = [_Token(str(one.lastgroup), one[0], *one.span()) for one in found]

    def find_edits(self) -> Iterator[Edit]:
        for at, token in enumerate(self._tokens):
            if token.kind == "string":
                continue
            if token.text in ("if", "elseif", "while"):
                yield from self._change_condition(at)
            elif token.text == "return" and not self._is_alone(at, self._find_block_end(at) - 1):
                yield self._build_edit(at, self._find_block_end(at) - 1, "")
            elif token.text in _REPLACED:
                yield self._build_edit(at, at, _REPLACED[token.text])
            elif token.kind == "name":
                yield from self._change_call(at)

    def _change_condition(self, at: int) -> Iterator[Edit]:
        is_loop = self._text(at) == "while"
        first, last = at + 1, self._find(at, "do" if is_loop else "then") - 1
        yield self._build_edit(first, last, "false")
        if is_loop:
            return
        signs = [self._text(one) for one in range(first, last + 1)]
        if signs[0] != "not" and not (_EQUALS & set(signs) and not {"and", "or"} & set(signs)):
            yield self._build_edit(first, last, f"not ({self._source[self._start(first) : self._end(last)]})")
        operator = "or" if self._find(at, "or", last) <= last else "and"
        start = first
        while start <= last:
            stop = self._find(start - 1, operator, last) - 1
            if (start, stop) != (first, last):
                yield self._build_edit(start, stop, "false" if operator == "or" else "true")
            start = stop + 2

    def _change_call(self, at: int) -> Iterator[Edit]:
        """Drops a call that is a statement, and flags of a command."""
        stop = at + 1
        while self._text(stop) == "." and self._tokens[stop + 1].kind == "name":
            stop += 2
        if self._text(stop) != "(" or self._text(at - 1) in (".", "function"):
            return
        end = self._find_closing(stop)
        if self._is_statement(at, end) and not self._is_alone(at, end):
            yield self._build_edit(at, end, "")
        if self._text(at) == "redis":
            commas = [one for one in range(stop, end) if self._text(one) == ","]
            for comma in commas[1:]:
                if self._tokens[comma + 1].kind == "string" and self._text(comma + 2) in (",", ")"):
                    yield self._build_edit(comma, comma + 1, "")

    def _is_statement(self, at: int, end: int) -> bool:
        signs = [one.text for one in self._tokens[:at] if one.kind == "sign"]
        is_inside = sum(one in _OPENERS for one in signs) > sum(one in _CLOSERS for one in signs)
        before, after = self._text(at - 1), self._text(end + 1)
        if before in _UNFINISHED or is_inside:
            return False
        line_begins = not at or "\n" in self._source[self._end(at - 1) : self._start(at)]
        is_last = end + 1 == len(self._tokens) or "\n" in self._source[self._end(end) : self._start(end + 1)]
        return (is_last or after in _BLOCK_ENDS) and (line_begins or before in {"then", "do", "else", ")"})

    def _is_alone(self, first: int, last: int) -> bool:
        """True for all that a condition guards: dropping the condition is the same."""
        return self._text(first - 1) == "then" and self._text(last + 1) == "end"

    def _find(self, at: int, text: str, last: int | None = None) -> int:
        """The next one outside of brackets, or the place after the last token."""
        depth, most = 0, len(self._tokens) - 1 if last is None else last
        for one in range(at + 1, most + 1):
            depth += (self._text(one) in _OPENERS) - (self._text(one) in _CLOSERS)
            if depth == 0 and self._text(one) == text:
                return one
        return most + 1

    def _find_closing(self, at: int) -> int:
        depth = 0
        for one in range(at, len(self._tokens)):
            depth += (self._text(one) in _OPENERS) - (self._text(one) in _CLOSERS)
            if depth == 0:
                return one
        return len(self._tokens) - 1

    def _find_block_end(self, at: int) -> int:
        """Where the block of a `return` ends. Functions inside of what it returns have ends of their own."""
        depth = 0
        for one in range(at + 1, len(self._tokens)):
            text = self._text(one)
            if text in _BLOCK_ENDS and depth == 0:
                return one
            depth += (text == "function") - (text == "end")
        return len(self._tokens)

    def _text(self, at: int) -> str:
        """A string is none of the words and signs that are looked for."""
        if not 0 <= at < len(self._tokens) or self._tokens[at].kind == "string":
            return ""
        return self._tokens[at].text

    def _start(self, at: int) -> int:
        return self._tokens[at].start

    def _end(self, at: int) -> int:
        return self._tokens[at].end

    def _build_edit(self, first: int, last: int, text: str) -> Edit:
        functions = re.findall(r"^(?:local )?function ([\w.]+)", self._source[: self._start(first)], re.MULTILINE)
        return Edit(self._start(first), self._end(last), text, functions[-1] if functions else "")
