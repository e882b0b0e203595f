"""The company's own rules: read from the files that the settings name, or refused by setting and reason."""

import re
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.app.company_files import load_calendar, load_policy, open_handbook
from bot.app.engine import open_engine_from_settings
from bot.app.settings import Settings
from bot.core.errors import SettingsError
from bot.ops.doctor import check_calendar
from tests.harness.corpus import corpus
from tests.harness.processes import FILES
from tests.tools.office import People
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.process.calendar import KNOWN_YEARS
from tools.workflow.process.definition import compile_process, load_shipped_processes

ROW = '[[policy]]\nprocess = "leave"\nlevel = "approver"\nwho = ["role hr"]\n'
FORMS = [process.form for process in load_shipped_processes()]


def settings(**given: Any) -> Settings:
    return Settings(_env_file=None, **given)


def file(folder: Path, text: bytes) -> Path:
    path = folder / "rules.toml"
    path.write_bytes(text)
    return path


def test_a_companys_own_country_days_and_rows(tmp_path: Path) -> None:
    path = file(tmp_path, b'[days]\n2026-12-24 = "off"\n')
    calendar = load_calendar(settings(calendar_country="DE", calendar_file=path))
    assert calendar.measure_working_time((date(2026, 12, 23), "am"), (date(2026, 12, 28), "pm")).working_days == 2
    [row] = load_policy(settings(policy_file=file(tmp_path, ROW.encode())), FORMS)
    assert (row.process, row.level, row.who[0].name) == ("leave", "approver", "hr")


async def test_rows_for_a_process_that_was_deployed_count_too(tmp_path: Path, redis: Redis) -> None:
    given = settings(policy_file=file(tmp_path, ROW.replace('"leave"', '"trip"').replace("hr", "director").encode()))
    with pytest.raises(SettingsError, match="there is no process 'trip'"):
        async with open_engine_from_settings(given, redis, People()):
            pass
    bpmn, form = ((FILES / f"trip.{kind}").read_bytes() for kind in ("bpmn", "toml"))
    async with open_engine_from_settings(settings(), redis, People()) as engine:
        assert isinstance(engine, EmbeddedEngine)
        await engine.deploy_process(compile_process(bpmn, form))
    async with open_engine_from_settings(given, redis, People()) as engine:
        assert "trip" in {process.key for process in await engine.list_processes()}


@corpus(
    ("setting", "value", "reason"),
    ("calendar_country", "XX", "CALENDAR_COUNTRY: 'XX' is no country"),
    ("calendar_file", b"[days]\n2027-01-02 = 'free'", "CALENDAR_FILE: 2027-01-02 is 'free'"),
    ("policy_file", ROW.replace("leave", "x").encode(), "POLICY_FILE: policy row 1: there"),
    ("policy_file", b"[[policy]]\nwho = []", "POLICY_FILE: policy row 1, level: Field required"),
    ("policy_file", b"\xff", "rules.toml is not UTF-8"),
    ("policy_file", "none.toml", "none.toml cannot be read: No such file"),
)
def test_an_odd_file_or_country_is_refused_with_setting_and_reason(
    tmp_path: Path, setting: str, value: str | bytes, reason: str
) -> None:
    given = settings(**{setting: file(tmp_path, value) if isinstance(value, bytes) else value})
    with pytest.raises(SettingsError, match=re.escape(reason)):
        load_calendar(given)
        load_policy(given, FORMS)


def test_the_handbook_is_read_at_the_start_or_refused_by_file(tmp_path: Path) -> None:
    assert open_handbook(None).folder is None
    (tmp_path / "leave.md").write_text("# 月底\n不休假。", encoding="utf-8")
    assert [one.id for one in open_handbook(tmp_path).load_snapshot().search_sections("月底")] == ["leave.md#月底"]
    (tmp_path / "odd.md").write_bytes(b"\xff")
    with pytest.raises(SettingsError, match=r"HANDBOOK_DIR: odd\.md: is not UTF-8"):
        open_handbook(tmp_path)
    with pytest.raises(SettingsError, match="HANDBOOK_DIR: none: No such file"):
        open_handbook(tmp_path / "none")


@pytest.mark.slow
def test_where_no_server_is_configured_its_sdk_is_not_imported() -> None:
    """It takes as long to import as all the rest."""
    look = "import sys, bot.app.build, bot.ops.doctor, bot.ops.cli\n"
    look += "print([one for one in ('mcp', 'jsonschema') if one in sys.modules])"
    said = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True, timeout=250)
    assert said.stdout.strip() == "[]"


def test_doctor_says_which_years_are_known_warns_in_time_and_names_a_country_without_a_calendar() -> None:
    china, last = settings(calendar_country="CN"), KNOWN_YEARS[-1]
    [known] = check_calendar(china, date(last, 11, 30))
    assert (known.level, known.subject) == ("ok", "calendar") and f"to {last};" in known.text
    assert [one.level for one in check_calendar(china, date(last, 12, 1))] == ["warn"]
    [abroad] = check_calendar(settings(calendar_country="DE-BY"), date(last, 12, 1))
    assert (abroad.level, abroad.text) == ("ok", "holidays of DE-BY are worked out from 1991 to 2100")
    for country in ("XX", "Germany", "DE-XX"):
        [wrong] = check_calendar(settings(calendar_country=country), date(2026, 11, 28))
        assert (wrong.level, wrong.subject) == ("fail", "CALENDAR_COUNTRY"), wrong
        assert wrong.text == f"{country!r} is no country that has a calendar; write it like CN or DE-BY"
