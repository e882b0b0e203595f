"""The systemd unit: what it takes away from the program."""

import re
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest

from bot.core.timing import Timing
from bot.platforms.shared import DRAIN_S
from bot.queue import worker

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
def test_systemd_knows_every_line_and_finds_little_that_it_could_do(tmp_path: Path) -> None:
    said = subprocess.run(["systemd-analyze", "verify", str(UNIT)], capture_output=True, text=True, check=False).stderr
    assert not [line for line in said.splitlines() if "countersign.service" in line and "executable" not in line]
    assert measure_exposure(UNIT) <= MOST_EXPOSED
    open_one = tmp_path / "open.service"
    open_one.write_text("[Service]\nExecStart=/bin/true\n")
    assert measure_exposure(open_one) > 9, "control: a unit that takes nothing away"


def test_it_serves_as_a_template_has_the_time_to_end_and_what_it_writes_is_for_it_alone() -> None:
    """Instances are told apart by nothing; with a user of its own each would take the others' state directory."""
    unit, text = ConfigParser(interpolation=None, strict=False), UNIT.read_text(encoding="utf-8")
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    service = unit["Service"]
    assert (service["DynamicUser"], service["User"], service["StateDirectory"]) == ("yes", *["countersign"] * 2)
    assert "%i" not in text and "countersign@.service" in text
    assert service["Restart"] == "always" and "KillSignal" not in service
    assert float(service["TimeoutStopSec"]) >= max(Timing().grace_s, DRAIN_S) + worker._FINAL_WRITE_S + 5
    private = {"UMask": "0077", "StateDirectoryMode": "0700", "PrivateTmp": "yes", "ProtectSystem": "strict"}
    assert private.items() <= dict(service).items()
