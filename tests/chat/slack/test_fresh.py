"""People as they are now: asked for again where something is decided, and the directory file as it is."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bot.chat.slack.directory import SlackMembers
from bot.core.errors import ChatUnavailableError
from bot.core.timing import FRESH_S
from bot.people.directory import PlatformDirectory
from bot.people.directory_file import DirectoryFile
from tests.chat.slack.conftest import Desk
from tests.chat.slack.doubles import ME

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
    return PlatformDirectory(SlackMembers(desk.client, ME.team), DirectoryFile(path, clock), clock=clock), clock


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


async def test_slack_is_asked_once_in_thirty_seconds_and_once_for_many(desk: Desk) -> None:
    directory, clock = opened(desk)
    await directory.list_people()
    await directory.refresh_people([ZHANG, ZHAO])
    assert desk.slack.called("users.info") == [], "everybody has just been read"
    clock.now += FRESH_S
    await asyncio.gather(*(directory.refresh_people([ZHANG]) for _ in range(30)))
    assert len(desk.slack.called("users.info")) == 1
    clock.now += FRESH_S - 1
    await directory.refresh_people([ZHANG])
    assert len(desk.slack.called("users.info")) == 1
    clock.now += 1
    await directory.refresh_people([ZHANG, ZHANG, ZHAO])
    assert [call["user"] for call in desk.slack.called("users.info")] == [ZHANG, ZHANG, ZHAO]


async def test_while_slack_is_away_nothing_is_said_to_be_fresh(desk: Desk) -> None:
    directory, clock = opened(desk)
    assert await directory.find_caller(ZHANG)
    clock.now += FRESH_S
    desk.slack.faults["users.info"] = ["fatal_error"] * 3
    with pytest.raises(ChatUnavailableError):
        await directory.refresh_people([ZHANG])
    await directory.refresh_people([ZHANG])
    assert await directory.find_caller(ZHANG)


async def test_who_is_unknown_to_slack_by_now_is_nobody(desk: Desk) -> None:
    directory, clock = opened(desk)
    assert await directory.list_people()
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
    found = await directory.find_person(ZHAO)
    assert found is not None
    return found.roles


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
    path = write(tmp_path / "directory.toml", FINANCE)
    directory, clock = opened(desk, path)
    for broken in ("[[person]]\nemail = 5", "garbage", '[[person]]\nemail = "x"'):
        assert await roles(directory) == {"finance"}
        write(path, broken)
        with capture_logs() as logged:
            for _ in range(4):
                clock.now += 3
                assert await roles(directory) == {"finance"}
        (said,) = [one for one in logged if one["event"] == "directory.not_read"]
        assert said["log_level"] == "error" and "directory.toml" in said["error"]
        write(path, BARE)
        clock.now += 3
        assert await roles(directory) == frozenset(), "as soon as it can be used"
        write(path, FINANCE)
        clock.now += 3


async def test_a_file_that_is_gone_changes_nothing(desk: Desk, tmp_path: Path) -> None:
    path = write(tmp_path / "directory.toml", FINANCE)
    directory, clock = opened(desk, path)
    assert await roles(directory) == {"finance"}
    path.unlink()
    for _ in range(2):
        clock.now += 3
        assert await roles(directory) == {"finance"}
    write(path, BARE)
    clock.now += 3
    assert await roles(directory) == frozenset()


EDITS: list[Callable[[Path], object]] = [
    lambda path: path.write_text(BARE, encoding="utf-8"),
    lambda path: write(path, BARE),
    lambda path: write(path, BARE + "# " + "x" * (len(FINANCE) - len(BARE) - 2)),
]


async def test_every_way_of_writing_is_noticed(tmp_path: Path) -> None:
    """In place, replaced, and replaced by as many characters."""
    for number, edit in enumerate(EDITS):
        path = write(tmp_path / f"directory{number}.toml", FINANCE)
        file = DirectoryFile(path)
        edit(path)
        assert await file.reload_if_changed(at_once=True) and not file.entries["zhaoliu@example.com"].roles
        assert not await file.reload_if_changed(at_once=True), "once"
