"""People: who they are, and who may call."""

import asyncio
from collections import defaultdict
from itertools import product
from typing import Any

import pytest

from bot.core.errors import ChatError
from bot.people.directory import PlatformDirectory
from bot.people.directory_file import DirectoryEntry, DirectoryFile
from bot.people.member_cache import BATCH_SIZE
from tests.platforms.slack.conftest import Desk
from tests.platforms.slack.doubles import ME, member

FACTS = {
    entry.email: entry
    for entry in (
        DirectoryEntry(email="zhangsan@example.com", manager="zhaoliu@example.com", title="Engineer", names=("老张",)),
        DirectoryEntry(email="zhaoliu@example.com", roles=frozenset({"finance"})),
        DirectoryEntry(email="guest@example.com", roles=frozenset({"director"})),
    )
}


def people(desk: Desk, **more: float) -> PlatformDirectory:
    desk.slack.members += [
        member("U05", "Gone", "gone@example.com", deleted=True),
        member("U06", "Guest", "guest@example.com", is_restricted=True),
        member("U07", "Elsewhere", "zhaoliu@example.com", team_id="T9", is_stranger=True),
        member("U08", "Robot", is_bot=True),
        member("USLACKBOT", "Slackbot"),
        member("U0BOT", "Countersign", is_bot=True),
    ]
    return desk.open_directory(FACTS, **more)


async def test_people_with_the_facts_slack_does_not_know(desk: Desk) -> None:
    desk.slack.pages = 3
    everyone = {person.id: person for person in await people(desk).list_people()}
    assert set(everyone) == {"U01ZHANG", "U04ZHAO"}
    zhang = everyone["U01ZHANG"]
    assert (zhang.name, zhang.names) == ("Zhang San", ("zhang", "老张"))
    assert (zhang.manager, zhang.title, zhang.language) == ("U04ZHAO", "Engineer", "zh")
    assert (zhang.email, zhang.timezone) == ("zhangsan@example.com", "Asia/Shanghai")
    assert (zhang.is_title_official, zhang.is_in_directory) == (True, True)
    assert everyone["U04ZHAO"].roles == {"finance"}
    assert len(desk.slack.called("users.list")) == 3


async def test_odd_names_and_time_zones_are_read_as_they_can_be(desk: Desk) -> None:
    """Nothing invisible, and UTC for a time zone that this machine does not know."""
    directory, odd = people(desk), ("Mars/Olympus_Mons", "../etc/passwd", "", None)
    profile = {"real_name": "Li\u200b \u202eSi\u3164", "display_name": "\u2060", "title": "Boss\u2028👩‍💻"}
    for number, tz in enumerate(odd, 11):
        desk.slack.members.append(member(f"U{number}", "lisi\u00ad", tz=tz) | {"profile": profile})
        found = await directory.find_person(f"U{number}")
        assert found is not None and (found.name, found.names, found.title) == ("Li Si", ("lisi",), "Boss👩‍💻")
        assert found.timezone == "UTC"


async def test_a_member_is_a_caller_and_inside_and_of_all_others_only_our_bots_are_inside(desk: Desk) -> None:
    directory = people(desk)
    for id, odd in (("U09", {"team_id": "T9"}), ("U10", {"is_stranger": True}), ("U11", {"deleted": True})):
        desk.slack.members.append(member(id, "Another bot", is_bot=True, **odd))
    caller = await directory.find_caller("U01ZHANG")
    assert caller is not None and caller.person.name == "Zhang San" and await directory.is_inside("U01ZHANG")
    for id in ("U05", "U06", "U07", "U08", "U09", "U10", "U11", "USLACKBOT", "U0BOT", "U99", "nobody", "", "../U1"):
        assert await directory.find_caller(id) is None, id
        assert await directory.is_inside(id) == (id in ("U08", "USLACKBOT", ME.user)), id


