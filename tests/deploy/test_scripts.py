"""The scripts of `deploy`: help installs nothing, and packages come by uv or, where it fails, by pip."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.programs import ROOT

SCRIPTS = ["run", "test", "qa", "qa chaos", "lock", "digests", "confusables"]
INDEX = "https://mirror.example/simple"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the scripts, without an environment."""
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    return tmp_path


def test_help_is_told_and_installs_nothing(copy: Path, subtests: pytest.Subtests) -> None:
    before = sorted(copy.rglob("*"))
    for script in SCRIPTS:
        with subtests.test(script):
            told = subprocess.run(
                [f"deploy/{script.split()[0]}", *script.split()[1:], "--help"],
                cwd=copy, capture_output=True, text=True, check=True, timeout=20,
            )  # fmt: skip
            assert f"deploy/{script}" in told.stdout or "Starts Countersign" in told.stdout
            assert sorted(copy.rglob("*")) == before


def play_installer(copy: Path, uv_exit: int) -> list[str]:
    """Install a lock with a uv and a pip that only note their words; return the notes."""
    notes = copy / "notes"
    programs = {
        "path/uv": f'echo "uv $UV_DEFAULT_INDEX $*" >> {notes}; exit {uv_exit}',
        ".venv/bin/python": f'case "$*" in *"config list") echo "global.index-url=\'{INDEX}\'" ;; '
        f'*) echo "python $*" >> {notes} ;; esac',
    }
    for name, lines in programs.items():
        program = copy / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/bash\n{lines}\n")
        program.chmod(0o755)
    script = f"PATH={copy}/path:$PATH; . deploy/venv.sh; get_packages --require-hashes -r some.lock"
    subprocess.run(["bash", "-euc", script], cwd=copy, check=True, timeout=20, capture_output=True)
    return notes.read_text().splitlines()


def test_packages_come_by_uv_from_the_index_that_pip_is_told(copy: Path) -> None:
    [note] = play_installer(copy, uv_exit=0)
    assert note == f"uv {INDEX} pip install --python .venv/bin/python --quiet --require-hashes -r some.lock"


def test_where_uv_does_not_succeed_pip_does(copy: Path) -> None:
    _, note = play_installer(copy, uv_exit=2)
    assert note.startswith("python -m pip ")
    assert note.endswith(" install --retries 5 --quiet --require-hashes -r some.lock")
