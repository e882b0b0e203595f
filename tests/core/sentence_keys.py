"""Which keys of sentences the code names: read from its syntax trees, in whatever way a key comes to its place.

A key in its place is the argument that ends as the key of `translate` or of a `TextRef`, through however many functions
of ours. A key anywhere else (a table, a default, a variable) is known by its topic.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "bot" / "dev" / "workspace" / "page"
KEY = re.compile(r"[a-z_]+(?:\.[a-z0-9_]+)+")
PIECE = re.compile(r"(?:[a-z_]+_|\(\.\*\)_)(?:\(\.\*\))+(?:_[a-z_]+)?|(?:\(\.\*\))+_[a-z_]+")
LEVELS = frozenset({"debug", "info", "warning", "error", "exception"})
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Module:
    """A module, read once."""

    name: str
    nodes: Sequence[ast.AST]

    def list_calls(self) -> Iterator[ast.Call]:
        return (node for node in self.nodes if isinstance(node, ast.Call))

    def scope(self, name: str) -> str:
        """A name with an underscore is its module's own; others are used from anywhere."""
        return f"{self.name}:{name}" if name.startswith("_") else name


@dataclass
class KeyUses:
    """What the modules say about keys."""

    places: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Function or class → where it takes a key: at which position, and under which name."""
    literals: dict[str, str] = field(default_factory=dict)
    """A key written in its place → where."""
    elsewhere: dict[str, str] = field(default_factory=dict)
    """Anything else in the shape of a key of one of the topics, but for events of the log → where."""
    patterns: dict[str, str] = field(default_factory=dict)
    """A key that is put together at run time, as a regular expression → where."""
    words: set[str] = field(default_factory=set)
    """Every word in code, or in the page of the workspace: the pieces of keys are among them."""
    pieces: set[str] = field(default_factory=set)
    """Words that are put together themselves, as regular expressions."""
    suffixes: set[str] = field(default_factory=set)
    """What is put behind a word."""

    @cached_property
    def _compiled(self) -> tuple[list[re.Pattern[str]], list[re.Pattern[str]]]:
        lazy = {one.replace("(.*)", "(.*?)") for one in self.pieces}
        return [re.compile(one) for one in self.patterns], [re.compile(one) for one in self.pieces | lazy]

    def is_named(self, key: str) -> bool:
        """The code writes this key, or puts it together from words that it writes."""
        found = (pattern.fullmatch(key) for pattern in self._compiled[0])
        is_built = (all(map(self._is_spelled, one.groups())) for one in found if one)
        return key in self.literals or key in self.elsewhere or any(is_built)

    def _is_spelled(self, piece: str, depth: int = 3) -> bool:
        if piece in self.words or piece.strip("_") in self.words or not piece:
            return True
        if depth == 0:
            return False
        if any(piece.endswith(one) and self._is_spelled(piece.removesuffix(one), depth - 1) for one in self.suffixes):
            return True
        found = [pattern.fullmatch(piece) for pattern in self._compiled[1]]
        return any(one and all(self._is_spelled(part, depth - 1) for part in one.groups()) for one in found)


def read_modules() -> list[Module]:
    files = [file for package in ("bot", "tools") for file in sorted((ROOT / package).rglob("*.py"))]
    return [parse_module(str(file.relative_to(ROOT)), file.read_text("utf-8")) for file in files]


def parse_module(name: str, text: str) -> Module:
    return Module(name, list(ast.walk(ast.parse(text))))


def read_page_words() -> set[str]:
    """Of the workspace's page, which names its own sentences in JavaScript."""
    files = [file for file in PAGE.iterdir() if file.suffix in (".js", ".html")]
    return {word for file in files for word in re.findall(r"\w+", file.read_text("utf-8"))}


def find_key_uses(modules: Sequence[Module], topics: Iterable[str]) -> KeyUses:
    uses, known = KeyUses(_find_key_places(modules)), frozenset(topics)
    for module in modules:
        _read_module(module, uses, known)
    return uses


