"""People: who they are, and who may call."""

import asyncio
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from bot.chat.slack.directory import SlackMembers
from bot.core.errors import ChatError
from bot.people.directory import PlatformDirectory
from bot.people.directory_file import DirectoryEntry, read_directory_file
from bot.people.member_cache import BATCH_SIZE
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


def people(desk: Desk, tmp_path: Path, **more: float) -> PlatformDirectory:
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
    return PlatformDirectory(SlackMembers(desk.client, ME.team), read_directory_file(path), **more)


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


async def test_a_member_is_a_caller_and_not_everybody_else(desk: Desk, tmp_path: Path) -> None:
    directory = people(desk, tmp_path)
    caller = await directory.find_caller("U01ZHANG")
    assert caller is not None and caller.person.name == "Zhang San"
    for id in ("U05", "U06", "U07", "U08", "USLACKBOT", "U0BOT", "U99", "nobody", "", "../U1"):
        assert await directory.find_caller(id) is None, id


async def test_who_is_not_in_the_companys_file_is_known_as_such(desk: Desk, tmp_path: Path) -> None:
    poser = member("U66", "李四", "mallory@example.com")
    poser["profile"]["title"] = "CFO"
    desk.slack.members.append(poser)
    found = await people(desk, tmp_path).find_person("U66")
    assert found is not None and (found.title, found.is_title_official, found.is_in_directory) == ("CFO", False, False)
    without = await PlatformDirectory(SlackMembers(desk.client, ME.team), {}).find_person("U66")
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


async def test_a_time_zone_that_this_machine_does_not_know_is_utc(desk: Desk, tmp_path: Path) -> None:
    directory, odd = people(desk, tmp_path), ("Mars/Olympus_Mons", "../etc/passwd", "", None)
    desk.slack.members += [member(f"U{number}", "Far Away", tz=tz) for number, tz in enumerate(odd, 11)]
    found = [await directory.find_person(f"U{number}") for number in range(11, 15)]
    assert [one and one.timezone for one in found] == ["UTC"] * len(odd)


# Managers and departments from the workspace's profile fields


def custom(id: str, label: str, **options: Any) -> dict[str, Any]:
    return {"id": id, "label": label, "type": "text", "options": {"is_protected": True, "is_scim": False} | options}


MANAGER, DEPARTMENT = custom("Xf1", "Manager"), custom("Xf2", "部门")


def slack(desk: Desk, *fields: dict[str, Any], **said: str) -> PlatformDirectory:
    """张 has `said` in the field Xf1 or Xf2."""
    desk.slack.fields = list(fields)
    desk.slack.profiles = {"U01ZHANG": said, "U04ZHAO": {}}
    return PlatformDirectory(SlackMembers(desk.client, ME.team), {})


async def facts(directory: PlatformDirectory, id: str = "U01ZHANG") -> tuple[str | None, str]:
    person = await directory.find_person(id)
    assert person is not None
    return person.manager, person.department


@pytest.mark.parametrize("said", ["U04ZHAO", "ZhaoLiu@example.com"])
async def test_manager_and_department_come_from_the_profile(desk: Desk, said: str) -> None:
    directory = slack(desk, MANAGER, DEPARTMENT, custom("Xf3", "Shoe size"), Xf1=said, Xf2=" 销售 ", Xf3="41")
    assert await facts(directory) == ("U04ZHAO", "销售")
    assert await facts(directory, "U04ZHAO") == (None, "")
    assert len(desk.slack.called("team.profile.get")) == 1
    assert all(list(call) == ["user"] for call in desk.slack.called("users.profile.get")), "never with labels"


async def test_labels_are_known_in_both_languages(desk: Desk) -> None:
    for label in ("manager", "MANAGER", "主管", "上级"):
        assert await facts(slack(desk, custom("Xf1", label), Xf1="U04ZHAO")) == ("U04ZHAO", ""), label


