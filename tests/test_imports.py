"""What tests share stands where nothing is tested: no test module imports from another."""

from __future__ import annotations

import ast
from pathlib import Path

HERE = Path(__file__).parent


def find_imports_of_tests(source: str) -> list[str]:
    """Test modules that a module imports from."""
    named = list[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            named += [f"{node.module}.{one.name}" for one in node.names]
        elif isinstance(node, ast.Import):
            named += [one.name for one in node.names]
    return [one for one in named if one.startswith("tests.") and ".test_" in one]


def test_no_module_imports_from_a_test_module() -> None:
    found = {str(file.relative_to(HERE)): find_imports_of_tests(file.read_text()) for file in HERE.rglob("*.py")}
    assert {file: names for file, names in found.items() if names} == {}


def test_negative_control_each_way_to_import_one_is_found() -> None:
    ways = "from tests.core.test_a import b\nfrom tests.core import test_a\nimport tests.core.test_a as c\nimport os\n"
    assert len(find_imports_of_tests(ways)) == 3