async def test_who_is_not_in_the_companys_file_is_known_as_such(desk: Desk) -> None:
    poser = member("U66", "李四", "mallory@example.com")
    poser["profile"]["title"] = "CFO"
    desk.slack.members.append(poser)
    found = await people(desk).find_person("U66")
    assert found is not None and (found.title, found.is_title_official, found.is_in_directory) == ("CFO", False, False)
    without = await desk.open_directory().find_person("U66")
    assert without is not None and without.is_in_directory is None, "without a file nobody is missing from it"
    guest = await people(desk).find_person("U06")
    assert guest is not None and guest.is_in_directory is False, "the file is about members"
    assert (guest.name, guest.active, guest.roles) == ("Guest", False, frozenset())


async def test_everybody_is_read_again_after_a_while(desk: Desk) -> None:
    directory = people(desk, listed_s=-1)
    assert await directory.find_caller("U01ZHANG")
    desk.slack.members[0]["deleted"] = True
    assert await directory.find_caller("U01ZHANG"), "in the background, and nobody waits for it"
    await directory.catch_up()
    assert await directory.find_caller("U01ZHANG") is None


async def test_newcomers_are_looked_up_and_strangers_only_once(desk: Desk) -> None:
    directory = people(desk)
    await asyncio.gather(*(directory.find_person("U04ZHAO") for _ in range(20)))
    await asyncio.gather(*(directory.list_people() for _ in range(20)))
    asked = [method for method, _ in desk.slack.calls if method in ("users.info", "users.list")]
    assert asked == ["users.info", "users.list"], "once for many"
    before = await directory.list_people()
    assert await directory.list_people() is before
    desk.slack.members.append(member("U10", "New", "new@example.com"))
    for _ in range(3):
        assert await directory.find_caller("U10")
        assert await directory.find_caller("U99") is None
    assert [call["user"] for call in desk.slack.called("users.info")] == ["U04ZHAO", "U10", "U99"]
    assert {one.id for one in await directory.list_people()} == {one.id for one in before} | {"U10"}


async def test_slack_being_away_makes_nobody_a_caller(desk: Desk) -> None:
    directory = people(desk)
    desk.slack.faults["users.info"] = ["fatal_error"] * 3
    with pytest.raises(ChatError):
        await directory.find_caller("U01ZHANG")
    desk.slack.faults["users.list"] = ["fatal_error"] * 3
    with pytest.raises(ChatError):
        await directory.list_people()
    assert await directory.find_caller("U01ZHANG"), "the control"


@pytest.mark.parametrize("right", ["is_admin", "is_owner", "is_primary_owner"])
async def test_who_runs_the_workspace_is_an_administrator_without_a_role(desk: Desk, right: str) -> None:
    desk.slack.members += [
        member("U07", "Owner", "owner@example.com", **{right: True}),
        member("U06", "Guest", "guest@example.com", is_restricted=True, **{right: True}),
    ]
    owner, guest = await desk.directory.find_person("U07"), await desk.directory.find_person("U06")
    assert owner is not None and owner.is_administrator and not owner.roles
    assert guest is not None and not guest.is_administrator


# Managers and departments from the workspace's profile fields


def custom(id: str, label: str, **options: Any) -> dict[str, Any]:
    return {"id": id, "label": label, "type": "text", "options": {"is_protected": True, "is_scim": False} | options}


MANAGER, DEPARTMENT = custom("Xf1", "Manager"), custom("Xf2", "部门")


def slack(desk: Desk, *fields: dict[str, Any], **said: str) -> PlatformDirectory:
    """张 has `said` in the field Xf1 or Xf2."""
    desk.slack.fields = list(fields)
    desk.slack.profiles = {"U01ZHANG": said, "U04ZHAO": {}}
    return desk.open_directory()


async def facts(directory: PlatformDirectory, id: str = "U01ZHANG") -> tuple[str | None, str]:
    person = await directory.find_person(id)
    return person.manager, person.department


@pytest.mark.parametrize("said", ["U04ZHAO", "ZhaoLiu@example.com"])
async def test_manager_and_department_come_from_the_profile(desk: Desk, said: str) -> None:
    """By labels in both languages."""
    directory = slack(desk, MANAGER, DEPARTMENT, custom("Xf3", "Shoe size"), Xf1=said, Xf2=" 销售 ", Xf3="41")
    assert await facts(directory) == ("U04ZHAO", "销售")
    assert await facts(directory, "U04ZHAO") == (None, "")
    assert len(desk.slack.called("team.profile.get")) == 1
    assert all(list(call) == ["user"] for call in desk.slack.called("users.profile.get")), "never with labels"
    for label in ("manager", "MANAGER", "主管", "上级"):
        assert await facts(slack(desk, custom("Xf1", label), Xf1=said)) == ("U04ZHAO", ""), label


