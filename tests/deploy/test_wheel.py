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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what the image is built from: what an earlier build has left in the tree would come too."""
    source = tmp_path_factory.mktemp("source")
    for copied in re.findall(r"^COPY (?!--)(.+) \S+$", (ROOT / "deploy" / "Dockerfile").read_text(), re.M):
        for name in copied.split():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / name, source / name, ignore=ignored, dirs_exist_ok=True)
            else:
                shutil.copy(ROOT / name, source / name)
    subprocess.run([sys.executable, "-c", BUILD, "dist"], cwd=source, check=True, capture_output=True)
    return next((source / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of a fresh environment with the wheel. What it depends on is lent by this one."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    lent = [path for path in sys.path if path.endswith("site-packages") and Path(path).is_dir()]
    packages.joinpath("lent.pth").write_text("\n".join(lent))
    install = ["-m", "pip", "--python", folder / "bin" / "python", "install", "--no-deps", "--no-index", wheel]
    subprocess.run([sys.executable, *install], check=True, capture_output=True)
    return folder / "bin"


def list_source_files() -> set[str]:
    """What the program is made of, as it should be named in the wheel."""
    files = [file for folder in ("bot", "tools") for file in (ROOT / folder).rglob("*") if file.is_file()]
    names = {file.relative_to(ROOT).as_posix() for file in files if "__pycache__" not in file.parts}
    return names - {"bot/README.md", "tools/README.md"}


def test_the_wheel_has_everything_that_the_program_reads_what_an_administrator_copies_and_nothing_else(
    wheel: Path,
) -> None:
    """No tests, no settings of whoever built it, nothing of an earlier build."""
    wanted, endings = list_source_files(), {"py", "toml", "lua", "js", "css", "html", "svg", "bpmn", "tsv"}
    assert {file.rpartition(".")[2] for file in wanted} >= endings
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name for name in names if ".dist-info/" not in name and ".data/" not in name} == wanted
    copied = {name.rpartition("/")[2] for name in names if "/data/share/countersign/" in name}
    manifests = {"slack-manifest.yaml", "feishu-scopes.json"}
    assert copied == {"env.example", "mcp.example.toml", "countersign.service"} | manifests


@pytest.mark.slow
def test_it_runs_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    """Its doctor finds nothing wrong, and what runs is what was installed."""
    program, env = installed / "python", {"PATH": os.environ["PATH"]}
    command = [program, VISIT, installed / "countersign", str(free_ports())]
    run = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=280, check=False)
    assert run.returncode == 0, run.stderr
    seen: dict[str, Any] = json.loads(run.stdout)
    print({name: seen[name] for name in ("alone", "locked")})
    assert "<html" in seen["index"] and seen["texts"] > 50
    assert seen["doctor"]["code"] == 0 and "FAIL" not in seen["doctor"]["said"]
    assert seen["code"] in (0, 130)
    assert [file.name for file in tmp_path.iterdir()] == [".countersign"], "it leaves its data folder and nothing else"
    say = "import bot, tools; print(bot.__file__); print(tools.__file__)"
    told = subprocess.run([program, "-c", say], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert all(Path(line).is_relative_to(installed.parent) for line in told.splitlines())
