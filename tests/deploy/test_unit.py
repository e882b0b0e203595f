"""The systemd unit: what it takes away from the program."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

UNIT = Path(__file__).parents[2] / "deploy" / "countersign.service"
MOST_EXPOSED = 1.5
"""Of 10, as `systemd-analyze security` counts: what is left are network, sockets and the files of the machine, which it
may read where everybody may."""


def measure_exposure(unit: Path) -> float:
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", said.stdout)
    if found is None:
        pytest.skip(f"this systemd cannot look at a file: {said.stderr.strip()}")
    return float(found[1])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_little_that_it_could_do(tmp_path: Path) -> None:
    assert measure_exposure(UNIT) <= MOST_EXPOSED
    open_one = tmp_path / "open.service"
    open_one.write_text("[Service]\nExecStart=/bin/true\n")
    assert measure_exposure(open_one) > 9, "control: a unit that takes nothing away"


def test_every_line_of_the_unit_is_known_to_systemd() -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    said = subprocess.run(["systemd-analyze", "verify", str(UNIT)], capture_output=True, text=True, check=False).stderr
    assert not [line for line in said.splitlines() if "countersign.service" in line and "executable" not in line]


def test_what_it_writes_is_for_it_alone() -> None:
    lines = UNIT.read_text(encoding="utf-8").splitlines()
    assert {"UMask=0077", "StateDirectoryMode=0700", "PrivateTmp=yes", "ProtectSystem=strict"} <= set(lines)
