"""The workspace's memory over a restart, and the trouble a snapshot can be in."""

import json
from pathlib import Path

from bot.dev.workspace.state import WorkspaceState, build_initial_state
from bot.dev.workspace.workspace import Workspace
from bot.dev.workspace.world import read_world
from tests.dev.workspace.blocks import actions, button, modal
from tests.dev.workspace.hands import DM_ZHANG, GENERAL, LI, ZHANG, setup, web_client
from tests.harness.hands import Hands
from tests.harness.workspace_server import serve_workspace

HOME = {"type": "home", "blocks": [{"type": "divider"}]}


async def test_restart_keeps_everything_people_see(tmp_path: Path) -> None:
    first = Workspace(setup(), folder=tmp_path)
    async with serve_workspace(first):
        driver, client = Hands(first), web_client(first)
        root = await driver.send_message(ZHANG, GENERAL, "hello")
        await client.chat_postMessage(channel=GENERAL, thread_ts=root, text="a card", blocks=[actions(button())])
        await client.chat_postEphemeral(channel=GENERAL, user=LI, text="psst")
        await client.views_publish(user_id=ZHANG, view=HOME)
        await client.views_open(trigger_id=first.triggers.create_trigger(ZHANG), view=modal())
        first.get_person(LI).locale = "en-US"
        before = driver.list_messages(GENERAL)
    second = Workspace(setup(), folder=tmp_path)
    driver = Hands(second)
    assert driver.list_messages(GENERAL) == before
    assert driver.list_thread_messages(GENERAL, root)[0]["reply_count"] == 1
    assert driver.list_ephemerals(LI)[0]["text"] == "psst"
    assert driver.homes[ZHANG]["blocks"][0]["type"] == "divider"
    assert driver.list_open_views(ZHANG)[0]["title"]["text"] == "Title"
    assert second.get_person(LI).locale == "en-US"
    assert second.state.count_unread(LI, second.state.rooms[GENERAL]) == 2
    async with serve_workspace(second):
        assert await driver.send_message(ZHANG, DM_ZHANG, "later") > before[-1]["ts"]


async def test_a_snapshot_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    """Its rooms said besides whether another company reads them."""
    first = Workspace(setup(), folder=tmp_path)
    async with serve_workspace(first):
        await Hands(first).send_message(ZHANG, GENERAL, "hello")
    saved = json.loads(snapshot(tmp_path))
    for room in saved["rooms"]:
        room["is_ext_shared"] = False
    (tmp_path / "workspace.json").write_text(json.dumps(saved), "utf-8")
    assert Hands(Workspace(setup(), folder=tmp_path)).list_messages(GENERAL)[-1]["text"] == "hello"


async def test_changes_are_on_disk_soon(tmp_path: Path) -> None:
    """Without a proper close, as after a kill."""
    ws = Workspace(setup(), folder=tmp_path)
    async with serve_workspace(ws):
        driver = Hands(ws, recheck_s=0.05)
        await driver.send_message(ZHANG, GENERAL, "hello")
        await driver.wait_until(lambda: "hello" in snapshot(tmp_path))


def snapshot(folder: Path) -> str:
    file = folder / "workspace.json"
    return file.read_text("utf-8") if file.exists() else ""


def test_an_unreadable_snapshot_is_set_aside(tmp_path: Path) -> None:
    for number, text in enumerate(("{", "[]", json.dumps({"version": 99}), '{"version": 1}')):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "workspace.json").write_text(text, "utf-8")
        assert not Workspace(setup(), folder=folder).state.rooms[GENERAL].messages
        assert (folder / "workspace.unreadable").read_text("utf-8") == text


def test_stamps_rise_even_when_the_clock_goes_back() -> None:
    state: WorkspaceState = build_initial_state(read_world())
    stamps = [state.create_timestamp(now) for now in (1000.0, 1000.0, 900.0, 1000.000002, 2000.5)]
    assert stamps == sorted(set(stamps))
    assert stamps[-1] == "2000.500000"
