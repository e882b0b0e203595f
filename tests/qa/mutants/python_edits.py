"""What is changed in Python: guards and statements dropped, conditions turned, comparisons moved, elements and keyword
arguments removed, returns changed. Log lines, assertions, annotations and decorators stay as they are."""

import ast
import re
from itertools import accumulate

from tests.qa.mutants.mutant import Edit

_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: (r"\bis\b", "is not"),
    ast.IsNot: (r"\bis\s+not\b", "is"),
    ast.In: (r"\bin\b", "not in"),
    ast.NotIn: (r"\bnot\s+in\b", "in"),
}
"""How each is written, and what comes in its place."""
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_TWINS = {"min": "max", "max": "min", "any": "all", "all": "any"}
_LOGGERS = frozenset({"log", "logger", "_log", "_logger"})
_Placed = ast.expr | ast.stmt | ast.pattern | ast.keyword  # everything that says where it stands


def list_python_edits(source: str) -> list[Edit]:
    """Every edit that leaves valid Python."""
    finder = _EditFinder(source)
    finder.visit(ast.parse(source))
    return [edit for edit in finder.edits if _is_valid(source[: edit.start] + edit.text + source[edit.end :])]


def _is_valid(source: str) -> bool:
    try:
        compile(source, "mutant", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


class _EditFinder(ast.NodeVisitor):
    def __init__(self, source: str) -> None:
        self.edits = list[Edit]()
        self._source, self._lines = source, source.splitlines(keepends=True)
        self._starts = [0, *accumulate(map(len, self._lines))]
        self._scope, self._returns, self._in_class = list[str](), list[str](), False

    # Where nothing is changed

    def _skip(self, node: ast.AST) -> None:
        """Python 3.11 does not say where the parts of a formatted string stand."""

    visit_Assert = visit_JoinedStr = visit_arguments = _skip

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)
        if not isinstance(node.slice, ast.Tuple):
            self.visit(node.slice)

    # Where things stand

    def _visit_scope(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        before, self._in_class = self._in_class, isinstance(node, ast.ClassDef)
        returns = getattr(node, "returns", None)
        self._returns.append(ast.unparse(returns) if returns else "")
        self._scope.append(node.name)
        for one in node.body:
            self.visit(one)
        self._scope.pop()
        self._returns.pop()
        self._in_class = before

    visit_ClassDef = visit_FunctionDef = visit_AsyncFunctionDef = _visit_scope

    # Conditions

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self._replace(node.test, "False")
        self._turn(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        if not isinstance(node.test, ast.Constant):
            self._replace(node.test, "False")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._turn(node.test)
        self.generic_visit(node)

    def _visit_guarded(self, node: ast.comprehension | ast.match_case) -> None:
        for test in node.ifs if isinstance(node, ast.comprehension) else filter(None, [node.guard]):
            self._replace(test, "True")
            self._turn(test)
        self.generic_visit(node)

    visit_comprehension = visit_match_case = _visit_guarded

    def visit_MatchOr(self, node: ast.MatchOr) -> None:
        for left, right in zip(node.patterns, node.patterns[1:], strict=False):
            self._add(self._start(left), self._start(right), "")
        self._add(self._end(node.patterns[-2]), self._end(node.patterns[-1]), "")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        neutral = "True" if isinstance(node.op, ast.And) else "False"
        for operand in node.values:
            if not (operand is node.values[-1] and isinstance(operand, ast.Constant | ast.JoinedStr)):
                self._replace(operand, neutral)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._add(self._start(node), self._start(node) + len("not"), "")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            written, becomes = _COMPARISONS[type(operator)]
            start = self._end(left)
            if found := re.search(written, self._source[start : self._start(right)]):
                self._add(start + found.start(), start + found.end(), becomes)
        self.generic_visit(node)

    # Statements and returns

    def _drop(self, node: ast.stmt) -> None:
        self._replace(node, "pass")
        self.generic_visit(node)

    visit_AugAssign = visit_Delete = visit_Raise = visit_Continue = visit_Break = _drop

    def visit_Expr(self, node: ast.Expr) -> None:
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        if not (isinstance(value, ast.Constant | ast.Yield | ast.YieldFrom) or _is_log_line(value)):
            self._drop(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if all(isinstance(one, ast.Attribute | ast.Subscript) for one in node.targets):
            self._replace(node, "pass")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        known = node.value.value if isinstance(node.value, ast.Constant) else ...
        if node.value is None:
            self._replace(node, "pass")
        elif self._returns and self._returns[-1] == "bool":
            for answer in (True, False):
                if known is not answer:
                    self._replace(node, f"return {answer}")
        elif known is not None:
            self._replace(node, "return None")
        self.generic_visit(node)

    # Elements and values

    def visit_Tuple(self, node: ast.Tuple) -> None:
        if isinstance(node.ctx, ast.Load) and self._source[self._start(node)] == "(":
            if len(node.elts) == 2:  # what is left needs its comma
                first, last = node.elts
                self._add(self._start(first), self._end(last), f"{self._text(last)},")
                self._remove(last)
            else:
                self._remove(*node.elts)
        self.generic_visit(node)

    def visit_List(self, node: ast.List) -> None:
        if isinstance(node.ctx, ast.Load):
            self._remove(*node.elts)
        self.generic_visit(node)

    def visit_Set(self, node: ast.Set) -> None:
        if len(node.elts) > 1:
            self._remove(*node.elts)
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None:
                self._remove_span(self._start(key), self._end(value))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in _TWINS:
            self._replace(node.func, _TWINS[node.func.id])
        if self._scope and not self._in_class:  # `strict` of `zip` is an assertion
            self._remove(*(one for one in node.keywords if one.arg not in (None, "strict")))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        counts = any(isinstance(one, ast.Constant) and type(one.value) is int for one in (node.left, node.right))
        if counts and isinstance(node.op, ast.Add | ast.Sub):
            written, becomes = ("+", "-") if isinstance(node.op, ast.Add) else ("-", "+")
            at = self._source.index(written, self._end(node.left))
            self._add(at, at + 1, becomes)
        self.generic_visit(node)

    # Edits

    def _turn(self, test: ast.expr) -> None:
        """Unless the test is one that is turned by itself."""
        is_comparison = isinstance(test, ast.Compare) and not isinstance(test.ops[0], _ORDERS)
        if not (is_comparison or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not))):
            self._replace(test, f"not ({self._text(test)})")

    def _remove(self, *elements: _Placed) -> None:
        for one in elements:
            self._remove_span(self._start(one), self._end(one))

    def _remove_span(self, start: int, end: int) -> None:
        """With the comma that follows, if there is one."""
        comma = re.compile(r"\s*,[ \t]*").match(self._source, end)
        self._add(start, comma.end() if comma else end, "")

    def _replace(self, node: _Placed, text: str) -> None:
        self._add(self._start(node), self._end(node), text)

    def _add(self, start: int, end: int, text: str) -> None:
        self.edits.append(Edit(start, end, text, ".".join(self._scope)))

    def _text(self, node: _Placed) -> str:
        return self._source[self._start(node) : self._end(node)]

    def _start(self, node: _Placed) -> int:
        return self._find_offset(node.lineno, node.col_offset)

    def _end(self, node: _Placed) -> int:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._find_offset(node.end_lineno, node.end_col_offset)

    def _find_offset(self, line: int, column: int) -> int:
        """`ast` counts the bytes of a line."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())


def _is_log_line(value: ast.expr) -> bool:
    """`log.info(…)`, also `self._log.bind(…).info(…)`."""
    called = ast.walk(value.func) if isinstance(value, ast.Call) else ()
    return any(getattr(one, "id", getattr(one, "attr", "")) in _LOGGERS for one in called)
