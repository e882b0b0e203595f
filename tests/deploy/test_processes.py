"""What runs several processes lets them: nothing in it is for one alone, and each has the time to end well."""

from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.chat.slack.app import DRAIN_S
from bot.core.timing import Timing
from bot.queue import worker

DEPLOY = Path(__file__).parent.parent.parent / "deploy"


@pytest.fixture
def unit() -> ConfigParser:
    parser = ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string((DEPLOY / "countersign.service").read_text())
    return parser


@pytest.fixture
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    return found


def test_the_time_to_end_is_longer_than_an_end_can_take(unit: ConfigParser, services: dict[str, Any]) -> None:
    longest = max(Timing().grace_s, DRAIN_S) + worker._FINAL_WRITE_S
    assert float(unit["Service"]["TimeoutStopSec"]) >= longest + 5
    assert float(services["bot"]["stop_grace_period"].removesuffix("s")) >= longest + 5


def test_the_unit_serves_as_a_template(unit: ConfigParser) -> None:
    """Instances are told apart by nothing; with a user of its own each would take the others' state directory."""
    service = unit["Service"]
    assert (service["DynamicUser"], service["User"], service["StateDirectory"]) == ("yes", *["countersign"] * 2)
    assert "%i" not in (text := (DEPLOY / "countersign.service").read_text()) and "countersign@.service" in text
    assert service["Restart"] == "always" and "KillSignal" not in service


def test_the_container_can_be_there_several_times(services: dict[str, Any]) -> None:
    bot = services["bot"]
    assert not {"container_name", "ports", "network_mode", "hostname"} & set(bot)
    assert bot["environment"]["REDIS_URL"] and bot["depends_on"]["valkey"]["condition"] == "service_healthy"
    text = (DEPLOY / "compose.yaml").read_text()
    assert "--scale bot=" in text and "SIGTERM" in (DEPLOY / "Dockerfile").read_text()