async def test_the_file_goes_before_the_profile(desk: Desk) -> None:
    slack(desk, MANAGER, DEPARTMENT, Xf1="U01ZHANG", Xf2="Sales")
    both = DirectoryEntry(email="zhangsan@example.com", manager="zhaoliu@example.com", department="Legal")
    one = both.model_copy(update={"department": ""})
    for said, department, calls in ((both, "Legal", 1), (one, "Sales", 2)):
        desk.slack.calls.clear()
        directory = desk.open_directory({said.email: said})
        await directory.list_people()
        assert await facts(directory) == ("U04ZHAO", department)
        assert len(desk.slack.called("users.profile.get")) == calls, "who is in the file is not asked for"


async def test_a_manager_is_an_id_or_an_address_and_nothing_that_people_write_themselves(desk: Desk) -> None:
    desk.slack.members.append(member("U06", "Guest", "guest@example.com", is_restricted=True))
    desk.slack.members.append(member("U07", "gone@example.com", "seven@example.com"))
    for said in ("Zhao Liu", "zhao", "U99", "gone@example.com", "U06", "", "<@U04ZHAO>"):
        assert await facts(slack(desk, MANAGER, Xf1=said)) == (None, ""), said
    for options in ({"is_protected": False}, {"is_protected": None}):
        desk.slack.calls.clear()
        assert await facts(slack(desk, custom("Xf1", "Manager", **options), Xf1="U04ZHAO")) == (None, "")
        assert desk.slack.called("users.profile.get") == []
        by_scim = slack(desk, custom("Xf1", "Manager", **options, is_scim=True), Xf1="U04ZHAO")
        assert await facts(by_scim) == ("U04ZHAO", "")


async def test_without_profiles_people_are_still_there(desk: Desk) -> None:
    faults: list[str | float] = ["missing_scope", "not_allowed_token_type", "fatal_error", 30.0]
    for method, fault in product(("team.profile.get", "users.profile.get"), faults):
        directory = slack(desk, MANAGER, Xf1="U04ZHAO")
        desk.slack.faults = defaultdict(list, {method: [fault] * 5})
        assert {p.id for p in await directory.list_people()} == {"U01ZHANG", "U04ZHAO"}, (method, fault)


async def test_nobody_is_read_twice_until_their_record_changes(desk: Desk) -> None:
    slack(desk, MANAGER, Xf1="U04ZHAO")
    now = [0.0]
    directory = desk.open_directory(listed_s=1, clock=lambda: now[0])
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
    desk.slack.members.append(member("U10", "New", "new@example.com"))
    desk.slack.profiles["U10"] = {"Xf1": "U04ZHAO"}
    assert await facts(directory, "U10") == ("U04ZHAO", ""), "that of a newcomer is read too"


async def test_many_are_read_a_part_at_a_time(desk: Desk) -> None:
    now = [0.0]
    slack(desk, MANAGER, Xf1="U04ZHAO")
    desk.slack.members += [member(f"U1{n:03d}", f"Person {n}") for n in range(BATCH_SIZE)]
    directory = desk.open_directory(clock=lambda: now[0])
    assert len(await directory.list_people()) == BATCH_SIZE + 2
    assert desk.slack.called("users.profile.get") == [], "nobody waits for so many"
    for _ in range(3):
        await directory.catch_up()
        assert len(desk.slack.called("users.profile.get")) == BATCH_SIZE
    now[0] = 61
    await directory.catch_up()
    assert len(desk.slack.called("users.profile.get")) == len(desk.slack.members)