async def test_the_file_goes_before_the_profile(desk: Desk) -> None:
    slack(desk, MANAGER, DEPARTMENT, Xf1="U01ZHANG", Xf2="Sales")
    both = DirectoryEntry(email="zhangsan@example.com", manager="zhaoliu@example.com", department="Legal")
    one = both.model_copy(update={"department": ""})
    for said, department, calls in ((both, "Legal", 1), (one, "Sales", 2)):
        desk.slack.calls.clear()
        directory = PlatformDirectory(SlackMembers(desk.client, ME.team), {said.email: said})
        await directory.list_people()
        assert await facts(directory) == ("U04ZHAO", department)
        assert len(desk.slack.called("users.profile.get")) == calls, "who is in the file is not asked for"


async def test_what_people_can_write_themselves_is_no_authority(desk: Desk) -> None:
    for options in ({"is_protected": False}, {"is_protected": None}):
        desk.slack.calls.clear()
        assert await facts(slack(desk, custom("Xf1", "Manager", **options), Xf1="U04ZHAO")) == (None, "")
        assert desk.slack.called("users.profile.get") == []
        by_scim = slack(desk, custom("Xf1", "Manager", **options, is_scim=True), Xf1="U04ZHAO")
        assert await facts(by_scim) == ("U04ZHAO", "")


async def test_a_manager_is_an_id_or_an_address_and_never_a_name(desk: Desk) -> None:
    desk.slack.members.append(member("U06", "Guest", "guest@example.com", is_restricted=True))
    desk.slack.members.append(member("U07", "gone@example.com", "seven@example.com"))
    for said in ("Zhao Liu", "zhao", "U99", "gone@example.com", "U06", "", "<@U04ZHAO>"):
        assert await facts(slack(desk, MANAGER, Xf1=said)) == (None, ""), said


async def test_without_profiles_people_are_still_there(desk: Desk) -> None:
    faults: list[str | float] = ["missing_scope", "not_allowed_token_type", "fatal_error", 30.0]
    for method, fault in product(("team.profile.get", "users.profile.get"), faults):
        directory = slack(desk, MANAGER, Xf1="U04ZHAO")
        desk.slack.faults = defaultdict(list, {method: [fault] * 5})
        assert {p.id for p in await directory.list_people()} == {"U01ZHANG", "U04ZHAO"}, (method, fault)


async def test_nobody_is_read_twice_until_their_record_changes(desk: Desk) -> None:
    slack(desk, MANAGER, Xf1="U04ZHAO")
    now = [0.0]
    directory = PlatformDirectory(SlackMembers(desk.client, ME.team), {}, listed_s=1, clock=lambda: now[0])
    for _ in range(3):
        await directory.list_people()
        assert await facts(directory) == ("U04ZHAO", "")
    assert [call["user"] for call in desk.slack.called("users.profile.get")] == ["U01ZHANG", "U04ZHAO"]
    desk.slack.profiles["U01ZHANG"] = {}
    now[0] += 100
    await directory.catch_up()
    assert await facts(directory) == ("U04ZHAO", "")
    desk.slack.members[0]["updated"] = 7
    now[0] += 100
    await directory.catch_up()
    assert await facts(directory) == (None, "")


async def test_many_are_read_a_part_at_a_time(desk: Desk) -> None:
    now = [0.0]
    slack(desk, MANAGER, Xf1="U04ZHAO")
    desk.slack.members += [member(f"U1{n:03d}", f"Person {n}") for n in range(BATCH_SIZE)]
    directory = PlatformDirectory(SlackMembers(desk.client, ME.team), {}, clock=lambda: now[0])
    assert len(await directory.list_people()) == BATCH_SIZE + 2
    assert desk.slack.called("users.profile.get") == [], "nobody waits for so many"
    for _ in range(3):
        await directory.catch_up()
        assert len(desk.slack.called("users.profile.get")) == BATCH_SIZE
    now[0] = 61
    await directory.catch_up()
    assert len(desk.slack.called("users.profile.get")) == len(desk.slack.members)


async def test_a_newcomers_profile_is_read_too(desk: Desk) -> None:
    directory = slack(desk, MANAGER)
    await directory.list_people()
    desk.slack.members.append(member("U10", "New", "new@example.com"))
    desk.slack.profiles["U10"] = {"Xf1": "U04ZHAO"}
    assert await facts(directory, "U10") == ("U04ZHAO", "")
