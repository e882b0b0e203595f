"""The directory file, as TOML and as CSV."""

import re
from decimal import Decimal
from importlib import resources
from pathlib import Path

import pytest

from bot.core.errors import SettingsError
from bot.people.directory_file import COLUMNS, DirectoryEntry, read_directory_file

LI = DirectoryEntry(
    email="Li@example.com",
    manager="wang@example.com",
    roles=frozenset({"finance", "director"}),
    title="组长",
    department="Sales, East",
    annual_days=Decimal("12.5"),
    names=("小李", "Lee"),
)
TOML = """
# people
[[person]]
email = "Li@example.com"
manager = "wang@example.com"
roles = ["finance", "director"]
title = "组长"
department = "Sales, East"
annual_days = 12.5
names = ["小李", "Lee"]

[[person]]
email = "wang@example.com"
"""
CSV = """\ufeffemail,manager,roles,title,department,annual_days,names
Li@example.com,wang@example.com,finance; director,组长,"Sales, East",12.5,小李;Lee
wang@example.com,,,,,,
"""


def read(folder: Path, text: str, ending: str = "toml") -> dict[str, DirectoryEntry]:
    path = folder / f"people.{ending}"
    path.write_text(text, encoding="utf-8")
    return dict(read_directory_file(path))


def test_both_kinds_say_the_same_with_columns_left_out_or_in_any_order(tmp_path: Path) -> None:
    everybody = {"li@example.com": LI, "wang@example.com": DirectoryEntry(email="wang@example.com")}
    for text, ending in ((TOML, "toml"), (CSV, "csv"), (CSV, "CSV")):
        assert read(tmp_path, text, ending) == everybody
    assert read(tmp_path, "roles, email\r\nadmin,a@b\r\n", "csv")["a@b"].roles == {"admin"}
    assert read(tmp_path, "email\n", "csv") == {}
    assert read(tmp_path, "") == {}


ODD_TABLES = (
    ("email,boss\na@b,c@d", "line 1: the columns can be email, manager,"),
    ("manager\na@b", "line 1: the columns can be"),
    ("email,email\na@b,c@d", "line 1: the columns can be"),
    ("", "line 1: the columns can be"),
    ("email,title\na@b,x\nc@d", "line 3: 2 cells are needed"),
    ("email\na@b,x", "line 2: 1 cells are needed"),
    ("email,annual_days\na@b,lots", "line 2: annual_days: Input should be a valid decimal"),
    ("email,annual_days\na@b,-1", "line 2: annual_days: Input should be greater than or equal to 0"),
    ("email,annual_days\na@b,1.3", "line 2: annual_days: Input should be a multiple of 0.5"),
    ("email,annual_days\na@b,NaN", "line 2: annual_days: Input should be a finite number"),
    ("email\na@b\n\nA@B", "line 4: A@B stands on line 2 already"),
    ("email\nli", "line 2: email and manager should be e-mail addresses"),
    ("email,manager\na@b,li", "line 2: email and manager should be e-mail addresses"),
    ("email,manager\na@b,A@b", "line 2: nobody is their own manager"),
    ('email,title\na@b,"x\ny"\nc@d,"open', "unexpected end of data"),
)


ODD_TOML = (
    (TOML + 'boss = "x"', "line 12: boss: Extra inputs are not permitted"),
    (TOML + 'roles = "finance"', "line 12: roles: Input should be a valid frozenset"),
    (TOML + '\n [[ person ]] # again\nemail = "LI@example.com"', "line 15: LI@example.com stands on line 3 already"),
    (TOML + "[[person]]", "line 14: email and manager should be"),
    ("person = 1", "it should hold [[person]] tables and nothing else"),
    ("people = 1", "it should hold [[person]] tables and nothing else"),
    ('[[person]]\nemail = "a@b"\nemail = "c@d"', "Cannot overwrite a value"),
    ("[[person]]\nemail = a@b", "(at line 2, column 9)"),
)


def test_an_odd_file_is_refused_with_its_line(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for ending, odd in (("csv", ODD_TABLES), ("toml", ODD_TOML)):
        for text, reason in odd:
            match = rf"people\.{ending}.*{re.escape(reason)}"
            with subtests.test(reason), pytest.raises(SettingsError, match=match):
                read(tmp_path, text, ending)


def test_a_file_in_another_encoding_or_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes("email,title\na@b,组长".encode("gb18030"))
    with pytest.raises(SettingsError, match=r"people\.csv is odd: 'utf-8' codec"):
        read_directory_file(path)
    with pytest.raises(SettingsError, match=r"none\.csv"):
        read_directory_file(tmp_path / "none.csv")
    assert read_directory_file(None) == {}


def test_the_demo_file_names_every_column() -> None:
    text = resources.files("bot.dev").joinpath("demo", "directory.toml").read_text("utf-8")
    assert ",".join(COLUMNS) in text
