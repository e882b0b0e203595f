"""What the stand-ins keep is for the one who runs the bot, and for nobody else on the machine."""

import os
import stat
from pathlib import Path

import pytest

from bot.app.build import build_app
from bot.app.services import open_services
from bot.app.settings import Settings
from bot.core.private import make_private_folder, open_private, restrict_permissions
from tests.harness.programs import free_ports


def find_open_to_others(folder: Path) -> list[str]:
    """Everything in a folder, and the folder, that somebody else may read, write or enter."""
    found = [folder, *folder.rglob("*")]
    return [f"{stat.filemode(one.lstat().st_mode)} {one}" for one in found if one.lstat().st_mode & 0o077]


@pytest.fixture
def everybody() -> object:
    """A umask that hides nothing."""
    before = os.umask(0)
    yield
    os.umask(before)


async def test_a_running_installation_has_nothing_that_others_may_read(tmp_path: Path, everybody: object) -> None:
    folder = tmp_path / "data"
    settings = Settings(_env_file=None, data_dir=folder, local_port=free_ports())
    async with open_services(settings) as outside, build_app(settings, outside):
        names = {one.name for one in folder.rglob("*")}
        assert {"redis", "appendonlydir", "redis.sock", "server.log"} <= names, "something is kept there"
        assert find_open_to_others(folder) == []
    assert find_open_to_others(folder) == [], "and what is written at the end neither"


def test_what_is_written_is_private_from_its_first_moment_and_what_was_left_open_is_made_so(
    tmp_path: Path, everybody: object
) -> None:
    """An earlier version has left it open."""
    folder = tmp_path / "redis"
    (folder / "appendonlydir").mkdir(parents=True)
    (folder / "appendonlydir" / "appendonly.aof").write_text("x")
    (folder / "mails.jsonl").write_text("x")
    assert len(find_open_to_others(folder)) == 4, "the control"
    make_private_folder(folder)
    restrict_permissions(folder)
    with open_private(folder / "mails.jsonl", "a") as opened, open_private(folder / "new", "a", encoding="utf-8"):
        assert find_open_to_others(folder) == []
        opened.write("y")
    assert (folder / "mails.jsonl").read_text() == "xy"
    outside, link = tmp_path / "theirs", folder / "link"
    outside.write_text("x")
    link.symlink_to(outside)
    restrict_permissions(folder)
    assert outside.stat().st_mode & 0o077, "a link out of the folder changes nothing elsewhere"
    make_private_folder(tmp_path / "a" / "b")
    assert find_open_to_others(tmp_path / "a" / "b") == []
