"""Requests by a dialog: opened by a command, from Home or by a shortcut, built from the process's own file. No model is
asked. Submitting leads to the same card as a conversation, and starts nothing by itself."""

import asyncio
from typing import Any

import pytest
from slack_sdk.models.views import View

from bot.dev.evaluation.shown_blocks import list_buttons, read_message_text
from bot.features import request_forms
from bot.platforms.slack import forms
from tests.harness.office import ADMIN, ANN, CHAT, GENERAL, LI, ZHANG, Office, found_request
from tools.workflow.process.definition import compile_process

LEAVE = {"leave_type": "sick", "start_date": "2026-12-07", "end_date": "2026-12-09", "reason": "胃疼，要去医院"}


TEXT = """
[[field]]
name = "text_{name}"
kind = "text"
label = {{ zh = "text_{name}", en = "text_{name}" }}
help = {{ zh = "x", en = "x" }}
"""
CLAIM = {"amount": "84.50", "currency": "CNY", "category": "transport", "reason": "taxi to the client"}


async def open_form(office: Office) -> dict[str, Any]:
    """Open the dialog of `/leave` for Zhang San."""
    done = await office.driver.run_slash_command(ZHANG, office.dm(ZHANG), "/leave")
    assert done.ok and not done.answer
    return await office.until(lambda: office.driver.find_top_view(ZHANG))


async def put(office: Office, **values: str | list[str]) -> None:
    """Fill in the open dialog, field by field."""
    for name, value in values.items():
        view = office.driver.find_top_view(ZHANG)
        await office.driver.change_input(ZHANG, view["id"], name, value)


async def submit(office: Office, **values: str | list[str]) -> Any:
    view = office.driver.find_top_view(ZHANG)
    return await office.driver.submit_view(ZHANG, view["id"], values)


def names(view: dict[str, Any] | None) -> list[str]:
    """List the fields of a dialog."""
    return [block["block_id"] for block in (view or {}).get("blocks", []) if block["type"] == "input"]


def notes(view: dict[str, Any] | None) -> str:
    """Return the text of a dialog besides its fields."""
    blocks = [one for one in (view or {}).get("blocks", []) if one["type"] == "context"]
    return "\n".join(element["text"] for block in blocks for element in block["elements"])


def shown(office: Office) -> str:
    return notes(office.driver.find_top_view(ZHANG))


async def test_a_leave_takes_three_presses_and_no_model(desk: Office) -> None:
    desk.answering.clear()  # nothing that asks a model gets an answer
    view = await open_form(desk)  # 1
    assert view["title"]["text"] == "请假" and len(names(view)) <= 6
    made = ("type", "title", "submit", "close", "blocks", "callback_id", "private_metadata")
    if CHAT == "slack":
        View(**{key: view[key] for key in made}).validate_json()
    assert (await submit(desk, **LEAVE)).ok  # 2
    assert desk.driver.find_top_view(ZHANG) is None, "the dialog closes"
    card = await desk.card(desk.dm(ZHANG), "病假")
    assert [one["action_id"] for one in list_buttons(card)] == ["cs:confirm", "cs:edit", "cs:cancel"]
    assert all(word in read_message_text(card) for word in ("3 个工作日", "胃疼，要去医院", "李四"))
    assert not desk.cards(desk.dm(LI)), "nothing is started by the dialog"
    await desk.press(ZHANG, card, "confirm")  # 3
    task = await desk.card(desk.dm(LI), "病假")
    request = found_request(read_message_text(task))
    assert request.startswith("L-")
    await desk.until(lambda: request in desk.said(desk.dm(ZHANG)))
    kinds = await desk.kinds()
    assert "form.submitted" in kinds and not {"step", "run.finished", "model.down"} & {*kinds}, "no model was asked"


