"""Managers and departments from the workspace's profile fields: what is taken, what is not, and at what cost."""

from __future__ import annotations

from typing import Any

import pytest

from bot.chat.directory_file import DirectoryEntry
from bot.chat.slack.directory import SlackDirectory
from bot.chat.slack.profiles import BATCH_SIZE
from tests.chat.slack.conftest import Desk
from tests.chat.slack.doubles import ME, member


def custom(id: str, label: str, **options: Any) -> dict[str, Any]:
    return {"id": id, "label": label, "type": "text", "options": {"is_protected": True, "is_scim": False} | options}


MANAGER, DEPARTMENT = custom("Xf1", "Manager"), custom("Xf2", "部门")


def slack(desk: Desk, *fields: dict[str, Any], **said: str) -> SlackDirectory:
    """张 has `said` in the field Xf1 or Xf2."""
    desk.slack.fields = list(fields)
    desk.slack.profiles = {"U01ZHANG": said, "U04ZHAO": {}}
    return SlackDirectory(desk.client, {}, team=ME.team)


async def facts(directory: SlackDirectory, id: str = "U01ZHANG") -> tuple[str | None, str]:
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


@pytest.mark.parametrize("label", ["manager", "MANAGER", "主管", "上级"])
async def test_labels_are_known_in_both_languages(desk: Desk, label: str) -> None:
    assert await facts(slack(desk, custom("Xf1", label), Xf1="U04ZHAO")) == ("U04ZHAO", "")


async def test_the_file_goes_before_the_profile(desk: Desk) -> None:
    slack(desk, MANAGER, DEPARTMENT, Xf1="U01ZHANG", Xf2="Sales")
    both = DirectoryEntry(email="zhangsan@example.com", manager="zhaoliu@example.com", department="Legal")
    one = both.model_copy(update={"department": ""})
    for said, department, calls in ((both, "Legal", 1), (one, "Sales", 2)):
        desk.slack.calls.clear()
        directory = SlackDirectory(desk.client, {said.email: said}, team=ME.team)
        await directory.list_people()
        assert await facts(directory) == ("U04ZHAO", department)
        assert len(desk.slack.called("users.profile.get")) == calls, "who is in the file is not asked for"


@pytest.mark.parametrize("options", [{"is_protected": False}, {"is_protected": None}])
async def test_what_people_can_write_themselves_is_no_authority(desk: Desk, options: dict[str, Any]) -> None:
    directory = slack(desk, custom("Xf1", "Manager", **options), Xf1="U04ZHAO")
    assert await facts(directory) == (None, "")
    assert desk.slack.called("users.profile.get") == []
    assert await facts(slack(desk, custom("Xf1", "Manager", **options, is_scim=True), Xf1="U04ZHAO")) == ("U04ZHAO", "")


@pytest.mark.parametrize("said", ["Zhao Liu", "zhao", "U99", "gone@example.com", "U06", "", "<@U04ZHAO>"])
async def test_a_manager_is_an_id_or_an_address_and_never_a_name(desk: Desk, said: str) -> None:
    desk.slack.members.append(member("U06", "Guest", "guest@example.com", is_restricted=True))
    desk.slack.members.append(member("U07", "gone@example.com", "seven@example.com"))
    assert await facts(slack(desk, MANAGER, Xf1=said)) == (None, "")


@pytest.mark.parametrize("fault", ["missing_scope", "not_allowed_token_type", "fatal_error", 30.0])
@pytest.mark.parametrize("method", ["team.profile.get", "users.profile.get"])
async def test_without_profiles_people_are_still_there(desk: Desk, method: str, fault: str | float) -> None:
    directory = slack(desk, MANAGER, Xf1="U04ZHAO")
    desk.slack.faults[method] = [fault] * 5
    assert {p.id for p in await directory.list_people()} == {"U01ZHANG", "U04ZHAO"}


async def test_nobody_is_read_twice_until_their_record_changes(desk: Desk) -> None:
    slack(desk, MANAGER, Xf1="U04ZHAO")
    now = [0.0]
    directory = SlackDirectory(desk.client, {}, team=ME.team, listed_s=1, clock=lambda: now[0])
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
    directory = SlackDirectory(desk.client, {}, team=ME.team, clock=lambda: now[0])
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