def _read_module(module: Module, uses: KeyUses, topics: frozenset[str]) -> None:
    events = {id(one.args[0]) for one in module.list_calls() if _is_log_call(one)}
    inside = {id(part) for node in module.nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    placed = {id(key) for call in module.list_calls() for key in _list_keys(call, module, uses.places)}
    for node in module.nodes:
        where = f"{module.name}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
            uses.words.update(word for one in re.findall(r"\w+", text) for word in (one, one.lower()))
            if re.fullmatch("_[a-z_]+", text):
                uses.suffixes.add(text)
            if id(node) in placed:
                uses.literals[text] = where
            elif id(node) in inside | events:
                continue
            elif KEY.fullmatch(text) and text.partition(".")[0] in topics:
                uses.elsewhere[text] = where
            elif text.endswith(".") and text[:-1] in topics:
                uses.patterns[f"{re.escape(text)}(.+)"] = where
        elif isinstance(node, ast.JoinedStr):
            pattern = _build_pattern(node)
            topic = pattern.partition(r"\.")[0]
            if (topic in topics and " " not in pattern) or (id(node) in placed and not topic.startswith("(")):
                uses.patterns[pattern] = where
            elif PIECE.fullmatch(pattern):
                uses.pieces.add(pattern)
        else:
            names = (getattr(node, name, None) for name in ("id", "attr", "arg", "name"))
            uses.words.update(name.lower() for name in names if isinstance(name, str))


# Keys in their places


def _find_key_places(modules: Sequence[Module]) -> dict[str, tuple[int, str]]:
    """`translate` and `TextRef`, and whatever hands a parameter of its own on to one of them as the key."""
    places = {"translate": (0, "key"), "translate_pieces": (0, "key"), "TextRef": (99, "key")}
    functions = [
        (module, node, [one for one in ast.walk(node) if isinstance(one, ast.Call)])
        for module in modules
        for node in module.nodes
        if isinstance(node, Function)
    ]
    before = 0
    while before < len(places):
        before = len(places)
        for module, function, calls in functions:
            given = function.args
            names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs) if one.arg != "self"]
            for key in (key for call in calls for key in _list_keys(call, module, places)):
                if isinstance(key, ast.Name) and key.id in names:
                    places.setdefault(module.scope(function.name), (names.index(key.id), key.id))
    return places


def _list_keys(call: ast.Call, module: Module, places: Mapping[str, tuple[int, str]]) -> Iterator[ast.expr]:
    """What stands in the place of the key."""
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    if place := places.get(module.scope(name)):
        given = [*call.args[place[0] : place[0] + 1], *(one.value for one in call.keywords if one.arg == place[1])]
        yield from (key for one in given for key in _list_choices(one))


def _list_choices(node: ast.expr) -> Iterator[ast.expr]:
    """What an expression can give: both ends of a condition, the values of a table."""
    match node:
        case ast.IfExp(body=body, orelse=orelse):
            choices = [body, orelse]
        case ast.BoolOp(values=values) | ast.Subscript(value=ast.Dict(values=values)):
            choices = values
        case ast.NamedExpr(value=value):
            choices = [value]
        case _:
            yield node
            return
    yield from (choice for one in choices for choice in _list_choices(one))


def _build_pattern(node: ast.JoinedStr) -> str:
    """The regular expression of an f-string: a group for each piece that only the run knows."""
    pieces = list[str]()
    for one in node.values:
        value = one.value if isinstance(one, ast.FormattedValue) else one
        choices = list(_list_choices(value))  # type: ignore[arg-type]
        known = [re.escape(str(choice.value)) for choice in choices if isinstance(choice, ast.Constant)]
        pieces.append(
            "(.*)" if len(known) < len(choices) else known[0] if len(known) == 1 else f"(?:{'|'.join(known)})"
        )
    return "".join(pieces)


def _is_log_call(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in LEVELS and bool(call.args)
