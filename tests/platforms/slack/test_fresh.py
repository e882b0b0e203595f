"""People as they are now: asked for again where something is decided, and the directory file as it is."""

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bot.core.errors import ChatUnavailableError
from bot.core.timing import FRESH_S
from bot.people.directory import PlatformDirectory
from bot.people.directory_file import DirectoryEntry, DirectoryFile, read_directory_file
from tests.platforms.slack.conftest import Desk
from tests.platforms.slack.doubles import member
from tools.file_stamps import build_stamp

FINANCE = '[[person]]\nemail = "zhaoliu@example.com"\nroles = ["finance"]\n'
BARE = '[[person]]\nemail = "zhaoliu@example.com"\n'
ZHANG, ZHAO = "U01ZHANG", "U04ZHAO"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def write(path: Path, text: str) -> Path:
    """Replaced at once, as editors and deployments do it."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text, encoding="utf-8")
    os.replace(fresh, path)
    return path


def opened(desk: Desk, path: Path | None = None) -> tuple[PlatformDirectory, Clock]:
    clock = Clock()
    return desk.open_directory(DirectoryFile(path, clock), clock=clock), clock


async def test_who_lost_their_membership_a_moment_ago_is_no_caller(desk: Desk) -> None:
    directory, clock = opened(desk)
    assert await directory.list_people()
    for change in ({"deleted": True}, {"is_restricted": True}, {"is_ultra_restricted": True}):
        desk.slack.members[0] |= change
        assert await directory.find_caller(ZHANG), "what was read before still says so: the control"
        clock.now += FRESH_S
        await directory.refresh_people([ZHANG])
        assert await directory.find_caller(ZHANG) is None
        assert ZHANG not in [one.id for one in await directory.list_people()]
        for why in change:
            desk.slack.members[0].pop(why)
        clock.now += FRESH_S
        await directory.refresh_people([ZHANG])
        assert await directory.find_caller(ZHANG)


async def test_who_has_left_does_not_come_back_while_people_are_built_from_what_was_read_before(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.people.directory.BUILT_AT_ONCE", 1)
    zhang, *others = desk.slack.members
    desk.slack.members = [
        *others,
        *(member(f"U{n}", f"Person {n}", f"{n}@example.com") for n in range(500, 1000)),
        zhang,
    ]
    directory, clock = opened(desk)
    await directory.list_people()
    desk.slack.members.append(member("U1000", "Newcomer", "new@example.com"))
    clock.now += FRESH_S
    directory.note_changed_person("U1000")
    building = asyncio.create_task(directory.catch_up())
    while not directory._building.locked():
        await asyncio.sleep(0)
    zhang["deleted"] = True
    await directory.refresh_people([ZHANG])
    assert not building.done(), "the control: most are still to be built"
    while not building.done():
        assert await directory.find_caller(ZHANG) is None
        await asyncio.sleep(0)
    assert len(await directory.list_people()) == 502


async def test_a_decision_waits_for_a_changed_file_that_is_being_read(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, _ = opened(desk, write(tmp_path / "people.toml", FINANCE))
    await directory.list_people()
    write(tmp_path / "people.toml", BARE)
    await asyncio.sleep(0.1)  # a younger change is looked for again in any case
    reading, may_end = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def read_slowly(path: Path) -> Mapping[str, DirectoryEntry]:
        loop.call_soon_threadsafe(reading.set)
        assert may_end.wait(60)
        return read_directory_file(path)

    async def list_deciding_roles() -> frozenset[str]:
        await directory.refresh_people([])
        found = directory.find_known_person(ZHAO)
        return found.roles if found else frozenset({"nobody"})

    monkeypatch.setattr("bot.people.directory_file.read_directory_file", read_slowly)
    first = asyncio.create_task(list_deciding_roles())
    await reading.wait()
    second = asyncio.create_task(list_deciding_roles())
    found = await directory.find_person(ZHAO)
    assert found is not None and found.roles == {"finance"}, "nothing else waits"
    await asyncio.wait([second], timeout=0.2)
    may_end.set()
    assert await asyncio.gather(first, second) == [frozenset(), frozenset()]


async def test_slack_is_asked_once_in_thirty_seconds_and_once_for_many(desk: Desk) -> None:
    directory, clock = opened(desk)
    await directory.list_people()
    await directory.refresh_people([ZHANG, ZHAO])
    assert desk.slack.called("users.info") == [], "everybody has just been read"
    for passed_s, refreshed, asked in (
        (FRESH_S, [[ZHANG]] * 30, [ZHANG]),
        (FRESH_S - 1, [[ZHANG]], []),
        (1, [[ZHANG, ZHANG, ZHAO]], [ZHANG, ZHAO]),
    ):
        clock.now += passed_s
        desk.slack.calls.clear()
        await asyncio.gather(*map(directory.refresh_people, refreshed))
        assert [call["user"] for call in desk.slack.called("users.info")] == asked


async def test_who_is_unknown_by_now_is_nobody_and_in_an_outage_nobody_is_fresh(desk: Desk) -> None:
    directory, clock = opened(desk)
    assert await directory.list_people()
    clock.now += FRESH_S
    desk.slack.faults["users.info"] = ["fatal_error"] * 3
    with pytest.raises(ChatUnavailableError):
        await directory.refresh_people([ZHANG])
    await directory.refresh_people([ZHANG])
    assert await directory.find_caller(ZHANG)
    desk.slack.calls.clear()
    desk.slack.members.pop(0)
    clock.now += FRESH_S
    await directory.refresh_people([ZHANG, "U0NOBODY", "nobody", "", "../x"])
    assert await directory.find_person(ZHANG) is None and await directory.find_caller("U0NOBODY") is None
    assert [call["user"] for call in desk.slack.called("users.info")] == [ZHANG, "U0NOBODY"]


async def test_a_manager_in_the_profile_is_read_again_too(desk: Desk) -> None:
    desk.slack.fields = [{"id": "Xf1", "label": "Manager", "options": {"is_protected": True}}]
    desk.slack.profiles = {ZHANG: {"Xf1": ZHAO}, ZHAO: {}}
    directory, clock = opened(desk)
    found = await directory.find_person(ZHANG)
    assert found and found.manager == ZHAO
    desk.slack.profiles[ZHANG] = {}
    desk.slack.members[0]["updated"] = 2
    clock.now += FRESH_S
    await directory.refresh_people([ZHANG])
    found = await directory.find_person(ZHANG)
    assert found and found.manager is None
    desk.slack.members[0]["updated"] = 3
    desk.slack.faults["users.profile.get"] = ["fatal_error"] * 3
    clock.now += FRESH_S
    with pytest.raises(ChatUnavailableError):
        await directory.refresh_people([ZHANG])


async def roles(directory: PlatformDirectory) -> frozenset[str]:
    return (await directory.find_person(ZHAO)).roles


@pytest.mark.parametrize("at_once", [True, False])
async def test_the_file_is_read_again_when_it_changes(desk: Desk, tmp_path: Path, at_once: bool) -> None:
    """For a decision at once; for anything else within a few seconds."""
    path = write(tmp_path / "directory.toml", FINANCE)
    directory, clock = opened(desk, path)
    assert await roles(directory) == {"finance"}
    write(path, BARE)
    assert await roles(directory) == {"finance"}, "nobody looks at it all the time"
    if at_once:
        await directory.refresh_people([])
    clock.now += 3
    assert await roles(directory) == frozenset()
    assert len(desk.slack.called("users.info")) == 1, "and nobody is asked for again"
    write(path, FINANCE)
    clock.now += 3
    assert await roles(directory) == {"finance"}


async def test_a_broken_file_changes_nothing_and_is_logged_once(desk: Desk, tmp_path: Path) -> None:
    """Nor does a file that is gone."""
    path = tmp_path / "directory.toml"
    directory, clock = opened(desk, write(path, FINANCE))
    for broken in ("[[person]]\nemail = 5", "garbage", '[[person]]\nemail = "x"', None):
        assert await roles(directory) == {"finance"}
        path.unlink() if broken is None else write(path, broken)
        with capture_logs() as logged:
            for _ in range(4):
                clock.now += 3
                assert await roles(directory) == {"finance"}
        if broken is not None:
            (said,) = [one for one in logged if one["event"] == "directory.not_read"]
            assert said["log_level"] == "error" and "directory.toml" in said["error"]
        write(path, BARE)
        clock.now += 3
        assert await roles(directory) == frozenset(), "as soon as it can be used"
        write(path, FINANCE)
        clock.now += 3


async def test_every_way_of_writing_is_noticed(tmp_path: Path) -> None:
    """In place, replaced, and replaced by as many characters."""
    edits: tuple[Callable[[Path], object], ...] = (
        lambda path: path.write_text(BARE, encoding="utf-8"),
        lambda path: write(path, BARE),
        lambda path: write(path, BARE + "# " + "x" * (len(FINANCE) - len(BARE) - 2)),
    )
    for number, edit in enumerate(edits):
        path = write(tmp_path / f"directory{number}.toml", FINANCE)
        file = DirectoryFile(path)
        edit(path)
        assert await file.reload_if_changed(at_once=True) and not file.entries["zhaoliu@example.com"].roles
        assert not await file.reload_if_changed(at_once=True), "once"


async def test_a_change_is_not_missed_because_whoever_noticed_it_did_not_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A press on Home, for example, waits for a second or two."""
    path, begun, go_on = write(tmp_path / "directory.toml", FINANCE), threading.Event(), threading.Event()

    def read_slowly(path: Path | None) -> Mapping[str, DirectoryEntry]:
        begun.set()
        go_on.wait(30)
        return read_directory_file(path)

    file = DirectoryFile(path)
    write(path, BARE)
    while build_stamp(path.stat())[-1]:  # a younger change is looked for again in any case
        await asyncio.sleep(0.01)
    monkeypatch.setattr("bot.people.directory_file.read_directory_file", read_slowly)
    noticed = asyncio.create_task(file.reload_if_changed(at_once=True))
    await asyncio.to_thread(begun.wait, 30)
    noticed.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await noticed
    assert await file.reload_if_changed(at_once=True) and not file.entries["zhaoliu@example.com"].roles
