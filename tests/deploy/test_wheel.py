"""The wheel has everything, and runs where nothing of the source tree is: no files, and no network either."""

import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.harness.programs import free_ports

ROOT = Path(__file__).parents[2]
VISIT = Path(__file__).with_name("visit.py")
BUILD = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
PAPERS = "README.md"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what the image is built from: what an earlier build has left in the tree would come too."""
    source = tmp_path_factory.mktemp("source")
    for copied in re.findall(r"^COPY (?!--)(.+) \S+$", (ROOT / "deploy" / "Dockerfile").read_text(), re.M):
        for name in copied.split():
            copy_source(name, source)
    subprocess.run([sys.executable, "-c", BUILD, "dist"], cwd=source, check=True, capture_output=True)
    return next((source / "dist").glob("*.whl"))


def copy_source(name: str, target: Path) -> None:
    if (ROOT / name).is_dir():
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, target / name, ignore=ignored, dirs_exist_ok=True)
    else:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target / name)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of a fresh environment with the wheel. What it depends on is lent by this one."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    lent = [path for path in sys.path if path.endswith("site-packages") and Path(path).is_dir()]
    packages.joinpath("lent.pth").write_text("\n".join(lent))
    install = [
        "-m",
        "pip",
        "--python",
        str(folder / "bin" / "python"),
        "install",
        "--no-deps",
        "--no-index",
        str(wheel),
    ]
    subprocess.run([sys.executable, *install], check=True, capture_output=True)
    return folder / "bin"


def list_source_files() -> set[str]:
    """What the program is made of, as it should be named in the wheel."""
    files = [file for folder in ("bot", "tools") for file in (ROOT / folder).rglob("*") if file.is_file()]
    names = {file.relative_to(ROOT).as_posix() for file in files if "__pycache__" not in file.parts}
    return names - {f"{folder}/{PAPERS}" for folder in ("bot", "tools")}


def find_missing_files(wheel: Path, wanted: set[str]) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return wanted - set(archive.namelist())


def test_everything_the_program_reads_is_in_the_wheel(wheel: Path) -> None:
    wanted = list_source_files()
    assert {file.rpartition(".")[2] for file in wanted} >= {
        "py",
        "toml",
        "lua",
        "js",
        "css",
        "html",
        "svg",
        "bpmn",
        "tsv",
    }
    assert not find_missing_files(wheel, wanted)


def test_control_a_file_that_is_not_there_is_missed(wheel: Path) -> None:
    assert find_missing_files(wheel, {"bot/queue/lua/put.lua", "bot/queue/lua/gone.lua"}) == {"bot/queue/lua/gone.lua"}


def test_the_wheel_has_nothing_else(wheel: Path) -> None:
    """No tests, no settings of whoever built it, nothing of an earlier build."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name and ".data/" not in name}
    assert names == list_source_files()


def test_what_an_administrator_copies_comes_with_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name.rpartition("/")[2] for name in archive.namelist() if "/data/share/countersign/" in name}
    assert names == {"env.example", "slack-manifest.yaml", "mcp.example.toml", "countersign.service"}


@pytest.fixture(scope="module")
def seen(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    empty = tmp_path_factory.mktemp("empty")
    run = subprocess.run(
        [installed / "python", VISIT, installed / "countersign", str(free_ports())],
        cwd=empty,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found: dict[str, Any] = json.loads(run.stdout)
    print({name: found[name] for name in ("alone", "locked")})
    return {**found, "left": sorted(file.name for file in empty.iterdir())}


@pytest.mark.slow
def test_it_runs_from_an_empty_folder(seen: dict[str, Any]) -> None:
    assert "<html" in seen["index"] and seen["texts"] > 50
    assert seen["code"] in (0, 130)
    assert seen["left"] == [".countersign"], "it leaves its data folder and nothing else"


@pytest.mark.slow
def test_its_doctor_finds_nothing_wrong(seen: dict[str, Any]) -> None:
    assert seen["doctor"]["code"] == 0 and "FAIL" not in seen["doctor"]["said"]


@pytest.mark.slow
def test_what_runs_is_what_was_installed(installed: Path, tmp_path: Path) -> None:
    say = "import bot, tools; print(bot.__file__); print(tools.__file__)"
    run = subprocess.run([installed / "python", "-c", say], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert all(Path(line).is_relative_to(installed.parent) for line in run.stdout.splitlines())
