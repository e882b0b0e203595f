"""A new tool runs at once: laid out in a copy of the sources, checked, tested and played there."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest

from bot.ops.cli import new
from tests.harness.programs import ROOT, invoke


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources."""
    folder = tmp_path_factory.mktemp("tree")
    for name in ("bot", "tools", "tests", "deploy"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "recorded"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def run(tree: Path, *words: str) -> tuple[int, str]:
    """Run a module of Python in the copy. Return its exit code and its output."""
    env = {"PYTHONPATH": str(tree), "LANG": "en_US.UTF-8", "PATH": str(Path(sys.executable).parent), "COLUMNS": "200"}
    done = subprocess.run([sys.executable, "-m", *words], cwd=tree, env=env, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def list_files(tree: Path) -> Sequence[Path]:
    return sorted(file for file in tree.rglob("*") if file.is_file() and file.suffix != ".pyc")


def test_a_new_tool_runs_at_once(tree: Path) -> None:
    before = set(list_files(tree))
    code, said = run(tree, "bot", "new", "tool", "order_lunch")
    assert code == 0 and "Wrote tools/order_lunch/tool.py" in said, said
    written = [str(file) for file in list_files(tree) if file not in before] + ["tools/catalog.py"]
    assert len(written) == 7 and run(tree, "bot", "check") == (0, "Nothing is missing\n")
    assert run(tree, "ruff", "check", *written)[0] == 0
    assert run(tree, "ruff", "format", "--check", "tools", "tests/tools")[0] == 0
    code, said = run(tree, "pytest", "-n", "0", "-q", "tests/tools/test_order_lunch.py")
    assert code == 0 and "2 passed" in said, said
    code, said = run(tree, "bot", "eval", "--only", "order_lunch")
    assert code == 0 and "2/2" in said, said


ODD, TAKEN = ("cannot be a name", "不能做名字"), ("There is already", "已经有")
REFUSED = dict.fromkeys(("Order-Lunch", "../lunch", "import", "a" * 41), ODD)
REFUSED |= dict.fromkeys(("send_email", "find_tools", "spec", "mail"), TAKEN)


def test_a_name_that_is_odd_or_taken_is_refused_as_is_any_without_sources_and_nothing_is_written(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = list_files(tree)
    for (name, words), (at, language) in product(REFUSED.items(), enumerate(("en_US.UTF-8", "zh_CN.UTF-8"))):
        monkeypatch.setattr(new, "ROOT", tree)
        monkeypatch.setenv("LANG", language)
        end = invoke(capsys, monkeypatch, "new", "tool", name)
        assert end.code == 1 and words[at] in end.err and len(end.err.splitlines()) == 1, (name, end)
    assert list_files(tree) == before
    monkeypatch.setattr(new, "ROOT", tmp_path)
    monkeypatch.setenv("LANG", "en_US.UTF-8")
    end = invoke(capsys, monkeypatch, "new", "tool", "order_lunch")
    assert end.code == 1 and "There is no source tree" in end.err and list_files(tmp_path) == []