async def test_a_manager_is_found_whenever_they_join_and_wherever_their_address_moves(desk: Desk) -> None:
    """Their reports were read before them."""
    report = DirectoryEntry(email="zhangsan@example.com", manager="new@example.com")
    directory = desk.open_directory({report.email: report})

    async def hear_of(id: str, email: str) -> str | None:
        desk.slack.members = [one for one in desk.slack.members if one["id"] != id] + [member(id, "New", email)]
        directory.note_changed_person(id)
        await directory.catch_up()
        return (await facts(directory))[0]

    await directory.list_people()
    assert await facts(directory) == (None, "")
    assert await hear_of("U10", "new@example.com") == "U10"
    assert await hear_of("U10", "other@example.com") is None, "the address is nobody's"
    assert await hear_of("U11", "new@example.com") == "U11"
    desk.slack.members = [one for one in desk.slack.members if one["id"] != "U11"]
    directory.note_changed_person("U11")
    await directory.catch_up()
    assert await facts(directory) == (None, ""), "Slack knows them no more"


async def test_of_who_has_left_the_manager_is_known_and_nothing_that_gives_authority(desk: Desk) -> None:
    """Their tasks go to the person above them."""
    entry = DirectoryEntry(
        email="gone@example.com", manager="zhaoliu@example.com", roles=frozenset({"finance"}), title="x"
    )
    desk.slack.members.append(member("U05", "Gone", "gone@example.com", deleted=True))
    directory = desk.open_directory({entry.email: entry})
    assert "U05" not in [one.id for one in await directory.list_people()]
    gone = await directory.find_person("U05")
    assert gone is not None and (gone.manager, gone.roles, gone.active) == ("U04ZHAO", frozenset(), False)
    assert not gone.is_title_official and await directory.find_caller("U05") is None


class FileInHand(DirectoryFile):
    """Changes as soon as it has other `entries` to come."""

    def __init__(self, title: str) -> None:
        super().__init__(None)
        self.change(title)

    def change(self, title: str) -> None:
        names = ("zhangsan@example.com", "zhaoliu@example.com")
        self.to_come = {name: DirectoryEntry(email=name, title=title) for name in names}

    async def reload_if_changed(self, *, at_once: bool = False) -> bool:
        before, self.entries = self.entries, self.to_come
        return before is not self.entries


async def test_a_file_that_changes_while_people_are_built_holds_for_all_of_them(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.people.directory.BUILT_AT_ONCE", 1)
    file = FileInHand("Engineer")
    directory = desk.open_directory(file)
    building = asyncio.create_task(directory.list_people())
    while directory.find_known_person("U01ZHANG") is None:
        await asyncio.sleep(0)
    assert directory.find_known_person("U04ZHAO") is None, "the control: not yet"
    file.change("Director")
    await directory.refresh_people([])
    await building
    assert {one.name: one.title for one in await directory.list_people()} == {
        "Zhang San": "Director",
        "Zhao Liu": "Director",
    }


async def test_a_change_is_not_lost_while_the_same_person_or_somebody_else_is_asked_for(desk: Desk) -> None:
    directory, at_slack = slack(desk, MANAGER), desk.slack
    await directory.list_people()

    def change(name: str) -> None:
        at_slack.members[0] = member("U01ZHANG", name, updated=len(at_slack.calls))
        directory.note_changed_person("U01ZHANG")

    async def get_name() -> str:
        await directory.catch_up()
        found = directory.find_known_person("U01ZHANG")
        return found.name if found else ""

    change("Zhang Er")
    at_slack.calls.clear()
    catching_up = asyncio.create_task(directory.catch_up())
    while not at_slack.called("users.profile.get"):  # which comes once the answer about them is there
        await asyncio.sleep(0)
    change("Zhang Wu")
    await catching_up
    assert await get_name() == "Zhang Wu"
    at_slack.faults["users.info"] = ["not_allowed"]
    at_slack.members[1] = member("U04ZHAO", "Zhao Qi")
    directory.note_changed_person("U04ZHAO")
    change("Zhang Ba")
    assert await get_name() == "Zhang Ba", "although Slack has said nothing about Zhao"
    at_slack.faults["users.info"] = ["fatal_error"] * 3
    change("Zhang Shi")
    with pytest.raises(ChatError):
        await directory.catch_up()
    assert await get_name() == "Zhang Shi" and [one.name for one in await directory.list_people()][1:] == ["Zhao Qi"]
