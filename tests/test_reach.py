"""What `deploy/test --changed` chooses; and what tests share stands where nothing is tested."""

import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.reach import ROOT, find_reached_tests, read_imports

IMPORTS = {
    "bot/a.py": set[str](),
    "bot/b.py": {"bot/a.py"},
    "bot/c.py": set[str](),
    "tests/conftest.py": {"bot/c.py"},
    "tests/test_a.py": {"bot/a.py"},
    "tests/test_b.py": {"bot/b.py"},
    "tests/test_c.py": {"bot/c.py"},
}


def test_a_change_reaches_what_imports_it_the_nearest_first() -> None:
    assert find_reached_tests(["bot/a.py"], IMPORTS) == ["tests/test_a.py", "tests/test_b.py"]
    assert find_reached_tests(["bot/b.py"], IMPORTS) == ["tests/test_b.py"]
    assert find_reached_tests(["bot/c.py"], IMPORTS) == ["tests/test_c.py"], "not by way of conftest.py"
    assert find_reached_tests(["tests/test_b.py"], IMPORTS) == ["tests/test_b.py"]
    assert find_reached_tests(["bot/words/some.toml"], IMPORTS) == find_reached_tests(
        ["bot/a.py", "bot/b.py", "bot/c.py"], IMPORTS
    ), "a file that is no module stands for the modules of its folder"
    assert find_reached_tests(["README.md"], IMPORTS) == ["tests/deploy"]
    assert find_reached_tests(["pyproject.toml"], IMPORTS) == ["tests"]
    assert find_reached_tests([], IMPORTS) == []


@cache
def read_imports_once() -> Mapping[str, set[str]]:
    return read_imports()


def test_the_imports_of_this_tree_are_seen() -> None:
    imports = read_imports_once()
    assert "bot/core/clock.py" in imports["bot/app/resources.py"]
    assert "tests/reach.py" in imports["tests/test_reach.py"]
    reached = find_reached_tests(["bot/approvals/press.py"], imports)
    assert "tests/approvals/test_press.py" in reached and "tests/agent/test_tokens.py" not in reached


def is_test_module(file: str) -> bool:
    return Path(file).name.startswith("test_")


def test_no_module_imports_from_a_test_module() -> None:
    imports = read_imports_once()
    assert len([file for file in imports if is_test_module(file)]) > 200, "they are looked for where they are"
    assert {file: found for file, used in imports.items() if (found := [*filter(is_test_module, used)])} == {}


def test_negative_control_each_way_to_import_a_test_module_is_found(tmp_path: Path) -> None:
    ways = ("from tests.test_a import b", "from tests import test_a", "import tests.test_a as c", "import os")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").touch()
    for number, way in enumerate(ways):
        (tmp_path / "tests" / f"way_{number}.py").write_text(f"def f():\n    {way}\n")
    assert [bool(used) for file, used in read_imports(tmp_path).items() if "way" in file] == [True, True, True, False]


def test_an_unknown_commit_is_told_in_one_line() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "tests.reach", "no-such-commit"], cwd=ROOT, capture_output=True, text=True
    )
    assert told.returncode == 1 and "no-such-commit" in told.stderr and told.stderr.count("\n") == 1
