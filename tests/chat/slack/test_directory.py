"""People: who they are, and who may call."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bot.chat.slack.directory import SlackDirectory, read_directory_file
from bot.core.errors import ChatError, SettingsError
from tests.chat.slack.conftest import Desk
from tests.chat.slack.doubles import ME, member

FILE = """
[[person]]
email = "ZhangSan@example.com"
manager = "zhaoliu@example.com"
title = "Engineer"
names = ["老张"]

[[person]]
email = "zhaoliu@example.com"
roles = ["finance"]

[[person]]
email = "guest@example.com"
roles = ["director"]
"""


def people(desk: Desk, tmp_path: Path, **more: float) -> SlackDirectory:
    path = tmp_path / "directory.toml"
    path.write_text(FILE, encoding="utf-8")
    desk.slack.members += [
        member("U05", "Gone", "gone@example.com", deleted=True),
        member("U06", "Guest", "guest@example.com", is_restricted=True),
        member("U07", "Elsewhere", "zhaoliu@example.com", team_id="T9", is_stranger=True),
        member("U08", "Robot", is_bot=True),
        member("USLACKBOT", "Slackbot"),
        member("U0BOT", "Countersign", is_bot=True),
    ]
    return SlackDirectory(desk.client, read_directory_file(path), team=ME.team, **more)


async def test_people_with_the_facts_slack_does_not_know(desk: Desk, tmp_path: Path) -> None:
    desk.slack.pages = 3
    everyone = {person.id: person for person in await people(desk, tmp_path).list_people()}
    assert set(everyone) == {"U01ZHANG", "U04ZHAO"}
    zhang = everyone["U01ZHANG"]
    assert (zhang.name, zhang.names) == ("Zhang San", ("zhang", "老张"))
    assert (zhang.manager, zhang.title, zhang.language) == ("U04ZHAO", "Engineer", "zh")
    assert (zhang.email, zhang.timezone) == ("zhangsan@example.com", "Asia/Shanghai")
    assert (zhang.is_title_official, zhang.is_in_directory) == (True, True)
    assert everyone["U04ZHAO"].roles == {"finance"}
    assert len(desk.slack.called("users.list")) == 3


async def test_names_and_titles_have_nothing_invisible_in_them(desk: Desk, tmp_path: Path) -> None:
    there = people(desk, tmp_path)
    profile = {"real_name": "Li\u200b \u202eSi\u3164", "display_name": "\u2060", "title": "Boss\u2028👩‍💻"}
    desk.slack.members.append(member("U09", "lisi\u00ad", "x@example.com") | {"profile": profile})
    found = await there.find_person("U09")
    assert found is not None and (found.name, found.names, found.title) == ("Li Si", ("lisi",), "Boss👩‍💻")


@pytest.mark.parametrize("id", ["U05", "U06", "U07", "U08", "USLACKBOT", "U0BOT", "U99", "nobody", "", "../U1"])
async def test_not_everybody_is_a_caller(desk: Desk, tmp_path: Path, id: str) -> None:
    assert await people(desk, tmp_path).find_caller(id) is None


async def test_a_member_is_a_caller(desk: Desk, tmp_path: Path) -> None:
    caller = await people(desk, tmp_path).find_caller("U01ZHANG")
    assert caller is not None
    assert caller.person.name == "Zhang San"


async def test_who_is_not_in_the_companys_file_is_known_as_such(desk: Desk, tmp_path: Path) -> None:
    poser = member("U66", "李四", "mallory@example.com")
    poser["profile"]["title"] = "CFO"
    desk.slack.members.append(poser)
    found = await people(desk, tmp_path).find_person("U66")
    assert found is not None and (found.title, found.is_title_official, found.is_in_directory) == ("CFO", False, False)
    without = await SlackDirectory(desk.client, {}, team=ME.team).find_person("U66")
    assert without is not None and without.is_in_directory is None, "without a file nobody is missing from it"
    guest = await people(desk, tmp_path).find_person("U06")
    assert guest is not None and guest.is_in_directory is False, "the file is about members"


async def test_guests_have_a_name_and_no_authority(desk: Desk, tmp_path: Path) -> None:
    guest = await people(desk, tmp_path).find_person("U06")
    assert guest is not None
    assert (guest.name, guest.active, guest.roles) == ("Guest", False, frozenset())


async def test_slack_is_asked_once_for_many(desk: Desk, tmp_path: Path) -> None:
    directory = people(desk, tmp_path)
    await asyncio.gather(*(directory.find_person("U04ZHAO") for _ in range(20)))
    assert [method for method, _ in desk.slack.calls if method.startswith("users.")][:1] == ["users.info"]
    assert len(desk.slack.called("users.info")) == 1
    await asyncio.gather(*(directory.list_people() for _ in range(20)))
    assert len(desk.slack.called("users.list")) == 1


async def test_everybody_is_read_again_after_a_while(desk: Desk, tmp_path: Path) -> None:
    directory = people(desk, tmp_path, listed_s=-1)
    assert await directory.find_caller("U01ZHANG")
    desk.slack.members[0]["deleted"] = True
    assert await directory.find_caller("U01ZHANG"), "in the background, and nobody waits for it"
    await directory.catch_up()
    assert await directory.find_caller("U01ZHANG") is None


async def test_the_list_is_the_same_until_somebody_changes(desk: Desk, tmp_path: Path) -> None:
    there = people(desk, tmp_path)
    before = await there.list_people()
    assert await there.list_people() is before
    desk.slack.members.append(member("U09", "New", "new@example.com"))
    await there.find_person("U09")
    after = await there.list_people()
    assert {one.id for one in after} == {one.id for one in before} | {"U09"}


async def test_newcomers_are_looked_up_and_strangers_only_once(desk: Desk, tmp_path: Path) -> None:
    directory = people(desk, tmp_path)
    await directory.list_people()
    desk.slack.members.append(member("U10", "New", "new@example.com"))
    for _ in range(3):
        assert await directory.find_caller("U10")
        assert await directory.find_caller("U99") is None
    assert [call["user"] for call in desk.slack.called("users.info")] == ["U10", "U99"]


async def test_slack_being_away_makes_nobody_a_caller(desk: Desk, tmp_path: Path) -> None:
    directory = people(desk, tmp_path)
    desk.slack.faults["users.info"] = ["fatal_error"] * 3
    with pytest.raises(ChatError):
        await directory.find_caller("U01ZHANG")
    desk.slack.faults["users.list"] = ["fatal_error"] * 3
    with pytest.raises(ChatError):
        await directory.list_people()
    assert await directory.find_caller("U01ZHANG"), "the control"


@pytest.mark.parametrize("text", ["[[person]]\nname = 1", "[[person", '[[person]]\nemail = "a"\nroles = "finance"'])
def test_an_odd_file_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "people.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=r"people\.toml"):
        read_directory_file(path)
    with pytest.raises(SettingsError, match=r"none\.toml"):
        read_directory_file(tmp_path / "none.toml")
    assert read_directory_file(None) == {}


@pytest.mark.parametrize("tz", ["Mars/Olympus_Mons", "../etc/passwd", "", None])
async def test_a_time_zone_that_this_machine_does_not_know_is_utc(desk: Desk, tmp_path: Path, tz: str | None) -> None:
    desk.slack.members.append(member("U11", "Far Away", tz=tz))
    found = await people(desk, tmp_path).find_person("U11")
    assert found is not None and found.timezone == "UTC"
