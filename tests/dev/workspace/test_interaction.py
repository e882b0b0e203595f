"""Trigger ids, dialogs, stale presses: what a press may do, how often, and for how long."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from bot.dev.workspace.delivery import DeliveryTiming
from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.workspace import Workspace
from bot.dev.workspace.world import Json
from tests.dev.workspace.blocks import actions, button, field, modal, options, select
from tests.dev.workspace.hands import DM_ZHANG, GENERAL, LI, ZHANG, Obedient, SetClock, error_of, setup
from tests.harness.hands import Hands
from tests.harness.workspace_server import serve_workspace


@pytest.fixture
def app() -> Obedient:
    return Obedient()


@pytest.fixture
async def workspace(clock: SetClock, app: Obedient) -> AsyncIterator[Workspace]:
    ws = Workspace(setup(timing=DeliveryTiming()), clock=clock)
    ws.delivery.carrier = app
    async with serve_workspace(ws):
        yield ws


def why(**more: Any) -> Json:
    """A dialog that asks for a short text."""
    element = {"type": "plain_text_input", "action_id": "text", "max_length": 10}
    return modal(field(element, "why", "Why"), **more)


async def open_view(workspace: Workspace, client: AsyncWebClient, view: Json) -> str:
    """Open a dialog for Zhang and return its id."""
    opened = await client.views_open(trigger_id=workspace.triggers.create_trigger(ZHANG), view=view)
    return str(opened["view"]["id"])


async def test_triggers_open_one_dialog_each_and_dialogs_stack_three_high(
    workspace: Workspace, driver: Hands, client: AsyncWebClient, clock: SetClock
) -> None:
    mint = workspace.triggers.create_trigger
    used, late = mint(ZHANG), mint(ZHANG)
    root = (await client.views_open(trigger_id=used, view=why()))["view"]
    assert await error_of(client.views_open(trigger_id=used, view=why())) == "exchanged_trigger_id"
    clock.now += 3.1
    assert await error_of(client.views_open(trigger_id=late, view=why())) == "expired_trigger_id"
    assert await error_of(client.views_open(trigger_id="12345.98765.abcd", view=why())) == "invalid_trigger_id"
    fresh, wrong = mint(ZHANG), {"type": "modal", "blocks": []}
    assert await error_of(client.views_push(trigger_id=fresh, view=wrong)) == "invalid_arguments"
    for trigger in (fresh, mint(ZHANG)):
        top = (await client.views_push(trigger_id=trigger, view=why()))["view"]
    assert (top["root_view_id"], len(driver.list_open_views(ZHANG))) == (root["id"], 3)
    assert await error_of(client.views_push(trigger_id=mint(ZHANG), view=why())) == "push_limit_reached"
    new = await client.views_update(view_id=top["id"], view=why(callback_id="new"), hash=top["hash"])
    assert driver.find_top_view(ZHANG) == new["view"]
    stale = client.views_update(view_id=top["id"], view=why(), hash=top["hash"])
    assert await error_of(stale) == "hash_conflict"
    assert await error_of(client.views_update(view_id="V0", view=why())) == "not_found"
    await client.views_open(trigger_id=mint(ZHANG), view=why())
    assert len(driver.list_open_views(ZHANG)) == 1


def ask(block: str, action: str = "a", *, tells: bool = False) -> Json:
    return field({"type": "plain_text_input", "action_id": action}, block, dispatch_action=tells)


def typed(app: Obedient) -> Json:
    """What the app was last told of the fields."""
    values = app.got[-1].payload["view"]["state"]["values"]
    return {block: entry["value"] for block, entries in values.items() for entry in entries.values()}


async def test_the_app_hears_of_changes_where_it_asked_to_and_what_was_typed_stays_where_it_can(
    workspace: Workspace, driver: Hands, client: AsyncWebClient, app: Obedient
) -> None:
    view = await open_view(workspace, client, modal(ask("quiet"), ask("loud", tells=True)))
    assert (await driver.change_input(ZHANG, view, "quiet", "one")).ok and not app.got
    assert (await driver.change_input(ZHANG, view, "loud", "two")).ok
    told = app.got[-1].payload
    [action] = told["actions"]
    assert (told["type"], action["block_id"], action["value"]) == ("block_actions", "loud", "two")
    assert typed(app) == {"quiet": "one", "loud": "two"}
    view = await open_view(workspace, client, modal(ask("same"), ask("moved"), ask("gone")))
    for block in ("same", "moved", "gone"):
        await driver.change_input(ZHANG, view, block, block)
    await client.views_update(view_id=view, view=modal(ask("same"), ask("moved", "b"), ask("new")))
    await driver.submit_view(ZHANG, view, {}, force=True)
    assert typed(app) == {"same": "same", "moved": None, "new": None}


async def test_what_an_answer_does_and_what_the_composer_refuses(
    workspace: Workspace, driver: Hands, client: AsyncWebClient, app: Obedient
) -> None:
    for action, left in (("update", ["next"]), ("push", ["", "next"]), ("clear", []), ("", [])):
        view = await open_view(workspace, client, why())
        app.answer = {"response_action": action, "view": why(callback_id="next")} if action else {}
        assert (await driver.submit_view(ZHANG, view, {"why": "because"})).ok
        assert [v["callback_id"] for v in driver.list_open_views(ZHANG)] == left, action
    app.answer, answered = {}, len(app.got)
    view = await open_view(workspace, client, why())
    for text, error in (("", "required"), ("x" * 11, "too_long")):
        assert (await driver.submit_view(ZHANG, view, {"why": text})).errors == {"why": error}
    assert len(app.got) == answered
    for person, block, error in ((ZHANG, "other", "invalid_block_id"), (LI, "why", "view_not_found")):
        with pytest.raises(WorkspaceError, match=error):
            await driver.submit_view(person, view, {block: "x"})
    assert (await driver.submit_view(ZHANG, view, {}, force=True)).ok
    assert app.last["view"]["state"]["values"]["why"]["text"] == {"type": "plain_text_input", "value": None}


async def test_buttons_that_are_gone(
    workspace: Workspace, driver: Hands, client: AsyncWebClient, app: Obedient
) -> None:
    ts = (
        await client.chat_postMessage(
            channel=GENERAL, text="x", blocks=[actions(button("approve", value="v1"), block_id="a")]
        )
    )["ts"]
    assert (await driver.click_button(ZHANG, GENERAL, ts, "approve")).ok
    await client.chat_update(channel=GENERAL, ts=ts, text="done", blocks=[])
    with pytest.raises(WorkspaceError, match="action_not_found"):
        await driver.click_button(ZHANG, GENERAL, ts, "approve")
    assert (await driver.click_button(ZHANG, GENERAL, ts, "approve", force=True)).ok
    assert app.last["actions"][0]["value"] == "v1"
    assert app.last["message"]["text"] == "done"
    await driver.click_button(ZHANG, GENERAL, ts, "approve", force=True, value="forged")
    assert app.last["actions"][0]["value"] == "forged"
    await driver.click_button(ZHANG, GENERAL, ts, "never_there", force=True, value="x")
    assert app.last["actions"][0]["action_id"] == "never_there"
    with pytest.raises(WorkspaceError, match="not_in_channel"):
        await driver.click_button(LI, DM_ZHANG, ts, "approve")


async def test_what_a_person_cannot_send(driver: Hands) -> None:
    ts = await driver.send_message(ZHANG, GENERAL, "x" * 40_000)
    for act, error in (
        (driver.send_message(ZHANG, GENERAL, " \n"), "no_text"),
        (driver.send_message(ZHANG, GENERAL, "x" * 40_001), "msg_too_long"),
        (driver.send_message(LI, DM_ZHANG, "x"), "not_in_channel"),
        (driver.send_message("U0BOT", GENERAL, "x"), "user_not_found"),
        (driver.edit_message(LI, GENERAL, ts, "y"), "cant_update_message"),
    ):
        with pytest.raises(WorkspaceError, match=error):
            await act


def boxes(*values: str, ticked: tuple[str, ...] = ()) -> list[Json]:
    initial = {"initial_options": options(*ticked)} if ticked else {}
    element = select(*options(*values), type="checkboxes", action_id="tick", **initial)
    return [actions(element, block_id="t"), actions(button("go"), block_id="a")]


def chosen(app: Obedient) -> list[str]:
    return [one["value"] for one in app.last["state"]["values"]["t"]["tick"]["selected_options"]]


async def test_ticks_of_a_message_come_with_every_press_and_stay_while_it_is_rewritten(
    driver: Hands, client: AsyncWebClient, app: Obedient
) -> None:
    sent = await client.chat_postMessage(
        channel=DM_ZHANG, text="x", blocks=boxes("1", "2", "3", ticked=("1", "2", "3"))
    )
    ts = sent["ts"]
    await driver.click_button(ZHANG, DM_ZHANG, ts, "go")
    assert chosen(app) == ["1", "2", "3"], "as they are at first"
    await driver.click_button(ZHANG, DM_ZHANG, ts, "tick", value=["1", "3"])
    assert app.last["actions"][0]["selected_options"] == options("1", "3")
    assert chosen(app) == ["1", "3"]
    await client.chat_update(channel=DM_ZHANG, ts=ts, text="x", blocks=boxes("2", "3", ticked=("2", "3")))
    await driver.click_button(ZHANG, DM_ZHANG, ts, "go")
    assert chosen(app) == ["3"], "what is not there any more is not ticked"
    with pytest.raises(WorkspaceError, match="invalid_option"):
        await driver.click_button(ZHANG, DM_ZHANG, ts, "tick", value=["1"])