async def test_it_is_acknowledged_while_everything_of_slack_hangs_and_no_listener_outlives_the_bot(
    empty: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listener that outlives it would continue with a closed store."""

    def list_bolts_tasks() -> list[str]:
        return [one for task in asyncio.all_tasks() if "run_ack_function" in (one := repr(task.get_coro()))]

    monkeypatch.setattr(request_forms, "CHECK_S", 0.8)
    async with empty.opened():
        view = await open_form(empty)
        empty.driver.delay_answers(600)
        for act in (
            lambda: empty.driver.change_input(ZHANG, view["id"], "start_date", "2026-12-07"),
            lambda: empty.driver.submit_view(ZHANG, view["id"], LEAVE),
            lambda: empty.driver.run_slash_command(ZHANG, empty.dm(ZHANG), "/leave"),
            lambda: empty.driver.use_shortcut(ZHANG, "cs:request"),
        ):
            assert (await act()).ok
        assert list_bolts_tasks() or CHAT == "feishu"
    assert not list_bolts_tasks()


@pytest.mark.parametrize("believes_the_view", [False, True])
async def test_what_somebody_else_submits_is_their_own_and_nobody_elses(
    desk: Office, monkeypatch: pytest.MonkeyPatch, believes_the_view: bool
) -> None:
    """The payload names the submitter; nothing in the view does. With its control."""
    parse = forms.parse_form
    if believes_the_view:
        monkeypatch.setattr(forms, "parse_form", lambda body: parse({**body, "user": {"id": ZHANG}}))
    view = await open_form(desk)
    desk.driver.ws.state.stacks[LI] = [view["id"]]
    await desk.driver.submit_view(LI, view["id"], LEAVE)
    if believes_the_view:
        await desk.card(desk.dm(ZHANG), "病假")
        return
    await desk.quiet()
    assert not desk.cards(desk.dm(ZHANG)), "nothing in the name of who opened it"
    ids = [str(next(list_buttons(one))["value"]).partition(".")[0] for one in desk.cards(desk.dm(LI))]
    made = [await desk.approvals.load_approval(id) for id in ids]
    assert [(one.caller, one.proposal.deciders) for one in made if one] == [(LI, (LI,))]


async def test_a_field_that_nobody_was_asked_for_is_refused(desk: Office) -> None:
    view = await open_form(desk)
    label = {"type": "plain_text", "text": "seen"}
    element = {"type": "plain_text_input", "action_id": "cs:form:input:leave"}
    view["blocks"].append({"type": "input", "block_id": "seen", "label": label, "element": element})
    done = await submit(desk, **LEAVE, seen="0" * 16)
    assert done.errors and not desk.cards(desk.dm(ZHANG))


async def test_guests_get_no_form(desk: Office) -> None:
    desk.driver.ws.get_person(ANN.id).is_restricted = True
    desk.driver.ws.send_event("user_change", {"type": "user_change", "user": {"id": ANN.id}})
    known = desk.bot.resources.platform.directory
    await desk.until(lambda: (person := known.find_known_person(ANN.id)) and not person.active)
    await desk.driver.run_slash_command(ANN.id, desk.dm(ANN.id), "/leave")
    await desk.until(lambda: "only work for members" in desk.whispers(ANN.id))
    assert desk.driver.find_top_view(ANN.id) is None


async def test_length_balance_and_deciders_are_told_as_soon_as_the_days_are_chosen(desk: Office) -> None:
    assert not notes(await open_form(desk))
    await put(desk, reason="看父母", leave_type="annual", start_date="2026-12-07", end_date="2026-12-16")
    await desk.until(lambda: "8 个工作日" in shown(desk))
    told = shown(desk)
    assert "共 15 天，通过后还剩 7 天" in told and "李四" in told and "王五" in told
    await put(desk, end_date="2026-12-31")
    await desk.until(lambda: "⚠️" in shown(desk))
    await put(desk, end_date="2026-12-16")
    await desk.until(lambda: "⚠️" not in shown(desk))
    assert (await submit(desk)).ok, "what was typed is still there after every change"
    await desk.card(desk.dm(ZHANG), "看父母")


async def test_half_days_and_copies_stand_on_a_second_page(desk: Office) -> None:
    view = await open_form(desk)
    await put(desk, **LEAVE)
    await desk.driver.click_view_button(ZHANG, view["id"], "cs:form:more")
    second = await desk.until(lambda: (desk.driver.list_open_views(ZHANG)[1:] or [None])[0])
    assert {"start_half", "end_half", "handover", "cc"} <= set(names(second)) and len(names(second)) <= 6
    assert "3 个工作日" in notes(second)
    await put(desk, start_half="pm")
    if CHAT == "slack":
        await desk.until(lambda: "2.5 个工作日" in shown(desk))
    assert (await submit(desk, cc=[ADMIN])).ok
    assert not desk.driver.list_open_views(ZHANG), "both pages close"
    assert "2.5 个工作日" in read_message_text(await desk.card(desk.dm(ZHANG), "病假"))


async def test_a_process_of_ones_own_has_a_form_as_soon_as_it_is_deployed_on_as_many_pages_as_it_needs(
    desk: Office,
) -> None:
    engine = desk.bot.resources.engine
    more = "".join(TEXT.format(name=name) for name in "abcd")
    leave = next(one for one in await engine.list_processes() if one.key == "leave")
    await engine.deploy_process(compile_process(leave.bpmn, leave.toml + more.encode()))  # type: ignore[attr-defined]
    view = await open_form(desk)
    assert len(names(view)) == 6 and view["submit"]["text"] == "下一步"
    form = {**LEAVE, **{f"text_{name}": name for name in "abcd"}}
    refused = await submit(desk, **{**{n: form[n] for n in names(view) if n in form}, "end_date": "2026-12-01"})
    assert list(refused.errors) == ["end_date"], "the page in front is checked before the next one opens"
    assert (await submit(desk, **{n: form[n] for n in names(view) if n in form})).ok
    second = desk.driver.find_top_view(ZHANG)
    assert second and not set(names(second)) & set(names(view)) and "3 个工作日" in notes(second)
    assert not desk.cards(desk.dm(ZHANG))
    await submit(desk, **{n: form[n] for n in names(second) if n in form})
    card = read_message_text(await desk.card(desk.dm(ZHANG), "病假"))
    assert all(f"text_{name}" in card for name in "abcd")


async def test_home_opens_a_form_and_the_kind_can_be_changed(desk: Office) -> None:
    desk.answering.clear()  # nothing that asks a model gets an answer
    await desk.driver.open_home(ZHANG)
    home = await desk.until(lambda: desk.driver.homes.get(ZHANG))
    await desk.driver.click_view_button(ZHANG, home["id"], "cs:form:open")  # 1
    view = await desk.until(lambda: desk.driver.find_top_view(ZHANG))
    assert view["title"]["text"] == "请假"
    await desk.driver.click_view_button(ZHANG, view["id"], "cs:form:process", value="expense")
    await desk.until(lambda: "amount" in names(desk.driver.find_top_view(ZHANG)))
    await submit(desk, **CLAIM)  # 2
    await desk.press(ZHANG, await desk.card(desk.dm(ZHANG), "84.50"), "confirm")  # 3
    await desk.card(desk.dm(LI), "84.50")


async def test_a_long_message_is_bounded_and_a_longer_one_not_read(desk: Office) -> None:
    for length, kept in ((3_000, 500), (61_000, 0)):
        ts = await desk.driver.send_message(LI, GENERAL, "x")
        desk.driver.ws.state.rooms[GENERAL].messages[ts]["text"] = "x" * length
        await desk.driver.use_shortcut(ZHANG, "cs:request:expense", GENERAL, ts)
        view = await desk.until(lambda: desk.driver.find_top_view(ZHANG))
        reason = next(block for block in view["blocks"] if block["block_id"] == "reason")
        assert len(reason["element"].get("initial_value", "")) == kept
        await desk.driver.close_view(ZHANG, view["id"])
