"""The demo handbook says what the shipped processes, settings and people of the demo really do."""

import re
import tomllib
from itertools import product
from pathlib import Path

import pytest

from bot.app.services import open_services
from bot.app.settings import Settings
from tools.handbook.folder import Handbook
from tools.workflow.process.definition import load_shipped_processes

DEMO = Path("bot/dev/demo")
BOOK = Handbook(DEMO / "handbook").load_snapshot()


def told(section: str) -> str:
    found = BOOK.find_section(section)
    assert found is not None, section
    return " ".join(found.text.replace(",", "").split())


def levels() -> list[str]:
    """The lengths of a leave at which another level begins."""
    text = (Path("tools/workflow/definitions") / "leave.bpmn").read_text(encoding="utf-8")
    return re.findall(r"\$\{days (?:&lt;=|&gt;) (\d+)\}", text)


def test_approvers_allowances_and_limits_are_those_of_processes_settings_and_people() -> None:
    assert levels() == ["1", "3", "10"]
    for section, days in product(("leave.zh.md#谁审批", "leave.en.md#Who approves"), levels()):
        assert re.search(rf"\b{days} (个工作日|working days?)", told(section)), (section, days)
    people = tomllib.loads((DEMO / "directory.toml").read_text(encoding="utf-8"))["person"]
    [own] = [one["annual_days"] for one in people if "annual_days" in one]
    for section in ("leave.zh.md#年假天数", "leave.en.md#Annual leave allowance"):
        everybody = Settings.model_fields["annual_leave_days"].default
        assert re.findall(r"\d+", told(section)) == [everybody, str(own)]
    for section in ("expense.zh.md#谁审批报销", "expense.en.md#Who approves expenses"):
        assert re.findall(r"\d+", told(section)) == [Settings.model_fields["finance_threshold"].default]


@pytest.mark.parametrize("language", ["zh", "en"])
def test_every_kind_of_leave_is_named(language: str) -> None:
    [leave] = [process.form for process in load_shipped_processes() if process.key == "leave"]
    [kinds] = [field.choices for field in leave.fields if field.name == "leave_type"]
    text = told("leave.zh.md#假期种类" if language == "zh" else "leave.en.md#Kinds of leave").lower()
    for kind in kinds:
        assert getattr(kind, language).lower().removesuffix(" leave") in text, kind.value


def test_both_languages_have_a_section_for_each_matter() -> None:
    count = {file: sum(one.file == file for one in BOOK.sections) for file in {one.file for one in BOOK.sections}}
    assert count["leave.zh.md"] == count["leave.en.md"] > 12
    assert count["expense.zh.md"] == count["expense.en.md"] > 12


async def test_the_local_workspace_has_it_unless_there_is_another(tmp_path: Path) -> None:
    for given, folder in ((None, "handbook"), (tmp_path, tmp_path.name)):
        settings = Settings(_env_file=None, data_dir=tmp_path, redis_url="redis://x", handbook_dir=given)
        async with open_services(settings, start=False) as outside:
            assert outside.handbook_dir is not None and outside.handbook_dir.name == folder
    real = Settings(
        _env_file=None, data_dir=tmp_path, redis_url="redis://x", slack_bot_token="xoxb-1", slack_app_token="xapp-1"
    )
    async with open_services(real, start=False) as outside:
        assert outside.handbook_dir is None
